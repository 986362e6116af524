//! Requests that are bound bit by bit, in several turns.

use super::{
    Shard, batch::UnboundBatch, kept_batch::KeptBatch, large_values::LargeValues, session::Session,
    statement_id::IdWork,
};
use crate::{
    budget::{Budget, Charge, Share},
    io::TimeSlice,
    protocol::{
        MalformedBody,
        frame::{Frame, flag},
        notation::BodyReader,
        opcode,
        request::{Parameters, Values},
    },
};
use std::sync::Arc;

/// A request of which a part is bound.
#[derive(Debug)]
pub struct Unbound {
    pub(super) part: PreparedPart,
    /// The body of the request, if that was compressed.
    pub(super) inflated: Vec<u8>,
    /// What it takes of the share for requests while it waits.
    charge: Option<Charge>,
}

/// What is done of a request.
#[derive(Debug)]
pub(super) enum PreparedPart {
    /// Some statements of a batch.
    Batch(Box<UnboundBatch>),
    /// Some statements of a batch that depends on what is there.
    Kept(Box<KeptBatch>),
    /// Some values of a statement.
    Values(Box<LargeValues>),
    /// A part of the text of which a statement is to be prepared.
    Id(IdWork),
}

impl Unbound {
    pub(super) fn new(part: PreparedPart) -> Self {
        Self { part, inflated: Vec::new(), charge: None }
    }

    /// Bytes of memory that it holds while it waits.
    pub(crate) fn bytes(&self) -> usize {
        let part = match &self.part {
            PreparedPart::Batch(batch) => batch.bytes(),
            PreparedPart::Kept(batch) => batch.bytes(),
            PreparedPart::Values(values) => values.bytes(),
            PreparedPart::Id(_) => 0,
        };
        part + self.inflated.capacity()
    }

    /// Tells the budget what it holds from now on. When it goes on, all is given back: what becomes
    /// of it is counted anew.
    pub(super) fn settle(&mut self, budget: &Arc<Budget>) {
        let bytes = self.bytes();
        self.charge.get_or_insert_with(|| Charge::new(budget, Share::Requests)).set(bytes);
    }
}

impl Shard {
    /// Goes on with a request that was paused; `frame` is the same as before.
    pub(super) fn go_on_with(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        Unbound { part, inflated, charge }: Unbound,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        // What becomes of it is counted anew, and would not fit twice.
        drop(charge);
        let body = if inflated.is_empty() { frame.body } else { &inflated };
        let ran = self.go_on_with_part(session, Frame { body, ..frame }, part, time);
        if let Some(unbound) = &mut session.unbound {
            unbound.inflated = inflated;
        }
        ran
    }

    fn go_on_with_part(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        part: PreparedPart,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let mut reader = BodyReader::new(frame.body);
        if frame.flags & flag::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map()?;
        }
        let stream = frame.stream;
        match part {
            PreparedPart::Batch(batch) => {
                self.go_on_with_batch(session, stream, reader.rest(), *batch, time)
            }
            PreparedPart::Kept(batch) => {
                self.go_on_with_kept(session, stream, reader.rest(), *batch, time)
            }
            PreparedPart::Values(values) => {
                self.go_on_with_values(session, frame, reader, values, time)
            }
            PreparedPart::Id(id) => {
                self.prepare(session, stream, reader.long_string()?, id, time);
                Ok(())
            }
        }
    }

    fn go_on_with_values(
        &mut self,
        session: &mut Session,
        Frame { stream, opcode, .. }: Frame<'_>,
        mut reader: BodyReader<'_>,
        large: Box<LargeValues>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        // The statement is known.
        if opcode == opcode::EXECUTE {
            reader.short_bytes()?;
        } else {
            reader.bytes()?;
        }
        let mut values = Values::default();
        let parameters = Parameters::read(&mut reader, &mut values)?;
        let values = (&parameters, values.as_slice());
        self.core.run_large(session, stream, (values, large), time);
        Ok(())
    }
}
