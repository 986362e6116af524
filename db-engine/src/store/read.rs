//! Reading: rows of memtables and sstables, merged in order.
//!
//! A read goes through its sources side by side, as far as the blocks it needs are in memory. If
//! one is missing it is asked for, and when it is there the read goes on after the last row that it
//! looked at. So nothing waits, and no read holds more than a block of each sstable.

use std::{cmp::Ordering, sync::Arc};

use super::{
    Page, Partitions, ReadRequest,
    cache::BlockId,
    cursor::{Cursor, Peek, Slice},
    table::Table,
};
use crate::{
    mutation::{Deletion, RowView, Token, merge, shadow},
    sstable::{Block, BlockRow},
};

/// Rows that are not live, after which a page is cut: so a read of much that was deleted or has
/// expired is many short ones.
pub(super) const DEAD_ROWS_MAX: usize = 10_000;

/// Finds a block in memory.
pub(super) type Find<'a> = dyn FnMut(BlockId) -> Option<Arc<Block>> + 'a;

/// How far a read came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The page is complete.
    Complete,
    /// These blocks must be in memory first. The page has all rows before, the request says where
    /// to go on.
    Missing(Vec<BlockId>),
}

/// What one read costs.
#[derive(Debug, Default)]
pub(super) struct Cost {
    pub rows_scanned: u64,
}

/// Reads rows into `page`, up to the limits of the request.
pub(super) fn read(
    table: &mut Table,
    request: &mut ReadRequest,
    page: &mut Page,
    find: &mut Find<'_>,
    cost: &mut Cost,
) -> Progress {
    let slice = Slice::of(request);
    if matches!(request.partitions, Partitions::Range { .. }) {
        table.active.sort();
    }
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
    let mut merge = Merge {
        cursors,
        deletion,
        partition: None,
        slice,
        find,
        last: Scratch::default(),
        at_row: Vec::new(),
        dead: 0,
    };
    let (progress, scanned) = merge.run(request.rows_max, request.bytes_max, page);
    cost.rows_scanned += scanned;
    if let Progress::Missing(_) = progress
        && let Some(position) = merge.last.position()
    {
        request.after = Some(position);
    }
    progress
}

/// The last row that was merged, in memory that is used again.
#[derive(Default)]
struct Scratch {
    /// `None` before the first row.
    token: Option<Token>,
    key: Vec<u8>,
    ck: Vec<u8>,
    row: Vec<u8>,
    other: Vec<u8>,
}

impl Scratch {
    fn add(&mut self, version: &[u8], is_first: bool) {
        if is_first {
            self.row.clear();
            self.row.extend_from_slice(version);
            return;
        }
        self.other.clear();
        merge(&self.row, version, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    fn hide(&mut self, deletion: Deletion) {
        self.other.clear();
        shadow(&self.row, deletion.timestamp, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    fn position(&self) -> Option<super::Position> {
        let token = self.token?;
        Some(super::Position { token, key: self.key.clone(), ck: self.ck.clone() })
    }
}

/// What one step of a merge came to.
enum Step {
    /// Nothing is left.
    End,
    /// There is something; it was only looked at, or was the deletion of a partition.
    More,
    /// So many versions of a row were merged.
    Row(u64),
    /// These blocks must be in memory first.
    Missing(Vec<BlockId>),
}

struct Merge<'a, 'f, 'c> {
    cursors: Vec<Cursor<'a>>,
    /// Of the partition at hand.
    deletion: Option<Deletion>,
    partition: Option<(Token, Vec<u8>)>,
    slice: Slice,
    find: &'f mut Find<'c>,
    last: Scratch,
    /// Which cursors are at the row that is being merged.
    at_row: Vec<usize>,
    dead: usize,
}

impl Merge<'_, '_, '_> {
    fn run(&mut self, rows_max: usize, bytes_max: usize, page: &mut Page) -> (Progress, u64) {
        let mut scanned = 0;
        loop {
            let full = page.len() >= rows_max
                || (page.bytes() >= bytes_max && !page.is_empty())
                || self.dead >= DEAD_ROWS_MAX;
            match self.step(full) {
                Step::More | Step::Missing(_) if full => {
                    if let Some(token) = self.last.token {
                        page.cut(token, &self.last.key, &self.last.ck);
                    }
                    return (Progress::Complete, scanned);
                }
                Step::End => return (Progress::Complete, scanned),
                Step::Missing(missing) => return (Progress::Missing(missing), scanned),
                Step::More => {}
                Step::Row(versions) => {
                    scanned += versions;
                    self.finish_row(page);
                }
            }
        }
    }

    /// Merges all versions of the next row, unless it should only look whether there is one.
    fn step(&mut self, only_look: bool) -> Step {
        let mut missing = Vec::new();
        let mut next: Option<BlockRow<'_>> = None;
        self.at_row.clear();
        for (number, cursor) in self.cursors.iter().enumerate() {
            match cursor.peek(&self.slice) {
                Peek::End => {}
                Peek::Missing(block) => missing.push(block),
                Peek::Row(row) => {
                    let order = next.map_or(Ordering::Less, |next| self.slice.order(&row, &next));
                    if order.is_lt() {
                        self.at_row.clear();
                        next = Some(row);
                    }
                    if order.is_le() {
                        self.at_row.push(number);
                    }
                }
            }
        }
        if !missing.is_empty() {
            return Step::Missing(missing);
        }
        let Some(next) = next else { return Step::End };
        if only_look {
            return Step::More;
        }
        let partition = (next.token, next.key);
        if self.partition.as_ref().map(|(token, key)| (*token, key.as_slice())) != Some(partition) {
            let is_known = self.partition.is_none() && self.slice.partition() == Some(partition);
            self.deletion = self.deletion.filter(|_| is_known);
            self.partition = Some((next.token, next.key.to_vec()));
        }
        let versions = match next.row {
            None => 0,
            Some((ck, _)) => {
                self.last.token = Some(next.token);
                replace(&mut self.last.key, next.key);
                replace(&mut self.last.ck, ck);
                self.at_row.len()
            }
        };
        for (version, number) in self.at_row.iter().enumerate() {
            let Peek::Row(row) = self.cursors[*number].peek(&self.slice) else { continue };
            self.deletion = self.deletion.max(row.deletion);
            if let Some((_, row)) = row.row {
                self.last.add(row, version == 0);
            }
        }
        for number in &self.at_row {
            self.cursors[*number].advance(self.slice.reverse, self.find);
        }
        if versions == 0 { Step::More } else { Step::Row(versions as u64) }
    }

    fn finish_row(&mut self, page: &mut Page) {
        if let Some(deletion) = self.deletion {
            self.last.hide(deletion);
        }
        let is_live = RowView::parse(&self.last.row).is_ok_and(|row| row.is_live(self.slice.now_s));
        match self.last.token {
            Some(token) if is_live => {
                page.push(token, &self.last.key, &self.last.ck, &self.last.row);
            }
            _ => self.dead += 1,
        }
    }
}

fn replace(bytes: &mut Vec<u8>, with: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(with);
}
