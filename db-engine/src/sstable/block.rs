//! A block: rows in order, compressed and checked as one, and complete in itself.

use std::{cmp::Ordering, io};

use super::{SstableId, packing::unpack};
use crate::mutation::{Deletion, Input, RangeDeletion, RowView, Token};

const PARTITION: u8 = 1;
const DELETED_PARTITION: u8 = 2;
const ROW: u8 = 3;
/// A row whose clustering key is longer than a `u16` can count.
const ROW_OF_LONG_KEY: u8 = 4;
const RANGE_DELETION: u8 = 5;

/// Where the key of a partition begins, behind the kind, the token and its length.
const KEY_AT: u32 = 11;

/// A row in a block, or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRow<'a> {
    /// The token of its partition.
    pub token: Token,
    /// The key of its partition.
    pub key: &'a [u8],
    /// The deletion of its partition.
    pub deletion: Option<Deletion>,
    /// Its clustering key and its cells; `None` if it is a deletion: of the partition, or this:
    pub row: Option<(&'a [u8], &'a [u8])>,
    /// The deletion of a range of rows, from here on.
    pub range: Option<RangeDeletion<'a>>,
}

impl<'a> BlockRow<'a> {
    /// Where it is in its partition: where the range begins, or before all rows, if it is a
    /// deletion.
    #[must_use]
    #[inline]
    pub fn ck(&self) -> &'a [u8] {
        let range = self.range.map_or(&[][..], |range| range.from);
        self.row.map_or(range, |(ck, _)| ck)
    }

    /// Its place among all rows and deletions, those in the same place not told apart.
    #[must_use]
    pub fn cmp_to(&self, token: Token, key: &[u8], ck: &[u8]) -> Ordering {
        (self.token, self.key, self.ck()).cmp(&(token, key, ck))
    }

    /// Which of two comes first where sstables are combined.
    #[must_use]
    #[inline]
    pub fn order(&self, other: &BlockRow<'_>) -> Ordering {
        let by_place = self.cmp_to(other.token, other.key, other.ck());
        by_place.then_with(|| self.rank().cmp(&other.rank()))
    }

    /// In the same place, the deletion of the partition is first, that of a range is next, and a
    /// row, which is in that range, is last.
    #[must_use]
    #[inline]
    pub fn rank(&self) -> u8 {
        if self.row.is_some() { 2 } else { u8::from(self.range.is_some()) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct BlockPartition {
    token: Token,
    key: Span,
    deletion: Option<Deletion>,
}

/// Which partition a row or deletion is of, and where in the bytes it begins: what a block takes in
/// memory is not much more than these.
#[derive(Clone, Copy, Debug)]
struct BlockEntry {
    partition: u32,
    start: u32,
}

/// What an entry says.
#[derive(Clone, Copy, Debug)]
enum EntryContent<'a> {
    PartitionDeletion,
    Range(RangeDeletion<'a>),
    /// Its clustering key and its cells.
    Row(&'a [u8], &'a [u8]),
}

/// The place of an entry among those of its partition.
type EntryPlace<'a> = (Option<&'a [u8]>, bool);

impl<'a> EntryContent<'a> {
    /// Takes what comes after this kind, which begins no partition.
    #[inline]
    fn take(kind: u8, input: &mut Input<'a>) -> Option<Self> {
        let ck_bytes = match kind {
            ROW => usize::from(input.u16()?),
            ROW_OF_LONG_KEY => input.u32()? as usize,
            RANGE_DELETION => {
                let mut bound = || {
                    let length = input.u32()? as usize;
                    input.take(length)
                };
                let (from, to) = (bound()?, bound()?);
                let deletion = Deletion { timestamp: input.i64()?, deleted_s: input.i64()? };
                return Some(Self::Range(RangeDeletion { from, to, deletion }));
            }
            _ => return None,
        };
        let ck = input.take(ck_bytes)?;
        let row_bytes = input.u32()? as usize;
        Some(Self::Row(ck, input.take(row_bytes)?))
    }

    fn place(self) -> EntryPlace<'a> {
        match self {
            Self::PartitionDeletion => (None, false),
            Self::Range(range) => (Some(range.from), false),
            Self::Row(ck, _) => (Some(ck), true),
        }
    }
}

/// A block in memory: its rows can be asked for by number.
#[derive(Clone, Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    partitions: Vec<BlockPartition>,
    entries: Vec<BlockEntry>,
    /// Which entries delete ranges, by their numbers.
    ranges: Vec<u32>,
}

impl Block {
    /// Reads a block as it is stored at this place of this file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`], with what is wrong, if the bytes are not what was written
    /// there.
    pub fn decode(id: SstableId, offset: u64, stored: &[u8]) -> io::Result<Self> {
        Self::default().decode_next(id, offset, stored)
    }

    /// The same, in the memory of a block that is not needed any more.
    ///
    /// # Errors
    ///
    /// As of [`Self::decode`].
    pub fn decode_next(mut self, id: SstableId, offset: u64, stored: &[u8]) -> io::Result<Self> {
        unpack(id, offset, stored, &mut self.bytes)?;
        self.partitions.clear();
        self.entries.clear();
        self.ranges.clear();
        self.parse().ok_or_else(|| invalid("rows of a block are malformed"))?;
        if !self.is_in_order() {
            return Err(invalid("rows of a block are not in order"));
        }
        Ok(self)
    }

    /// Whether its partitions ascend, and so do the rows and ranges of each, which do not overlap:
    /// a reader that goes on behind the last row that it gave relies on that.
    fn is_in_order(&self) -> bool {
        let partition = |one: &BlockPartition| (one.token, self.slice(one.key));
        self.partitions.is_sorted_by(|a, b| partition(a) < partition(b)) && {
            // Which partition the entry before is of, its place there, and where the range ends
            // that was the last one.
            let mut before: Option<(u32, EntryPlace<'_>)> = None;
            let mut end: Option<(u32, &[u8])> = None;
            self.entries.iter().all(|entry| {
                let Some(content) = self.content(*entry) else { return false };
                let (own, place) = (entry.partition, content.place());
                let is_behind = before.is_none_or(|(other, at)| other != own || at < place);
                before = Some((own, place));
                let EntryContent::Range(RangeDeletion { from, to, .. }) = content else {
                    return is_behind;
                };
                let is_apart = end.is_none_or(|(other, end)| other != own || end <= from);
                end = Some((own, to));
                is_behind && is_apart && !from.is_empty() && from < to
            })
        }
    }

    fn parse(&mut self) -> Option<()> {
        let mut input = Input(&self.bytes);
        loop {
            let start = u32::try_from(self.bytes.len() - input.0.len()).ok()?;
            let Some(kind) = input.u8() else { return Some(()) };
            if kind != PARTITION && kind != DELETED_PARTITION {
                let partition = u32::try_from(self.partitions.len()).ok()?.checked_sub(1)?;
                match EntryContent::take(kind, &mut input)? {
                    EntryContent::Row(_, row) => RowView::parse(row).ok()?.check().ok()?,
                    _ => self.ranges.push(u32::try_from(self.entries.len()).ok()?),
                }
                self.entries.push(BlockEntry { partition, start });
                continue;
            }
            let token = Token(input.i64()?);
            let bytes = input.u16()?;
            let key = Span { start: start + KEY_AT, bytes: bytes.into() };
            input.take(bytes.into())?;
            let mut deletion = None;
            if kind == DELETED_PARTITION {
                let partition = u32::try_from(self.partitions.len()).ok()?;
                self.entries.push(BlockEntry { partition, start });
                deletion = Some(Deletion { timestamp: input.i64()?, deleted_s: input.i64()? });
            }
            self.partitions.push(BlockPartition { token, key, deletion });
        }
    }

    /// How many rows it has, each deletion counting as one more.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has neither rows nor deletions: only a partition key, as long as a block, whose
    /// rows come in the next one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The row or deletion with this number, ascending by token, key and clustering key.
    #[must_use]
    #[inline]
    pub fn row(&self, number: usize) -> Option<BlockRow<'_>> {
        let entry = self.entries.get(number)?;
        let partition = self.partitions.get(entry.partition as usize)?;
        let (row, range) = match self.content(*entry)? {
            EntryContent::PartitionDeletion => (None, None),
            EntryContent::Range(range) => (None, Some(range)),
            EntryContent::Row(ck, row) => (Some((ck, row)), None),
        };
        let key = self.slice(partition.key)?;
        Some(BlockRow { token: partition.token, key, deletion: partition.deletion, row, range })
    }

    #[inline]
    fn content(&self, entry: BlockEntry) -> Option<EntryContent<'_>> {
        let mut input = Input(self.bytes.get(entry.start as usize..)?);
        match input.u8()? {
            DELETED_PARTITION => Some(EntryContent::PartitionDeletion),
            kind => EntryContent::take(kind, &mut input),
        }
    }

    /// The last deletion of a range before the row with this number, if it is of this partition:
    /// no other one before that row reaches as far as the row before it.
    #[must_use]
    pub fn range_before(&self, row: usize, token: Token, key: &[u8]) -> Option<RangeDeletion<'_>> {
        let behind = self.ranges.partition_point(|range| (*range as usize) < row);
        let own = self.row(*self.ranges.get(behind.checked_sub(1)?)? as usize)?;
        own.range.filter(|_| (own.token, own.key) == (token, key))
    }

    /// The number of the first row that is not before this place.
    #[must_use]
    pub fn lower_bound(&self, token: Token, key: &[u8], ck: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.row(middle).map(|row| row.cmp_to(token, key, ck)) {
                Some(Ordering::Less) => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The number of the first row from this one on that is not before this place, in the order of
    /// sstables that are combined; found soon if it is near.
    #[must_use]
    pub fn first_from(&self, from: usize, place: &BlockRow<'_>) -> usize {
        let token = |number: usize| {
            let entry = self.entries.get(number)?;
            self.partitions.get(entry.partition as usize).map(|partition| partition.token)
        };
        let is_before = |number| match token(number).map(|token| token.cmp(&place.token)) {
            Some(Ordering::Equal) => self.row(number).is_some_and(|row| row.order(place).is_lt()),
            order => order == Some(Ordering::Less),
        };
        let (mut low, mut step) = (from, 1);
        while is_before(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether these two rows, by their numbers, are of one partition.
    #[must_use]
    #[inline]
    pub fn are_of_one_partition(&self, one: usize, other: usize) -> bool {
        let partition = |number| self.entries.get(number).map(|entry: &BlockEntry| entry.partition);
        partition(one) == partition(other)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.partitions.capacity() * size_of::<BlockPartition>()
            + self.entries.capacity() * size_of::<BlockEntry>()
            + self.ranges.capacity() * size_of::<u32>()
    }

    fn slice(&self, span: Span) -> Option<&[u8]> {
        self.bytes.get(span.start as usize..)?.get(..span.bytes as usize)
    }
}

/// Begins the rows of a partition.
pub(super) fn put_partition(
    out: &mut Vec<u8>,
    token: Token,
    key: &[u8],
    deletion: Option<Deletion>,
) {
    out.push(if deletion.is_some() { DELETED_PARTITION } else { PARTITION });
    out.extend_from_slice(&token.0.to_le_bytes());
    out.extend_from_slice(&length_u16(key).to_le_bytes());
    out.extend_from_slice(key);
    if let Some(deletion) = deletion {
        out.extend_from_slice(&deletion.timestamp.to_le_bytes());
        out.extend_from_slice(&deletion.deleted_s.to_le_bytes());
    }
}

/// Appends a row of the partition that was begun last.
pub(super) fn put_row(out: &mut Vec<u8>, ck: &[u8], row: &[u8]) {
    if let Ok(length) = u16::try_from(ck.len()) {
        out.push(ROW);
        out.extend_from_slice(&length.to_le_bytes());
    } else {
        out.push(ROW_OF_LONG_KEY);
        out.extend_from_slice(&length_u32(ck).to_le_bytes());
    }
    out.extend_from_slice(ck);
    out.extend_from_slice(&length_u32(row).to_le_bytes());
    out.extend_from_slice(row);
}

/// Appends a deletion of a range of rows of the partition that was begun last.
pub(super) fn put_range(out: &mut Vec<u8>, range: RangeDeletion<'_>) {
    out.push(RANGE_DELETION);
    for bound in [range.from, range.to] {
        out.extend_from_slice(&length_u32(bound).to_le_bytes());
        out.extend_from_slice(bound);
    }
    out.extend_from_slice(&range.deletion.timestamp.to_le_bytes());
    out.extend_from_slice(&range.deletion.deleted_s.to_le_bytes());
}

pub(super) fn length_u16(key: &[u8]) -> u16 {
    u16::try_from(key.len()).expect("keys come from mutations, which are limited")
}

pub(super) fn length_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("keys and rows come from mutations, which are limited")
}

pub(crate) fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
