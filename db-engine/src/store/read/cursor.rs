//! Places in the sources of a read, and how they move.

use std::sync::Arc;

use super::{super::table::Sstable, FindBlock, cache::BlockId, slice::Slice};
use crate::{
    mutation::{Deletion, Token},
    sstable::{Block, BlockRow},
};

pub(super) fn upper_bound(block: &Block, (token, key, ck): (Token, &[u8], &[u8])) -> usize {
    let mut number = block.lower_bound(token, key, ck);
    while block.row(number).is_some_and(|row| row.cmp_to(token, key, ck).is_eq()) {
        number += 1;
    }
    number
}

pub(super) fn end_of_partition(block: &Block, token: Token, key: &[u8]) -> usize {
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
pub(super) fn deletion_in(
    sstable: &Sstable,
    (token, key): (Token, &[u8]),
    blocks: std::ops::Range<usize>,
    reverse: bool,
    find: &mut FindBlock<'_>,
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
pub(super) struct Disk<'a> {
    sstable: &'a Sstable,
    blocks: std::ops::Range<usize>,
    number: usize,
    /// `None` while it is not in memory.
    block: Option<Arc<Block>>,
    /// The next row; when reading backwards, the one before it is next.
    row: usize,
}

impl<'a> Disk<'a> {
    /// Begins at this row of this block, which is one of `blocks`.
    pub fn new(
        sstable: &'a Sstable,
        blocks: std::ops::Range<usize>,
        (number, block, row): (usize, Arc<Block>, usize),
        reverse: bool,
        find: &mut FindBlock<'_>,
    ) -> Self {
        let mut disk = Self { sstable, blocks, number, block: Some(block), row };
        disk.step_over_end(reverse, find);
        disk
    }

    fn is_at_end_of_block(&self, reverse: bool) -> bool {
        match &self.block {
            Some(block) => self.row == if reverse { 0 } else { block.len() },
            None => false,
        }
    }

    /// Every block with rows of a deleted partition begins with its deletion. Read backwards, that
    /// is no end: the block before may have rows of it, too.
    fn step_over_deletions(&mut self) {
        let Some(block) = &self.block else { return };
        let is_deletion = |number| block.row(number).is_some_and(|row| row.row.is_none());
        while self.row.checked_sub(1).is_some_and(is_deletion) {
            self.row -= 1;
        }
    }

    /// Goes on to the next block if there is nothing more in this one.
    fn step_over_end(&mut self, reverse: bool, find: &mut FindBlock<'_>) {
        loop {
            if reverse {
                self.step_over_deletions();
            }
            if !self.is_at_end_of_block(reverse) {
                return;
            }
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

pub(super) enum Cursor<'a> {
    Memory { rows: Box<dyn Iterator<Item = BlockRow<'a>> + 'a>, head: Option<BlockRow<'a>> },
    Disk(Disk<'a>),
}

pub(super) enum Peek<'a> {
    Row(BlockRow<'a>),
    End,
    Missing(BlockId),
}

impl Cursor<'_> {
    pub fn peek(&self, slice: &Slice) -> Peek<'_> {
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

    pub fn advance(&mut self, reverse: bool, find: &mut FindBlock<'_>) {
        match self {
            Cursor::Memory { rows, head } => *head = rows.next(),
            Cursor::Disk(disk) => {
                disk.row = if reverse { disk.row - 1 } else { disk.row + 1 };
                disk.step_over_end(reverse, find);
            }
        }
    }
}
