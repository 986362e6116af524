//! Reads of system tables: their rows are made, filtered and projected at once.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            value::{check_count, positive},
        },
        prepare::plan::SystemPlan,
    },
    schema::{
        Catalog,
        system::{self, NodeInfo},
    },
    types::{Value, collection},
};
use std::collections::BTreeSet;

impl SystemPlan {
    /// Appends the rows of the result; says how many.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statement.
    pub fn execute(
        &self,
        catalog: &Catalog,
        node: &NodeInfo,
        values: &[Value<'_>],
        context: &BindContext,
        out: &mut Vec<u8>,
    ) -> Result<u32, CqlError> {
        check_count(values, self.markers)?;
        let mut wanted = Vec::new();
        for (column, choice) in &self.conditions {
            let values = choice.resolve(values, context)?;
            let values: BTreeSet<Vec<u8>> = values.into_iter().map(|(_, value)| value).collect();
            wanted.push((*column, values));
        }
        let limit = match &self.limit {
            Some(slot) => positive(slot, values, context)?,
            None => None,
        };
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        // Drivers ask for one table after each change of the schema, which may have thousands.
        let is_wanted = |name: &str, text: &str| {
            let is_named = |column: usize| self.table.columns[column].name == name;
            let mut conditions = wanted.iter().filter(|(column, _)| is_named(*column));
            conditions.all(|(_, values)| values.contains(text.as_bytes()))
        };
        let rows = system::rows(&self.table, catalog, node, context.now_us, &is_wanted);
        let matching = rows.iter().filter(|row| {
            wanted.iter().all(|(column, values)| match row.get(*column) {
                Some(Some(value)) => values.contains(value),
                _ => false,
            })
        });
        let Some(columns) = &self.columns else {
            let count = i64::try_from(matching.count()).unwrap_or(i64::MAX);
            collection::put_item(out, Some(&count.to_be_bytes()));
            return Ok(1);
        };
        let mut count = 0;
        for row in matching.take(limit) {
            for column in columns {
                let value = row.get(*column).and_then(Option::as_deref);
                collection::put_item(out, value);
            }
            count += 1;
        }
        Ok(count)
    }
}
