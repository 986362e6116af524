//! INSERT, UPDATE and DELETE: statement and table → [`WritePlan`].

use crate::{
    cql::{
        error::CqlError,
        parse::ast::{
            Delete, Insert, Modification, Operator, Relation, Target, Term, Update, Using,
        },
        prepare::{
            binder::{Binder, column},
            input::BoundValue,
            plan::{Action, WritePlan},
        },
    },
    schema::{Column, ColumnKind, Table, system::is_system},
    types::CqlType,
};

pub(super) fn prepare(
    table: &Table,
    write: &Modification,
    binder: &mut Binder,
) -> Result<WritePlan, CqlError> {
    if is_system(&table.keyspace) {
        return Err(CqlError::invalid(format!(
            "System keyspace '{}' is not user-modifiable",
            table.keyspace
        )));
    }
    let mut plan = WritePlan {
        table: table.number,
        action: Action::Insert,
        partition_key: Vec::new(),
        clustering: Vec::new(),
        cells: Vec::new(),
        timestamp: None,
        ttl: None,
        default_ttl_s: table.options.default_ttl_s,
        markers: 0,
    };
    match write {
        Modification::Insert(insert) => prepare_insert(table, insert, binder, &mut plan)?,
        Modification::Update(update) => prepare_update(table, update, binder, &mut plan)?,
        Modification::Delete(delete) => prepare_delete(table, delete, binder, &mut plan)?,
    }
    plan.cells.sort_by_key(|(number, _)| *number);
    Ok(plan)
}

fn using(using: &Using, binder: &mut Binder, plan: &mut WritePlan) -> Result<(), CqlError> {
    if let Some(term) = &using.timestamp {
        plan.timestamp = Some(binder.slot(term, "[timestamp]", &CqlType::Bigint)?);
    }
    if let Some(term) = &using.ttl {
        plan.ttl = Some(binder.slot(term, "[ttl]", &CqlType::Int)?);
    }
    Ok(())
}

fn prepare_insert(
    table: &Table,
    insert: &Insert,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    let mut keys: Vec<(&Column, BoundValue)> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (name, term) in &insert.values {
        let column = column(table, name)?;
        if seen.contains(&name.as_str()) {
            return Err(CqlError::invalid("The column names contains duplicates"));
        }
        seen.push(name);
        let slot = binder.of_column(term, column)?;
        if column.kind == ColumnKind::Regular {
            plan.cells.push((column.number, slot));
        } else {
            keys.push((column, slot));
        }
    }
    using(&insert.using, binder, plan)?;
    place_keys(table, keys, plan)?;
    require_clustering(table, plan)
}

fn prepare_update(
    table: &Table,
    update: &Update,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    plan.action = Action::Update;
    using(&update.using, binder, plan)?;
    for (name, term) in &update.values {
        let column = column(table, name)?;
        if column.kind != ColumnKind::Regular {
            return Err(CqlError::invalid(format!("PRIMARY KEY part {name} found in SET part")));
        }
        if plan.cells.iter().any(|(number, _)| *number == column.number) {
            return Err(CqlError::syntax(format!(
                "Multiple incompatible setting of column {name}"
            )));
        }
        let slot = binder.of_column(term, column)?;
        plan.cells.push((column.number, slot));
    }
    let keys = keys_of(table, &update.relations, "UPDATE", binder)?;
    place_keys(table, keys, plan)?;
    require_clustering(table, plan)
}

fn prepare_delete(
    table: &Table,
    delete: &Delete,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    using(&delete.using, binder, plan)?;
    for name in &delete.columns {
        let column = column(table, name)?;
        if column.kind != ColumnKind::Regular {
            return Err(CqlError::invalid(format!(
                "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
            )));
        }
        if plan.cells.iter().all(|(number, _)| *number != column.number) {
            let slot =
                binder.of_column(&Term::Literal(crate::types::literal::Literal::Null), column)?;
            plan.cells.push((column.number, slot));
        }
    }
    let keys = keys_of(table, &delete.relations, "DELETE", binder)?;
    place_keys(table, keys, plan)?;
    plan.action = if !delete.columns.is_empty() {
        if plan.clustering.len() < table.clustering().len() {
            let text = "Range deletions are not supported for specific columns";
            return Err(CqlError::invalid(text));
        }
        Action::Update
    } else if plan.clustering.is_empty() {
        Action::DeletePartition
    } else if plan.clustering.len() < table.clustering().len() {
        return Err(CqlError::unsupported("Deleting a range of rows is"));
    } else {
        Action::DeleteRow
    };
    Ok(())
}

/// The key columns that a `WHERE` gives values to.
fn keys_of<'a>(
    table: &'a Table,
    relations: &[Relation],
    verb: &str,
    binder: &mut Binder,
) -> Result<Vec<(&'a Column, BoundValue)>, CqlError> {
    let mut keys: Vec<(&Column, BoundValue)> = Vec::new();
    let mut others = Vec::new();
    for relation in relations {
        let name = match &relation.target {
            Target::Column(name) => name,
            Target::Token(_) => {
                return Err(CqlError::invalid(format!(
                    "The token function cannot be used in WHERE clauses for {verb} statements"
                )));
            }
            Target::Columns(_) => {
                return Err(CqlError::unsupported("A condition on several columns of a write is"));
            }
        };
        let column = column(table, name)?;
        if column.kind == ColumnKind::Regular {
            others.push(name.as_str());
            continue;
        }
        match relation.operator {
            Operator::Eq => {}
            Operator::In => return Err(CqlError::unsupported("IN in a write is")),
            _ if column.kind == ColumnKind::PartitionKey => {
                return Err(CqlError::invalid(format!(
                    "Only EQ and IN relation are supported on the partition key (unless you use \
                     the token() function) for {verb} statements"
                )));
            }
            _ => return Err(CqlError::unsupported("Writing to a range of rows is")),
        }
        if keys.iter().any(|(other, _)| other.name == *name) {
            return Err(CqlError::invalid(format!(
                "{name} cannot be restricted by more than one relation if it includes an Equal"
            )));
        }
        keys.push((column, binder.of_column(&relation.value, column)?));
    }
    if !others.is_empty() {
        return Err(CqlError::invalid(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        )));
    }
    Ok(keys)
}

/// Puts key values in the order of the key; the partition key must be whole.
fn place_keys(
    table: &Table,
    mut keys: Vec<(&Column, BoundValue)>,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    let mut take = |column: &Column| {
        let at = keys.iter().position(|(other, _)| other.name == column.name)?;
        Some(keys.remove(at).1)
    };
    let mut missing = Vec::new();
    for column in table.partition_key() {
        match take(column) {
            Some(slot) => plan.partition_key.push(slot),
            None => missing.push(column.name.as_str()),
        }
    }
    if !missing.is_empty() {
        return Err(CqlError::invalid(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        )));
    }
    let mut gap: Option<&Column> = None;
    for column in table.clustering() {
        match (take(column), gap) {
            (Some(slot), None) => plan.clustering.push(slot),
            (Some(_), Some(gap)) => {
                return Err(CqlError::invalid(format!(
                    "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" \
                     is not restricted",
                    column.name, gap.name
                )));
            }
            (None, None) => gap = Some(column),
            (None, Some(_)) => {}
        }
    }
    Ok(())
}

fn require_clustering(table: &Table, plan: &WritePlan) -> Result<(), CqlError> {
    let missing: Vec<&str> = table
        .clustering()
        .iter()
        .skip(plan.clustering.len())
        .map(|column| column.name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CqlError::invalid(format!("Some clustering keys are missing: {}", missing.join(", "))))
}
