//! What deletes the rows that a read comes to, as far as its sources have told.

use crate::mutation::{Deletion, RangeDeletion};

/// The deletion of the partition at hand, and those of ranges of its rows that are at hand or were
/// seen ahead. Each sstable has one of these at a time: its own do not overlap.
#[derive(Default)]
pub(super) struct SeenDeletions {
    partition: Option<Deletion>,
    ranges: Vec<SeenRange>,
}

struct SeenRange {
    from: Vec<u8>,
    to: Vec<u8>,
    deletion: Deletion,
}

impl SeenDeletions {
    pub fn clear(&mut self) {
        self.partition = None;
        self.ranges.clear();
    }

    /// The partition at hand is deleted.
    #[inline]
    pub fn add_partition(&mut self, deletion: Option<Deletion>) {
        if deletion.is_some() {
            self.partition = self.partition.max(deletion);
        }
    }

    /// A range of its rows is deleted.
    pub fn add_range(&mut self, range: RangeDeletion<'_>) {
        let RangeDeletion { from, to, deletion } = range;
        let mut ranges = self.ranges.iter_mut();
        // Each block repeats the rest of a range that goes on in it.
        match ranges.find(|range| range.to == to && range.deletion == deletion) {
            Some(same) if from < &*same.from => same.from = from.to_vec(),
            Some(_) => {}
            None => {
                let (from, to) = (from.to_vec(), to.to_vec());
                self.ranges.push(SeenRange { from, to, deletion });
            }
        }
    }

    /// Forgets the ranges that cover nothing from this clustering key on, in the order of reading.
    #[inline]
    pub fn come_to(&mut self, ck: &[u8], reverse: bool) {
        self.ranges.retain(|range| if reverse { &*range.from <= ck } else { ck < &*range.to });
    }

    /// What deletes the row with this clustering key, to which the read has come.
    #[inline]
    pub fn of_row(&mut self, ck: &[u8], reverse: bool) -> Option<Deletion> {
        if self.ranges.is_empty() {
            return self.partition;
        }
        self.come_to(ck, reverse);
        let covering = self.ranges.iter().filter(|range| &*range.from <= ck && ck < &*range.to);
        covering.map(|range| range.deletion).max().max(self.partition)
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.ranges.iter().map(|range| range.from.len() + range.to.len()).sum();
        self.ranges.capacity() * size_of::<SeenRange>() + keys
    }
}
