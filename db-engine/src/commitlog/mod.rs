//! The commit log of one shard: what is not in an sstable yet, in the order in which it came.
//!
//! Writes are staged in a block in memory. While one block is on its way to the device the next one
//! fills, so a block holds what arrived meanwhile, and the device sets the pace (group commit).
//! A block is either there after a crash or not, and so is each of its writes.
//!
//! The log is a sequence of segments, files of one length that are made before they are used, one
//! of them always ahead of need. A segment is released when all its writes are in sstables and none
//! of its intents is open; its file is used again. `docs/format/commitlog.md` describes the format.

mod block;
mod config;
pub mod first_format;
mod log;
mod preparation;
pub mod replay;
mod sector;

pub use block::{ENTRY_HEADER_BYTES, EntryKind, LogBlock, LogEntry, entries};
pub use config::{LARGE_WRITE_BYTES, LogConfig};
pub use log::{CommitLog, NotStaged, Submitted, Unwritten};
pub use preparation::{FILL_BYTES, Preparation, PreparedSegment, SEGMENT_MAGIC};
pub use sector::{SECTOR_PAYLOAD_BYTES, Sector, SectorId, read_sector};

/// What follows the name of a segment while its file is new.
const NEW: &str = ".new";

/// Which segment: of which run of the engine, of which of its shards, and the how manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// The run of the engine that wrote it.
    pub epoch: u32,
    /// The shard, of that run, that wrote it.
    pub shard: u16,
    /// Counted from 0 in each run and shard.
    pub number: u32,
}

impl SegmentId {
    /// The name of its file.
    #[must_use]
    pub fn name(self) -> String {
        format!("log-{}-{}-{}", self.epoch, self.shard, self.number)
    }

    /// The name of its file while that is new and not yet as long as a segment.
    #[must_use]
    pub fn new_name(self) -> String {
        format!("{}{NEW}", self.name())
    }

    /// Whether a file with this name is a new one, which holds nothing yet.
    #[must_use]
    pub fn is_new_name(name: &str) -> bool {
        name.strip_suffix(NEW).is_some_and(|name| Self::of_name(name).is_some())
    }

    /// The segment whose file has this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("log-")?.split('-');
        let epoch = parts.next()?.parse().ok()?;
        let shard = parts.next()?.parse().ok()?;
        let id = Self { epoch, shard, number: parts.next()?.parse().ok()? };
        // One segment has one name: no signs, no leading zeros.
        (id.name() == name).then_some(id)
    }
}

/// Up to which block a log had come at some moment. Before its first one: up to block 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The number of the segment that has the block.
    pub segment: u32,
    /// The sequence number of the block.
    pub sequence: u64,
}

#[cfg(test)]
mod tests;
