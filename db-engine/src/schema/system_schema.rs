//! The rows of `system_schema`: what there is, as drivers read it.

use super::{
    Catalog, Column, ColumnKind, DroppedColumn, Keyspace, Table,
    system::{self, IsWanted, Row, fill, int, is_virtual, text},
};
use crate::types::{
    collection,
    user_type::{UserField, UserType},
};
use std::{collections::BTreeMap, sync::Arc};

fn boolean(value: bool) -> Vec<u8> {
    vec![u8::from(value)]
}

fn double(value: f64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn map(value: &BTreeMap<String, String>) -> Vec<u8> {
    let pairs: Vec<_> = value.iter().collect();
    collection::map(&pairs)
}

/// The keyspaces that a listing has: virtual ones are in their own, and nothing else is.
fn listed<'a>(
    shape: &Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
) -> impl Iterator<Item = &'a Keyspace> {
    let virtual_ones = is_virtual(&shape.keyspace);
    let all = catalog.keyspaces.values().chain(system::keyspaces().values());
    let is_listed = move |name: &str| is_virtual(name) == virtual_ones;
    all.filter(move |one| is_listed(&one.name) && is_wanted("keyspace_name", &one.name))
}

fn listed_tables<'a>(
    shape: &Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
) -> impl Iterator<Item = &'a Arc<Table>> {
    let tables = listed(shape, catalog, is_wanted).flat_map(|keyspace| keyspace.tables.values());
    tables.filter(|table| is_wanted("table_name", &table.name))
}

pub(super) fn keyspaces<'a>(
    shape: &'a Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
    skip: usize,
) -> impl Iterator<Item = Vec<Row>> + 'a {
    let row = move |keyspace: &Keyspace| {
        vec![fill(shape, |column| match column {
            "keyspace_name" => Some(text(&keyspace.name)),
            "durable_writes" => Some(boolean(keyspace.durable_writes)),
            "replication" => Some(map(&keyspace.replication)),
            _ => None,
        })]
    };
    listed(shape, catalog, is_wanted).skip(skip).map(row)
}

pub(super) fn tables<'a>(
    shape: &'a Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
    skip: usize,
) -> impl Iterator<Item = Vec<Row>> + 'a {
    let row = move |table: &Arc<Table>| vec![fill(shape, |column| table_value(column, table))];
    listed_tables(shape, catalog, is_wanted).skip(skip).map(row)
}

fn table_value(column: &str, table: &Table) -> Option<Vec<u8>> {
    let options = &table.options;
    Some(match column {
        "keyspace_name" => text(&table.keyspace),
        "table_name" => text(&table.name),
        "bloom_filter_fp_chance" => double(options.bloom_filter_fp_chance),
        "caching" => map(&options.caching),
        "cdc" => return None,
        "comment" => text(&options.comment),
        "compaction" => map(&options.compaction),
        "compression" => map(&options.compression),
        "crc_check_chance" => double(options.crc_check_chance),
        "dclocal_read_repair_chance" | "read_repair_chance" => double(0.0),
        "default_time_to_live" => int(i32::try_from(options.default_ttl_s).unwrap_or(i32::MAX)),
        "extensions" => map(&BTreeMap::new()),
        "flags" if table.is_counter() => collection::list(&["compound", "counter"]),
        "flags" => collection::list(&["compound"]),
        "gc_grace_seconds" => int(i32::try_from(options.gc_grace_s).unwrap_or(i32::MAX)),
        "id" => table.id.as_bytes().to_vec(),
        "max_index_interval" => int(options.max_index_interval),
        "memtable_flush_period_in_ms" => int(options.memtable_flush_period_ms),
        "min_index_interval" => int(options.min_index_interval),
        other => text(options.shown.get(other)?),
    })
}

pub(super) fn columns<'a>(
    shape: &'a Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
    skip: usize,
) -> impl Iterator<Item = Vec<Row>> + 'a {
    let of_table = move |table: &Arc<Table>| {
        let row = |column| fill(shape, |name| column_value(name, table, column));
        let mut columns: Vec<_> = table.columns.iter().collect();
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        columns.into_iter().map(row).collect::<Vec<_>>()
    };
    listed_tables(shape, catalog, is_wanted).skip(skip).map(of_table)
}

pub(super) fn types<'a>(
    shape: &'a Table,
    catalog: &'a Catalog,
    is_wanted: &'a IsWanted<'_>,
    skip: usize,
) -> impl Iterator<Item = Vec<Row>> + 'a {
    let row = move |ty: &Arc<UserType>| {
        let list = |of: &dyn Fn(&UserField) -> String| {
            collection::list(&ty.fields().iter().map(of).collect::<Vec<_>>())
        };
        vec![fill(shape, |column| {
            Some(match column {
                "keyspace_name" => text(ty.keyspace()),
                "type_name" => text(ty.name()),
                "field_names" => list(&|field| field.name.clone()),
                "field_types" => list(&UserField::type_name),
                _ => return None,
            })
        })]
    };
    let types = listed(shape, catalog, is_wanted).flat_map(|keyspace| keyspace.types.values());
    types.filter(|ty| is_wanted("type_name", ty.name())).skip(skip).map(row)
}

pub(super) fn dropped_columns<'a>(
    shape: &'a Table,
    catalog: &'a Catalog,
    skip: usize,
) -> impl Iterator<Item = Vec<Row>> + 'a {
    let of_table = move |table: &Arc<Table>| {
        let row = |(name, column): (&String, &DroppedColumn)| {
            fill(shape, |wanted| {
                Some(match wanted {
                    "keyspace_name" => text(&table.keyspace),
                    "table_name" => text(&table.name),
                    "column_name" => text(name),
                    "dropped_time" => (column.dropped_us / 1_000).to_be_bytes().to_vec(),
                    "kind" => text(if column.is_static { "static" } else { "regular" }),
                    "type" => text(&column.type_name()),
                    _ => return None,
                })
            })
        };
        table.dropped.iter().map(row).collect::<Vec<_>>()
    };
    catalog.tables().skip(skip).map(of_table)
}

fn column_value(name: &str, table: &Table, column: &Column) -> Option<Vec<u8>> {
    let (kind, position) = match column.kind {
        ColumnKind::PartitionKey => ("partition_key", i32::from(column.number)),
        ColumnKind::Clustering => ("clustering", i32::from(column.number)),
        ColumnKind::Static => ("static", -1),
        ColumnKind::Regular => ("regular", -1),
    };
    let order = match (column.kind, column.descending) {
        (ColumnKind::Clustering, true) => "desc",
        (ColumnKind::Clustering, false) => "asc",
        _ => "none",
    };
    Some(match name {
        "keyspace_name" => text(&table.keyspace),
        "table_name" => text(&table.name),
        "column_name" | "column_name_bytes" => text(&column.name),
        "clustering_order" => text(order),
        "kind" => text(kind),
        "position" => int(position),
        "type" => text(&column.type_name()),
        _ => return None,
    })
}
