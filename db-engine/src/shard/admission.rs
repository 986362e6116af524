//! Which reads may begin: memory for answers is limited, and each read takes some until its client
//! has its result.

use super::{
    Core,
    read::{PAGE_BYTES, READ_US, Resume},
    session::{Session, Sessions},
    tag::SlabKey,
};
use crate::{budget::Share, cql::Plan, io::TimeSlice};

/// Bytes that a read may hold beside its result: a page of the store, and once more while it
/// changes hands. The blocks that it stands on are counted by the store.
const READ_BYTES: usize = 2 << 20;

/// The same for a read of one row, of which most are small.
pub(super) const ROW_READ_BYTES: usize = 256 << 10;

/// Reads without room that are looked at in one turn.
const HELD_BACK_TRIES: usize = 64;

/// Bytes that a read of this plan may hold beside its result. A list of what is in the schema holds
/// none: short ones, as drivers ask for when they connect, are answered whatever others hold.
pub(super) fn read_bytes(plan: &Plan) -> usize {
    match plan {
        Plan::Select(plan) if plan.is_of_one_row() => ROW_READ_BYTES,
        Plan::Select(_) => READ_BYTES,
        _ => 0,
    }
}

impl Core {
    /// Whether a read of this session that holds so much may begin: there is room for it, and the
    /// client takes its answers. The last quarter is for reads of one row by those who hold
    /// nothing yet: they need not wait for large reads of others.
    pub(super) fn has_room_for(&self, session: &Session, bytes: usize) -> bool {
        let own = session.out.len() + session.reads as usize * PAGE_BYTES;
        let is_small = own == 0 && bytes == ROW_READ_BYTES;
        let kept_free = if is_small { 0 } else { self.metrics.memory.most(Share::Answers) / 4 };
        (own == 0 || own < self.output_bytes_max)
            && self.metrics.memory.has_room(Share::Answers, bytes as u64 + kept_free)
    }

    /// Whether reads or connections wait because answers of others leave them no room. A read that
    /// waits for its own client alone is no reason to close anybody.
    pub(super) fn is_short_of_answers(&self) -> bool {
        let memory = &self.metrics.memory;
        let wanted = READ_BYTES as u64 + memory.most(Share::Answers) / 4;
        memory.is_over(Share::Answers)
            || (self.is_any_held_back() && !memory.has_room(Share::Answers, wanted))
    }

    /// Whether a read, or a write that must read, waits for memory.
    pub(super) fn is_any_held_back(&self) -> bool {
        !self.held_back.is_empty() || self.dependents.are_held_back()
    }

    /// Whether answers hold less than when reads were last held back.
    pub(super) fn may_begin_held_back(&self) -> bool {
        !self.held_back.is_empty()
            && self.metrics.memory.taken(Share::Answers) < self.held_back_at_bytes
    }

    /// Begins reads that there is room for now.
    pub(super) fn begin_held_back(
        &mut self,
        sessions: &mut dyn Sessions,
        time: &mut TimeSlice<'_>,
    ) {
        for _ in 0..self.held_back.len().min(HELD_BACK_TRIES) {
            let Some(slot) = self.held_back.pop_front() else { return };
            time.begin_part(READ_US);
            self.begin(sessions, slot, time);
        }
        self.held_back_at_bytes = self.metrics.memory.taken(Share::Answers);
    }

    /// Begins a read if there is room for it; else it is held back.
    pub(super) fn begin(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        time: &mut TimeSlice<'_>,
    ) {
        let Some(Some(reading)) = self.reads.get(slot) else { return };
        let (place, bytes) = (reading.address.place, reading.bytes());
        if !sessions.look(place).is_none_or(|session| self.has_room_for(session, bytes)) {
            self.held_back.push_back(slot);
            return;
        }
        if let Some(session) = sessions.answer(place) {
            session.reads += 1;
        }
        self.charge(slot);
        if let Some(reading) = self.reads.get(slot).and_then(Option::take) {
            self.proceed(sessions, slot, reading, Resume::Step(time));
        }
    }
}
