//! What is there and writes that depend on it → mutations. Counters are what was there, and what
//! is added; of lists all writes of a request see what was there.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{
            context::{BindContext, BindScratch, Given},
            known_lists::KnownLists,
            known_rows::KnownRows,
            row_names::BoundWrite,
            value::{Found, put_key},
            write::{put_clustering, timestamp, too_long},
        },
        prepare::{plan::WritePlan, source::Source},
    },
    mutation::{Builder, TableNumber, Write, token::token},
    types::Value,
};
use std::collections::BTreeMap;

/// The table, partition and clustering key of a row.
type CounterRow = (TableNumber, Vec<u8>, Vec<u8>);

/// Counters as the writes of one request find them: as they were read, and then as the writes
/// before have left them.
pub(super) struct Counters<'a> {
    known: KnownRows<'a>,
    /// Those that were written to.
    sums: BTreeMap<(CounterRow, u16), i64>,
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
        let given = (*values, None);
        if plan.increments.is_empty() {
            return plan.append(given, context, scratch, out, last).map(drop);
        }
        let Some(many) = &plan.many else {
            put_key(&plan.partition_key, values, context, &mut scratch.key)?;
            put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
            let cks = std::slice::from_ref(&scratch.ck);
            let rows = self.count(plan, &scratch.key, cks, (values, context))?;
            if rows.is_empty() {
                return Ok(());
            }
            let put = |builder: &mut Builder<'_>, _: Given<'_>, _: &[u8], write: &Write| {
                put_rows(builder, &rows, write);
                Ok(())
            };
            return plan.append_row(given, context, scratch, out, last, put).map(drop);
        };
        *last = None;
        let (keys, cks) = many.names(values, context)?;
        let timestamp_us = plan.timestamp_us(values, context)?;
        for key in keys {
            let rows = self.count(plan, &key, &cks, (values, context))?;
            if !rows.is_empty() {
                let mut builder = Builder::new(out, plan.table, token(&key), &key);
                put_rows(&mut builder, &rows, &plan.write(timestamp_us, values, context)?);
                builder.finish().map_err(|_| too_long())?;
            }
        }
        Ok(())
    }

    /// What the counters of a partition are after these rows of it were written to, by the number
    /// of the column. As in Cassandra, static ones are added to once for each row.
    fn count(
        &mut self,
        plan: &WritePlan,
        key: &[u8],
        cks: &[Vec<u8>],
        (values, context): (&[Value<'_>], &BindContext),
    ) -> Result<BTreeMap<Vec<u8>, BTreeMap<u16, i64>>, CqlError> {
        let mut rows: BTreeMap<Vec<u8>, BTreeMap<u16, i64>> = BTreeMap::new();
        let of_static = [Vec::new()];
        for ck in if plan.has_row { cks } else { &of_static } {
            for increment in &plan.increments {
                let value = match increment.value.find(values, context)? {
                    Found::Bytes(bytes) => <[u8; 8]>::try_from(&*bytes).ok(),
                    Found::Unset => continue,
                    Found::Null => None,
                };
                let Some(value) = value.map(i64::from_be_bytes) else {
                    let what = if increment.minus { "decrement" } else { "increment" };
                    return invalid(format!("Invalid null value for counter {what}"));
                };
                let ck = if increment.is_static { &[] } else { ck.as_slice() };
                let row = (plan.table, key.to_vec(), ck.to_vec());
                let before = self.value(plan, &row, increment.column).unwrap_or(0);
                let after = if increment.minus {
                    before.wrapping_sub(value)
                } else {
                    before.wrapping_add(value)
                };
                rows.entry(ck.to_vec()).or_default().insert(increment.column, after);
                self.sums.insert((row, increment.column), after);
            }
        }
        Ok(rows)
    }

    fn value(&self, plan: &WritePlan, row: &CounterRow, column: u16) -> Option<i64> {
        if let Some(sum) = self.sums.get(&(row.clone(), column)) {
            return Some(*sum);
        }
        let found = self.known.find(row.0, &row.1, &row.2)?;
        let mut found = plan.prior.as_ref()?.own(found, self.known.now_s)?;
        let mut value = Vec::new();
        found.value(&Source::Cell(column), &mut value)?;
        value.try_into().ok().map(i64::from_be_bytes)
    }
}

/// Writes counters to rows of a partition.
fn put_rows(
    builder: &mut Builder<'_>,
    rows: &BTreeMap<Vec<u8>, BTreeMap<u16, i64>>,
    write: &Write,
) {
    for (ck, cells) in rows {
        let mut row = builder.row(ck, write, false);
        for (column, value) in cells {
            row.cell(*column, &value.to_be_bytes());
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
    let after_all_us = i64::try_from(writes.len()).unwrap_or(i64::MAX).saturating_add(1);
    let after_all_us = context.timestamp_us.saturating_add(after_all_us);
    let (mut counters, lists) = (Counters::new(known), KnownLists::new(known));
    for write in writes {
        if let Some(slot) = write.batch.and_then(|batch| batch.timestamp.as_ref()) {
            context.timestamp_us = timestamp(slot, write.values, &context)?;
        }
        let appended = if write.plan.is_counter() {
            // One after the other, as each takes what the one before it has left.
            context.timestamp_us = context.timestamp_us.saturating_add(1);
            let mut context = context;
            if write.plan.increments.is_empty() {
                // As in Cassandra, nothing of the batch comes after a deletion.
                context.timestamp_us = after_all_us;
            }
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
