//! What drivers and cqlsh ask of system tables when they connect and when the schema changes,
//! recorded from them: java-driver-core 4.19, cassandra-driver 3.30 for Python and 4.10 for Node,
//! gocql 2.1, scylla 1.9 and cqlsh 6.2. A refusal of one of these keeps its client from connecting.

mod wire;

use tempfile::tempdir;
use wire::{
    client::{Client, execute, long_string, op},
    engine::Engine,
};

const ASKED: &[&str] = &[
    "SELECT cluster_name FROM system.local",
    "SELECT * FROM system.local",
    "select * from system.local where key = 'local'",
    "SELECT * FROM system.local WHERE key='local'",
    "SELECT schema_version FROM system.local WHERE key='local'",
    "SELECT host_id, rpc_address, data_center, rack, tokens, cluster_name FROM system.local \
     WHERE key='local' USING TIMEOUT 30000ms",
    "SELECT * FROM system.peers",
    "SELECT host_id, rpc_address, data_center, rack, tokens FROM system.peers \
     USING TIMEOUT 30000ms",
    "SELECT * FROM system.peers_v2",
    "SELECT host_id, peer, peer_port, native_address, native_port, schema_version \
     FROM system.peers_v2",
    "SELECT * FROM system_schema.keyspaces",
    "SELECT * FROM system_schema.keyspaces where keyspace_name = 'ks'",
    "SELECT keyspace_name, durable_writes, replication\n\t\tFROM system_schema.keyspaces",
    "SELECT keyspace_name, replication, durable_writes FROM system_schema.keyspaces \
     USING TIMEOUT 30000ms",
    "SELECT * FROM system_schema.tables",
    "SELECT * FROM system_schema.tables WHERE keyspace_name='ks' AND table_name='t'",
    "SELECT keyspace_name, table_name FROM system_schema.tables USING TIMEOUT 30000ms",
    "SELECT * FROM system_schema.columns",
    "SELECT * FROM system_schema.columns WHERE keyspace_name='ks' AND table_name='t'",
    "SELECT keyspace_name, table_name, column_name, clustering_order, type, kind, position \
     FROM system_schema.columns",
    "SELECT * FROM system_schema.types",
    "SELECT keyspace_name, type_name, field_names, field_types FROM system_schema.types",
    "SELECT * FROM system_schema.functions",
    "SELECT keyspace_name, function_name, argument_types, argument_names, body, \
     called_on_null_input, language, return_type FROM system_schema.functions",
    "SELECT * FROM system_schema.aggregates",
    "SELECT keyspace_name, aggregate_name, argument_types, final_func, initcond, return_type, \
     state_func, state_type FROM system_schema.aggregates",
    "SELECT * FROM system_schema.triggers",
    "SELECT * FROM system_schema.triggers WHERE keyspace_name = 'ks' AND table_name = 't'",
    "SELECT * FROM system_schema.indexes",
    "SELECT * FROM system_schema.indexes WHERE keyspace_name='ks' AND table_name='t'",
    "SELECT * FROM system_schema.views",
    "SELECT * FROM system_schema.views WHERE keyspace_name = 'ks' AND view_name = 't'",
    "SELECT keyspace_name, view_name, base_table_name FROM system_schema.views \
     USING TIMEOUT 30000ms",
    "SELECT * from system_virtual_schema.keyspaces",
    "SELECT * from system_virtual_schema.tables",
    "SELECT * from system_virtual_schema.columns",
    "SELECT * FROM system_virtual_schema.columns where keyspace_name = 'system_virtual_schema' \
     and table_name='tables'",
];

/// Tables of ScyllaDB alone. Its driver goes on without them if it is told that they are not
/// there, and gives up at any other refusal.
const ONLY_SCYLLA: &[&str] = &[
    "SELECT keyspace_name, initial_tablets FROM system_schema.scylla_keyspaces \
     USING TIMEOUT 30000ms",
    "SELECT keyspace_name, table_name, partitioner FROM system_schema.scylla_tables \
     USING TIMEOUT 30000ms",
];

/// How pools of connections find out whether one still works.
#[test]
fn what_time_it_is_can_be_asked_of_a_system_table() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("it listens");
    let mut ask = |text: &str| {
        let answer = client.query(text).expect("an answer");
        assert_eq!(answer.opcode, op::RESULT, "{text}: {}", answer.message());
        let (rows, _) = answer.rows();
        rows.into_iter().flatten().flatten().flatten().collect::<Vec<u8>>()
    };
    let (first, second) =
        (ask("SELECT now() FROM system.local"), ask("SELECT now() FROM system.local"));
    assert_eq!((first.len(), first[6] >> 4), (16, 1), "a UUID of version 1");
    assert_ne!(first, second);
    let mut now_ms = |text: &str| i64::from_be_bytes(ask(text).try_into().expect("eight bytes"));
    let of_now = now_ms("SELECT toTimestamp(now()) AS t FROM system.local");
    let current = now_ms("SELECT currentTimestamp() FROM system.local WHERE key = 'local'");
    assert!((0..60_000).contains(&(current - of_now)), "{of_now} {current}");
}

#[test]
fn what_clients_ask_when_they_connect_is_answered_as_text_and_prepared() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run("CREATE TABLE ks.t (k text PRIMARY KEY, v int)");
    let mut found = 0;
    for text in ASKED {
        let answer = client.query(text).expect("an answer");
        assert_eq!(answer.opcode, op::RESULT, "{text}: {}", answer.message());
        let id = client.prepare(text);
        let prepared = client.ask(op::EXECUTE, &execute(&id, &[])).expect("an answer");
        assert_eq!(prepared.rows(), answer.rows(), "{text}");
        found += answer.rows().0.len();
    }
    assert!(found > 100, "they say something: {found}");
    for text in ONLY_SCYLLA {
        for opcode in [op::QUERY, op::PREPARE] {
            let mut body = long_string(text);
            body.extend_from_slice(if opcode == op::QUERY { &[0, 1, 0] } else { &[] });
            assert_eq!(client.ask(opcode, &body).expect("an answer").code(), 0x2200, "{text}");
        }
    }
}
