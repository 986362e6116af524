//! Reading: rows of memtables and sstables, merged in order.
//!
//! A read goes through its sources side by side, as far as the blocks it needs are in memory. If
//! one is missing it is asked for, and when it is there the read goes on after the last row that it
//! looked at. So nothing waits, and no read holds more than a block of each sstable.

pub(super) mod cache;
mod cursor;
mod merge;
mod pending;
mod slice;

use std::sync::Arc;

pub(super) use self::pending::Reads;
use self::{
    cache::BlockId,
    cursor::{Cursor, Peek},
    merge::Merge,
    slice::Slice,
};
use super::{Page, ReadCost, ReadRequest, table::TableData};
use crate::{
    io::TimeSlice,
    mutation::RowView,
    sstable::{Block, BlockRow},
};

/// Rows that are not live, after which a page is cut: so a read of much that was deleted or has
/// expired is many short ones.
const DEAD_ROWS_MAX: u64 = 10_000;

/// Finds a block in memory.
type FindBlock<'a> = dyn FnMut(BlockId) -> Option<Arc<Block>> + 'a;

/// How far a read came.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The page is complete.
    Complete,
    /// These blocks must be in memory first. The page has all rows before, the request says where
    /// to go on.
    Missing(Vec<BlockId>),
    /// The time is over. The page has all rows before, the request says where to go on.
    TimeIsOver,
}

/// Reads rows into `page`, up to the limits of the request.
fn read(
    table: &TableData,
    request: &mut ReadRequest,
    page: &mut Page,
    find: &mut FindBlock<'_>,
    cost: &mut ReadCost,
    time: &mut TimeSlice<'_>,
) -> Progress {
    let slice = Slice::of(request);
    let memtables = [Some(&table.active), table.flushing.as_deref()];
    let mut cursors: Vec<Cursor<'_>> =
        memtables.into_iter().flatten().filter_map(|memtable| slice.memory(memtable)).collect();
    let mut deletion = None;
    if let Some((token, key)) = slice.partition() {
        for memtable in memtables.into_iter().flatten() {
            deletion = deletion.max(memtable.partition(token, key).and_then(|p| p.deletion));
        }
    }
    // Of one row, all may be known before the oldest sstables are looked at.
    let columns = request.columns.as_deref().filter(|_| slice.is_row());
    let settled = |cursor: &Cursor<'_>| {
        let Peek::Row(BlockRow { row: Some((_, row)), .. }) = cursor.peek(&slice) else {
            return None;
        };
        RowView::parse(row).ok()?.settled_since(columns?, slice.now_s)
    };
    cost.memtables = cursors.len() as u64;
    let mut since = cursors.iter().filter_map(settled).max();
    let mut missing = Vec::new();
    for sstable in &table.sstables {
        let is_known = since.is_some_and(|since| sstable.summary.timestamp_max < since);
        if is_known || (columns.is_some() && !missing.is_empty()) {
            break;
        }
        if let Some(cursor) = slice.disk(sstable, find, &mut deletion, &mut missing) {
            since = since.max(settled(&cursor));
            cursors.push(cursor);
        }
    }
    if !missing.is_empty() {
        return Progress::Missing(missing);
    }
    cost.sstables = cursors.len() as u64 - cost.memtables;
    let mut merge = Merge::new(cursors, deletion, slice, find);
    let (progress, scanned) = merge.run(request, page, time);
    cost.rows_scanned += scanned;
    if progress != Progress::Complete
        && let Some(position) = merge.position()
    {
        request.after = Some(position);
    }
    progress
}
