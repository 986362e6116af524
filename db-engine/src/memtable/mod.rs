//! A memtable: the rows of one table of one shard that are not in an sstable yet.
//!
//! Partitions by key and in order of their tokens (`partitions.rs`), and in each of them rows in
//! order (`rows.rs`). A row is kept as it was encoded; writing it again merges the two cell by
//! cell, at once or, if the row is much larger than what is written, when it is read (`layers.rs`).
//! So the memtable is exact: it holds what the same writes, in any order, always give. `oracle.rs`
//! says the same in the fewest words, and tests compare the two.

mod ahead;
mod arena;
mod layers;
#[cfg(test)]
mod oracle;
mod partitions;
mod ranges;
mod rows;
#[cfg(test)]
mod tests;

use std::{hint::black_box, ops::Bound, sync::Arc};

use self::{
    ahead::ahead,
    arena::{Arena, HEADER_BYTES, RecordOffset},
    layers::Layers,
    partitions::{Partition, PartitionMap},
    ranges::RangeDeletions,
    rows::{ENTRY_BYTES, Rows},
};
pub use self::{
    arena::Pool,
    layers::{RowLayers, RowVersions},
};
use crate::{
    io::{TimeSlice, touch},
    mutation::{
        Deletion, Item, MergePlace, MutationView, RangeDeletion, RowView, Token, merge_some, shadow,
    },
};

/// Bytes that a row takes besides its keys and values.
const ROW_BYTES: usize = HEADER_BYTES + ENTRY_BYTES;

/// Memory for merging that is kept. A large row gives its memory back.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

/// Memory for larger rows is touched before they are put into it, and they are merged bit by bit.
/// Tests make do with little.
const LARGE_ROW_BYTES: usize = if cfg!(test) { 64 } else { 64 << 10 };

/// A deletion of a range may stop after so many ranges that it meets, which take some 80
/// microseconds.
const PIECE_RANGES: usize = 64;

/// One partition of a memtable.
#[derive(Clone, Copy, Debug)]
pub struct PartitionView<'a> {
    /// The token of its key.
    pub token: Token,
    /// Its serialized key.
    pub key: &'a [u8],
    /// Its deletion. No row holds anything that this covers.
    pub deletion: Option<Deletion>,
    ranges: Option<&'a RangeDeletions>,
    rows: &'a Rows,
    arena: &'a Arena,
    layers: &'a Layers,
}

/// What is left of a mutation that is applied bit by bit.
#[derive(Debug, Default)]
pub struct Unapplied {
    /// Bytes of the items that are left; `None` before the first.
    items_bytes: Option<usize>,
    /// The first row from which a deletion, which is the first of them, has yet to take.
    hidden_to: Option<Vec<u8>>,
    /// How far a large row, which is the first of them, is merged with the one that is there.
    merging: Option<MergePlace>,
}

/// Rows of one table, by partition and clustering key.
#[derive(Debug, Default)]
pub struct Memtable {
    arena: Arena,
    layers: Layers,
    partitions: PartitionMap,
    bytes: usize,
    rows: usize,
    timestamp_min: Option<i64>,
    /// Of rows alone.
    timestamp_max: Option<i64>,
    /// Whether a range of rows is deleted in any partition.
    has_ranges: bool,
    scratch: Vec<u8>,
}

impl Memtable {
    /// Applies one mutation, all of it. Memory is taken from the pool.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 partitions.
    pub fn apply(&mut self, mutation: &MutationView<'_>, pool: &mut Pool) {
        let mut time = TimeSlice::endless();
        self.apply_some(mutation, &mut Unapplied::default(), pool, &mut time);
    }

    /// Applies as much of what is left of a mutation as there is time for; returns whether that was
    /// all. Until then half of it can be seen.
    ///
    /// # Panics
    ///
    /// As [`Self::apply`].
    pub fn apply_some(
        &mut self,
        mutation: &MutationView<'_>,
        left: &mut Unapplied,
        pool: &mut Pool,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        let (token, key) = (mutation.token(), mutation.key());
        let (place, bytes) = self.partitions.find_or_insert(token, key);
        self.bytes += bytes;
        let mut items = mutation.last_items(left.items_bytes.unwrap_or(usize::MAX));
        // Rows that are written together are mostly beside one another.
        let mut leaf = None;
        loop {
            let items_bytes = items.bytes();
            let Some(item) = items.next() else { return true };
            if time.is_over() {
                left.items_bytes = Some(items_bytes);
                return false;
            }
            let from = left.hidden_to.as_deref();
            left.hidden_to = match item {
                Item::Row { ck, row } => {
                    let prepared = if row.len() > LARGE_ROW_BYTES {
                        self.prepare(place, (ck, row), &mut left.merging, (pool, time))
                    } else {
                        Some(false)
                    };
                    let Some(is_merged) = prepared else {
                        left.items_bytes = Some(items_bytes);
                        return false;
                    };
                    self.apply_row((place, &mut leaf), (ck, row), is_merged, pool);
                    time.count(row.len());
                    continue;
                }
                Item::PartitionDeletion(deletion) => {
                    self.delete_partition(place, deletion, from, (pool, time))
                }
                Item::RangeDeletion(range) => self.delete_range(place, range, from, (pool, time)),
            };
            if left.hidden_to.is_some() {
                left.items_bytes = Some(items_bytes);
                return false;
            }
        }
    }

    /// Touches the memory that a large row is to be put into, and merges it with the one that is
    /// there. Returns whether it is merged; `None` if the time is over before all is done.
    #[cold]
    fn prepare(
        &mut self,
        place: u32,
        (ck, row): (&[u8], &[u8]),
        merging: &mut Option<MergePlace>,
        (pool, time): (&mut Pool, &mut TimeSlice<'_>),
    ) -> Option<bool> {
        let Self { arena, layers, partitions, scratch, .. } = self;
        let partition = partitions.get(place);
        let Some(found) = partition.rows.find(arena, ck).place else {
            return pool.make_room(Arena::record_bytes(ck, row), time).then_some(false);
        };
        let record = arena.get(found).1;
        if merging.is_none() {
            if !touch(scratch, row.len(), time) {
                return None;
            }
            scratch.clear();
            // What is deleted comes out of it first, and a layer is not merged.
            if partition.deletion_of(ck).is_some() || !layers.is_for_record(found, record, row) {
                return Some(false);
            }
        }
        merge_some(record, row, merging, scratch, time).then_some(true)
    }

    /// Applies a row, which may be merged with the one that is there already. `leaf` is where it
    /// is looked for first, and then where it is.
    fn apply_row(
        &mut self,
        (place, leaf): (u32, &mut Option<usize>),
        (ck, row): (&[u8], &[u8]),
        is_merged: bool,
        pool: &mut Pool,
    ) {
        let Self { arena, layers, partitions, scratch, .. } = self;
        let partition = partitions.get_mut(place);
        let Ok(view) = RowView::parse(row) else {
            debug_assert!(false, "rows are checked where they enter");
            return;
        };
        let (oldest, newest) = view.timestamp_span().unzip();
        self.timestamp_max = self.timestamp_max.max(newest);
        let hidden =
            partition.deletion_of(ck).filter(|deletion| oldest <= Some(deletion.timestamp));
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
        let slot = partition.rows.find_near(arena, ck, *leaf);
        *leaf = Some(slot.leaf());
        let oldest = oldest.unwrap_or(i64::MIN);
        let Some(found) = slot.place else {
            partition.rows.set(&slot, arena.push(ck, row, pool), oldest);
            self.bytes += ROW_BYTES + ck.len() + row.len();
            self.rows += 1;
            return;
        };
        partition.rows.note(&slot, oldest);
        if !is_merged {
            scratch.clear();
        }
        if is_merged || layers.write((found, arena.get(found).1), row, scratch) {
            let replaced = arena.replace(found, scratch, pool);
            if replaced.more_bytes > 0 {
                partition.rows.set(&slot, replaced.place, oldest);
                self.bytes += replaced.more_bytes;
            }
        }
        if scratch.capacity() > SCRATCH_BYTES_KEPT {
            *scratch = Vec::new();
        }
    }

    /// Deletes from a row on, which is the first if none is said; returns that from which it is to
    /// go on, if the time is over before.
    fn delete_partition(
        &mut self,
        place: u32,
        deletion: Deletion,
        from: Option<&[u8]>,
        with: (&mut Pool, &mut TimeSlice<'_>),
    ) -> Option<Vec<u8>> {
        let partition = self.partitions.get_mut(place);
        partition.deletion = partition.deletion.max(Some(deletion));
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        self.hide(place, (from, Bound::Unbounded), deletion.timestamp, with)
    }

    /// As [`Self::delete_partition`], of a range.
    fn delete_range(
        &mut self,
        place: u32,
        range: RangeDeletion<'_>,
        from: Option<&[u8]>,
        (pool, time): (&mut Pool, &mut TimeSlice<'_>),
    ) -> Option<Vec<u8>> {
        self.has_ranges = true;
        let mut next = from.map(<[u8]>::to_vec);
        loop {
            let from = next.as_deref().unwrap_or(range.from);
            let ranges = self.partitions.get_mut(place).ranges.get_or_insert_default();
            let before = ranges.bytes();
            let rest = ranges.add_some(RangeDeletion { from, ..range }, PIECE_RANGES);
            self.bytes = self.bytes + ranges.bytes() - before;
            let to = rest.as_deref().unwrap_or(range.to);
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            let left = self.hide(place, bounds, range.deletion.timestamp, (&mut *pool, &mut *time));
            if left.is_some() || rest.is_none() {
                return left;
            }
            time.look();
            if time.is_over() {
                return rest;
            }
            next = rest;
        }
    }

    /// Takes what was written up to a timestamp out of rows between two clustering keys; returns
    /// the key from which it is to go on, if the time is over before.
    fn hide(
        &mut self,
        place: u32,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        timestamp: i64,
        (pool, time): (&mut Pool, &mut TimeSlice<'_>),
    ) -> Option<Vec<u8>> {
        let Self { arena, layers, partitions, scratch, bytes, rows, .. } = self;
        let partition = partitions.get_mut(place);
        self.timestamp_min = Some(self.timestamp_min.unwrap_or(timestamp).min(timestamp));
        let mut next: Option<Vec<u8>> = None;
        loop {
            let from = next.as_deref().map_or(from, Bound::Included);
            let span = partition.rows.span(arena, from, to);
            let (piece, behind) = partition.rows.piece(span, timestamp);
            next = behind.map(|place| arena.ck(place).to_vec());
            partition.rows.hide(piece, timestamp, |place| {
                let versions = row_versions(arena, layers, *place);
                let oldest = versions.iter().filter_map(oldest_of).min();
                if oldest > Some(timestamp) {
                    time.count(0);
                    return oldest;
                }
                scratch.clear();
                shadow(&versions.merged(), timestamp, scratch);
                layers.take(*place);
                time.count(scratch.len());
                if RowView::parse(scratch).is_ok_and(|row| row.is_empty()) {
                    *rows -= 1;
                    return None;
                }
                let replaced = arena.replace(*place, scratch, pool);
                *bytes += replaced.more_bytes;
                *place = replaced.place;
                oldest_of(scratch).or(Some(i64::MIN))
            });
            time.count(0);
            if next.is_none() || time.is_over() {
                return next;
            }
        }
    }

    /// Shares it: nobody can write to it any more.
    #[must_use]
    pub fn freeze(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Gives its memory back, as much of it as there is time for; returns whether that was all.
    pub fn recycle(&mut self, pool: &mut Pool, slice: &mut TimeSlice<'_>) -> bool {
        pool.put(std::mem::take(&mut self.arena));
        while !slice.is_over() {
            if !self.partitions.free_some() && !self.layers.free_some() {
                return true;
            }
            slice.count(0);
        }
        false
    }

    fn view<'a>(&'a self, partition: &'a Partition) -> PartitionView<'a> {
        let Partition { token, key, deletion, ranges, rows } = partition;
        let (token, deletion, ranges) = (*token, *deletion, ranges.as_deref());
        let (arena, layers) = (&self.arena, &self.layers);
        PartitionView { token, key, deletion, ranges, rows, arena, layers }
    }

    /// The partition with this key.
    #[must_use]
    pub fn partition(&self, token: Token, key: &[u8]) -> Option<PartitionView<'_>> {
        let place = self.partitions.find(token, key)?;
        Some(self.view(self.partitions.get(place)))
    }

    /// Whether a range of rows is deleted in any partition.
    #[must_use]
    pub fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// What deletes the row with this clustering key, by the ranges of rows that are deleted.
    #[must_use]
    pub fn range_deletion(&self, token: Token, key: &[u8], ck: &[u8]) -> Option<Deletion> {
        self.partition(token, key)?.ranges?.covering(ck)
    }

    /// The partitions from this place on, ascending by token and key. Their rows are taken to be
    /// wanted.
    pub fn in_order<'a>(
        &'a self,
        token: Token,
        key: &[u8],
    ) -> impl Iterator<Item = PartitionView<'a>> + use<'a> {
        let fetch = |partitions: &[&Partition]| {
            // One look for all before the next, as each of them is where the one before said.
            for one in partitions {
                black_box(one.rows.is_empty());
            }
            for one in partitions {
                black_box(one.rows.first_places().next());
            }
            for place in partitions.iter().flat_map(|one| one.rows.first_places()) {
                self.arena.fetch(place);
            }
        };
        ahead(self.partitions.from(token, key), fetch).map(|partition| self.view(partition))
    }

    /// Bytes that it takes in memory, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes + self.layers.bytes()
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

    /// The newest timestamp of a row that was written to it.
    #[must_use]
    pub fn timestamp_max(&self) -> Option<i64> {
        self.timestamp_max
    }
}

impl<'a> PartitionView<'a> {
    /// Its rows between two clustering keys, ascending.
    #[must_use]
    pub fn range(
        self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = RowVersions<'a>> + use<'a> {
        let Self { rows, arena, layers, .. } = self;
        let places = is_range(from, to).then(|| rows.range(arena, from, to));
        places.into_iter().flatten().map(|place| row_versions(arena, layers, place))
    }

    /// Its deleted ranges of rows that begin from here on, ascending: they are disjoint.
    pub fn ranges(self, from: Bound<&[u8]>) -> impl Iterator<Item = RangeDeletion<'a>> + use<'a> {
        self.ranges.map(|ranges| ranges.beginning_from(from)).into_iter().flatten()
    }

    /// Its rows from a clustering key on, ascending. All of them are taken to be wanted.
    pub fn rows_from(self, from: Bound<&[u8]>) -> impl Iterator<Item = RowVersions<'a>> + use<'a> {
        let Self { rows, arena, layers, .. } = self;
        let fetch = |places: &[RecordOffset]| places.iter().for_each(|place| arena.fetch(*place));
        ahead(rows.range(arena, from, Bound::Unbounded), fetch)
            .map(|place| row_versions(arena, layers, place))
    }

    /// All its rows, ascending.
    #[must_use]
    pub fn rows(self) -> impl DoubleEndedIterator<Item = RowVersions<'a>> + use<'a> {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }
}

/// The timestamp of the oldest thing in a row.
fn oldest_of(row: &[u8]) -> Option<i64> {
    RowView::parse(row).ok()?.timestamp_span().map(|(oldest, _)| oldest)
}

fn row_versions<'a>(arena: &'a Arena, layers: &'a Layers, place: RecordOffset) -> RowVersions<'a> {
    let (ck, record) = arena.get(place);
    RowVersions { ck, record, layers: layers.get(place, record) }
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
