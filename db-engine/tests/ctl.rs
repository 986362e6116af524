//! `sandglass-db ctl` against the real engine, by the binary that operators use.

mod wire;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::Output,
};
use tempfile::tempdir;
use wire::{client::Client, engine::Engine};

const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c))",
    "CREATE TABLE k.other (p int PRIMARY KEY, v text)",
];

/// Runs a command on a directory.
fn ctl(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sandglass-db"));
    command.env_remove("DB_DATA_DIR").arg("ctl").arg("--data-dir").arg(directory);
    command.args(arguments).output().expect("the binary runs")
}

/// The standard output of a command that must succeed.
fn text(directory: &Path, arguments: &[&str]) -> String {
    let output = ctl(directory, arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(directory: &Path, arguments: &[&str]) -> serde_json::Value {
    let text = text(directory, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).expect("one line of JSON")
}

/// The exit code and the standard error of a command that must fail.
fn failure(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let output = ctl(directory, arguments);
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (output.status.code().expect("it ends"), String::from_utf8(output.stderr).expect("text"))
}

fn with_schema(engine: &Engine) -> Client {
    let mut client = Client::connect(engine.cql).expect("it serves");
    for statement in SCHEMA {
        client.run(statement);
    }
    client
}

fn insert(client: &mut Client, rows: std::ops::Range<i32>) {
    for row in rows {
        let text = "x".repeat(100);
        client.run(&format!("INSERT INTO k.t (p, c, v) VALUES ({}, {row}, '{text}')", row % 7));
    }
}

#[test]
fn an_engine_tells_how_it_is_and_what_it_has() {
    let directory = tempdir().expect("a directory");
    let directory = directory.path();
    let engine = Engine::start(directory, &["--shards", "2"]);
    let mut client = with_schema(&engine);
    insert(&mut client, 0..50);

    let status = json(directory, &["status"]);
    assert_eq!((&status["shards"], &status["tables"]), (&2.into(), &2.into()));
    assert_eq!(status["cql"], format!("127.0.0.1:{}", engine.cql));
    assert_eq!(status["memory"][0]["name"], "memtables");
    assert_eq!(status["memory"][0]["most_bytes"], (128 << 20) / 32 * 14);
    assert!(status["memory"][0]["taken_bytes"].as_u64() > Some(5_000), "{status}");
    assert!(status["log_bytes"].as_u64() > Some(0) && status["log_segments"].as_u64() > Some(0));
    assert!(status["disk_free_bytes"].as_u64() > Some(0));
    let shown = text(directory, &["status"]);
    assert!(shown.contains("shards      2\n") && shown.contains("memtables"), "{shown}");

    client.run("SELECT * FROM k.t WHERE p = 1");
    let tables = json(directory, &["tablestats"]);
    let names: Vec<_> =
        tables.as_array().expect("a list").iter().map(|one| &one["table"]).collect();
    assert_eq!(names, ["k.other", "k.t"]);
    let of_t = &tables[1];
    assert_eq!((&of_t["rows_estimated"], &of_t["writes"]), (&50.into(), &50.into()));
    assert_eq!((&of_t["reads"], &of_t["sstables"]), (&1.into(), &0.into()));
    assert!(of_t["memtable_bytes"].as_u64() > Some(5_000), "{tables}");
    assert_eq!(json(directory, &["tablestats", "k"]), tables);
    assert_eq!(json(directory, &["tablestats", "k.t", "k.t"]).as_array().map(Vec::len), Some(1));
    assert!(text(directory, &["tablestats", "k.t"]).starts_with("table  sstables  on disk"));
    assert_eq!(json(directory, &["list", "k.t"]), serde_json::json!([]));

    let (code, told) = failure(directory, &["tablestats", "k.absent"]);
    assert_eq!(code, 1);
    assert!(told.contains("k.absent: there is no such keyspace or table"), "{told}");
    assert_eq!(failure(directory, &["nonsense"]).0, 2);
    assert!(text(directory, &["--help"]).contains("tablestats"));

    // What was in memory is in sstables after a stop, and they are told of.
    assert_eq!(engine.stop("-TERM"), Some(0));
    let engine = Engine::start(directory, &["--shards", "2"]);
    let sstables = json(directory, &["list", "k.t"]);
    let sstables = sstables.as_array().expect("a list");
    let rows: u64 = sstables.iter().filter_map(|one| one["rows"].as_u64()).sum();
    assert_eq!(rows, 50);
    for sstable in sstables {
        let file = directory.join(sstable["file"].as_str().expect("a name"));
        assert_eq!(sstable["bytes"], fs::metadata(file).expect("it is there").len());
        assert!(sstable["token_first"].as_i64() <= sstable["token_last"].as_i64());
        assert!(sstable["timestamp_min_us"].as_i64() > Some(1_700_000_000_000_000));
    }
    assert!(text(directory, &["list", "k"]).contains("sst-"));
    drop(engine);
}

#[test]
fn only_the_engines_user_gets_in_and_what_a_killed_engine_left_is_in_nobodys_way() {
    let parent = tempdir().expect("a directory");
    let directory = parent.path().join("data");
    let (code, told) = failure(&directory, &["status"]);
    assert_eq!(code, 3);
    assert!(told.contains("no engine runs in") && told.contains("--data-dir"), "{told}");

    let engine = Engine::start(&directory, &[]);
    let socket = directory.join("ctl.sock");
    let mode = fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "only its user may connect");
    json(&directory, &["status"]);
    engine.kill();
    assert!(socket.exists(), "a kill leaves it");
    assert_eq!(failure(&directory, &["status"]).0, 3);

    let engine = Engine::start(&directory, &[]);
    json(&directory, &["status"]);
    // Whoever says nothing, or too much, keeps nobody else out for long.
    let silent: Vec<_> =
        (0..4).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let (_, told) = until_failure(&directory);
    assert!(told.contains("4 commands are under way"), "{told}");
    drop(silent);
    until_success(&directory);
    assert_eq!(engine.stop("-TERM"), Some(0));
    assert!(!socket.exists(), "a stop removes it");

    // Where the path has no room the engine serves without it, and says so.
    let deep = parent.path().join("d".repeat(100));
    let mut engine = {
        let mut command = wire::engine::command(&deep, &[]);
        command.stderr(std::process::Stdio::piped());
        Engine::spawn(command)
    };
    Client::connect(engine.cql).expect("it serves");
    let (code, told) = failure(&deep, &["status"]);
    assert_eq!(code, 1);
    assert!(told.contains("107 bytes"), "{told}");
    assert_eq!(engine.end_by("-TERM"), Some(0));
    assert!(engine.errors().contains("a path of at most 107 bytes"));
}

fn until_failure(directory: &Path) -> (i32, String) {
    loop {
        let output = ctl(directory, &["status"]);
        if !output.status.success() {
            let told = String::from_utf8(output.stderr).expect("text");
            return (output.status.code().expect("it ends"), told);
        }
    }
}

fn until_success(directory: &Path) {
    while !ctl(directory, &["status"]).status.success() {}
}

#[test]
fn a_flush_and_a_compaction_end_when_they_are_done() {
    let directory = tempdir().expect("a directory");
    let directory = directory.path();
    let engine = Engine::start(directory, &["--shards", "2"]);
    let mut client = with_schema(&engine);
    client.run("ALTER TABLE k.t WITH gc_grace_seconds = 0");
    for round in 0..3 {
        insert(&mut client, round * 50..(round + 1) * 50);
        assert_eq!(json(directory, &["flush", "k.t"]), serde_json::json!({ "tables": 1 }));
        let table = &json(directory, &["tablestats", "k.t"])[0];
        assert_eq!(
            (&table["memtable_rows"], &table["rows_estimated"]),
            (&0.into(), &{ (round + 1) * 50 }.into())
        );
    }
    for p in 0..7 {
        client.run(&format!("DELETE FROM k.t WHERE p = {p} AND c < 140"));
    }
    let done = json(directory, &["compact", "k"]);
    let before = done["sstables_before"].as_u64().expect("a number");
    assert!((4..=8).contains(&before), "{done}");
    assert_eq!((&done["sstables_after"], &done["left_alone"]), (&2.into(), &0.into()), "{done}");
    let table = &json(directory, &["tablestats", "k.t"])[0];
    assert_eq!((&table["sstables"], &table["rows_estimated"]), (&2.into(), &10.into()), "{table}");
    assert!(
        table["compaction_bytes"].as_u64() > Some(0) && table["flush_bytes"].as_u64() > Some(0)
    );
    let select = client.prepare("SELECT c FROM k.t WHERE p = ?");
    let rows = (0..7i32).map(|p| client.all_rows(&select, &[&p.to_be_bytes()]).len());
    assert_eq!(rows.sum::<usize>(), 10);
    assert!(text(directory, &["flush"]).contains("2 tables have nothing in memory alone"));
    let (code, told) = failure(directory, &["compact", "nothing"]);
    assert!(code == 1 && told.contains("nothing: there is no such keyspace or table"), "{told}");
}
