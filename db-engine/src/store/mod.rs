//! The data of one shard: written to the log, kept in memtables, flushed to sstables.
//!
//! A write is staged in the log block of the turn; when the block is on the device its writes are
//! applied to the memtables and answered. So what can be read is durable, and what is answered can
//! be read. Nothing here blocks: whoever owns the store calls [`Store::turn_end`] and
//! [`Store::poll`] once a turn.

mod apply;
mod background;
mod compacting;
mod log;
mod metrics;
mod open;
mod read;
mod report;
mod request;
mod row_filter;
mod table;
mod turn;
mod verify;

use hashbrown::HashMap;
use std::{collections::BTreeMap, sync::Arc};

pub use compacting::{CompactionLeft, SplitSstable};
pub use metrics::StoreMetrics;
pub use report::{PinnedSstable, TableReport};
pub use request::{
    Done, Fatal, Page, PageRow, Partitions, Position, ReadCost, ReadRequest, Refused, Tag,
};
pub use row_filter::{JudgedPlace, Judgement, RowFilter, SearchPlace};
pub use table::TableCounts;
pub use verify::{StoppedDirectory, Verified};

use self::{
    apply::Applying,
    background::{FileNumbers, Filling, Task},
    compacting::Compacting,
    log::NextSegment,
    read::{Reads, cache::Cache},
    table::{Sstable, TableData},
    turn::InFlight,
};
use crate::{
    budget::Budget,
    commitlog::{CommitLog, LARGE_WRITE_BYTES, LogConfig, LogEnd, NotStaged, SegmentId},
    directory::{
        CatalogFile, FoundDirectory, Journal, Sequential,
        manifest::{Change, NO_SHARD, journal_name},
    },
    error::Result,
    io::{Buffer, Clock, Completion, Files, Operation, Ticket},
    memtable::{Memtable, Pool},
    mutation::{
        TableNumber, mutations,
        token::{range_of, shard_of},
    },
    schema::{Catalog, TableSettings},
    sstable::{BLOCK_BYTES, SstableId, Summary},
};

/// The most bytes of mutations in one write, with the default size of segments of the log.
pub const WRITE_BYTES_MAX: usize = 4 << 20;

/// A block of the log has this part of the memory for rows at most. There are three at a time: one
/// that is filled, one on its way, and the bytes that the device is given of it.
const LOG_PART: usize = 8;

/// How a store uses memory and disk.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// How many shards there are: one store each.
    pub shards: u16,
    /// Memory for memtables, in bytes a shard. A flush begins at half of it, or later if it fills
    /// slowly; writes are refused beyond it.
    pub memtable_bytes_max: usize,
    /// Memory for blocks of sstables and their indexes, in bytes a shard.
    pub cache_bytes_max: usize,
    /// Bytes of one segment of the commit log. A write has at most a quarter of it.
    pub log_segment_bytes: u64,
    /// Bytes of all full segments of a shard, beyond which the tables are flushed that hold back
    /// the oldest of them.
    pub log_bytes_max: u64,
    /// Sstables are written in pieces of at most this many bytes.
    pub flush_write_bytes: usize,
    /// Bytes of rows after which a block of an sstable is closed, before compression.
    pub block_bytes: usize,
    /// The longest that data stays in the log without being flushed, in microseconds.
    pub data_lifetime_us: u64,
    /// Microseconds after which a read that goes on lets the next one go on; 0 after each row.
    pub read_us: u64,
    /// Writes of so many bytes are not copied, and their blocks are made ready bit by bit.
    pub large_write_bytes: usize,
    /// Microseconds of a turn in which such a block is made ready; 0 is a piece of it.
    pub log_encoding_us: u64,
    /// How often to look for sstables in which everything has expired, in microseconds.
    pub expiry_check_us: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            shards: 1,
            memtable_bytes_max: 64 << 20,
            cache_bytes_max: 32 << 20,
            log_segment_bytes: 16 << 20,
            log_bytes_max: 1 << 30,
            flush_write_bytes: 1 << 20,
            block_bytes: BLOCK_BYTES,
            data_lifetime_us: 24 * 3_600_000_000,
            read_us: 100,
            large_write_bytes: LARGE_WRITE_BYTES,
            log_encoding_us: 500,
            expiry_check_us: 60_000_000,
        }
    }
}

impl StoreConfig {
    fn log(&self) -> LogConfig {
        LogConfig {
            segment_bytes: self.log_segment_bytes,
            bytes_max: self.log_bytes_max,
            staged_bytes_max: self.memtable_bytes_max / LOG_PART,
            large_bytes: self.large_write_bytes,
        }
    }

    /// How many pieces of sstables keep their memory for the next flush: sstables are smaller than
    /// the memtables that they come from.
    fn spare_pieces_max(&self) -> usize {
        self.memtable_bytes_max / 4 / self.flush_write_bytes.max(1)
    }
}

/// A directory that serves.
pub struct OpenDirectory {
    /// The data of each shard.
    pub stores: Vec<Store>,
    /// The schema.
    pub catalog: Catalog,
    /// Where it is kept.
    pub catalog_file: CatalogFile,
}

/// Opens the directory, and brings back everything that was acknowledged: one store a shard.
///
/// Rows of tables that are not in `tables`, which is asked about the schema that was found, are
/// removed. `files` are those of the shards, in their order; `schema` becomes that of the schema.
///
/// # Errors
/// If the directory is in use or of another format, or if a file is damaged, missing or older than
/// it was: then nothing has changed. Or if the operating system fails: then nothing is lost by
/// trying again.
///
/// # Panics
///
/// If there are not as many `files` as shards, or none.
pub fn open(
    config: &StoreConfig,
    mut files: Vec<Box<dyn Files>>,
    mut schema: Box<dyn Files>,
    clock: &Arc<dyn Clock>,
    tables: impl FnOnce(&Catalog) -> BTreeMap<TableNumber, TableSettings>,
) -> Result<OpenDirectory> {
    assert_eq!(files.len(), usize::from(config.shards), "each shard has its files");
    let mut sequential = Sequential(&mut *schema);
    // The lock lives as long as the files that took it: those of the first shard.
    let mut found = FoundDirectory::read(&mut *files[0], &mut sequential)?;
    let catalog = found.take_catalog();
    let tables = tables(&catalog);
    let now_s = clock.now_us().div_euclid(1_000_000);
    let opened = open::recover(config, &mut sequential, &found, &tables, now_s)?;
    let journal = Journal::open(&mut sequential, opened.run.epoch, NO_SHARD)?;
    let mut stores = Vec::new();
    for (shard, files) in (0..config.shards).zip(files) {
        let mut store = Store::open(config, shard, files, Arc::clone(clock), &tables, &opened)?;
        store.note_sstables();
        store.update_levels();
        stores.push(store);
    }
    let catalog_file = CatalogFile::new(schema, journal, opened.run.catalog);
    Ok(OpenDirectory { stores, catalog, catalog_file })
}

/// The data of one shard.
pub struct Store {
    shard: u16,
    config: StoreConfig,
    epoch: u32,
    files: Box<dyn Files>,
    clock: Arc<dyn Clock>,
    log: CommitLog,
    journal: Journal,
    tables: BTreeMap<TableNumber, TableData>,
    pool: Pool,
    /// Memtables that are not needed any more, whose memory is given back bit by bit.
    recycling: Vec<Memtable>,
    /// Memory for pieces of sstables.
    spare_pieces: Vec<Buffer>,
    cache: Cache,
    jobs: HashMap<Ticket, InFlight>,
    completions: Vec<Completion>,
    /// Answers that were found outside of [`Self::poll`].
    done: Vec<Done>,
    reads: Reads,
    /// Sstables that are not used any more but by reads under way, and whether their files are to
    /// be removed then.
    unused: Vec<(Arc<Sstable>, bool)>,
    /// Sstables of tables that were dropped, of which the manifest still knows.
    unwanted: Vec<SstableId>,
    task: Task,
    compacting: Compacting,
    file_numbers: FileNumbers,
    /// The block whose writes are being put into memtables.
    applying: Option<Applying>,
    /// The last block whose writes are in memtables.
    applied: LogEnd,
    /// The last block of which the journal knows.
    recorded: LogEnd,
    /// When the oldest write in active memtables came, by what had elapsed.
    unflushed_since_us: Option<u64>,
    next_expiry_check_us: u64,
    /// The first second at which an sstable may be of no use any more.
    first_expiry_s: Option<i64>,
    next_segment: NextSegment,
    filling: Filling,
    closing: bool,
    /// Why nothing goes on.
    fatal: Option<Fatal>,
    active_bytes: usize,
    active_rows: usize,
    flushing_bytes: usize,
    flushing_rows: usize,
    /// A write was refused for want of memory while nothing was being flushed.
    is_short: bool,
    /// The operator wants tables flushed.
    is_flush_wanted: bool,
    /// Bytes of the indexes of all sstables.
    index_bytes: usize,
    metrics: StoreMetrics,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Store {
    fn open(
        config: &StoreConfig,
        shard: u16,
        mut files: Box<dyn Files>,
        clock: Arc<dyn Clock>,
        tables: &BTreeMap<TableNumber, TableSettings>,
        opened: &open::Opened,
    ) -> Result<Self> {
        let epoch = opened.run.epoch;
        let mut sequential = Sequential(&mut *files);
        let mut journal = Journal::open(&mut sequential, epoch, shard)?;
        let first = SegmentId { epoch, shard, number: 0 };
        let first = log::prepare_first(&mut sequential, first, config.log_segment_bytes)?;
        // From here on a log that is not there was taken away.
        let begun = Change::Log { floor: 0, flushed: Vec::new() };
        let (operation, length) = journal.append(&[begun]);
        sequential.run(&journal_name(epoch, shard), operation)?;
        sequential.run(&journal_name(epoch, shard), Operation::Sync { file: journal.file })?;
        journal.length = length;
        let empty = |of: &TableSettings| TableData { settings: of.clone(), ..TableData::default() };
        let mut all: BTreeMap<_, _> = tables.iter().map(|(of, one)| (*of, empty(one))).collect();
        let own = range_of(shard, config.shards);
        let is_ours = |summary: &&Summary| {
            summary.token_first.0 <= *own.end() && *own.start() <= summary.token_last.0
        };
        for summary in opened.sstables.iter().filter(is_ours) {
            let index = opened.index_of(&mut sequential, summary)?;
            let (file, _) = sequential.open(&summary.id.file_name())?;
            if let Some(table) = all.get_mut(&summary.table) {
                table.add((*summary, index, file), opened.holders_of(summary.id));
            }
        }
        sequential.run(".", crate::io::Operation::SyncDirectory)?;
        Ok(Self {
            shard,
            epoch,
            files,
            log: CommitLog::new(epoch, shard, config.log(), first),
            journal,
            tables: all,
            pool: Pool::new(config.memtable_bytes_max / 2),
            recycling: Vec::new(),
            spare_pieces: Vec::new(),
            cache: Cache::new(config.cache_bytes_max),
            jobs: HashMap::new(),
            completions: Vec::new(),
            done: Vec::new(),
            reads: Reads::new(own),
            unused: Vec::new(),
            unwanted: Vec::new(),
            task: Task::Idle,
            compacting: Compacting::default(),
            file_numbers: FileNumbers::default(),
            applying: None,
            applied: LogEnd::default(),
            recorded: LogEnd::default(),
            unflushed_since_us: None,
            next_expiry_check_us: clock.elapsed_us().saturating_add(config.expiry_check_us),
            first_expiry_s: None,
            next_segment: NextSegment::default(),
            filling: Filling::default(),
            closing: false,
            fatal: None,
            active_bytes: 0,
            active_rows: 0,
            flushing_bytes: 0,
            flushing_rows: 0,
            is_short: false,
            is_flush_wanted: false,
            index_bytes: 0,
            metrics: StoreMetrics::default(),
            config: config.clone(),
            clock,
        })
    }

    /// Makes a table known, or its settings.
    pub fn define(&mut self, table: TableNumber, settings: TableSettings) {
        let table = self.tables.entry(table).or_default();
        table.settings = settings;
        if !table.sstables.is_empty() {
            self.note_sstables();
        }
    }

    /// Counts what reads hold while they wait there, from now on.
    pub fn charge_reads_to(&mut self, budget: &Arc<Budget>) {
        self.reads.charge_to(budget);
    }

    /// Whether a table is known.
    #[must_use]
    pub fn has_table(&self, table: TableNumber) -> bool {
        self.tables.contains_key(&table)
    }

    /// Forgets a table and all its rows. Its files are removed as soon as nothing else is being
    /// done; those with rows of several shards at the next start, when the catalog does not know
    /// the table any more.
    pub fn drop_table(&mut self, number: TableNumber) {
        let Some(table) = self.tables.remove(&number) else { return };
        self.active_bytes -= table.active.bytes();
        self.active_rows -= table.active.rows();
        self.note_oldest();
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        let summaries = table.sstables.iter().map(|sstable| &sstable.summary);
        self.unwanted.extend(summaries.filter(|one| one.is_of(is_own)).map(|one| one.id));
        self.unused.extend(table.sstables.iter().map(|sstable| (Arc::clone(sstable), false)));
        self.reads.keep_none_of(number);
        drop(table.sstables);
        self.close_unused();
        self.recycling.push(table.active);
        self.note_sstables();
    }

    /// Takes a write: one or more mutations of this shard's partitions, all or none. It is
    /// answered by [`Done::Write`] once it is durable and visible.
    ///
    /// # Errors
    /// If it cannot be taken now. Nothing of it happens then.
    pub fn write(&mut self, tag: Tag, mutations: &[u8]) -> std::result::Result<(), Refused> {
        self.admit(mutations, true)?;
        self.log.stage_write(tag.0, mutations).map_err(|why| self.refuse(why))
    }

    /// As [`Self::write`]. Takes many mutations away from the caller, so that they are not copied.
    ///
    /// # Errors
    /// As [`Self::write`].
    #[inline]
    pub fn take_write(
        &mut self,
        tag: Tag,
        mutations: &mut Vec<u8>,
    ) -> std::result::Result<(), Refused> {
        self.admit(mutations, true)?;
        self.log.take_write(tag.0, mutations).map_err(|why| self.refuse(why))
    }

    /// Takes an intent: mutations of any shards, all or none. When [`Done::Intent`] says that it is
    /// durable, the caller has each shard write its part and then calls [`Self::intent_done`].
    ///
    /// # Errors
    /// If it cannot be taken now. Nothing of it happens then.
    pub fn write_intent(&mut self, tag: Tag, mutations: &[u8]) -> std::result::Result<(), Refused> {
        self.admit(mutations, false)?;
        self.log.stage_intent(tag.0, mutations).map_err(|why| self.refuse(why))
    }

    /// As [`Self::write_intent`]. Takes many mutations away from the caller.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn take_intent(
        &mut self,
        tag: Tag,
        mutations: &mut Vec<u8>,
    ) -> std::result::Result<(), Refused> {
        self.admit(mutations, false)?;
        self.log.take_intent(tag.0, mutations).map_err(|why| self.refuse(why))
    }

    /// All parts of an intent are durable.
    pub fn intent_done(&mut self, tag: Tag) {
        self.log.intent_done(tag.0);
    }

    fn admit(&mut self, bytes: &[u8], is_own: bool) -> std::result::Result<(), Refused> {
        if self.closing {
            return Err(Refused::Closing);
        }
        if self.memtable_memory() + self.index_excess() + bytes.len()
            > self.config.memtable_bytes_max
        {
            self.metrics.writes_overloaded += 1;
            self.is_short |= self.flushing_bytes == 0;
            return Err(Refused::Overloaded);
        }
        for mutation in mutations(bytes) {
            let mutation = mutation.map_err(|_| Refused::Malformed)?;
            debug_assert!(mutation.check().is_ok(), "mutations are built or checked elsewhere");
            if !self.tables.contains_key(&mutation.table()) {
                return Err(Refused::UnknownTable);
            }
            debug_assert!(
                !is_own || shard_of(mutation.token(), self.config.shards) == self.shard,
                "a write goes to the shard that owns its partitions"
            );
        }
        self.metrics.writes += 1;
        self.metrics.write_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Bytes of rows that no sstable has yet, and of those on their way to the log.
    fn memtable_memory(&self) -> usize {
        let applying = self.applying.as_ref().map_or(0, Applying::memory_bytes);
        self.active_bytes + self.flushing_bytes + self.log.memory_bytes() + applying
    }

    /// Bytes that indexes of sstables take over three quarters of the share that they have in
    /// common with the cache. They must be there for reads, so it is writes that have less.
    fn index_excess(&self) -> usize {
        self.index_bytes.saturating_sub(self.config.cache_bytes_max / 4 * 3)
    }

    fn refuse(&mut self, why: NotStaged) -> Refused {
        match why {
            NotStaged::TooLarge => Refused::TooLarge,
            NotStaged::Full => {
                self.metrics.writes_overloaded += 1;
                Refused::Overloaded
            }
            NotStaged::NoSpace => {
                self.metrics.writes_no_space += 1;
                // At the start the next segment is merely not there yet.
                if self.log.no_space() { Refused::NoSpace } else { Refused::Overloaded }
            }
        }
    }

    /// Stops taking writes, flushes what is in memory, and records where the log ends.
    pub fn begin_shutdown(&mut self) {
        self.closing = true;
    }

    /// Whether nothing is left to be done, or in memory alone. An intent may be open all the same:
    /// the log has it, and the next start writes its parts.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.log.is_idle()
            && self.applying.is_none()
            && matches!(self.task, Task::Idle)
            && self.compacting.current.is_none()
            && self.unwanted.is_empty()
            && self.is_recorded()
            && self.unused.is_empty()
            && self.reads.is_empty()
            && self.jobs.is_empty()
    }

    /// What was counted.
    #[must_use]
    pub fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }
}

#[cfg(test)]
mod tests;
