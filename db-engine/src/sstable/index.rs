//! Where the blocks of an sstable are, and what it holds as a whole.

use std::{io, ops::Bound};

use crc32fast::Hasher;

use super::{
    FOOTER_BYTES, SstableId, Summary,
    block::{invalid, length_u16, length_u32},
    checksum,
    clustering_span::ClusteringSpan,
    hasher_of,
    summary::SUMMARY_BYTES,
    token_filter::TokenFilter,
    tombstone_times::TombstoneTimes,
};
use crate::{
    io::TimeSlice,
    mutation::{Input, Token},
};

const MAGIC: [u8; 8] = *b"SANDSST5";

/// Of files that do not tell when what is in them goes.
const FOURTH_MAGIC: [u8; 8] = *b"SANDSST4";

/// Of files, besides, that do not tell what they cannot have.
const THIRD_MAGIC: [u8; 8] = *b"SANDSST3";

/// Of files, besides, without deletions of ranges of rows.
const SECOND_MAGIC: [u8; 8] = *b"SANDSST2";

/// Of files in whose index, besides, clustering keys have a length of two bytes.
const FIRST_MAGIC: [u8; 8] = *b"SANDSST1";

/// Bytes of an entry, as it is stored in the first version, without keys.
const ENTRY_BYTES_MIN: usize = 24;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u32,
}

/// Where a block begins. Its keys are among those of the index.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    token: Token,
    offset: u64,
    bytes: u32,
    key_at: u32,
    ck_at: u32,
    ck_bytes: u32,
    key_bytes: u16,
}

/// The end of an sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// What the sstable holds.
    pub summary: Summary,
    /// Where its index is.
    pub index: Location,
    blocks: u32,
    index_checksum: u32,
    version: u8,
}

/// What an sstable cannot have, and where its blocks begin: places after the last row of the block
/// before, and not after the first of their own.
#[derive(Clone, Debug)]
pub struct Index {
    entries: Vec<IndexEntry>,
    /// The keys of all entries. Blocks of one partition share its key.
    keys: Vec<u8>,
    /// What the sstable cannot have; `None` if it does not tell.
    contents: Option<(ClusteringSpan, TokenFilter)>,
    tombstones: Option<TombstoneTimes>,
}

impl Index {
    /// Whether there may be something of a partition between two clustering keys, its deletion
    /// included. If not, there is nothing, and no block need be looked for.
    #[inline]
    #[must_use]
    pub fn may_have(&self, token: Token, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        self.contents
            .as_ref()
            .is_none_or(|(span, filter)| span.may_have(from, to) && filter.may_have(token))
    }

    /// A clustering key before which, in the order of reading, there is nothing of what is between
    /// these two in any partition; `None` if that is not known, or not behind where the reading
    /// begins.
    #[must_use]
    pub fn begins_at(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, reverse: bool) -> Option<&[u8]> {
        self.contents.as_ref()?.0.begins_at(from, to, reverse)
    }

    /// The blocks that can hold rows of a partition between two clustering keys. A cursor begins in
    /// the first of them, or backwards in the last one. Either tells whether the partition is
    /// deleted: it begins there, or in the block, which then begins with its deletion.
    #[must_use]
    pub fn blocks_of_partition(
        &self,
        token: Token,
        key: &[u8],
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> std::ops::Range<usize> {
        let from = match from {
            Bound::Included(ck) | Bound::Excluded(ck) => ck,
            Bound::Unbounded => &[],
        };
        let after = |entry: &IndexEntry| match to {
            Bound::Included(ck) | Bound::Excluded(ck) => self.place(entry) > (token, key, ck),
            Bound::Unbounded => (entry.token, self.key(entry)) > (token, key),
        };
        let start = self.entries.partition_point(|entry| self.place(entry) <= (token, key, from));
        let start = start.saturating_sub(1);
        let end = self.entries.partition_point(|entry| !after(entry));
        start..end.max(start)
    }

    /// The blocks that can hold rows of partitions with tokens from `from` to `to`, inclusive.
    #[must_use]
    pub fn blocks_of_tokens(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let start = self.entries.partition_point(|entry| entry.token.0 < from).saturating_sub(1);
        let end = self.entries.partition_point(|entry| entry.token.0 <= to);
        start..end.max(start)
    }

    /// The last block that does not begin after this place, or the first block.
    #[must_use]
    pub fn block_of_place(&self, token: Token, key: &[u8], ck: &[u8]) -> usize {
        let after = self.entries.partition_point(|entry| self.place(entry) <= (token, key, ck));
        after.saturating_sub(1)
    }

    /// How much of it is deleted or has expired, and from when on; `None` if it does not tell.
    #[must_use]
    pub fn tombstone_times(&self) -> Option<&TombstoneTimes> {
        self.tombstones.as_ref()
    }

    /// Where this block is.
    #[must_use]
    pub fn location(&self, block: usize) -> Option<Location> {
        let entry = self.entries.get(block)?;
        Some(Location { offset: entry.offset, bytes: entry.bytes })
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let told = self.contents.as_ref();
        let told = told.map_or(0, |(span, filter)| span.memory_bytes() + filter.memory_bytes());
        let told = told + self.tombstones.as_ref().map_or(0, TombstoneTimes::memory_bytes);
        self.entries.capacity() * size_of::<IndexEntry>() + self.keys.capacity() + told
    }

    #[inline]
    fn key(&self, entry: &IndexEntry) -> &[u8] {
        slice(&self.keys, entry.key_at, entry.key_bytes.into())
    }

    #[inline]
    fn place(&self, entry: &IndexEntry) -> (Token, &[u8], &[u8]) {
        (entry.token, self.key(entry), slice(&self.keys, entry.ck_at, entry.ck_bytes))
    }

    /// Appends the next entry.
    fn read_entry(&mut self, input: &mut Input<'_>, is_first_version: bool) -> Option<()> {
        let (offset, bytes) = (input.i64()?.cast_unsigned(), input.u32()?);
        let token = Token(input.i64()?);
        let key_bytes = input.u16()?;
        let key = input.take(key_bytes.into())?;
        let ck_bytes = if is_first_version { input.u16()?.into() } else { input.u32()? };
        let ck = input.take(ck_bytes as usize)?;
        let last = self.entries.last().filter(|last| self.key(last) == key);
        let key_at = last.map(|last| last.key_at);
        let key_at = if let Some(at) = key_at { at } else { put(&mut self.keys, key)? };
        let ck_at = put(&mut self.keys, ck)?;
        self.entries.push(IndexEntry { token, offset, bytes, key_at, ck_at, ck_bytes, key_bytes });
        Some(())
    }
}

/// Appends a key. Gives where it is.
fn put(keys: &mut Vec<u8>, key: &[u8]) -> Option<u32> {
    let at = u32::try_from(keys.len()).ok()?;
    keys.extend_from_slice(key);
    Some(at)
}

#[inline]
fn slice(keys: &[u8], at: u32, bytes: u32) -> &[u8] {
    keys.get(at as usize..).and_then(|rest| rest.get(..bytes as usize)).unwrap_or_default()
}

pub(super) fn put_entry(
    out: &mut Vec<u8>,
    (token, key, ck): (Token, &[u8], &[u8]),
    offset: u64,
    bytes: u32,
) {
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&token.0.to_le_bytes());
    out.extend_from_slice(&length_u16(key).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(&length_u32(ck).to_le_bytes());
    out.extend_from_slice(ck);
}

/// What an entry takes in memory, in bytes.
pub(super) fn entry_bytes(key: &[u8], ck: &[u8]) -> usize {
    size_of::<IndexEntry>() + key.len() + ck.len()
}

/// Appends the footer of a file, whose index is the end of `out`.
pub(super) fn put_footer(out: &mut Vec<u8>, summary: &Summary, index_offset: u64, blocks: u32) {
    let index_bytes = summary.bytes - index_offset - FOOTER_BYTES as u64;
    let index_start = usize::try_from(index_bytes).map_or(0, |bytes| out.len() - bytes);
    let sum = checksum(summary.id, index_offset, out.get(index_start..).unwrap_or_default());
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    summary.encode(out);
    out.extend_from_slice(&index_offset.to_le_bytes());
    out.extend_from_slice(&u32::try_from(index_bytes).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&blocks.to_le_bytes());
    out.extend_from_slice(&sum.to_le_bytes());
    out.resize(start + FOOTER_BYTES - 4, 0);
    let offset = summary.bytes - FOOTER_BYTES as u64;
    let sum = checksum(summary.id, offset, out.get(start..).unwrap_or_default());
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Reads the footer: the last [`FOOTER_BYTES`] of a file of this length.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the bytes are not the footer of this sstable.
pub fn read_footer(id: SstableId, file_bytes: u64, bytes: &[u8]) -> io::Result<Footer> {
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(invalid("the file is shorter than its footer"));
    };
    let offset = file_bytes.checked_sub(FOOTER_BYTES as u64);
    if bytes.len() != FOOTER_BYTES
        || offset.map(|offset| checksum(id, offset, body)) != Some(u32::from_le_bytes(*sum))
    {
        return Err(invalid("the checksum of the footer is wrong"));
    }
    let parsed = (|| {
        let mut input = Input(body);
        let magic = input.take(MAGIC.len())?;
        let magics = [FIRST_MAGIC, SECOND_MAGIC, THIRD_MAGIC, FOURTH_MAGIC, MAGIC];
        let (version, _) = (1..).zip(magics).find(|(_, known)| magic == known)?;
        let summary = Summary::decode(input.take(SUMMARY_BYTES)?.first_chunk()?);
        let index = Location { offset: input.i64()?.cast_unsigned(), bytes: input.u32()? };
        let (blocks, index_checksum) = (input.u32()?, input.u32()?);
        let footer = Footer { summary, index, blocks, index_checksum, version };
        let end = index.offset.checked_add(u64::from(index.bytes))?;
        let fits = summary.id == id && summary.bytes == file_bytes && Some(end) == offset;
        fits.then_some(footer)
    })();
    parsed.ok_or_else(|| invalid("the footer is of another file or format"))
}

/// Reads the index that a footer tells of.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the bytes are not that index.
pub fn read_index(footer: &Footer, bytes: &[u8]) -> io::Result<Index> {
    let index = IndexReader::new(*footer).step(bytes, &mut TimeSlice::endless())?;
    index.ok_or_else(|| invalid("the index has no end"))
}

/// Bytes of which the checksum is added up at once.
const SUMMED_BYTES: usize = 64 << 10;

/// Reads the index that a footer tells of, as much of it at a time as there is time for.
#[derive(Debug)]
pub struct IndexReader {
    footer: Footer,
    hasher: Hasher,
    /// How far the checksum is added up, and how far the bytes are read.
    summed: usize,
    at: usize,
    index: Index,
}

impl IndexReader {
    /// Of this footer.
    #[must_use]
    pub fn new(footer: Footer) -> Self {
        let hasher = hasher_of(footer.summary.id, footer.index.offset);
        let index =
            Index { entries: Vec::new(), keys: Vec::new(), contents: None, tombstones: None };
        Self { footer, hasher, summed: 0, at: 0, index }
    }

    /// Goes on until the time is over; gives the index once it is whole. The bytes are the same
    /// each time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the bytes are not that index.
    pub fn step(&mut self, bytes: &[u8], time: &mut TimeSlice<'_>) -> io::Result<Option<Index>> {
        if !self.sum_up(bytes, time)? {
            return Ok(None);
        }
        let mut input = Input(bytes.get(self.at..).unwrap_or_default());
        let is_whole = self.read(&mut input, time)?;
        self.at = bytes.len() - input.0.len();
        if !is_whole {
            return Ok(None);
        }
        let empty = Self::new(self.footer).index;
        let mut index = std::mem::replace(&mut self.index, empty);
        index.keys.shrink_to_fit();
        index.contents.iter_mut().for_each(|(_, filter)| filter.shrink());
        Ok(Some(index))
    }

    /// Checks the checksum, before anything is believed; returns whether that is done.
    fn sum_up(&mut self, bytes: &[u8], time: &mut TimeSlice<'_>) -> io::Result<bool> {
        let wrong = || invalid("the checksum of the index is wrong");
        if bytes.len() != self.footer.index.bytes as usize {
            return Err(wrong());
        }
        while let Some(rest) = bytes.get(self.summed..).filter(|rest| !rest.is_empty()) {
            if time.is_over() {
                return Ok(false);
            }
            let piece = rest.get(..SUMMED_BYTES).unwrap_or(rest);
            self.hasher.update(piece);
            self.summed += piece.len();
            // It is many times as fast as other work on as many bytes.
            time.count(piece.len() / 16);
        }
        if self.hasher.clone().finalize() == self.footer.index_checksum {
            Ok(true)
        } else {
            Err(wrong())
        }
    }

    /// Reads some more; returns whether that was all.
    fn read(&mut self, input: &mut Input<'_>, time: &mut TimeSlice<'_>) -> io::Result<bool> {
        let malformed = || invalid("the index is malformed");
        let Self { footer, index, .. } = self;
        let blocks = footer.blocks as usize;
        if index.entries.is_empty() {
            index.entries.reserve_exact(blocks.min(input.0.len() / ENTRY_BYTES_MIN));
        }
        while index.entries.len() < blocks {
            if time.is_over() {
                return Ok(false);
            }
            let before = input.0.len();
            index.read_entry(input, footer.version == 1).ok_or_else(malformed)?;
            if let [.., last, entry] = &index.entries[..]
                && index.place(last) > index.place(entry)
            {
                return Err(invalid("the index is not in order"));
            }
            time.count(before - input.0.len());
        }
        if footer.version >= 4 {
            if index.contents.is_none() {
                let span = ClusteringSpan::decode(input).ok_or_else(malformed)?;
                if footer.version >= 5 {
                    let times = TombstoneTimes::decode(input).ok_or_else(malformed)?;
                    index.tombstones = Some(times);
                }
                index.contents = Some((span, TokenFilter::default()));
            }
            let filter = index.contents.as_mut().map(|(_, filter)| filter);
            let Some(filter) = filter else { return Err(malformed()) };
            while !input.0.is_empty() {
                if time.is_over() {
                    return Ok(false);
                }
                let before = input.0.len();
                filter.read_part(input).ok_or_else(malformed)?;
                time.count(before - input.0.len());
            }
        }
        if input.0.is_empty() {
            Ok(true)
        } else {
            Err(invalid("the index has another number of blocks"))
        }
    }
}
