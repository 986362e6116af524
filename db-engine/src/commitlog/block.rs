//! A block of the commit log: entries that become durable together.
//!
//! ```text
//! segment := block* zeros          blocks begin at multiples of 4096 bytes
//! block   := length u32            bytes of all entries, at least 1
//!            checksum u32          CRC-32 (IEEE) of length, of the rest of the header, of entries
//!            epoch u32 | shard u16 | format u16 = 1 | segment u32 | 0 u32 | sequence u64
//!            entry*
//!            zeros                 up to the next multiple of 4096
//! entry   := kind u8               1 write, 2 intent, 3 intent done
//!            length u32            bytes after this field
//!            [id u64]              of the intent, if kind is 2 or 3
//!            mutation*             if kind is 1 or 2
//! ```
//!
//! The checksum covers where the block belongs, so that bytes which a device wrote to the wrong
//! place, or which a file held before, are never taken for data. Sequence numbers rise by one from
//! block to block, on through the segments of a shard, so that a gap is seen.

use super::{BLOCK_ALIGNMENT, SegmentId};
use crate::io::Buffer;

/// Bytes of a block before its entries.
pub const HEADER_BYTES: usize = 32;

/// Bytes of an entry before what it carries.
pub const ENTRY_HEADER_BYTES: usize = 5;

const FORMAT: u16 = 1;

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
}

/// An entry, read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it means.
    pub kind: EntryKind,
    /// The mutations it carries, one after the other.
    pub mutations: &'a [u8],
}

/// A block being filled, and for whom.
#[derive(Debug, Default)]
pub struct Block {
    buffer: Buffer,
    tags: Vec<u128>,
}

impl Block {
    /// Appends an entry. Writes and intents have a tag: whom to answer.
    ///
    /// # Panics
    ///
    /// If it is longer than 4 GiB: writes are limited to far less.
    pub fn push(&mut self, kind: EntryKind, mutations: &[u8], tag: Option<u128>) {
        if self.buffer.is_empty() {
            self.buffer.resize(HEADER_BYTES);
        }
        let (code, id) = match kind {
            EntryKind::Write => (1, None),
            EntryKind::Intent { id } => (2, Some(id)),
            EntryKind::IntentDone { id } => (3, Some(id)),
        };
        let length = mutations.len() + id.map_or(0, |_| size_of::<u64>());
        let length = u32::try_from(length).expect("writes are limited to less");
        let mut header = [code, 0, 0, 0, 0];
        header[1..].copy_from_slice(&length.to_le_bytes());
        self.buffer.extend(&header);
        if let Some(id) = id {
            self.buffer.extend(&id.to_le_bytes());
        }
        self.buffer.extend(mutations);
        self.tags.extend(tag);
    }

    /// Bytes up to now, header included and padding not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.tags.clear();
    }

    /// Whom to answer, in the order of the writes and intents among its entries.
    #[must_use]
    pub fn tags(&self) -> &[u128] {
        &self.tags
    }

    /// The entries of a block that is not sealed yet.
    pub fn staged(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(self.buffer.as_slice().get(HEADER_BYTES..).unwrap_or_default())
    }

    /// The entries of a sealed block.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let length = self.buffer.as_slice().first_chunk().map_or(0, |l| u32::from_le_bytes(*l));
        let payload = self.buffer.as_slice().get(HEADER_BYTES..HEADER_BYTES + length as usize);
        entries(payload.unwrap_or_default())
    }

    /// Completes the header and pads the block, so that it can be written.
    ///
    /// # Panics
    ///
    /// If it is longer than 4 GiB: blocks are limited to far less.
    pub fn seal(&mut self, segment: SegmentId, sequence: u64) {
        let length = self.buffer.len() - HEADER_BYTES;
        let length = u32::try_from(length).expect("blocks are limited to less");
        let bytes = self.buffer.as_mut_slice();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&segment.epoch.to_le_bytes());
        bytes[12..14].copy_from_slice(&segment.shard.to_le_bytes());
        bytes[14..16].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..20].copy_from_slice(&segment.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&sequence.to_le_bytes());
        let checksum = checksum(bytes);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.buffer.resize(self.buffer.len().next_multiple_of(BLOCK_ALIGNMENT));
    }

    /// Lends the bytes to the device.
    #[must_use]
    pub fn take_buffer(&mut self) -> Buffer {
        std::mem::take(&mut self.buffer)
    }

    /// Takes them back.
    pub fn return_buffer(&mut self, buffer: Buffer) {
        self.buffer = buffer;
    }
}

fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..4]);
    hasher.update(&block[8..]);
    hasher.finalize()
}

/// What stands at some place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A whole block.
    Block {
        /// Its sequence number.
        sequence: u64,
        /// Its entries.
        payload: &'a [u8],
        /// Bytes up to the next block.
        bytes: usize,
    },
    /// Nothing was written here.
    Zeros,
    /// Neither: a block was cut short, or its bytes changed, or it belongs elsewhere.
    Torn,
}

/// Reads the block of this segment at the beginning of `bytes`.
#[must_use]
pub fn parse_block(bytes: &[u8], segment: SegmentId) -> Parsed<'_> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Parsed::Torn;
    };
    if *header == [0; HEADER_BYTES] {
        return Parsed::Zeros;
    }
    let mut expected = [0; 16];
    expected[..4].copy_from_slice(&segment.epoch.to_le_bytes());
    expected[4..6].copy_from_slice(&segment.shard.to_le_bytes());
    expected[6..8].copy_from_slice(&FORMAT.to_le_bytes());
    expected[8..12].copy_from_slice(&segment.number.to_le_bytes());
    if header[8..24] != expected {
        return Parsed::Torn;
    }
    let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
    let length = u32_at(0) as usize;
    let whole = HEADER_BYTES.checked_add(length).and_then(|end| bytes.get(..end));
    let Some(block) = whole.filter(|block| length > 0 && checksum(block) == u32_at(4)) else {
        return Parsed::Torn;
    };
    let sequence = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| header[24 + byte]));
    let bytes = block.len().next_multiple_of(BLOCK_ALIGNMENT);
    Parsed::Block { sequence, payload: &block[HEADER_BYTES..], bytes }
}

/// The entries of a block's payload. Ends early at what cannot be read.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = Entry<'_>> {
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
            _ => return None,
        };
        rest = after;
        Some(Entry { kind, mutations })
    })
}
