//! The catalog as JSON: the form in which it is kept on disk.
//!
//! ```text
//! {"format": 4, "next_table": N, "keyspaces": [{"name", "replication", "durable_writes",
//!   "types": [{"name", "fields": [{"name", "type"}]}],
//!   "tables": [{"name", "id", "number", "version", "next_column", "options",
//!     "columns": [{"name", "kind", "number", "type", "frozen", "descending"}],
//!     "dropped": [{"name", "type", "is_static", "dropped_us", "number"}]}]}]}
//! ```
//!
//! `dropped` may be missing: older programs did not write it. In format 1 a dropped column has
//! `dropped_ms` instead of the time in microseconds, and no number. Up to format 2 there are no
//! static columns, and dropped ones do not say what they were; up to format 3 there are no types,
//! each of which stands behind those that it is made of. `format` grows when an older
//! program could misread the file.

use super::{
    Catalog, Column, ColumnKind, DroppedColumn, Keyspace, Table, TableOptions, user_types,
};
use crate::{
    mutation::TableNumber,
    types::{
        parse::{self, Declared, TypeScope},
        user_type::{UserField, UserType, UserTypes},
    },
};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};
use uuid::Uuid;

const ALWAYS: &str = "strings and numbers are always JSON";

/// The format that is written here; those before it are read.
const FORMAT: u32 = 4;

/// `T` is a table, or what stands for one.
#[derive(Serialize, Deserialize)]
struct StoredCatalog<T> {
    format: u32,
    next_table: u32,
    keyspaces: Vec<StoredKeyspace<T>>,
}

#[derive(Serialize, Deserialize)]
struct StoredKeyspace<T> {
    name: String,
    replication: BTreeMap<String, String>,
    durable_writes: bool,
    #[serde(default)]
    types: Vec<StoredType>,
    tables: Vec<T>,
}

#[derive(Serialize, Deserialize)]
struct StoredType {
    name: String,
    fields: Vec<StoredField>,
}

#[derive(Serialize, Deserialize)]
struct StoredField {
    name: String,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    name: String,
    id: String,
    number: u32,
    version: u32,
    next_column: u16,
    options: TableOptions,
    columns: Vec<StoredColumn>,
    #[serde(default)]
    dropped: Vec<StoredDropped>,
}

#[derive(Serialize, Deserialize)]
struct StoredDropped {
    name: String,
    #[serde(rename = "type")]
    ty: String,
    #[serde(default)]
    is_static: bool,
    #[serde(default)]
    dropped_us: i64,
    #[serde(default, skip_serializing)]
    dropped_ms: Option<i64>,
    #[serde(default)]
    number: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    kind: StoredKind,
    number: u16,
    #[serde(rename = "type")]
    ty: String,
    frozen: bool,
    descending: bool,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

/// The JSON of a table, made when it is first asked for and kept: a table does not change. A copy,
/// which is there to be altered, has none.
#[derive(Debug, Default)]
pub struct TableText(OnceLock<MadeText>);

#[derive(Debug)]
struct MadeText {
    json: Box<RawValue>,
    digest: String,
    bytes: usize,
}

impl Clone for TableText {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for TableText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Table {
    fn made_text(&self) -> &MadeText {
        self.text.0.get_or_init(|| {
            let json = to_raw_value(&store_table(self)).expect(ALWAYS);
            let digest = format!("{:032x}", u128::from_be_bytes(Md5::digest(json.get()).into()));
            let told = self.columns.iter().map(|column| column.ty.option_bytes());
            let bytes = told.fold(json.get().len(), usize::saturating_add);
            MadeText { json, digest, bytes }
        })
    }

    /// Bytes of it as text, and of the types of its columns as clients are told of them.
    pub(super) fn bytes(&self) -> usize {
        self.made_text().bytes
    }

    /// Whether its text was made.
    #[cfg(test)]
    pub(super) fn has_text(&self) -> bool {
        self.text.0.get().is_some()
    }
}

pub(super) fn to_json(catalog: &Catalog) -> String {
    store(catalog, |table| &*table.made_text().json)
}

/// The same with the digest of each table in its place.
pub(super) fn to_digests(catalog: &Catalog) -> String {
    store(catalog, |table| &table.made_text().digest)
}

fn store<'a, T: Serialize + ?Sized + 'a>(
    catalog: &'a Catalog,
    store_table: impl Fn(&'a Table) -> &'a T,
) -> String {
    let store_table = |table: &'a Arc<Table>| store_table(table);
    let keyspaces = catalog.keyspaces.values();
    let stored = StoredCatalog {
        format: FORMAT,
        next_table: catalog.next_table,
        keyspaces: keyspaces.map(|keyspace| store_keyspace(keyspace, store_table)).collect(),
    };
    serde_json::to_string_pretty(&stored).expect(ALWAYS)
}

fn store_keyspace<'a, T>(
    keyspace: &'a Keyspace,
    store_table: impl Fn(&'a Arc<Table>) -> T,
) -> StoredKeyspace<T> {
    StoredKeyspace {
        name: keyspace.name.clone(),
        replication: keyspace.replication.clone(),
        durable_writes: keyspace.durable_writes,
        types: user_types::in_order(&keyspace.types).into_iter().map(store_type).collect(),
        tables: keyspace.tables.values().map(store_table).collect(),
    }
}

fn store_type(ty: &Arc<UserType>) -> StoredType {
    let field = |field: &UserField| StoredField { name: field.name.clone(), ty: field.type_name() };
    StoredType { name: ty.name().to_string(), fields: ty.fields().iter().map(field).collect() }
}

fn store_table(table: &Table) -> StoredTable {
    StoredTable {
        name: table.name.clone(),
        id: table.id.to_string(),
        number: table.number.0,
        version: table.version,
        next_column: table.next_column,
        options: table.options.clone(),
        columns: table.columns.iter().map(store_column).collect(),
        dropped: table
            .dropped
            .iter()
            .map(|(name, column)| StoredDropped {
                name: name.clone(),
                ty: column.type_name(),
                is_static: column.is_static,
                dropped_us: column.dropped_us,
                dropped_ms: None,
                number: column.number,
            })
            .collect(),
    }
}

fn store_column(column: &Column) -> StoredColumn {
    StoredColumn {
        name: column.name.clone(),
        kind: match column.kind {
            ColumnKind::PartitionKey => StoredKind::PartitionKey,
            ColumnKind::Clustering => StoredKind::Clustering,
            ColumnKind::Static => StoredKind::Static,
            ColumnKind::Regular => StoredKind::Regular,
        },
        number: column.number,
        ty: column.ty.to_string(),
        frozen: column.frozen,
        descending: column.descending,
    }
}

pub(super) fn from_json(text: &str) -> Result<Catalog, String> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !(1..=FORMAT).contains(&head.format) {
        return Err(format!(
            "format {} is unknown to this version, which reads formats up to {FORMAT}",
            head.format
        ));
    }
    let stored: StoredCatalog<StoredTable> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let keyspaces: Result<BTreeMap<_, _>, String> =
        stored.keyspaces.into_iter().map(load_keyspace).collect();
    let catalog =
        Catalog { keyspaces: keyspaces?, next_table: stored.next_table, ..Catalog::default() };
    if catalog.tables().any(|table| table.number.0 >= stored.next_table) {
        return Err("a table has a number that was not yet given".into());
    }
    Ok(catalog)
}

fn load_keyspace(stored: StoredKeyspace<StoredTable>) -> Result<(String, Keyspace), String> {
    let mut types = UserTypes::new();
    for ty in stored.types {
        let made = load_type(ty, TypeScope { keyspace: &stored.name, types: &types })?;
        types.insert(made.name().to_string(), Arc::new(made));
    }
    let load = |table: StoredTable| {
        let table = load_table(TypeScope { keyspace: &stored.name, types: &types }, table)?;
        Ok((table.name.clone(), Arc::new(table)))
    };
    let tables: Result<BTreeMap<_, _>, String> = stored.tables.into_iter().map(load).collect();
    let keyspace = Keyspace {
        name: stored.name.clone(),
        replication: stored.replication,
        durable_writes: stored.durable_writes,
        tables: tables?,
        types,
    };
    Ok((stored.name, keyspace))
}

fn load_type(stored: StoredType, scope: TypeScope<'_>) -> Result<UserType, String> {
    let load = |field: StoredField| {
        let Declared { ty, frozen } = parse::parse(&field.ty, scope)?;
        Ok(UserField { name: field.name, ty, frozen })
    };
    let fields: Result<Vec<_>, String> = stored.fields.into_iter().map(load).collect();
    Ok(UserType::new(scope.keyspace, &stored.name, fields?))
}

fn load_table(scope: TypeScope<'_>, stored: StoredTable) -> Result<Table, String> {
    let columns = stored.columns.into_iter().map(|column| load_column(column, scope));
    let columns: Result<Vec<_>, String> = columns.collect();
    let dropped = stored.dropped.into_iter().map(|column| load_dropped(column, scope));
    let dropped: Result<BTreeMap<_, _>, String> = dropped.collect();
    Ok(Table {
        keyspace: scope.keyspace.to_string(),
        name: stored.name,
        id: Uuid::parse_str(&stored.id).map_err(|error| error.to_string())?,
        number: TableNumber(stored.number),
        version: stored.version,
        next_column: stored.next_column,
        columns: columns?,
        dropped: dropped?,
        options: stored.options,
        text: TableText::default(),
    })
}

fn load_dropped(
    stored: StoredDropped,
    scope: TypeScope<'_>,
) -> Result<(String, DroppedColumn), String> {
    let declared = parse::parse(&stored.ty, scope)?;
    let column = DroppedColumn {
        ty: declared.ty,
        frozen: declared.frozen,
        is_static: stored.is_static,
        dropped_us: stored.dropped_ms.map_or(stored.dropped_us, |ms| ms.saturating_mul(1_000)),
        number: stored.number,
    };
    Ok((stored.name, column))
}

fn load_column(stored: StoredColumn, scope: TypeScope<'_>) -> Result<Column, String> {
    Ok(Column {
        name: stored.name,
        kind: match stored.kind {
            StoredKind::PartitionKey => ColumnKind::PartitionKey,
            StoredKind::Clustering => ColumnKind::Clustering,
            StoredKind::Static => ColumnKind::Static,
            StoredKind::Regular => ColumnKind::Regular,
        },
        number: stored.number,
        ty: parse::parse(&stored.ty, scope)?.ty,
        frozen: stored.frozen,
        descending: stored.descending,
    })
}
