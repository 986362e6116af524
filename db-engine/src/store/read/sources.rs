//! The sstables of a read: which of them it has looked at, and where it stands in them.

use std::sync::Arc;

use super::{
    super::table::{Sstable, TableData},
    FindBlock, MissingBlock, Progress,
    cache::BlockId,
    cursor::{DiskCursor, MemoryCursor},
    deletions::SeenDeletions,
    slice::{PartitionSpan, Slice},
};
use crate::{
    io::TimeSlice,
    mutation::RowView,
    sstable::{Block, BlockRow},
};
use hashbrown::HashMap;

/// Blocks that a read asks for at once, at most. A read of more sstables waits again.
pub(super) const ASKED_MAX: usize = 256;

/// The sstables of a read. They stay as they are until it ends: what is flushed meanwhile is added,
/// and a file whose rows have all expired meanwhile is kept.
#[derive(Default)]
pub(super) struct ReadSources {
    pub disks: Vec<DiskCursor>,
    /// The numbers of the cursors by the rows that they stand on: the next one is last.
    by_row: Vec<usize>,
    /// Whether that is so. It is not once a cursor came, went or took a block.
    is_by_row: bool,
    /// The sstables that were there at first, those with the newest write first, if it has paused
    /// before all of them were looked at.
    first: Option<Arc<Vec<Arc<Sstable>>>>,
    /// How many of those were looked at.
    looked_at: usize,
    /// How many of all had something of what is read, as far as their index tells.
    pub looked_into: u64,
    /// Those that were flushed since, and were not looked at.
    flushed: Vec<Arc<Sstable>>,
    /// Those that have nothing before a place to which the read has not come, not even a deletion:
    /// the next one is last.
    far: Vec<Arc<Sstable>>,
    is_far_unsorted: bool,
    /// Those that the read has come to, and have no cursor yet.
    reached: Vec<Arc<Sstable>>,
    /// How many that are far are asked for at once, should those not be in memory that are reached.
    ahead: usize,
    /// How many the table had had when it was looked at last.
    added: u64,
    /// Whether the table was looked at.
    has_begun: bool,
    /// Of one row: nothing that was written before this moment matters.
    settled_since: Option<i64>,
    /// Blocks that have come, until the cursors have taken them.
    arrived: HashMap<BlockId, Arc<Block>>,
    arrived_bytes: usize,
}

impl ReadSources {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        let Self {
            disks,
            by_row,
            is_by_row,
            first,
            looked_at,
            looked_into,
            flushed,
            far,
            is_far_unsorted,
            reached,
            ahead,
            added,
            has_begun,
            settled_since,
            arrived,
            arrived_bytes,
        } = self;
        disks.clear();
        by_row.clear();
        flushed.clear();
        far.clear();
        reached.clear();
        arrived.clear();
        (*first, *settled_since, *has_begun, *is_far_unsorted) = (None, None, false, false);
        *is_by_row = false;
        (*looked_at, *looked_into, *ahead, *added, *arrived_bytes) = (0, 0, 0, 0, 0);
    }

    /// A block has come that was asked for.
    pub fn take_block(&mut self, id: BlockId, block: Arc<Block>) {
        self.arrived_bytes += block.memory_bytes();
        self.arrived.insert(id, block);
    }

    /// Whether nothing is left to be looked at.
    pub fn is_over(&self) -> bool {
        self.disks.is_empty() && !self.has_far()
    }

    /// Whether some were looked at that have no cursor yet.
    pub fn has_far(&self) -> bool {
        !self.far.is_empty() || !self.reached.is_empty()
    }

    /// Bytes of all blocks that are held.
    pub fn bytes(&self) -> usize {
        let sstables = self.far.capacity() + self.reached.capacity() + self.flushed.capacity();
        let numbers = self.by_row.capacity() * size_of::<usize>();
        let cursors = self.disks.capacity() * size_of::<DiskCursor>();
        let blocks = self.disks.iter().map(DiskCursor::block_bytes).sum::<usize>();
        sstables * size_of::<Arc<Sstable>>() + numbers + cursors + blocks + self.arrived_bytes
    }

    /// Takes note of what was flushed since the last time. Whether this is the first time.
    pub fn look_at(&mut self, table: &TableData) -> bool {
        let is_new = !std::mem::replace(&mut self.has_begun, true);
        if !is_new && self.added != table.added {
            let new = table.sstables.iter().filter(|sstable| sstable.added > self.added);
            self.flushed.extend(new.cloned());
        }
        self.added = table.added;
        is_new
    }

    /// The same for a read that has begun.
    pub fn look_again(&mut self, table: &TableData) {
        if self.has_begun {
            self.look_at(table);
        }
    }

    /// Has every cursor stand on a row. `None` once all of them do. `first` has the sstables of the
    /// table, if the read has only begun.
    pub fn load(
        &mut self,
        first: Option<&Arc<Vec<Arc<Sstable>>>>,
        slice: &Slice<'_>,
        memory: &[Option<MemoryCursor<'_>>; 2],
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Option<Progress> {
        for cursor in memory.iter().flatten() {
            self.settled_since = self.settled_since.max(settled_since(slice, cursor.peek()));
        }
        if !self.arrived.is_empty() && !self.load_arrived(slice, seen, find, time) {
            self.first = self.first.take().or_else(|| first.cloned());
            return Some(Progress::TimeIsOver);
        }
        if !self.look_at_new(first, slice, seen, find, time) {
            return Some(Progress::TimeIsOver);
        }
        if std::mem::take(&mut self.is_far_unsorted) {
            self.far.sort_by(|a, b| {
                let order = begins_at(a, slice).cmp(&begins_at(b, slice));
                if slice.reverse { order } else { order.reverse() }
            });
        }
        let is_at_row = |cursor: &MemoryCursor<'_>| cursor.peek().is_some();
        if self.disks.is_empty()
            && self.reached.is_empty()
            && !memory.iter().flatten().any(is_at_row)
        {
            // Nothing else is left: what is next is asked for with what else is missing.
            self.come_to_next(slice);
        }
        if let Some(progress) = self.load_reached(slice, seen, find, time) {
            return Some(progress);
        }
        if slice.columns_of_row.is_some() {
            let since = self.settled_since;
            self.disks.retain(|disk| is_needed(&disk.sstable, since));
            self.is_by_row = false;
        }
        None
    }

    /// Has cursors take the blocks that have come. False if the time is over before.
    fn load_arrived(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        let arrived = std::mem::take(&mut self.arrived);
        let mut find = |id| arrived.get(&id).map(Arc::clone).or_else(|| find(id));
        let mut number = 0;
        while let Some(disk) = self.disks.get(number) {
            if !disk.missing().is_some_and(|id| arrived.contains_key(&id)) {
                number += 1;
                continue;
            }
            if time.is_over() {
                self.arrived = arrived;
                return false;
            }
            number += usize::from(self.load_cursor(number, slice, seen, &mut find));
            time.count(0);
        }
        self.arrived_bytes = 0;
        true
    }

    /// Looks at sstables that were not looked at. False if the time is over before.
    fn look_at_new(
        &mut self,
        first: Option<&Arc<Vec<Arc<Sstable>>>>,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        let paused = self.first.take();
        if let Some(first) = paused.as_ref().or(first) {
            while let Some(sstable) = first.get(self.looked_at) {
                if !is_needed(sstable, self.settled_since) {
                    break;
                }
                if time.is_over() {
                    self.first = Some(Arc::clone(first));
                    return false;
                }
                self.looked_at += 1;
                self.add(sstable, slice, seen, find);
                time.count(0);
            }
        }
        while let Some(sstable) = self.flushed.pop() {
            if time.is_over() {
                self.flushed.push(sstable);
                return false;
            }
            self.add(&sstable, slice, seen, find);
            time.count(0);
        }
        true
    }

    /// Whether one that is far may have something at this clustering key or before it, in the order
    /// of reading; or at all, if nothing else is left.
    #[inline]
    pub fn is_at_far(&self, ck: Option<&[u8]>, slice: &Slice<'_>) -> bool {
        self.far.last().is_some_and(|next| ck.is_none_or(|ck| has_begun(next, ck, slice)))
    }

    /// The read comes to the next of those that are far, and to what begins where that does. What
    /// they have may be before all else that is known, so the one behind them is not asked yet.
    pub fn come_to_next(&mut self, slice: &Slice<'_>) {
        let Some(next) = self.far.pop() else { return };
        let at = begins_at(&next, slice);
        while let Some(same) = self.far.pop_if(|one| begins_at(one, slice) == at) {
            self.reached.push(same);
        }
        self.reached.push(next);
    }

    /// Adds cursors for the sstables that were reached. Tells what the read waits for, if it does.
    pub fn load_reached(
        &mut self,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Option<Progress> {
        while let Some(sstable) = self.reached.pop() {
            if time.is_over() {
                self.reached.push(sstable);
                return Some(Progress::TimeIsOver);
            }
            self.add_cursor(&sstable, slice, seen, find);
            time.count(0);
        }
        if self.disks.iter().all(|disk| disk.missing().is_none()) {
            return None;
        }
        // The more it waits, the more comes at once: a long read waits a few times, and reads no
        // more for nothing than it has read.
        for _ in 0..self.ahead {
            let Some(sstable) = self.far.pop() else { break };
            self.add_cursor(&sstable, slice, seen, find);
        }
        self.ahead = (2 * self.ahead).clamp(1, ASKED_MAX);
        Some(Progress::Missing(self.missing()))
    }

    /// Has the cursors by the rows that they stand on. False if one waits for its block.
    #[inline]
    pub fn put_in_order(&mut self, slice: &Slice<'_>) -> bool {
        if !self.is_by_row {
            let Self { disks, by_row, .. } = self;
            if disks.iter().any(|disk| disk.peek(slice.reverse).is_none()) {
                return false;
            }
            by_row.clear();
            by_row.extend(0..disks.len());
            let row = |number: &usize| disks[*number].peek(slice.reverse);
            by_row.sort_unstable_by(|a, b| match (row(a), row(b)) {
                (Some(a), Some(b)) => slice.order(&b, &a),
                (a, b) => a.is_some().cmp(&b.is_some()),
            });
            self.is_by_row = true;
        }
        true
    }

    /// The numbers of the cursors, the one that stands on the next row first. They are in order.
    #[inline]
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        self.by_row.iter().rev().copied()
    }

    /// Steps over the rows that these cursors stand on. They are the first in order, and numbered
    /// from `first` on, behind those that are not of sstables.
    pub fn advance(
        &mut self,
        (numbers, first): (&mut [usize], usize),
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) {
        let others = numbers.partition_point(|number| *number < first);
        let numbers = &mut numbers[others..];
        for number in &mut *numbers {
            *number -= first;
        }
        self.move_first(numbers, slice, |disk| disk.advance(slice, seen, find));
    }

    /// Has the cursors that stand in the partition behind which the slice begins go on there.
    /// Their numbers are put together in `numbers`.
    pub fn leave_partition(
        &mut self,
        numbers: &mut Vec<usize>,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) {
        if !self.is_by_row {
            self.disks.retain_mut(|disk| disk.leave_partition(slice, seen, find));
            return;
        }
        let is_in = |number: &usize| self.disks[*number].is_in_partition(slice);
        numbers.clear();
        numbers.extend(self.in_order().take_while(is_in));
        self.move_first(numbers, slice, |disk| disk.leave_partition(slice, seen, find));
    }

    /// Moves these cursors, which are the first in order, to rows behind the others of their own
    /// sstables. Those that have none are taken out.
    #[inline]
    fn move_first(
        &mut self,
        numbers: &mut [usize],
        slice: &Slice<'_>,
        mut go_on: impl FnMut(&mut DiskCursor) -> bool,
    ) {
        let Self { disks, by_row, is_by_row, .. } = self;
        by_row.truncate(by_row.len() - numbers.len());
        // One that is taken out leaves its number to the last one.
        numbers.sort_unstable();
        for &mut number in numbers.iter_mut().rev() {
            if !go_on(&mut disks[number]) {
                disks.swap_remove(number);
                let moved = disks.len();
                by_row
                    .iter_mut()
                    .filter(|other| **other == moved)
                    .for_each(|other| *other = number);
                continue;
            }
            let row = |number: usize| disks[number].peek(slice.reverse);
            let Some(own) = row(number).filter(|_| *is_by_row) else {
                *is_by_row = false;
                continue;
            };
            let is_behind =
                |other: &usize| row(*other).is_some_and(|other| slice.order(&other, &own).is_gt());
            let place = match by_row.last() {
                Some(last) if !is_behind(last) => by_row.partition_point(is_behind),
                _ => by_row.len(),
            };
            by_row.insert(place, number);
        }
    }

    /// The blocks that are not in memory.
    pub fn missing(&self) -> Vec<MissingBlock> {
        let missing = self.disks.iter().filter_map(|disk| {
            disk.missing().map(|(_, number)| (Arc::clone(&disk.sstable), number))
        });
        missing.take(ASKED_MAX).collect()
    }

    /// Adds a cursor for an sstable that can have something of the slice, or takes note that it
    /// begins later.
    fn add(
        &mut self,
        sstable: &Arc<Sstable>,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) {
        if !slice.may_be_in(sstable) {
            return;
        }
        if begins_at(sstable, slice).is_some() {
            self.far.push(Arc::clone(sstable));
            self.is_far_unsorted = true;
        } else {
            self.add_cursor(sstable, slice, seen, find);
        }
    }

    fn add_cursor(
        &mut self,
        sstable: &Arc<Sstable>,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) {
        if let Some(cursor) = DiskCursor::new(sstable, slice) {
            self.looked_into += 1;
            self.disks.push(cursor);
            self.load_cursor(self.disks.len() - 1, slice, seen, find);
        }
    }

    /// Has a cursor take the blocks that it needs. False if it is there no more: it had no row.
    fn load_cursor(
        &mut self,
        number: usize,
        slice: &Slice<'_>,
        seen: &mut SeenDeletions,
        find: &mut FindBlock<'_>,
    ) -> bool {
        self.is_by_row = false;
        let disk = &mut self.disks[number];
        if !disk.load(slice, seen, find) {
            self.disks.swap_remove(number);
            return false;
        }
        let since = settled_since(slice, disk.peek(slice.reverse));
        self.settled_since = self.settled_since.max(since);
        true
    }
}

/// Where an sstable begins in the order of reading, if that is known to be later than the read.
fn begins_at<'s>(sstable: &'s Sstable, slice: &Slice<'_>) -> Option<&'s [u8]> {
    if !matches!(slice.span, PartitionSpan::One { .. }) {
        return None;
    }
    let (from, to) = slice.bounds();
    sstable.index.begins_at(from, to, slice.reverse)
}

/// Whether one that is far may have something at this clustering key or before it.
fn has_begun(sstable: &Sstable, ck: &[u8], slice: &Slice<'_>) -> bool {
    let at = begins_at(sstable, slice);
    at.is_none_or(|at| if slice.reverse { at >= ck } else { at <= ck })
}

/// Whether an sstable can change a row of which all is known since this moment.
fn is_needed(sstable: &Sstable, since: Option<i64>) -> bool {
    since.is_none_or(|since| sstable.summary.timestamp_max >= since)
}

/// Since when all is known of the one row that is read, if this version of it says so.
fn settled_since(slice: &Slice<'_>, row: Option<BlockRow<'_>>) -> Option<i64> {
    let columns = slice.columns_of_row?;
    let (_, row) = row?.row?;
    RowView::parse(row).ok()?.settled_since(columns, slice.now_s)
}
