//! A memtable: the rows of one table of one shard that are not in an sstable yet.
//!
//! Rows in order in each partition, and a hash map of partitions by their token, which is a hash
//! already. A row is kept as it was encoded; writing it again merges the two cell by cell, so the
//! memtable is exact: it holds what the same writes, in any order, always give. `oracle.rs` says
//! the same in the fewest words, and tests compare the two.

mod arena;
#[cfg(test)]
mod oracle;
mod rows;
#[cfg(test)]
mod tests;

use std::{ops::Bound, sync::Arc};

use hashbrown::HashTable;

pub use self::arena::Pool;
use self::{
    arena::{Arena, HEADER_BYTES},
    rows::{ENTRY_BYTES, Rows},
};
use crate::mutation::{Deletion, Item, MutationView, RowView, Token, merge, shadow};

/// Bytes that a row takes besides its keys and values.
const ROW_BYTES: usize = HEADER_BYTES + ENTRY_BYTES;

/// Bytes that a partition takes besides its key and rows.
const PARTITION_BYTES: usize = 160;

#[derive(Debug)]
struct Partition {
    token: Token,
    key: Box<[u8]>,
    /// No row holds anything that this covers.
    deletion: Option<Deletion>,
    rows: Rows,
}

/// One partition of a memtable.
#[derive(Clone, Copy, Debug)]
pub struct PartitionView<'a> {
    /// The token of its key.
    pub token: Token,
    /// Its serialized key.
    pub key: &'a [u8],
    /// Its deletion. No row holds anything that this covers.
    pub deletion: Option<Deletion>,
    rows: &'a Rows,
    arena: &'a Arena,
}

/// Rows of one table, by partition and clustering key.
#[derive(Debug, Default)]
pub struct Memtable {
    arena: Arena,
    partitions: Vec<Partition>,
    by_token: HashTable<u32>,
    /// Places in `partitions`, ascending by token and key; complete if as long as `partitions`.
    sorted: Vec<u32>,
    bytes: usize,
    rows: usize,
    timestamp_min: Option<i64>,
    scratch: Vec<u8>,
}

impl Memtable {
    /// Applies one mutation, all of it. Memory is taken from the pool.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 partitions.
    pub fn apply(&mut self, mutation: &MutationView<'_>, pool: &mut Pool) {
        let place = self.place_or_insert(mutation.token(), mutation.key());
        for item in mutation.items() {
            match item {
                Item::Row { ck, row } => self.apply_row(place, ck, row, pool),
                Item::PartitionDeletion(deletion) => self.delete_partition(place, deletion, pool),
            }
        }
    }

    fn place_or_insert(&mut self, token: Token, key: &[u8]) -> usize {
        let partitions = &self.partitions;
        let hash = token.0.cast_unsigned();
        let is_it = |place: &u32| {
            let partition = &partitions[*place as usize];
            partition.token == token && *partition.key == *key
        };
        if let Some(place) = self.by_token.find(hash, is_it) {
            return *place as usize;
        }
        let place = self.partitions.len();
        let number = u32::try_from(place).expect("memory ends before that");
        let hash_of = |place: &u32| partitions[*place as usize].token.0.cast_unsigned();
        self.by_token.insert_unique(hash, number, hash_of);
        self.partitions.push(Partition {
            token,
            key: key.into(),
            deletion: None,
            rows: Rows::default(),
        });
        self.bytes += PARTITION_BYTES + key.len();
        place
    }

    fn apply_row(&mut self, place: usize, ck: &[u8], row: &[u8], pool: &mut Pool) {
        let Self { arena, partitions, scratch, .. } = self;
        let partition = &mut partitions[place];
        let Ok(view) = RowView::parse(row) else {
            debug_assert!(false, "rows are checked where they enter");
            return;
        };
        let oldest = view.timestamps().min();
        let hidden = partition.deletion.filter(|deletion| oldest <= Some(deletion.timestamp));
        let mut left = Vec::new();
        let row = match hidden {
            Some(deletion) => {
                shadow(row, deletion.timestamp, &mut left);
                if RowView::parse(&left).is_ok_and(|row| row.is_empty()) {
                    return;
                }
                &left
            }
            None => row,
        };
        if let Some(oldest) = oldest {
            self.timestamp_min = Some(self.timestamp_min.unwrap_or(oldest).min(oldest));
        }
        let slot = partition.rows.find(arena, ck);
        let Some(found) = slot.place else {
            partition.rows.set(&slot, arena.push(ck, row, pool));
            self.bytes += ROW_BYTES + ck.len() + row.len();
            self.rows += 1;
            return;
        };
        scratch.clear();
        merge(arena.get(found).1, row, scratch);
        if !arena.replace(found, scratch) {
            // The old record stays until the flush, and counts until then.
            partition.rows.set(&slot, arena.push(ck, scratch, pool));
            self.bytes += ROW_BYTES + ck.len() + scratch.len();
        }
    }

    fn delete_partition(&mut self, place: usize, deletion: Deletion, pool: &mut Pool) {
        let Self { arena, partitions, scratch, bytes, rows, .. } = self;
        let partition = &mut partitions[place];
        partition.deletion = partition.deletion.max(Some(deletion));
        let timestamp = deletion.timestamp;
        self.timestamp_min = Some(self.timestamp_min.unwrap_or(timestamp).min(timestamp));
        partition.rows.retain(|place| {
            scratch.clear();
            shadow(arena.get(*place).1, timestamp, scratch);
            if RowView::parse(scratch).is_ok_and(|row| row.is_empty()) {
                *rows -= 1;
                return false;
            }
            if !arena.replace(*place, scratch) {
                let ck = arena.ck(*place).to_vec();
                *bytes += ROW_BYTES + ck.len() + scratch.len();
                *place = arena.push(&ck, scratch, pool);
            }
            true
        });
    }

    /// Puts it in order and shares it: nobody can write to it any more.
    #[must_use]
    pub fn freeze(mut self) -> Arc<Self> {
        self.sort();
        Arc::new(self)
    }

    /// Gives its memory back.
    pub fn recycle(self, pool: &mut Pool) {
        pool.put(self.arena);
    }

    fn view<'a>(&'a self, partition: &'a Partition) -> PartitionView<'a> {
        let Partition { token, key, deletion, rows } = partition;
        let (token, deletion) = (*token, *deletion);
        PartitionView { token, key, deletion, rows, arena: &self.arena }
    }

    /// The partition with this key.
    #[must_use]
    pub fn partition(&self, token: Token, key: &[u8]) -> Option<PartitionView<'_>> {
        let is_it = |place: &u32| {
            let partition = &self.partitions[*place as usize];
            partition.token == token && *partition.key == *key
        };
        let place = self.by_token.find(token.0.cast_unsigned(), is_it)?;
        Some(self.view(&self.partitions[*place as usize]))
    }

    /// Puts the partitions in order, for [`Self::in_order`]. Cheap if there are no new ones.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 partitions.
    pub fn sort(&mut self) {
        if self.sorted.len() == self.partitions.len() {
            return;
        }
        let count = u32::try_from(self.partitions.len()).expect("memory ends before that");
        self.sorted = (0..count).collect();
        let place = |number: &u32| {
            let partition = &self.partitions[*number as usize];
            (partition.token, &*partition.key)
        };
        self.sorted.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
    }

    /// The partitions from this place on, ascending by token and key. [`Self::sort`] comes first.
    pub fn in_order<'a>(
        &'a self,
        token: Token,
        key: &[u8],
    ) -> impl Iterator<Item = PartitionView<'a>> + use<'a> {
        debug_assert_eq!(self.sorted.len(), self.partitions.len(), "it is sorted");
        let before = |number: &u32| {
            let partition = &self.partitions[*number as usize];
            (partition.token, &*partition.key) < (token, key)
        };
        let start = self.sorted.partition_point(before);
        let view = |number: &u32| self.view(&self.partitions[*number as usize]);
        self.sorted[start..].iter().map(view)
    }

    /// The partition with this number in their order. [`Self::sort`] comes first.
    #[must_use]
    pub fn nth(&self, number: usize) -> Option<PartitionView<'_>> {
        let place = *self.sorted.get(number)?;
        Some(self.view(&self.partitions[place as usize]))
    }

    /// Bytes that it takes in memory, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether nothing was written to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The oldest timestamp that was written to it, in microseconds since the Unix epoch.
    #[must_use]
    pub fn timestamp_min(&self) -> Option<i64> {
        self.timestamp_min
    }
}

impl<'a> PartitionView<'a> {
    /// Its rows between two clustering keys, as (clustering key, row), ascending.
    #[must_use]
    pub fn range(
        self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let Self { rows, arena, .. } = self;
        let places = is_range(from, to).then(|| rows.range(arena, from, to));
        places.into_iter().flatten().map(|place| arena.get(place))
    }

    /// All its rows, ascending.
    #[must_use]
    pub fn rows(self) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }
}

/// Whether a range has a beginning that is not after its end.
fn is_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(from), Bound::Excluded(to)) => from < to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from <= to,
    }
}
