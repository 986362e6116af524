//! The system keyspaces: tables without storage, whose rows are made when they are asked for.
//!
//! Drivers read them when they connect: who the node is (`system.local`), who the others are
//! (nobody: `system.peers`), and what there is (`system_schema`). Their shapes are Cassandra's.

use super::{
    Catalog, Column, ColumnKind, Keyspace, Table, TableOptions, TableText, system_schema,
    system_traces,
};
use crate::{
    mutation::TableNumber,
    trace::Traces,
    types::{
        collection,
        parse::{self, TypeScope},
        user_type::UserTypes,
    },
};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, LazyLock},
};
use uuid::Uuid;

/// The version of Cassandra that drivers and tools are told: the one that cqlsh 6.2 is built for.
/// From 4.0 on they leave `DESCRIBE` to the server and ask for virtual keyspaces (ADR 0033).
pub const RELEASE_VERSION: &str = "5.0.0";
/// The version of CQL that clients are told, and that STARTUP may ask for.
pub const CQL_VERSION: &str = "3.4.7";
/// The partitioner: tokens are Murmur3's.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The name of the data centre that the node is in.
pub const DATA_CENTER: &str = "datacenter1";
/// The name of the rack that the node is in.
pub const RACK: &str = "rack1";

/// One row: a value or null for each column of the table, in the order of its columns.
pub type Row = Vec<Option<Vec<u8>>>;

/// What the system tables tell of the node.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    /// The address that clients reach it under.
    pub address: IpAddr,
    /// Its port for CQL.
    pub port: u16,
    /// Its identity, the same for as long as its data lives.
    pub host_id: Uuid,
    /// The name of the cluster.
    pub cluster_name: String,
    /// The version of the engine.
    pub version: String,
    /// The tokens it owns; at least one, or drivers route nothing by token.
    pub tokens: Vec<i64>,
    /// What was done for requests that asked to be traced.
    pub traces: Arc<Traces>,
}

/// Keyspace, table, partition key, clustering key and regular columns.
type Spec = (&'static str, &'static str, &'static str, &'static str, &'static str);

const SPECS: &[Spec] = &[
    (
        "system",
        "local",
        "key text",
        "",
        "bootstrapped text; broadcast_address inet; broadcast_port int; cluster_name text; \
         cql_version text; data_center text; engine text; gossip_generation int; host_id uuid; \
         listen_address inet; listen_port int; native_protocol_version text; partitioner text; \
         rack text; release_version text; rpc_address inet; rpc_port int; schema_version uuid; \
         tokens set<text>; truncated_at map<uuid, blob>",
    ),
    (
        "system",
        "peers",
        "peer inet",
        "",
        "data_center text; host_id uuid; preferred_ip inet; rack text; release_version text; \
         rpc_address inet; schema_version uuid; tokens set<text>",
    ),
    (
        "system",
        "peers_v2",
        "peer inet",
        "peer_port int",
        "data_center text; host_id uuid; native_address inet; native_port int; \
         preferred_ip inet; preferred_port int; rack text; release_version text; \
         schema_version uuid; tokens set<text>",
    ),
    (
        "system",
        "size_estimates",
        "keyspace_name text",
        "table_name text; range_start text; range_end text",
        "mean_partition_size bigint; partitions_count bigint",
    ),
    (
        "system_schema",
        "keyspaces",
        "keyspace_name text",
        "",
        "durable_writes boolean; replication frozen<map<text, text>>",
    ),
    (
        "system_schema",
        "tables",
        "keyspace_name text",
        "table_name text",
        "additional_write_policy text; bloom_filter_fp_chance double; \
         caching frozen<map<text, text>>; cdc boolean; comment text; \
         compaction frozen<map<text, text>>; compression frozen<map<text, text>>; \
         crc_check_chance double; dclocal_read_repair_chance double; default_time_to_live int; \
         extensions frozen<map<text, blob>>; flags frozen<set<text>>; gc_grace_seconds int; \
         id uuid; max_index_interval int; memtable text; memtable_flush_period_in_ms int; \
         min_index_interval int; read_repair text; read_repair_chance double; \
         speculative_retry text",
    ),
    (
        "system_schema",
        "columns",
        "keyspace_name text",
        "table_name text; column_name text",
        "clustering_order text; column_name_bytes blob; kind text; position int; type text",
    ),
    (
        "system_schema",
        "types",
        "keyspace_name text",
        "type_name text",
        "field_names frozen<list<text>>; field_types frozen<list<text>>",
    ),
    (
        "system_schema",
        "functions",
        "keyspace_name text",
        "function_name text; argument_types frozen<list<text>>",
        "argument_names frozen<list<text>>; body text; called_on_null_input boolean; \
         language text; return_type text",
    ),
    (
        "system_schema",
        "aggregates",
        "keyspace_name text",
        "aggregate_name text; argument_types frozen<list<text>>",
        "final_func text; initcond text; return_type text; state_func text; state_type text",
    ),
    (
        "system_schema",
        "triggers",
        "keyspace_name text",
        "table_name text; trigger_name text",
        "options frozen<map<text, text>>",
    ),
    (
        "system_schema",
        "indexes",
        "keyspace_name text",
        "table_name text; index_name text",
        "kind text; options frozen<map<text, text>>",
    ),
    (
        "system_schema",
        "views",
        "keyspace_name text",
        "view_name text",
        "base_table_id uuid; base_table_name text; bloom_filter_fp_chance double; \
         caching frozen<map<text, text>>; cdc boolean; comment text; \
         compaction frozen<map<text, text>>; compression frozen<map<text, text>>; \
         crc_check_chance double; dclocal_read_repair_chance double; default_time_to_live int; \
         extensions frozen<map<text, blob>>; gc_grace_seconds int; id uuid; \
         include_all_columns boolean; max_index_interval int; memtable_flush_period_in_ms int; \
         min_index_interval int; read_repair_chance double; speculative_retry text; \
         where_clause text",
    ),
    (
        "system_schema",
        "dropped_columns",
        "keyspace_name text",
        "table_name text; column_name text",
        "dropped_time timestamp; kind text; type text",
    ),
    ("system_virtual_schema", "keyspaces", "keyspace_name text", "", ""),
    ("system_virtual_schema", "tables", "keyspace_name text", "table_name text", "comment text"),
    (
        "system_virtual_schema",
        "columns",
        "keyspace_name text",
        "table_name text; column_name text",
        "clustering_order text; column_name_bytes blob; kind text; position int; type text",
    ),
    (
        "system_traces",
        "sessions",
        "session_id uuid",
        "",
        "client inet; command text; coordinator inet; coordinator_port int; duration int; \
         parameters map<text, text>; request text; started_at timestamp",
    ),
    (
        "system_traces",
        "events",
        "session_id uuid",
        "event_id timeuuid",
        "activity text; source inet; source_elapsed int; source_port int; thread text",
    ),
];

/// Numbers from here on are those of system tables, in the order of `SPECS`.
const FIRST_NUMBER: u32 = 0xFFFF_0000;

/// The keyspace that says which others, itself among them, are virtual: their tables are in no
/// other listing.
const VIRTUAL: &str = "system_virtual_schema";

/// What virtual tables are for, in Cassandra's words.
const COMMENTS: [(&str, &str); 3] = [
    ("keyspaces", "virtual keyspace definitions"),
    ("tables", "virtual table definitions"),
    ("columns", "virtual column definitions"),
];

static KEYSPACES: LazyLock<BTreeMap<String, Keyspace>> = LazyLock::new(|| {
    let mut keyspaces = BTreeMap::new();
    for (number, spec) in (FIRST_NUMBER..).zip(SPECS) {
        let shape = shape_of(number, spec);
        let keyspace: &mut Keyspace =
            keyspaces.entry(shape.keyspace.clone()).or_insert_with(|| local_keyspace(spec.0));
        keyspace.tables.insert(shape.name.clone(), Arc::new(shape));
    }
    keyspaces
});

fn local_keyspace(name: &str) -> Keyspace {
    let class = "org.apache.cassandra.locator.LocalStrategy".to_string();
    Keyspace {
        name: name.to_string(),
        replication: BTreeMap::from([("class".to_string(), class)]),
        durable_writes: true,
        types: UserTypes::new(),
        tables: BTreeMap::new(),
    }
}

fn shape_of(number: u32, spec: &Spec) -> Table {
    let (keyspace, name, partition_key, clustering, regular) = spec;
    let mut columns = Vec::new();
    for (kind, list) in [
        (ColumnKind::PartitionKey, partition_key),
        (ColumnKind::Clustering, clustering),
        (ColumnKind::Regular, regular),
    ] {
        for (number, column) in (0u16..).zip(list.split(';').filter(|c| !c.is_empty())) {
            let (name, ty) = column.trim().split_once(' ').expect("a name and a type");
            let scope = TypeScope { keyspace, types: &UserTypes::new() };
            let declared = parse::parse(ty, scope).expect("types above are written correctly");
            let (ty, frozen) = (declared.ty, declared.frozen);
            let name = name.to_string();
            columns.push(Column { name, kind, number, ty, frozen, descending: false });
        }
    }
    let digest = uuid::Builder::from_md5_bytes(md5_of(&format!("{keyspace}.{name}")));
    let comment = COMMENTS.iter().find(|(table, _)| *keyspace == VIRTUAL && table == name);
    let comment = comment.map_or_else(String::new, |(_, comment)| (*comment).to_string());
    Table {
        keyspace: (*keyspace).to_string(),
        name: (*name).to_string(),
        id: digest.into_uuid(),
        number: TableNumber(number),
        version: 0,
        next_column: 0,
        columns,
        dropped: BTreeMap::new(),
        options: TableOptions { comment, ..TableOptions::default() },
        text: TableText::default(),
    }
}

fn md5_of(text: &str) -> [u8; 16] {
    use md5::{Digest, Md5};
    Md5::digest(text.as_bytes()).into()
}

/// Whether a keyspace is the system's: nobody can change it.
#[must_use]
pub fn is_system(keyspace: &str) -> bool {
    SPECS.iter().any(|spec| spec.0 == keyspace)
}

/// Whether a keyspace of the system is listed in `system_virtual_schema` alone.
#[must_use]
pub fn is_virtual(keyspace: &str) -> bool {
    keyspace == VIRTUAL
}

/// The keyspaces of the system.
#[must_use]
pub fn keyspaces() -> &'static BTreeMap<String, Keyspace> {
    &KEYSPACES
}

/// The shape of a system table.
#[must_use]
pub fn shape(keyspace: &str, name: &str) -> Option<&'static Arc<Table>> {
    KEYSPACES.get(keyspace)?.tables.get(name)
}

/// Whether a number is that of a system table.
#[must_use]
pub fn is_shape(number: TableNumber) -> bool {
    number.0 >= FIRST_NUMBER
}

/// Whether rows are wanted whose column of this name has this text.
pub type IsWanted<'a> = dyn Fn(&str, &str) -> bool + 'a;

/// The rows of a system table in parts, in no particular order of their partitions: those of a
/// keyspace, a table or a type at a time, without so many first ones. Some that are not wanted may
/// be among them.
pub fn parts<'a>(
    (table, catalog, node): (&'a Table, &'a Catalog, &'a NodeInfo),
    now_us: i64,
    is_wanted: &'a IsWanted<'_>,
    skip: usize,
) -> Box<dyn Iterator<Item = Vec<Row>> + 'a> {
    match (table.keyspace.as_str(), table.name.as_str()) {
        ("system_schema" | VIRTUAL, "keyspaces") => {
            Box::new(system_schema::keyspaces(table, catalog, is_wanted, skip))
        }
        ("system_schema" | VIRTUAL, "tables") => {
            Box::new(system_schema::tables(table, catalog, is_wanted, skip))
        }
        ("system_schema" | VIRTUAL, "columns") => {
            Box::new(system_schema::columns(table, catalog, is_wanted, skip))
        }
        ("system_schema", "types") => {
            Box::new(system_schema::types(table, catalog, is_wanted, skip))
        }
        ("system_schema", "dropped_columns") => {
            Box::new(system_schema::dropped_columns(table, catalog, skip))
        }
        (keyspace, name) => {
            let rows = move |()| match (keyspace, name) {
                ("system", "local") => vec![fill(table, |column| local(column, catalog, node))],
                ("system_traces", "sessions") => system_traces::sessions(table, node, now_us),
                ("system_traces", "events") => system_traces::events(table, node, now_us),
                _ => Vec::new(),
            };
            Box::new(std::iter::once(()).skip(skip).map(rows))
        }
    }
}

/// A row made by asking for the value of each column.
pub(super) fn fill(table: &Table, mut value: impl FnMut(&str) -> Option<Vec<u8>>) -> Row {
    table.columns.iter().map(|column| value(&column.name)).collect()
}

pub(super) fn text(value: &str) -> Vec<u8> {
    value.as_bytes().to_vec()
}

pub(super) fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(super) fn inet(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn local(column: &str, catalog: &Catalog, node: &NodeInfo) -> Option<Vec<u8>> {
    Some(match column {
        "key" => text("local"),
        "bootstrapped" => text("COMPLETED"),
        "broadcast_address" | "listen_address" | "rpc_address" => inet(node.address),
        "broadcast_port" | "listen_port" | "rpc_port" => int(node.port.into()),
        "cluster_name" => text(&node.cluster_name),
        "cql_version" => text(CQL_VERSION),
        "data_center" => text(DATA_CENTER),
        "engine" => text(&format!("sandglass-db {}", node.version)),
        "gossip_generation" => int(0),
        "host_id" => node.host_id.as_bytes().to_vec(),
        "native_protocol_version" => text("4"),
        "partitioner" => text(PARTITIONER),
        "rack" => text(RACK),
        "release_version" => text(RELEASE_VERSION),
        "schema_version" => catalog.version.as_bytes().to_vec(),
        "tokens" => {
            let mut tokens: Vec<String> = node.tokens.iter().map(i64::to_string).collect();
            tokens.sort();
            collection::list(&tokens)
        }
        _ => return None,
    })
}
