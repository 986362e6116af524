//! Statements with everything decided that can be decided before values are known.

use super::{
    batch::BatchPlan,
    error::CqlError,
    select::SelectPlan,
    system::SystemPlan,
    write::{WritePlan, put_key},
};
use crate::{
    mutation::token::token,
    schema::{Catalog, Ddl, TableVersion},
    types::{CqlType, Value, collection, validate::validate},
};
use std::borrow::Cow;

/// A bind marker or a column of a result, as clients are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Its name, as Cassandra would name it.
    pub name: String,
    /// The type of its values.
    pub ty: CqlType,
}

/// A statement that can be executed any number of times.
#[derive(Debug)]
pub struct Prepared {
    /// What is to be done.
    pub plan: Plan,
    /// The bind markers, in the order in which values are given.
    pub bind: Vec<ColumnSpec>,
    /// For each column of the partition key, which marker gives its value; empty if one is given
    /// otherwise. Drivers route by it.
    pub pk_indexes: Vec<u16>,
    /// The columns of the result; empty if there are no rows.
    pub result: Vec<ColumnSpec>,
    /// The keyspace of `bind` and `result`.
    pub keyspace: String,
    /// The table of `bind` and `result`.
    pub table: String,
    /// The tables that it was planned with.
    pub depends: Vec<TableVersion>,
}

impl Prepared {
    /// Whether it may still be executed. If not, answer `UNPREPARED`: the client prepares again
    /// and learns of the new columns.
    #[must_use]
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        self.depends.iter().all(|version| catalog.is_current(*version))
    }

    /// For values that come with names: for each marker, which of the values is meant.
    ///
    /// # Errors
    /// In Cassandra's words, if a marker is not named.
    pub fn order_of(&self, names: &[&str]) -> Result<Vec<usize>, CqlError> {
        let find = |spec: &ColumnSpec| {
            let found = names.iter().position(|name| *name == spec.name);
            found.ok_or_else(|| CqlError::invalid("Invalid amount of bind variables"))
        };
        self.bind.iter().map(find).collect()
    }
}

/// What a statement does.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // One for each prepared statement, which is kept.
pub enum Plan {
    /// Writes to one partition of one table.
    Write(WritePlan),
    /// Several writes, given as one text.
    Batch(BatchPlan),
    /// Reads a table.
    Select(SelectPlan),
    /// Reads a system table.
    System(SystemPlan),
    /// Changes the schema. All tables have their keyspace.
    Ddl(Ddl),
    /// Makes this the keyspace of the connection. It exists.
    Use(String),
}

impl Plan {
    /// Whether it reads or writes rows of tables that clients have made.
    #[must_use]
    pub fn is_of_rows(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Batch(_) | Self::Select(_))
    }
}

/// What a statement must know of the moment in which it is executed.
#[derive(Debug, Clone, Copy)]
pub struct BindContext {
    /// The timestamp of writes that say none, in microseconds since the Unix epoch: the one that
    /// came with the request, else now.
    pub timestamp_us: i64,
    /// Now, in microseconds since the Unix epoch.
    pub now_us: i64,
    /// Any number that was not given before: `uuid()` and `now()` are made of it.
    pub random: u64,
}

impl BindContext {
    /// Now, in seconds since the Unix epoch.
    #[must_use]
    pub fn now_s(&self) -> i64 {
        self.now_us.div_euclid(1_000_000)
    }
}

/// Memory for binding values, used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The serialized partition key.
    pub key: Vec<u8>,
    /// The encoded clustering key.
    pub ck: Vec<u8>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    /// The value bound to this marker.
    Bound(u16),
    /// A constant, valid and in its stored form.
    Constant(Vec<u8>),
    /// `null`.
    Null,
    /// The value of a function.
    Call(Function, Box<Operand>),
    /// The token of a partition key with these values.
    Token(Vec<Slot>),
}

/// A function that is evaluated when a statement is executed. All but the last two have no
/// argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// A UUID of version 1 of this moment.
    Now,
    /// A random UUID.
    Uuid,
    /// This moment in milliseconds.
    Timestamp,
    /// Today.
    Date,
    /// The time of day.
    Time,
    /// The smallest UUID of version 1 of a timestamp.
    MinTimeuuid,
    /// The greatest UUID of version 1 of a timestamp.
    MaxTimeuuid,
}

/// A value with the name and type of what it is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    /// The column, for messages.
    pub name: String,
    /// Its type.
    pub ty: CqlType,
    /// Whether it is a descending clustering column.
    pub descending: bool,
    /// Where the value comes from.
    pub operand: Operand,
}

/// A value that was looked up.
pub(super) enum Found<'a> {
    Null,
    Unset,
    Bytes(Cow<'a, [u8]>),
}

impl Slot {
    /// Looks the value up and checks it.
    #[inline]
    pub(super) fn find<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Found<'a>, CqlError> {
        match &self.operand {
            Operand::Bound(index) => match values.get(usize::from(*index)) {
                Some(Value::Bytes(bytes)) => {
                    validate(&self.ty, bytes)?;
                    if matches!(self.ty, CqlType::Set(_) | CqlType::Map(..)) {
                        return Ok(Found::Bytes(collection::canonical(&self.ty, bytes)?));
                    }
                    Ok(Found::Bytes(Cow::Borrowed(bytes)))
                }
                Some(Value::Null) => Ok(Found::Null),
                Some(Value::Unset) => Ok(Found::Unset),
                None => Err(CqlError::invalid("Invalid amount of bind variables")),
            },
            Operand::Constant(bytes) => Ok(Found::Bytes(Cow::Borrowed(bytes))),
            Operand::Null => Ok(Found::Null),
            Operand::Call(function, argument) => {
                super::functions::call(*function, argument, values, context)
            }
            Operand::Token(slots) => {
                let mut key = Vec::new();
                put_key(slots, values, context, &mut key)?;
                Ok(Found::Bytes(Cow::Owned(token(&key).0.to_be_bytes().to_vec())))
            }
        }
    }

    /// Looks up the value of a key column, which must be there.
    #[inline]
    pub(super) fn find_key<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Cow<'a, [u8]>, CqlError> {
        match self.find(values, context)? {
            Found::Bytes(bytes) => Ok(bytes),
            Found::Null => Err(CqlError::invalid(format!(
                "Invalid null value in condition for column {}",
                self.name
            ))),
            Found::Unset => {
                Err(CqlError::invalid(format!("Invalid unset value for column {}", self.name)))
            }
        }
    }
}

/// Checks that as many values are given as there are markers.
pub(super) fn check_count(values: &[Value<'_>], markers: usize) -> Result<(), CqlError> {
    if values.len() == markers {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "there were {markers} markers(?) in CQL but {} bound variables",
        values.len()
    )))
}
