//! What a result is made of: parts of a row, alone or summed up.

use crate::{
    schema::{Column, ColumnKind},
    types::CqlType,
};

/// Where a value of a result comes from.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cql) enum Source {
    /// A column of the partition key.
    Key(usize),
    /// A clustering column.
    Clustering(usize),
    /// The cell of a regular or static column.
    Cell(u16),
    /// When that cell was written.
    WriteTime(u16),
    /// How many seconds that cell has left.
    Ttl(u16),
    /// The partition's token.
    Token,
    /// The value of another source as a timestamp in milliseconds: `toTimestamp(timeuuid)`.
    TimeOf(Box<Source>),
}

impl Source {
    /// The value of a column.
    pub(in crate::cql) fn of(column: &Column) -> Self {
        match column.kind {
            ColumnKind::PartitionKey => Source::Key(column.number.into()),
            ColumnKind::Clustering => Source::Clustering(column.number.into()),
            ColumnKind::Regular | ColumnKind::Static => Source::Cell(column.number),
        }
    }

    /// Whether it looks at a clustering column.
    pub(in crate::cql) fn is_of_clustering(&self) -> bool {
        match self {
            Source::Clustering(_) => true,
            Source::TimeOf(inner) => inner.is_of_clustering(),
            _ => false,
        }
    }

    /// The number of the column whose cell it looks at, if it does.
    pub(in crate::cql) fn column(&self) -> Option<u16> {
        match self {
            Source::Cell(column) | Source::WriteTime(column) | Source::Ttl(column) => Some(*column),
            Source::TimeOf(inner) => inner.column(),
            Source::Key(_) | Source::Clustering(_) | Source::Token => None,
        }
    }
}

/// How rows are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Fold {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    /// A column without a function: its value in the first row.
    First,
}

/// One column of a result that has one row.
#[derive(Debug, Clone)]
pub(in crate::cql) struct Aggregate {
    pub kind: Fold,
    pub source: Source,
    pub ty: CqlType,
}

impl Aggregate {
    /// Whether `sum` and `avg` of the type are known.
    pub(in crate::cql) fn can_add(ty: &CqlType) -> bool {
        matches!(
            ty,
            CqlType::Tinyint
                | CqlType::Smallint
                | CqlType::Int
                | CqlType::Bigint
                | CqlType::Float
                | CqlType::Double
        )
    }
}
