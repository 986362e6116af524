//! What CREATE TABLE and ALTER TABLE ask of a column.

use super::{Column, ColumnKind, SchemaError, Table, ddl::NewColumn};
use crate::types::{
    CqlType,
    parse::{Declared, TypeScope},
};

/// Most columns of a table, so that a row's number of cells always fits its field.
pub(super) const COLUMNS_MAX: usize = 10_000;

pub(super) fn invalid<T>(text: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(text.into()))
}

/// The type of a new column, if a table can have it.
pub(super) fn check_type(
    column: &NewColumn,
    scope: TypeScope<'_>,
) -> Result<Declared, SchemaError> {
    let declared = column.ty.declared(scope).map_err(SchemaError::Invalid)?;
    if let CqlType::Udt(of) = &declared.ty
        && !declared.frozen
        && of.fields().iter().any(|field| field.ty.is_collection() && !field.frozen)
    {
        return invalid("Non-frozen UDTs with nested non-frozen collections are not supported");
    }
    Ok(declared)
}

/// What a table of counters may not have.
pub(super) fn check_counters(table: &Table) -> Result<(), SchemaError> {
    if table.is_counter() && table.options.default_ttl_s != 0 {
        return invalid("Cannot set default_time_to_live on a table with counters");
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
pub(super) fn column_of_cells(new: &NewColumn, declared: Declared, number: u16) -> Column {
    let Declared { ty, frozen } = declared;
    let kind = if new.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    Column { name: new.name.clone(), kind, number, ty, frozen, descending: false }
}
