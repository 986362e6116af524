//! The `IF` of a write → what must be known of its row, and what must be so.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Delete, IfClause, IfRelation, Modification, Operator, Relation, Target},
        prepare::{
            binder::{Binder, column},
            conditions::choice,
            plan::{Choice, Guard, Prior, Requirement},
        },
    },
    schema::{Column, ColumnKind, Table},
    types::CqlType,
};
use std::sync::Arc;

const PARTIAL_DELETE: &str = "DELETE statements must restrict all PRIMARY KEY columns with \
     equality relations in order to delete non static columns";

/// Checks that a DELETE with an `IF` names rows, and not all of a partition.
pub(super) fn check_row(table: &Table, write: &Modification) -> Result<(), CqlError> {
    let Modification::Delete(Delete { relations, condition, .. }) = write else { return Ok(()) };
    if *condition == IfClause::Always {
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
    if has_partition && !table.clustering().iter().all(is_one) {
        return invalid(PARTIAL_DELETE);
    }
    Ok(())
}

/// What a write must know of its row before it can be made; `None` if nothing.
pub(super) fn prepare(
    table: &Arc<Table>,
    write: &Modification,
    binder: &mut Binder,
) -> Result<Option<Box<Prior>>, CqlError> {
    let is_static = |column: &Column| column.kind == ColumnKind::Static;
    if *write.condition() != IfClause::Always && table.columns.iter().any(is_static) {
        return Err(CqlError::unsupported("IF on a table with static columns is"));
    }
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

fn requirement(
    table: &Table,
    relation: &IfRelation,
    binder: &mut Binder,
) -> Result<Requirement, CqlError> {
    let found = column(table, &relation.column)?;
    let operator = relation.operator;
    if found.ty == CqlType::Counter {
        return invalid("Conditions on counters are not supported");
    }
    if found.has_elements() {
        let what = "A condition on a collection or a user-defined type that is not frozen is";
        return Err(CqlError::unsupported(what));
    }
    let orders = !matches!(operator, Operator::Eq | Operator::Ne | Operator::In);
    if orders && !found.ty.has_order() {
        let what = match found.ty {
            CqlType::Duration => {
                let operator = operator.text();
                return invalid(format!(
                    "Slice conditions ( {operator} ) are not supported on durations"
                ));
            }
            CqlType::Tuple(_) => "tuples",
            _ => "collections",
        };
        return invalid(format!(
            "Slice conditions are not supported on {what} containing durations"
        ));
    }
    let choice = match operator {
        Operator::In => choice(&relation.value, found, binder)?,
        _ => Choice::One(binder.of_column(&relation.value, found)?),
    };
    if matches!(found.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        let name = &found.name;
        return invalid(format!("PRIMARY KEY column '{name}' cannot have IF conditions"));
    }
    let at = table.columns.iter().position(|other| other.name == found.name);
    Ok(Requirement { column: at.unwrap_or_default(), operator, choice })
}
