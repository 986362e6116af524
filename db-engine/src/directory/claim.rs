//! Taking a directory: the lock, and the file that says it is a database of ours.

use std::io;

use super::Sequential;
use crate::{
    error::{Error, Result},
    io::Operation,
};

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.tmp";
const FORMAT_MAGIC: [u8; 8] = *b"SANDGLDB";

/// The version of all formats in a directory together.
const FORMAT_VERSION: u32 = 1;

/// Takes the directory, which must be ours or empty.
pub(crate) fn claim(files: &mut Sequential<'_>) -> Result<()> {
    let locked = files.complete(Operation::Lock { name: LOCK.into() });
    if let Err(error) = locked.result {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(Error::io(LOCK, error));
        }
        let what = "another engine is using this directory. Stop it, or choose another directory \
                    with --data-dir";
        return Err(Error::Unusable { path: LOCK.into(), what: what.into() });
    }
    let names = files.names()?;
    if names.contains(FORMAT) {
        let bytes = files.read_file(FORMAT)?;
        return check_format(bytes.as_slice());
    }
    if let Some(name) = names.iter().find(|name| ![LOCK, FORMAT_NEW].contains(&name.as_str())) {
        let what = format!(
            "the directory has no file {FORMAT}, so it is not a database, and it is not empty \
             either. Choose an empty or a new directory with --data-dir"
        );
        return Err(Error::Unusable { path: name.into(), what });
    }
    let mut bytes = FORMAT_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    files.replace_file(FORMAT_NEW, FORMAT, &bytes)
}

fn check_format(bytes: &[u8]) -> Result<()> {
    let unusable = |what: String| Err(Error::Unusable { path: FORMAT.into(), what });
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
        return unusable("it is cut short. Restore the directory from a backup".into());
    };
    let version = body
        .strip_prefix(&FORMAT_MAGIC)
        .and_then(|version| version.first_chunk())
        .map(|version| u32::from_le_bytes(*version));
    match version {
        None => unusable("this is not a database of Sandglass. Choose another --data-dir".into()),
        Some(version) if version > FORMAT_VERSION => unusable(format!(
            "the directory has format {version}, and this engine knows formats up to \
             {FORMAT_VERSION}. Use the engine that wrote it, or a newer one"
        )),
        Some(version)
            if version < FORMAT_VERSION || crc32fast::hash(body) != u32::from_le_bytes(*sum) =>
        {
            unusable("it is damaged. Restore the directory from a backup".into())
        }
        Some(_) => Ok(()),
    }
}
