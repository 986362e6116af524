//! What the operator is told, as JSON or by `sandglass-db ctl` as text.
#![allow(missing_docs)] // The names are what programs read; `docs/operating.md` explains them.

use crate::store::Verified;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    pub uptime_s: u64,
    pub cql: String,
    pub http: String,
    pub shards: usize,
    pub memory: Vec<ShareAccount>,
    pub log_segments: u64,
    pub log_bytes: u64,
    pub tables: usize,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub compactions_running: u64,
    pub compaction_backlog_bytes: u64,
    pub compactions_failed: u64,
    pub disk_free_bytes: u64,
    pub is_disk_full: bool,
}

/// What is taken of a share of the memory, of all shards together.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShareAccount {
    pub name: String,
    pub taken_bytes: u64,
    pub most_bytes: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TableAccount {
    pub table: String,
    pub sstables: usize,
    pub sstable_bytes: u64,
    /// Of sstables, where one row may be in several, and of memtables.
    pub rows_estimated: u64,
    /// Which part of the cells and deletions in sstables was deleted or has expired, about; `None`
    /// if there are none.
    pub tombstone_share: Option<f64>,
    pub memtable_bytes: u64,
    pub memtable_rows: u64,
    pub writes: u64,
    pub reads: u64,
    pub flush_bytes: u64,
    pub compaction_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SstableAccount {
    pub file: String,
    pub table: String,
    pub bytes: u64,
    pub rows: u64,
    /// `None` if the table has no windows.
    pub window_start_us: Option<i64>,
    pub timestamp_min_us: i64,
    pub timestamp_max_us: i64,
    pub token_first: i64,
    pub token_last: i64,
    /// The run of the engine that wrote it.
    pub run: u32,
    /// `None` if some of it is there for ever.
    pub expires_s: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FlushAccount {
    pub tables: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CompactAccount {
    pub tables: usize,
    pub sstables_before: usize,
    pub bytes_before: u64,
    pub sstables_after: usize,
    pub bytes_after: u64,
    /// Sstables that stay as they are: they cannot be read, or hold rows of several shards,
    /// and are split by themselves.
    pub left_alone: usize,
    /// Tables of which some shard had no memory or disk to merge the windows together.
    #[serde(default)]
    pub apart: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SnapshotAccount {
    pub directory: String,
    pub tables: usize,
    pub sstables: usize,
    pub bytes: u64,
}

/// A snapshot of a data directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptSnapshot {
    pub name: String,
    pub taken_s: u64,
    pub tables: usize,
    pub sstables: usize,
    pub bytes: u64,
    /// Why it cannot be restored.
    pub problem: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RestoreAccount {
    pub directory: String,
    pub sstables: usize,
    pub bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct VerifyAccount {
    pub sstables: usize,
    pub blocks: u64,
    pub bytes: u64,
    /// Whether manifests, catalog and commit log were looked at, too: they change while an engine
    /// runs.
    pub is_whole_directory: bool,
    /// What is wrong: file, place, remedy.
    pub problems: Vec<String>,
}

impl VerifyAccount {
    pub(crate) fn of(verified: &Verified, is_whole_directory: bool) -> Self {
        Self {
            sstables: verified.sstables,
            blocks: verified.blocks,
            bytes: verified.bytes,
            is_whole_directory,
            problems: verified.problems.iter().map(ToString::to_string).collect(),
        }
    }
}
