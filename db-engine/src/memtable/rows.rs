//! The rows of one partition, in order: leaves of a few dozen entries.
//!
//! An entry has the first bytes of its clustering key and its length beside the place of the
//! record: comparing keys that are no longer needs nothing else, nor do most others. Readings come
//! in the order of time, at one end of the partition; there a leaf is begun rather than split,
//! which leaves full ones behind.

use std::{cmp::Ordering, collections::VecDeque, ops::Bound};

use smallvec::{SmallVec, smallvec};

use super::arena::{Arena, RecordOffset};

/// The most entries of a leaf: inserting moves less than a kilobyte on average.
const LEAF_ENTRIES_MAX: usize = 64;

/// Entries that a leaf has memory for once it has more than the one that it holds itself.
const LEAF_ENTRIES_MIN: usize = 4;

/// A deletion may stop after the rows of so many leaves, which take some 50 microseconds.
const PIECE_LEAVES: usize = 8;

/// Bytes that a row takes in its leaf, about.
pub(super) const ENTRY_BYTES: usize = 32;

/// The first bytes of a clustering key, more than a moment takes, or zeros behind its end; then its
/// length, or one more than those bytes if it is longer. Prefixes are in the order of their keys,
/// and keys of equal ones are equal unless they are longer.
type Prefix = (u64, u64);

/// Bytes of a clustering key that a [`Prefix`] has.
const PREFIX_BYTES: usize = 15;

#[derive(Clone, Copy, Debug)]
struct LeafEntry {
    prefix: Prefix,
    place: RecordOffset,
}

#[derive(Debug)]
struct Leaf {
    /// The prefix of the first entry: looking for a leaf touches no other.
    first: Prefix,
    /// No row of it has anything older: a deletion of what is looks at none of them.
    oldest: i64,
    /// The only row of a partition is found without another look.
    entries: SmallVec<[LeafEntry; 1]>,
}

/// Leaves in order. Most partitions of a memtable have one: it needs no memory of its own, and no
/// look there to find a row.
#[derive(Debug)]
enum Leaves {
    One(Option<Leaf>),
    Many(VecDeque<Leaf>),
}

/// An entry by its leaf and its number there. One past the last of a leaf stands for the first of
/// the next.
type LeafPosition = (usize, usize);

/// Rows from one position up to another one.
pub(super) type LeafSpan = (LeafPosition, LeafPosition);

/// Rows in order of their clustering keys. No leaf is empty.
#[derive(Debug, Default)]
pub(super) struct Rows {
    leaves: Leaves,
    /// Rows that deletions have looked at.
    #[cfg(test)]
    pub looked_at: usize,
}

/// Where a clustering key is or would be.
pub(super) struct Slot {
    position: LeafPosition,
    prefix: Prefix,
    /// The record, if it is there.
    pub place: Option<RecordOffset>,
}

impl Slot {
    /// The number of its leaf.
    pub fn leaf(&self) -> usize {
        self.position.0
    }
}

impl Rows {
    /// Finds a clustering key.
    pub fn find(&self, arena: &Arena, ck: &[u8]) -> Slot {
        self.find_near(arena, ck, None)
    }

    /// As [`Self::find`], with a look at this leaf first, if one is said.
    pub fn find_near(&self, arena: &Arena, ck: &[u8], near: Option<usize>) -> Slot {
        let prefix = prefix(ck);
        let leaf = self.leaf_of(arena, prefix, ck, near);
        let Some(Leaf { entries, .. }) = self.leaves.get(leaf) else {
            return Slot { position: (leaf, 0), prefix, place: None };
        };
        let entries = entries.as_slice();
        let found = match entries.last() {
            // Most keys come after all others, or before them where the order is descending.
            Some(last) if order(arena, last, prefix, ck).is_lt() => Err(entries.len()),
            Some(_) if order(arena, &entries[0], prefix, ck).is_gt() => Err(0),
            _ => entries.binary_search_by(|entry| order(arena, entry, prefix, ck)),
        };
        let number = found.unwrap_or_else(|number| number);
        let place = found.ok().map(|number| entries[number].place);
        Slot { position: (leaf, number), prefix, place }
    }

    /// The last leaf that begins with this key or before it; the first, if none does.
    fn leaf_of(&self, arena: &Arena, prefix: Prefix, ck: &[u8], near: Option<usize>) -> usize {
        let is_not_after = |leaf: &Leaf| match leaf.first.cmp(&prefix) {
            Ordering::Equal => order(arena, &leaf.entries[0], prefix, ck).is_le(),
            order => order.is_lt(),
        };
        let has = |leaf: usize| self.leaves.get(leaf).is_some_and(is_not_after);
        if let Some(near) = near.filter(|near| has(*near) && !has(near + 1)) {
            return near;
        }
        let last = self.leaves.len().saturating_sub(1);
        if has(last) {
            return last;
        }
        if !has(1) {
            return 0;
        }
        self.leaves.partition_point(is_not_after).saturating_sub(1)
    }

    /// Takes note of how old the oldest of what is written to a row is.
    pub fn note(&mut self, slot: &Slot, oldest: i64) {
        if let Some(leaf) = self.leaves.get_mut(slot.position.0) {
            leaf.oldest = leaf.oldest.min(oldest);
        }
    }

    /// Puts a record where [`Self::find`] did not find one, or found another; it holds nothing
    /// that is older than what was noted, or than `oldest`.
    pub fn set(&mut self, slot: &Slot, place: RecordOffset, oldest: i64) {
        self.note(slot, oldest);
        let (number, at) = slot.position;
        let entry = LeafEntry { prefix: slot.prefix, place };
        let leaves = self.leaves.len();
        let Some(leaf) = self.leaves.get_mut(number) else {
            self.leaves.insert(number, Leaf::of_one(entry, oldest));
            return;
        };
        if slot.place.is_some() {
            leaf.entries[at] = entry;
        } else if leaf.entries.len() < LEAF_ENTRIES_MAX {
            leaf.insert(at, entry);
        } else if at == LEAF_ENTRIES_MAX && number + 1 == leaves {
            self.leaves.insert(leaves, Leaf::of_one(entry, oldest));
        } else if at == 0 && number == 0 {
            self.leaves.insert(0, Leaf::of_one(entry, oldest));
        } else {
            let upper = leaf.entries.drain(LEAF_ENTRIES_MAX / 2..).collect();
            let mut right = Leaf::of(upper, leaf.oldest);
            match at.checked_sub(LEAF_ENTRIES_MAX / 2) {
                Some(at) => right.insert(at, entry),
                None => leaf.insert(at, entry),
            }
            self.leaves.insert(number + 1, right);
        }
    }

    /// The rows between two clustering keys: the first, and the one behind the last.
    pub fn span(&self, arena: &Arena, from: Bound<&[u8]>, to: Bound<&[u8]>) -> LeafSpan {
        if let (Bound::Included(from), Bound::Included(to)) = (from, to)
            && from == to
        {
            let Slot { position, place, .. } = self.find(arena, from);
            return (position, (position.0, position.1 + usize::from(place.is_some())));
        }
        let start = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(ck) => self.find(arena, ck).position,
            Bound::Excluded(ck) => self.after(arena, ck),
        };
        let end = match to {
            Bound::Unbounded => (self.leaves.len(), 0),
            Bound::Excluded(ck) => self.find(arena, ck).position,
            Bound::Included(ck) => self.after(arena, ck),
        };
        (start, end)
    }

    /// What a span has in its first leaves that have something so old, and the first record of it
    /// behind them.
    pub fn piece(
        &self,
        (mut start, end): LeafSpan,
        timestamp: i64,
    ) -> (LeafSpan, Option<RecordOffset>) {
        while start.0 < end.0 && self.leaves.get(start.0).is_some_and(|one| one.oldest > timestamp)
        {
            start = (start.0 + 1, 0);
        }
        let middle = (start.0 + PIECE_LEAVES, 0);
        match self.leaves.get(middle.0) {
            Some(leaf) if middle < end => {
                ((start, middle), leaf.entries.first().map(|entry| entry.place))
            }
            _ => ((start, end), None),
        }
    }

    /// The leaves that have rows of a span.
    fn leaves_of(&self, (start, end): LeafSpan) -> std::ops::Range<usize> {
        start.0..self.leaves.len().min(end.0 + 1)
    }

    /// Hides what is up to this old in the rows of a span. `hide` does it with one row, and tells
    /// how old the oldest is that it has left; `None` if it has left nothing.
    pub fn hide(
        &mut self,
        span: LeafSpan,
        timestamp: i64,
        mut hide: impl FnMut(&mut RecordOffset) -> Option<i64>,
    ) {
        let mut is_one_empty = false;
        for number in self.leaves_of(span) {
            let Some(leaf) = self.leaves.get_mut(number) else { break };
            if leaf.oldest > timestamp {
                continue;
            }
            let own = leaf.entries_of(number, span);
            #[cfg(test)]
            {
                self.looked_at += own.len();
            }
            let is_whole = own == (0..leaf.entries.len());
            let (mut at, mut oldest) = (0.., i64::MAX);
            let mut is_own = || at.next().is_some_and(|at| own.contains(&at));
            leaf.entries.retain_mut(|entry| {
                !is_own()
                    || hide(&mut entry.place).is_some_and(|left| {
                        oldest = oldest.min(left);
                        true
                    })
            });
            if is_whole {
                leaf.oldest = oldest;
            }
            leaf.first = leaf.entries.first().map_or((0, 0), |entry| entry.prefix);
            is_one_empty |= leaf.entries.is_empty();
        }
        if is_one_empty {
            self.leaves.remove_empty();
        }
    }

    /// The records between two clustering keys, ascending.
    pub fn range(
        &self,
        arena: &Arena,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = RecordOffset> + use<'_> {
        let span = self.span(arena, from, to);
        self.leaves_of(span).flat_map(move |number| {
            let leaf = self.leaves.get(number);
            let entries = leaf.and_then(|leaf| leaf.entries.get(leaf.entries_of(number, span)));
            entries.unwrap_or_default().iter().map(|entry| entry.place)
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leaves.len() == 0
    }

    /// The first records, but no more than a leaf has room for at its beginning.
    pub fn first_places(&self) -> impl Iterator<Item = RecordOffset> {
        let entries = self.leaves.get(0).map_or(&[][..], |leaf| &leaf.entries);
        entries.iter().take(LEAF_ENTRIES_MIN).map(|entry| entry.place)
    }

    fn after(&self, arena: &Arena, ck: &[u8]) -> LeafPosition {
        let Slot { position: (leaf, number), place, .. } = self.find(arena, ck);
        (leaf, number + usize::from(place.is_some()))
    }
}

impl Leaves {
    fn len(&self) -> usize {
        match self {
            Self::One(leaf) => usize::from(leaf.is_some()),
            Self::Many(leaves) => leaves.len(),
        }
    }

    fn get(&self, number: usize) -> Option<&Leaf> {
        match self {
            Self::One(leaf) => leaf.as_ref().filter(|_| number == 0),
            Self::Many(leaves) => leaves.get(number),
        }
    }

    fn get_mut(&mut self, number: usize) -> Option<&mut Leaf> {
        match self {
            Self::One(leaf) => leaf.as_mut().filter(|_| number == 0),
            Self::Many(leaves) => leaves.get_mut(number),
        }
    }

    fn partition_point(&self, is_before: impl Fn(&Leaf) -> bool) -> usize {
        match self {
            Self::One(leaf) => usize::from(leaf.as_ref().is_some_and(is_before)),
            Self::Many(leaves) => leaves.partition_point(is_before),
        }
    }

    /// At either end in constant time.
    fn insert(&mut self, number: usize, leaf: Leaf) {
        match self {
            Self::One(one @ None) => *one = Some(leaf),
            Self::One(one) => {
                let mut leaves: VecDeque<Leaf> = one.take().into_iter().collect();
                leaves.insert(number, leaf);
                *self = Self::Many(leaves);
            }
            Self::Many(leaves) => leaves.insert(number, leaf),
        }
    }

    fn remove_empty(&mut self) {
        match self {
            Self::One(one) => *one = one.take().filter(|leaf| !leaf.entries.is_empty()),
            Self::Many(leaves) => leaves.retain(|leaf| !leaf.entries.is_empty()),
        }
    }
}

impl Default for Leaves {
    fn default() -> Self {
        Self::One(None)
    }
}

impl Leaf {
    fn of(entries: SmallVec<[LeafEntry; 1]>, oldest: i64) -> Self {
        Self { first: entries[0].prefix, oldest, entries }
    }

    fn of_one(entry: LeafEntry, oldest: i64) -> Self {
        Self::of(smallvec![entry], oldest)
    }

    /// Which of the entries of this leaf, by its number, are of a span.
    fn entries_of(&self, number: usize, (start, end): LeafSpan) -> std::ops::Range<usize> {
        let first = if number == start.0 { start.1 } else { 0 };
        first..if number == end.0 { end.1 } else { self.entries.len() }
    }

    fn insert(&mut self, at: usize, entry: LeafEntry) {
        if !self.entries.spilled() {
            self.entries.reserve_exact(LEAF_ENTRIES_MIN - self.entries.len());
        }
        self.entries.insert(at, entry);
        if at == 0 {
            self.first = entry.prefix;
        }
    }
}

/// Compares an entry to a clustering key.
#[inline]
fn order(arena: &Arena, entry: &LeafEntry, prefix: Prefix, ck: &[u8]) -> Ordering {
    let order = entry.prefix.cmp(&prefix);
    if order.is_ne() || ck.len() <= PREFIX_BYTES {
        return order;
    }
    arena.ck(entry.place).cmp(ck)
}

#[inline]
fn prefix(ck: &[u8]) -> Prefix {
    let length = u64::try_from(ck.len().min(PREFIX_BYTES + 1)).expect("it is small");
    let Some((high, rest)) = ck.split_first_chunk() else { return (big_endian(ck), length) };
    let low = &rest[..rest.len().min(PREFIX_BYTES - high.len())];
    (u64::from_be_bytes(*high), big_endian(low) | length)
}

/// The number that up to eight bytes are, with zeros behind them.
#[inline]
fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number >> 8 | u64::from(*byte) << 56)
}
