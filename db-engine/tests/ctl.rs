//! `sandglass-db ctl` against the real engine, by the binary that operators use.

mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst},
};
use tempfile::tempdir;
use wire::{
    client::{Client, execute, op},
    engine::{Engine, command},
};

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
fn a_compaction_that_cannot_read_a_file_says_which() {
    let directory = tempdir().expect("a directory");
    let directory = directory.path();
    let engine = Engine::start(directory, &["--shards", "1"]);
    let mut client = with_schema(&engine);
    for _ in 0..3 {
        insert(&mut client, 0..50);
        text(directory, &["flush"]);
    }
    assert_eq!(engine.stop("-TERM"), Some(0));
    let mut files = contents(directory);
    files.retain(|path, _| path.to_string_lossy().contains("/sst-"));
    let (damaged, bytes) = files.iter_mut().nth(1).expect("there are three");
    bytes[20] ^= 1;
    fs::write(damaged, bytes).expect("it is written");
    let damaged = damaged.clone();
    let mut command = command(directory, &["--shards", "1"]);
    command.stderr(Stdio::piped());
    let mut engine = Engine::spawn(command);
    ctl(directory, &["compact"]);
    engine.end_by("-TERM");
    let told = engine.errors();
    let line = told.lines().find(|line| line.contains("a compaction has failed")).expect("told");
    let name = |path: &Path| path.strip_prefix(directory).expect("its").display().to_string();
    assert!(files.keys().all(|path| line.contains(&name(path)) == (*path == damaged)), "{line}");
    assert!(line.contains("checksum of a block"), "{line}");
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

/// A key as long as a block is alone in one, and its row in the next.
#[test]
fn a_compaction_keeps_keys_of_every_length() {
    let directory = tempdir().expect("a directory");
    let directory = directory.path();
    let engine = Engine::start(directory, &["--shards", "1"]);
    let mut client = with_schema(&engine);
    client.run("CREATE TABLE k.keys (p blob PRIMARY KEY, v int)");
    let insert = client.prepare("INSERT INTO k.keys (p, v) VALUES (?, 1)");
    let lengths = [1, 32_740, 32_756, 32_757, 32_768, 40_000, 65_535];
    let keys: Vec<Vec<u8>> = (0..35_u8)
        .map(|number| vec![number; lengths[usize::from(number) % lengths.len()]])
        .collect();
    for half in keys.chunks(18) {
        for key in half {
            client.ask(op::EXECUTE, &execute(&insert, &[key])).expect("an answer").kind();
        }
        text(directory, &["flush", "k.keys"]);
    }
    text(directory, &["compact", "k.keys"]);
    let select = client.prepare("SELECT v FROM k.keys WHERE p = ?");
    for key in keys {
        let found = client.ask(op::EXECUTE, &execute(&select, &[&key])).expect("an answer");
        assert_eq!(found.rows().0.len(), 1, "a key of {} bytes", key.len());
    }
    assert_eq!(engine.stop("-TERM"), Some(0));
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
    // Whoever says nothing keeps nobody else out for long.
    let told = refused_beside_silent(&directory, &socket);
    assert!(told.contains("4 commands are under way"), "{told}");
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

/// What a command is told while four clients say nothing. They connect for every try: one of
/// them is refused if the command before is not over yet, and the engine lets each go after a
/// while.
fn refused_beside_silent(directory: &Path, socket: &Path) -> String {
    for _ in 0..100 {
        let _silent: Vec<_> =
            (0..4).map(|_| UnixStream::connect(socket).expect("it listens")).collect();
        let output = ctl(directory, &["status"]);
        if !output.status.success() {
            return String::from_utf8(output.stderr).expect("text");
        }
    }
    panic!("the engine answered a fifth client each time");
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
    assert_eq!(table["tombstone_share"], 0.0, "the deletions went");
    assert!(
        table["compaction_bytes"].as_u64() > Some(0) && table["flush_bytes"].as_u64() > Some(0)
    );
    let select = client.prepare("SELECT c FROM k.t WHERE p = ?");
    let rows = (0..7i32).map(|p| client.all_rows(&select, &[&p.to_be_bytes()]).len());
    assert_eq!(rows.sum::<usize>(), 10);
    assert!(text(directory, &["flush"]).contains("flushed 2 tables"));
    let (code, told) = failure(directory, &["compact", "nothing"]);
    assert!(code == 1 && told.contains("nothing: there is no such keyspace or table"), "{told}");
}

/// Inserts until it is told to stop; says up to which row all are acknowledged.
fn keep_inserting(port: u16, acknowledged: &AtomicI32, is_over: &AtomicBool) {
    let mut client = Client::connect(port).expect("it serves");
    for row in 0.. {
        insert(&mut client, row..row + 1);
        acknowledged.store(row + 1, SeqCst);
        if is_over.load(SeqCst) {
            return;
        }
    }
}

/// The rows of the table, by their clustering keys.
fn rows(engine: &Engine) -> BTreeSet<i32> {
    let mut client = Client::connect(engine.cql).expect("it serves");
    let select = client.prepare("SELECT c, v FROM k.t WHERE p = ?");
    let mut all = BTreeSet::new();
    for p in 0..7i32 {
        for row in client.all_rows(&select, &[&p.to_be_bytes()]) {
            let c = row[0].as_deref().and_then(|c| c.try_into().ok()).map(i32::from_be_bytes);
            assert_eq!(row[1].as_deref(), Some(&[b'x'; 100][..]), "its own value");
            assert!(all.insert(c.expect("four bytes")));
        }
    }
    all
}

/// All files below a directory, and what is in them.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("it is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if path.is_file() {
            all.insert(path.clone(), fs::read(&path).expect("a file"));
        }
    }
    all
}

#[test]
fn a_snapshot_has_what_was_acknowledged_before_and_outlives_what_it_was_taken_of() {
    let parent = tempdir().expect("a directory");
    let directory = &parent.path().join("data");
    let engine = Engine::start(directory, &["--shards", "2"]);
    let mut client = with_schema(&engine);
    client.run("INSERT INTO k.other (p, v) VALUES (1, 'other')");
    let (acknowledged, is_over) = (AtomicI32::new(0), AtomicBool::new(false));
    let before = std::thread::scope(|scope| {
        scope.spawn(|| keep_inserting(engine.cql, &acknowledged, &is_over));
        while acknowledged.load(SeqCst) < 200 {
            std::thread::yield_now();
        }
        let before = acknowledged.load(SeqCst);
        let taken = json(directory, &["snapshot", "first"]);
        is_over.store(true, SeqCst);
        assert!(taken["sstables"].as_u64() >= Some(2), "{taken}");
        before
    });
    json(directory, &["snapshot", "second", "k.t"]);

    // Compaction removes the files that the snapshot has, and then the table goes.
    json(directory, &["compact"]);
    client.run("DROP TABLE k.t");
    let snapshot = directory.join("snapshots").join("first");
    let restored = &parent.path().join("restored");
    let into = restored.to_str().expect("text");
    let done = json(parent.path(), &["restore", snapshot.to_str().expect("text"), "--into", into]);
    assert!(done["sstables"].as_u64() >= Some(2), "{done}");
    let again = Engine::start(restored, &["--shards", "1"]);
    let found = rows(&again);
    assert!((0..before).all(|row| found.contains(&row)), "{before}: {found:?}");
    let mut other = Client::connect(again.cql).expect("it serves");
    let of_other = other.prepare("SELECT v FROM k.other WHERE p = ?");
    assert_eq!(other.all_rows(&of_other, &[&1i32.to_be_bytes()]).len(), 1);
    // It lives on: what it writes, compacts and removes leaves the snapshot as it was.
    let kept = contents(&snapshot);
    insert(&mut other, 100_000..100_010);
    json(restored, &["compact"]);
    assert_eq!(rows(&again).len(), found.len() + 10);
    assert_eq!(again.stop("-TERM"), Some(0));
    assert_eq!(contents(&snapshot), kept);
    assert_eq!(engine.stop("-TERM"), Some(0));

    let (code, told) = failure(directory, &["restore", "first", "--into", into]);
    assert!(code == 1 && told.contains("it is not empty, and nothing in it was changed"), "{told}");
    let (code, told) = failure(parent.path(), &["restore", into, "--into", "/nowhere"]);
    assert!(code == 1 && told.contains("it is a data directory and no snapshot"), "{told}");
    // Over to another file system there is no link: nothing is left of a snapshot, and what is
    // restored is copied.
    let device = |path: &Path| fs::metadata(path).expect("it is there").dev();
    if let Ok(other) = tempfile::tempdir_in("/dev/shm")
        && device(other.path()) != device(directory)
    {
        let to = other.path().to_str().expect("text");
        let engine = Engine::start(directory, &["--shards", "2"]);
        let (code, told) = failure(directory, &["snapshot", "far", "--to", to]);
        assert!(code == 1 && told.contains("lies on the file system of the data"), "{told}");
        assert_eq!(fs::read_dir(other.path()).expect("it is there").count(), 0);
        assert_eq!(engine.stop("-TERM"), Some(0));
        text(directory, &["restore", "first", "--into", &format!("{to}/data")]);
        let engine = Engine::start(&other.path().join("data"), &[]);
        assert_eq!(rows(&engine), found);
    }
    let names: Vec<_> = json(directory, &["list"]).as_array().expect("a list").clone();
    assert_eq!((&names[0]["name"], &names[1]["name"]), (&"first".into(), &"second".into()));
    assert!(names[0]["problem"].is_null() && names[0]["taken_s"].as_u64() > Some(1_700_000_000));
    assert!(text(directory, &["list"]).contains("second"));
}

#[test]
fn a_snapshot_takes_the_place_of_one_that_was_cut_off_and_of_nothing_else() {
    let parent = tempdir().expect("a directory");
    let directory = &parent.path().join("data");
    let engine = Engine::start(directory, &["--shards", "1"]);
    insert(&mut with_schema(&engine), 0..10);
    json(directory, &["snapshot", "first"]);
    let (code, told) = failure(directory, &["snapshot", "first"]);
    assert!(code == 1 && told.contains("there is such a snapshot"), "{told}");
    for name in ["../out", "", ".hidden", "a/b"] {
        let (code, told) = failure(directory, &["snapshot", name]);
        assert!(code == 1 && told.contains("cannot be the name of a snapshot"), "{told}");
    }
    // What a crash cut off is not told of, and gives way.
    let cut_off = directory.join("snapshots").join("second");
    fs::create_dir(&cut_off).expect("it can be made");
    fs::write(cut_off.join("sst-00000001-0000-00000009"), b"half").expect("it can be written");
    assert_eq!(json(directory, &["list"]).as_array().map(Vec::len), Some(1));
    let (code, told) = failure(
        directory,
        &["restore", "second", "--into", parent.path().join("x").to_str().unwrap()],
    );
    assert!(code == 1 && told.contains("FORMAT: it is missing"), "{told}");
    json(directory, &["snapshot", "second", "k.t"]);
    assert!(!cut_off.join("sst-00000001-0000-00000009").exists());
    // What is none of ours does not.
    let foreign = directory.join("snapshots").join("third");
    fs::create_dir(&foreign).expect("it can be made");
    fs::write(foreign.join("letter"), b"dear").expect("it can be written");
    assert!(failure(directory, &["snapshot", "third"]).1.contains("Choose another name"));
    assert!(foreign.join("letter").exists());
}

#[test]
fn a_flipped_byte_is_found_and_named_and_nothing_is_changed() {
    let parent = tempdir().expect("a directory");
    let directory = &parent.path().join("data");
    let engine = Engine::start(directory, &["--shards", "1"]);
    let mut client = with_schema(&engine);
    insert(&mut client, 0..100);
    json(directory, &["snapshot", "whole"]);
    let verified = json(directory, &["verify"]);
    assert_eq!((&verified["sstables"], &verified["problems"]), (&1.into(), &serde_json::json!([])));
    assert_eq!(verified["is_whole_directory"], false);
    insert(&mut client, 100..200);
    engine.kill();

    let before = contents(directory);
    let verified = json(directory, &["verify"]);
    assert_eq!(
        (&verified["problems"], &verified["is_whole_directory"]),
        (&serde_json::json!([]), &true.into())
    );
    assert!(verified["blocks"].as_u64() > Some(0));
    assert_eq!(json(directory, &["list", "k.t"])[0]["rows"], 100);
    json(directory, &["verify", "--snapshot", "whole"]);
    let restored = parent.path().join("restored");
    text(directory, &["restore", "whole", "--into", restored.to_str().expect("text")]);
    assert_eq!(contents(directory), before, "nothing is changed");

    // Of every kind of file one byte, in its middle.
    let mut kinds = BTreeSet::new();
    let files: Vec<_> = before.keys().filter(|path| path.parent() == Some(directory)).collect();
    for path in files {
        let name = path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
        let whole = &before[path];
        let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let kind = name.split('-').next().expect("some").to_owned();
        // The last record of a journal, damaged, is what a crash leaves.
        let is_journal = name.matches('-').count() == 2 && kind == "manifest";
        if used == 0 || is_journal || kind == "ctl.sock" {
            continue;
        }
        let mut damaged = whole.clone();
        damaged[used / 2] ^= 0x10;
        fs::write(path, &damaged).expect("it can be written");
        let output = ctl(directory, &["verify"]);
        let told = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        fs::write(path, whole).expect("it can be written");
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains(&name), "{name}: {told}");
        kinds.insert(kind);
    }
    let all = ["FORMAT", "catalog", "log", "manifest", "sst"].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(all));

    // A snapshot that is damaged is not restored, and one that runs is looked at, too.
    let summary = &json(directory, &["list", "k.t"])[0];
    let name = summary["file"].as_str().expect("a name");
    let damage = |path: PathBuf| {
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[20] ^= 1;
        fs::remove_file(&path).expect("it can be removed: it is a link");
        fs::write(&path, bytes).expect("it can be written");
    };
    damage(directory.join("snapshots").join("whole").join(name));
    let elsewhere = parent.path().join("elsewhere");
    let (code, told) =
        failure(directory, &["restore", "whole", "--into", elsewhere.to_str().expect("text")]);
    assert!(code == 1 && told.contains(name) && told.contains("at byte 0"), "{told}");
    assert!(!elsewhere.exists());
    let engine = Engine::start(directory, &[]);
    text(directory, &["verify"]);
    damage(directory.join(name));
    let output = ctl(directory, &["verify"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(name) && told.contains("which the engine is using"), "{told}");
    drop(engine);
}
