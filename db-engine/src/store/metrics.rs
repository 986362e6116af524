//! What a store counts.

use super::{Store, background::Task, compacting::Compaction};
use crate::mutation::token::shard_of;

/// Reads that wait for their next page have this part of the memory for blocks at most. It shrinks
/// as indexes grow, and blocks get what they leave.
const SUSPENDED_PART: usize = 8;

/// Counters since the store was opened, and a few levels. Plain numbers: one thread owns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Writes taken.
    pub writes: u64,
    /// Bytes of mutations taken.
    pub write_bytes: u64,
    /// Writes refused because too much was waiting.
    pub writes_overloaded: u64,
    /// Writes refused because the disk was full.
    pub writes_no_space: u64,
    /// Reads begun.
    pub reads: u64,
    /// Those of them that went on with what was kept of the page before.
    pub reads_resumed: u64,
    /// Those of them that began behind a position although nothing was kept for it.
    pub reads_not_resumed: u64,
    /// Reads that waited for the disk.
    pub reads_from_disk: u64,
    /// Those of them that were of a range of partitions and put blocks into the cache.
    pub scans_filling_cache: u64,
    /// Reads that failed.
    pub reads_failed: u64,
    /// Rows looked at by reads, before merging.
    pub rows_scanned: u64,
    /// Live rows returned by reads.
    pub rows_returned: u64,
    /// Blocks of the commit log written.
    pub log_blocks: u64,
    /// Bytes of these, padding included.
    pub log_block_bytes: u64,
    /// Microseconds from the submission to the completion of these, in all.
    pub log_block_us: u64,
    /// Level: segments of the commit log on disk.
    pub log_segments: u64,
    /// Level: bytes of these.
    pub log_bytes: u64,
    /// Level: bytes that rows take in memtables, those being flushed included.
    pub memtable_bytes: u64,
    /// Level: rows in memtables, those being flushed included.
    pub memtable_rows: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes of sstables written by these.
    pub flush_bytes: u64,
    /// Flushes that failed for want of space and were tried again.
    pub flushes_no_space: u64,
    /// Level: sstables in use.
    pub sstables: u64,
    /// Level: bytes of these.
    pub sstable_bytes: u64,
    /// Sstables removed because everything in them had expired.
    pub sstables_expired: u64,
    /// Compactions that were done.
    pub compactions: u64,
    /// Those of them that have left out what may be forgotten.
    pub compactions_forgetting: u64,
    /// Bytes of sstables read by compactions.
    pub compaction_read_bytes: u64,
    /// Bytes of sstables written by these.
    pub compaction_written_bytes: u64,
    /// Compactions given up because an sstable could not be read, which is left as it is.
    pub compactions_failed: u64,
    /// Compactions given up for want of space, to be tried again.
    pub compactions_no_space: u64,
    /// Compactions given up for good because there is no memory for their rows.
    pub compactions_no_memory: u64,
    /// Level: 1 while one is being done, else 0.
    pub compactions_running: u64,
    /// Level: bytes of memory that it takes.
    pub compaction_memory: u64,
    /// Level: bytes to be written until each window has one sstable, about.
    pub compaction_backlog_bytes: u64,
    /// Blocks of sstables found in memory.
    pub cache_hits: u64,
    /// Blocks of sstables read from disk.
    pub cache_misses: u64,
    /// Reads of files that the page cache has answered.
    pub file_reads_at_once: u64,
    /// Blocks of the log that the shard's own thread has written.
    pub own_log_writes: u64,
    /// Level: bytes of memory of memtables, that which waits to be used again included, and of
    /// writes on their way to the log.
    pub memtable_memory: u64,
    /// Level: bytes of the indexes of sstables.
    pub index_bytes: u64,
    /// Level: bytes of blocks kept in memory.
    pub cache_bytes: u64,
    /// Level: bytes that are kept for the next pages of reads.
    pub suspended_bytes: u64,
    /// Level: 1 while the disk is full, else 0.
    pub no_space: u64,
}

impl Store {
    /// Sets the levels to what they are now.
    pub(super) fn update_levels(&mut self) {
        let used = self.memtable_memory();
        self.pool.shrink_to(self.config.memtable_bytes_max.saturating_sub(used));
        let least = self.config.cache_bytes_max / 4;
        let compaction = self.compacting.current.as_ref().map_or(0, Compaction::bytes);
        let others = self.index_bytes + compaction;
        let for_blocks = self.config.cache_bytes_max.saturating_sub(others).max(least);
        let suspended = &mut self.reads.suspended;
        suspended.limit(for_blocks / SUSPENDED_PART);
        if suspended.bytes() > 0 {
            suspended.expire(self.clock.elapsed_us());
        }
        self.cache.limit(for_blocks - suspended.bytes());
        let metrics = &mut self.metrics;
        metrics.compaction_memory = compaction as u64;
        metrics.memtable_memory = (used + self.pool.spare_bytes()) as u64;
        metrics.index_bytes = self.index_bytes as u64;
        metrics.file_reads_at_once = self.files.reads_at_once();
        metrics.own_log_writes = self.files.own_writes();
        metrics.log_segments = self.log.segments();
        metrics.log_bytes = self.log.bytes();
        metrics.memtable_bytes = (self.active_bytes + self.flushing_bytes) as u64;
        metrics.cache_bytes = self.cache.bytes() as u64;
        metrics.suspended_bytes = self.reads.suspended.bytes() as u64;
        metrics.compactions_running = u64::from(self.compacting.current.is_some());
        metrics.no_space = u64::from(self.log.no_space() || matches!(self.task, Task::Pause(..)));
        metrics.memtable_rows = (self.active_rows + self.flushing_rows) as u64;
    }

    /// Finds out what all sstables have together, and when the first of them expires. There may be
    /// thousands of them: this is done when one of them comes or goes, and not in each turn.
    pub(super) fn note_sstables(&mut self) {
        let sstables = self.tables.values().flat_map(|table| table.sstables.iter());
        let (mut count, mut bytes, mut index_bytes) = (0, 0, 0);
        for sstable in sstables {
            count += 1;
            bytes += sstable.summary.bytes;
            index_bytes += sstable.index.memory_bytes();
        }
        self.index_bytes = index_bytes;
        (self.metrics.sstables, self.metrics.sstable_bytes) = (count, bytes);
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        let first = self.tables.values().filter_map(|table| table.expires_s(is_own));
        self.first_expiry_s = first.min();
        self.compacting.is_due = count > 0;
        self.note_rewrites();
        self.note_backlog();
    }
}
