//! BATCH: its statements are bound one after the other into mutations, as many as its client has
//! time for; the rest of them when it is its turn again.

use super::{
    Core, Shard,
    failure::Failure,
    large_values::{BeginWith, LargeValues, are_large},
    session::Session,
    statement::PreparedStatement,
    unbound::{PreparedPart, Unbound},
};
use crate::{
    cql::{self, BindContext, Plan, WritePlan},
    io::TimeSlice,
    protocol::{
        MalformedBody,
        request::{Batch, BatchHead, BatchKind, StatementRef, Values},
    },
    store::{Refused, WRITE_BYTES_MAX},
    types::{Value, large::LARGE_VALUE_BYTES},
};
use std::sync::Arc;

/// Parsing and planning a byte of a statement takes about as long as moving so many.
pub(super) const TEXT_COST: usize = 64;

/// CQL v4 §4.1.7.
pub(super) const NOT_A_WRITE: &str =
    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.";

/// What is wrong with the values of a statement. It is told after the last one was looked at: as by
/// Cassandra, what is wrong with a statement itself comes first, and then what is with a key.
#[derive(Debug)]
struct BatchFault {
    failure: Failure,
    is_of_key: bool,
}

/// A batch of which some statements are bound.
#[derive(Debug)]
pub struct UnboundBatch {
    head: BatchHead,
    context: BindContext,
    /// Those of the statements that are bound.
    mutations: Vec<u8>,
    /// Where the last of them begins.
    partition: Option<usize>,
    count: u64,
    has_text: bool,
    fault: Option<BatchFault>,
    /// Values of the next statement.
    large: Option<Box<LargeValues>>,
}

impl UnboundBatch {
    /// Bytes of memory that it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        self.mutations.capacity() + self.large.as_ref().map_or(0, |large| large.bytes())
    }
}

/// What became of binding a batch.
enum Bound<'a> {
    Whole,
    /// Its client has no more time.
    Paused(BatchHead),
    /// One of its writes depends on what is there.
    Dependent,
    Unprepared(&'a [u8]),
    Failed(Failure),
}

impl Shard {
    /// BATCH: statements by text or id, each with its own values.
    pub(super) fn batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let batch = Batch::read(body)?;
        if batch.head.kind == BatchKind::Counter {
            return self.dependent_batch(session, stream, body, time);
        }
        if let Some(refused) = batch.head.consistency.refused_for_write() {
            self.core.fail(session, stream, &Failure::invalid(refused));
            return Ok(());
        }
        let mut mutations = std::mem::take(&mut self.core.mutations);
        mutations.clear();
        let unbound = UnboundBatch {
            head: batch.head,
            context: self.core.context(batch.head.timestamp_us),
            mutations,
            partition: None,
            count: 0,
            has_text: false,
            fault: None,
            large: None,
        };
        self.bind_and_write(session, stream, (batch, body), unbound, time)
    }

    /// Goes on with a batch that was paused; `body` is that of its request.
    pub(super) fn go_on_with_batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
        unbound: UnboundBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let batch = Batch::resume(unbound.head, body)?;
        self.bind_and_write(session, stream, (batch, body), unbound, time)
    }

    fn bind_and_write(
        &mut self,
        session: &mut Session,
        stream: i16,
        (batch, body): (Batch<'_>, &[u8]),
        mut unbound: UnboundBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let bound = self.bind_some(session, batch, &mut unbound, time)?;
        if let Bound::Paused(head) = bound {
            let batch = Box::new(UnboundBatch { head, ..unbound });
            session.unbound = Some(Box::new(Unbound::new(PreparedPart::Batch(batch))));
            return Ok(());
        }
        let core = &mut self.core;
        core.mutations = unbound.mutations;
        match bound {
            Bound::Whole => {
                core.metrics.writes.add(unbound.count);
                core.metrics.unprepared.add(u64::from(unbound.has_text));
                core.metrics.batches.add(1);
                core.metrics.query(unbound.head.consistency.number());
                let logged = unbound.head.kind == BatchKind::Logged;
                if let Err(failure) = core.write_bound(session, stream, logged) {
                    core.fail(session, stream, &failure);
                }
            }
            Bound::Unprepared(id) => core.unprepared(session, stream, id),
            Bound::Failed(failure) => core.fail(session, stream, &failure),
            Bound::Dependent => return self.dependent_batch(session, stream, body, time),
            Bound::Paused(_) => {}
        }
        Ok(())
    }

    /// Appends the mutations of statements, one after the other, until all are bound or the time is
    /// over.
    fn bind_some<'a>(
        &mut self,
        session: &Session,
        mut batch: Batch<'a>,
        unbound: &mut UnboundBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<Bound<'a>, MalformedBody> {
        let second = self.core.second();
        let mut values = Values::default();
        // Batches repeat one statement: it is looked up once.
        let mut last: (&[u8], usize) = (&[], usize::MAX);
        let may_be_large = batch.rest_bytes() >= LARGE_VALUE_BYTES;
        loop {
            let head = may_be_large.then(|| batch.head_of_rest());
            let Some(statement) = batch.next(&mut values)? else { break };
            let own;
            let mut is_long = false;
            let statement = match statement {
                _ if let Some(large) = &unbound.large => {
                    // Its values were checked for this one, whatever the schema is by now.
                    own = Arc::clone(large.statement());
                    &own
                }
                StatementRef::Prepared(id) => {
                    if last.0 != id || last.1 == usize::MAX {
                        match self.plans.find(&self.core.shared, id, second) {
                            Some(place) => last = (id, place),
                            None => return Ok(Bound::Unprepared(id)),
                        }
                    }
                    self.plans.at(last.1)
                }
                StatementRef::Text(query) => {
                    unbound.has_text = true;
                    time.count(query.len() * TEXT_COST);
                    match self.core.prepare_part(session, query, 0) {
                        Ok(prepared) => own = prepared,
                        Err(failure) => return Ok(Bound::Failed(failure)),
                    }
                    is_long = query.len() >= LARGE_VALUE_BYTES;
                    &own
                }
            };
            let Plan::Write(plan) = &statement.prepared.plan else {
                return Ok(Bound::Failed(Failure::invalid(NOT_A_WRITE)));
            };
            if plan.is_dependent() {
                return Ok(Bound::Dependent);
            }
            let values = values.as_slice();
            let bytes = unbound.mutations.len();
            let failed = if let Some(head) = head {
                let context = unbound.context;
                let with = (&*self.core.metrics.memory, &context, &self.core.scratch);
                if !unbound.prepare((statement, is_long), values, with, time) {
                    return Ok(Bound::Paused(head));
                }
                match unbound.large.take() {
                    Some(large) => {
                        let values = large.put_into(values);
                        self.core.bind_next((statement, plan), &values, unbound, time)
                    }
                    None => self.core.bind_next((statement, plan), values, unbound, time),
                }
            } else {
                self.core.bind_next((statement, plan), values, unbound, time)
            };
            if let Err(failure) = failed {
                return Ok(Bound::Failed(failure));
            }
            time.count(unbound.mutations.len() - bytes);
            if time.is_over() && batch.head.remaining > 0 {
                return Ok(Bound::Paused(batch.head_of_rest()));
            }
        }
        Ok(unbound.fault.take().map_or(Bound::Whole, |fault| Bound::Failed(fault.failure)))
    }
}

impl UnboundBatch {
    /// Prepares large values of the next statement; returns whether it can be bound.
    fn prepare(
        &mut self,
        (statement, is_long): (&Arc<PreparedStatement>, bool),
        values: &[Value<'_>],
        with: BeginWith<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        if self.large.is_some() || self.fault.is_some() {
            // It was begun, or nothing of it is wanted any more.
        } else if is_long {
            // Parsing it may have taken all the time that there was.
            time.look();
            self.large = Some(Box::new(LargeValues::of_parsed(statement, values, false, with)));
        } else if are_large(values) {
            self.large = LargeValues::of(statement, values, false, with);
        }
        self.large.as_mut().is_none_or(|large| large.go_on(values, time))
    }
}

impl Core {
    /// Appends the mutations of the next statement of a batch.
    #[inline]
    fn bind_next(
        &mut self,
        (statement, plan): (&PreparedStatement, &WritePlan),
        values: &[Value<'_>],
        unbound: &mut UnboundBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), Failure> {
        unbound.count += 1;
        let UnboundBatch { mutations, context, partition, fault, .. } = unbound;
        if fault.is_none()
            && let Err(error) =
                plan.bind_next(values, context, &mut self.scratch, mutations, partition)
        {
            *fault = Some(BatchFault { failure: error.into(), is_of_key: false });
        }
        if let Some(fault) = fault {
            statement.prepared.check_count(values.len())?;
            if !fault.is_of_key
                && let Err(error) = plan.check_key(values, context, &mut self.scratch)
            {
                *fault = BatchFault { failure: error.into(), is_of_key: true };
            }
            time.count(self.scratch.key.len());
        }
        context.random = self.random.next_u64();
        if mutations.len() > WRITE_BYTES_MAX * usize::from(self.shards) {
            return Err(Refused::TooLarge.into());
        }
        Ok(())
    }
}

impl Core {
    /// Prepares a statement that came as text in a batch, which holds so many bytes already.
    pub(super) fn prepare_part(
        &mut self,
        session: &Session,
        text: &str,
        holds: usize,
    ) -> Result<Arc<PreparedStatement>, Failure> {
        self.learn_schema();
        let cost = self.check_cost(text, holds)?;
        let keyspace = session.keyspace.as_deref();
        let parsed = cql::parse(text)?;
        Ok(Arc::new(PreparedStatement::prepare(&self.catalog, keyspace, (text, cost), parsed)?))
    }
}
