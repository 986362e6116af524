//! Lists of what is in the schema: SELECT from system tables, and DESCRIBE.

use super::{
    Core, execute::Binding, failure::Failure, reading::RowMaker, session::Session,
    statement::PreparedStatement,
};
use crate::{
    cql::{Listing, Plan},
    io::TimeSlice,
};
use std::sync::Arc;

impl Core {
    /// Runs a statement that asks for a list.
    pub(super) fn list(
        &mut self,
        session: &mut Session,
        (stream, statement): (i16, &Arc<PreparedStatement>),
        request: &Binding<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), Failure> {
        let context = self.context(request.timestamp_us);
        let (plan, values) = (&statement.prepared.plan, request.values);
        let listing = Listing::begin(plan, &self.catalog, values, &request.options, &context)?;
        let address = self.address(session, stream);
        self.trace(address, |_| {
            let is_described = matches!(plan, Plan::Describe(_));
            let what = if is_described {
                "Describing the schema"
            } else {
                "Making rows of a system table"
            };
            what.to_owned()
        });
        let rows = RowMaker::Schema(listing);
        self.make_rows(session, (stream, statement), rows, request.skip_metadata, time)
    }
}
