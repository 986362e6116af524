//! `BEGIN BATCH … APPLY BATCH` as one text: several writes with common values.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::{BindContext, BindScratch},
            value::check_count,
            write::timestamp,
        },
        prepare::plan::BatchPlan,
    },
    types::Value,
};

impl BatchPlan {
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
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        check_count(values, self.markers)?;
        let mut context = *context;
        if let Some(slot) = &self.timestamp {
            context.timestamp_us = timestamp(slot, values, &context)?;
        }
        let (start, mut last) = (out.len(), None);
        for write in &self.writes {
            let supplied = (values, None);
            if let Err(error) = write.append(supplied, &context, scratch, out, &mut last) {
                out.truncate(start);
                // As by Cassandra, what is wrong with a key is told first.
                let mut writes = self.writes.iter();
                let of_key =
                    writes.find_map(|write| write.check_key(values, &context, scratch).err());
                return Err(of_key.unwrap_or(error));
            }
            context.random = context.random.wrapping_add(1);
        }
        Ok(())
    }
}
