//! Taking a directory: the lock, and the file that says it is a database of ours.

use std::io;

use super::Sequential;
use crate::{
    error::{Error, Result},
    io::Operation,
};

pub(super) const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.tmp";

const FORMAT_MAGIC: [u8; 8] = *b"SANDGLDB";

/// The version of all formats in a directory together.
pub(super) const FORMAT_VERSION: u32 = 2;

/// The oldest version that is read.
const FORMAT_VERSION_MIN: u32 = 1;

/// Takes the directory, which must be ours or empty: the version of its formats, if it has one.
/// A directory that is refused gets no lock file.
pub(super) fn claim(files: &mut Sequential<'_>) -> Result<Option<u32>> {
    let names = files.names()?;
    let is_early = |name: &String| [LOCK, FORMAT, FORMAT_NEW].contains(&name.as_str());
    if let Some(name) = names.iter().find(|name| !is_early(name)) {
        if !names.contains(FORMAT) {
            let what = format!(
                "the directory has no file {FORMAT}, so it is not a database, and it is not empty \
                 either. Choose an empty or a new directory with --data-dir"
            );
            return Err(Error::Unusable { path: name.into(), what });
        }
        if !names.contains(LOCK) {
            let what = "it is missing, so that an engine which still uses this directory could \
                        not be noticed. In a copy or a restored backup that is no harm. Make sure \
                        that no engine uses this directory, and create an empty file of this name";
            return Err(Error::Unusable { path: LOCK.into(), what: what.into() });
        }
    }
    if let Err(error) = files.complete(Operation::Lock { name: LOCK.into() }).result {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(Error::io(LOCK, error));
        }
        let what = "another engine is using this directory. Stop it, or choose another directory \
                    with --data-dir";
        return Err(Error::Unusable { path: LOCK.into(), what: what.into() });
    }
    if !files.names()?.contains(FORMAT) {
        return Ok(None);
    }
    check_format(files.read_file(FORMAT)?.as_slice()).map(Some)
}

/// The version of the formats of a directory that is not taken.
pub(super) fn version(files: &mut Sequential<'_>) -> Result<Option<u32>> {
    if !files.names()?.contains(FORMAT) {
        let what = "it is missing, so this is no database, or a snapshot or a restored directory \
                    that was cut off while it was made";
        return Err(Error::Unusable { path: FORMAT.into(), what: what.into() });
    }
    check_format(files.read_file(FORMAT)?.as_slice()).map(Some)
}

/// Says that all formats here are of the version of now, or may be.
pub(super) fn write_format(files: &mut Sequential<'_>) -> Result<()> {
    let mut bytes = FORMAT_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    files.replace_file(FORMAT_NEW, FORMAT, &bytes)
}

fn check_format(bytes: &[u8]) -> Result<u32> {
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
            if version < FORMAT_VERSION_MIN
                || crc32fast::hash(body) != u32::from_le_bytes(*sum) =>
        {
            unusable("it is damaged. Restore the directory from a backup".into())
        }
        Some(version) => Ok(version),
    }
}

/// A directory whose format was put back, while its files are of the version of now.
pub(super) fn put_back() -> Error {
    let what = "it says that the formats here are older than they are: it was put back. Restore \
                this directory from a backup";
    Error::Unusable { path: FORMAT.into(), what: what.into() }
}
