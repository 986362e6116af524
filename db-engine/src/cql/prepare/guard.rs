//! The `IF` of a write → what must be so.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Delete, IfClause, Modification, Operator, Relation, Target},
        prepare::{binder::Binder, plan::Guard, requirement::requirement},
    },
    schema::{Column, ColumnKind, Table},
};

/// Whether an `IF` asks for values of regular columns.
pub(super) fn asks_for_regular(table: &Table, condition: &IfClause) -> bool {
    let IfClause::Columns(relations) = condition else { return false };
    let found = relations.iter().filter_map(|relation| table.column(&relation.column));
    found.into_iter().any(|column| column.kind == ColumnKind::Regular)
}

/// What must be so for a write to happen, if it has an `IF`.
pub(super) fn prepare(
    table: &Table,
    write: &Modification,
    binder: &mut Binder,
) -> Result<Option<Guard>, CqlError> {
    Ok(Some(match write.condition() {
        IfClause::Always => return Ok(None),
        IfClause::Exists => Guard::Exists,
        IfClause::NotExists => Guard::NotExists,
        IfClause::Columns(relations) => {
            check_timestamp(write)?;
            let all = relations.iter().map(|relation| requirement(table, relation, binder));
            Guard::Columns(all.collect::<Result<_, _>>()?)
        }
    }))
}

fn check_timestamp(write: &Modification) -> Result<(), CqlError> {
    if write.using().timestamp.is_some() {
        return invalid("Cannot provide custom timestamp for conditional updates");
    }
    Ok(())
}

/// Checks what a write may be that has an `IF`.
pub(super) fn check(table: &Table, write: &Modification) -> Result<(), CqlError> {
    if *write.condition() == IfClause::Always {
        return Ok(());
    }
    if table.is_counter() {
        return invalid("Conditional updates are not supported on counter tables");
    }
    check_timestamp(write)?;
    check_row(table, write)
}

/// Checks that a DELETE with an `IF` names rows, unless it is about static columns alone.
fn check_row(table: &Table, write: &Modification) -> Result<(), CqlError> {
    let Modification::Delete(delete) = write else { return Ok(()) };
    let Delete { columns, relations, condition, .. } = delete;
    let is_about = |relation: &Relation, column: &Column| match &relation.target {
        Target::Column(name) => *name == column.name,
        Target::Columns(names) => names.contains(&column.name),
        Target::Entry(..) | Target::Token(_) => false,
    };
    let operator_of = |column: &Column| {
        let found = relations.iter().find(|relation| is_about(relation, column));
        found.map(|relation| relation.operator)
    };
    let is_one = |column| matches!(operator_of(column), Some(Operator::Eq | Operator::In));
    let has_partition = table.partition_key().iter().all(is_one);
    if !has_partition || table.clustering().iter().all(is_one) {
        return Ok(());
    }
    let is_static = |name: &str| table.column(name).is_some_and(Column::is_static);
    let purpose = if columns.is_empty() || !columns.iter().all(|(name, _)| is_static(name)) {
        "delete non static columns"
    } else if asks_for_regular(table, condition) {
        "use IF condition on non static columns"
    } else {
        return Ok(());
    };
    invalid(format!(
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order \
         to {purpose}"
    ))
}
