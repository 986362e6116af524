//! Statements that change the schema, as parsed, and what became of them.

use super::Catalog;
use crate::types::parse::TypeName;
use std::{collections::BTreeMap, fmt};

/// The name of a table or type, with its keyspace if that was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableName {
    /// The keyspace; none means the one in use.
    pub keyspace: Option<String>,
    /// The table or type.
    pub name: String,
}

/// The value of a property: `0.5`, `'text'`, `true` as text, or a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// A single value.
    Value(String),
    /// `{'key': 'value'}`.
    Map(BTreeMap<String, String>),
}

/// What follows `WITH`, in the order given.
pub type Properties = Vec<(String, Property)>;

/// A column as it is declared.
#[derive(Debug, Clone, PartialEq)]
pub struct NewColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub ty: TypeName,
    /// Whether `STATIC` was said.
    pub is_static: bool,
}

/// A change of one table.
#[derive(Debug, Clone, PartialEq)]
pub enum Alteration {
    /// `ADD`: new columns.
    Add {
        /// Leave out those that are there already.
        if_not_exists: bool,
        /// What they are.
        columns: Vec<NewColumn>,
    },
    /// `DROP`: these columns.
    Drop {
        /// Leave out those that are not there.
        if_exists: bool,
        /// Their names.
        columns: Vec<String>,
        /// Up to which timestamp their cells are dropped, in microseconds; none means now.
        timestamp_us: Option<i64>,
    },
    /// `RENAME`: key columns, from one name to another.
    Rename(Vec<(String, String)>),
    /// `WITH`: options.
    With(Properties),
}

/// A change of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeAlteration {
    /// `ADD`: a new field.
    Add {
        /// Leave it out if it is there already.
        if_not_exists: bool,
        /// Its name.
        name: String,
        /// The type of its values.
        ty: TypeName,
    },
    /// `RENAME`: fields, from one name to another.
    Rename {
        /// Leave out those that are not there.
        if_exists: bool,
        /// Their names.
        pairs: Vec<(String, String)>,
    },
}

/// A statement that changes the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Ddl {
    /// `CREATE KEYSPACE`.
    CreateKeyspace {
        /// Its name.
        name: String,
        /// Do nothing if it is there already.
        if_not_exists: bool,
        /// What follows `WITH`.
        properties: Properties,
    },
    /// `ALTER KEYSPACE`.
    AlterKeyspace {
        /// Its name.
        name: String,
        /// Do nothing if it is not there.
        if_exists: bool,
        /// What follows `WITH`.
        properties: Properties,
    },
    /// `DROP KEYSPACE`.
    DropKeyspace {
        /// Its name.
        name: String,
        /// Do nothing if it is not there.
        if_exists: bool,
    },
    /// `CREATE TABLE`.
    CreateTable {
        /// Its name.
        name: TableName,
        /// Do nothing if it is there already.
        if_not_exists: bool,
        /// The columns, in the order given.
        columns: Vec<NewColumn>,
        /// Names of the partition key's columns.
        partition_key: Vec<String>,
        /// Names of the clustering columns.
        clustering: Vec<String>,
        /// `CLUSTERING ORDER BY`: names, and whether descending.
        order: Vec<(String, bool)>,
        /// The rest of what follows `WITH`.
        properties: Properties,
    },
    /// `ALTER TABLE`.
    AlterTable {
        /// Its name.
        name: TableName,
        /// Do nothing if it is not there.
        if_exists: bool,
        /// The change.
        change: Alteration,
    },
    /// `DROP TABLE`.
    DropTable {
        /// Its name.
        name: TableName,
        /// Do nothing if it is not there.
        if_exists: bool,
    },
    /// `TRUNCATE`.
    Truncate {
        /// Its name.
        name: TableName,
    },
    /// `CREATE TYPE`.
    CreateType {
        /// Its name.
        name: TableName,
        /// Do nothing if it is there already.
        if_not_exists: bool,
        /// Names and types of its fields.
        fields: Vec<(String, TypeName)>,
    },
    /// `ALTER TYPE`.
    AlterType {
        /// Its name.
        name: TableName,
        /// Do nothing if it is not there.
        if_exists: bool,
        /// The change.
        change: TypeAlteration,
    },
    /// `DROP TYPE`.
    DropType {
        /// Its name.
        name: TableName,
        /// Do nothing if it is not there.
        if_exists: bool,
    },
}

impl Ddl {
    /// The name of the table or type that it is about, if it is about one.
    pub fn name_mut(&mut self) -> Option<&mut TableName> {
        match self {
            Ddl::CreateTable { name, .. }
            | Ddl::AlterTable { name, .. }
            | Ddl::DropTable { name, .. }
            | Ddl::Truncate { name }
            | Ddl::CreateType { name, .. }
            | Ddl::AlterType { name, .. }
            | Ddl::DropType { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// What happened to a part of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is not what it was.
    Updated,
    /// It is gone.
    Dropped,
}

impl ChangeKind {
    /// Its name in a `SCHEMA_CHANGE` result or event.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The keyspace itself.
    Keyspace,
    /// A table of it.
    Table(String),
    /// A user-defined type of it.
    Type(String),
}

/// What clients are told of a change of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub change: ChangeKind,
    /// The keyspace.
    pub keyspace: String,
    /// What of it.
    pub what: Changed,
}

impl SchemaChange {
    /// `KEYSPACE`, `TABLE` or `TYPE`, as the protocol names what changed.
    #[must_use]
    pub fn target(&self) -> &'static str {
        match self.what {
            Changed::Keyspace => "KEYSPACE",
            Changed::Table(_) => "TABLE",
            Changed::Type(_) => "TYPE",
        }
    }

    /// The name of the table or type.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.what {
            Changed::Keyspace => None,
            Changed::Table(name) | Changed::Type(name) => Some(name),
        }
    }
}

impl std::fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.change.name(), self.target(), self.keyspace)?;
        match self.name() {
            Some(name) => write!(f, ".{name}"),
            None => Ok(()),
        }
    }
}

/// The outcome of a statement that changes the schema.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The new schema; none if the statement changed nothing (`IF NOT EXISTS`).
    pub catalog: Option<Catalog>,
    /// What to tell clients; none answers the statement with a void result (`TRUNCATE` as well,
    /// which has a new catalog).
    pub change: Option<SchemaChange>,
    /// What the client should know of a schema that is legal and costs more than one might think.
    pub warning: Option<String>,
}

/// Why the schema was not changed. Trying again is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaError {
    /// It makes no sense with the schema as it is.
    Invalid(String),
    /// It is the system's, and nobody may change it.
    Unauthorized(String),
    /// An option has no legal value.
    Config(String),
    /// There is no such option.
    Syntax(String),
    /// The keyspace (then `table` is empty) or table exists.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, or empty.
        table: String,
    },
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaError::Invalid(text)
            | SchemaError::Unauthorized(text)
            | SchemaError::Config(text)
            | SchemaError::Syntax(text) => f.write_str(text),
            SchemaError::AlreadyExists { keyspace, table } if table.is_empty() => {
                write!(f, "Cannot add existing keyspace \"{keyspace}\"")
            }
            SchemaError::AlreadyExists { keyspace, table } => {
                write!(
                    f,
                    "Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\""
                )
            }
        }
    }
}

impl std::error::Error for SchemaError {}
