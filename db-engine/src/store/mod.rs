//! The data of one shard: written to the log, kept in memtables, flushed to sstables.
//!
//! A write is staged in the log block of the turn; when the block is on the device its writes are
//! applied to the memtables and answered. So what can be read is durable, and what is answered can
//! be read. Nothing here blocks: whoever owns the store calls [`Store::turn_end`] and
//! [`Store::poll`] once a turn.

mod metrics;
mod request;

use std::{collections::BTreeMap, sync::Arc};

pub use metrics::StoreMetrics;
pub use request::{
    Done, Fatal, Page, PageRow, Partitions, Position, ReadRequest, Refused, TableSettings, Tag,
};

use crate::{
    error::Result,
    io::{Clock, Files},
    mutation::TableNumber,
};

/// The most bytes of mutations in one write: what must fit into one block of the log.
pub const WRITE_BYTES_MAX: usize = 8 << 20;

/// How a store uses memory and disk.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// How many shards there are: one store each.
    pub shards: u16,
    /// Memory for memtables, in bytes a shard. A flush begins at half of it, writes are refused
    /// beyond it.
    pub memtable_bytes_max: usize,
    /// Memory for blocks of sstables, in bytes a shard.
    pub cache_bytes_max: usize,
    /// Bytes of one segment of the commit log.
    pub log_segment_bytes: u64,
    /// Bytes of all segments of a shard, beyond which the oldest data is flushed.
    pub log_bytes_max: u64,
    /// The longest that data stays in the log without being flushed, in microseconds.
    pub data_lifetime_us: i64,
    /// How often to look for sstables in which everything has expired, in microseconds.
    pub expiry_check_us: i64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            shards: 1,
            memtable_bytes_max: 64 << 20,
            cache_bytes_max: 32 << 20,
            log_segment_bytes: 16 << 20,
            log_bytes_max: 128 << 20,
            data_lifetime_us: 24 * 3_600_000_000,
            expiry_check_us: 60_000_000,
        }
    }
}

/// Opens the directory, and brings back everything that was acknowledged: one store a shard.
///
/// Files of tables that are not in `tables` are removed. `files` are those of the shards, in their
/// order; `recovery` is used until this returns.
///
/// # Errors
///
/// If the directory is in use or of another format, if a file is damaged, or if the operating
/// system fails. Nothing is lost by trying again.
pub fn open(
    config: &StoreConfig,
    files: Vec<Box<dyn Files>>,
    recovery: Box<dyn Files>,
    clock: &Arc<dyn Clock>,
    tables: &BTreeMap<TableNumber, TableSettings>,
) -> Result<Vec<Store>> {
    let _ = (config, files, recovery, clock, tables);
    Ok(Vec::new())
}

/// The data of one shard.
#[derive(Debug)]
pub struct Store {
    metrics: StoreMetrics,
}

#[allow(
    clippy::unused_self,
    clippy::needless_pass_by_ref_mut,
    missing_docs,
    clippy::missing_errors_doc
)]
impl Store {
    pub fn define(&mut self, table: TableNumber, settings: TableSettings) {
        let _ = (table, settings);
    }
    pub fn drop_table(&mut self, table: TableNumber) {
        let _ = table;
    }
    /// # Errors
    pub fn write(&mut self, tag: Tag, mutations: &[u8]) -> std::result::Result<(), Refused> {
        let _ = (tag, mutations);
        Err(Refused::Closing)
    }
    /// # Errors
    pub fn write_intent(&mut self, tag: Tag, mutations: &[u8]) -> std::result::Result<(), Refused> {
        let _ = (tag, mutations);
        Err(Refused::Closing)
    }
    pub fn intent_done(&mut self, tag: Tag) {
        let _ = tag;
    }
    /// Fills `page` at once (true) or answers later with `Done::Read(tag, page)` (false).
    /// # Errors
    pub fn read(&mut self, tag: Tag, request: &ReadRequest, page: &mut Page) -> Result<bool> {
        let _ = (tag, request, page);
        Ok(true)
    }
    pub fn turn_end(&mut self) {}
    /// # Errors
    pub fn poll(&mut self, done: &mut Vec<Done>) -> std::result::Result<(), Fatal> {
        let _ = done;
        Ok(())
    }
    #[must_use]
    pub fn deadline_us(&self) -> Option<i64> {
        None
    }
    pub fn begin_shutdown(&mut self) {}
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }
    #[must_use]
    pub fn metrics(&self) -> &StoreMetrics {
        &self.metrics
    }
}
