//! A block of the commit log: entries that become durable together.
//!
//! ```text
//! entry := kind u8               1 write, 2 intent, 3 intent done, 4 continued
//!          length u32            bytes after this field
//!          [id u64]              of the intent, if kind is 2 or 3
//!          mutation*             if kind is 1 or 2
//! ```
//!
//! On the device they are cut into sectors, see [`super::sector`].

use super::{
    SegmentId,
    sector::{padded, write_sectors},
};
use crate::io::Buffer;

/// Bytes of an entry before what it carries.
pub const ENTRY_HEADER_BYTES: usize = 5;

/// What an entry of the log means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Mutations of this shard, applied together.
    Write,
    /// Mutations of any shards, which are written by each of them afterwards. If that is not known
    /// to be done, recovery does it.
    Intent {
        /// Names it in the entry that says it is done.
        id: u64,
    },
    /// All mutations of an intent are durable.
    IntentDone {
        /// The intent.
        id: u64,
    },
    /// Nothing follows in this segment: the log goes on in the next one, which is there.
    Continued,
}

/// An entry, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// What it means.
    pub kind: EntryKind,
    /// The mutations it carries, one after the other.
    pub mutations: &'a [u8],
}

impl LogEntry<'_> {
    /// Bytes that it has in its block.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let id_bytes = match self.kind {
            EntryKind::Intent { .. } | EntryKind::IntentDone { .. } => size_of::<u64>(),
            EntryKind::Write | EntryKind::Continued => 0,
        };
        ENTRY_HEADER_BYTES + id_bytes + self.mutations.len()
    }
}

/// A block being filled, and for whom.
#[derive(Debug, Default)]
pub struct LogBlock {
    entries: Vec<u8>,
    tags: Vec<u128>,
}

impl LogBlock {
    /// Appends an entry. Writes and intents have a tag: whom to answer.
    ///
    /// # Panics
    ///
    /// If it is longer than 4 GiB: writes are limited to far less.
    pub fn push(&mut self, kind: EntryKind, mutations: &[u8], tag: Option<u128>) {
        let (code, id) = match kind {
            EntryKind::Write => (1, None),
            EntryKind::Intent { id } => (2, Some(id)),
            EntryKind::IntentDone { id } => (3, Some(id)),
            EntryKind::Continued => (4, None),
        };
        let length = mutations.len() + id.map_or(0, |_| size_of::<u64>());
        let length = u32::try_from(length).expect("writes are limited to less");
        let mut header = [code, 0, 0, 0, 0];
        header[1..].copy_from_slice(&length.to_le_bytes());
        self.entries.extend_from_slice(&header);
        if let Some(id) = id {
            self.entries.extend_from_slice(&id.to_le_bytes());
        }
        self.entries.extend_from_slice(mutations);
        self.tags.extend(tag);
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory that it has, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() + self.tags.capacity() * size_of::<u128>()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.tags.clear();
    }

    /// Whom to answer, in the order of the writes and intents among its entries.
    #[must_use]
    pub fn tags(&self) -> &[u128] {
        &self.tags
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = LogEntry<'_>> {
        entries(&self.entries)
    }

    /// The entry that begins at this byte, if one does: at 0, or where another one ends.
    #[must_use]
    pub fn entry_at(&self, start: usize) -> Option<LogEntry<'_>> {
        entries(self.entries.get(start..)?).next()
    }

    /// Puts what is to be written into `out`, for a device with blocks of so many bytes.
    pub fn encode(&self, segment: SegmentId, sequence: u64, block_bytes: usize, out: &mut Buffer) {
        out.resize(padded(self.entries.len(), block_bytes));
        write_sectors(out.as_mut_slice(), segment, sequence, &self.entries);
    }
}

/// The entries of a block's payload. Ends early at what cannot be read.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = LogEntry<'_>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<ENTRY_HEADER_BYTES>()?;
        let [kind, length @ ..] = *header;
        let (body, after) = after.split_at_checked(u32::from_le_bytes(length) as usize)?;
        let with_id = || body.split_first_chunk().map(|(id, body)| (u64::from_le_bytes(*id), body));
        let (kind, mutations) = match kind {
            1 => (EntryKind::Write, body),
            2 => with_id().map(|(id, body)| (EntryKind::Intent { id }, body))?,
            3 => with_id().map(|(id, body)| (EntryKind::IntentDone { id }, body))?,
            4 => (EntryKind::Continued, body),
            _ => return None,
        };
        rest = after;
        Some(LogEntry { kind, mutations })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_the_same_in_memory_that_has_had_another() {
        let segment = SegmentId { epoch: 3, shard: 1, number: 0 };
        let encode = |bytes: usize, out: &mut Buffer| {
            let mut block = LogBlock::default();
            block.push(EntryKind::Write, &vec![7; bytes], Some(1));
            block.encode(segment, 5, 512, out);
        };
        let (mut used, mut fresh) = (Buffer::default(), Buffer::default());
        encode(3_000, &mut used);
        encode(700, &mut used);
        encode(700, &mut fresh);
        assert_eq!(used.as_slice(), fresh.as_slice(), "what is left over is zeros");
    }
}
