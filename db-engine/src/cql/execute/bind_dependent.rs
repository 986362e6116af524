//! What is there and writes that depend on it → mutations. Counters are what was there, and what
//! is added; of lists all writes of a request see what was there.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::{BindContext, BindScratch},
            known_lists::KnownLists,
            known_rows::KnownRows,
            row_names::BoundWrite,
            value::{Found, put_key},
            write::{put_clustering, timestamp},
        },
        prepare::{
            plan::{Action, WritePlan},
            source::Source,
        },
    },
    mutation::TableNumber,
};
use std::collections::BTreeMap;

/// The table, partition and clustering key of a row.
type CounterRow = (TableNumber, Vec<u8>, Vec<u8>);

/// Counters as the writes of one request find them: as they were read, and then as the writes
/// before have left them.
pub(super) struct Counters<'a> {
    known: KnownRows<'a>,
    /// Those that were written to.
    sums: BTreeMap<(CounterRow, u16), Option<i64>>,
}

impl<'a> Counters<'a> {
    pub(super) fn new(known: KnownRows<'a>) -> Self {
        Self { known, sums: BTreeMap::new() }
    }

    /// Appends a write to counters.
    pub(super) fn append(
        &mut self,
        BoundWrite { plan, values, .. }: &BoundWrite<'_>,
        context: &BindContext,
        scratch: &mut BindScratch,
        out: &mut Vec<u8>,
        last: &mut Option<usize>,
    ) -> Result<(), CqlError> {
        put_key(&plan.partition_key, values, context, &mut scratch.key)?;
        put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
        let row = (plan.table, scratch.key.clone(), scratch.ck.clone());
        if plan.action != Action::Update || plan.increments.is_empty() {
            self.forget(plan, &row);
            return plan.append((*values, None), context, scratch, out, last).map(drop);
        }
        let mut cells: BTreeMap<u16, i64> = BTreeMap::new();
        for increment in &plan.increments {
            let value = match increment.value.find(values, context)? {
                Found::Bytes(bytes) => <[u8; 8]>::try_from(&*bytes).ok().map(i64::from_be_bytes),
                Found::Unset => continue,
                Found::Null => None,
            };
            let Some(value) = value else {
                let refused = "Invalid null value for counter increment/decrement";
                return Err(CqlError::invalid(refused));
            };
            let before = self.value(plan, &row, increment.column).unwrap_or(0);
            let after = if increment.minus {
                before.wrapping_sub(value)
            } else {
                before.wrapping_add(value)
            };
            self.sums.insert((row.clone(), increment.column), Some(after));
            cells.insert(increment.column, after);
        }
        if cells.is_empty() {
            return Ok(());
        }
        let appended = plan.append_row(
            (*values, None),
            context,
            scratch,
            out,
            last,
            |builder, _, ck, write| {
                let mut row = builder.row(ck, write, false);
                for (column, value) in &cells {
                    row.cell(*column, &value.to_be_bytes());
                }
                Ok(())
            },
        );
        appended.map(drop)
    }

    fn value(&self, plan: &WritePlan, row: &CounterRow, column: u16) -> Option<i64> {
        if let Some(sum) = self.sums.get(&(row.clone(), column)) {
            return *sum;
        }
        let found = self.known.find(row.0, &row.1, &row.2)?;
        let mut found = plan.prior.as_ref()?.own(found, self.known.now_s)?;
        let mut value = Vec::new();
        found.value(&Source::Cell(column), &mut value)?;
        value.try_into().ok().map(i64::from_be_bytes)
    }

    /// Takes note of a deletion: what is added later is added to nothing.
    fn forget(&mut self, plan: &WritePlan, row: &CounterRow) {
        if plan.action == Action::DeletePartition {
            for name in
                self.known.rows.iter().filter(|name| (name.table, &*name.key) == (row.0, &*row.1))
            {
                let row = (name.table, name.key.to_vec(), name.ck.clone());
                for column in &*name.columns {
                    self.sums.insert((row.clone(), *column), None);
                }
            }
            return;
        }
        let columns = plan.prior.iter().flat_map(|prior| prior.columns.iter().copied());
        let named = |column: &u16| plan.changes.cells.iter().any(|(number, _)| number == column);
        for column in columns.filter(|column| plan.action == Action::DeleteRow || named(column)) {
            self.sums.insert((row.clone(), column), None);
        }
    }
}

/// Appends the mutations of writes that all may happen, in their order.
///
/// # Errors
/// In Cassandra's words, if the values do not suit the statements. Nothing is appended then.
pub fn bind_all(
    writes: &[BoundWrite<'_>],
    known: KnownRows<'_>,
    mut context: BindContext,
    scratch: &mut BindScratch,
    out: &mut Vec<u8>,
) -> Result<(), CqlError> {
    let (start, mut last) = (out.len(), None);
    let is_conditional = writes.iter().any(|write| write.plan.is_conditional());
    let (mut counters, lists) = (Counters::new(known), KnownLists::new(known));
    for write in writes {
        if let Some(slot) = write.batch.and_then(|batch| batch.timestamp.as_ref()) {
            context.timestamp_us = timestamp(slot, write.values, &context)?;
        }
        let appended = if write.plan.is_counter() {
            // One after the other, as each takes what the one before it has left.
            context.timestamp_us = context.timestamp_us.saturating_add(1);
            counters.append(write, &context, scratch, out, &mut last)
        } else {
            let mut context = context;
            if is_conditional && write.plan.deletes_several() {
                // It is older than what is written with it, whatever comes first.
                context.timestamp_us = context.timestamp_us.saturating_sub(1);
            }
            let supplied = (write.values, Some(&lists));
            write.plan.append(supplied, &context, scratch, out, &mut last).map(drop)
        };
        if let Err(error) = appended {
            out.truncate(start);
            return Err(error);
        }
        context.random = context.random.wrapping_add(1);
    }
    Ok(())
}
