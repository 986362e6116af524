//! `ALTER TABLE`: a table and a change → the table after it.

use super::{
    Column, ColumnKind, DroppedColumn, SchemaError, Table,
    columns::{COLUMNS_MAX, check_counters, check_static, check_type, column_of_cells, invalid},
    ddl::{Alteration, NewColumn},
};
use crate::types::{
    CqlType,
    parse::{Declared, TypeScope},
};

pub(super) fn alter_table(
    table: &mut Table,
    change: &Alteration,
    scope: TypeScope<'_>,
    now_us: i64,
) -> Result<(), SchemaError> {
    match change {
        Alteration::Add { if_not_exists, columns } => {
            for column in columns {
                add_column(table, column, *if_not_exists, scope)?;
            }
            check_counters(table)
        }
        Alteration::Drop { if_exists, columns, timestamp_us } => {
            let dropped_us = timestamp_us.unwrap_or(now_us);
            for name in columns {
                let column = table.columns.iter().position(|column| column.name == *name);
                let found = column.and_then(|at| Some((at, table.columns.get(at)?.kind)));
                if let Some(column) = column.and_then(|at| table.columns.get(at))
                    && column.has_elements()
                    && !column.ty.is_collection()
                {
                    return invalid(format!(
                        "Cannot drop non-frozen column {name} of user type {}",
                        column.type_name()
                    ));
                }
                match found {
                    Some((at, kind @ (ColumnKind::Regular | ColumnKind::Static))) => {
                        let Column { ty, frozen, number, .. } = table.columns.remove(at);
                        let ty = ty.expanded();
                        let before = table.dropped.get(name);
                        let before = before.filter(|before| before.number == Some(number));
                        // What was dropped once does not come back.
                        let dropped_us =
                            before.map_or(dropped_us, |b| b.dropped_us.max(dropped_us));
                        let (is_static, number) = (kind == ColumnKind::Static, Some(number));
                        let dropped = DroppedColumn { ty, is_static, frozen, dropped_us, number };
                        table.dropped.insert(name.clone(), dropped);
                    }
                    Some(_) => {
                        return invalid(format!("Cannot drop PRIMARY KEY column {name}"));
                    }
                    None if *if_exists => {}
                    None => {
                        return invalid(format!(
                            "Column {name} was not found in table '{}.{}'",
                            table.keyspace, table.name
                        ));
                    }
                }
            }
            Ok(())
        }
        Alteration::Rename(pairs) => pairs.iter().try_for_each(|(a, b)| rename(table, a, b)),
        Alteration::With(properties) => {
            let mut options = table.options.clone();
            options.set(properties.clone())?;
            if properties.iter().any(|(name, _)| name == "id") {
                return Err(SchemaError::Config("Cannot alter table id.".into()));
            }
            table.options = options;
            check_counters(table)
        }
    }
}

fn add_column(
    table: &mut Table,
    new: &NewColumn,
    if_not_exists: bool,
    scope: TypeScope<'_>,
) -> Result<(), SchemaError> {
    let NewColumn { name, is_static, .. } = new;
    if table.column(name).is_some() {
        if if_not_exists {
            return Ok(());
        }
        return invalid(format!("Column with name '{name}' already exists"));
    }
    let declared = check_type(new, scope)?;
    if *is_static {
        check_static(!table.clustering().is_empty())?;
    }
    let dropped = table.dropped.get(name);
    if let Some(dropped) = dropped.filter(|column| !reads(&declared, column)) {
        return invalid(format!(
            "Cannot add a column '{name}' of type {}, incompatible with previously dropped column \
             '{name}' of type {}",
            declared.type_name(),
            dropped.type_name()
        ));
    }
    let (is_counter, full_name) =
        (declared.ty == CqlType::Counter, format!("{}.{}", table.keyspace, table.name));
    if is_counter && !table.is_counter() {
        return Err(SchemaError::Config(format!(
            "{full_name}: Cannot have a counter column (\"{name}\") in a non counter table"
        )));
    }
    if !is_counter && table.is_counter() {
        return Err(SchemaError::Config(format!(
            "{full_name}: Cannot have a non counter column (\"{name}\") in a counter table"
        )));
    }
    if is_counter && dropped.is_some() {
        return invalid(format!("Cannot re-add previously dropped counter column {name}"));
    }
    if let Some(dropped) = dropped.filter(|column| column.is_static != *is_static) {
        let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
        return invalid(format!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with \
             previous kind {}",
            kind(*is_static),
            kind(dropped.is_static)
        ));
    }
    let number = if let Some(number) = dropped.and_then(|column| column.number) {
        number
    } else {
        if usize::from(table.next_column) >= COLUMNS_MAX {
            return invalid(format!("Table '{}' has more than {COLUMNS_MAX} columns", table.name));
        }
        table.next_column += 1;
        table.next_column - 1
    };
    table.columns.push(column_of_cells(new, declared, number));
    table.sort_with_cells();
    Ok(())
}

/// Whether values of the old type are values of the new one, as Cassandra judges it: cells of a
/// dropped column that were written after it was dropped come back when it is added again.
fn reads(new: &Declared, old: &DroppedColumn) -> bool {
    let has_elements = |ty: &CqlType, frozen: bool| ty.is_collection() && !frozen;
    has_elements(&new.ty, new.frozen) == has_elements(&old.ty, old.frozen)
        && reads_type(&new.ty, &old.ty)
}

fn reads_type(new: &CqlType, old: &CqlType) -> bool {
    match (new, old) {
        _ if new == old => true,
        (CqlType::Text, CqlType::Ascii)
        | (CqlType::Uuid, CqlType::Timeuuid)
        | (CqlType::Bigint, CqlType::Timestamp)
        | (CqlType::Timestamp, CqlType::Bigint) => true,
        // Cassandra knows the length of these, and does not read them as bytes.
        (CqlType::Blob, old) => !matches!(
            old,
            CqlType::Boolean
                | CqlType::Bigint
                | CqlType::Timestamp
                | CqlType::Double
                | CqlType::Float
                | CqlType::Int
                | CqlType::Timeuuid
                | CqlType::Uuid
                | CqlType::List(_)
                | CqlType::Set(_)
                | CqlType::Map(..)
        ),
        (CqlType::List(new), CqlType::List(old)) => reads_type(new, old),
        (CqlType::Tuple(new), CqlType::Tuple(old)) => {
            new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| reads_type(new, old))
        }
        _ => false,
    }
}

fn rename(table: &mut Table, from: &str, to: &str) -> Result<(), SchemaError> {
    let name = format!("{}.{}", table.keyspace, table.name);
    match table.column(from) {
        None => return invalid(format!("Undefined column name {from} in table {name}")),
        Some(Column { kind: ColumnKind::Regular | ColumnKind::Static, .. }) => {
            return invalid(format!("Cannot rename non PRIMARY KEY column {from}"));
        }
        Some(_) => {}
    }
    if table.column(to).is_some() {
        return invalid(format!(
            "Cannot rename column {from} to {to} in table '{name}'; another column with that name \
             already exists"
        ));
    }
    if let Some(column) = table.columns.iter_mut().find(|column| column.name == from) {
        column.name = to.to_string();
    }
    Ok(())
}
