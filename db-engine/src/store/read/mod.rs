//! Reading: rows of memtables and sstables, merged in order.
//!
//! A read is an object of its own, a [`merge::Merge`]: it owns its place and the blocks that it
//! stands on, one of each sstable. It goes on as far as the blocks that it needs are in memory and
//! time allows; then it waits, and goes on where it was. Memtables are not held meanwhile: they are
//! looked at again behind the last row, and so is what was flushed from them.

pub(super) mod cache;
mod cursor;
mod deletions;
mod idle;
mod merge;
mod pending;
mod scratch;
mod slice;
mod sources;
mod suspended;

use std::sync::Arc;

use self::cache::BlockId;
pub(super) use self::pending::{ArrivedBlock, Reads};
use super::table::Sstable;
use crate::sstable::Block;

/// Rows that are not live, after which a page is cut: so a read of much that was deleted or has
/// expired is many short ones.
const DEAD_ROWS_MAX: u64 = 10_000;

/// A block that must be read from disk.
pub(super) type MissingBlock = (Arc<Sstable>, usize);

/// Finds a block in memory.
type FindBlock<'a> = dyn FnMut(BlockId) -> Option<Arc<Block>> + 'a;

/// How far a read came.
enum Progress {
    /// The page is complete.
    Complete,
    /// These blocks must be in memory first.
    Missing(Vec<MissingBlock>),
    /// The time is over.
    TimeIsOver,
}
