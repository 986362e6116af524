//! Reading: rows of memtables and sstables, merged in order.
//!
//! A read goes through its sources side by side, as far as the blocks it needs are in memory. If
//! one is missing it is asked for, and when it is there the read goes on after the last row that it
//! looked at. So nothing waits, and no read holds more than a block of each sstable.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use super::{
    Page, Partitions, ReadRequest,
    cache::BlockId,
    table::{Sstable, Table},
};
use crate::{
    memtable::Memtable,
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
    let mut missing = Vec::new();
    for sstable in &table.sstables {
        if let Some(cursor) = slice.disk(sstable, find, &mut deletion, &mut missing) {
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

/// The part of a table that is read, in terms of places.
struct Slice {
    partitions: Partitions,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    reverse: bool,
    /// With a range of partitions: where it begins, that place excluded if there is an `after`.
    after: Option<super::Position>,
    now_s: i64,
}

impl Slice {
    fn of(request: &ReadRequest) -> Self {
        let (mut from, mut to) = (request.from.clone(), request.to.clone());
        let mut after = request.after.clone();
        if matches!(request.partitions, Partitions::One { .. })
            && let Some(after) = after.take()
        {
            let bound = if request.reverse { &mut to } else { &mut from };
            *bound = Bound::Excluded(after.ck);
        }
        let partitions = request.partitions.clone();
        Self { partitions, from, to, reverse: request.reverse, after, now_s: request.now_s }
    }

    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// The partition whose deletion must be known before the first row.
    fn partition(&self) -> Option<(Token, &[u8])> {
        match &self.partitions {
            Partitions::One { token, key } => Some((*token, key)),
            Partitions::Range { .. } => self.after.as_ref().map(|after| (after.token, &*after.key)),
        }
    }

    /// The first place of a range of partitions.
    fn start(&self, from: i64) -> (Token, &[u8], &[u8]) {
        match &self.after {
            Some(after) => (after.token, &after.key, &after.ck),
            None => (Token(from), &[], &[]),
        }
    }

    fn memory<'a>(&self, memtable: &'a Memtable) -> Option<Cursor<'a>> {
        let mut rows: Box<dyn Iterator<Item = BlockRow<'a>> + 'a> = match &self.partitions {
            Partitions::One { token, key } => {
                let partition = memtable.partition(*token, key)?;
                let (from, to) = self.bounds();
                let rows = partition.range(from, to).map(|row| BlockRow {
                    token: partition.token,
                    key: &partition.key,
                    deletion: partition.deletion,
                    row: Some(row),
                });
                if self.reverse { Box::new(rows.rev()) } else { Box::new(rows) }
            }
            Partitions::Range { from, to } => {
                let to = *to;
                let (token, key, ck) = self.start(*from);
                let after = self.after.as_ref().map(|_| (token, key.to_vec(), ck.to_vec()));
                let rows = memtable
                    .in_order(token, key)
                    .take_while(move |partition| partition.token.0 <= to)
                    .flat_map(|partition| {
                        let place = |row| BlockRow {
                            token: partition.token,
                            key: &partition.key,
                            deletion: partition.deletion,
                            row,
                        };
                        let deleted = partition.deletion.map(|_| place(None));
                        deleted.into_iter().chain(partition.rows().map(move |row| place(Some(row))))
                    })
                    .skip_while(move |row| {
                        let after = after.as_ref();
                        after.is_some_and(|(token, key, ck)| row.cmp_to(*token, key, ck).is_le())
                    });
                Box::new(rows)
            }
        };
        let head = rows.next();
        Some(Cursor::Memory { rows, head })
    }

    /// Where to begin in an sstable, if it can have anything of this.
    fn disk<'a>(
        &self,
        sstable: &'a Sstable,
        find: &mut Find<'_>,
        deletion: &mut Option<Deletion>,
        missing: &mut Vec<BlockId>,
    ) -> Option<Cursor<'a>> {
        if let Some((token, key)) = self.partition()
            && sstable.overlaps(token.0, token.0)
        {
            let (from, to) = self.bounds();
            let blocks = sstable.index.blocks_of_partition(token, key, from, to);
            match deletion_in(sstable, (token, key), blocks, self.reverse, find) {
                Ok(found) => *deletion = (*deletion).max(found),
                Err(block) => {
                    missing.push((sstable.summary.id, block));
                    return None;
                }
            }
        }
        let blocks = match &self.partitions {
            Partitions::One { token, key } => {
                if !sstable.overlaps(token.0, token.0) {
                    return None;
                }
                let (from, to) = self.bounds();
                sstable.index.blocks_of_partition(*token, key, from, to)
            }
            Partitions::Range { from, to } => {
                let (token, key, ck) = self.start(*from);
                if !sstable.overlaps(token.0, *to) {
                    return None;
                }
                let first = sstable.index.block_of_place(token, key, ck);
                first..sstable.index.blocks_of_tokens(*from, *to).end.max(first)
            }
        };
        if blocks.is_empty() {
            return None;
        }
        let number = if self.reverse { blocks.end - 1 } else { blocks.start };
        let Some(block) = find((sstable.summary.id, number)) else {
            missing.push((sstable.summary.id, number));
            return None;
        };
        let mut disk = Disk { sstable, blocks, number, block: Some(block), row: 0 };
        disk.row = self.first_row(&disk);
        disk.step_over_end(self.reverse, find);
        Some(Cursor::Disk(disk))
    }

    /// The row at which a cursor begins in its first block: one past it, if reading backwards.
    fn first_row(&self, disk: &Disk<'_>) -> usize {
        let Some(block) = &disk.block else { return 0 };
        match &self.partitions {
            Partitions::One { token, key } => {
                let (from, to) = self.bounds();
                if self.reverse {
                    return match to {
                        Bound::Excluded(ck) => block.lower_bound(*token, key, ck),
                        Bound::Included(ck) => upper_bound(block, (*token, key, ck)),
                        Bound::Unbounded => end_of_partition(block, *token, key),
                    };
                }
                match from {
                    Bound::Included(ck) => block.lower_bound(*token, key, ck),
                    Bound::Excluded(ck) => upper_bound(block, (*token, key, ck)),
                    Bound::Unbounded => block.lower_bound(*token, key, &[]),
                }
            }
            Partitions::Range { from, .. } => {
                let (token, key, ck) = self.start(*from);
                if self.after.is_some() {
                    upper_bound(block, (token, key, ck))
                } else {
                    block.lower_bound(token, key, ck)
                }
            }
        }
    }

    /// The order of reading. A deletion of a partition comes before all its rows.
    fn order(&self, a: &BlockRow<'_>, b: &BlockRow<'_>) -> Ordering {
        let order = a.cmp_to(b.token, b.key, b.row.map_or(&[], |(ck, _)| ck));
        let order = order.then_with(|| a.row.is_some().cmp(&b.row.is_some()));
        if self.reverse { order.reverse() } else { order }
    }

    /// Whether a row is behind the end of what is read.
    fn is_past(&self, row: &BlockRow<'_>) -> bool {
        let (token, key) = match &self.partitions {
            Partitions::Range { to, .. } => return row.token.0 > *to,
            Partitions::One { token, key } => (*token, key.as_slice()),
        };
        if (row.token, row.key) != (token, key) {
            return true;
        }
        let Some((ck, _)) = row.row else { return self.reverse };
        let (from, to) = self.bounds();
        if self.reverse {
            match from {
                Bound::Included(from) => ck < from,
                Bound::Excluded(from) => ck <= from,
                Bound::Unbounded => false,
            }
        } else {
            match to {
                Bound::Included(to) => ck > to,
                Bound::Excluded(to) => ck >= to,
                Bound::Unbounded => false,
            }
        }
    }
}

fn upper_bound(block: &Block, (token, key, ck): (Token, &[u8], &[u8])) -> usize {
    let mut number = block.lower_bound(token, key, ck);
    while block.row(number).is_some_and(|row| row.cmp_to(token, key, ck).is_eq()) {
        number += 1;
    }
    number
}

fn end_of_partition(block: &Block, token: Token, key: &[u8]) -> usize {
    let (mut low, mut high) = (0, block.len());
    while low < high {
        let middle = low.midpoint(high);
        let is_before = block.row(middle).is_some_and(|row| (row.token, row.key) <= (token, key));
        if is_before { low = middle + 1 } else { high = middle }
    }
    low
}

/// The deletion of a partition as told by one of the blocks that hold some of it, or the block that
/// is missing. Every block with rows of a partition has its deletion, so two are enough: only the
/// first can be without any.
fn deletion_in(
    sstable: &Sstable,
    (token, key): (Token, &[u8]),
    blocks: std::ops::Range<usize>,
    reverse: bool,
    find: &mut Find<'_>,
) -> Result<Option<Deletion>, usize> {
    let mut order: Vec<usize> = blocks.collect();
    if reverse {
        order.reverse();
    }
    for number in order.into_iter().take(2) {
        let block = find((sstable.summary.id, number)).ok_or(number)?;
        let row = block.row(block.lower_bound(token, key, &[]));
        if let Some(row) = row.filter(|row| (row.token, row.key) == (token, key)) {
            return Ok(row.deletion);
        }
    }
    Ok(None)
}

/// A place in an sstable.
struct Disk<'a> {
    sstable: &'a Sstable,
    blocks: std::ops::Range<usize>,
    number: usize,
    /// `None` while it is not in memory.
    block: Option<Arc<Block>>,
    /// The next row; when reading backwards, the one before it is next.
    row: usize,
}

impl Disk<'_> {
    fn is_at_end_of_block(&self, reverse: bool) -> bool {
        match &self.block {
            Some(block) => self.row == if reverse { 0 } else { block.len() },
            None => false,
        }
    }

    /// Goes on to the next block if there is nothing more in this one.
    fn step_over_end(&mut self, reverse: bool, find: &mut Find<'_>) {
        while self.is_at_end_of_block(reverse) {
            let is_last = if reverse {
                self.number == self.blocks.start
            } else {
                self.number + 1 >= self.blocks.end
            };
            if is_last {
                return;
            }
            self.number = if reverse { self.number - 1 } else { self.number + 1 };
            self.block = find((self.sstable.summary.id, self.number));
            self.row = match &self.block {
                Some(block) if reverse => block.len(),
                _ => 0,
            };
        }
    }
}

enum Cursor<'a> {
    Memory { rows: Box<dyn Iterator<Item = BlockRow<'a>> + 'a>, head: Option<BlockRow<'a>> },
    Disk(Disk<'a>),
}

enum Peek<'a> {
    Row(BlockRow<'a>),
    End,
    Missing(BlockId),
}

impl Cursor<'_> {
    fn peek(&self, slice: &Slice) -> Peek<'_> {
        let row = match self {
            Cursor::Memory { head, .. } => *head,
            Cursor::Disk(disk) => {
                let Some(block) = &disk.block else {
                    return Peek::Missing((disk.sstable.summary.id, disk.number));
                };
                let number = if slice.reverse { disk.row.checked_sub(1) } else { Some(disk.row) };
                number.and_then(|number| block.row(number))
            }
        };
        match row {
            Some(row) if !slice.is_past(&row) => Peek::Row(row),
            _ => Peek::End,
        }
    }

    fn advance(&mut self, reverse: bool, find: &mut Find<'_>) {
        match self {
            Cursor::Memory { rows, head } => *head = rows.next(),
            Cursor::Disk(disk) => {
                disk.row = if reverse { disk.row - 1 } else { disk.row + 1 };
                disk.step_over_end(reverse, find);
            }
        }
    }
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
