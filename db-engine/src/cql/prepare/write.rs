//! INSERT, UPDATE and DELETE: statement and table → [`WritePlan`].

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{
            Assigned, Delete, Deleted, IfClause, Insert, Modification, Operator, Relation, Update,
            Using,
        },
        prepare::{
            binder::{Binder, column},
            conditions::Sorter,
            counters, elements, guard,
            input::{BoundValue, ElementsWrite},
            named_rows::Verb,
            plan::{Action, Prior, RowChanges, WritePlan},
        },
    },
    schema::{Column, ColumnKind, Table, system::is_system},
    types::CqlType,
};
use std::{collections::BTreeSet, sync::Arc};

pub(super) fn prepare(
    table: &Arc<Table>,
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
        many: None,
        has_row: true,
        changes: RowChanges::default(),
        static_changes: RowChanges::default(),
        timestamp: None,
        ttl: None,
        default_ttl_s: table.options.default_ttl_s,
        increments: Vec::new(),
        prior: None,
        markers: 0,
    };
    // What is wrong is told in Cassandra's order: `USING`, `IF`, what is written, and where.
    using(write.using(), binder, &mut plan)?;
    let guard = guard::prepare(table, write, binder)?;
    match write {
        Modification::Insert(insert) => prepare_insert(table, insert, binder, &mut plan)?,
        Modification::Update(update) => prepare_update(table, update, binder, &mut plan)?,
        Modification::Delete(delete) => prepare_delete(table, delete, binder, &mut plan)?,
    }
    for changes in [&mut plan.changes, &mut plan.static_changes] {
        changes.cells.sort_by_key(|(number, _)| *number);
        changes.elements.sort_by_key(|(number, _)| *number);
    }
    plan.increments.sort_by_key(|increment| increment.column);
    guard::check(table, write)?;
    let reads = plan.changes.reads() || plan.static_changes.reads();
    if guard.is_some() || reads || table.is_counter() {
        plan.prior = Some(Box::new(Prior::new(table, guard)));
    }
    if table.is_counter() {
        counters::check(write.using())?;
    }
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
    if table.is_counter() {
        return Err(CqlError::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    let mut names = insert.values.iter().map(|(name, _)| name);
    let mut seen = BTreeSet::new();
    if !names.all(|name| seen.insert(name)) {
        return Err(CqlError::invalid("The column names contains duplicates"));
    }
    let mut of_key = Vec::new();
    for (name, term) in &insert.values {
        let column = column(table, name)?;
        let Some(changes) = plan.changes_of(column) else {
            of_key.push((column, term));
            continue;
        };
        let slot = binder.of_column(term, column)?;
        if column.has_elements() {
            changes.elements.push((column.number, ElementsWrite::Replace(slot)));
        } else {
            changes.cells.push((column.number, slot));
        }
    }
    let keys = of_key
        .into_iter()
        .map(|(column, term)| Ok::<_, CqlError>((column, binder.of_column(term, column)?)));
    place_keys(table, keys.collect::<Result<_, _>>()?, plan)
}

fn prepare_update(
    table: &Table,
    update: &Update,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    plan.action = Action::Update;
    for (at, (name, assigned)) in update.values.iter().enumerate() {
        let column = column(table, name)?;
        let Some(changes) = plan.changes_of(column) else {
            return Err(CqlError::invalid(format!("PRIMARY KEY part {name} found in SET part")));
        };
        let is_value = |assigned: &Assigned| matches!(assigned, Assigned::Value(_));
        let mut before = update.values.iter().take(at).filter(|(other, _)| other == name);
        let is_same = |other: &Assigned| match (other, assigned) {
            (Assigned::Field(a, _), Assigned::Field(b, _)) => a == b,
            _ => is_value(other) || is_value(assigned),
        };
        if before.any(|(_, other)| is_same(other)) {
            return Err(CqlError::syntax(format!(
                "Multiple incompatible setting of column {name}"
            )));
        }
        match assigned {
            _ if column.ty == CqlType::Counter => {
                plan.increments.push(counters::increment(column, assigned, binder)?);
            }
            Assigned::Value(term) if !column.has_elements() => {
                changes.cells.push((column.number, binder.of_column(term, column)?));
            }
            assigned => {
                let change = elements::assign(column, assigned, binder)?;
                changes.elements.push((column.number, change));
            }
        }
    }
    place_relations(table, (&update.relations, &update.condition), Verb::Update, binder, plan)?;
    Ok(())
}

fn prepare_delete(
    table: &Table,
    delete: &Delete,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    for (name, part) in &delete.columns {
        let column = column(table, name)?;
        let Some(changes) = plan.changes_of(column) else {
            return Err(CqlError::invalid(format!(
                "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
            )));
        };
        if *part != Deleted::Whole {
            changes.elements.push((column.number, elements::remove(column, part, binder)?));
        } else if column.has_elements() {
            changes.elements.push((column.number, ElementsWrite::Clear));
        } else if changes.cells.iter().all(|(number, _)| *number != column.number) {
            changes.cells.push((column.number, Binder::null_of(column)));
        }
    }
    plan.action = if delete.columns.is_empty() { Action::DeleteRow } else { Action::Update };
    place_relations(table, (&delete.relations, &delete.condition), Verb::Delete, binder, plan)
}

impl WritePlan {
    /// What becomes of the kind of columns that this one is; none if it is part of the key.
    fn changes_of(&mut self, column: &Column) -> Option<&mut RowChanges> {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => None,
            ColumnKind::Static => Some(&mut self.static_changes),
            ColumnKind::Regular => Some(&mut self.changes),
        }
    }

    /// Whether it changes static columns and nothing else.
    fn is_static_only(&self) -> bool {
        let regular = self.increments.iter().any(|increment| !increment.is_static);
        let statics = self.increments.iter().any(|increment| increment.is_static);
        self.changes.is_empty() && !regular && (statics || !self.static_changes.is_empty())
    }
}

impl RowChanges {
    pub(in crate::cql) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.elements.is_empty()
    }

    /// Whether what is there must be known before.
    pub(in crate::cql) fn reads(&self) -> bool {
        self.elements.iter().any(|(_, change)| change.reads())
    }
}

/// Finds the rows that a `WHERE` names.
fn place_relations(
    table: &Table,
    (relations, condition): (&[Relation], &IfClause),
    verb: Verb,
    binder: &mut Binder,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    let mut sorter = Sorter::new(table, false);
    for relation in relations {
        if matches!(relation.operator, Operator::Contains | Operator::ContainsKey) {
            let (verb, operator) = (verb.text(), relation.operator.text());
            return invalid(format!("Cannot use {verb} with {operator}"));
        }
        sorter.add(relation, binder)?;
    }
    let names_columns = plan.action == Action::Update;
    plan.has_row = !plan.is_static_only();
    let is_static_only = !plan.has_row && !guard::asks_for_regular(table, condition);
    let rows = sorter.finish_write(verb, is_static_only)?;
    if !names_columns && !rows.ranges.restricts() {
        plan.action = Action::DeletePartition;
    }
    let names_range = names_columns && !is_static_only && rows.ranges.open;
    match rows.as_one() {
        Some(one) if !names_range => (plan.partition_key, plan.clustering) = one,
        _ => plan.many = Some(Box::new(rows)),
    }
    Ok(())
}

/// Puts key values in the order of the key. Without clustering columns an INSERT of static columns
/// writes to them alone.
fn place_keys(
    table: &Table,
    mut keys: Vec<(&Column, BoundValue)>,
    plan: &mut WritePlan,
) -> Result<(), CqlError> {
    let mut take = |columns: &[Column], into: &mut Vec<BoundValue>| {
        let mut missing = Vec::new();
        for column in columns {
            match keys.iter().position(|(other, _)| other.name == column.name) {
                Some(at) => into.push(keys.remove(at).1),
                None => missing.push(column.name.clone()),
            }
        }
        missing.join(", ")
    };
    let missing = take(table.partition_key(), &mut plan.partition_key);
    if !missing.is_empty() {
        return Err(CqlError::invalid(format!("Some partition key parts are missing: {missing}")));
    }
    let missing = take(table.clustering(), &mut plan.clustering);
    if missing.is_empty() {
        return Ok(());
    }
    plan.has_row = !(plan.clustering.is_empty() && plan.is_static_only());
    if plan.has_row {
        return Err(CqlError::invalid(format!("Some clustering keys are missing: {missing}")));
    }
    Ok(())
}
