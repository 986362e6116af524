//! What CREATE TABLE and ALTER TABLE ask of a column.

use super::{Column, ColumnKind, SchemaError, ddl::NewColumn};
use crate::types::parse::Declared;

/// Most columns of a table, so that a row's number of cells always fits its field.
pub(super) const COLUMNS_MAX: usize = 10_000;

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(text.into()))
}

pub(super) fn check_type(table: &str, name: &str, declared: &Declared) -> Result<(), SchemaError> {
    if let Some(name) = &declared.unfrozen_inside {
        return invalid(format!(
            "Non-frozen collections are not allowed inside collections: {name}"
        ));
    }
    if declared.ty == crate::types::CqlType::Counter {
        return unsupported(&format!("Counters (column {name} of table {table}) are"));
    }
    Ok(())
}

/// Static columns are told apart from the others by what clustering columns are there for.
pub(super) fn check_static(has_clustering: bool) -> Result<(), SchemaError> {
    if has_clustering {
        return Ok(());
    }
    invalid(
        "Static columns are only useful (and thus allowed) if the table has at least one \
         clustering column",
    )
}

/// A column that has cells.
pub(super) fn column_of_cells(new: NewColumn, number: u16) -> Column {
    let NewColumn { name, declared: Declared { ty, frozen, .. }, is_static } = new;
    let kind = if is_static { ColumnKind::Static } else { ColumnKind::Regular };
    Column { name, kind, number, ty, frozen, descending: false }
}

fn unsupported<T>(what: &str) -> Result<T, SchemaError> {
    invalid(format!("{what} not supported yet by Sandglass"))
}
