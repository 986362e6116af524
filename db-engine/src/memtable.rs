//! A memtable: the rows of one table of one shard that are not in an sstable yet.
//!
//! One ordered map of rows in each partition, and a hash map of partitions by their token, which is
//! a hash already. A row is kept as it was encoded; writing it again merges the two cell by cell,
//! so the memtable is exact: it holds what the same writes, in any order, always give.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
    sync::Arc,
};

use hashbrown::HashTable;

use crate::mutation::{Deletion, Item, MutationView, RowView, Token, merge, shadow};

/// Bytes that a row takes besides its keys and values: two allocations and a place in the map.
const ROW_BYTES: usize = 96;

/// Bytes that a partition takes besides its key and rows.
const PARTITION_BYTES: usize = 320;

type Rows = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// One partition of a memtable.
#[derive(Debug)]
pub struct Partition {
    /// The token of its key.
    pub token: Token,
    /// Its serialized key.
    pub key: Box<[u8]>,
    /// Its deletion. No row holds anything that this covers.
    pub deletion: Option<Deletion>,
    rows: Rows,
}

/// Rows of one table, by partition and clustering key.
#[derive(Debug, Default)]
pub struct Memtable {
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
    /// Applies one mutation, all of it.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 partitions.
    pub fn apply(&mut self, mutation: &MutationView<'_>) {
        let place = self.place_or_insert(mutation.token(), mutation.key());
        for item in mutation.items() {
            match item {
                Item::Row { ck, row } => self.apply_row(place, ck, row),
                Item::PartitionDeletion(deletion) => self.delete_partition(place, deletion),
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
            rows: Rows::new(),
        });
        self.bytes += PARTITION_BYTES + key.len();
        place
    }

    fn apply_row(&mut self, place: usize, ck: &[u8], row: &[u8]) {
        let partition = &mut self.partitions[place];
        let Ok(view) = RowView::parse(row) else {
            debug_assert!(false, "rows are checked where they enter");
            return;
        };
        let oldest = view.timestamps().min();
        let hidden = partition.deletion.filter(|deletion| oldest <= Some(deletion.timestamp));
        self.scratch.clear();
        let row = match hidden {
            Some(deletion) => {
                shadow(row, deletion.timestamp, &mut self.scratch);
                if RowView::parse(&self.scratch).is_ok_and(|row| row.is_empty()) {
                    return;
                }
                &self.scratch
            }
            None => row,
        };
        if let Some(oldest) = oldest {
            self.timestamp_min = Some(self.timestamp_min.unwrap_or(oldest).min(oldest));
        }
        match partition.rows.entry(ck.into()) {
            Entry::Vacant(entry) => {
                self.bytes += ROW_BYTES + ck.len() + row.len();
                self.rows += 1;
                entry.insert(row.into());
            }
            Entry::Occupied(mut entry) => {
                let mut merged = Vec::with_capacity(row.len() + entry.get().len());
                merge(entry.get(), row, &mut merged);
                self.bytes = self.bytes + merged.len() - entry.get().len();
                entry.insert(merged.into());
            }
        }
    }

    fn delete_partition(&mut self, place: usize, deletion: Deletion) {
        let partition = &mut self.partitions[place];
        partition.deletion = partition.deletion.max(Some(deletion));
        let timestamp = deletion.timestamp;
        self.timestamp_min = Some(self.timestamp_min.unwrap_or(timestamp).min(timestamp));
        let (bytes, rows) = (&mut self.bytes, &mut self.rows);
        let scratch = &mut self.scratch;
        partition.rows.retain(|ck, row| {
            scratch.clear();
            shadow(row, timestamp, scratch);
            *bytes -= row.len();
            if RowView::parse(scratch).is_ok_and(|row| row.is_empty()) {
                *bytes -= ROW_BYTES + ck.len();
                *rows -= 1;
                return false;
            }
            *bytes += scratch.len();
            *row = scratch.as_slice().into();
            true
        });
    }

    /// Puts it in order and shares it: nobody can write to it any more.
    #[must_use]
    pub fn freeze(mut self) -> Arc<Self> {
        self.sort();
        Arc::new(self)
    }

    /// The partition with this key.
    #[must_use]
    pub fn partition(&self, token: Token, key: &[u8]) -> Option<&Partition> {
        let is_it = |place: &u32| {
            let partition = &self.partitions[*place as usize];
            partition.token == token && *partition.key == *key
        };
        let place = self.by_token.find(token.0.cast_unsigned(), is_it)?;
        self.partitions.get(*place as usize)
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
    ) -> impl Iterator<Item = &'a Partition> + use<'a> {
        debug_assert_eq!(self.sorted.len(), self.partitions.len(), "it is sorted");
        let before = |number: &u32| {
            let partition = &self.partitions[*number as usize];
            (partition.token, &*partition.key) < (token, key)
        };
        let start = self.sorted.partition_point(before);
        self.sorted[start..].iter().map(|number| &self.partitions[*number as usize])
    }

    /// The partition with this number in their order. [`Self::sort`] comes first.
    #[must_use]
    pub fn nth(&self, number: usize) -> Option<&Partition> {
        self.partitions.get(*self.sorted.get(number)? as usize)
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

impl Partition {
    /// Its rows between two clustering keys, as (clustering key, row), ascending.
    #[must_use]
    pub fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let rows = is_range(from, to).then(|| self.rows.range::<[u8], _>((from, to)));
        rows.into_iter().flatten().map(|(ck, row)| (&**ck, &**row))
    }

    /// All its rows, ascending.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.rows.iter().map(|(ck, row)| (&**ck, &**row))
    }
}

/// Whether a range has a beginning that is not after its end: the map panics at others.
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
