//! BATCH with a statement that depends on what is there: all of its statements are copied, as many
//! as its client has time for, and kept until they can be bound.

use super::{
    Shard,
    batch::{NOT_A_WRITE, TEXT_COST},
    dependent::{OwnStatement, STATEMENTS_MAX, TOO_MANY_DEPENDENT, WriteTerms, too_many_wait},
    failure::Failure,
    large_values::{BeginWith, LargeValues, are_large},
    session::Session,
    statement::PreparedStatement,
    unbound::{PreparedPart, Unbound},
};
use crate::{
    budget::Share,
    cql::{BatchWord, Plan},
    io::TimeSlice,
    protocol::{
        MalformedBody,
        request::{Batch, BatchHead, BatchKind, StatementRef, Values},
    },
    types::{Value, large::LARGE_VALUE_BYTES},
};
use std::sync::Arc;

/// A batch of which some statements are kept.
#[derive(Debug)]
pub struct KeptBatch {
    head: BatchHead,
    statements: Vec<OwnStatement>,
    /// What the statements take.
    bytes: usize,
    /// The next statement, if it is known, and its values that are worked on.
    large: Option<Box<LargeValues>>,
}

impl KeptBatch {
    /// Bytes of memory that it takes while it waits.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.large.as_ref().map_or(0, |large| large.bytes())
    }

    /// The same, with a statement and its values.
    fn bytes_with(&self, statement: &PreparedStatement, values: &[Value<'_>]) -> usize {
        let given = values.iter().map(|value| match value {
            Value::Bytes(bytes) => size_of::<Value<'_>>() + bytes.len(),
            _ => size_of::<Value<'_>>(),
        });
        self.bytes() + statement.own_bytes() + given.sum::<usize>()
    }

    /// Copies the next statement and its values, as far as there is time; returns whether that is
    /// done.
    fn keep(
        &mut self,
        (statement, is_long): (&Arc<PreparedStatement>, bool),
        values: &[Value<'_>],
        with: BeginWith<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        if is_long {
            // Parsing it may have taken all the time that there was.
            time.look();
            self.large = Some(Box::new(LargeValues::of_parsed(statement, values, true, with)));
        } else if self.large.is_none() && are_large(values) {
            self.large = LargeValues::of(statement, values, true, with);
        }
        if self.large.as_mut().is_some_and(|large| !large.go_on(values, time)) {
            return false;
        }
        let own = match self.large.take() {
            Some(large) => OwnStatement::new(statement, &large.put_into(values)),
            None => OwnStatement::new(statement, values),
        };
        let bytes = own.own_bytes();
        self.bytes += bytes;
        self.statements.push(own);
        time.count(bytes);
        true
    }
}

/// What became of keeping a batch.
enum KeepingStep<'a> {
    Whole,
    /// Its client has no more time.
    Paused(BatchHead),
    Unprepared(&'a [u8]),
    Failed(Failure),
}

impl Shard {
    /// Keeps the statements of a batch one of which depends on what is there, until they can be
    /// bound.
    pub(super) fn dependent_batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let batch = Batch::read(body)?;
        let kept = KeptBatch { head: batch.head, statements: Vec::new(), bytes: 0, large: None };
        self.keep_and_depend(session, stream, batch, kept, time)
    }

    /// Goes on with a batch that was paused; `body` is that of its request.
    pub(super) fn go_on_with_kept(
        &mut self,
        session: &mut Session,
        stream: i16,
        body: &[u8],
        kept: KeptBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let batch = Batch::resume(kept.head, body)?;
        self.keep_and_depend(session, stream, batch, kept, time)
    }

    fn keep_and_depend(
        &mut self,
        session: &mut Session,
        stream: i16,
        batch: Batch<'_>,
        mut kept: KeptBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let done = match self.keep_some(session, batch, &mut kept, time)? {
            KeepingStep::Paused(head) => {
                let kept = Box::new(KeptBatch { head, ..kept });
                session.unbound = Some(Box::new(Unbound::new(PreparedPart::Kept(kept))));
                return Ok(());
            }
            KeepingStep::Unprepared(id) => {
                self.core.unprepared(session, stream, id);
                return Ok(());
            }
            KeepingStep::Failed(failure) => Err(failure),
            KeepingStep::Whole => {
                let BatchHead { kind, consistency, serial, timestamp_us, .. } = kept.head;
                let kind = match kind {
                    BatchKind::Logged => BatchWord::Logged,
                    BatchKind::Unlogged => BatchWord::Unlogged,
                    BatchKind::Counter => BatchWord::Counter,
                };
                let terms = WriteTerms { consistency, serial, timestamp_us };
                self.core.depend((session, stream), kept.statements, Some(kind), terms)
            }
        };
        if let Err(failure) = done {
            self.core.fail(session, stream, &failure);
        }
        Ok(())
    }

    /// Copies statements, one after the other, until all are kept or the time is over.
    fn keep_some<'a>(
        &mut self,
        session: &Session,
        mut batch: Batch<'a>,
        kept: &mut KeptBatch,
        time: &mut TimeSlice<'_>,
    ) -> Result<KeepingStep<'a>, MalformedBody> {
        let (second, context) = (self.core.second(), self.core.context(None));
        let mut values = Values::default();
        loop {
            let head = batch.head_of_rest();
            let Some(statement) = batch.next(&mut values)? else { return Ok(KeepingStep::Whole) };
            let mut is_long = false;
            let found = match statement {
                _ if let Some(large) = &kept.large => Ok(Arc::clone(large.statement())),
                StatementRef::Prepared(id) => {
                    match self.plans.find(&self.core.shared, id, second) {
                        Some(place) => Ok(Arc::clone(self.plans.at(place))),
                        None => return Ok(KeepingStep::Unprepared(id)),
                    }
                }
                StatementRef::Text(query) => {
                    time.count(query.len() * TEXT_COST);
                    is_long = query.len() >= LARGE_VALUE_BYTES;
                    self.core.prepare_part(session, query, kept.bytes())
                }
            };
            let checked = found.and_then(|statement| match &statement.prepared.plan {
                Plan::Write(_) if kept.statements.len() < STATEMENTS_MAX => Ok(statement),
                Plan::Write(_) => Err(Failure::invalid(TOO_MANY_DEPENDENT)),
                _ => Err(Failure::invalid(NOT_A_WRITE)),
            });
            let statement = match checked {
                Ok(statement) => statement,
                Err(failure) => return Ok(KeepingStep::Failed(failure)),
            };
            let memory = &*self.core.metrics.memory;
            let bytes = kept.bytes_with(&statement, values.as_slice()) as u64;
            if kept.large.is_none() && !memory.has_room(Share::Requests, bytes) {
                return Ok(KeepingStep::Failed(too_many_wait()));
            }
            let with = (memory, &context, &self.core.scratch);
            if !kept.keep((&statement, is_long), values.as_slice(), with, time) {
                return Ok(KeepingStep::Paused(head));
            }
            if time.is_over() && batch.head.remaining > 0 {
                return Ok(KeepingStep::Paused(batch.head_of_rest()));
            }
        }
    }
}
