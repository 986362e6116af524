//! When a flush begins, and of which tables.
//!
//! Memory decides: when it gets short the tables that have most of it are flushed. A table is
//! flushed for another reason only if little is written to it: it holds back segments of the log
//! when that has reached its limit, or its rows have been in memory for a day.

use super::{Committed, Encoder, Task};
use crate::{
    mutation::TableNumber,
    sstable::IndexRoom,
    store::{Store, TableData, table::Unflushed},
};

/// A flush takes less than this, in microseconds, unless the machine is far too busy. While memory
/// lasts for longer it need not begin.
const FLUSH_US_MAX: u64 = 30_000_000;

/// A table with so many times less in memory than the largest is not worth a file yet.
const SMALL_TABLE: usize = 8;

/// How far the memory for rows is full, and how fast it fills.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Filling {
    eighths: usize,
    /// When it had so many; `None` before the first row.
    since_us: Option<u64>,
    /// Microseconds that the last of them took.
    eighth_us: u64,
}

impl Store {
    /// When the next flush is due, by what has elapsed.
    pub(in crate::store) fn flush_due_us(&self) -> Option<u64> {
        if self.is_flush_wanted || self.is_log_due() {
            return Some(0);
        }
        if self.closing && self.log.is_idle() && !self.is_recorded() {
            return Some(0);
        }
        let since_us = self.unflushed_since_us?;
        if self.is_memory_due() {
            return Some(0);
        }
        Some(since_us.saturating_add(self.config.data_lifetime_us))
    }

    /// Begins to flush what these tables have in memory now.
    pub fn flush_tables(&mut self, tables: &[TableNumber]) {
        for number in tables {
            let Some(table) = self.tables.get_mut(number) else { continue };
            table.is_flush_wanted = table.unflushed.is_some();
            self.is_flush_wanted |= table.is_flush_wanted;
        }
    }

    /// Whether all that [`Self::flush_tables`] was asked for is in sstables. Asked in every turn:
    /// another flush may begin in the next.
    #[must_use]
    pub fn has_flushed(&self, tables: &[TableNumber]) -> bool {
        let known = tables.iter().filter_map(|number| self.tables.get(number));
        known.into_iter().all(|table| !table.is_flush_wanted && table.flushing.is_none())
    }

    /// Whether no row is in memory alone, and the journal knows where the log ends.
    pub(in crate::store) fn is_recorded(&self) -> bool {
        self.unflushed_since_us.is_none() && self.applied == self.recorded
    }

    /// Takes note of how far the memory for rows is full.
    pub(in crate::store) fn note_filling(&mut self, now_us: u64) {
        let eighths = self.active_bytes / (self.config.memtable_bytes_max / 8).max(1);
        if eighths == self.filling.eighths {
            return;
        }
        let since_us = self.filling.since_us.filter(|_| eighths > self.filling.eighths);
        let eighth_us = since_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
        self.filling = Filling { eighths, since_us: Some(now_us), eighth_us };
    }

    /// Whether it is time to free memory: what is left must do for what comes during a flush.
    fn is_memory_due(&self) -> bool {
        let memory = self.config.memtable_bytes_max;
        let eighth = memory / 8;
        let comes = (eighth as u64).saturating_mul(FLUSH_US_MAX) / self.filling.eighth_us.max(1);
        let comes = usize::try_from(comes).unwrap_or(usize::MAX).clamp(eighth, memory / 2);
        // A large write may have no room long before the memory is full.
        self.active_bytes >= memory - comes || (self.is_short && self.active_bytes >= eighth)
    }

    /// Whether the log has reached its limit, and something can be done about it: the oldest
    /// segment is not needed any more, or will not be after a flush.
    fn is_log_due(&self) -> bool {
        self.log.is_long() && {
            let floor = self.log_floor();
            floor > self.log.floor() || self.oldest_unflushed() == Some(floor)
        }
    }

    /// Begins to flush the tables for which it is time. If there are none, the journal learns all
    /// the same which segments are not needed and where the log ends.
    pub(in crate::store) fn begin_flush(&mut self, now_us: u64) {
        let largest = self.tables.values().map(|table| table.active.bytes()).max();
        let large = self.is_memory_due().then_some(largest.unwrap_or(0) / SMALL_TABLE);
        // The older half of the log at once: its segments are often held by several tables.
        let (oldest, newest) = (self.log.floor(), self.log.current_segment());
        let old = self.is_log_due().then_some(oldest + (newest - oldest) / 2);
        let is_due = |table: &TableData, unflushed: Unflushed| {
            let age_us = now_us.saturating_sub(unflushed.since_us);
            self.closing
                || table.is_flush_wanted
                || age_us >= self.config.data_lifetime_us
                || large.is_some_and(|large| table.active.bytes() >= large)
                || old.is_some_and(|old| unflushed.segment <= old)
        };
        let due = self
            .tables
            .iter()
            .filter_map(|(number, table)| is_due(table, table.unflushed?).then_some(*number));
        let tables: Vec<_> = due.collect();
        self.is_flush_wanted = false;
        for number in &tables {
            let Some(table) = self.tables.get_mut(number) else { continue };
            table.is_flush_wanted = false;
            let memtable = std::mem::take(&mut table.active);
            self.active_bytes -= memtable.bytes();
            self.flushing_bytes += memtable.bytes();
            self.active_rows -= memtable.rows();
            self.flushing_rows += memtable.rows();
            table.flushing = Some(memtable.freeze());
            table.unflushed = None;
        }
        self.is_short = false;
        self.note_oldest();
        let (owner, spare) = ((self.epoch, self.shard), std::mem::take(&mut self.spare_pieces));
        let numbers = self.file_numbers.clone();
        let written = (&self.config, self.clock.now_s());
        let encoder = Encoder::new(owner, numbers, &self.tables, written, spare)
            .with_index_room(self.index_room(self.index_bytes));
        self.task =
            Task::Encode(Box::new(encoder), Committed { sequence: self.applied.sequence, tables });
    }

    /// What indexes of small blocks may take beside others of so many bytes: blocks that are cached
    /// keep half of the share of memory that they have in common with indexes.
    pub(in crate::store) fn index_room(&self, index_bytes: usize) -> IndexRoom {
        IndexRoom::of((self.config.cache_bytes_max / 2).saturating_sub(index_bytes))
    }

    /// Finds out since when rows are in active memtables.
    pub(in crate::store) fn note_oldest(&mut self) {
        let since = self.tables.values().filter_map(|table| Some(table.unflushed?.since_us));
        self.unflushed_since_us = since.min();
    }
}
