//! The `IF` of a write → what must be known of its row, and what must be so.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Delete, IfClause, Modification, Operator, Relation, Target},
        prepare::{
            binder::Binder,
            plan::{Guard, Prior},
            requirement::requirement,
        },
    },
    schema::{Column, ColumnKind, Table},
};
use std::sync::Arc;

/// Whether an `IF` asks for values of regular columns.
pub(super) fn asks_for_regular(table: &Table, condition: &IfClause) -> bool {
    let IfClause::Columns(relations) = condition else { return false };
    let found = relations.iter().filter_map(|relation| table.column(&relation.column));
    found.into_iter().any(|column| column.kind == ColumnKind::Regular)
}

/// Checks that a DELETE with an `IF` names rows, unless it is about static columns alone.
pub(super) fn check_row(table: &Table, write: &Modification) -> Result<(), CqlError> {
    let Modification::Delete(delete) = write else { return Ok(()) };
    let Delete { columns, relations, condition, .. } = delete;
    if *condition == IfClause::Always || table.is_counter() {
        return Ok(());
    }
    let is_about = |relation: &Relation, column: &Column| match &relation.target {
        Target::Column(name) => *name == column.name,
        _ => false,
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

/// What a write must know of its row before it can be made; `None` if nothing.
pub(super) fn prepare(
    table: &Arc<Table>,
    write: &Modification,
    binder: &mut Binder,
) -> Result<Option<Box<Prior>>, CqlError> {
    let guard = match write.condition() {
        IfClause::Always if table.is_counter() => {
            return Ok(Some(Box::new(Prior::new(table, None))));
        }
        IfClause::Always => return Ok(None),
        IfClause::Exists => Guard::Exists,
        IfClause::NotExists => Guard::NotExists,
        IfClause::Columns(relations) => {
            let all = relations.iter().map(|relation| requirement(table, relation, binder));
            Guard::Columns(all.collect::<Result<_, _>>()?)
        }
    };
    if table.is_counter() {
        return invalid("Conditional updates are not supported on counter tables");
    }
    if write.using().timestamp.is_some() {
        return invalid("Cannot provide custom timestamp for conditional updates");
    }
    Ok(Some(Box::new(Prior::new(table, Some(guard)))))
}
