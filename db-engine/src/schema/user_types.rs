//! `CREATE TYPE`, `ALTER TYPE` and `DROP TYPE`: catalog and statement → the next catalog.

use super::{
    Applied, Catalog, Changed, ColumnKind, Keyspace, SchemaError, TableName,
    apply::{NOTHING, done, insert, resolve},
    columns::invalid,
    ddl::{ChangeKind, TypeAlteration},
};
use crate::types::{
    CqlType,
    parse::{Declared, TypeName, TypeScope},
    user_type::{UserField, UserType, UserTypes},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The types such that each stands behind those that it is made of, else by name.
#[must_use]
pub(super) fn in_order(types: &UserTypes) -> Vec<&Arc<UserType>> {
    fn visit<'a>(
        ty: &'a Arc<UserType>,
        types: &'a UserTypes,
        seen: &mut BTreeSet<&'a str>,
        out: &mut Vec<&'a Arc<UserType>>,
    ) {
        if !seen.insert(ty.name()) {
            return;
        }
        for part in ty.types() {
            part.for_each_user_type(&mut |name| {
                if let Some(part) = types.get(name) {
                    visit(part, types, seen, out);
                }
            });
        }
        out.push(ty);
    }
    let (mut seen, mut out) = (BTreeSet::new(), Vec::new());
    for ty in types.values() {
        visit(ty, types, &mut seen, &mut out);
    }
    out
}

fn field(name: &str, ty: &TypeName, scope: TypeScope<'_>) -> Result<UserField, SchemaError> {
    check_kind(ty)?;
    let Declared { ty, frozen } = ty.declared(scope).map_err(SchemaError::Invalid)?;
    Ok(UserField { name: name.to_string(), ty, frozen })
}

/// Checks what a type may be made of, before it is known what there is.
fn check_kind(ty: &TypeName) -> Result<(), SchemaError> {
    if ty.name == "counter" && !ty.is_user_defined() {
        return invalid("A user type cannot contain counters");
    }
    if ty.is_user_defined() {
        return invalid("A user type cannot contain non-frozen UDTs");
    }
    Ok(())
}

/// The type of fields, if it can be worked with.
fn made(keyspace: &str, name: &str, fields: Vec<UserField>) -> Result<Arc<UserType>, SchemaError> {
    let made = Arc::new(UserType::new(keyspace, name, fields));
    CqlType::Udt(Arc::clone(&made)).check_size().map_err(SchemaError::Invalid)?;
    Ok(made)
}

pub(super) fn create(
    catalog: &Catalog,
    name: &TableName,
    if_not_exists: bool,
    fields: &[(String, TypeName)],
) -> Result<Applied, SchemaError> {
    let (keyspace, name) = resolve(catalog, name)?;
    let mut next = catalog.clone();
    let Some(found) = next.keyspaces.get_mut(keyspace) else { return Ok(NOTHING) };
    if found.types.contains_key(name) {
        if if_not_exists {
            return Ok(NOTHING);
        }
        return invalid(format!("A user type with name '{name}' already exists"));
    }
    let mut names = BTreeSet::new();
    if let Some((field, _)) = fields.iter().find(|(name, _)| !names.insert(name)) {
        return invalid(format!("Duplicate field name '{field}' in type '{name}'"));
    }
    fields.iter().try_for_each(|(_, ty)| check_kind(ty))?;
    let fields = fields.iter().map(|(name, ty)| field(name, ty, found.scope()));
    let made = made(keyspace, name, fields.collect::<Result<_, _>>()?)?;
    found.types.insert(name.to_string(), made);
    Ok(done(next, ChangeKind::Created, keyspace, Changed::Type(name.to_string())))
}

/// A type that is to be changed or dropped, and its keyspace; none if it may be missing and is.
fn find<'a>(
    catalog: &'a Catalog,
    name: &TableName,
    may_miss: bool,
    missing: impl Fn(&str) -> String,
) -> Result<Option<(&'a Keyspace, &'a Arc<UserType>)>, SchemaError> {
    let in_keyspace = match resolve(catalog, name) {
        Ok((keyspace, _)) => catalog.keyspaces.get(keyspace),
        Err(SchemaError::Invalid(_)) if name.keyspace.is_some() => None,
        Err(error) => return Err(error),
    };
    let found = in_keyspace.and_then(|keyspace| Some((keyspace, keyspace.types.get(&name.name)?)));
    if found.is_none() && !may_miss {
        let keyspace = name.keyspace.as_deref().unwrap_or_default();
        return invalid(missing(&format!("{keyspace}.{}", name.name)));
    }
    Ok(found)
}

pub(super) fn drop(
    catalog: &Catalog,
    name: &TableName,
    if_exists: bool,
) -> Result<Applied, SchemaError> {
    let missing = |name: &str| format!("Type '{name}' doesn't exist");
    let Some((keyspace, ty)) = find(catalog, name, if_exists, missing)? else {
        return Ok(NOTHING);
    };
    let uses = |part: &CqlType| part.uses(&|name| name == ty.name());
    let types = keyspace.types.values().filter(|other| other.types().any(uses));
    let types: Vec<&str> = types.map(|other| other.name()).collect();
    let tables = keyspace.tables.values().filter(|table| table.columns.iter().any(|c| uses(&c.ty)));
    let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
    for (what, names) in [("user types", types), ("tables", tables)] {
        if !names.is_empty() {
            return invalid(format!(
                "Cannot drop user type '{}.{}' as it is still used by {what} {}",
                keyspace.name,
                ty.name(),
                names.join(", ")
            ));
        }
    }
    let mut next = catalog.clone();
    if let Some(keyspace) = next.keyspaces.get_mut(&keyspace.name) {
        keyspace.types.remove(ty.name());
    }
    Ok(done(next, ChangeKind::Dropped, &keyspace.name, Changed::Type(ty.name().to_string())))
}

pub(super) fn alter(
    catalog: &Catalog,
    name: &TableName,
    if_exists: bool,
    change: &TypeAlteration,
) -> Result<Applied, SchemaError> {
    let missing = |name: &str| format!("Type {name} doesn't exist");
    let Some((keyspace, ty)) = find(catalog, name, if_exists, missing)? else {
        return Ok(NOTHING);
    };
    let mut fields = ty.fields().to_vec();
    match change {
        TypeAlteration::Add { if_not_exists, name, ty: added } => {
            if ty.position(name).is_some() {
                if *if_not_exists {
                    return Ok(NOTHING);
                }
                return invalid(format!(
                    "Cannot add field {name} to type {}.{}: a field with name {name} already \
                     exists",
                    keyspace.name,
                    ty.name()
                ));
            }
            fields.push(added_field(keyspace, ty, name, added)?);
        }
        TypeAlteration::Rename { if_exists, pairs } => {
            rename(keyspace, ty, &mut fields, *if_exists, pairs)?;
        }
    }
    if fields == ty.fields() {
        return Ok(NOTHING);
    }
    let mut next = catalog.clone();
    replace(&mut next, keyspace, made(&keyspace.name, ty.name(), fields)?)?;
    Ok(done(next, ChangeKind::Updated, &keyspace.name, Changed::Type(ty.name().to_string())))
}

fn added_field(
    keyspace: &Keyspace,
    ty: &UserType,
    name: &str,
    added: &TypeName,
) -> Result<UserField, SchemaError> {
    let made = field(name, added, keyspace.scope())?;
    let cannot = |why: &str| {
        invalid(format!(
            "Cannot add new field {name} of type {} to user type {}.{} as {why}",
            added.in_keyspace(&keyspace.name),
            keyspace.name,
            ty.name()
        ))
    };
    let is_meant = |name: &str| name == ty.name();
    if made.ty.mentions(&is_meant) {
        return cannot("it would create a circular reference");
    }
    let dependents = dependents(keyspace, ty.name());
    let in_key = keyspace.tables.values().filter(|table| {
        let mut key = table.partition_key().iter();
        key.any(|column| column.ty.uses(&|name| dependents.contains(name)))
    });
    let in_key: Vec<String> =
        in_key.map(|table| format!("{}.{}", keyspace.name, table.name)).collect();
    if !in_key.is_empty() {
        return cannot(&format!(
            "the type is being used in partition key by the following tables: {}",
            in_key.join(", ")
        ));
    }
    Ok(made)
}

fn rename(
    keyspace: &Keyspace,
    ty: &UserType,
    fields: &mut [UserField],
    if_exists: bool,
    pairs: &[(String, String)],
) -> Result<(), SchemaError> {
    let of = format!("{}.{}", keyspace.name, ty.name());
    for (from, to) in pairs {
        match ty.position(from).and_then(|at| fields.get_mut(at)) {
            Some(field) => field.name.clone_from(to),
            None if if_exists => {}
            // Cassandra's spelling.
            None => return invalid(format!("Unkown field {from} in user type {of}")),
        }
    }
    let mut names = BTreeSet::new();
    match fields.iter().find(|field| !names.insert(&field.name)) {
        None => Ok(()),
        Some(field) => {
            // As in Cassandra, which names the keyspace here.
            invalid(format!("Duplicate field name {} in type {}", field.name, keyspace.name))
        }
    }
}

/// The type of this name, and all that are made of it.
fn dependents<'a>(keyspace: &'a Keyspace, name: &'a str) -> BTreeSet<&'a str> {
    let mut all = BTreeSet::from([name]);
    for ty in in_order(&keyspace.types) {
        if ty.types().any(|part| part.uses(&|name| all.contains(name))) {
            all.insert(ty.name());
        }
    }
    all
}

/// Puts a type in the place of the one of its name, in all types and tables that are made of it.
/// What was planned with those tables is no longer current.
fn replace(next: &mut Catalog, before: &Keyspace, ty: Arc<UserType>) -> Result<(), SchemaError> {
    let mut changed = BTreeMap::from([(ty.name().to_string(), ty)]);
    for other in in_order(&before.types) {
        let is_changed = |name: &str| changed.contains_key(name);
        if is_changed(other.name()) || !other.types().any(|part| part.uses(&is_changed)) {
            continue;
        }
        let fields = other.fields().iter();
        let fields = fields.map(|f| UserField { ty: f.ty.with(&changed), ..f.clone() });
        let made = made(&before.name, other.name(), fields.collect())?;
        changed.insert(other.name().to_string(), made);
    }
    let is_changed = |name: &str| changed.contains_key(name);
    for table in before.tables.values() {
        if !table.columns.iter().any(|column| column.ty.uses(&is_changed)) {
            continue;
        }
        let mut table = super::Table::clone(table);
        for column in table.columns.iter_mut().filter(|column| column.ty.uses(&is_changed)) {
            column.ty = column.ty.with(&changed);
            column.ty.check_size().map_err(SchemaError::Invalid)?;
            let is_key = matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
            if is_key && column.ty.mentions_duration() {
                return invalid(format!(
                    "duration type is not supported for PRIMARY KEY column '{}' of table {}.{}",
                    column.name, before.name, table.name
                ));
            }
        }
        table.version += 1;
        insert(next, table);
    }
    if let Some(keyspace) = next.keyspaces.get_mut(&before.name) {
        keyspace.types.extend(changed);
    }
    Ok(())
}
