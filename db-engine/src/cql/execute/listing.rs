//! Lists of what is in the schema: rows of a system table, and DESCRIBE. A list is made bit by bit,
//! of one catalog, whatever changes meanwhile.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext, list_place::ListPlace, select::ReadOptions, system::Wanted,
        },
        prepare::plan::Plan,
    },
    io::TimeSlice,
    schema::{Catalog, system::NodeInfo},
    types::Value,
};
use std::sync::Arc;

enum Listed {
    /// Rows of a system table, if they suit the statement.
    Rows(Wanted),
    /// Rows of DESCRIBE, so many in a page.
    Described(Option<u32>),
}

/// A list that is being made.
pub struct Listing {
    catalog: Arc<Catalog>,
    listed: Listed,
    place: ListPlace,
}

impl Listing {
    /// Begins the list that a plan asks for.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statement, there is no such thing, or
    /// the schema has changed since the page before.
    pub fn begin(
        plan: &Plan,
        catalog: &Arc<Catalog>,
        values: &[Value<'_>],
        options: &ReadOptions<'_>,
        context: &BindContext,
    ) -> Result<Self, CqlError> {
        let (listed, looked_at) = match plan {
            Plan::System(plan) => (Listed::Rows(plan.wanted(values, context)?), 0),
            Plan::Describe(plan) => {
                let page_rows = options.page_size.filter(|size| *size > 0);
                (Listed::Described(page_rows), plan.first(catalog, values, options)?)
            }
            _ => unreachable!("other plans ask for no list"),
        };
        let place = ListPlace { looked_at, ..ListPlace::default() };
        Ok(Self { catalog: Arc::clone(catalog), listed, place })
    }

    /// Appends rows until all are there, which it tells, or the time is over. The plan is the same
    /// every time, and nothing else is in `out`.
    ///
    /// # Errors
    /// The result would be too large.
    pub fn go_on(
        &mut self,
        plan: &Plan,
        node: &NodeInfo,
        time: &mut TimeSlice<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CqlError> {
        let Self { catalog, listed, place } = self;
        match (plan, listed) {
            (Plan::System(plan), Listed::Rows(wanted)) => {
                plan.put_rows((catalog, node), wanted, place, time, out)
            }
            (Plan::Describe(plan), Listed::Described(page_rows)) => {
                plan.put_rows((catalog, node), *page_rows, place, time, out)
            }
            _ => unreachable!("a list goes on with the plan that it was begun with"),
        }
    }

    /// How many rows were made, and the paging state if there are more.
    #[must_use]
    pub fn finish(&mut self) -> (u32, Option<Vec<u8>>) {
        (self.place.rows, self.place.state.take())
    }
}
