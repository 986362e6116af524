//! Places in the sources of a read, and how they move.

use std::{ops::Bound, sync::Arc};

use super::{
    super::table::Sstable,
    FindBlock,
    cache::BlockId,
    deletions::SeenDeletions,
    scratch::KeptVersion,
    slice::{PartitionSpan, Slice},
};
use crate::{
    memtable::{Memtable, PartitionView, RowLayers, RowVersions},
    sstable::{Block, BlockRow},
    types::comparable::ABOVE,
};

/// A place in a memtable. It lasts for a turn: then the memtable may change.
pub(super) struct MemoryCursor<'t> {
    rows: Box<dyn Iterator<Item = MemoryRow<'t>> + 't>,
    head: Option<MemoryRow<'t>>,
}

/// A row, as one of an sstable would be, and what was written to it since; or the deletion of a
/// partition.
type MemoryRow<'t> = (BlockRow<'t>, RowLayers<'t>);

impl<'t> MemoryCursor<'t> {
    /// Begins where the slice does, if the memtable has anything of it. Adds the deletion of the
    /// partition that the slice begins in. Deleted ranges are asked for row by row.
    pub fn new(
        memtable: &'t Memtable,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
    ) -> Option<Self> {
        let mut rows: Box<dyn Iterator<Item = MemoryRow<'t>> + 't> = match slice.span {
            PartitionSpan::One { token, key } => {
                let partition = memtable.partition(token, key)?;
                seen.add_partition(partition.deletion);
                let (from, to) = slice.bounds();
                let rows = partition.range(from, to);
                let rows = rows.map(move |row| memory_row(partition, Some(row)));
                if slice.reverse { Box::new(rows.rev()) } else { Box::new(rows) }
            }
            PartitionSpan::Tokens { from, to } => {
                if let Some((token, key, _)) = slice.after {
                    let partition = memtable.partition(token, key);
                    seen.add_partition(partition.and_then(|own| own.deletion));
                }
                let (token, key, _) = slice.start(from);
                let mut after =
                    slice.after.map(|(_, key, ck)| (key.to_vec(), ck.map(<[u8]>::to_vec)));
                let rows = memtable
                    .in_order(token, key)
                    .take_while(move |partition| partition.token.0 <= to)
                    .flat_map(move |partition| {
                        // Only the first partition can be the one in which the read goes on.
                        let after = after.take().filter(|(key, _)| **key == *partition.key);
                        let deletion = partition.deletion.filter(|_| after.is_none());
                        let deletion = deletion.map(|_| memory_row(partition, None));
                        let from = after.as_ref().map(|(_, ck)| ck.as_ref().map(Vec::as_slice));
                        let from = from.unwrap_or(Bound::Unbounded);
                        let rows = partition.rows_from(from);
                        let rows = rows.map(move |row| memory_row(partition, Some(row)));
                        deletion.into_iter().chain(rows)
                    });
                Box::new(rows)
            }
        };
        let head = rows.next()?;
        Some(Self { rows, head: Some(head) })
    }

    /// The row that it stands on.
    #[inline]
    pub fn peek(&self) -> Option<BlockRow<'t>> {
        self.head.map(|(row, _)| row)
    }

    /// What was written to the row that it stands on since.
    #[inline]
    pub fn layers(&self) -> RowLayers<'t> {
        self.head.map_or(&[], |(_, layers)| layers)
    }

    pub fn advance(&mut self) {
        self.head = self.rows.next();
    }
}

fn memory_row<'t>(
    partition: PartitionView<'t>,
    versions: Option<RowVersions<'t>>,
) -> MemoryRow<'t> {
    let PartitionView { token, key, deletion, .. } = partition;
    let row = versions.map(|versions| (versions.ck, versions.record));
    let layers = versions.map_or(&[][..], |versions| versions.layers);
    (BlockRow { token, key, deletion, row, range: None }, layers)
}

/// A place in an sstable: it holds the block that it stands in, and no other. It is dropped when
/// it has come to the end of what is read.
pub(super) struct DiskCursor {
    pub sstable: Arc<Sstable>,
    /// Those that can have rows that are read.
    blocks: std::ops::Range<usize>,
    number: usize,
    /// `None` while it is not in memory.
    block: Option<Arc<Block>>,
    /// The next row; when reading backwards, the one before it is next.
    row: usize,
    /// Whether it has stood on a row.
    has_begun: bool,
}

impl DiskCursor {
    /// A place in an sstable that may have something of the slice; it has no block yet. `None` if
    /// its index knows of nothing.
    pub fn new(sstable: &Arc<Sstable>, slice: &Slice<'_>) -> Option<Self> {
        let index = &sstable.index;
        let blocks = match slice.span {
            PartitionSpan::One { token, key } => {
                let (from, to) = slice.bounds();
                index.blocks_of_partition(token, key, from, to)
            }
            PartitionSpan::Tokens { from, to } => {
                let (token, key, ck) = slice.start(from);
                let first = index.block_of_place(token, key, ck);
                first..index.blocks_of_tokens(from, to).end.max(first)
            }
        };
        if blocks.is_empty() {
            return None;
        }
        let number = if slice.reverse { blocks.end - 1 } else { blocks.start };
        let sstable = Arc::clone(sstable);
        Some(Self { sstable, blocks, number, block: None, row: 0, has_begun: false })
    }

    /// Takes the block that it needs, if that is in memory. At first that also tells the deletion
    /// of the partition at hand, and of a range in which it begins. False once there is nothing for
    /// it to stand on.
    pub fn load(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) -> bool {
        let Some(block) = find((self.sstable.summary.id, self.number)) else { return true };
        let begins = !self.has_begun;
        self.stand_in(block, slice);
        if begins && let Some((token, key)) = slice.partition() {
            let row = self.block.as_ref().and_then(|one| one.row(one.lower_bound(token, key, &[])));
            let own = row.filter(|row| (row.token, row.key) == (token, key));
            seen.add_partition(own.and_then(|row| row.deletion));
            self.add_range_before(slice, seen);
        }
        self.find_row(slice, seen, find)
    }

    /// Adds the last deleted range before the next row, or reading backwards, before the row behind
    /// it: of those, no other reaches as far as the rows of other sources that are read meanwhile.
    fn add_range_before(&self, slice: &Slice<'_>, seen: &mut SeenDeletions) {
        let (Some(block), Some((token, key))) = (&self.block, slice.partition()) else { return };
        if let Some(range) = block.range_before(self.row, token, key) {
            seen.add_range(range);
        }
    }

    /// The block that it needs and does not have.
    #[inline]
    pub fn missing(&self) -> Option<BlockId> {
        self.block.is_none().then_some((self.sstable.summary.id, self.number))
    }

    fn stand_in(&mut self, block: Arc<Block>, slice: &Slice<'_>) {
        self.row = match slice.reverse {
            _ if !self.has_begun => slice.first_row(&block),
            true => block.len(),
            false => 0,
        };
        self.has_begun = true;
        self.block = Some(block);
    }

    /// The row that it stands on, if that is in memory.
    #[inline]
    pub fn peek(&self, reverse: bool) -> Option<BlockRow<'_>> {
        self.block.as_ref()?.row(if reverse { self.row.checked_sub(1)? } else { self.row })
    }

    /// Keeps that row, while others are read.
    pub fn keep(&self, reverse: bool) -> Option<KeptVersion> {
        let number = if reverse { self.row.checked_sub(1)? } else { self.row };
        Some(KeptVersion::InBlock(Arc::clone(self.block.as_ref()?), number))
    }

    /// Steps over the row that it stands on. False once there is nothing more for it to stand on.
    pub fn advance(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) -> bool {
        self.row = if slice.reverse { self.row - 1 } else { self.row + 1 };
        self.find_row(slice, seen, find)
    }

    /// Whether it stands in the partition behind which the slice begins.
    pub fn is_in_partition(&self, slice: &Slice<'_>) -> bool {
        let at = self.peek(slice.reverse).map(|row| (row.token, row.key));
        at.is_some() && at == slice.after.map(|(token, key, _)| (token, key))
    }

    /// Goes on behind that partition if it stands in it, or does not know where it stands. False
    /// once there is nothing more for it to stand on.
    pub fn leave_partition(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) -> bool {
        let Some((token, key, _)) = slice.after else { return true };
        let last = self.block.as_ref().and_then(|block| block.row(block.len().checked_sub(1)?));
        if last.is_some_and(|last| last.cmp_to(token, key, &[ABOVE]).is_gt()) {
            if let Some(block) = self.block.as_ref().filter(|_| self.is_in_partition(slice)) {
                self.row = slice.first_row(block);
            }
            return self.find_row(slice, seen, find);
        }
        let first = self.number + usize::from(self.block.is_some());
        self.number = self.sstable.index.block_of_place(token, key, &[ABOVE]).max(first);
        (self.block, self.has_begun) = (None, false);
        if self.number >= self.blocks.end {
            return false;
        }
        if let Some(block) = find((self.sstable.summary.id, self.number)) {
            self.stand_in(block, slice);
        }
        self.find_row(slice, seen, find)
    }

    /// Goes on to the next block if there is nothing more in this one, whether that is in memory
    /// or not. False if no row is left.
    fn find_row(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) -> bool {
        while let Some(block) = &self.block {
            if slice.reverse {
                // Every block with rows of a deleted partition begins with its deletion. Read
                // backwards, that is no end: the block before may have rows of it, too.
                let is_deletion = |number| block.row(number).is_some_and(|row| row.rank() == 0);
                while self.row.checked_sub(1).is_some_and(is_deletion) {
                    self.row -= 1;
                }
                // A range is met at its beginning, which is behind its rows.
                self.add_range_before(slice, seen);
            }
            let (is_last, has_more) = if slice.reverse {
                (self.number == self.blocks.start, self.row > 0)
            } else {
                (self.number + 1 >= self.blocks.end, self.row < block.len())
            };
            if has_more {
                // The next block can have rows that are read: nothing in this one is behind them.
                return !is_last
                    || self.peek(slice.reverse).is_some_and(|row| !slice.is_past(&row));
            }
            if is_last {
                return false;
            }
            self.number = if slice.reverse { self.number - 1 } else { self.number + 1 };
            self.block = None;
            if let Some(block) = find((self.sstable.summary.id, self.number)) {
                self.stand_in(block, slice);
            }
        }
        true
    }

    /// Bytes of the block that it holds.
    pub fn block_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.memory_bytes())
    }
}
