//! Statements with everything decided that can be decided before values are known.

use crate::{
    cql::{
        error::CqlError,
        parse::ast::{BatchWord, Describe, Operator},
        prepare::{
            input::{BoundValue, ElementsWrite, PartKey},
            source::{Aggregate, Source, SystemSource},
        },
    },
    mutation::TableNumber,
    schema::{Catalog, CountedColumn, Ddl, Table, TableVersion},
    types::CqlType,
};
use std::sync::Arc;

/// Most bytes of the types of all markers and columns of a statement.
const METADATA_BYTES_MAX: usize = 4 << 20;

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
    /// Bytes of the constants in the plan.
    pub constant_bytes: usize,
    /// The tables that it was planned with.
    pub depends: Vec<TableVersion>,
}

impl Prepared {
    /// A statement without markers and without rows in its result.
    pub(in crate::cql) fn new(plan: Plan, keyspace: &str, table: &str) -> Self {
        Prepared {
            plan,
            bind: Vec::new(),
            pk_indexes: Vec::new(),
            result: Vec::new(),
            keyspace: keyspace.to_string(),
            table: table.to_string(),
            constant_bytes: 0,
            depends: Vec::new(),
        }
    }

    /// Checks that clients can be told of its markers and columns: a few words can ask for a large
    /// type thousands of times.
    pub(super) fn check_metadata(&self) -> Result<(), CqlError> {
        let specs = self.bind.iter().chain(&self.result);
        let bytes = specs.map(|spec| spec.ty.option_bytes()).fold(0, usize::saturating_add);
        if bytes <= METADATA_BYTES_MAX {
            return Ok(());
        }
        Err(CqlError::invalid(format!(
            "The types of all markers and columns of the result take {bytes} bytes, more than \
             {METADATA_BYTES_MAX}: ask for fewer columns at once"
        )))
    }

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
    /// Describes the schema.
    Describe(DescribePlan),
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

/// What a write does to what its key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Action {
    /// Sets cells; the row exists even if it has none.
    Insert,
    /// Sets or deletes cells.
    Update,
    /// Deletes the row, or all rows of a range.
    DeleteRow,
    /// Deletes the partition.
    DeletePartition,
}

/// What becomes of the columns of a row.
#[derive(Debug, Default)]
pub(in crate::cql) struct RowChanges {
    /// Column numbers, ascending, and their values.
    pub cells: Vec<(u16, BoundValue)>,
    /// Column numbers, ascending, and what becomes of their elements, in the order written.
    pub elements: Vec<(u16, ElementsWrite)>,
}

/// The rows that are written to if it is not one: what `IN` and ranges make.
#[derive(Debug)]
pub(in crate::cql) struct ManyRows {
    /// Values of the partition key.
    pub partitions: Vec<Choice>,
    /// Which rows of each partition.
    pub ranges: KeyRanges,
    /// Whether it is a DELETE that names them.
    pub is_delete: bool,
}

/// A write to one row, to what a partition has but once, or to many rows.
#[derive(Debug)]
pub struct WritePlan {
    pub(in crate::cql) table: TableNumber,
    pub(in crate::cql) action: Action,
    pub(in crate::cql) partition_key: Vec<BoundValue>,
    pub(in crate::cql) clustering: Vec<BoundValue>,
    /// In place of the two before.
    pub(in crate::cql) many: Option<Box<ManyRows>>,
    /// Whether there is a row to be written to, and not the static one alone.
    pub(in crate::cql) has_row: bool,
    /// What becomes of regular columns.
    pub(in crate::cql) changes: RowChanges,
    /// What becomes of static columns.
    pub(in crate::cql) static_changes: RowChanges,
    pub(in crate::cql) timestamp: Option<BoundValue>,
    pub(in crate::cql) ttl: Option<BoundValue>,
    pub(in crate::cql) default_ttl_s: u32,
    /// What is added to counters, by the numbers of their columns, ascending.
    pub(in crate::cql) increments: Vec<Increment>,
    /// What must be known of its row before, if anything must.
    pub(in crate::cql) prior: Option<Box<Prior>>,
    /// How many markers the statement has.
    pub(in crate::cql) markers: usize,
}

impl WritePlan {
    /// Whether it depends on what is there: its row must be read first.
    #[must_use]
    #[inline]
    pub fn is_dependent(&self) -> bool {
        self.prior.is_some()
    }

    /// Whether its table is one of counters.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.table.is_counter())
    }

    /// Whether it deletes a partition or a range of rows.
    pub(in crate::cql) fn deletes_several(&self) -> bool {
        self.action == Action::DeletePartition
            || (self.action == Action::DeleteRow && self.many.is_some())
    }

    /// Whether the static row must be known before.
    pub(in crate::cql) fn reads_static(&self) -> bool {
        self.static_changes.reads() || self.increments.iter().any(|increment| increment.is_static)
    }

    /// Whether it changes static columns.
    pub(in crate::cql) fn writes_static(&self) -> bool {
        !self.static_changes.is_empty()
    }

    /// Whether it has an `IF`.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.guard.is_some())
    }
}

/// What is added to a counter.
#[derive(Debug)]
pub(in crate::cql) struct Increment {
    /// The number of its column.
    pub column: u16,
    pub is_static: bool,
    /// Whether the value is taken away.
    pub minus: bool,
    pub value: BoundValue,
}

/// What a write must know of its row before: how it is read, and what must be so.
#[derive(Debug)]
pub(in crate::cql) struct Prior {
    pub table: Arc<Table>,
    /// Numbers of the columns that storage holds, ascending.
    pub columns: Arc<[u16]>,
    /// Which cells count, if others may be found: see [`Table::counted_columns`].
    pub counted: Option<Vec<CountedColumn>>,
    /// Types of the clustering columns, and whether they are descending.
    pub clustering: Vec<(CqlType, bool)>,
    /// Whether the table has static rows.
    pub static_rows: bool,
    pub guard: Option<Guard>,
}

impl Prior {
    pub(in crate::cql) fn new(table: &Arc<Table>, guard: Option<Guard>) -> Self {
        let mut columns: Vec<u16> = table.with_cells().iter().map(|column| column.number).collect();
        columns.sort_unstable();
        Prior {
            table: Arc::clone(table),
            columns: columns.into(),
            counted: table.counted_columns(),
            clustering: table.clustering_types(),
            static_rows: table.has_static_rows(),
            guard,
        }
    }
}

/// What must be so for a write to happen.
#[derive(Debug)]
pub(in crate::cql) enum Guard {
    /// The row is there; the static row, of a write to that alone.
    Exists,
    /// It is not there.
    NotExists,
    /// Its values are such, and those of the static row.
    Columns(Vec<Requirement>),
}

impl Guard {
    /// Whether it asks for values of such columns.
    pub(in crate::cql) fn asks_for(&self, is_static: bool) -> bool {
        let Guard::Columns(all) = self else { return false };
        all.iter().any(|requirement| requirement.is_static == is_static)
    }
}

/// A condition on a column of the row that is written, or of the static row.
#[derive(Debug)]
pub(in crate::cql) struct Requirement {
    /// The place of the column in its table.
    pub column: usize,
    pub is_static: bool,
    pub part: RequiredPart,
    pub operator: Operator,
    pub choice: Choice,
    /// The type by which values compare, with blobs for durations.
    pub ty: CqlType,
}

/// What of a column a condition is about.
#[derive(Debug)]
pub(in crate::cql) enum RequiredPart {
    Whole,
    /// What is at this place in a list.
    Index(BoundValue),
    /// The value of this key of a map.
    Key(BoundValue),
    /// The field at this place of a user-defined type.
    Field(usize),
}

/// Several writes. Their mutations are to be applied all or none.
#[derive(Debug)]
pub struct BatchPlan {
    pub(in crate::cql) kind: BatchWord,
    pub(in crate::cql) writes: Vec<WritePlan>,
    pub(in crate::cql) timestamp: Option<BoundValue>,
    pub(in crate::cql) markers: usize,
}

impl BatchPlan {
    /// How its writes belong together.
    #[must_use]
    pub fn kind(&self) -> BatchWord {
        self.kind
    }

    /// Whether `UNLOGGED` was said: its parts may become durable one by one.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.kind == BatchWord::Unlogged
    }

    /// Its writes, in their order.
    #[must_use]
    pub fn writes(&self) -> &[WritePlan] {
        &self.writes
    }

    /// Whether one of its writes depends on what is there.
    #[must_use]
    pub fn is_dependent(&self) -> bool {
        self.writes.iter().any(WritePlan::is_dependent)
    }

    /// How many writes it has.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.writes.len() as u64
    }
}

/// The value or values that a column is restricted to by `=` or `IN`.
#[derive(Debug)]
pub(in crate::cql) enum Choice {
    /// One value.
    One(BoundValue),
    /// A list in parentheses.
    Several(Vec<BoundValue>),
    /// `IN ?`: a bound list. The slot has the list's type, the item's slot the column's.
    List(BoundValue, BoundValue),
    /// `(a, b) IN ((1, 2), …)`: values of this clustering column and of those after it.
    Tuples(Vec<Vec<BoundValue>>),
    /// The values come with those of a column before.
    WithBefore,
}

/// One end of a range of clustering keys: values of some columns after the prefix, which all run
/// in the same direction.
#[derive(Debug)]
pub(in crate::cql) struct Edge {
    pub slots: Vec<BoundValue>,
    pub inclusive: bool,
}

/// A range of clustering keys by value: `>` or `>=`, and `<` or `<=`.
#[derive(Debug, Default)]
pub(in crate::cql) struct RangeInput {
    pub lower: Option<Edge>,
    pub upper: Option<Edge>,
}

/// Ranges of clustering keys by value: those that begin with a prefix, between two edges.
#[derive(Debug)]
pub(in crate::cql) struct KeyRanges {
    /// Values of the first clustering columns.
    pub prefix: Vec<Choice>,
    /// A range of what follows the prefix.
    pub span: RangeInput,
    /// Whether the column after the prefix is descending.
    pub descending: bool,
    /// Whether there are more clustering columns than the prefix has.
    pub open: bool,
}

/// Which partitions are read.
#[derive(Debug)]
pub(in crate::cql) enum PartitionSet {
    /// Those with these keys.
    Keys(Vec<Choice>),
    /// All, or those between two tokens; each end with whether it is inclusive.
    Tokens { lower: Option<(BoundValue, bool)>, upper: Option<(BoundValue, bool)> },
}

/// A condition that is checked row by row.
#[derive(Debug)]
pub(in crate::cql) struct Condition {
    pub source: Source,
    /// Whether the source is a map, of which each value has its key before it.
    pub is_map: bool,
    pub operator: Operator,
    pub choice: Choice,
}

/// A read of a table.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact about the statement of its own.
pub struct SelectPlan {
    pub(in crate::cql) table: TableNumber,
    pub(in crate::cql) partitions: PartitionSet,
    /// Which of their rows, if they are named by key.
    pub(in crate::cql) ranges: KeyRanges,
    pub(in crate::cql) conditions: Vec<Condition>,
    pub(in crate::cql) reverse: bool,
    pub(in crate::cql) distinct: bool,
    /// Whether the table has static rows.
    pub(in crate::cql) static_rows: bool,
    /// Whether a static row is given alone if its partition has no other.
    pub(in crate::cql) gives_static_alone: bool,
    /// Whether blocks that are read for it are to be forgotten.
    pub(in crate::cql) bypass_cache: bool,
    pub(in crate::cql) limit: Option<BoundValue>,
    pub(in crate::cql) per_partition_limit: Option<BoundValue>,
    pub(in crate::cql) sources: Vec<Source>,
    /// Keys of elements that sources ask for.
    pub(in crate::cql) parts: Vec<PartKey>,
    /// How many times the statement looks at the elements of a collection.
    pub(in crate::cql) collections: usize,
    /// One for each column of the result if rows are counted or summed up; else empty.
    pub(in crate::cql) aggregates: Vec<Aggregate>,
    /// Numbers of the regular columns that are looked at, ascending.
    pub(in crate::cql) columns: Arc<[u16]>,
    /// Which cells count, if others may be found: see [`Table::counted_columns`].
    pub(in crate::cql) counted: Option<Arc<[CountedColumn]>>,
    /// Whether the partition key has one column, and so is that column's value.
    pub(in crate::cql) single_key: bool,
    /// Types of the clustering columns, and whether they are descending.
    pub(in crate::cql) clustering: Arc<[(CqlType, bool)]>,
    pub(in crate::cql) markers: usize,
}

impl SelectPlan {
    /// Whether it names a whole primary key, and so finds one row at most.
    #[must_use]
    pub fn is_of_one_row(&self) -> bool {
        let is_one = |choice: &Choice| matches!(choice, Choice::One(_));
        let PartitionSet::Keys(keys) = &self.partitions else { return false };
        !self.ranges.open && keys.iter().chain(&self.ranges.prefix).all(is_one)
    }

    /// Whether rows are looked at and then left out.
    #[must_use]
    pub fn filters(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether it names no partition: all are read, or those of a range of tokens.
    #[must_use]
    pub fn scans(&self) -> bool {
        matches!(self.partitions, PartitionSet::Tokens { .. })
    }

    /// Whether blocks that are read for it are to be forgotten.
    #[must_use]
    pub fn bypasses_cache(&self) -> bool {
        self.bypass_cache
    }
}

/// A read of a system table. Its result is one page, whatever the page size asked for.
#[derive(Debug)]
pub struct SystemPlan {
    pub(in crate::cql) table: Arc<Table>,
    /// Indexes of columns, and the values one of which they must have.
    pub(in crate::cql) conditions: Vec<(usize, Choice)>,
    /// The columns of the result; none for `count(*)`.
    pub(in crate::cql) columns: Option<Vec<SystemSource>>,
    pub(in crate::cql) limit: Option<BoundValue>,
    pub(in crate::cql) markers: usize,
}

/// A look at the schema.
#[derive(Debug)]
pub struct DescribePlan {
    pub(in crate::cql) describe: Describe,
    /// The keyspace in use.
    pub(in crate::cql) keyspace: Option<String>,
}
