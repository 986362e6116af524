//! `BEGIN BATCH … APPLY BATCH` as one text: several writes with common values.

use super::{
    error::CqlError,
    plan::{BindContext, Scratch, Slot, check_count},
    write::{WritePlan, timestamp},
};
use crate::types::Value;

/// Several writes. Their mutations are to be applied all or none.
#[derive(Debug)]
pub struct BatchPlan {
    pub(super) unlogged: bool,
    pub(super) writes: Vec<WritePlan>,
    pub(super) timestamp: Option<Slot>,
    pub(super) markers: usize,
}

impl BatchPlan {
    /// Whether `UNLOGGED` was said: its parts may become durable one by one.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.unlogged
    }

    /// How many writes it has.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.writes.len() as u64
    }

    /// Appends the mutations of all writes, each with its partition's token, in their order.
    ///
    /// Nothing is appended if it fails.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statements.
    pub fn bind(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        check_count(values, self.markers)?;
        let mut context = *context;
        if let Some(slot) = &self.timestamp {
            context.timestamp_us = timestamp(slot, values, &context)?;
        }
        let (start, mut last) = (out.len(), None);
        for write in &self.writes {
            if let Err(error) = write.append(values, &context, scratch, out, &mut last) {
                out.truncate(start);
                return Err(error);
            }
            context.random = context.random.wrapping_add(1);
        }
        Ok(())
    }
}
