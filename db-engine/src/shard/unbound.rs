//! Requests that are bound bit by bit, in several turns.

use super::{Shard, batch::UnboundBatch, large_values::LargeValues, session::Session};
use crate::{
    io::TimeSlice,
    protocol::{
        MalformedBody,
        frame::{Frame, flag},
        notation::BodyReader,
        opcode,
        request::{Parameters, Values},
    },
};

/// A request of which a part is bound.
#[derive(Debug)]
pub struct Unbound {
    pub(super) part: PreparedPart,
    /// The body of the request, if that was compressed.
    pub(super) inflated: Vec<u8>,
}

/// What is done of a request.
#[derive(Debug)]
pub(super) enum PreparedPart {
    /// Some statements of a batch.
    Batch(Box<UnboundBatch>),
    /// Some values of a statement.
    Values(Box<LargeValues>),
}

impl Unbound {
    pub(super) fn new(part: PreparedPart) -> Self {
        Self { part, inflated: Vec::new() }
    }

    /// Bytes of memory that it takes while it waits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let part = match &self.part {
            PreparedPart::Batch(batch) => batch.bytes(),
            PreparedPart::Values(values) => values.bytes(),
        };
        part + self.inflated.capacity()
    }
}

impl Shard {
    /// Goes on with a request that was paused; `frame` is the same as before.
    pub(super) fn go_on_with(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        Unbound { part, inflated }: Unbound,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let body = if inflated.is_empty() { frame.body } else { &inflated };
        let ran = match part {
            PreparedPart::Batch(batch) => {
                self.go_on_with_batch(session, frame.stream, body, *batch, time)
            }
            PreparedPart::Values(values) => {
                self.go_on_with_values(session, Frame { body, ..frame }, values, time)
            }
        };
        if let Some(unbound) = &mut session.unbound {
            unbound.inflated = inflated;
        }
        ran
    }

    fn go_on_with_values(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        large: Box<LargeValues>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let mut reader = BodyReader::new(frame.body);
        if frame.flags & flag::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map()?;
        }
        // The statement is known.
        if frame.opcode == opcode::EXECUTE {
            reader.short_bytes()?;
        } else {
            reader.bytes()?;
        }
        let mut values = Values::default();
        let parameters = Parameters::read(&mut reader, &mut values)?;
        let values = (&parameters, values.as_slice());
        self.core.run_large(session, frame.stream, (values, large), time);
        Ok(())
    }
}
