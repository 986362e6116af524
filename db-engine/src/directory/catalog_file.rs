//! The schema on disk.
//!
//! ```text
//! catalog := json '\n' "generation " decimal " crc32 " hex8 '\n'    of all before " crc32 "
//!          | json '\n' "crc32 " hex8 '\n'       of the JSON alone: the first version
//! ```
//! The file is replaced as a whole: written under another name, synced, renamed, and the
//! directory synced. Whenever the power fails, the file of before or the file of after is there.
//! Then the journal of the catalog records which one it is, and only then the change is answered;
//! so a file that is older than the journal was put back.

use super::{
    Journal, Sequential,
    manifest::{CatalogMark, Change},
};
use crate::{
    error::{Error, Result},
    io::{Buffer, Completion, FileId, Files, Operation, Outcome, Ticket},
    schema::Catalog,
};
use std::{collections::BTreeSet, io};

/// The name of the file.
pub(super) const NAME: &str = "catalog";
const NEW_NAME: &str = "catalog.tmp";

/// Longest file that is read: thousands of tables.
const BYTES_MAX: u64 = 256 << 20;

/// The generation of an empty schema.
const FIRST_GENERATION: u64 = 1;

/// The schema of a directory as it was found.
#[derive(Debug)]
pub(crate) struct FoundCatalog {
    pub catalog: Catalog,
    pub mark: CatalogMark,
}

impl FoundCatalog {
    /// Reads the file, if there is one.
    pub fn read(files: &mut Sequential<'_>, names: &BTreeSet<String>) -> Result<Option<Self>> {
        if !names.contains(NAME) {
            return Ok(None);
        }
        let (file, bytes) = files.open(NAME)?;
        if bytes > BYTES_MAX {
            let what = format!("{bytes} bytes are too many for a schema");
            return Err(Error::corrupt(NAME, 0, what));
        }
        let buffer = files.read(NAME, file, 0, bytes)?;
        files.run(NAME, Operation::Close { file })?;
        decode(buffer.as_slice()).map(Some)
    }

    /// Writes the file of a directory that has none: an empty schema.
    pub fn create(files: &mut Sequential<'_>) -> Result<Self> {
        Self::write(files, Catalog::default())
    }

    /// The same with this schema.
    pub fn write(files: &mut Sequential<'_>, catalog: Catalog) -> Result<Self> {
        let (bytes, mark) = encode(&catalog, FIRST_GENERATION);
        files.replace_file(NEW_NAME, NAME, bytes.as_slice())?;
        Ok(Self { catalog, mark })
    }

    /// Whether it is what [`Self::create`] writes.
    pub fn is_first(&self) -> bool {
        self.mark == encode(&Catalog::default(), FIRST_GENERATION).1
    }
}

/// The refusal of a directory that has rows, but no schema.
pub(super) fn missing() -> Error {
    let what = "it is missing, and there are rows of tables. Restore this directory from a backup";
    Error::Unusable { path: NAME.into(), what: what.into() }
}

/// Where the schema is kept while the engine serves.
pub struct CatalogFile {
    /// The way to the directory.
    files: Box<dyn Files>,
    journal: Journal,
    /// That of the file.
    generation: u64,
}

impl CatalogFile {
    pub(crate) fn new(files: Box<dyn Files>, journal: Journal, mark: CatalogMark) -> Self {
        Self { files, journal, generation: mark.generation }
    }

    /// Appends the operations that are over to `out`; never waits.
    pub fn poll(&mut self, out: &mut Vec<Completion>) {
        self.files.poll(out);
    }
}

fn encode(catalog: &Catalog, generation: u64) -> (Buffer, CatalogMark) {
    let (json, named) = (catalog.to_json(), format!("\ngeneration {generation}"));
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(json.as_bytes());
    hasher.update(named.as_bytes());
    let checksum = hasher.finalize();
    let last = format!("{named} crc32 {checksum:08x}\n");
    let mut buffer = Buffer::with_capacity(json.len() + last.len());
    buffer.extend(json.as_bytes());
    buffer.extend(last.as_bytes());
    (buffer, CatalogMark { generation, checksum })
}

fn decode(bytes: &[u8]) -> Result<FoundCatalog> {
    let corrupt = |what: &str| {
        let what = format!("{what}. Restore this directory from a backup");
        Error::corrupt(NAME, bytes.len() as u64, what)
    };
    let text = std::str::from_utf8(bytes).map_err(|_| corrupt("it is not text"))?;
    let line = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
    let (json, last) = line.ok_or_else(|| corrupt("it ends without a checksum"))?;
    let (covered, generation) = match last.rsplit_once(" crc32 ") {
        Some((named, _)) => {
            let number = named.strip_prefix("generation ").and_then(|number| number.parse().ok());
            let number = number.ok_or_else(|| corrupt("its last line is unknown"))?;
            (&text[..json.len() + 1 + named.len()], number)
        }
        None => (json, 0),
    };
    let checksum = crc32fast::hash(covered.as_bytes());
    let expected = match generation {
        0 => format!("crc32 {checksum:08x}"),
        _ => format!("generation {generation} crc32 {checksum:08x}"),
    };
    if last != expected {
        return Err(corrupt(&format!("its last line is \"{last}\", expected \"{expected}\"")));
    }
    let catalog = Catalog::from_json(json).map_err(|what| Error::Unusable {
        path: NAME.into(),
        what: format!("{what}; use the version of sandglass-db that wrote it, or a newer one"),
    })?;
    Ok(FoundCatalog { catalog, mark: CatalogMark { generation, checksum } })
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
    WritingJournal,
    SyncingJournal,
}

/// A replacement of the file under way.
pub struct Replacement {
    stage: Stage,
    ticket: Ticket,
    content: Option<Buffer>,
    mark: CatalogMark,
    /// Bytes of the journal when it is recorded there.
    journal_length: u64,
}

impl Replacement {
    /// Begins to replace the file by one with this schema.
    pub fn begin(file: &mut CatalogFile, catalog: &Catalog) -> Self {
        let create = Operation::Create { name: NEW_NAME.to_owned() };
        let ticket = file.files.submit(create);
        let (content, mark) = encode(catalog, file.generation + 1);
        let journal_length = file.journal.length;
        Self { stage: Stage::Creating, ticket, content: Some(content), mark, journal_length }
    }

    /// Goes on after a completion. Returns whether all is done.
    ///
    /// # Errors
    /// The operating system failed. Where [`Error::is_no_space`], the old file is still in place
    /// and it may be tried again; otherwise nobody knows what is on the device.
    pub fn proceed(&mut self, file: &mut CatalogFile, completion: Completion) -> Result<bool> {
        if completion.ticket != self.ticket {
            return Ok(false);
        }
        let outcome = completion.result.map_err(|error| self.failure(error))?;
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
            (Stage::SyncingDirectory, _) => {
                self.stage = Stage::WritingJournal;
                let (append, length) = file.journal.append(&[Change::Catalog(self.mark)]);
                self.journal_length = length;
                append
            }
            (Stage::WritingJournal, _) => {
                self.stage = Stage::SyncingJournal;
                Operation::Sync { file: file.journal.file }
            }
            (Stage::SyncingJournal, _) => {
                file.journal.length = self.journal_length;
                file.generation = self.mark.generation;
                return Ok(true);
            }
            (Stage::Creating, _) => {
                return Err(Error::io(NEW_NAME, io::Error::other("it was not opened")));
            }
        };
        self.ticket = file.files.submit(next);
        Ok(false)
    }

    /// From the renaming on the new schema may be there after a restart. Whoever goes on with the
    /// old one would acknowledge writes to a table that is dropped then.
    fn failure(&self, error: io::Error) -> Error {
        match self.stage {
            Stage::Creating | Stage::Writing(_) | Stage::Syncing(_) | Stage::Closing => {
                Error::io(NEW_NAME, error)
            }
            Stage::Renaming
            | Stage::SyncingDirectory
            | Stage::WritingJournal
            | Stage::SyncingJournal => Error::io(NAME, io::Error::other(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_flipped_bit_anywhere_is_noticed() {
        let catalog = Catalog::default();
        let written = encode(&catalog, 7).0.as_slice().to_vec();
        let found = decode(&written).expect("whole");
        assert_eq!((found.catalog, found.mark.generation), (catalog, 7));
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
    fn a_catalog_of_the_first_version_is_read() {
        let json = Catalog::default().to_json();
        let text = format!("{json}\ncrc32 {:08x}\n", crc32fast::hash(json.as_bytes()));
        assert_eq!(decode(text.as_bytes()).expect("whole").mark.generation, 0);
        let damaged = text.replacen("next", "text", 1);
        assert!(decode(damaged.as_bytes()).is_err());
    }

    #[test]
    fn a_newer_format_is_refused_with_the_remedy() {
        let json = Catalog::default().to_json().replace("\"format\": 4", "\"format\": 5");
        let text = format!("{json}\ncrc32 {:08x}\n", crc32fast::hash(json.as_bytes()));
        let refused = decode(text.as_bytes()).expect_err("newer").to_string();
        assert!(refused.contains("or a newer one"), "{refused}");
    }
}
