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
    sector::{Parts, SECTOR_PAYLOAD_BYTES, SectorsOfBlock, padded},
};
use crate::io::{Buffer, SECTOR_BYTES, TimeSlice};

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

/// A block being filled, and for whom.
#[derive(Debug, Default)]
pub struct LogBlock {
    /// Its entries, of large ones only what comes before their mutations.
    entries: Vec<u8>,
    large: Vec<LargeMutations>,
    tags: Vec<u128>,
}

/// The mutations of an entry that were not copied into the block.
#[derive(Debug)]
struct LargeMutations {
    /// Where they belong: behind so many bytes of the other entries.
    place: usize,
    bytes: Vec<u8>,
}

impl LogBlock {
    /// Appends an entry. Writes and intents have a tag: whom to answer.
    ///
    /// # Panics
    ///
    /// If it is longer than 4 GiB: writes are limited to far less.
    pub fn push(&mut self, kind: EntryKind, mutations: &[u8], tag: Option<u128>) {
        self.push_header(kind, mutations.len());
        self.entries.extend_from_slice(mutations);
        self.tags.extend(tag);
    }

    /// As [`Self::push`], without copying the mutations.
    ///
    /// # Panics
    ///
    /// As [`Self::push`].
    pub fn push_large(&mut self, kind: EntryKind, mutations: Vec<u8>, tag: Option<u128>) {
        self.push_header(kind, mutations.len());
        self.large.push(LargeMutations { place: self.entries.len(), bytes: mutations });
        self.tags.extend(tag);
    }

    #[inline]
    fn push_header(&mut self, kind: EntryKind, mutations_bytes: usize) {
        let (code, id) = match kind {
            EntryKind::Write => (1, None),
            EntryKind::Intent { id } => (2, Some(id)),
            EntryKind::IntentDone { id } => (3, Some(id)),
            EntryKind::Continued => (4, None),
        };
        let length = mutations_bytes + id.map_or(0, |_| size_of::<u64>());
        let length = u32::try_from(length).expect("writes are limited to less");
        let mut header = [code, 0, 0, 0, 0];
        header[1..].copy_from_slice(&length.to_le_bytes());
        self.entries.extend_from_slice(&header);
        if let Some(id) = id {
            self.entries.extend_from_slice(&id.to_le_bytes());
        }
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.len() + self.large.iter().map(|large| large.bytes.len()).sum::<usize>()
    }

    /// Bytes of memory that it has, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let large: usize = self.large.iter().map(|large| large.bytes.capacity()).sum();
        self.entries.capacity() + large + self.tags.capacity() * size_of::<u128>()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.large.clear();
        self.tags.clear();
    }

    /// Whom to answer, in the order of the writes and intents among its entries.
    #[must_use]
    pub fn tags(&self) -> &[u128] {
        &self.tags
    }

    /// Its entries.
    pub fn entries(&self) -> impl Iterator<Item = LogEntry<'_>> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let (entry, next) = self.entry_at(place)?;
            place = next;
            Some(entry)
        })
    }

    /// The entry at this place, if there is one, and the place of the next. The first is at 0.
    #[must_use]
    pub fn entry_at(&self, place: usize) -> Option<(LogEntry<'_>, usize)> {
        let rest = self.entries.get(place..)?;
        if !self.large.is_empty() {
            let (kind, header_bytes) = entry_header(rest)?;
            let behind = place + header_bytes;
            if let Ok(found) = self.large.binary_search_by_key(&behind, |large| large.place) {
                let mutations = self.large[found].bytes.as_slice();
                return Some((LogEntry { kind, mutations }, behind));
            }
        }
        let (entry, rest) = split_entry(rest)?;
        Some((entry, self.entries.len() - rest.len()))
    }

    /// The bytes of all its entries, in runs.
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let places = self.large.iter().map(|large| large.place);
        let ends = places.clone().chain([self.entries.len()]);
        let between = std::iter::once(0).chain(places).zip(ends);
        let small = between.map(|(from, to)| &self.entries[from..to]);
        let mut large = self.large.iter();
        small.flat_map(move |small| {
            [small, large.next().map_or(&[][..], |large| large.bytes.as_slice())]
        })
    }

    /// Puts what is to be written into `out`, for a device with blocks of so many bytes: as many of
    /// its sectors as there is time for, so many at once, from number `from` on. Gives the number
    /// to go on with; `None` if that was all.
    ///
    /// # Panics
    ///
    /// If it is longer than a block of the log may be.
    pub fn encode_some(
        &self,
        (segment, sequence): (SegmentId, u64),
        (block_bytes, sectors_at_once): (usize, usize),
        out: &mut Buffer,
        from: usize,
        time: &mut TimeSlice<'_>,
    ) -> Option<usize> {
        let entry_bytes = self.bytes();
        let bytes = padded(entry_bytes, block_bytes);
        let block = SectorsOfBlock::new(segment, sequence, bytes / SECTOR_BYTES, entry_bytes);
        let mut parts = Parts::new(self.parts());
        parts.skip(from * SECTOR_PAYLOAD_BYTES);
        if from == 0 {
            out.make_room(bytes);
        }
        let mut at = from * SECTOR_BYTES;
        loop {
            // Memory is touched as it is filled: that takes longer than filling it.
            let end = bytes.min(at + sectors_at_once.max(1) * SECTOR_BYTES);
            if out.len() < end || end == bytes {
                out.resize_for_writing(end);
            }
            block.write(&mut out.as_mut_slice()[at..end], at / SECTOR_BYTES, &mut parts);
            if end == bytes {
                assert!(parts.is_empty(), "the entries fit");
                return None;
            }
            time.count(end - at);
            at = end;
            if time.is_over() {
                return Some(at / SECTOR_BYTES);
            }
        }
    }
}

/// The entries of a block's payload. Ends early at what cannot be read.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = LogEntry<'_>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (entry, after) = split_entry(rest)?;
        rest = after;
        Some(entry)
    })
}

/// The entry in front, and what comes after it.
fn split_entry(bytes: &[u8]) -> Option<(LogEntry<'_>, &[u8])> {
    let (kind, header_bytes) = entry_header(bytes)?;
    let [_, length @ ..] = *bytes.first_chunk::<ENTRY_HEADER_BYTES>()?;
    let end = ENTRY_HEADER_BYTES + u32::from_le_bytes(length) as usize;
    let (entry, after) = bytes.split_at_checked(end)?;
    Some((LogEntry { kind, mutations: entry.get(header_bytes..)? }, after))
}

/// What the entry in front means, and where its mutations begin.
fn entry_header(bytes: &[u8]) -> Option<(EntryKind, usize)> {
    let (header, after) = bytes.split_first_chunk::<ENTRY_HEADER_BYTES>()?;
    let id = || after.first_chunk().map(|id| u64::from_le_bytes(*id));
    let with_id = ENTRY_HEADER_BYTES + size_of::<u64>();
    match header[0] {
        1 => Some((EntryKind::Write, ENTRY_HEADER_BYTES)),
        2 => id().map(|id| (EntryKind::Intent { id }, with_id)),
        3 => id().map(|id| (EntryKind::IntentDone { id }, with_id)),
        4 => Some((EntryKind::Continued, ENTRY_HEADER_BYTES)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ManualClock;

    const SEGMENT: SegmentId = SegmentId { epoch: 3, shard: 1, number: 0 };

    const AT_ONCE: usize = 100;

    fn encode(block: &LogBlock, out: &mut Buffer) {
        let mut time = TimeSlice::endless();
        let rest = block.encode_some((SEGMENT, 5), (512, AT_ONCE), out, 0, &mut time);
        assert_eq!(rest, None);
    }

    #[test]
    fn a_block_is_the_same_in_memory_that_has_had_another() {
        let encode_bytes = |bytes: usize, out: &mut Buffer| {
            let mut block = LogBlock::default();
            block.push(EntryKind::Write, &vec![7; bytes], Some(1));
            encode(&block, out);
        };
        let (mut used, mut fresh) = (Buffer::default(), Buffer::default());
        encode_bytes(300_000, &mut used);
        encode_bytes(700, &mut used);
        encode_bytes(700, &mut fresh);
        assert_eq!(used.as_slice(), fresh.as_slice(), "what is left over is zeros");
        encode_bytes(200_000, &mut used);
        encode_bytes(200_000, &mut fresh);
        assert_eq!(used.as_slice(), fresh.as_slice());
    }

    /// Blocks with large entries among others, and the same without.
    fn blocks() -> [LogBlock; 2] {
        let intent = EntryKind::Intent { id: 9 };
        let (one, two) = (vec![1; 200_000], vec![2; 70_001]);
        let mut copied = LogBlock::default();
        copied.push(intent, &one, Some(1));
        copied.push(EntryKind::Write, &two, Some(2));
        copied.push(EntryKind::Write, b"small", Some(3));
        copied.push(EntryKind::IntentDone { id: 9 }, &[], None);
        copied.push(EntryKind::Write, &one, Some(4));
        let mut taken = LogBlock::default();
        taken.push_large(intent, one.clone(), Some(1));
        taken.push_large(EntryKind::Write, two, Some(2));
        taken.push(EntryKind::Write, b"small", Some(3));
        taken.push(EntryKind::IntentDone { id: 9 }, &[], None);
        taken.push_large(EntryKind::Write, one, Some(4));
        [copied, taken]
    }

    #[test]
    fn large_entries_are_read_and_written_like_others() {
        let [copied, taken] = blocks();
        let all: Vec<_> = taken.entries().collect();
        assert_eq!(all, copied.entries().collect::<Vec<_>>());
        assert_eq!((all.len(), taken.bytes()), (5, copied.bytes()));
        let (mut expected, mut out) = (Buffer::default(), Buffer::default());
        encode(&copied, &mut expected);
        encode(&taken, &mut out);
        assert_eq!(out.as_slice(), expected.as_slice());
    }

    #[test]
    fn a_block_that_is_encoded_in_pieces_is_the_same_as_at_once() {
        let [_, block] = blocks();
        let (mut expected, mut out) = (Buffer::default(), Buffer::default());
        encode(&block, &mut expected);
        let clock = ManualClock::at(0);
        let (mut from, mut pieces) = (0, 0);
        loop {
            let mut time = TimeSlice::new(&clock, 0);
            let next = block.encode_some((SEGMENT, 5), (512, AT_ONCE), &mut out, from, &mut time);
            pieces += 1;
            let Some(next) = next else { break };
            assert!(next - from <= AT_ONCE, "from {from} to {next}");
            from = next;
        }
        assert_eq!(out.as_slice(), expected.as_slice());
        assert_eq!(pieces, expected.len().div_ceil(AT_ONCE * SECTOR_BYTES));
    }
}
