//! Keyspaces and tables as the CQL that makes them: what `DESCRIBE` answers.
//!
//! The text is Cassandra's, so that tools that compare or keep it see no difference. It leaves out
//! the options that this engine does not have, and every other option is there, so that the table
//! that it makes is the same whatever the defaults are where it is read.

use super::{Catalog, Column, ColumnKind, Keyspace, Table, TableOptions, system, user_types};
use crate::types::{
    name::quoted,
    user_type::{UserField, UserType},
};
use std::{cmp::Ordering, collections::BTreeMap, fmt::Write as _};

/// Keyspaces of users and of the system, in the order in which they are listed.
#[must_use]
pub fn keyspaces(catalog: &Catalog) -> Vec<&Keyspace> {
    let mut all: Vec<_> = catalog.keyspaces.values().chain(system::keyspaces().values()).collect();
    all.sort_by(|a, b| by_name(&a.name, &b.name));
    all
}

/// The tables of a keyspace, in the order in which they are listed.
#[must_use]
pub fn tables(keyspace: &Keyspace) -> Vec<&Table> {
    let mut all: Vec<_> = keyspace.tables.values().map(|table| &**table).collect();
    all.sort_by(|a, b| by_name(&a.name, &b.name));
    all
}

/// The types of a keyspace, in the order in which they are listed.
#[must_use]
pub fn types(keyspace: &Keyspace) -> Vec<&UserType> {
    let mut all: Vec<_> = keyspace.types.values().map(|ty| &**ty).collect();
    all.sort_by(|a, b| by_name(a.name(), b.name()));
    all
}

/// The types of a keyspace, each behind those that it is made of.
#[must_use]
pub fn types_in_order(keyspace: &Keyspace) -> Vec<&UserType> {
    user_types::in_order(&keyspace.types).into_iter().map(|ty| &**ty).collect()
}

/// Capitals count as small letters, unless nothing else differs.
fn by_name(a: &str, b: &str) -> Ordering {
    a.to_lowercase().cmp(&b.to_lowercase()).then_with(|| a.cmp(b))
}

/// The statement that makes a keyspace.
#[must_use]
pub fn keyspace_cql(keyspace: &Keyspace) -> String {
    let name = quoted(&keyspace.name);
    if system::is_virtual(&keyspace.name) {
        return not_to_be_made("Keyspace", &name, &format!("VIRTUAL KEYSPACE {name};"));
    }
    let mut replication = keyspace.replication.clone();
    let class = replication.remove("class").unwrap_or_default();
    let class = class.rsplit('.').next().unwrap_or_default();
    let mut pairs = format!("{{'class': {}", text(class));
    for (key, value) in &replication {
        let _ = write!(pairs, ", {}: {}", text(key), text(value));
    }
    // Two spaces, as Cassandra has them.
    let durable = keyspace.durable_writes;
    format!("CREATE KEYSPACE {name} WITH replication = {pairs}}}  AND durable_writes = {durable};")
}

/// The statement that makes a type.
#[must_use]
pub fn type_cql(ty: &UserType) -> String {
    let field = |field: &UserField| format!("{} {}", quoted(&field.name), field.type_name());
    let fields: Vec<_> = ty.fields().iter().map(field).collect();
    let (keyspace, name) = (quoted(ty.keyspace()), quoted(ty.name()));
    format!("CREATE TYPE {keyspace}.{name} (\n    {}\n);", fields.join(",\n    "))
}

/// The statement that makes a table. `with_internals`: with its identifier, and with the columns
/// that were dropped, which further statements drop again.
#[must_use]
pub fn table_cql(table: &Table, with_internals: bool) -> String {
    let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    if system::is_virtual(&table.keyspace) {
        let options = vec![format!("comment = {}", text(&table.options.comment))];
        let columns = columns_cql(table, false);
        let structure = with(&format!("VIRTUAL TABLE {name} ({columns})"), table, options, None);
        return not_to_be_made("Table", &name, &structure);
    }
    let id = with_internals.then(|| format!("ID = {}", table.id));
    let columns = columns_cql(table, with_internals);
    let create = format!("CREATE TABLE {name} ({columns})");
    let mut statements = with(&create, table, options_cql(&table.options), id);
    for (column, dropped) in table.dropped.iter().filter(|_| with_internals) {
        let (us, quoted) = (dropped.dropped_us, quoted(column));
        let _ = write!(statements, "\nALTER TABLE {name} DROP {quoted} USING TIMESTAMP {us};");
        if let Some(again) = table.column(column) {
            let _ = write!(statements, "\nALTER TABLE {name} ADD {};", declaration(again));
        }
    }
    statements
}

/// A comment in place of a statement: nobody can make what the system makes up.
fn not_to_be_made(what: &str, name: &str, structure: &str) -> String {
    let kind = what.to_lowercase();
    format!(
        "/*\nWarning: {what} {name} is a virtual {kind} and cannot be recreated with CQL.\n\
         Structure, for reference:\n{structure}\n*/"
    )
}

/// A column as it is declared.
fn declaration(column: &Column) -> String {
    let word = static_word(column.kind == ColumnKind::Static);
    format!("{} {}{word}", quoted(&column.name), column.type_name())
}

fn static_word(is_static: bool) -> &'static str {
    if is_static { " static" } else { "" }
}

/// The columns and the primary key, a line each; with those that were dropped, as they were then.
fn columns_cql(table: &Table, with_dropped: bool) -> String {
    let (partition, clustering) = (table.partition_key(), table.clustering());
    let is_alone = partition.len() == 1 && clustering.is_empty();
    let mut lines = Vec::new();
    let is_dropped = |column: &&Column| with_dropped && table.dropped.contains_key(&column.name);
    let mut shown: Vec<_> = table.columns.iter().filter(|column| !is_dropped(column)).collect();
    // As in Cassandra, those whose elements have cells come behind the others of their kind.
    shown.sort_by_key(|column| (column.kind == ColumnKind::Regular, column.has_elements()));
    for column in shown {
        let mut line = declaration(column);
        if is_alone && column.kind == ColumnKind::PartitionKey {
            line.push_str(" PRIMARY KEY");
        }
        lines.push(line);
    }
    let dropped = table.dropped.iter().filter(|_| with_dropped);
    lines.extend(dropped.map(|(name, column)| {
        format!("{} {}{}", quoted(name), column.type_name(), static_word(column.is_static))
    }));
    if !is_alone {
        let names = |columns: &[Column]| {
            let names: Vec<_> = columns.iter().map(|column| quoted(&column.name)).collect();
            names.join(", ")
        };
        let mut key = names(partition);
        if partition.len() > 1 {
            key = format!("({key})");
        }
        if !clustering.is_empty() {
            let _ = write!(key, ", {}", names(clustering));
        }
        lines.push(format!("PRIMARY KEY ({key})"));
    }
    format!("\n    {}\n", lines.join(",\n    "))
}

/// Appends what follows `WITH`, a line each.
fn with(statement: &str, table: &Table, options: Vec<String>, id: Option<String>) -> String {
    let mut lines: Vec<String> = id.into_iter().collect();
    if !table.clustering().is_empty() {
        let order = |column: &Column| {
            let direction = if column.descending { "DESC" } else { "ASC" };
            format!("{} {direction}", quoted(&column.name))
        };
        let order: Vec<_> = table.clustering().iter().map(order).collect();
        lines.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    lines.extend(options);
    format!("{statement} WITH {};", lines.join("\n    AND "))
}

/// The options in Cassandra's order.
fn options_cql(options: &TableOptions) -> Vec<String> {
    let shown = |name: &str| {
        let value = options.shown.get(name);
        value.map(|value| format!("{name} = {}", text(value)))
    };
    let lines = [
        shown("additional_write_policy"),
        Some(format!("bloom_filter_fp_chance = {}", number(options.bloom_filter_fp_chance))),
        Some(format!("caching = {}", map(&options.caching))),
        Some("cdc = false".to_string()),
        Some(format!("comment = {}", text(&options.comment))),
        Some(format!("compaction = {}", map(&options.compaction))),
        Some(format!("compression = {}", map(&options.compression))),
        shown("memtable"),
        Some(format!("crc_check_chance = {}", number(options.crc_check_chance))),
        Some(format!("default_time_to_live = {}", options.default_ttl_s)),
        Some("extensions = {}".to_string()),
        Some(format!("gc_grace_seconds = {}", options.gc_grace_s)),
        Some(format!("max_index_interval = {}", options.max_index_interval)),
        Some(format!("memtable_flush_period_in_ms = {}", options.memtable_flush_period_ms)),
        Some(format!("min_index_interval = {}", options.min_index_interval)),
        shown("read_repair"),
        shown("speculative_retry"),
    ];
    lines.into_iter().flatten().collect()
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn map(pairs: &BTreeMap<String, String>) -> String {
    let pair = |(key, value): (&String, &String)| format!("{}: {}", text(key), text(value));
    let pairs: Vec<_> = pairs.iter().map(pair).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// A number as Java prints it.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    if text.contains('.') { text } else { text.replacen('E', ".0E", 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_java_prints_them() {
        for (value, expected) in [
            (0.01, "0.01"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (0.000_025, "2.5E-5"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn what_the_system_makes_up_is_described_in_a_comment() {
        let keyspace = &system::keyspaces()["system_virtual_schema"];
        assert_eq!(
            keyspace_cql(keyspace),
            "/*\nWarning: Keyspace system_virtual_schema is a virtual keyspace and cannot be \
             recreated with CQL.\nStructure, for reference:\n\
             VIRTUAL KEYSPACE system_virtual_schema;\n*/"
        );
        assert_eq!(
            table_cql(&keyspace.tables["tables"], false),
            "/*\nWarning: Table system_virtual_schema.tables is a virtual table and cannot be \
             recreated with CQL.\nStructure, for reference:\n\
             VIRTUAL TABLE system_virtual_schema.tables (\n    keyspace_name text,\n    \
             table_name text,\n    comment text,\n    PRIMARY KEY (keyspace_name, table_name)\n\
             ) WITH CLUSTERING ORDER BY (table_name ASC)\n    AND comment = 'virtual table \
             definitions';\n*/"
        );
    }
}
