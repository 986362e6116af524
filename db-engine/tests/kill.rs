//! The real binary, killed under load and started again: what was acknowledged is there.
//!
//! Each writer numbers its rows and keeps the last number that was acknowledged; all rows up to
//! it must be there after each kill, each with its own value, and no row that was never sent.

mod wire;

use std::{
    collections::BTreeSet,
    path::Path,
    thread::{scope, sleep},
    time::Duration,
};
use tempfile::tempdir;
use wire::{
    client::{Client, batch, execute, frame, op},
    engine::Engine,
};

const KILLS: u64 = 20;
const WRITERS: u64 = 4;

/// Requests in flight of one writer.
const IN_FLIGHT: usize = 8;

/// Every so many requests one is a logged batch over several partitions.
const BATCH_EVERY: u64 = 5;

/// Rows of a batch; each in a partition of its own.
const BATCH_ROWS: u64 = 6;

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE IF NOT EXISTS k WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS k.t (writer bigint, part int, n bigint, v blob, \
     PRIMARY KEY ((writer, part), n))",
];

/// What one writer knows: the numbers it has sent and those that were acknowledged. A number
/// stands for one row, or for all rows of one batch.
#[derive(Default)]
struct Record {
    next: u64,
    acknowledged: BTreeSet<u64>,
}

/// The parts that a number's rows lie in.
fn parts(number: u64) -> std::ops::Range<u64> {
    if number.is_multiple_of(BATCH_EVERY) { 0..BATCH_ROWS } else { 0..1 }
}

fn cells(writer: u64, part: u64, number: u64) -> Vec<Vec<u8>> {
    let part = u32::try_from(part).expect("small");
    let value = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().repeat(20);
    vec![
        writer.to_be_bytes().to_vec(),
        part.to_be_bytes().to_vec(),
        number.to_be_bytes().to_vec(),
        value,
    ]
}

/// Writes until the engine dies.
fn write(port: u16, writer: u64, record: &mut Record) {
    let Ok(mut client) = Client::connect(port) else { return };
    let insert = client.prepare("INSERT INTO k.t (writer, part, n, v) VALUES (?, ?, ?, ?)");
    let mut in_flight = [None; IN_FLIGHT];
    loop {
        for (stream, slot) in in_flight.iter_mut().enumerate() {
            if slot.is_some() {
                continue;
            }
            let number = record.next;
            record.next += 1;
            let rows: Vec<_> = parts(number).map(|part| cells(writer, part, number)).collect();
            let stream = i16::try_from(stream).expect("few");
            let request = if rows.len() == 1 {
                let bound: Vec<&[u8]> = rows[0].iter().map(Vec::as_slice).collect();
                frame(stream, op::EXECUTE, &execute(&insert, &bound))
            } else {
                frame(stream, op::BATCH, &batch(0, &insert, &rows))
            };
            if client.send(&request).is_err() {
                return;
            }
            *slot = Some(number);
        }
        let Ok(answer) = client.receive() else { return };
        assert_eq!(answer.kind(), 1, "a write is acknowledged or not answered");
        let slot = &mut in_flight[usize::try_from(answer.stream).expect("ours")];
        record.acknowledged.insert(slot.take().expect("it was sent"));
    }
}

/// Reads all rows of a writer and holds them against its record.
fn check(client: &mut Client, writer: u64, record: &Record) {
    let select = client.prepare("SELECT n, v FROM k.t WHERE writer = ? AND part = ?");
    let mut found: Vec<BTreeSet<u64>> = Vec::new();
    for part in 0..BATCH_ROWS {
        let mut numbers = BTreeSet::new();
        let key = cells(writer, part, 0);
        for row in client.all_rows(&select, &[&key[0], &key[1]]) {
            let number = row[0].as_deref().and_then(|n| n.try_into().ok()).map(u64::from_be_bytes);
            let number = number.expect("eight bytes");
            assert_eq!(row[1].as_ref(), Some(&cells(writer, part, number)[3]), "its own value");
            assert!(number < record.next, "writer {writer} never sent {number}");
            assert!(numbers.insert(number), "{number} is there twice");
        }
        found.push(numbers);
    }
    for number in &record.acknowledged {
        for part in parts(*number) {
            let there = found[usize::try_from(part).expect("small")].contains(number);
            assert!(there, "writer {writer} lost {number} of part {part}");
        }
    }
    // A logged batch is there as a whole or not at all, acknowledged or not.
    for number in (0..record.next).step_by(usize::try_from(BATCH_EVERY).expect("small")) {
        let there = found.iter().filter(|numbers| numbers.contains(&number)).count();
        assert!(there == 0 || there == found.len(), "writer {writer}: half of batch {number}");
    }
}

fn restart(directory: &Path, shards: &str, records: &[Record]) -> Engine {
    let engine = Engine::start(directory, &["--shards", shards]);
    let mut client = Client::connect(engine.cql).expect("it serves");
    for statement in SCHEMA {
        client.run(statement);
    }
    for (writer, record) in (0..).zip(records) {
        check(&mut client, writer, record);
    }
    engine
}

#[test]
fn what_was_acknowledged_survives_twenty_kills() {
    let directory = tempdir().expect("a directory");
    let mut records: Vec<Record> = (0..WRITERS).map(|_| Record::default()).collect();
    for kill in 0..KILLS {
        // The directory opens with any number of shards.
        let shards = ["1", "2", "3", "1"][usize::try_from(kill % 4).expect("small")];
        let engine = restart(directory.path(), shards, &records);
        let port = engine.cql;
        scope(|scope| {
            for (writer, record) in (0..).zip(&mut records) {
                scope.spawn(move || write(port, writer, record));
            }
            // Not always at the same point of a flush or a block.
            sleep(Duration::from_millis(40 + 37 * (kill % 7)));
            engine.kill();
        });
    }
    let engine = restart(directory.path(), "2", &records);
    let acknowledged: usize = records.iter().map(|record| record.acknowledged.len()).sum();
    println!("{acknowledged} requests were acknowledged");
    assert!(acknowledged > 500, "there was load");
    assert_eq!(engine.stop("-INT"), Some(0));
}

#[test]
fn a_stop_under_load_loses_nothing_and_ends_with_zero() {
    let directory = tempdir().expect("a directory");
    let mut records: Vec<Record> = (0..WRITERS).map(|_| Record::default()).collect();
    for shards in ["1", "3", "2"] {
        let engine = restart(directory.path(), shards, &records);
        let port = engine.cql;
        scope(|scope| {
            for (writer, record) in (0..).zip(&mut records) {
                scope.spawn(move || write(port, writer, record));
            }
            sleep(Duration::from_millis(200));
            assert_eq!(engine.stop("-TERM"), Some(0));
        });
    }
    let engine = restart(directory.path(), "1", &records);
    assert!(records.iter().all(|record| record.acknowledged.len() > 10), "there was load");
    drop(engine);
}

#[test]
fn a_second_engine_on_the_directory_is_refused_and_the_first_goes_on() {
    let directory = tempdir().expect("a directory");
    let engine = restart(directory.path(), "2", &[]);
    let refused = wire::engine::refusal(directory.path(), &[]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("LOCK"), "{said}");
    let mut client = Client::connect(engine.cql).expect("it serves");
    client.run("SELECT * FROM k.t");
}

#[test]
fn a_copy_without_its_lock_file_says_what_to_do_and_that_helps() {
    let directory = tempdir().expect("a directory");
    assert_eq!(restart(directory.path(), "1", &[]).stop("-TERM"), Some(0));
    let path = directory.path().join("LOCK");
    std::fs::remove_file(&path).expect("it is there");
    let refused = wire::engine::refusal(directory.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let file = path.display().to_string();
    assert!(said.contains(&file) && said.contains("create an empty file"), "{said}");
    std::fs::write(&path, "").expect("it can be written");
    assert_eq!(restart(directory.path(), "1", &[]).stop("-TERM"), Some(0));
}

#[test]
fn a_log_that_is_put_back_after_a_stop_is_refused_until_it_is_whole_again() {
    let directory = tempdir().expect("a directory");
    let path = directory.path().join("log-1-0-0");
    let engine = restart(directory.path(), "1", &[]);
    let before = std::fs::read(&path).expect("it is there");
    let insert = "INSERT INTO k.t (writer, part, n, v) VALUES (1, 1, 1, 0x01)";
    Client::connect(engine.cql).expect("it serves").run(insert);
    assert_eq!(engine.stop("-TERM"), Some(0));
    let after = std::fs::read(&path).expect("it is there");

    std::fs::write(&path, &before).expect("it can be written");
    let refused = wire::engine::refusal(directory.path(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let file = path.display().to_string();
    assert!(said.contains(&file) && said.contains("Restore this directory"), "{said}");
    assert!(std::fs::read(&path).expect("it is there") == before, "it is as it was");

    std::fs::write(&path, &after).expect("it can be written");
    let engine = restart(directory.path(), "1", &[]);
    let found = Client::connect(engine.cql).expect("it serves").run("SELECT n FROM k.t");
    assert_eq!(found.rows().0.len(), 1);
    assert_eq!(engine.stop("-TERM"), Some(0));
}

#[test]
fn a_format_nobody_knows_is_refused() {
    let directory = tempdir().expect("a directory");
    assert_eq!(restart(directory.path(), "1", &[]).stop("-TERM"), Some(0));
    let path = directory.path().join("FORMAT");
    let before = std::fs::read(&path).expect("it is there");
    for place in 0..before.len() {
        let mut damaged = before.clone();
        damaged[place] ^= 0x40;
        std::fs::write(&path, &damaged).expect("it can be written");
        let refused = wire::engine::refusal(directory.path(), &[]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "byte {place}: {said}");
        assert!(said.contains("FORMAT"), "byte {place}: {said}");
    }
    std::fs::write(&path, &before).expect("it can be written");
    assert_eq!(restart(directory.path(), "1", &[]).stop("-TERM"), Some(0));
}
