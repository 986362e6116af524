//! Writes to counters: what a statement says → what is added to them.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Assigned, Using},
        prepare::{binder::Binder, elements, plan::Increment},
    },
    schema::Column,
};

/// Plans what `SET` adds to a counter.
pub(super) fn increment(
    column: &Column,
    assigned: &Assigned,
    binder: &mut Binder,
) -> Result<Increment, CqlError> {
    let (minus, value) = match assigned {
        Assigned::Added(value) => (false, value),
        Assigned::Subtracted(value) => (true, value),
        Assigned::Value(value) => {
            binder.of_column(value, column)?;
            return invalid(format!(
                "Cannot set the value of counter column {} (counters can only be \
                 incremented/decremented, not set)",
                column.name
            ));
        }
        Assigned::Prepended(_) | Assigned::Element(..) | Assigned::Field(..) => {
            elements::assign(column, assigned, binder)?;
            return invalid(format!("Invalid operation for counter column {}", column.name));
        }
    };
    let value = binder.of_column(value, column)?;
    Ok(Increment { column: column.number, is_static: column.is_static(), minus, value })
}

/// Checks what is said of a write to counters besides their sums.
pub(super) fn check(using: &Using) -> Result<(), CqlError> {
    if using.timestamp.is_some() {
        return invalid("Cannot provide custom timestamp for counter updates");
    }
    if using.ttl.is_some() {
        return invalid("Cannot provide custom TTL for counter updates");
    }
    Ok(())
}
