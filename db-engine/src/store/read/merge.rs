//! Merging: all versions of a row become one, in the order of reading.

use std::{cmp::Ordering, ops::RangeInclusive};

use super::{
    super::{Page, Partitions, ReadRequest, table::TableData},
    DEAD_ROWS_MAX, FindBlock, Progress,
    cursor::MemoryCursor,
    slice::{PartitionSpan, RowPlace, Slice},
    sources::ReadSources,
};
use crate::{
    io::TimeSlice,
    mutation::{Deletion, RowView, Token, merge, shadow},
    sstable::BlockRow,
    types::comparable::ABOVE,
};

/// Looking at one more source for the next row takes as long as moving so many bytes.
const CURSOR_COST_BYTES: usize = 16;

/// Memory for a row that is kept for the next read. A large row gives its memory back.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// The last row that was merged, in memory that is used again; or the end of a partition, if the
/// row that was looked at last is behind it.
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
            replace(&mut self.row, version);
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

    fn place(&self) -> Option<RowPlace<'_>> {
        Some((self.token?, &self.key, &self.ck))
    }

    fn bytes(&self) -> usize {
        [&self.key, &self.ck, &self.row, &self.other].map(Vec::capacity).iter().sum()
    }
}

/// What one step of a merge came to.
enum MergeStep {
    /// Nothing is left.
    End,
    /// The deletion of a partition.
    Deletion,
    /// So many versions of a row were merged.
    Row(u64),
    /// The next row is not in memory.
    Missing,
}

/// A read of which some rows are merged, and what it needs to go on.
#[derive(Default)]
pub(super) struct Merge {
    pub sources: ReadSources,
    /// The partition at hand, of a range of tokens: that of the row that was looked at last.
    partition: Option<(Token, Vec<u8>)>,
    /// Its deletion, as far as it was seen.
    deletion: Option<Deletion>,
    last: Scratch,
    /// Which cursors are at the row that is being merged: those of memtables are counted first.
    at_row: Vec<usize>,
}

impl Merge {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.sources.clear();
        self.partition = None;
        self.deletion = None;
        self.last.token = None;
        if self.last.bytes() > SCRATCH_BYTES_KEPT {
            self.last = Scratch::default();
        }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.sources.bytes() + self.last.bytes()
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
        self.sources.look_at(table);
        if let (Partitions::Range { .. }, Some(after)) = (&request.partitions, &request.after) {
            self.partition.get_or_insert_with(|| (after.token, after.key.clone()));
        }
        let at_hand = self.partition.as_ref().map(|(token, key)| (*token, key.as_slice()));
        let slice = Slice::of(request, own, self.last.place(), at_hand);
        let deletion = &mut self.deletion;
        let memtables = [Some(&table.active), table.flushing.as_deref()];
        let mut memory = memtables.map(|memtable| MemoryCursor::new(memtable?, &slice, deletion));
        let found = memory.iter().flatten().count() as u64;
        page.cost.memtables = page.cost.memtables.max(found);
        let waits = self.sources.load(&slice, &memory, deletion, find, time);
        page.cost.sstables = self.sources.looked_into;
        if let Some(progress) = waits {
            return progress;
        }
        let slice = Slice::of(request, own, None, None);
        loop {
            let is_full = page.len() >= request.rows_max
                || (page.bytes() >= request.bytes_max && !page.is_empty())
                || page.dead() >= DEAD_ROWS_MAX;
            if is_full && let Some((token, key, ck)) = self.last.place() {
                if !self.is_over(&memory) {
                    page.cut(token, key, ck);
                }
                return Progress::Complete;
            }
            if time.is_over() && !self.is_over(&memory) {
                return Progress::TimeIsOver;
            }
            match self.step(&slice, &mut memory, find) {
                MergeStep::End => return Progress::Complete,
                MergeStep::Missing => return Progress::Missing(self.sources.missing()),
                MergeStep::Deletion => page.add_dead(),
                MergeStep::Row(versions) => {
                    page.cost.rows_scanned += versions;
                    self.finish_row(&slice, page);
                }
            }
            let bytes = self.last.key.len() + self.last.row.len();
            time.count(bytes + CURSOR_COST_BYTES * self.sources.disks.len());
        }
    }

    /// Whether nothing is left to be looked at.
    fn is_over(&self, memory: &[Option<MemoryCursor<'_>>; 2]) -> bool {
        self.sources.disks.is_empty()
            && memory.iter().flatten().all(|cursor| cursor.peek().is_none())
    }

    /// Merges all versions of the next row.
    fn step(
        &mut self,
        slice: &Slice<'_>,
        memory: &mut [Option<MemoryCursor<'_>>; 2],
        find: &mut FindBlock<'_>,
    ) -> MergeStep {
        let Self { sources, partition, deletion, last, at_row } = self;
        let disks = &mut sources.disks;
        let memtables = memory.len();
        let mut next: Option<BlockRow<'_>> = None;
        at_row.clear();
        for number in 0..memtables + disks.len() {
            let row = match memory.get(number) {
                Some(cursor) => cursor.as_ref().and_then(MemoryCursor::peek),
                None => match disks[number - memtables].peek(slice.reverse) {
                    None => return MergeStep::Missing,
                    row => row,
                },
            };
            let Some(row) = row else { continue };
            let order = next.map_or(Ordering::Less, |next| slice.order(&row, &next));
            if order.is_lt() {
                at_row.clear();
                next = Some(row);
            }
            if order.is_le() {
                at_row.push(number);
            }
        }
        let Some(next) = next else { return MergeStep::End };
        if matches!(slice.span, PartitionSpan::Tokens { .. }) {
            enter(partition, deletion, last, &next);
        }
        let is_row = next.row.is_some();
        if let Some((ck, _)) = next.row {
            last.token = Some(next.token);
            replace(&mut last.key, next.key);
            replace(&mut last.ck, ck);
        }
        let mut is_first = true;
        let mut add = |version: &[u8]| last.add(version, std::mem::take(&mut is_first));
        for number in at_row.iter() {
            let row = match number.checked_sub(memtables) {
                None => {
                    let Some(cursor) = &memory[*number] else { continue };
                    cursor.versions().for_each(&mut add);
                    cursor.peek()
                }
                Some(disk) => {
                    let row = disks[disk].peek(slice.reverse);
                    row.and_then(|row| row.row).into_iter().for_each(|(_, row)| add(row));
                    row
                }
            };
            *deletion = (*deletion).max(row.and_then(|row| row.deletion));
        }
        // The last one first, because one that is taken out leaves its number to the last one.
        for number in at_row.iter().rev() {
            match number.checked_sub(memtables) {
                None => memory[*number].iter_mut().for_each(MemoryCursor::advance),
                Some(disk) if disks[disk].advance(slice, find) => {}
                Some(disk) => drop(disks.swap_remove(disk)),
            }
        }
        if is_row { MergeStep::Row(at_row.len() as u64) } else { MergeStep::Deletion }
    }

    fn finish_row(&mut self, slice: &Slice<'_>, page: &mut Page) {
        if let Some(deletion) = self.deletion {
            self.last.hide(deletion);
        }
        let is_live = RowView::parse(&self.last.row).is_ok_and(|row| row.is_live(slice.now_s));
        match self.last.token {
            Some(token) if is_live => {
                page.push(token, &self.last.key, &self.last.ck, &self.last.row);
            }
            _ => page.add_dead(),
        }
    }
}

/// Takes note of the partition of the next row. If that is another one than before, nothing of the
/// one before is left, and there is no need to see its deletion again.
fn enter(
    partition: &mut Option<(Token, Vec<u8>)>,
    deletion: &mut Option<Deletion>,
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
    *deletion = None;
    last.token = Some(*token);
    replace(&mut last.key, key);
    replace(&mut last.ck, &[ABOVE]);
    *token = next.token;
    replace(key, next.key);
}

fn replace(bytes: &mut Vec<u8>, with: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(with);
}
