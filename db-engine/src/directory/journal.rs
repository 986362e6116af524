//! The journals of a run: what each shard, and the catalog, changed since its checkpoint.
//!
//! A journal has its first record before the checkpoint of its run counts. Whatever is written to
//! it later is one record a write, and is synced before the next write begins. So a crash can only
//! leave the last record in pieces, and nobody has relied on that one.

use super::{
    Sequential,
    manifest::{Change, encode_record, journal_name, read_record},
};
use crate::{
    error::{Error, Result},
    io::{Buffer, FileId, Operation},
};

/// A journal that takes changes.
#[derive(Debug)]
pub(crate) struct Journal {
    pub epoch: u32,
    pub shard: u16,
    pub file: FileId,
    /// Bytes of all records that are synced.
    pub length: u64,
}

impl Journal {
    /// Creates the journal, with its first record. Its name is not durable yet.
    pub fn create(files: &mut Sequential<'_>, epoch: u32, shard: u16) -> Result<()> {
        let mut bytes = Vec::new();
        encode_record(epoch, shard, 0, &[Change::Begun], &mut bytes);
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(&bytes);
        files.write_file(&journal_name(epoch, shard), vec![buffer])
    }

    /// Opens a journal that has its first record alone.
    pub fn open(files: &mut Sequential<'_>, epoch: u32, shard: u16) -> Result<Self> {
        let (file, length) = files.open(&journal_name(epoch, shard))?;
        Ok(Self { epoch, shard, file, length })
    }

    /// The operation that appends these changes, all or none, and the length that the journal has
    /// then.
    pub fn append(&self, changes: &[Change]) -> (Operation, u64) {
        let mut bytes = Vec::new();
        encode_record(self.epoch, self.shard, self.length, changes, &mut bytes);
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(&bytes);
        let length = self.length + bytes.len() as u64;
        let (file, offset) = (self.file, self.length);
        (Operation::Write { file, offset, buffer, durable: false }, length)
    }
}

/// The changes of a journal, up to a last record that a crash left in pieces.
///
/// # Errors
///
/// [`Error::Corrupt`] if a record cannot be read, but the first one, or one with a whole record
/// behind it: that is not what a crash leaves. A journal of the first version has no first record,
/// and its writes may have several; it is read up to where it can be.
pub(crate) fn read_journal(
    epoch: u32,
    shard: u16,
    bytes: &[u8],
    is_first_version: bool,
) -> Result<Vec<Change>> {
    let (mut changes, mut at) = (Vec::new(), 0);
    while let Some((read, end)) = read_record(epoch, shard, bytes, at) {
        changes.extend(read);
        at = end;
    }
    if is_first_version {
        return Ok(changes);
    }
    let damaged = |what: &str| {
        let what = format!("{what}. Restore this directory from a backup");
        Err(Error::corrupt(journal_name(epoch, shard), at as u64, what))
    };
    if changes.first() != Some(&Change::Begun) {
        return damaged("the record with which this journal began cannot be read");
    }
    let later = (at + 1..bytes.len()).find(|at| read_record(epoch, shard, bytes, *at).is_some());
    if let Some(later) = later {
        return damaged(&format!(
            "this record cannot be read, but one at byte {later} was written after it"
        ));
    }
    Ok(changes)
}
