//! BATCH: its statements are bound one after the other into mutations, as many as its client has
//! time for; the rest of them when it is its turn again.

use super::{
    Core, Shard,
    dependent::{OwnStatement, STATEMENTS_MAX, TOO_MANY_DEPENDENT, WriteTerms},
    failure::Failure,
    session::Session,
    statement::PreparedStatement,
};
use crate::{
    cql::{self, BatchWord, BindContext, Plan},
    io::TimeSlice,
    protocol::{
        MalformedBody,
        request::{Batch, BatchHead, BatchKind, StatementRef, Values},
    },
    store::{Refused, WRITE_BYTES_MAX},
    types::Value,
};
use std::sync::Arc;

/// Parsing and planning a byte of a statement takes about as long as moving so many.
pub(super) const TEXT_COST: usize = 64;

/// CQL v4 §4.1.7.
const NOT_A_WRITE: &str = "Invalid statement in batch: only UPDATE, INSERT and DELETE statements \
     are allowed.";

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
    /// The body of the request, if that was compressed.
    pub(super) inflated: Vec<u8>,
}

impl UnboundBatch {
    /// Bytes of memory that it takes while it waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.mutations.capacity() + self.inflated.capacity()
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
            return self.dependent_batch(session, stream, body);
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
            inflated: Vec::new(),
        };
        self.bind_and_write(session, stream, (batch, body), unbound, time)
    }

    /// Goes on with a batch that was paused; `body` is that of its request.
    pub(super) fn go_on_with_batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
        mut unbound: UnboundBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let inflated = std::mem::take(&mut unbound.inflated);
        let body = if inflated.is_empty() { body } else { &inflated };
        let batch = Batch::resume(unbound.head, body)?;
        let ran = self.bind_and_write(session, stream, (batch, body), unbound, time);
        if let Some(unbound) = &mut session.unbound {
            unbound.inflated = inflated;
        }
        ran
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
            session.unbound = Some(Box::new(UnboundBatch { head, ..unbound }));
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
            Bound::Dependent => return self.dependent_batch(session, stream, body),
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
        while let Some(statement) = batch.next(&mut values)? {
            unbound.count += 1;
            let text;
            let statement: &PreparedStatement = match statement {
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
                    match self.core.prepare_part(session, query) {
                        Ok(prepared) => text = prepared,
                        Err(failure) => return Ok(Bound::Failed(failure)),
                    }
                    &text
                }
            };
            let Plan::Write(plan) = &statement.prepared.plan else {
                return Ok(Bound::Failed(Failure::invalid(NOT_A_WRITE)));
            };
            if plan.is_dependent() {
                return Ok(Bound::Dependent);
            }
            let core = &mut self.core;
            let values: &[Value<'_>] = values.as_slice();
            let UnboundBatch { mutations, context, partition, fault, .. } = unbound;
            let before = mutations.len();
            if fault.is_none()
                && let Err(error) =
                    plan.bind_next(values, context, &mut core.scratch, mutations, partition)
            {
                *fault = Some(BatchFault { failure: error.into(), is_of_key: false });
            }
            if let Some(fault) = fault {
                if let Err(error) = statement.prepared.check_count(values.len()) {
                    return Ok(Bound::Failed(error.into()));
                }
                if !fault.is_of_key
                    && let Err(error) = plan.check_key(values, context, &mut core.scratch)
                {
                    *fault = BatchFault { failure: error.into(), is_of_key: true };
                }
                time.count(core.scratch.key.len());
            }
            context.random = core.random.next_u64();
            if mutations.len() > WRITE_BYTES_MAX * usize::from(core.shards) {
                return Ok(Bound::Failed(Refused::TooLarge.into()));
            }
            time.count(mutations.len() - before);
            if time.is_over() && batch.head.remaining > 0 {
                return Ok(Bound::Paused(batch.head_of_rest()));
            }
        }
        Ok(unbound.fault.take().map_or(Bound::Whole, |fault| Bound::Failed(fault.failure)))
    }
}

impl Shard {
    /// Keeps the statements of a batch one of which depends on what is there, until they can be
    /// bound.
    fn dependent_batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
    ) -> Result<(), MalformedBody> {
        let mut batch = Batch::read(body)?;
        let BatchHead { consistency, serial, timestamp_us, .. } = batch.head;
        let terms = WriteTerms { consistency, serial, timestamp_us };
        let second = self.core.second();
        let (mut values, mut statements) = (Values::default(), Vec::new());
        while let Some(statement) = batch.next(&mut values)? {
            let found = match statement {
                StatementRef::Prepared(id) => {
                    let Some(place) = self.plans.find(&self.core.shared, id, second) else {
                        self.core.unprepared(session, stream, id);
                        return Ok(());
                    };
                    Ok(Arc::clone(self.plans.at(place)))
                }
                StatementRef::Text(query) => self.core.prepare_part(session, query),
            };
            let checked = found.and_then(|statement| match &statement.prepared.plan {
                Plan::Write(_) if statements.len() < STATEMENTS_MAX => Ok(statement),
                Plan::Write(_) => Err(Failure::invalid(TOO_MANY_DEPENDENT)),
                _ => Err(Failure::invalid(NOT_A_WRITE)),
            });
            match checked {
                Ok(statement) => statements.push(OwnStatement::new(&statement, values.as_slice())),
                Err(failure) => {
                    self.core.fail(session, stream, &failure);
                    return Ok(());
                }
            }
        }
        let kind = match batch.head.kind {
            BatchKind::Logged => BatchWord::Logged,
            BatchKind::Unlogged => BatchWord::Unlogged,
            BatchKind::Counter => BatchWord::Counter,
        };
        if let Err(failure) = self.core.depend((session, stream), statements, Some(kind), terms) {
            self.core.fail(session, stream, &failure);
        }
        Ok(())
    }
}

impl Core {
    /// Prepares a statement that came as text in a batch.
    fn prepare_part(
        &mut self,
        session: &Session,
        text: &str,
    ) -> Result<Arc<PreparedStatement>, Failure> {
        self.learn_schema();
        self.check_cost(text)?;
        let keyspace = session.keyspace.as_deref();
        let parsed = cql::parse(text)?;
        Ok(Arc::new(PreparedStatement::prepare(&self.catalog, keyspace, text, parsed)?))
    }
}
