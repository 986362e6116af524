//! Reads: page by page of the store, of this shard and of others, into one page of a result.
//!
//! The owner of a partition looks its rows up and merges them; the page itself changes hands
//! without being copied, and the shard of the client projects it. A read that is not over in a
//! moment goes on later, in turn with those of other clients, so that a scan does not keep them
//! waiting.

use super::{
    Core,
    admission::read_bytes,
    execute::Binding,
    failure::Failure,
    peers::Message,
    reading::{Reading, RowMaker},
    session::{Address, Session, Sessions},
    statement::PreparedStatement,
    tag::{Origin, SlabKey, Waiter},
    tracing::page_activity,
};
use crate::{
    budget::{Charge, Share},
    cql::{Plan, Read, SelectPlan},
    io::TimeSlice,
    protocol::{code, result::RowsHead},
    store::{Page, ReadRequest, Tag},
};
use std::sync::Arc;

/// Microseconds after which a read that another shard has just asked for lets others go first.
const FIRST_US: u64 = 100;

/// Microseconds of a turn for such reads, all together.
pub(super) const ASKED_US: u64 = 500;

/// Microseconds that a read may take when it goes on.
pub(super) const READ_US: u64 = 500;

/// Microseconds of a turn in which reads go on, all together.
const TURN_US: u64 = 1_000;

/// The first request of a client that has to wait does, whatever others hold, if it takes so few
/// bytes. Of unfinished requests the longest makes room for it.
const SHORT_REQUEST_BYTES: usize = 2 << 10;

/// Bytes of a page, which is what a read adds to the answers of its connection.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// Reads of one shard that wait for disk or for another shard. Above, more are refused.
const WAITING_MAX: usize = 10_000;

/// How far a read has got.
pub(super) enum ReadStep {
    /// All rows are there.
    Over,
    /// A page will come.
    Waiting,
    /// It has had its share of the turn.
    Paused,
}

/// How a read goes on.
pub(super) enum Resume<'a, 'c> {
    /// With the rows that come next, as long as there is time.
    Step(&'a mut TimeSlice<'c>),
    /// With a page that it has waited for, or why there is none.
    Accept(Result<&'a mut Page, &'a str>),
}

impl Core {
    /// Runs a SELECT.
    #[inline]
    pub(super) fn select(
        &mut self,
        session: &mut Session,
        (stream, statement): (i16, &Arc<PreparedStatement>),
        plan: &SelectPlan,
        request: &Binding<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), Failure> {
        if let Some(refused) = request.consistency.refused_for_read() {
            return Err(Failure::invalid(refused));
        }
        self.metrics.reads.add(1);
        self.metrics.query(request.consistency.number());
        self.count_burdens(plan, request);
        // Of no write: a time for one would be taken where all shards take theirs.
        let context = self.context(Some(0));
        let mut read = plan.bind(request.values, &request.options, &context)?;
        let half = self.metrics.memory.most(Share::Answers) / 2;
        read.limit_result(usize::try_from(half).unwrap_or(usize::MAX));
        if read.owner(self.shards).is_some_and(|owner| owner != self.shard) {
            self.metrics.misrouted.add(1);
        }
        let address = self.address(session, stream);
        self.trace(address, |_| {
            let how = if plan.scans() { "a scan" } else { "a query of named partitions" };
            format!("Executing {how} on {}", statement.prepared.table)
        });
        let rows = RowMaker::Store(read);
        self.make_rows(session, (stream, statement), rows, request.skip_metadata, time)
    }

    /// Makes the rows of a result and answers with them: now if nothing must be waited for, else
    /// later, in turn with the reads of other clients.
    #[inline]
    pub(super) fn make_rows(
        &mut self,
        session: &mut Session,
        (stream, statement): (i16, &Arc<PreparedStatement>),
        mut rows: RowMaker,
        skip_metadata: bool,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), Failure> {
        if self.reads.len() >= WAITING_MAX {
            return Err(Failure::new(code::OVERLOADED, "too many reads at once"));
        }
        let slot = self.reads.insert(None);
        let address = self.address(session, stream);
        let what = (statement, skip_metadata);
        let bytes = self.request_bytes + statement.own_bytes() + rows.own_bytes();
        let may_wait = self.may_wait(session, bytes);
        let is_its_turn = self.round_robin.may_begin(session.place);
        let held = read_bytes(&statement.prepared.plan);
        if !is_its_turn || (held > 0 && !self.has_room_for(session, held)) {
            if !may_wait {
                return self.refuse_read(slot);
            }
            let what_for = if is_its_turn { "memory" } else { "other reads" };
            self.trace(address, |_| format!("Waiting for {what_for}"));
            self.keep((session, stream), slot, what, rows, Vec::new(), bytes);
            if is_its_turn {
                self.round_robin.begun(session.place);
                self.held_back.push_back(slot);
            } else {
                self.round_robin.wait(session.place, slot);
            }
            return Ok(());
        }
        let mut cells = std::mem::take(&mut self.cells);
        cells.clear();
        let waiter = may_wait.then_some(slot);
        match self.step((waiter, address), &statement.prepared.plan, &mut rows, &mut cells, time) {
            Ok(ReadStep::Over) => {
                let (count, state) = rows.finish(&mut cells);
                let begin = RowsHead {
                    stream,
                    columns: &statement.columns,
                    skip_metadata,
                    paging_state: state.as_deref(),
                    count,
                };
                if let Some(response) = self.put_rows(session, &begin, &mut cells, may_wait) {
                    self.keep((session, stream), slot, what, rows, cells, bytes);
                    self.compress_later(session, slot, response);
                    return Ok(());
                }
                self.reads.remove(slot);
                self.keep_cells(cells);
                self.metrics.served.add(1);
                self.metrics.read_latency.record(0);
            }
            Ok(step) => {
                self.keep((session, stream), slot, what, rows, cells, bytes);
                self.round_robin.begun(session.place);
                session.reads += 1;
                self.charge(slot);
                if matches!(step, ReadStep::Paused) {
                    self.round_robin.pause(session.place, slot);
                }
            }
            Err(failure) => {
                self.reads.remove(slot);
                self.keep_cells(cells);
                return Err(failure);
            }
        }
        Ok(())
    }

    #[cold]
    fn refuse_read(&mut self, slot: SlabKey) -> Result<(), Failure> {
        self.reads.remove(slot);
        Err(too_many_wait())
    }

    /// Keeps a read that will be answered later.
    fn keep(
        &mut self,
        (session, stream): (&mut Session, i16),
        slot: SlabKey,
        (statement, skip_metadata): (&Arc<PreparedStatement>, bool),
        rows: RowMaker,
        cells: Vec<u8>,
        bytes: usize,
    ) {
        let mut taken = Charge::new(&self.metrics.memory, Share::Requests);
        taken.set(bytes);
        let address = self.defer(session, stream);
        let statement = Arc::clone(statement);
        let reading = Reading {
            address,
            statement,
            rows,
            skip_metadata,
            cells,
            response: None,
            answers: None,
            _request: taken,
        };
        if let Some(place) = self.reads.get(slot) {
            *place = Some(Box::new(reading));
        }
    }

    /// Whether there is room for a request of this client that must wait. A quarter of the share
    /// stays free for requests that are arriving: they need not be shed because others wait.
    pub(super) fn may_wait(&self, session: &Session, bytes: usize) -> bool {
        let memory = &self.metrics.memory;
        let kept_free = memory.most(Share::Requests) / 4;
        let is_small = session.in_flight == 0 && bytes <= SHORT_REQUEST_BYTES;
        is_small || memory.has_room(Share::Requests, bytes as u64 + kept_free)
    }

    /// Takes what a read holds of the share for answers, from when it is begun.
    pub(super) fn charge(&mut self, slot: SlabKey) {
        if let Some(Some(reading)) = self.reads.get(slot) {
            reading.answers = Some(Charge::new(&self.metrics.memory, Share::Answers));
            reading.settle();
        }
    }

    /// Counts what a client could ask for in a way that costs less.
    #[inline]
    fn count_burdens(&self, plan: &SelectPlan, request: &Binding<'_>) {
        if request.options.page_size.is_none() && !plan.is_of_one_row() {
            self.metrics.unpaged.add(1);
        }
        if plan.filters() {
            self.metrics.filtering.add(1);
        }
        if plan.scans() {
            self.metrics.scans.add(1);
            if !plan.bypasses_cache() {
                self.metrics.cache_filling.add(1);
            }
        }
    }

    /// Makes rows until the result is whole, a page must be waited for, or the time is over.
    ///
    /// Without a waiter there is no room for it to wait: it reads what is in memory, or is refused.
    /// Nothing is begun then that nobody would take.
    #[inline]
    fn step(
        &mut self,
        (waiter, address): (Option<SlabKey>, Address),
        plan: &Plan,
        rows: &mut RowMaker,
        cells: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<ReadStep, Failure> {
        match (rows, plan) {
            (RowMaker::Store(read), Plan::Select(plan)) => {
                self.step_read((waiter, address), plan, read, cells, time)
            }
            (RowMaker::Store(_), _) => unreachable!("only SELECT reads tables"),
            (RowMaker::Schema(listing), plan) => {
                let is_over = listing.go_on(plan, &self.node, time, cells)?;
                if !is_over && waiter.is_none() {
                    return Err(too_many_wait());
                }
                self.check_answer(cells)?;
                Ok(if is_over { ReadStep::Over } else { ReadStep::Paused })
            }
        }
    }

    fn step_read(
        &mut self,
        (waiter, address): (Option<SlabKey>, Address),
        plan: &SelectPlan,
        read: &mut Read,
        cells: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<ReadStep, Failure> {
        loop {
            if !read.go_on(plan, self.shards, cells, time)? {
                return waiter.map(|_| ReadStep::Paused).ok_or_else(too_many_wait);
            }
            let Some((owner, request)) = read.next(plan, self.shards) else {
                return Ok(ReadStep::Over);
            };
            let Some(slot) = waiter else {
                let is_here = owner == self.shard && !time.is_over();
                if !is_here || !self.store.read_at_once(&request, &mut self.page, time)? {
                    return Err(too_many_wait());
                }
                time.count(self.page.bytes());
                read.accept(plan, &mut self.page, self.shards, cells, time)?;
                continue;
            };
            if time.is_over() {
                return Ok(ReadStep::Paused);
            }
            let tag = Origin { shard: self.shard, waiter: Waiter::Read(slot) }.pack();
            if owner != self.shard {
                self.trace(address, |_| format!("Asking shard {owner} for a page"));
                self.peers.tell(owner, Message::Read { tag, request: Box::new(request) });
                return Ok(ReadStep::Waiting);
            }
            match self.store.read(tag, &request, &mut self.page, time) {
                Ok(true) => {}
                Ok(false) => {
                    self.trace(address, |_| {
                        "Waiting for blocks of sstables, or for more time".to_owned()
                    });
                    return Ok(ReadStep::Waiting);
                }
                Err(error) => return Err(failed(&error.to_string())),
            }
            self.trace(address, |core| page_activity(&core.page));
            time.count(self.page.bytes());
            read.accept(plan, &mut self.page, self.shards, cells, time)?;
        }
    }

    /// Goes on with reads that have paused, as many as there is time for in a turn.
    pub(super) fn go_on(&mut self, sessions: &mut dyn Sessions) {
        if self.round_robin.is_empty() && self.held_back.is_empty() {
            return;
        }
        let clock = Arc::clone(&self.clock);
        let mut time = TimeSlice::new(&*clock, TURN_US);
        time.look();
        self.begin_held_back(sessions, &mut time);
        while !time.is_whole_over() {
            let Some(slot) = self.round_robin.next() else { return };
            let Some(place) = self.reads.get(slot) else { continue };
            time.begin_part(READ_US);
            if place.as_ref().is_some_and(|reading| reading.answers.is_none()) {
                self.begin(sessions, slot, &mut time);
            } else if let Some(reading) = place.take() {
                self.proceed(sessions, slot, reading, Resume::Step(&mut time));
            }
            time.look();
        }
    }

    /// A page has come that a read waits for.
    pub(super) fn read_done(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        page: Result<&mut Page, &str>,
    ) {
        if let Some(reading) = self.reads.get(slot).and_then(Option::take) {
            self.proceed(sessions, slot, reading, Resume::Accept(page));
        }
    }

    pub(super) fn proceed(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        mut reading: Box<Reading>,
        how: Resume<'_, '_>,
    ) {
        let address = reading.address;
        let statement = Arc::clone(&reading.statement);
        let plan = &statement.prepared.plan;
        let step = match how {
            // Nobody is there any more to read for.
            _ if sessions.answer(address.place).is_none() => {
                self.reads.remove(slot);
                self.serving -= 1;
                self.round_robin.ended(address.place);
                self.close_trace(address);
                return;
            }
            Resume::Step(time) if reading.response.is_some() => {
                Ok(self.compress_some(&mut reading, time))
            }
            Resume::Step(time) => {
                let (rows, cells) = (&mut reading.rows, &mut reading.cells);
                self.step((Some(slot), address), plan, rows, cells, time)
            }
            Resume::Accept(Ok(page)) => {
                self.trace(address, |_| page_activity(page));
                let (shards, cells) = (self.shards, &mut reading.cells);
                let (RowMaker::Store(read), Plan::Select(plan)) = (&mut reading.rows, plan) else {
                    unreachable!("a list waits for no page");
                };
                let is_large = page.is_large();
                let mut time = TimeSlice::new(&*self.clock, READ_US);
                let accepted = read.accept(plan, page, shards, cells, &mut time);
                let goes_on = is_large || read.has_unfinished();
                let is_over = !goes_on && read.next(plan, shards).is_none();
                let step = if is_over { ReadStep::Over } else { ReadStep::Paused };
                accepted.map(|()| step).map_err(Failure::from)
            }
            Resume::Accept(Err(what)) => Err(failed(what)),
        };
        let step = step.and_then(|step| self.grow(&mut reading).map(|()| step));
        match step {
            Ok(ReadStep::Over) => self.read_over(sessions, slot, reading),
            Ok(step) => {
                if let Some(place) = self.reads.get(slot) {
                    *place = Some(reading);
                }
                if matches!(step, ReadStep::Paused) {
                    self.round_robin.pause(address.place, slot);
                }
            }
            Err(failure) => {
                self.reads.remove(slot);
                self.round_robin.ended(address.place);
                if let Some(session) = sessions.answer(address.place) {
                    session.reads -= 1;
                }
                self.answer_failure(sessions, address, &failure);
            }
        }
    }

    /// Takes note of what the read holds. A result of several pages must fit into what others
    /// leave of the share for answers.
    fn grow(&self, reading: &mut Reading) -> Result<(), Failure> {
        let memory = &self.metrics.memory;
        reading.settle();
        let bytes = reading.cells.len();
        if bytes > 2 * PAGE_BYTES && memory.is_over(Share::Answers) {
            let what = "the result takes more memory than there is now: ask for it in pages";
            return Err(Failure::new(code::OVERLOADED, what));
        }
        Ok(())
    }

    /// Another shard asks for a page of ours.
    pub(super) fn read_for(
        &mut self,
        shard: u16,
        tag: Tag,
        request: &ReadRequest,
        time: &mut TimeSlice<'_>,
    ) {
        let mut page = Box::new(Page::default());
        time.begin_part(FIRST_US);
        match self.store.read(tag, request, &mut page, time) {
            Ok(true) => self.peers.tell(shard, Message::Page { tag, page: Ok(page) }),
            Ok(false) => {}
            Err(error) => {
                let page = Err(error.to_string());
                self.peers.tell(shard, Message::Page { tag, page });
            }
        }
    }
}

fn too_many_wait() -> Failure {
    Failure::new(code::OVERLOADED, "too many reads wait, try again later")
}

pub(super) fn failed(what: &str) -> Failure {
    Failure::new(code::SERVER, format!("data could not be read: {what}"))
}
