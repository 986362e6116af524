//! Keyspaces, tables and columns; how they are changed, kept and shown.
//!
//! A [`Catalog`] is never changed: a statement that changes the schema makes a new one, which
//! takes the old one's place everywhere at once. What a request planned with the old one is
//! recognised by the table's number and version.

mod alter;
mod apply;
pub mod catalog;
mod columns;
mod compaction;
pub mod ddl;
pub mod describe;
mod dropped_cells;
mod json;
pub mod options;
mod replication;
mod shown;
pub mod system;
mod system_schema;
mod system_traces;
#[cfg(test)]
mod tests;
mod user_types;

pub use catalog::{Catalog, Keyspace};
pub use compaction::{SizeTiers, TombstoneRule};
pub use ddl::{Applied, Changed, Ddl, SchemaChange, SchemaError, TableName};
pub use dropped_cells::DroppedCells;
pub use json::TableText;
pub use options::{TableOptions, TableSettings};

use crate::{mutation::TableNumber, types::CqlType};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// What a column is to its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Orders the rows of a partition.
    Clustering,
    /// Holds one value for all rows of a partition.
    Static,
    /// Holds a value of its own in each row.
    Regular,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, as it is once quotes and case are settled.
    pub name: String,
    /// What it is to its table.
    pub kind: ColumnKind,
    /// For a regular or static column, the number under which storage knows its cells; never used
    /// again for another column of the table. For a key column, its position in the key.
    pub number: u16,
    /// The type of its values.
    pub ty: CqlType,
    /// Whether it is declared `frozen<>`, if it is a collection or of a user-defined type: written
    /// and read as one value.
    pub frozen: bool,
    /// Whether a clustering column runs from the greatest value to the smallest.
    pub descending: bool,
}

impl Column {
    /// Whether its elements, or its fields, are written and deleted one by one.
    #[must_use]
    pub fn has_elements(&self) -> bool {
        (self.ty.is_collection() || matches!(self.ty, CqlType::Udt(_))) && !self.frozen
    }

    /// Whether a partition has its value but once.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.kind == ColumnKind::Static
    }

    /// The type as CQL text declares it.
    #[must_use]
    pub fn type_name(&self) -> String {
        if self.frozen { self.ty.to_string() } else { self.ty.unfrozen_name() }
    }
}

/// Which state of which table something was planned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableVersion {
    /// The table.
    pub number: TableNumber,
    /// How often it had been altered.
    pub version: u32,
}

/// A table, as it is for as long as nobody alters it.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// The identifier that drivers are shown.
    pub id: Uuid,
    /// The number by which storage knows it. Truncation gives it a new one.
    pub number: TableNumber,
    /// How often it has been altered.
    pub version: u32,
    /// The number that the next added column gets.
    pub next_column: u16,
    /// Partition key, clustering key (both in their order), then static and regular columns, each
    /// by name: the order of `SELECT *`.
    pub columns: Vec<Column>,
    /// The columns that were dropped, by name; they may have been added again since.
    pub dropped: BTreeMap<String, DroppedColumn>,
    /// What `WITH` said.
    pub options: TableOptions,
    /// Itself as it is kept on disk.
    pub text: TableText,
}

/// A column that was dropped. Its cells may still lie in storage; those that were not written
/// after it was dropped do not count, even if it is added again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The type of its values.
    pub ty: CqlType,
    /// Whether it was static.
    pub is_static: bool,
    /// Whether it was declared `frozen<>`.
    pub frozen: bool,
    /// The timestamp up to which its cells are dropped, in microseconds since the Unix epoch.
    pub dropped_us: i64,
    /// The number under which storage knows its cells, which it gets back when it is added again.
    /// None if it was dropped by an older program: it then gets a new one.
    pub number: Option<u16>,
}

impl DroppedColumn {
    /// The type as CQL text declared it.
    #[must_use]
    pub fn type_name(&self) -> String {
        if self.frozen { self.ty.to_string() } else { self.ty.unfrozen_name() }
    }
}

/// A regular or static column, and the timestamp of its newest cell that does not count, if there
/// may be any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedColumn {
    /// Its number in storage.
    pub number: u16,
    /// Its cells count if they are newer.
    pub newer_than_us: i64,
}

impl Table {
    fn count(&self, kind: ColumnKind) -> usize {
        self.columns.iter().filter(|column| column.kind == kind).count()
    }

    /// The columns of the partition key, in its order.
    #[must_use]
    pub fn partition_key(&self) -> &[Column] {
        self.columns.get(..self.count(ColumnKind::PartitionKey)).unwrap_or_default()
    }

    /// The clustering columns, in their order.
    #[must_use]
    pub fn clustering(&self) -> &[Column] {
        let start = self.count(ColumnKind::PartitionKey);
        let end = start + self.count(ColumnKind::Clustering);
        self.columns.get(start..end).unwrap_or_default()
    }

    /// Types of the clustering columns, and whether they are descending.
    #[must_use]
    pub fn clustering_types(&self) -> Vec<(CqlType, bool)> {
        self.clustering().iter().map(|column| (column.ty.clone(), column.descending)).collect()
    }

    /// The static columns and then the regular ones, each by name.
    #[must_use]
    pub fn with_cells(&self) -> &[Column] {
        let keys = self.count(ColumnKind::PartitionKey) + self.count(ColumnKind::Clustering);
        self.columns.get(keys..).unwrap_or_default()
    }

    /// The regular columns, by name.
    #[must_use]
    pub fn regular(&self) -> &[Column] {
        let start = self.columns.len() - self.count(ColumnKind::Regular);
        self.columns.get(start..).unwrap_or_default()
    }

    /// Puts these in their order.
    fn sort_with_cells(&mut self) {
        let keys = self.columns.len() - self.with_cells().len();
        if let Some(columns) = self.columns.get_mut(keys..) {
            let is_regular = |column: &Column| column.kind == ColumnKind::Regular;
            columns.sort_by(|a, b| (is_regular(a), &a.name).cmp(&(is_regular(b), &b.name)));
        }
    }

    /// Whether a column of it is static.
    #[must_use]
    pub fn has_static_columns(&self) -> bool {
        self.count(ColumnKind::Static) > 0
    }

    /// Whether storage may hold static rows: it has static columns, or had some.
    #[must_use]
    pub fn has_static_rows(&self) -> bool {
        self.has_static_columns() || self.dropped.values().any(|column| column.is_static)
    }

    /// Which cells count, by the numbers of their columns, which ascend; none if all that
    /// storage holds do: no column was ever dropped.
    #[must_use]
    pub fn counted_columns(&self) -> Option<Vec<CountedColumn>> {
        let with_cells = self.with_cells();
        if self.dropped.is_empty() && with_cells.len() == usize::from(self.next_column) {
            return None;
        }
        let counted = |column: &Column| {
            let dropped = self.dropped.get(&column.name);
            let dropped = dropped.filter(|dropped| dropped.number == Some(column.number));
            // No cell has the smallest timestamp.
            let newer_than_us = dropped.map_or(i64::MIN, |dropped| dropped.dropped_us);
            CountedColumn { number: column.number, newer_than_us }
        };
        let mut columns: Vec<CountedColumn> = with_cells.iter().map(counted).collect();
        columns.sort_unstable_by_key(|column| column.number);
        Some(columns)
    }

    /// What storage must know of it besides its number.
    #[must_use]
    pub fn settings(&self) -> TableSettings {
        let dropped = DroppedCells::of(self).map(Arc::new);
        TableSettings { dropped, ..self.options.settings() }
    }

    /// Whether all that its rows hold are counters.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        let own = self.with_cells().iter().map(|column| &column.ty);
        let dropped = self.dropped.values().map(|column| &column.ty);
        own.chain(dropped).any(|ty| *ty == CqlType::Counter)
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Its state, to compare with a later one.
    #[must_use]
    pub fn table_version(&self) -> TableVersion {
        TableVersion { number: self.number, version: self.version }
    }
}
