//! What is kept of a write that depends on what is there, until it has ended.

use super::latch::LatchName;
use crate::{
    budget::Charge,
    cql::{BoundWrite, ColumnSpec, CqlError, Plan, RowName},
    protocol::result::Columns,
    shard::{session::Address, statement::PreparedStatement},
    store::{Page, Refused},
    types::{Value, large::LargeValue},
};
use std::{ops::Range, sync::Arc};

/// The longest that one waits for latches and for memory, in microseconds. Nothing of it has
/// happened then.
const WAIT_US_MAX: u64 = 5_000_000;

/// Bytes of such a write besides its values and keys, and of each statement, row and latch of it.
pub(super) const OWN_BYTES: usize = 512;
const STATEMENT_BYTES: usize = 128;
pub(super) const ROW_BYTES: usize = 320;

/// A value of a request, kept for later.
#[derive(Debug)]
enum OwnValue {
    Null,
    Unset,
    Bytes(Range<usize>),
    Large(Arc<LargeValue>),
}

/// A statement of a request and its values, kept for later.
#[derive(Debug)]
pub(in crate::shard) struct OwnStatement {
    statement: Arc<PreparedStatement>,
    bytes: Vec<u8>,
    values: Vec<OwnValue>,
}

impl OwnStatement {
    pub(in crate::shard) fn new(statement: &Arc<PreparedStatement>, values: &[Value<'_>]) -> Self {
        let mut bytes = Vec::new();
        let mut own = |value: &Value<'_>| match value {
            Value::Null => OwnValue::Null,
            Value::Unset => OwnValue::Unset,
            Value::Bytes(value) => {
                let start = bytes.len();
                bytes.extend_from_slice(value);
                OwnValue::Bytes(start..bytes.len())
            }
            Value::Large(large) => OwnValue::Large(Arc::clone(large)),
        };
        let values = values.iter().map(&mut own).collect();
        Self { statement: Arc::clone(statement), bytes, values }
    }

    fn values(&self) -> Vec<Value<'_>> {
        self.values.iter().map(|own| self.value(own)).collect()
    }

    fn value<'a>(&'a self, own: &'a OwnValue) -> Value<'a> {
        match own {
            OwnValue::Null => Value::Null,
            OwnValue::Unset => Value::Unset,
            OwnValue::Bytes(place) => {
                Value::Bytes(self.bytes.get(place.clone()).unwrap_or_default())
            }
            OwnValue::Large(large) => Value::Large(large),
        }
    }

    /// The table that it writes to.
    pub(super) fn table(&self) -> &str {
        &self.statement.prepared.table
    }

    /// Checks that it has as many values as markers.
    pub(super) fn check_count(&self) -> Result<(), CqlError> {
        self.statement.prepared.check_count(self.values.len())
    }

    pub(in crate::shard) fn own_bytes(&self) -> usize {
        let large = |value: &OwnValue| match value {
            OwnValue::Large(large) => large.bytes(),
            _ => 0,
        };
        let values = self.values.len() * size_of::<OwnValue>();
        let values = values + self.values.iter().map(large).sum::<usize>();
        STATEMENT_BYTES + self.statement.own_bytes() + self.bytes.capacity() + values
    }
}

/// Calls `f` with all writes of these statements, each with its values.
pub(super) fn with_writes<T>(
    statements: &[OwnStatement],
    f: impl FnOnce(&[BoundWrite<'_>]) -> T,
) -> T {
    let values: Vec<Vec<Value<'_>>> = statements.iter().map(OwnStatement::values).collect();
    let mut writes = Vec::with_capacity(statements.len());
    for (own, values) in statements.iter().zip(&values) {
        match &own.statement.prepared.plan {
            Plan::Write(plan) => writes.push(BoundWrite { plan, values, batch: None }),
            Plan::Batch(batch) => {
                let write = |plan| BoundWrite { plan, values, batch: Some(batch) };
                writes.extend(batch.writes().iter().map(write));
            }
            _ => {}
        }
    }
    f(&writes)
}

/// How far such a write has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependentStage {
    /// It waits until others of its client have ended.
    InLine,
    /// It waits for a latch, or for memory.
    Waiting,
    Reading,
    Writing,
}

/// Why a write depends on what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependentKind {
    /// One of its statements has an `IF`, and more is answered than that it is done.
    Conditional,
    /// It adds to counters.
    Counter,
    /// It asks where in a list an element is.
    List,
}

impl DependentKind {
    pub fn of(writes: &[BoundWrite<'_>]) -> Self {
        if writes.iter().any(|write| write.plan.is_conditional()) {
            Self::Conditional
        } else if writes.iter().any(|write| write.plan.is_counter()) {
            Self::Counter
        } else {
            Self::List
        }
    }
}

/// A write that depends on what is there, under way.
pub(super) struct DependentWrite {
    pub address: Address,
    pub statements: Vec<OwnStatement>,
    pub is_batch: bool,
    /// Whether it happens as a whole or not at all, on whatever shards: a logged batch, and what
    /// counts, since half of it could not be asked for again.
    pub is_whole: bool,
    pub kind: DependentKind,
    /// The timestamp that its client gave it, in microseconds since the Unix epoch.
    pub timestamp_us: Option<i64>,
    /// The latches that it needs, ascending, each with the shard that has it.
    pub latches: Vec<(u16, LatchName)>,
    /// How many of them it has asked for, and how many of those it holds.
    pub claimed: usize,
    pub latched: usize,
    /// The rows that it needs, ascending, and what was found of the first of them.
    pub rows: Vec<RowName>,
    pub pages: Vec<Page>,
    pub stage: DependentStage,
    /// Shards that have not said that their part is durable, and why one of them refused it.
    pub parts_left: usize,
    pub refused: Option<Refused>,
    /// Since when it waits.
    pub since_us: u64,
    /// The second since the Unix epoch at which its rows are looked at.
    pub read_s: i64,
    /// What it holds of the share for answers: its rows.
    pub answers: Charge,
    /// Its statements and values, and its place in the lines of latches.
    pub _request: Charge,
}

impl DependentWrite {
    pub fn due_us(&self) -> u64 {
        self.since_us + WAIT_US_MAX
    }

    /// The timestamp of the newest thing that was read.
    pub fn newest_us(&self) -> Option<i64> {
        self.pages.iter().filter_map(Page::newest_us).max()
    }

    pub fn columns(&self, columns: &[ColumnSpec]) -> Columns {
        let (keyspace, table) = self.statements.first().map_or(("", ""), |own| {
            (own.statement.prepared.keyspace.as_str(), own.statement.prepared.table.as_str())
        });
        Columns::new(keyspace, table, columns)
    }
}
