//! Merging: all versions of a row become one, in the order of reading.

mod finish;

use std::{
    cmp::Ordering,
    ops::{Bound, RangeInclusive},
    sync::Arc,
};

use self::finish::DoneWith;
use super::{
    super::{JudgedPlace, Page, Partitions, Position, ReadRequest, table::TableData},
    DEAD_ROWS_MAX, FindBlock, MissingBlock, Progress,
    cache::BlockId,
    cursor::MemoryCursor,
    deletions::SeenDeletions,
    scratch::{KeptVersion, Scratch, replace},
    slice::{PartitionSpan, Slice, first_static_row},
    sources::{ASKED_MAX, ReadSources},
};
use crate::{
    io::TimeSlice,
    memtable::Memtable,
    mutation::Token,
    sstable::{Block, BlockRow},
    types::comparable::ABOVE,
};
use hashbrown::HashSet;

/// Comparing one more source for the next row takes as long as moving so many bytes.
const CURSOR_COST_BYTES: usize = 16;

/// What one step of a merge came to.
enum MergeStep {
    /// Nothing is left.
    End,
    /// The deletion of a partition.
    Deletion,
    /// The deletion of a range of rows.
    Range,
    /// So many versions of a row were merged.
    Row(u64),
    /// Sstables were reached that may have the next row.
    Far,
    /// The next row is not in memory.
    Missing,
}

/// A read of which some rows are merged, and what it needs to go on.
#[derive(Default)]
pub(super) struct Merge {
    pub sources: ReadSources,
    /// The partition at hand, of a range of tokens: that of the row that was looked at last.
    partition: Option<(Token, Vec<u8>)>,
    /// What deletes its rows.
    seen: SeenDeletions,
    /// How many rows of the page are static ones; `None` until the first was looked for.
    statics: Option<usize>,
    /// The read of that first one, while it is looked for.
    first_static: Option<Box<Merge>>,
    last: Scratch,
    /// Where the deleted range begins that was looked at last, if that was behind the last row. Of
    /// those that end before it nothing is known any more, so the read must not go back.
    passed: Option<Vec<u8>>,
    /// How many more rows of the partition at hand count; `None` before the first that does.
    partition_left: Option<usize>,
    /// How far the last row is judged, if the time was over before that was done.
    judged: Option<JudgedPlace>,
    /// Which cursors are at the row that is being merged: those of memtables are counted first.
    at_row: Vec<usize>,
}

impl Merge {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.partition = None;
        self.seen.clear();
        (self.statics, self.partition_left) = (None, None);
        self.first_static.iter_mut().for_each(|first| first.clear());
        self.last.clear();
        (self.passed, self.judged) = (None, None);
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let first_static = self.first_static.as_ref().map_or(0, |first| first.bytes());
        let own = self.sources.bytes() + self.last.bytes() + self.seen.bytes();
        size_of::<Self>() + own + first_static
    }

    /// A block has come that was asked for.
    pub fn take_block(&mut self, id: BlockId, block: &Arc<Block>) {
        if let Some(first) = &mut self.first_static
            && self.statics.is_none()
        {
            first.take_block(id, block);
        }
        self.sources.take_block(id, Arc::clone(block));
    }

    /// Takes note of what was flushed.
    pub fn look_at(&mut self, table: &TableData) {
        self.first_static.iter_mut().for_each(|first| first.look_at(table));
        self.sources.look_again(table);
    }

    /// Makes it ready for the page behind this position, at which the last one was cut. False if
    /// it cannot go on there: it has looked at what is behind.
    pub fn suspend(&mut self, position: &Position) -> bool {
        let is_at_hand =
            |(token, key): &(Token, Vec<u8>)| (*token, key) == (position.token, &position.key);
        let is_behind = self.passed.is_some() || !self.partition.as_ref().is_none_or(is_at_hand);
        if self.sources.is_over() || is_behind {
            return false;
        }
        self.last.clear();
        (self.statics, self.partition_left) = (None, None);
        true
    }

    /// Merges rows into the page until it is full, a block is missing, or the time is over. Of the
    /// tokens that are asked for it reads those that are `own`. The table and the request are the
    /// same every time.
    pub fn run(
        &mut self,
        (table, request): (&TableData, &ReadRequest),
        own: &RangeInclusive<i64>,
        page: &mut Page,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Progress {
        if request.static_rows && self.statics.is_none() {
            if let Some(first) = first_static_row(request, own) {
                let merge = self.first_static.get_or_insert_default();
                match merge.run_rows((table, &first), own, page, find, time) {
                    Progress::Complete => merge.clear(),
                    Progress::Missing(missing) => {
                        let missing = self.add_missing(missing, (table, request), own, find, time);
                        return Progress::Missing(missing);
                    }
                    Progress::TimeIsOver => return Progress::TimeIsOver,
                }
            }
            self.statics = Some(page.len());
        }
        self.run_rows((table, request), own, page, find, time)
    }

    /// Adds the blocks with which the rows begin to those of the static row: both come in one
    /// round.
    fn add_missing(
        &mut self,
        mut missing: Vec<MissingBlock>,
        (table, request): (&TableData, &ReadRequest),
        own: &RangeInclusive<i64>,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Vec<MissingBlock> {
        let mut memory = [None, None];
        let waits = self.begin((table, request), own, &mut memory, find, time);
        if let Some(Progress::Missing(of_rows)) = waits {
            let id = |(sstable, number): &MissingBlock| (sstable.summary.id, *number);
            let asked: HashSet<BlockId> = missing.iter().map(id).collect();
            missing.extend(of_rows.into_iter().filter(|block| !asked.contains(&id(block))));
            missing.truncate(ASKED_MAX);
        }
        missing
    }

    /// Looks at the memtables, behind the last row, and has every cursor in an sstable stand on a
    /// row. Tells what it waits for, if it does.
    #[inline]
    fn begin<'t>(
        &mut self,
        (table, request): (&'t TableData, &ReadRequest),
        own: &RangeInclusive<i64>,
        memory: &mut [Option<MemoryCursor<'t>>; 2],
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Option<Progress> {
        let is_new = self.sources.look_at(table);
        if let (Partitions::Range { .. }, Some(after)) = (&request.partitions, &request.after) {
            self.partition.get_or_insert_with(|| (after.token, after.key.clone()));
        }
        let at_hand = self.partition.as_ref().map(|(token, key)| (*token, key.as_slice()));
        let slice = Slice::of(request, own, self.last.place(), at_hand, self.passed.as_deref());
        let seen = &mut self.seen;
        for (cursor, memtable) in memory.iter_mut().zip(table.memtables()) {
            *cursor = memtable.and_then(|one| MemoryCursor::new(one, &slice, seen));
        }
        let first = is_new.then_some(&table.sstables);
        self.sources.load(first, &slice, memory, seen, find, time)
    }

    fn run_rows(
        &mut self,
        (table, request): (&TableData, &ReadRequest),
        own: &RangeInclusive<i64>,
        page: &mut Page,
        find: &mut FindBlock<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Progress {
        let mut memory = [None, None];
        let waits = self.begin((table, request), own, &mut memory, find, time);
        page.cost.memtables = page.cost.memtables.max(memory.iter().flatten().count() as u64);
        page.cost.sstables = page.cost.sstables.max(self.sources.looked_into);
        if let Some(progress) = waits {
            return progress;
        }
        let ranged = table.memtables().map(|one| one.filter(|one| one.has_ranges()));
        let slice = Slice::of(request, own, None, None, None);
        loop {
            // Of a row that is merged, or judged, bit by bit.
            let is_at_hand = self.judged.is_some() || self.last.is_unmerged();
            let is_full = page.len() - self.statics.unwrap_or(0) >= request.rows_max
                || (page.bytes() >= request.bytes_max && !page.is_empty())
                || page.dead() >= DEAD_ROWS_MAX;
            if is_full
                && !is_at_hand
                && let Some((token, key, ck)) = self.last.place()
            {
                let is_static = request.static_rows && ck.is_empty();
                if self.is_over(&memory) {
                    return Progress::Complete;
                }
                // A static row and the rows of its partition that come next are not parted.
                if !is_static || !self.is_in(&memory, token, key) {
                    page.cut(token, key, if is_static { &[ABOVE] } else { ck });
                    return Progress::Complete;
                }
            }
            if time.is_over() && !self.is_over(&memory) {
                return Progress::TimeIsOver;
            }
            let mut row_bytes = 0;
            let step =
                if is_at_hand { MergeStep::Row(0) } else { self.step(&slice, &mut memory, find) };
            match step {
                MergeStep::End => {
                    if request.newest {
                        self.note_deletion(request, &ranged, page);
                    }
                    return Progress::Complete;
                }
                MergeStep::Far => {
                    let Self { sources, seen, .. } = self;
                    let waits = sources.load_reached(&slice, seen, find, time);
                    page.cost.sstables = page.cost.sstables.max(sources.looked_into);
                    if let Some(progress) = waits {
                        return progress;
                    }
                }
                MergeStep::Missing => return Progress::Missing(self.sources.missing()),
                MergeStep::Deletion => page.add_dead(),
                MergeStep::Range => {}
                MergeStep::Row(versions) => {
                    page.cost.rows_scanned += versions;
                    if !is_at_hand {
                        self.note_hidden(&slice, &ranged);
                    }
                    row_bytes = self.last.merged.row.len();
                    match self.finish_row(&slice, request, page, time) {
                        DoneWith::Row => {}
                        DoneWith::Partition => {
                            self.leave_partition((table, request), own, &mut memory, find);
                            time.count(CURSOR_COST_BYTES * self.sources.disks.len());
                        }
                        DoneWith::Nothing => return Progress::TimeIsOver,
                    }
                }
            }
            let compared = usize::BITS - self.sources.disks.len().leading_zeros();
            time.count(self.last.key.len() + row_bytes + CURSOR_COST_BYTES * compared as usize);
        }
    }

    /// Whether nothing is left to be looked at.
    fn is_over(&self, memory: &[Option<MemoryCursor<'_>>; 2]) -> bool {
        self.sources.is_over() && memory.iter().flatten().all(|cursor| cursor.peek().is_none())
    }

    /// Whether what is looked at next is, or may be, in this partition.
    fn is_in(&self, memory: &[Option<MemoryCursor<'_>>; 2], token: Token, key: &[u8]) -> bool {
        let is_own = |row: BlockRow<'_>| (row.token, row.key) == (token, key);
        memory.iter().flatten().filter_map(MemoryCursor::peek).any(is_own)
            || self.sources.has_far()
            || self.sources.disks.iter().any(|disk| disk.peek(false).is_none_or(is_own))
    }

    /// Comes to the next row, and merges its versions. Of large ones some are kept, to be merged
    /// bit by bit.
    fn step(
        &mut self,
        slice: &Slice<'_>,
        memory: &mut [Option<MemoryCursor<'_>>; 2],
        find: &mut FindBlock<'_>,
    ) -> MergeStep {
        let Self { sources, partition, seen, last, passed, partition_left, at_row, .. } = self;
        if !sources.put_in_order(slice) {
            return MergeStep::Missing;
        }
        let disks = &sources.disks;
        let memtables = memory.len();
        let mut next: Option<BlockRow<'_>> = None;
        at_row.clear();
        let mut look_at = |number, row| {
            let order = next.map_or(Ordering::Less, |next| slice.order(&row, &next));
            if order.is_lt() {
                at_row.clear();
                next = Some(row);
            }
            if order.is_le() {
                at_row.push(number);
            }
            order
        };
        let heads = memory.iter().map(|cursor| cursor.as_ref().and_then(MemoryCursor::peek));
        for (number, row) in heads.enumerate().filter_map(|(number, row)| Some((number, row?))) {
            look_at(number, row);
        }
        for number in sources.in_order() {
            let Some(row) = disks[number].peek(slice.reverse) else { return MergeStep::Missing };
            if look_at(memtables + number, row).is_gt() {
                break;
            }
        }
        if sources.is_at_far(next.map(|next| next.ck()), slice) {
            sources.come_to_next(slice);
            return MergeStep::Far;
        }
        let Some(next) = next else { return MergeStep::End };
        if matches!(slice.span, PartitionSpan::Tokens { .. }) {
            enter(partition, (seen, passed, partition_left), last, &next);
        }
        let rank = next.rank();
        pass(passed, seen, &next, slice.reverse);
        last.come_to(&next);
        for (nth, number) in at_row.iter().enumerate() {
            let in_memory = memory.get(*number).and_then(Option::as_ref);
            let row = match in_memory {
                _ if nth == 0 => Some(next),
                Some(cursor) => cursor.peek(),
                None => disks[number - memtables].peek(slice.reverse),
            };
            let Some(row) = row else { continue };
            // The small ones first: so merging copies little.
            let layers = in_memory.map_or(&[][..], MemoryCursor::layers);
            layers.iter().rev().for_each(|layer| last.add(layer, || KeptVersion::of(layer)));
            if let Some((_, record)) = row.row {
                let disk = number.checked_sub(memtables).map(|number| &disks[number]);
                let kept = || disk.and_then(|disk| disk.keep(slice.reverse));
                last.add(record, || kept().unwrap_or_else(|| KeptVersion::of(record)));
            }
            seen.add_partition(row.deletion);
            if let Some(range) = row.range {
                seen.add_range(range);
            }
        }
        for number in at_row.iter().take_while(|number| **number < memtables) {
            memory[*number].iter_mut().for_each(MemoryCursor::advance);
        }
        sources.advance((at_row, memtables), slice, seen, find);
        match rank {
            0 => MergeStep::Deletion,
            1 => MergeStep::Range,
            _ => MergeStep::Row(at_row.len() as u64),
        }
    }

    /// Notes what deletes the one row that is read, whether it is there or not.
    fn note_deletion(
        &mut self,
        request: &ReadRequest,
        ranged: &[Option<&Memtable>; 2],
        page: &mut Page,
    ) {
        let (Partitions::One { token, key }, Bound::Included(ck)) =
            (&request.partitions, &request.from)
        else {
            return;
        };
        let in_memory = ranged.iter().flatten();
        let in_memory = in_memory.filter_map(|one| one.range_deletion(*token, key, ck)).max();
        let deletion = self.seen.of_row(ck, request.reverse).max(in_memory);
        if let Some(deletion) = deletion {
            page.note_timestamp(deletion.timestamp);
        }
    }

    /// Goes on behind the partition at hand, of which no more rows are wanted.
    fn leave_partition<'t>(
        &mut self,
        (table, request): (&'t TableData, &ReadRequest),
        own: &RangeInclusive<i64>,
        memory: &mut [Option<MemoryCursor<'t>>; 2],
        find: &mut FindBlock<'_>,
    ) {
        let Self { sources, partition, seen, last, at_row, .. } = self;
        let Some((token, key)) = partition else { return };
        last.come_to_end(*token, key);
        let slice = Slice::of(request, own, last.place(), Some((*token, key)), None);
        let is_in = |row: BlockRow<'_>| (row.token, row.key) == (*token, key.as_slice());
        for (cursor, memtable) in memory.iter_mut().zip(table.memtables()) {
            if cursor.as_ref().and_then(MemoryCursor::peek).is_some_and(is_in) {
                *cursor = memtable.and_then(|one| MemoryCursor::new(one, &slice, seen));
            }
        }
        sources.leave_partition(at_row, &slice, seen, find);
    }
}

/// Takes note of a deleted range that the read comes past, and forgets those that end before it:
/// there may be very many, and no row between them.
fn pass(
    passed: &mut Option<Vec<u8>>,
    seen: &mut SeenDeletions,
    next: &BlockRow<'_>,
    reverse: bool,
) {
    if let Some(range) = next.range {
        seen.come_to(range.from, reverse);
        replace(passed.get_or_insert_default(), range.from);
    } else if next.row.is_some() {
        *passed = None;
    }
}

/// Takes note of the partition of the next row. If that is another one than before, nothing of the
/// one before is left, and there is no need to see its deletion again.
fn enter(
    partition: &mut Option<(Token, Vec<u8>)>,
    (seen, passed, left): (&mut SeenDeletions, &mut Option<Vec<u8>>, &mut Option<usize>),
    last: &mut Scratch,
    next: &BlockRow<'_>,
) {
    let Some((token, key)) = partition else {
        *partition = Some((next.token, next.key.to_vec()));
        return;
    };
    if (*token, key.as_slice()) == (next.token, next.key) {
        return;
    }
    seen.clear();
    (*passed, *left) = (None, None);
    last.come_to_end(*token, key);
    *token = next.token;
    replace(key, next.key);
}
