//! The commit log of one shard: what is not in an sstable yet, in the order in which it came.
//!
//! Writes are staged in a block in memory. While one block is on its way to the device the next one
//! fills, so a block holds what arrived meanwhile, and the device sets the pace (group commit).
//! A block is either there after a crash or not, and so is each of its writes.
//!
//! The log is a sequence of segments, files that are filled with zeros before they are used, one of
//! them always ahead of need. A segment is removed when all its writes are in sstables and none of
//! its intents is open. `docs/format/commitlog.md` describes the format, which is frozen.

mod block;
mod log;
pub mod replay;

pub use block::{
    Block, ENTRY_HEADER_BYTES, Entry, EntryKind, HEADER_BYTES, Parsed, entries, parse_block,
};
pub use log::{CommitLog, LogConfig, NotStaged, Submitted, Unwritten};

/// Blocks begin at multiples of this many bytes.
pub const BLOCK_ALIGNMENT: usize = crate::io::ALIGNMENT;

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

#[cfg(test)]
mod tests;
