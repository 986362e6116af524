//! The writes of a block of the log happen: what is on the device is applied to the memtables, as
//! much of it in a turn as there is time for.
//!
//! Blocks are applied one after the other, and the next one is not begun on the device before. A
//! mutation, which changes one partition, is seen whole or not at all: while half of it is applied,
//! reads of its partition wait. A write is answered when all of it is applied.

use std::sync::Arc;

use super::{Done, Partitions, ReadRequest, Store, Tag, table::Unflushed};
use crate::{
    commitlog::{EntryKind, LogBlock, LogEnd},
    io::TimeSlice,
    memtable::Unapplied,
    mutation::{MutationView, TableNumber, Token},
};

/// Microseconds of a turn that applying takes.
const TURN_US: u64 = 500;

/// A block of the log on the device, of which the writes happen.
#[derive(Debug)]
pub(super) struct Applying {
    block: LogBlock,
    end: LogEnd,
    /// When it was found on the device, in microseconds.
    since_us: u64,
    place: Place,
}

/// How far the writes of a block have happened.
#[derive(Debug, Default)]
struct Place {
    /// Where the entry at hand begins.
    entry: usize,
    /// How many were answered.
    answered: usize,
    /// Where the mutation at hand begins in the entry.
    mutation: usize,
    /// What is left of the mutation.
    left: Unapplied,
    /// The partition that has half of it.
    half: Option<(TableNumber, Token)>,
}

impl Applying {
    /// A block of which nothing has happened, and where the log ends with it.
    pub fn new(block: LogBlock, end: LogEnd, since_us: u64) -> Self {
        Self { block, end, since_us, place: Place::default() }
    }

    /// Bytes of memory that it has.
    pub fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
    }

    /// Whether a read would see half of a mutation.
    pub fn is_half_seen_by(&self, request: &ReadRequest) -> bool {
        self.place.half.is_some_and(|(table, token)| {
            table == request.table
                && match &request.partitions {
                    Partitions::One { token: wanted, .. } => *wanted == token,
                    Partitions::Range { from, to } => (*from..=*to).contains(&token.0),
                }
        })
    }
}

impl Store {
    /// Goes on with the block whose writes happen, if there is one.
    pub(super) fn apply(&mut self) {
        let Some(mut applying) = self.applying.take() else { return };
        let clock = Arc::clone(&self.clock);
        let mut time = TimeSlice::new(&*clock, TURN_US);
        let is_whole = self.apply_entries(&mut applying, &mut time);
        self.note_filling(applying.since_us);
        if is_whole {
            self.applied = applying.end;
            self.log.recycle(applying.block);
        } else {
            self.applying = Some(applying);
        }
    }

    /// Applies entries from the one at hand on; returns whether all are applied.
    fn apply_entries(&mut self, applying: &mut Applying, time: &mut TimeSlice<'_>) -> bool {
        let Applying { block, end, since_us, place } = applying;
        let unflushed = Unflushed { segment: end.segment, since_us: *since_us };
        // Writes are answered many at once: each answer alone is built in memory and copied from
        // there, which waits until all that was written before is in the processor's cache.
        let mut writes = 0;
        let is_whole = loop {
            let Some((entry, next)) = block.entry_at(place.entry) else { break true };
            match entry.kind {
                EntryKind::IntentDone { .. } | EntryKind::Continued => {}
                EntryKind::Intent { .. } => {
                    self.answer(block.tags(), &mut place.answered, writes, Done::Write);
                    self.answer(block.tags(), &mut place.answered, 1, Done::Intent);
                    writes = 0;
                }
                EntryKind::Write => {
                    if !self.apply_mutations(entry.mutations, place, unflushed, time) {
                        break false;
                    }
                    writes += 1;
                }
            }
            (place.entry, place.mutation) = (next, 0);
        };
        self.answer(block.tags(), &mut place.answered, writes, Done::Write);
        is_whole
    }

    /// Answers so many of those whose tags these are, from the first that is not answered.
    fn answer(
        &mut self,
        tags: &[u128],
        answered: &mut usize,
        count: usize,
        done: impl Fn(Tag) -> Done,
    ) {
        let tags = tags.iter().skip(*answered).take(count);
        self.done.extend(tags.map(|tag| done(Tag(*tag))));
        *answered += count;
    }

    /// Applies mutations from the one at hand on; returns whether all are applied.
    fn apply_mutations(
        &mut self,
        mutations: &[u8],
        place: &mut Place,
        unflushed: Unflushed,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        self.unflushed_since_us.get_or_insert(unflushed.since_us);
        while let Some(rest) = mutations.get(place.mutation..)
            && let Ok(mutation) = MutationView::parse(rest)
        {
            if time.is_over() {
                return false;
            }
            if let Some(table) = self.tables.get_mut(&mutation.table()) {
                let (bytes, rows) = (table.active.bytes(), table.active.rows());
                let (left, pool) = (&mut place.left, &mut self.pool);
                let is_whole = table.active.apply_some(&mutation, left, pool, time);
                self.active_bytes = self.active_bytes + table.active.bytes() - bytes;
                self.active_rows = self.active_rows + table.active.rows() - rows;
                table.unflushed.get_or_insert(unflushed);
                if !is_whole {
                    place.half = Some((mutation.table(), mutation.token()));
                    return false;
                }
                table.counts.writes += 1;
            }
            if place.half.take().is_some() {
                place.left = Unapplied::default();
            }
            place.mutation += mutation.bytes().len();
        }
        true
    }
}
