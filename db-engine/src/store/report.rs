//! What a store tells the operator of its tables.

use super::{
    Store,
    table::{Sstable, TableCounts},
};
use std::sync::Arc;

use crate::{mutation::TableNumber, sstable::Summary};

/// What a shard has of a table.
#[derive(Clone, Debug)]
pub struct TableReport {
    /// The table.
    pub table: TableNumber,
    /// Bytes that its rows take in memtables, those being flushed included.
    pub memtable_bytes: u64,
    /// Rows in memtables, those being flushed included.
    pub memtable_rows: u64,
    /// Its sstables. One with rows of several shards is told of by each of them.
    pub sstables: Vec<Summary>,
    /// Markers, cells and deletions in those of its sstables that count them.
    pub counted: u64,
    /// Those of them that were deleted or have expired.
    pub tombstones: u64,
    /// What was counted of it since the start.
    pub counts: TableCounts,
}

impl Store {
    /// What there is of each of these tables.
    #[must_use]
    pub fn report(&self, tables: &[TableNumber]) -> Vec<TableReport> {
        let known = tables.iter().filter_map(|number| Some((*number, self.tables.get(number)?)));
        let reports = known.map(|(number, table)| {
            let memtables: Vec<_> = table.memtables().into_iter().flatten().collect();
            let times = table.sstables.iter().filter_map(|one| one.index.tombstone_times());
            let now_s = self.clock.now_s();
            TableReport {
                table: number,
                memtable_bytes: memtables.iter().map(|one| one.bytes() as u64).sum(),
                memtable_rows: memtables.iter().map(|one| one.rows() as u64).sum(),
                sstables: table.sstables.iter().map(|sstable| sstable.summary).collect(),
                counted: times.clone().map(|times| times.all).sum(),
                tombstones: times.map(|times| times.gone_at(now_s)).sum(),
                counts: table.counts,
            }
        });
        reports.collect()
    }

    /// Has the files of these tables stay where they are, whatever becomes of them, until the
    /// answer is dropped. Whoever drops it rings for the shard.
    #[must_use]
    pub fn pin(&self, tables: &[TableNumber]) -> Vec<PinnedSstable> {
        let known = tables.iter().filter_map(|number| self.tables.get(number));
        let sstables = known.flat_map(|table| table.sstables.iter());
        sstables.map(|sstable| PinnedSstable(Arc::clone(sstable))).collect()
    }
}

/// An sstable whose file stays where it is.
#[derive(Debug)]
pub struct PinnedSstable(Arc<Sstable>);

impl PinnedSstable {
    /// What is known of it.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.0.summary
    }
}
