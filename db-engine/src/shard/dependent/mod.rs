//! Writes that depend on what is there: conditional writes, counters, and elements of lists by
//! their index or value.
//!
//! The shard of the client goes through their steps: it takes the latches of their partitions,
//! one after the other in the order of their names, so that no two writes wait for each other; it
//! reads their rows; it decides; it writes; and when the write is durable and can be read, it
//! gives the latches up. Whatever ends a write gives them up, too. Reading and writing are what
//! plain reads and writes do.

mod kept;
pub(super) mod latch;
mod steps;

use self::{
    kept::{DependentKind, DependentStage, DependentWrite, OWN_BYTES, ROW_BYTES, with_writes},
    latch::{Claim, LatchName, Latches},
    steps::DependentStep,
};
use super::{
    Core,
    failure::Failure,
    peers::Message,
    read::failed,
    round_robin::RoundRobin,
    session::{Session, Sessions},
    slab::Slab,
    tag::SlabKey,
};
use crate::{
    budget::{Charge, Share},
    cql::{self, BatchWord, NotApplied, RowName, applied_column},
    io::TimeSlice,
    mutation::token::shard_of,
    protocol::{
        Consistency, code,
        result::{self, RowsHead},
    },
    store::{Page, Refused},
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

pub(super) use self::kept::OwnStatement;

/// Writes of one client that want or have latches at once. The others have not begun.
const UNDER_WAY_MAX: usize = 32;

/// Microseconds of a turn in which such writes go on, all together, and each of them.
const TURN_US: u64 = 1_000;
const PART_US: u64 = 500;

/// Most statements of a batch that depends on what is there: they are bound at once.
pub(super) const STATEMENTS_MAX: usize = 1_000;

/// What is said to larger ones.
pub(super) const TOO_MANY_DEPENDENT: &str = "A batch that depends on what is there has at most \
     1000 statements: make several of it";

/// Said where there is no memory left for such writes.
pub(super) fn too_many_wait() -> Failure {
    let what = "too many writes wait for what they depend on, try again later";
    Failure::new(code::OVERLOADED, what)
}

/// All such writes of the clients of a shard, and the latches of its partitions.
pub(super) struct Dependents {
    writes: Slab<Option<Box<DependentWrite>>>,
    /// Which of them goes on next.
    lines: RoundRobin,
    /// Those that wait for memory.
    held_back: VecDeque<SlabKey>,
    /// Until when those wait that have begun.
    due: BTreeSet<(u64, SlabKey)>,
    latches: Latches,
    /// None is begun any more, and none waits.
    is_stopping: bool,
}

impl Default for Dependents {
    fn default() -> Self {
        Self {
            writes: Slab::default(),
            lines: RoundRobin::of(UNDER_WAY_MAX),
            held_back: VecDeque::new(),
            due: BTreeSet::new(),
            latches: Latches::default(),
            is_stopping: false,
        }
    }
}

impl Dependents {
    /// Whether one of them can go on.
    pub(super) fn can_go_on(&self) -> bool {
        !self.lines.is_empty() || (self.is_stopping && !self.due.is_empty())
    }

    /// Whether one of them waits for memory.
    pub(super) fn are_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// When the first of them has waited long enough.
    pub(super) fn due_us(&self) -> Option<u64> {
        self.due.first().map(|(due_us, _)| *due_us)
    }

    /// Has all be refused that have not begun to read.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }
}

/// What a client says of such a write besides its statements.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteTerms {
    /// The level of the write.
    pub consistency: Consistency,
    /// That of its conditions.
    pub serial: Option<Consistency>,
    /// Its timestamp, in microseconds since the Unix epoch. That of counters and of conditional
    /// writes is the engine's.
    pub timestamp_us: Option<i64>,
}

impl WriteTerms {
    fn check(self, kind: DependentKind, table: &str) -> Result<(), Failure> {
        let level = self.consistency;
        let refused = match kind {
            DependentKind::Counter => level.refused_for_counter(table),
            DependentKind::List => {
                let refused = level.refused_for_write().map(str::to_owned);
                refused.or_else(|| level.refused_for_list())
            }
            DependentKind::Conditional => {
                let condition = self.serial.and_then(Consistency::refused_for_condition);
                condition.map(str::to_owned).or(level.refused_for_commit())
            }
        };
        refused.map_or(Ok(()), |refused| Err(Failure::invalid(refused)))
    }
}

impl Core {
    /// Takes a write that depends on what is there. It goes on in the same turn, if it may.
    pub(super) fn depend(
        &mut self,
        (session, stream): (&mut Session, i16),
        statements: Vec<OwnStatement>,
        batch: Option<BatchWord>,
        terms: WriteTerms,
    ) -> Result<(), Failure> {
        for own in &statements {
            own.check_count()?;
        }
        let context = self.context(None);
        let scratch = &mut self.scratch;
        let (count, rows) = with_writes(&statements, |writes| {
            if writes.len() > STATEMENTS_MAX {
                return Err(Failure::invalid(TOO_MANY_DEPENDENT));
            }
            if let Some(kind) = batch {
                cql::check_batch(kind, false, writes.iter().map(|write| write.plan))?;
            }
            Ok((writes.len(), cql::rows_of(writes, batch.is_some(), &context, scratch)?))
        })?;
        let kind = with_writes(&statements, DependentKind::of);
        let table = statements.first().map(OwnStatement::table);
        terms.check(kind, table.unwrap_or_default())?;
        self.metrics.writes.add(count as u64);
        self.metrics.batches.add(u64::from(batch.is_some()));
        match kind {
            DependentKind::Conditional => self.metrics.conditional.add(1),
            DependentKind::Counter => self.metrics.counters.add(count as u64),
            DependentKind::List => {}
        }
        self.metrics.query(terms.consistency.number());
        let latches = self.latches_of(&rows);
        if latches.first().is_some_and(|(owner, _)| *owner != self.shard) {
            self.metrics.misrouted.add(1);
        }
        let keys = rows.iter().map(|row| 2 * row.key.len() + row.ck.capacity() + ROW_BYTES);
        let own = statements.iter().map(OwnStatement::own_bytes);
        let bytes = OWN_BYTES + keys.sum::<usize>() + own.sum::<usize>();
        if !self.may_wait(session, bytes) {
            return Err(too_many_wait());
        }
        let mut request = Charge::new(&self.metrics.memory, Share::Requests);
        request.set(bytes);
        let address = self.defer(session, stream);
        let write = DependentWrite {
            address,
            statements,
            is_batch: batch.is_some(),
            is_whole: batch == Some(BatchWord::Logged) || kind == DependentKind::Counter,
            kind,
            timestamp_us: terms.timestamp_us.filter(|_| kind == DependentKind::List),
            latches,
            claimed: 0,
            latched: 0,
            rows,
            pages: Vec::new(),
            stage: DependentStage::InLine,
            parts_left: 0,
            refused: None,
            since_us: self.turn_us,
            read_s: 0,
            answers: Charge::new(&self.metrics.memory, Share::Answers),
            _request: request,
        };
        let slot = self.dependents.writes.insert(Some(Box::new(write)));
        let lines = &mut self.dependents.lines;
        if lines.may_begin(address.place) {
            lines.begun(address.place);
            lines.pause(address.place, slot);
        } else {
            lines.wait(address.place, slot);
        }
        Ok(())
    }

    /// The latches of the partitions of these rows, in the order in which they are taken.
    fn latches_of(&self, rows: &[RowName]) -> Vec<(u16, LatchName)> {
        let latch = |row: &RowName| {
            let name = LatchName { table: row.table, key: Arc::clone(&row.key) };
            (shard_of(row.token, self.shards), name)
        };
        let mut latches: Vec<_> = rows.iter().map(latch).collect();
        latches.sort_unstable();
        latches.dedup();
        latches
    }

    /// Goes on with such writes, as many as there is time for in a turn.
    pub(super) fn go_on_with_dependents(&mut self, sessions: &mut dyn Sessions) {
        if self.dependents.writes.len() == 0 {
            return;
        }
        self.give_up_waiting(sessions);
        if !self.metrics.memory.is_over(Share::Answers) {
            for slot in std::mem::take(&mut self.dependents.held_back) {
                self.pause_dependent(slot);
            }
        }
        let clock = Arc::clone(&self.clock);
        let mut time = TimeSlice::new(&*clock, TURN_US);
        time.look();
        while !time.is_whole_over() {
            let Some(slot) = self.dependents.lines.next() else { break };
            time.begin_part(PART_US);
            self.go_on_with(sessions, slot, &mut time);
            time.look();
        }
    }

    /// Has a write go on when it is its client's turn.
    fn pause_dependent(&mut self, slot: SlabKey) {
        if let Some(Some(write)) = self.dependents.writes.get(slot) {
            self.dependents.lines.pause(write.address.place, slot);
        }
    }

    /// Refuses those that have waited long enough; all that wait, if the engine stops.
    fn give_up_waiting(&mut self, sessions: &mut dyn Sessions) {
        while let Some((due_us, slot)) = self.dependents.due.first().copied() {
            if due_us > self.turn_us && !self.dependents.is_stopping {
                return;
            }
            self.dependents.due.remove(&(due_us, slot));
            let Some(place) = self.dependents.writes.get(slot) else { continue };
            if place.as_ref().is_some_and(|write| write.stage == DependentStage::Waiting)
                && let Some(write) = place.take()
            {
                let failure = self.waited_in_vain();
                self.end_dependent(slot, &write, sessions, Err(failure));
            }
        }
    }

    fn waited_in_vain(&self) -> Failure {
        if self.dependents.is_stopping {
            return Refused::Closing.into();
        }
        let what = "other writes that depend on this partition took too long, try again later";
        Failure::new(code::OVERLOADED, what)
    }

    fn go_on_with(&mut self, sessions: &mut dyn Sessions, slot: SlabKey, time: &mut TimeSlice<'_>) {
        let Some(mut write) = self.dependents.writes.get(slot).and_then(Option::take) else {
            return;
        };
        if write.stage == DependentStage::InLine {
            write.stage = DependentStage::Waiting;
            if self.dependents.is_stopping || write.due_us() <= self.turn_us {
                let failure = self.waited_in_vain();
                return self.end_dependent(slot, &write, sessions, Err(failure));
            }
            self.dependents.due.insert((write.due_us(), slot));
        }
        let Some(session) = sessions.look(write.address.place) else {
            // Nobody is there any more to write for.
            return self.end_dependent(slot, &write, sessions, Ok(None));
        };
        match self.step_of_dependent(session, slot, &mut write, time) {
            Ok(DependentStep::NotApplied(told)) => {
                self.end_dependent(slot, &write, sessions, Ok(Some(told)));
            }
            Err(failure) => self.end_dependent(slot, &write, sessions, Err(failure)),
            Ok(step) => {
                let client = write.address.place;
                if let Some(place) = self.dependents.writes.get(slot) {
                    *place = Some(write);
                }
                match step {
                    DependentStep::HeldBack => self.dependents.held_back.push_back(slot),
                    DependentStep::Paused => self.dependents.lines.pause(client, slot),
                    DependentStep::Waits | DependentStep::NotApplied(_) => {}
                }
            }
        }
    }

    /// A page has come that a write waits for.
    pub(super) fn dependent_read(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        page: Result<Box<Page>, String>,
    ) {
        let Some(mut write) = self.dependents.writes.get(slot).and_then(Option::take) else {
            return;
        };
        let taken = match page {
            Ok(page) => self.take_in(&mut write, *page),
            Err(what) => Err(failed(&what)),
        };
        if let Err(failure) = taken {
            return self.end_dependent(slot, &write, sessions, Err(failure));
        }
        if let Some(place) = self.dependents.writes.get(slot) {
            *place = Some(write);
        }
        self.pause_dependent(slot);
    }

    /// A write is durable and can be read, or was refused.
    pub(super) fn dependent_wrote(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        refused: Option<Refused>,
    ) {
        let Some(Some(write)) = self.dependents.writes.get(slot) else { return };
        write.parts_left = write.parts_left.saturating_sub(1);
        write.refused = write.refused.or(refused);
        if write.parts_left > 0 {
            return;
        }
        let refused = write.refused;
        let Some(write) = self.dependents.writes.get(slot).and_then(Option::take) else { return };
        let applied =
            || NotApplied { columns: vec![applied_column()], count: 1, cells: vec![0, 0, 0, 1, 1] };
        let outcome = refused.map_or_else(|| Ok(Some(applied())), |refused| Err(refused.into()));
        self.end_dependent(slot, &write, sessions, outcome);
    }

    /// Ends a write: gives its latches up and answers, if there is somebody to answer to.
    fn end_dependent(
        &mut self,
        slot: SlabKey,
        write: &DependentWrite,
        sessions: &mut dyn Sessions,
        outcome: Result<Option<NotApplied>, Failure>,
    ) {
        self.dependents.writes.remove(slot);
        self.dependents.due.remove(&(write.due_us(), slot));
        self.dependents.lines.ended(write.address.place);
        for (owner, name) in write.latches.iter().take(write.claimed) {
            if *owner == self.shard {
                self.unlatch(name.clone(), Claim { shard: self.shard, slot });
            } else {
                self.peers.tell(*owner, Message::Release { slot, name: name.clone() });
            }
        }
        let address = write.address;
        match outcome {
            Ok(Some(_)) if write.kind != DependentKind::Conditional => {
                self.metrics.write_latency.record(self.age_us(address));
                self.answer(sessions, address, |out| result::void(out, address.stream));
            }
            Ok(Some(told)) => {
                self.metrics.write_latency.record(self.age_us(address));
                let columns = write.columns(&told.columns);
                self.answer(sessions, address, |out| {
                    let head = RowsHead {
                        stream: address.stream,
                        columns: &columns,
                        skip_metadata: false,
                        paging_state: None,
                        count: told.count,
                    };
                    result::rows(out, &head, &told.cells);
                });
            }
            Ok(None) => {
                self.serving -= 1;
                self.close_trace(address);
            }
            Err(failure) => self.answer_failure(sessions, address, &failure),
        }
    }

    /// A write of another shard wants a latch of ours.
    pub(super) fn latch(&mut self, name: LatchName, claim: Claim) {
        if self.claim(name, claim) {
            self.peers.tell(claim.shard, Message::Latched { slot: claim.slot });
        }
    }

    /// Whether a write that wants a latch of ours has it at once.
    fn claim(&mut self, name: LatchName, claim: Claim) -> bool {
        let is_held = self.dependents.latches.claim(name, claim);
        self.metrics.latch_waiting.set(self.dependents.latches.waiting() as u64);
        is_held
    }

    /// A write of some shard does not want a latch of ours any more.
    pub(super) fn unlatch(&mut self, name: LatchName, claim: Claim) {
        let next = self.dependents.latches.release(name, claim);
        self.metrics.latch_waiting.set(self.dependents.latches.waiting() as u64);
        match next {
            Some(next) if next.shard == self.shard => self.latched(next.slot),
            Some(next) => self.peers.tell(next.shard, Message::Latched { slot: next.slot }),
            None => {}
        }
    }

    /// A write of ours holds the latch that it has asked for.
    pub(super) fn latched(&mut self, slot: SlabKey) {
        if let Some(Some(write)) = self.dependents.writes.get(slot) {
            write.latched = write.claimed;
            self.dependents.lines.pause(write.address.place, slot);
        }
    }
}
