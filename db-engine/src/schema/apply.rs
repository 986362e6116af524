//! Carries out a statement that changes the schema: catalog and statement → the next catalog.

use super::{
    Applied, Catalog, Changed, Column, ColumnKind, Ddl, Keyspace, SchemaChange, SchemaError, Table,
    TableName, TableOptions, TableText, alter,
    columns::{COLUMNS_MAX, check_counters, check_static, check_type, column_of_cells, invalid},
    ddl::{ChangeKind, NewColumn, Properties},
    replication::keyspace_options,
    system::is_system,
    user_types,
};
use crate::{
    mutation::TableNumber,
    types::{CqlType, parse::Declared, user_type::UserTypes},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use uuid::Uuid;

/// Longest name of a keyspace, in characters; Cassandra's, whose files carry it.
const KEYSPACE_NAME_MAX: usize = 48;
/// Longest name of a table, in characters.
const TABLE_NAME_MAX: usize = 222;

fn system_keyspace<T>(name: &str) -> Result<T, SchemaError> {
    Err(SchemaError::Unauthorized(format!("{name} keyspace is not user-modifiable.")))
}

pub(super) const NOTHING: Applied = Applied { catalog: None, change: None, warning: None };

pub(super) fn done(catalog: Catalog, change: ChangeKind, keyspace: &str, what: Changed) -> Applied {
    let change = Some(SchemaChange { change, keyspace: keyspace.to_string(), what });
    Applied { catalog: Some(catalog), change, warning: None }
}

pub(super) fn apply(
    catalog: &Catalog,
    ddl: &Ddl,
    id: Uuid,
    now_us: i64,
) -> Result<Applied, SchemaError> {
    match ddl {
        Ddl::CreateKeyspace { name, if_not_exists, properties } => {
            create_keyspace(catalog, name, *if_not_exists, properties.clone())
        }
        Ddl::AlterKeyspace { name, if_exists, properties } => {
            alter_keyspace(catalog, name, *if_exists, properties.clone())
        }
        Ddl::DropKeyspace { name, if_exists } => drop_keyspace(catalog, name, *if_exists),
        Ddl::CreateTable { name, if_not_exists, .. } => {
            let (keyspace, table) = resolve(catalog, name)?;
            let Some(of) = catalog.keyspaces.get(keyspace) else { return Ok(NOTHING) };
            if of.tables.contains_key(table) {
                if *if_not_exists {
                    return Ok(NOTHING);
                }
                let (keyspace, table) = (keyspace.to_string(), table.to_string());
                return Err(SchemaError::AlreadyExists { keyspace, table });
            }
            let mut next = catalog.clone();
            let made = create_table(of, ddl, id, TableNumber(catalog.next_table))?;
            let warning = made.options.warning(None);
            next.next_table += 1;
            insert(&mut next, made);
            Ok(Applied {
                warning,
                ..done(next, ChangeKind::Created, keyspace, Changed::Table(table.into()))
            })
        }
        Ddl::AlterTable { name, if_exists, change } => {
            let Some(found) = find(catalog, name, *if_exists, false)? else { return Ok(NOTHING) };
            let mut altered = Table::clone(&found);
            let Some(of) = catalog.keyspaces.get(&found.keyspace) else { return Ok(NOTHING) };
            alter::alter_table(&mut altered, change, of.scope(), now_us)?;
            if altered == *found {
                return Ok(NOTHING);
            }
            altered.version += 1;
            let warning = altered.options.warning(Some(&found.options));
            let mut next = catalog.clone();
            insert(&mut next, altered);
            let what = Changed::Table(found.name.clone());
            let applied = done(next, ChangeKind::Updated, &found.keyspace, what);
            Ok(Applied { warning, ..applied })
        }
        Ddl::DropTable { name, if_exists } => {
            let Some(found) = find(catalog, name, *if_exists, false)? else { return Ok(NOTHING) };
            let mut next = catalog.clone();
            if let Some(keyspace) = next.keyspaces.get_mut(&found.keyspace) {
                keyspace.tables.remove(&found.name);
            }
            let what = Changed::Table(found.name.clone());
            Ok(done(next, ChangeKind::Dropped, &found.keyspace, what))
        }
        Ddl::Truncate { name } => {
            let Some(found) = find(catalog, name, false, true)? else { return Ok(NOTHING) };
            Ok(truncate(catalog, &found))
        }
        Ddl::CreateType { name, if_not_exists, fields } => {
            user_types::create(catalog, name, *if_not_exists, fields)
        }
        Ddl::AlterType { name, if_exists, change } => {
            user_types::alter(catalog, name, *if_exists, change)
        }
        Ddl::DropType { name, if_exists } => user_types::drop(catalog, name, *if_exists),
    }
}

/// Storage forgets the old number and begins empty with a new one.
fn truncate(catalog: &Catalog, found: &Table) -> Applied {
    let mut emptied = Table::clone(found);
    emptied.number = TableNumber(catalog.next_table);
    let mut next = catalog.clone();
    next.next_table += 1;
    insert(&mut next, emptied);
    Applied { catalog: Some(next), change: None, warning: None }
}

pub(super) fn insert(catalog: &mut Catalog, table: Table) {
    if let Some(keyspace) = catalog.keyspaces.get_mut(&table.keyspace) {
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
}

/// Keyspace and name of what is to be changed; the keyspace exists and is a user's.
pub(super) fn resolve<'a>(
    catalog: &Catalog,
    name: &'a TableName,
) -> Result<(&'a str, &'a str), SchemaError> {
    let Some(keyspace) = name.keyspace.as_deref() else {
        return invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify \
             keyspace.tablename",
        );
    };
    if is_system(keyspace) {
        return system_keyspace(keyspace);
    }
    if !catalog.keyspaces.contains_key(keyspace) {
        return invalid(format!("Keyspace '{keyspace}' doesn't exist"));
    }
    Ok((keyspace, &name.name))
}

fn find(
    catalog: &Catalog,
    name: &TableName,
    may_miss: bool,
    truncates: bool,
) -> Result<Option<Arc<Table>>, SchemaError> {
    let found = match resolve(catalog, name) {
        Ok((keyspace, table)) => {
            catalog.keyspaces.get(keyspace).and_then(|keyspace| keyspace.tables.get(table))
        }
        Err(_) if may_miss && name.keyspace.is_some() => None,
        Err(error) => return Err(error),
    };
    match found {
        Some(table) => Ok(Some(Arc::clone(table))),
        None if may_miss => Ok(None),
        None if truncates => invalid(format!("table {} does not exist", name.name)),
        None => {
            let keyspace = name.keyspace.as_deref().unwrap_or_default();
            invalid(format!("Table '{keyspace}.{}' doesn't exist", name.name))
        }
    }
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn create_keyspace(
    catalog: &Catalog,
    name: &str,
    if_not_exists: bool,
    properties: Properties,
) -> Result<Applied, SchemaError> {
    if is_system(name) {
        return invalid(format!("System keyspace '{name}' is not user-modifiable"));
    }
    if !is_word(name) || name.len() > KEYSPACE_NAME_MAX {
        return invalid(format!(
            "Keyspace name must not be empty, more than {KEYSPACE_NAME_MAX} characters long, or \
             contain non-alphanumeric-underscore characters (got \"{name}\")"
        ));
    }
    if catalog.keyspaces.contains_key(name) {
        if if_not_exists {
            return Ok(NOTHING);
        }
        let (keyspace, table) = (name.to_string(), String::new());
        return Err(SchemaError::AlreadyExists { keyspace, table });
    }
    let (replication, durable_writes) = keyspace_options(name, properties)?;
    let Some(replication) = replication else {
        return invalid("Missing mandatory option 'replication'");
    };
    let mut next = catalog.clone();
    let keyspace = Keyspace {
        name: name.to_string(),
        replication,
        durable_writes: durable_writes.unwrap_or(true),
        types: UserTypes::new(),
        tables: BTreeMap::new(),
    };
    next.keyspaces.insert(name.to_string(), keyspace);
    Ok(done(next, ChangeKind::Created, name, Changed::Keyspace))
}

fn alter_keyspace(
    catalog: &Catalog,
    name: &str,
    if_exists: bool,
    properties: Properties,
) -> Result<Applied, SchemaError> {
    if is_system(name) {
        return system_keyspace(name);
    }
    let mut next = catalog.clone();
    let Some(keyspace) = next.keyspaces.get_mut(name) else {
        if if_exists {
            return Ok(NOTHING);
        }
        return invalid(format!("Keyspace '{name}' doesn't exist"));
    };
    let (replication, durable_writes) = keyspace_options(name, properties)?;
    if let Some(replication) = replication {
        keyspace.replication = replication;
    }
    keyspace.durable_writes = durable_writes.unwrap_or(keyspace.durable_writes);
    if next == *catalog {
        return Ok(NOTHING);
    }
    Ok(done(next, ChangeKind::Updated, name, Changed::Keyspace))
}

fn drop_keyspace(catalog: &Catalog, name: &str, if_exists: bool) -> Result<Applied, SchemaError> {
    if is_system(name) {
        return system_keyspace(name);
    }
    let mut next = catalog.clone();
    match next.keyspaces.remove(name) {
        Some(_) => Ok(done(next, ChangeKind::Dropped, name, Changed::Keyspace)),
        None if if_exists => Ok(NOTHING),
        None => invalid(format!("Keyspace '{name}' doesn't exist")),
    }
}

fn create_table(
    keyspace: &Keyspace,
    ddl: &Ddl,
    id: Uuid,
    number: TableNumber,
) -> Result<Table, SchemaError> {
    let Ddl::CreateTable { name, columns, partition_key, clustering, order, properties, .. } = ddl
    else {
        return invalid("not a table");
    };
    let table = &name.name;
    if !is_word(table) || table.len() > TABLE_NAME_MAX {
        return Err(SchemaError::Config(format!(
            "{}.{table}: Table name must not be empty or not contain \
             non-alphanumeric-underscore characters (got \"{table}\")",
            keyspace.name
        )));
    }
    let mut left: Vec<(&NewColumn, Declared)> = Vec::new();
    let mut names = BTreeSet::new();
    for column in columns {
        let name = &column.name;
        if !names.insert(name) {
            return invalid(format!("Duplicate column '{name}' declaration for table '{table}'"));
        }
        left.push((column, check_type(column, keyspace.scope())?));
    }
    if left.len() > COLUMNS_MAX {
        return invalid(format!("Table '{table}' has more than {COLUMNS_MAX} columns"));
    }
    let mut made = Vec::new();
    let keys = [(ColumnKind::PartitionKey, partition_key), (ColumnKind::Clustering, clustering)];
    for (kind, names) in keys {
        for (position, name) in (0u16..).zip(names) {
            made.push(key_column(table, &mut left, &made, kind, position, name)?);
        }
    }
    set_order(table, &mut made, clustering, order)?;
    if left.iter().any(|(column, _)| column.is_static) {
        check_static(!clustering.is_empty())?;
    }
    let is_counter = |(_, declared): &(&NewColumn, Declared)| declared.ty == CqlType::Counter;
    if left.iter().any(is_counter) && !left.iter().all(is_counter) {
        return invalid("Cannot mix counter and non counter columns in the same table");
    }
    left.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let mut next_column = 0;
    for (column, declared) in left {
        made.push(column_of_cells(column, declared, next_column));
        next_column += 1;
    }
    let mut options = TableOptions::default();
    options.set(properties.clone())?;
    let mut made = Table {
        keyspace: keyspace.name.clone(),
        name: table.clone(),
        id,
        number,
        version: 0,
        next_column,
        columns: made,
        dropped: BTreeMap::new(),
        options,
        text: TableText::default(),
    };
    made.sort_with_cells();
    check_counters(&made)?;
    Ok(made)
}

fn key_column(
    table: &str,
    left: &mut Vec<(&NewColumn, Declared)>,
    made: &[Column],
    kind: ColumnKind,
    position: u16,
    name: &str,
) -> Result<Column, SchemaError> {
    let Some(at) = left.iter().position(|(column, _)| column.name == *name) else {
        if made.iter().any(|column| column.name == name) {
            return invalid(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
            ));
        }
        return invalid(format!(
            "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
        ));
    };
    let (NewColumn { name, is_static, .. }, Declared { ty, frozen }) = left.remove(at);
    if ty.is_collection() && !frozen {
        return invalid(format!(
            "Invalid non-frozen collection type {} for PRIMARY KEY column '{name}'",
            ty.unfrozen_name()
        ));
    }
    if let (CqlType::Udt(of), false) = (&ty, frozen) {
        return invalid(format!(
            "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'",
            of.keyspace(),
            of.name()
        ));
    }
    if ty.mentions_duration() {
        return invalid(format!("duration type is not supported for PRIMARY KEY column '{name}'"));
    }
    if ty == CqlType::Counter {
        return invalid(format!("counter type is not supported for PRIMARY KEY column '{name}'"));
    }
    if *is_static {
        return invalid(format!("Static column '{name}' cannot be part of the PRIMARY KEY"));
    }
    let name = name.clone();
    Ok(Column { name, kind, number: position, ty, frozen, descending: false })
}

fn set_order(
    table: &str,
    made: &mut [Column],
    clustering: &[String],
    order: &[(String, bool)],
) -> Result<(), SchemaError> {
    for (at, (name, _)) in order.iter().enumerate() {
        if order.iter().take(at).any(|(before, _)| before == name) {
            return invalid(format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
            ));
        }
    }
    if let Some((name, _)) = order.iter().find(|(name, _)| !clustering.contains(name)) {
        return invalid(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{name}] \
             are not clustering columns"
        ));
    }
    for ((name, descending), wanted) in order.iter().zip(clustering) {
        if name != wanted {
            return invalid(if order.iter().any(|(other, _)| other == wanted) {
                format!(
                    "The order of columns in the CLUSTERING ORDER directive must match that of \
                     the clustering columns ({})",
                    clustering.join(", ")
                )
            } else {
                format!("Missing CLUSTERING ORDER for column {wanted}")
            });
        }
        if let Some(column) = made.iter_mut().find(|column| column.name == *name) {
            column.descending = *descending;
        }
    }
    Ok(())
}
