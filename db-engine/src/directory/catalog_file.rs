//! The schema on disk.
//!
//! ```text
//! catalog := json '\n' "crc32 " hex8 '\n'     the checksum is of the JSON alone
//! ```
//! The file is replaced as a whole: written under another name, synced, renamed, and the
//! directory synced. Whenever the power fails, the file of before or the file of after is there.

use crate::{
    error::{Error, Result},
    io::{Buffer, Completion, FileId, Files, Operation, Outcome, Ticket},
    schema::Catalog,
};
use std::io;

const NAME: &str = "catalog";
const NEW_NAME: &str = "catalog.tmp";

/// Longest file that is read: thousands of tables.
const BYTES_MAX: usize = 256 << 20;

/// Reads the schema of a directory; an empty one if there is none yet. Waits: for start-up only.
///
/// # Errors
/// The file is damaged, was written by a newer version, or cannot be read.
pub fn load(files: &mut dyn Files) -> Result<Catalog> {
    let Outcome::Names(names) = wait(files, Operation::List)?.0 else {
        return Err(Error::io(NAME, io::Error::other("no list of names")));
    };
    if !names.iter().any(|name| name == NAME) {
        return Ok(Catalog::default());
    }
    let Outcome::Opened { file, bytes } = wait(files, Operation::Open { name: NAME.to_owned() })?.0
    else {
        return Err(Error::io(NAME, io::Error::other("not opened")));
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > BYTES_MAX {
        return Err(Error::corrupt(NAME, 0, format!("{bytes} bytes are too many for a schema")));
    }
    let read = Operation::Read { file, offset: 0, bytes, buffer: Buffer::with_capacity(bytes) };
    let buffer = wait(files, read)?.1.unwrap_or_default();
    wait(files, Operation::Close { file })?;
    decode(buffer.as_slice())
}

fn wait(files: &mut dyn Files, operation: Operation) -> Result<(Outcome, Option<Buffer>)> {
    let ticket = files.submit(operation);
    let mut completions = Vec::new();
    loop {
        files.wait(&mut completions);
        if let Some(done) = completions.drain(..).find(|completion| completion.ticket == ticket) {
            return match done.result {
                Ok(outcome) => Ok((outcome, done.buffer)),
                Err(error) => Err(Error::io(NAME, error)),
            };
        }
    }
}

fn encode(catalog: &Catalog) -> Buffer {
    let json = catalog.to_json();
    let mut buffer = Buffer::with_capacity(json.len() + 32);
    buffer.extend(json.as_bytes());
    buffer.extend(format!("\ncrc32 {:08x}\n", crc32fast::hash(json.as_bytes())).as_bytes());
    buffer
}

fn decode(bytes: &[u8]) -> Result<Catalog> {
    let corrupt = |what: &str| Error::corrupt(NAME, bytes.len() as u64, what);
    let text = std::str::from_utf8(bytes).map_err(|_| corrupt("it is not text"))?;
    let line = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
    let (json, checksum) = line.ok_or_else(|| corrupt("it ends without a checksum"))?;
    let expected = format!("crc32 {:08x}", crc32fast::hash(json.as_bytes()));
    if checksum != expected {
        return Err(corrupt(&format!("its last line is \"{checksum}\", expected \"{expected}\"")));
    }
    Catalog::from_json(json).map_err(|what| Error::Unusable {
        path: NAME.into(),
        what: format!("{what}; use the version of sandglass-db that wrote it, or a newer one"),
    })
}

/// How far a replacement of the file is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Creating,
    Writing(FileId),
    Syncing(FileId),
    Closing,
    Renaming,
    SyncingDirectory,
}

/// A replacement of the file under way.
pub struct Replacement {
    stage: Stage,
    ticket: Ticket,
    content: Option<Buffer>,
}

impl Replacement {
    /// Begins to replace the file by one with this schema.
    pub fn begin(files: &mut dyn Files, catalog: &Catalog) -> Self {
        let create = Operation::Create { name: NEW_NAME.to_owned(), preallocate_bytes: 0 };
        let ticket = files.submit(create);
        Self { stage: Stage::Creating, ticket, content: Some(encode(catalog)) }
    }

    /// Goes on after a completion. Returns whether all is done.
    ///
    /// # Errors
    /// The operating system failed. Where [`Error::is_no_space`], the old file is still in place
    /// and it may be tried again; otherwise nobody knows what is on the device.
    pub fn proceed(&mut self, files: &mut dyn Files, completion: Completion) -> Result<bool> {
        if completion.ticket != self.ticket {
            return Ok(false);
        }
        let outcome = completion.result.map_err(|error| Error::io(NEW_NAME, error))?;
        let next = match (self.stage, outcome) {
            (Stage::Creating, Outcome::Opened { file, .. }) => {
                self.stage = Stage::Writing(file);
                let buffer = self.content.take().unwrap_or_default();
                Operation::Write { file, offset: 0, buffer, durable: false }
            }
            (Stage::Writing(file), _) => {
                self.stage = Stage::Syncing(file);
                Operation::Sync { file }
            }
            (Stage::Syncing(file), _) => {
                self.stage = Stage::Closing;
                Operation::Close { file }
            }
            (Stage::Closing, _) => {
                self.stage = Stage::Renaming;
                Operation::Rename { from: NEW_NAME.to_owned(), to: NAME.to_owned() }
            }
            (Stage::Renaming, _) => {
                self.stage = Stage::SyncingDirectory;
                Operation::SyncDirectory
            }
            (Stage::SyncingDirectory, _) => return Ok(true),
            (Stage::Creating, _) => {
                return Err(Error::io(NEW_NAME, io::Error::other("it was not opened")));
            }
        };
        self.ticket = files.submit(next);
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_flipped_bit_anywhere_is_noticed() {
        let catalog = Catalog::default();
        let written = encode(&catalog).as_slice().to_vec();
        assert_eq!(decode(&written).expect("whole"), catalog);
        for bit in 0..written.len() * 8 {
            let mut damaged = written.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..written.len() {
            assert!(decode(&written[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_newer_format_is_refused_with_the_remedy() {
        let json = Catalog::default().to_json().replace("\"format\": 1", "\"format\": 2");
        let text = format!("{json}\ncrc32 {:08x}\n", crc32fast::hash(json.as_bytes()));
        let refused = decode(text.as_bytes()).expect_err("newer").to_string();
        assert!(refused.contains("or a newer one"), "{refused}");
    }
}
