//! The part of a table that is read, and where it begins in each source.

use std::{cmp::Ordering, ops::Bound};

use super::{
    super::{Partitions, Position, ReadRequest, table::Sstable},
    FindBlock,
    cache::BlockId,
    cursor::{Cursor, Disk, deletion_in, end_of_partition, upper_bound},
};
use crate::{
    memtable::Memtable,
    mutation::{Deletion, Token},
    sstable::{Block, BlockRow},
};

/// The part of a table that is read, in terms of places.
pub(super) struct Slice {
    partitions: Partitions,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    pub reverse: bool,
    /// With a range of partitions: where it begins, that place excluded if there is an `after`.
    after: Option<Position>,
    pub now_s: i64,
}

impl Slice {
    pub fn of(request: &ReadRequest) -> Self {
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

    /// Whether it is one row.
    pub fn is_row(&self) -> bool {
        match (&self.partitions, &self.from, &self.to) {
            (Partitions::One { .. }, Bound::Included(from), Bound::Included(to)) => from == to,
            _ => false,
        }
    }

    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// The partition whose deletion must be known before the first row.
    pub fn partition(&self) -> Option<(Token, &[u8])> {
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

    pub fn memory<'a>(&self, memtable: &'a Memtable) -> Option<Cursor<'a>> {
        let mut rows: Box<dyn Iterator<Item = BlockRow<'a>> + 'a> = match &self.partitions {
            Partitions::One { token, key } => {
                let partition = memtable.partition(*token, key)?;
                let (from, to) = self.bounds();
                let rows = partition.range(from, to).map(move |row| BlockRow {
                    token: partition.token,
                    key: partition.key,
                    deletion: partition.deletion,
                    row: Some(row),
                });
                if self.reverse { Box::new(rows.rev()) } else { Box::new(rows) }
            }
            Partitions::Range { from, to } => {
                let to = *to;
                let (token, key, _) = self.start(*from);
                let mut after = self.after.clone();
                let rows = memtable
                    .in_order(token, key)
                    .take_while(move |partition| partition.token.0 <= to)
                    .flat_map(move |partition| {
                        let place = move |row| BlockRow {
                            token: partition.token,
                            key: partition.key,
                            deletion: partition.deletion,
                            row,
                        };
                        // Only the first partition can be the one in which the read goes on.
                        let is_own = |after: &Position| *after.key == *partition.key;
                        let after = after.take().filter(is_own).map(|after| after.ck);
                        let deletion = partition.deletion.filter(|_| after.is_none());
                        let deletion = deletion.map(|_| place(None));
                        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                        let rows = partition.range(from, Bound::Unbounded);
                        deletion.into_iter().chain(rows.map(move |row| place(Some(row))))
                    });
                Box::new(rows)
            }
        };
        let head = rows.next();
        Some(Cursor::Memory { rows, head })
    }

    /// Where to begin in an sstable, if it can have anything of this.
    pub fn disk<'a>(
        &self,
        sstable: &'a Sstable,
        find: &mut FindBlock<'_>,
        deletion: &mut Option<Deletion>,
        missing: &mut Vec<BlockId>,
    ) -> Option<Cursor<'a>> {
        if let Some((token, key)) = self.partition()
            && sstable.overlaps(token.0, token.0)
        {
            let (from, to) = self.bounds();
            let rows = sstable.index.blocks_of_partition(token, key, from, to);
            let blocks = sstable.index.blocks_of_deletion(token, key, rows);
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
        let row = self.first_row(&block);
        let disk = Disk::new(sstable, blocks, (number, block, row), self.reverse, find);
        Some(Cursor::Disk(disk))
    }

    /// The row at which a cursor begins in its first block: one past it, if reading backwards.
    fn first_row(&self, block: &Block) -> usize {
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
    pub fn order(&self, a: &BlockRow<'_>, b: &BlockRow<'_>) -> Ordering {
        let order = a.cmp_to(b.token, b.key, b.row.map_or(&[], |(ck, _)| ck));
        let order = order.then_with(|| a.row.is_some().cmp(&b.row.is_some()));
        if self.reverse { order.reverse() } else { order }
    }

    /// Whether a row is behind the end of what is read.
    pub fn is_past(&self, row: &BlockRow<'_>) -> bool {
        let (token, key) = match &self.partitions {
            Partitions::Range { to, .. } => return row.token.0 > *to,
            Partitions::One { token, key } => (*token, key.as_slice()),
        };
        if (row.token, row.key) != (token, key) {
            return true;
        }
        let Some((ck, _)) = row.row else { return false };
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
