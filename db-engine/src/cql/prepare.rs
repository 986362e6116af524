//! A statement and the schema → a plan: names are looked up and types settled.

use super::{
    ast::{Batch, Statement, Term},
    batch::BatchPlan,
    error::CqlError,
    plan::{ColumnSpec, Function, Operand, Plan, Prepared, Slot},
    prepare_select, prepare_write,
};
use crate::{
    schema::{Catalog, Column, Table, TableName},
    types::{CqlType, literal},
};
use md5::{Digest, Md5};
use std::sync::Arc;

/// The identifier of a prepared statement, the same on every connection and after every restart:
/// MD5 of keyspace and text, as Cassandra makes it.
#[must_use]
pub fn prepared_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or_default().as_bytes());
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// Plans a statement. `keyspace` is the one in use on the connection.
///
/// # Errors
/// In Cassandra's words, if the statement makes no sense with the schema as it is.
pub fn prepare(
    catalog: &Catalog,
    keyspace: Option<&str>,
    statement: Statement,
) -> Result<Prepared, CqlError> {
    match statement {
        Statement::Select(select) => {
            let table = find(catalog, keyspace, &select.from)?;
            prepare_select::prepare(table, &select)
        }
        Statement::Modify(write) => {
            let table = find(catalog, keyspace, write.table())?;
            let mut binder = Binder::default();
            let plan = prepare_write::prepare(table, &write, &mut binder)?;
            let pk_indexes = routing(&plan.partition_key);
            let mut prepared = Prepared {
                pk_indexes,
                plan: Plan::Write(plan),
                ..nothing(&table.keyspace, &table.name)
            };
            prepared.depends = vec![table.table_version()];
            prepared.bind = binder.finish();
            if let Plan::Write(plan) = &mut prepared.plan {
                plan.markers = prepared.bind.len();
            }
            Ok(prepared)
        }
        Statement::Batch(batch) => prepare_batch(catalog, keyspace, &batch),
        Statement::Use(name) => {
            if !catalog.has_keyspace(&name) {
                return Err(CqlError::invalid(format!("Keyspace '{name}' does not exist")));
            }
            Ok(Prepared { plan: Plan::Use(name), ..nothing("", "") })
        }
        Statement::Ddl(mut ddl) => {
            if let Some(name) = ddl.table_mut()
                && name.keyspace.is_none()
            {
                name.keyspace = Some(keyspace.ok_or_else(no_keyspace)?.to_string());
            }
            Ok(Prepared { plan: Plan::Ddl(ddl), ..nothing("", "") })
        }
    }
}

fn no_keyspace() -> CqlError {
    CqlError::invalid(
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
    )
}

/// A plan without markers and rows; the plan itself is to be replaced.
pub(super) fn nothing(keyspace: &str, table: &str) -> Prepared {
    Prepared {
        plan: Plan::Use(String::new()),
        bind: Vec::new(),
        pk_indexes: Vec::new(),
        result: Vec::new(),
        keyspace: keyspace.to_string(),
        table: table.to_string(),
        depends: Vec::new(),
    }
}

fn find<'a>(
    catalog: &'a Catalog,
    keyspace: Option<&str>,
    name: &TableName,
) -> Result<&'a Arc<Table>, CqlError> {
    let keyspace = name.keyspace.as_deref().or(keyspace).ok_or_else(no_keyspace)?;
    Ok(catalog.table(keyspace, &name.name)?)
}

fn prepare_batch(
    catalog: &Catalog,
    keyspace: Option<&str>,
    batch: &Batch,
) -> Result<Prepared, CqlError> {
    let mut binder = Binder::default();
    let timestamp = match &batch.using.timestamp {
        Some(term) => Some(binder.slot(term, "[timestamp]", &CqlType::Bigint)?),
        None => None,
    };
    if batch.using.ttl.is_some() {
        return Err(CqlError::invalid("Global TTL on the BATCH statement is not supported."));
    }
    let (mut writes, mut depends) = (Vec::new(), Vec::new());
    let mut prepared = nothing("", "");
    for write in &batch.writes {
        if timestamp.is_some() && write.using().timestamp.is_some() {
            return Err(CqlError::invalid(
                "Timestamp must be set either on BATCH or individual statements",
            ));
        }
        let table = find(catalog, keyspace, write.table())?;
        let plan = prepare_write::prepare(table, write, &mut binder)?;
        if writes.is_empty() {
            prepared = nothing(&table.keyspace, &table.name);
            prepared.pk_indexes = routing(&plan.partition_key);
        }
        depends.push(table.table_version());
        writes.push(plan);
    }
    depends.dedup();
    let bind = binder.finish();
    let (unlogged, markers) = (batch.unlogged, bind.len());
    let plan = Plan::Batch(BatchPlan { unlogged, writes, timestamp, markers });
    Ok(Prepared { plan, bind, depends, ..prepared })
}

/// Which marker gives the value of each column of the partition key; empty unless all do.
pub(super) fn routing(slots: &[Slot]) -> Vec<u16> {
    let bound = |slot: &Slot| match slot.operand {
        Operand::Bound(index) => Some(index),
        _ => None,
    };
    let all: Option<Vec<u16>> = slots.iter().map(bound).collect();
    all.unwrap_or_default()
}

/// Finds a column that a statement names.
pub(super) fn column<'a>(table: &'a Table, name: &str) -> Result<&'a Column, CqlError> {
    table.column(name).ok_or_else(|| {
        let table = format!("{}.{}", table.keyspace, table.name);
        CqlError::invalid(format!("Undefined column name {name} in table {table}"))
    })
}

/// Gives terms their types, and remembers what each bind marker stands for.
#[derive(Default)]
pub(super) struct Binder {
    specs: Vec<Option<ColumnSpec>>,
}

impl Binder {
    /// A value for something of this name and type.
    pub(super) fn slot(&mut self, term: &Term, name: &str, ty: &CqlType) -> Result<Slot, CqlError> {
        let operand = self.operand(term, name, ty)?;
        Ok(Slot { name: name.to_string(), ty: ty.clone(), descending: false, operand })
    }

    /// A value for a column.
    pub(super) fn of_column(&mut self, term: &Term, column: &Column) -> Result<Slot, CqlError> {
        let mut slot = self.slot(term, &column.name, &column.ty)?;
        slot.descending = column.descending;
        Ok(slot)
    }

    /// The markers, in their order.
    pub(super) fn finish(self) -> Vec<ColumnSpec> {
        self.specs.into_iter().flatten().collect()
    }

    fn operand(&mut self, term: &Term, name: &str, ty: &CqlType) -> Result<Operand, CqlError> {
        match term {
            Term::Marker { index, name: own } => {
                let at = usize::from(*index);
                if self.specs.len() <= at {
                    self.specs.resize(at + 1, None);
                }
                let name = own.as_deref().unwrap_or(name).to_string();
                if let Some(spec) = self.specs.get_mut(at) {
                    *spec = Some(ColumnSpec { name, ty: ty.clone() });
                }
                Ok(Operand::Bound(*index))
            }
            Term::Literal(value) => Ok(match literal::encode(ty, value, name)? {
                Some(bytes) => Operand::Constant(bytes),
                None => Operand::Null,
            }),
            Term::Tuple(items) => match items.as_slice() {
                [item] => self.operand(item, name, ty),
                _ => Err(CqlError::unsupported("Bind markers and functions inside a tuple are")),
            },
            Term::Call { name: function, arguments } => self.call(function, arguments, name, ty),
        }
    }

    fn call(
        &mut self,
        function: &str,
        arguments: &[Term],
        name: &str,
        ty: &CqlType,
    ) -> Result<Operand, CqlError> {
        let found =
            of_now(function, arguments).or_else(|| Function::find(function, arguments.len()));
        let Some((found, gives)) = found else {
            return Err(CqlError::invalid(format!("Unknown function {function} called")));
        };
        let suits = gives == *ty || (gives == CqlType::Timeuuid && *ty == CqlType::Uuid);
        if !suits {
            return Err(CqlError::invalid(format!(
                "Type error: cannot assign result of function system.{function} (type {gives}) to \
                 {name} (type {ty})"
            )));
        }
        let argument = match (found, arguments) {
            (Function::MinTimeuuid | Function::MaxTimeuuid, [argument]) => {
                let of = format!("arg0(system.{function})");
                self.operand(argument, &of, &CqlType::Timestamp)?
            }
            _ => Operand::Null,
        };
        Ok(Operand::Call(found, Box::new(argument)))
    }
}

/// `toTimestamp(now())` and its like: a function of this moment.
fn of_now(function: &str, arguments: &[Term]) -> Option<(Function, CqlType)> {
    match arguments {
        [Term::Call { name, arguments }] if name == "now" && arguments.is_empty() => {}
        _ => return None,
    }
    Some(match function {
        "totimestamp" | "to_timestamp" | "dateof" => (Function::Timestamp, CqlType::Timestamp),
        "tounixtimestamp" | "to_unix_timestamp" | "unixtimestampof" => {
            (Function::Timestamp, CqlType::Bigint)
        }
        "todate" | "to_date" => (Function::Date, CqlType::Date),
        _ => return None,
    })
}
