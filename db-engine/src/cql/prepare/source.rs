//! What a result is made of: parts of a row, alone or summed up.

use crate::{
    cql::prepare::input::Function,
    schema::{Column, ColumnKind},
    types::CqlType,
};

/// What is asked of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Facet {
    Value,
    /// When each was written.
    WriteTime,
    /// When the newest of them was written.
    MaxWriteTime,
    /// How many seconds each has left.
    Ttl,
}

/// Which elements are asked for. The numbers are those of keys in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Portion {
    All,
    /// The one with this key.
    One(usize),
    /// Those from one key to another, both inclusive.
    Slice(Option<usize>, Option<usize>),
    /// The field at this place of a user-defined type.
    Field(usize),
}

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
    /// Of this moment, and of no row. System tables alone have it.
    Moment(Function),
    /// What there is of the elements of a column that is not frozen.
    Elements { column: u16, ty: CqlType, facet: Facet, part: Portion },
    /// A part of a frozen collection of this type.
    PartOf(Box<Source>, CqlType, Portion),
    /// A field of another source: its place in a user-defined type, that of a field of this field,
    /// and so on.
    FieldOf(Box<Source>, Vec<usize>),
    /// The second one, which is of the same column, if the first is not null.
    IfThere(Box<Source>, Box<Source>),
    /// The value of another source as a timestamp in milliseconds: `toTimestamp(timeuuid)`.
    TimeOf(Box<Source>),
}

/// Where a value of a result from a system table comes from.
#[derive(Debug, Clone, Copy)]
pub(in crate::cql) enum SystemSource {
    /// The column with this index.
    Column(usize),
    /// Of this moment.
    Moment(Function),
}

impl Source {
    /// The value of a column.
    pub(in crate::cql) fn of(column: &Column) -> Self {
        match column.kind {
            ColumnKind::PartitionKey => Source::Key(column.number.into()),
            ColumnKind::Clustering => Source::Clustering(column.number.into()),
            ColumnKind::Regular | ColumnKind::Static if column.has_elements() => Source::Elements {
                column: column.number,
                ty: column.ty.clone(),
                facet: Facet::Value,
                part: Portion::All,
            },
            ColumnKind::Regular | ColumnKind::Static => Source::Cell(column.number),
        }
    }

    /// What it is made from.
    pub(in crate::cql) fn innermost(&self) -> &Source {
        match self {
            Source::TimeOf(inner)
            | Source::PartOf(inner, ..)
            | Source::FieldOf(inner, _)
            | Source::IfThere(inner, _) => inner.innermost(),
            source => source,
        }
    }

    /// Whether it looks at the elements of a collection one after the other.
    pub(in crate::cql) fn is_of_collection(&self) -> bool {
        matches!(self, Source::Elements { .. } | Source::PartOf(..))
    }

    /// The number of the column whose cells it looks at, if it does.
    pub(in crate::cql) fn column(&self) -> Option<u16> {
        match self {
            Source::Cell(column)
            | Source::WriteTime(column)
            | Source::Ttl(column)
            | Source::Elements { column, .. } => Some(*column),
            Source::TimeOf(_) | Source::PartOf(..) | Source::FieldOf(..) | Source::IfThere(..) => {
                self.innermost().column()
            }
            Source::Key(_) | Source::Clustering(_) | Source::Token | Source::Moment(_) => None,
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
