//! The real binary where the operating system gives it little: open files, sizes of files.

mod wire;

use std::{
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::tempdir;
use wire::{
    client::{Client, execute, op},
    engine::{Engine, command, limited, refused},
};

/// As many open files as `ulimit -n 60` gives.
const FEW: &str = "--nofile=60";

const MINUTE_US: u64 = 60_000_000;

fn with_keyspace(engine: &Engine) -> Client {
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run(
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client
}

/// A table of which each minute has an sstable of its own.
fn by_minute(client: &mut Client) {
    client.run(
        "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v blob) WITH compaction = \
         {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', \
         'compaction_window_size': 1}",
    );
}

/// Writes one row for each of these minutes.
fn write_minutes(client: &mut Client, minutes: std::ops::Range<u64>) {
    for minute in minutes {
        let timestamp = minute * MINUTE_US;
        let row = format!("({minute}, 0x{minute:016x})");
        client.run(&format!("INSERT INTO ks.t (k, v) VALUES {row} USING TIMESTAMP {timestamp}"));
    }
}

fn read_minutes(client: &mut Client, minutes: std::ops::Range<u64>) {
    for minute in minutes {
        let answer = client.run(&format!("SELECT v FROM ks.t WHERE k = {minute}"));
        assert_eq!(answer.rows().0, [[Some(minute.to_be_bytes().to_vec())]], "minute {minute}");
    }
}

#[test]
fn idle_sockets_beyond_the_limit_keep_nobody_out() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start_limited(directory.path(), &[FEW], &["--shards", "1"]);
    let mut client = with_keyspace(&engine);
    by_minute(&mut client);
    let mut idle = Vec::new();
    for number in 0..80 {
        idle.push(Client::raw(engine.cql).expect("the kernel has room"));
        write_minutes(&mut client, number..number + 1);
    }
    let mut late = Client::connect(engine.cql).expect("it listens");
    read_minutes(&mut late, 0..80);
    assert!(engine.metric("sandglass_db_transport_connections_refused_total") >= 60);
    assert_eq!(engine.metric("process_max_fds"), 60);
    assert!(engine.metric("process_open_fds") < 60);
    assert_eq!(engine.stop("-TERM"), Some(0));
}

#[test]
fn a_limit_that_is_lowered_while_it_runs_refuses_connections_and_ends_nothing() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_keyspace(&engine);
    by_minute(&mut client);
    let open = engine.metric("process_open_fds");
    engine.limit(&format!("--nofile={}", open + 20));
    let mut idle = Vec::new();
    for number in 0..60 {
        idle.push(Client::raw(engine.cql).expect("the kernel has room"));
        write_minutes(&mut client, number..number + 1);
    }
    // Of the idle ones some are closed for the sake of others, which say something.
    let mut late = Client::connect(engine.cql).expect("it listens");
    read_minutes(&mut late, 0..60);
    let before = engine.metric("sandglass_db_reactor_turns_total");
    sleep(Duration::from_millis(500));
    let after = engine.metric("sandglass_db_reactor_turns_total");
    assert!(after - before < 100, "{} turns with nothing to do", after - before);
    assert_eq!(engine.stop("-TERM"), Some(0));
}

#[test]
fn more_sstables_than_descriptors_are_written_and_read() {
    let directory = tempdir().expect("a directory");
    for round in 0..3 {
        // The first flush has all descriptors that it wants, the others have few.
        let limits: &[&str] = if round == 0 { &[] } else { &[FEW] };
        let engine = Engine::start_limited(directory.path(), limits, &["--shards", "1"]);
        let mut client = with_keyspace(&engine);
        by_minute(&mut client);
        read_minutes(&mut client, 0..round * 90);
        write_minutes(&mut client, round * 90..(round + 1) * 90);
        read_minutes(&mut client, 0..(round + 1) * 90);
        assert!(engine.metric("sandglass_db_sstables_count") >= round * 90);
        if round > 0 {
            assert!(engine.metric("sandglass_db_files_open") < 60);
            assert!(engine.metric("sandglass_db_files_opened_total") > round * 90);
        }
        assert_eq!(engine.stop("-TERM"), Some(0), "round {round}");
    }
}

#[test]
fn too_few_open_files_are_refused_in_one_line() {
    let directory = tempdir().expect("a directory");
    let command = command(directory.path(), &["--shards", "1"]);
    let output = refused(limited(&["--nofile=30"], &command), &["--nofile=30"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("may have 30 open files, and needs 52"), "{text}");
}

#[test]
fn files_that_may_not_grow_are_like_a_full_disk() {
    let directory = tempdir().expect("a directory");
    let arguments = ["--shards", "1", "--memory", "128MiB"];
    let output =
        refused(limited(&["--fsize=1048576"], &command(directory.path(), &arguments)), &arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "it cannot start, and says so: {text}");
    let first_segment = directory.path().join("log-1-0-0").display().to_string();
    assert!(text.contains(&first_segment) && text.contains("File too large"), "{text}");
    assert!(text.contains("ulimit -f"), "{text}");

    // Larger than a segment of the log, smaller than what one flush writes.
    let engine = Engine::start_limited(directory.path(), &["--fsize=20971520:"], &arguments);
    let mut client = with_keyspace(&engine);
    client.run("CREATE TABLE ks.large (k int PRIMARY KEY, v blob)");
    let insert = client.prepare("INSERT INTO ks.large (k, v) VALUES (?, ?)");
    let select = client.prepare("SELECT v FROM ks.large WHERE k = ?");
    let mut state = 1_u64;
    let mut value = || {
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()
        };
        (0..64 << 10).flat_map(|_| random()).collect::<Vec<u8>>()
    };
    let mut written = Vec::new();
    let failed = || engine.metric("sandglass_db_memtables_failed_flushes_total");
    let until = Instant::now() + Duration::from_mins(1);
    while failed() == 0 {
        assert!(Instant::now() < until, "no flush has failed");
        let (key, value) = (i32::try_from(written.len()).expect("few"), value());
        let answer = client.ask(op::EXECUTE, &execute(&insert, &[&key.to_be_bytes(), &value]));
        let answer = answer.expect("an answer");
        if answer.opcode == op::ERROR {
            assert_eq!(answer.code(), 0x1001, "{answer:?}");
            sleep(Duration::from_millis(20));
            continue;
        }
        written.push(value);
    }
    let read = |client: &mut Client| {
        for (key, value) in (0_i32..).zip(&written) {
            let answer = client.ask(op::EXECUTE, &execute(&select, &[&key.to_be_bytes()]));
            let rows = answer.expect("an answer").rows().0;
            assert!(rows == [[Some(value.clone())]], "row {key}");
        }
    };
    read(&mut client);
    engine.limit("--fsize=unlimited:");
    while engine.metric("sandglass_db_memtables_flushes_total") == 0 {
        assert!(Instant::now() < until, "the flush goes on once it can");
        sleep(Duration::from_millis(20));
    }
    read(&mut client);
    assert_eq!(engine.stop("-TERM"), Some(0));
}

#[test]
fn a_log_that_may_not_be_written_any_more_ends_it_and_it_says_what_to_do() {
    let directory = tempdir().expect("a directory");
    let mut process = command(directory.path(), &["--shards", "1"]);
    process.stderr(Stdio::piped());
    let mut engine = Engine::spawn(process);
    let mut client = with_keyspace(&engine);
    by_minute(&mut client);
    write_minutes(&mut client, 0..3);
    engine.limit("--fsize=512:");
    let insert = "INSERT INTO ks.t (k, v) VALUES (9, 0x09)";
    assert!(client.query(insert).is_err(), "it is not answered");
    assert_eq!(engine.ended(), Some(74));
    let said = engine.errors();
    assert!(said.contains("log-1-0-0") && said.contains("ulimit -f"), "{said}");
    drop(engine);

    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    read_minutes(&mut Client::connect(engine.cql).expect("it listens"), 0..3);
    assert_eq!(engine.stop("-TERM"), Some(0));
}
