//! The real binary: answers that must survive a flush, a replay and a restart.

mod wire;

use tempfile::tempdir;
use wire::{
    client::{Client, long_string, op},
    engine::Engine,
};

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn first_bytes(client: &mut Client, text: &str) -> Vec<Option<u8>> {
    let (rows, _) = client.run(text).rows();
    rows.iter().map(|row| row[0].as_ref().map(|value| value[value.len() - 1])).collect()
}

#[test]
fn the_cells_of_a_dropped_column_never_come_back() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("connects");
    client.run(KEYSPACE);
    client.run("CREATE TABLE k.t (p int, c int, x int, y int, PRIMARY KEY (p, c))");
    client.run("UPDATE k.t SET x = 1 WHERE p = 1 AND c = 1");
    client.run("INSERT INTO k.t (p, c, x) VALUES (1, 2, 1)");
    client.run("ALTER TABLE k.t DROP x");
    client.run("UPDATE k.t SET y = 1 WHERE p = 1 AND c = 3");
    let rows = "SELECT c FROM k.t WHERE p = 1";
    assert_eq!(first_bytes(&mut client, rows), [Some(2), Some(3)]);
    // The log is replayed.
    engine.kill();
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("connects");
    assert_eq!(first_bytes(&mut client, rows), [Some(2), Some(3)]);
    let dropped = "SELECT column_name FROM system_schema.dropped_columns \
                   WHERE keyspace_name = 'k' AND table_name = 't'";
    assert_eq!(first_bytes(&mut client, dropped), [Some(b'x')]);
    // The memtable is written.
    client.run("UPDATE k.t SET y = 1 WHERE p = 1 AND c = 4");
    assert_eq!(engine.stop("-TERM"), Some(0));
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("connects");
    let refused = client.query("ALTER TABLE k.t ADD x text").expect("an answer");
    assert_eq!(refused.code(), 0x2200, "{}", refused.message());
    client.run("ALTER TABLE k.t ADD x int");
    assert_eq!(first_bytes(&mut client, rows), [Some(2), Some(3), Some(4)]);
    assert_eq!(first_bytes(&mut client, "SELECT x FROM k.t WHERE p = 1"), [None; 3]);
}

#[test]
fn a_row_that_many_writes_made_large_is_read_again() {
    const COLUMNS: usize = 20;
    let directory = tempdir().expect("a directory");
    let arguments = ["--shards", "1", "--memory", "512MiB"];
    let engine = Engine::start(directory.path(), &arguments);
    let mut client = Client::connect(engine.cql).expect("connects");
    client.run(KEYSPACE);
    let columns: Vec<String> = (0..COLUMNS).map(|n| format!("v{n} blob")).collect();
    client.run(&format!("CREATE TABLE k.t (p int PRIMARY KEY, {})", columns.join(", ")));
    let value = vec![7; 7 << 19];
    for n in 0..COLUMNS {
        let id = client.prepare(&format!("UPDATE k.t SET v{n} = ? WHERE p = 1"));
        let written = client.ask(op::EXECUTE, &wire::client::execute(&id, &[&value]));
        assert_eq!(written.expect("an answer").kind(), 1);
    }
    assert_eq!(engine.stop("-TERM"), Some(0));
    let engine = Engine::start(directory.path(), &arguments);
    let mut client = Client::connect(engine.cql).expect("connects");
    let (rows, _) = client.run("SELECT v0, v19 FROM k.t WHERE p = 1").rows();
    assert!(rows[0].iter().all(|read| read.as_deref() == Some(value.as_slice())));
}

#[test]
fn a_costly_schema_is_warned_of_and_with_strict_guardrails_refused() {
    let table = "CREATE TABLE k.t (p int PRIMARY KEY) WITH default_time_to_live = 183600 \
                 AND compaction = {'class': 'TimeWindowCompactionStrategy', \
                 'compaction_window_unit': 'HOURS', 'compaction_window_size': '1'}";
    let mut body = long_string(table);
    body.extend_from_slice(&[0, 1, 0]);
    for (guardrails, opcode) in [("warn", op::RESULT), ("strict", op::ERROR)] {
        let directory = tempdir().expect("a directory");
        let engine = Engine::start(directory.path(), &["--guardrails", guardrails]);
        let mut client = Client::connect(engine.cql).expect("connects");
        client.run(KEYSPACE);
        let answer = client.ask(op::QUERY, &body).expect("an answer");
        assert_eq!(answer.opcode, opcode);
        if guardrails == "warn" {
            assert_eq!(answer.flags, 8);
            assert!(String::from_utf8_lossy(&answer.body).contains("51 windows"));
            assert_eq!(client.query("SELECT * FROM k.t").expect("an answer").flags, 0);
        } else {
            assert_eq!(answer.code(), 0x2300);
            assert!(answer.message().contains("51 windows"));
        }
    }
}
