//! Between which clustering keys the entries of an sstable are.

use std::ops::Bound;

use super::block::length_u16;
use crate::mutation::Input;

const HAS_DELETED_PARTITIONS: u8 = 1;
const HAS_EMPTY_KEY: u8 = 2;
const HAS_FIRST: u8 = 4;
const HAS_LAST: u8 = 8;

/// Of a longer clustering key not all is kept.
const KEY_BYTES_MAX: usize = 256;

/// Between which clustering keys the entries of an sstable are, in all its partitions together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusteringSpan {
    /// Whether a partition is deleted. Then it has something for every clustering key.
    has_deleted_partitions: bool,
    /// Whether there is a row with an empty clustering key. It is not counted below: static rows
    /// would otherwise hide where all others begin.
    has_empty_key: bool,
    /// Not behind the first entry; `None` if there is none.
    first: Option<Vec<u8>>,
    /// Not before the last entry, and the end of the last deleted range; `None` if that is long.
    last: Option<Vec<u8>>,
    /// The last one is too long to be kept.
    is_last_cut: bool,
}

impl ClusteringSpan {
    /// Whether there may be something between two clustering keys. If not, there is nothing.
    pub fn may_have(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        if self.has_deleted_partitions || (self.has_empty_key && includes_empty(from, to)) {
            return true;
        }
        let Some(first) = self.first.as_deref() else { return false };
        let is_before = match to {
            Bound::Included(to) => to < first,
            Bound::Excluded(to) => to <= first,
            Bound::Unbounded => false,
        };
        let is_behind = self.last.as_deref().is_some_and(|last| match from {
            Bound::Included(from) => last < from,
            Bound::Excluded(from) => last <= from,
            Bound::Unbounded => false,
        });
        !is_before && !is_behind
    }

    /// A clustering key before which, in the order of reading, there is nothing of what is between
    /// these two; `None` if that is not known, or it is not behind where the reading begins.
    pub fn begins_at(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, reverse: bool) -> Option<&[u8]> {
        if self.has_deleted_partitions {
            return None;
        }
        if reverse {
            let is_inside = |last: &&[u8]| match to {
                Bound::Included(to) | Bound::Excluded(to) => *last < to,
                Bound::Unbounded => true,
            };
            return self.last.as_deref().filter(is_inside);
        }
        let is_inside = |first: &&[u8]| match from {
            Bound::Included(from) | Bound::Excluded(from) => *first > from,
            Bound::Unbounded => true,
        };
        let has_empty_key = self.has_empty_key && includes_empty(from, to);
        self.first.as_deref().filter(is_inside).filter(|_| !has_empty_key)
    }

    /// A partition is deleted.
    pub fn note_deleted_partition(&mut self) {
        self.has_deleted_partitions = true;
    }

    /// There is an entry with this clustering key, before all that come in its partition but for
    /// the one with an empty key.
    pub fn note_first(&mut self, ck: &[u8]) {
        if ck.is_empty() {
            self.has_empty_key = true;
        } else if self.first.as_deref().is_none_or(|first| ck < first) {
            self.first = Some(ck.get(..KEY_BYTES_MAX).unwrap_or(ck).to_vec());
        }
    }

    /// There is nothing behind this clustering key in the partition at hand.
    pub fn note_last(&mut self, ck: &[u8]) {
        if ck.len() > KEY_BYTES_MAX {
            self.is_last_cut = true;
        } else if !ck.is_empty() && self.last.as_deref().is_none_or(|last| last < ck) {
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(ck);
        }
    }

    /// Bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        [&self.first, &self.last].into_iter().flatten().map(Vec::capacity).sum()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let first = self.first.as_deref();
        let last = self.last.as_deref().filter(|_| !self.is_last_cut);
        let flags = [
            (self.has_deleted_partitions, HAS_DELETED_PARTITIONS),
            (self.has_empty_key, HAS_EMPTY_KEY),
            (first.is_some(), HAS_FIRST),
            (last.is_some(), HAS_LAST),
        ];
        out.push(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
        for key in [first, last].into_iter().flatten() {
            out.extend_from_slice(&length_u16(key).to_le_bytes());
            out.extend_from_slice(key);
        }
    }

    pub fn decode(input: &mut Input<'_>) -> Option<Self> {
        let flags = input.u8()?;
        let mut key = |flag| {
            if flags & flag == 0 {
                return Some(None);
            }
            let length = input.u16()?.into();
            Some(Some(input.take(length)?.to_vec()))
        };
        let (first, last) = (key(HAS_FIRST)?, key(HAS_LAST)?);
        let known = HAS_DELETED_PARTITIONS | HAS_EMPTY_KEY | HAS_FIRST | HAS_LAST;
        (flags & !known == 0).then_some(Self {
            has_deleted_partitions: flags & HAS_DELETED_PARTITIONS != 0,
            has_empty_key: flags & HAS_EMPTY_KEY != 0,
            first,
            is_last_cut: false,
            last,
        })
    }
}

/// Whether the empty clustering key is between these.
fn includes_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    matches!(from, Bound::Unbounded | Bound::Included([])) && !matches!(to, Bound::Excluded([]))
}
