//! A statement and the schema → a plan: names are looked up and types settled.

mod binder;
mod conditions;
mod contains;
mod counters;
mod describe;
mod elements;
mod guard;
pub(in crate::cql) mod input;
mod named_rows;
pub(in crate::cql) mod purpose;
mod requirement;
mod restrictions;
pub(in crate::cql) mod plan;
mod select;
mod selected;
mod selected_field;
mod selection;
mod several_columns;
pub(in crate::cql) mod source;
mod system;
mod write;

use crate::{
    cql::{
        error::CqlError,
        parse::ast::{BatchStatement, BatchWord, Statement},
    },
    schema::{Catalog, Table, TableName},
    types::CqlType,
};
use binder::{Binder, routing, routing_of};
use describe::prepare_describe;
use plan::{BatchPlan, Plan, Prepared, WritePlan};
use std::sync::Arc;

/// Plans a statement. `keyspace` is the one in use on the connection.
///
/// # Errors
/// In Cassandra's words, if the statement makes no sense with the schema as it is.
pub fn prepare(
    catalog: &Catalog,
    keyspace: Option<&str>,
    statement: Statement,
) -> Result<Prepared, CqlError> {
    let prepared = plan_of(catalog, keyspace, statement)?;
    prepared.check_metadata()?;
    Ok(prepared)
}

fn plan_of(
    catalog: &Catalog,
    keyspace: Option<&str>,
    statement: Statement,
) -> Result<Prepared, CqlError> {
    match statement {
        Statement::Select(select) => {
            let table = find(catalog, keyspace, &select.from)?;
            select::prepare(table, &select)
        }
        Statement::Modify(write) => {
            let table = find(catalog, keyspace, write.table())?;
            let mut binder = Binder::default();
            let mut plan = write::prepare(table, &write, &mut binder)?;
            let (constant_bytes, bind) = (binder.constant_bytes(), binder.finish());
            plan.markers = bind.len();
            Ok(Prepared {
                bind,
                constant_bytes,
                pk_indexes: routing_of_write(&plan),
                depends: vec![table.table_version()],
                ..Prepared::new(Plan::Write(plan), &table.keyspace, &table.name)
            })
        }
        Statement::Batch(batch) => prepare_batch(catalog, keyspace, &batch),
        Statement::Use(name) => {
            if !catalog.has_keyspace(&name) {
                return Err(CqlError::invalid(format!("Keyspace '{name}' does not exist")));
            }
            Ok(Prepared::new(Plan::Use(name), "", ""))
        }
        Statement::Ddl(mut ddl) => {
            if let Some(name) = ddl.name_mut()
                && name.keyspace.is_none()
            {
                name.keyspace = Some(keyspace.ok_or_else(no_keyspace)?.to_string());
            }
            Ok(Prepared::new(Plan::Ddl(ddl), "", ""))
        }
        Statement::Describe(describe) => Ok(prepare_describe(keyspace, describe)),
    }
}

fn routing_of_write(plan: &WritePlan) -> Vec<u16> {
    match &plan.many {
        None => routing(&plan.partition_key),
        Some(many) => routing_of(&many.partitions),
    }
}

fn no_keyspace() -> CqlError {
    CqlError::invalid(
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
    )
}

fn find<'a>(
    catalog: &'a Catalog,
    keyspace: Option<&str>,
    name: &TableName,
) -> Result<&'a Arc<Table>, CqlError> {
    let keyspace = name.keyspace.as_deref().or(keyspace).ok_or_else(no_keyspace)?;
    Ok(catalog.table(keyspace, &name.name)?)
}

/// Checks what writes may be in one batch.
///
/// # Errors
/// In Cassandra's words, if these may not.
pub fn check_batch<'a>(
    kind: BatchWord,
    has_timestamp: bool,
    writes: impl IntoIterator<Item = &'a WritePlan>,
) -> Result<(), CqlError> {
    let (mut counters, mut others, mut conditions) = (false, false, false);
    let (mut table, mut spans_tables, mut timestamps) = (None, false, false);
    for write in writes {
        counters |= write.is_counter();
        others |= !write.is_counter();
        conditions |= write.is_conditional();
        spans_tables |= *table.get_or_insert(write.table) != write.table;
        timestamps |= write.timestamp.is_some();
    }
    let is_counter = kind == BatchWord::Counter;
    let refused = if has_timestamp && conditions {
        "Cannot provide custom timestamp for conditional BATCH"
    } else if has_timestamp && is_counter {
        "Cannot provide custom timestamp for counter BATCH"
    } else if has_timestamp && timestamps {
        "Timestamp must be set either on BATCH or individual statements"
    } else if has_timestamp && counters {
        "Cannot provide custom timestamp for a BATCH containing counters"
    } else if is_counter && others {
        "Cannot include non-counter statement in a counter batch"
    } else if counters && others {
        "Counter and non-counter mutations cannot exist in the same batch"
    } else if kind == BatchWord::Logged && counters {
        "Cannot include a counter statement in a logged batch"
    } else if conditions && spans_tables {
        "Batch with conditions cannot span multiple tables"
    } else {
        return Ok(());
    };
    Err(CqlError::invalid(refused))
}

fn prepare_batch(
    catalog: &Catalog,
    keyspace: Option<&str>,
    batch: &BatchStatement,
) -> Result<Prepared, CqlError> {
    let mut binder = Binder::default();
    let (mut writes, mut depends) = (Vec::new(), Vec::new());
    let (mut first, mut pk_indexes) = (None, Vec::new());
    for write in &batch.writes {
        let table = find(catalog, keyspace, write.table())?;
        let plan = write::prepare(table, write, &mut binder)?;
        if writes.is_empty() {
            first = Some(table);
            pk_indexes = routing_of_write(&plan);
        }
        depends.push(table.table_version());
        writes.push(plan);
    }
    let timestamp = match &batch.using.timestamp {
        Some(term) => Some(binder.slot(term, "[timestamp]", &CqlType::Bigint)?),
        None => None,
    };
    if batch.using.ttl.is_some() {
        return Err(CqlError::invalid("Global TTL on the BATCH statement is not supported."));
    }
    check_batch(batch.kind, timestamp.is_some(), &writes)?;
    depends.dedup();
    let (constant_bytes, bind) = (binder.constant_bytes(), binder.finish());
    let (kind, markers) = (batch.kind, bind.len());
    let plan = Plan::Batch(BatchPlan { kind, writes, timestamp, markers });
    let (keyspace, table) =
        first.map_or(("", ""), |table| (table.keyspace.as_str(), table.name.as_str()));
    let made = Prepared::new(plan, keyspace, table);
    Ok(Prepared { bind, pk_indexes, constant_bytes, depends, ..made })
}
