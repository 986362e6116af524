//! What CREATE TABLE and ALTER TABLE ask of a column.

use super::{Column, ColumnKind, SchemaError};
use crate::types::parse::Declared;

/// Most columns of a table, so that a row's number of cells always fits its field.
pub(super) const COLUMNS_MAX: usize = 10_000;

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(text.into()))
}

pub(super) fn check_type(table: &str, name: &str, declared: &Declared) -> Result<(), SchemaError> {
    if declared.ty.is_collection() && !declared.frozen {
        return unsupported(&format!(
            "Non-frozen collections (column {name} of table {table}; declare it frozen<{}>) are",
            declared.ty.unfrozen_name()
        ));
    }
    if declared.ty == crate::types::CqlType::Counter {
        return unsupported(&format!("Counters (column {name} of table {table}) are"));
    }
    Ok(())
}

pub(super) fn regular_column(name: String, declared: Declared, number: u16) -> Column {
    let Declared { ty, frozen } = declared;
    Column { name, kind: ColumnKind::Regular, number, ty, frozen, descending: false }
}

fn unsupported<T>(what: &str) -> Result<T, SchemaError> {
    invalid(format!("{what} not supported yet by Sandglass"))
}
