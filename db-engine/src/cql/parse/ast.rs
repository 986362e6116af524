//! Statements as they were written: names are not yet looked up, nothing has a type.

use crate::{
    schema::{Ddl, TableName},
    types::literal::Literal,
};

/// Something that stands for a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// `?` or `:name`.
    Marker {
        /// Its position among all markers of the statement.
        index: u16,
        /// Its name, if it has one.
        name: Option<String>,
    },
    /// A constant.
    Literal(Literal),
    /// `(a, b)` with at least one marker or function inside.
    Tuple(Vec<Term>),
    /// A list, set or map, in the same way: which of them, and what is inside.
    Collection(&'static str, Vec<Term>),
    /// `{name: a}`, in the same way: fields of a user-defined type.
    Fields(Vec<(String, Term)>),
    /// `name(arguments)`.
    Call {
        /// The function, in lower case.
        name: String,
        /// What it is given.
        arguments: Vec<Term>,
    },
}

/// What a condition is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A column.
    Column(String),
    /// `m[key]`: the value of a map's key.
    Entry(String, Term),
    /// `(a, b)`: several clustering columns at once.
    Columns(Vec<String>),
    /// `token(a, b)`.
    Token(Vec<String>),
}

/// How a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Eq,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `IN`, with a marker or a list in parentheses.
    In,
    /// `!=`; of a `WHERE` it is refused.
    Ne,
    /// `CONTAINS`: an element of a list or set, a value of a map.
    Contains,
    /// `CONTAINS KEY`: of a map.
    ContainsKey,
}

impl Operator {
    /// As it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Operator::Eq => "=",
            Operator::Lt => "<",
            Operator::Le => "<=",
            Operator::Gt => ">",
            Operator::Ge => ">=",
            Operator::In => "IN",
            Operator::Ne => "!=",
            Operator::Contains => "CONTAINS",
            Operator::ContainsKey => "CONTAINS KEY",
        }
    }
}

/// One condition of a `WHERE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// What it is about.
    pub target: Target,
    /// How it compares.
    pub operator: Operator,
    /// With what. For [`Operator::In`]: a marker, or a literal list or [`Term::Tuple`] of items.
    pub value: Term,
}

/// One thing that a `SELECT` asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Selector {
    /// A column.
    Column(String),
    /// `count(*)` or `count(1)`.
    CountAll,
    /// `name(arguments)`.
    Call {
        /// The function, in lower case.
        name: String,
        /// What it is given.
        arguments: Vec<Selector>,
    },
    /// `m[key]`: an element of a set, a value of a map.
    Element(String, Term),
    /// `u.field.inner`: a field of a user-defined type, or one inside that field.
    Field(String, Vec<String>),
    /// `m[from..to]`: the elements from one to another, or all that are before or behind one.
    Slice(String, Option<Term>, Option<Term>),
}

/// `SELECT`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// `DISTINCT`.
    pub distinct: bool,
    /// What is asked for, each with the name that `AS` gives it; empty is `*`.
    pub selectors: Vec<(Selector, Option<String>)>,
    /// The table.
    pub from: TableName,
    /// `WHERE`.
    pub relations: Vec<Relation>,
    /// `ORDER BY`: columns, and whether descending.
    pub order: Vec<(String, bool)>,
    /// `PER PARTITION LIMIT`.
    pub per_partition_limit: Option<Term>,
    /// `LIMIT`.
    pub limit: Option<Term>,
    /// `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// `BYPASS CACHE`.
    pub bypass_cache: bool,
}

/// One condition of an `IF`.
#[derive(Debug, Clone, PartialEq)]
pub struct IfRelation {
    /// The column that it is about.
    pub column: String,
    /// What of it.
    pub part: IfPart,
    /// How it compares.
    pub operator: Operator,
    /// With what, as in [`Relation`].
    pub value: Term,
}

/// What of a column a condition of an `IF` is about.
#[derive(Debug, Clone, PartialEq)]
pub enum IfPart {
    /// All of it.
    Whole,
    /// `column[key]`
    Element(Term),
    /// `column.field`
    Field(String),
}

/// `IF` of a write.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum IfClause {
    /// Not said.
    #[default]
    Always,
    /// `IF EXISTS`.
    Exists,
    /// `IF NOT EXISTS`.
    NotExists,
    /// `IF column op value AND …`.
    Columns(Vec<IfRelation>),
}

/// `USING` of a write.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Using {
    /// `TIMESTAMP`.
    pub timestamp: Option<Term>,
    /// `TTL`.
    pub ttl: Option<Term>,
}

/// `INSERT`.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The table.
    pub table: TableName,
    /// Columns and their values, paired.
    pub values: Vec<(String, Term)>,
    /// `IF NOT EXISTS`.
    pub condition: IfClause,
    /// `USING`.
    pub using: Using,
}

/// What an item of `SET` does to a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    /// `c = value`
    Value(Term),
    /// `c = c + value`
    Added(Term),
    /// `c = value + c`
    Prepended(Term),
    /// `c = c - value`
    Subtracted(Term),
    /// `c[key] = value`
    Element(Term, Term),
    /// `c.field = value`
    Field(String, Term),
}

/// A part of a column that a `DELETE` names.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// `c`
    Whole,
    /// `c[key]`
    Element(Term),
    /// `c.field`
    Field(String),
}

/// How the writes of a batch belong together, as `BEGIN … BATCH` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchWord {
    /// All or none, whatever happens.
    Logged,
    /// `UNLOGGED`.
    Unlogged,
    /// `COUNTER`.
    Counter,
}

/// `UPDATE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The table.
    pub table: TableName,
    /// `SET`: columns, and what becomes of them.
    pub values: Vec<(String, Assigned)>,
    /// `WHERE`.
    pub relations: Vec<Relation>,
    /// `IF`.
    pub condition: IfClause,
    /// `USING`.
    pub using: Using,
}

/// `DELETE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The table.
    pub table: TableName,
    /// The columns whose values go, or a part of them; empty is the whole row or partition.
    pub columns: Vec<(String, Deleted)>,
    /// `WHERE`.
    pub relations: Vec<Relation>,
    /// `IF`.
    pub condition: IfClause,
    /// `USING`; never has a TTL.
    pub using: Using,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Modification {
    /// `INSERT`.
    Insert(Insert),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
    Delete(Delete),
}

impl Modification {
    /// The table that it writes to.
    #[must_use]
    pub fn table(&self) -> &TableName {
        match self {
            Modification::Insert(insert) => &insert.table,
            Modification::Update(update) => &update.table,
            Modification::Delete(delete) => &delete.table,
        }
    }

    /// Its `IF`.
    #[must_use]
    pub fn condition(&self) -> &IfClause {
        match self {
            Modification::Insert(insert) => &insert.condition,
            Modification::Update(update) => &update.condition,
            Modification::Delete(delete) => &delete.condition,
        }
    }

    /// Its `USING`.
    #[must_use]
    pub fn using(&self) -> &Using {
        match self {
            Modification::Insert(insert) => &insert.using,
            Modification::Update(update) => &update.using,
            Modification::Delete(delete) => &delete.using,
        }
    }
}

/// `BEGIN BATCH … APPLY BATCH`.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchStatement {
    /// How its writes belong together.
    pub kind: BatchWord,
    /// `USING` of the whole.
    pub using: Using,
    /// The writes.
    pub writes: Vec<Modification>,
}

/// What a part of the schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementKind {
    /// A keyspace.
    Keyspace,
    /// A table.
    Table,
    /// A user-defined type.
    Type,
    /// A user-defined function. There are none, nor any of the following: they can only be missed.
    Function,
    /// A user-defined aggregate.
    Aggregate,
    /// A secondary index.
    Index,
    /// A materialized view.
    View,
}

/// What is to be described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`: all keyspaces, those of the system only if `FULL` was said.
    Schema {
        /// Whether it was.
        full: bool,
    },
    /// `[ONLY] KEYSPACE [name]`.
    Keyspace {
        /// None means the one in use.
        name: Option<String>,
        /// Without its tables.
        only: bool,
    },
    /// `KEYSPACES`, `TABLES` and the like: names alone.
    List(ElementKind),
    /// `TABLE name` and the like.
    Element(ElementKind, TableName),
    /// A name alone: a keyspace, or else a table.
    Any(TableName),
}

/// `DESCRIBE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// What is to be described.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`: with identifiers.
    pub internals: bool,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `SELECT`.
    Select(Select),
    /// `INSERT`, `UPDATE` or `DELETE`.
    Modify(Modification),
    /// `BEGIN BATCH`.
    Batch(BatchStatement),
    /// `USE`.
    Use(String),
    /// Changes the schema.
    Ddl(Ddl),
    /// `DESCRIBE`.
    Describe(Describe),
}
