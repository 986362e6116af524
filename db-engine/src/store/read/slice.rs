//! The part of a table that is read, in terms of places.

use std::{cmp::Ordering, ops::Bound, ops::RangeInclusive};

use super::super::{Partitions, ReadRequest, table::Sstable};
use crate::{
    mutation::Token,
    sstable::{Block, BlockRow},
    types::comparable::ABOVE,
};

/// A row's place in the order of reading.
pub(super) type RowPlace<'r> = (Token, &'r [u8], &'r [u8]);

/// In this partition, whose deletion was seen, from this place of it on.
type ResumePlace<'r> = (Token, &'r [u8], Bound<&'r [u8]>);

/// Which partitions are read.
#[derive(Clone, Copy)]
pub(super) enum PartitionSpan<'r> {
    One { token: Token, key: &'r [u8] },
    Tokens { from: i64, to: i64 },
}

/// The part of a table that is read, from where the read has got to.
#[derive(Clone, Copy)]
pub(super) struct Slice<'r> {
    pub span: PartitionSpan<'r>,
    from: Bound<&'r [u8]>,
    to: Bound<&'r [u8]>,
    /// Where a read of a range of tokens goes on.
    pub after: Option<ResumePlace<'r>>,
    pub reverse: bool,
    pub now_s: i64,
    /// The columns that are wanted, if it is one row. All may be known before the oldest sstables
    /// are looked at.
    pub columns_of_row: Option<&'r [u16]>,
}

impl<'r> Slice<'r> {
    /// What is left of a request once the row at `last` was looked at, the deletion of the
    /// partition `at_hand`, and a deleted range of it that begins at `passed`, behind that row. Of
    /// a range of tokens, those of this shard: sstables of another number of shards may hold rows
    /// that are not ours.
    pub fn of(
        request: &'r ReadRequest,
        own: &RangeInclusive<i64>,
        last: Option<RowPlace<'r>>,
        at_hand: Option<(Token, &'r [u8])>,
        passed: Option<&'r [u8]>,
    ) -> Self {
        let mut from = request.from.as_ref().map(Vec::as_slice);
        let mut to = request.to.as_ref().map(Vec::as_slice);
        let is_row = matches!((from, to), (Bound::Included(from), Bound::Included(to))
            if from.len() == to.len() && (from.is_empty() || from == to));
        let first = request.after.as_ref().map(|after| (after.token, &*after.key, &*after.ck));
        let after = last.or(first);
        let span = match &request.partitions {
            Partitions::One { token, key } => {
                // The static row is not one of the rows: it was read before them.
                if request.static_rows && matches!(from, Bound::Unbounded) {
                    from = Bound::Excluded(&[]);
                }
                if let Some((_, other, ck)) = after {
                    debug_assert_eq!(other, key, "a place is of the partition that is read");
                    *(if request.reverse { &mut to } else { &mut from }) = Bound::Excluded(ck);
                }
                // A row at the same place is behind the beginning of the range, and backwards
                // before it.
                match passed {
                    Some(ck) if request.reverse => to = Bound::Excluded(ck),
                    Some(ck) => from = Bound::Included(ck),
                    None => {}
                }
                PartitionSpan::One { token: *token, key }
            }
            Partitions::Range { from, to } => {
                PartitionSpan::Tokens { from: *from.max(own.start()), to: *to.min(own.end()) }
            }
        };
        let row = after.filter(|(token, key, _)| at_hand.is_none_or(|own| own == (*token, *key)));
        let after = row
            .map(|(token, key, ck)| (token, key, Bound::Excluded(ck)))
            .or(at_hand.map(|(token, key)| (token, key, Bound::Unbounded)))
            .map(|(token, key, ck)| (token, key, passed.map_or(ck, Bound::Included)));
        let is_row = is_row && matches!(span, PartitionSpan::One { .. });
        let columns_of_row = request.columns.as_deref().filter(|_| is_row);
        let (reverse, now_s) = (request.reverse, request.now_s);
        Self { span, from, to, after, reverse, now_s, columns_of_row }
    }

    /// The clustering keys that are left of one partition.
    pub fn bounds(&self) -> (Bound<&'r [u8]>, Bound<&'r [u8]>) {
        (self.from, self.to)
    }

    /// Whether an sstable may have something of it, as far as that is told without its index.
    pub fn may_be_in(&self, sstable: &Sstable) -> bool {
        match self.span {
            PartitionSpan::One { token, .. } => {
                sstable.overlaps(token.0, token.0)
                    && sstable.index.may_have(token, self.from, self.to)
            }
            PartitionSpan::Tokens { from, to } => sstable.overlaps(self.start(from).0.0, to),
        }
    }

    /// The partition whose deletion must be known before the first row.
    pub fn partition(&self) -> Option<(Token, &'r [u8])> {
        match self.span {
            PartitionSpan::One { token, key } => Some((token, key)),
            PartitionSpan::Tokens { .. } => self.after.map(|(token, key, _)| (token, key)),
        }
    }

    /// The first place of a range of tokens.
    pub fn start(&self, from: i64) -> RowPlace<'r> {
        self.after.map_or((Token(from), &[], &[]), |(token, key, ck)| match ck {
            Bound::Included(ck) | Bound::Excluded(ck) => (token, key, ck),
            Bound::Unbounded => (token, key, &[]),
        })
    }

    /// The row at which a cursor begins in its first block: one past it, if reading backwards.
    pub fn first_row(&self, block: &Block) -> usize {
        match self.span {
            PartitionSpan::One { token, key } if self.reverse => match self.to {
                Bound::Excluded(ck) => block.lower_bound(token, key, ck),
                Bound::Included(ck) => upper_bound(block, (token, key, ck)),
                Bound::Unbounded => end_of_partition(block, token, key),
            },
            PartitionSpan::One { token, key } => match self.from {
                Bound::Included(ck) => block.lower_bound(token, key, ck),
                Bound::Excluded(ck) => upper_bound(block, (token, key, ck)),
                Bound::Unbounded => block.lower_bound(token, key, &[]),
            },
            PartitionSpan::Tokens { from, .. } => match self.after {
                Some((token, key, Bound::Excluded(ck))) => upper_bound(block, (token, key, ck)),
                Some((token, key, Bound::Included(ck))) => block.lower_bound(token, key, ck),
                Some((token, key, Bound::Unbounded)) => block.lower_bound(token, key, &[]),
                None => block.lower_bound(Token(from), &[], &[]),
            },
        }
    }

    /// The order of reading. A deletion comes before the rows that it deletes, backwards behind
    /// them.
    #[inline]
    pub fn order(&self, a: &BlockRow<'_>, b: &BlockRow<'_>) -> Ordering {
        let order = a.cmp_to(b.token, b.key, b.ck());
        let order = order.then_with(|| a.rank().cmp(&b.rank()));
        if self.reverse { order.reverse() } else { order }
    }

    /// Whether a row is behind the end of what is read.
    #[inline]
    pub fn is_past(&self, row: &BlockRow<'_>) -> bool {
        let (token, key) = match self.span {
            PartitionSpan::Tokens { to, .. } => return row.token.0 > to,
            PartitionSpan::One { token, key } => (token, key),
        };
        if (row.token, row.key) != (token, key) {
            return true;
        }
        if row.rank() == 0 {
            return false;
        }
        let ck = row.ck();
        if self.reverse {
            match self.from {
                Bound::Included(from) => ck < from,
                Bound::Excluded(from) => ck <= from,
                Bound::Unbounded => false,
            }
        } else {
            match self.to {
                Bound::Included(to) => ck > to,
                Bound::Excluded(to) => ck >= to,
                Bound::Unbounded => false,
            }
        }
    }
}

/// The static row that comes before all others of a page: of the one partition that is read, or of
/// the one in which the read goes on.
pub(super) fn first_static_row(
    request: &ReadRequest,
    own: &RangeInclusive<i64>,
) -> Option<ReadRequest> {
    let partitions = match (&request.partitions, &request.after) {
        (one @ Partitions::One { .. }, _) => one.clone(),
        (Partitions::Range { from, to }, Some(after)) => {
            let token = after.token.0;
            let is_asked = (*from..=*to).contains(&token) && own.contains(&token);
            let is_over = after.ck == [ABOVE];
            let key = (is_asked && !is_over).then(|| after.key.clone())?;
            Partitions::One { token: after.token, key }
        }
        (Partitions::Range { .. }, None) => return None,
    };
    let ReadRequest { table, now_s, static_rows, bypass_cache, newest, .. } = *request;
    let only = || Bound::Included(Vec::new());
    let all = ReadRequest::scan(table, 0, 0, now_s);
    let (from, to) = (only(), only());
    Some(ReadRequest { partitions, from, to, static_rows, bypass_cache, newest, ..all })
}

fn upper_bound(block: &Block, (token, key, ck): RowPlace<'_>) -> usize {
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
