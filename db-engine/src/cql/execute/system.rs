//! Reads of system tables: their rows are made, filtered and projected one after the other.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            functions::call,
            list_place::ListPlace,
            read::check_result,
            value::{check_count, positive},
        },
        prepare::{input::Operand, plan::SystemPlan, source::SystemSource},
    },
    io::TimeSlice,
    schema::{
        Catalog,
        system::{self, NodeInfo},
    },
    types::{Value, collection},
};
use std::collections::{BTreeMap, BTreeSet};

/// Which rows a statement asks for.
pub(super) struct Wanted {
    /// Indexes of columns, and the values one of which they must have.
    conditions: Vec<(usize, BTreeSet<Vec<u8>>)>,
    rows_max: u32,
    now_us: i64,
    /// What is the same in each row, by its column in the result.
    moments: BTreeMap<usize, Vec<u8>>,
}

impl SystemPlan {
    /// Which rows it asks for with these values.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statement.
    pub(super) fn wanted(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Wanted, CqlError> {
        check_count(values, self.markers)?;
        let mut conditions = Vec::new();
        for (column, choice) in &self.conditions {
            let values = choice.resolve(values, context)?;
            let values: BTreeSet<Vec<u8>> = values.into_iter().map(|(_, value)| value).collect();
            conditions.push((*column, values));
        }
        let limit = match &self.limit {
            Some(slot) => positive(slot, values, context)?,
            None => None,
        };
        let rows_max = limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(u32::MAX);
        let mut moments = BTreeMap::new();
        for (at, source) in self.columns.iter().flatten().enumerate() {
            if let SystemSource::Moment(function) = source
                && let Some(value) = call(*function, &Operand::Null, values, context)?
            {
                moments.insert(at, value);
            }
        }
        Ok(Wanted { conditions, rows_max, now_us: context.now_us, moments })
    }

    /// Appends rows until all are there, which it tells, or the time is over.
    ///
    /// # Errors
    /// The result would be too large.
    pub(super) fn put_rows(
        &self,
        (catalog, node): (&Catalog, &NodeInfo),
        wanted: &Wanted,
        place: &mut ListPlace,
        time: &mut TimeSlice<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, CqlError> {
        // Drivers ask for one table after each change of the schema, which may have thousands.
        let is_wanted = |name: &str, text: &str| {
            let is_named = |column: usize| self.table.columns[column].name == name;
            let mut conditions = wanted.conditions.iter().filter(|(column, _)| is_named(*column));
            conditions.all(|(_, values)| values.contains(text.as_bytes()))
        };
        let suits = |row: &system::Row| {
            wanted.conditions.iter().all(|(column, values)| match row.get(*column) {
                Some(Some(value)) => values.contains(value),
                _ => false,
            })
        };
        let about = (&*self.table, catalog, node);
        for part in system::parts(about, wanted.now_us, &is_wanted, place.looked_at) {
            if time.is_over() {
                return Ok(false);
            }
            place.looked_at += 1;
            let before = out.len();
            for row in part {
                time.count(ROW_COST_BYTES);
                if !suits(&row) {
                    continue;
                }
                if let Some(columns) = &self.columns {
                    if place.rows == wanted.rows_max {
                        return Ok(true);
                    }
                    for (at, source) in columns.iter().enumerate() {
                        let value = match source {
                            SystemSource::Column(column) => {
                                row.get(*column).and_then(Option::as_deref)
                            }
                            SystemSource::Moment(_) => wanted.moments.get(&at).map(Vec::as_slice),
                        };
                        collection::put_item(out, value);
                    }
                }
                place.rows += 1;
            }
            check_result(out.len())?;
            time.count(out.len() - before);
        }
        if self.columns.is_none() {
            let count = i64::from(std::mem::replace(&mut place.rows, 1));
            collection::put_item(out, Some(&count.to_be_bytes()));
        }
        Ok(true)
    }
}

/// Making a row, with a text for each of its columns, takes as long as moving so many bytes.
const ROW_COST_BYTES: usize = 2 << 10;
