//! Work is cut by time: one client, or one flush, does not keep the others waiting.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use sandglass_db::{
    io::{Clock, ManualClock, TimeSlice, sim::SimDisk},
    mutation::{Builder, TableNumber, Write, token},
    schema::TableSettings,
    store::{Done, Page, ReadRequest, Store, StoreConfig, Tag},
};
use simulated::{START_US, try_open_with};
use tempfile::tempdir;
use whole::crowd::Crowd;
use wire::{
    client::{Client, execute, frame, long_string, op, values},
    engine::Engine,
};

const TABLE: TableNumber = TableNumber(1);

fn turn(store: &mut Store) -> Vec<Done> {
    let mut done = Vec::new();
    store.turn_end();
    store.poll(&mut done).unwrap();
    done
}

fn write(store: &mut Store, fill: impl Fn(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    fill(&mut bytes);
    store.write(Tag(1), &bytes).unwrap();
    while !turn(store).iter().any(|done| matches!(done, Done::Write(Tag(1)))) {}
}

/// A store on a clock on which time goes by as it is looked at: elapsed time is work.
struct Machine {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    window_us: Option<i64>,
}

impl Machine {
    fn new(window_us: Option<i64>) -> Self {
        let memory = StoreConfig { cache_bytes_max: 8 << 20, ..StoreConfig::default() };
        let config = StoreConfig { flush_write_bytes: 64 << 10, ..memory };
        let clock = Arc::new(ManualClock::ticking(START_US, 1));
        Self { disk: SimDisk::new(9), clock, config, window_us }
    }

    fn open(&self) -> Store {
        let settings = TableSettings {
            window_us: self.window_us,
            gc_grace_s: 1_000_000,
            ..TableSettings::default()
        };
        let tables = BTreeMap::from([(TABLE, settings)]);
        try_open_with(&self.disk, &self.clock, &self.config, &tables).unwrap().remove(0)
    }

    fn now(&self) -> Write {
        let now_us = self.clock.now_us();
        Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 }
    }

    /// Writes or deletes this many partitions of a row.
    fn partitions(&self, store: &mut Store, count: u32, is_deletion: bool) {
        for first in (0..count).step_by(500) {
            self.clock.advance(1);
            write(store, |bytes| {
                for number in first..(first + 500).min(count) {
                    let key = number.to_be_bytes();
                    let mut builder = Builder::new(bytes, TABLE, token::token(&key), &key);
                    if is_deletion {
                        builder.delete_partition(&self.now());
                    } else {
                        builder.row(b"", &self.now(), true).cell(3, b"value");
                    }
                    builder.finish().unwrap();
                }
            });
        }
    }

    /// Flushes everything; returns how many turns that took, and the longest of them in time.
    fn stop(&self, mut store: Store) -> (u32, u64) {
        store.begin_shutdown();
        let (mut turns, mut longest_us) = (0, 0);
        while !store.is_idle() {
            let before_us = self.clock.elapsed_us();
            turn(&mut store);
            longest_us = longest_us.max(self.clock.elapsed_us() - before_us);
            turns += 1;
        }
        (turns, longest_us)
    }

    /// Scans all of the table, a page after the other: rows, and the time that it took.
    fn scan(&self, store: &mut Store) -> (usize, u64) {
        let before_us = self.clock.elapsed_us();
        let mut request = ReadRequest::scan(TABLE, i64::MIN, i64::MAX, START_US / 1_000_000);
        request.rows_max = 1_000;
        let mut rows = 0;
        loop {
            let page = self.page(store, &request);
            rows += page.len();
            match page.position() {
                Some(position) => request.after = Some(position.clone()),
                None => return (rows, self.clock.elapsed_us() - before_us),
            }
        }
    }

    fn page(&self, store: &mut Store, request: &ReadRequest) -> Page {
        let mut page = Page::default();
        let mut time = TimeSlice::new(&*self.clock, 100);
        if store.read(Tag(2), request, &mut page, &mut time).unwrap() {
            return page;
        }
        loop {
            let before_us = self.clock.elapsed_us();
            let done = turn(store);
            let took_us = self.clock.elapsed_us() - before_us;
            assert!(took_us < 1_500, "a turn of {took_us} us");
            for done in done {
                if let Done::Read(Tag(2), page) = done {
                    return *page;
                }
            }
        }
    }
}

#[test]
fn a_flush_of_many_partitions_takes_many_short_turns() {
    let machine = Machine::new(None);
    let mut store = machine.open();
    machine.partitions(&mut store, 200_000, false);
    let (turns, longest_us) = machine.stop(store);
    assert!(turns > 10, "in {turns} turns");
    assert!(longest_us < 1_200, "a turn of {longest_us} us");
    let mut store = machine.open();
    assert_eq!(machine.scan(&mut store).0, 200_000);
}

#[test]
fn a_large_write_is_applied_in_several_turns_and_seen_as_a_whole() {
    const ROWS: u32 = 60_000;
    let (machine, key) = (Machine::new(None), b"large");
    let mut store = machine.open();
    machine.partitions(&mut store, 1, false);
    let (now_s, other) = (START_US / 1_000_000, 0_u32.to_be_bytes());
    let request = |key: &[u8], reverse| {
        let all = ReadRequest::partition(TABLE, token::token(key), key, now_s);
        ReadRequest { rows_max: 1, reverse, ..all }
    };
    let is_there = |store: &mut Store, request: &ReadRequest| {
        let (mut page, mut time) = (Page::default(), TimeSlice::endless());
        let is_read = store.read_at_once(request, &mut page, &mut time).unwrap();
        is_read.then(|| page.len() == 1)
    };
    let (from, to) = (1_u32.to_be_bytes(), ROWS.to_be_bytes());
    for kind in 0..4 {
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(key), key);
        machine.clock.advance(1);
        match kind {
            1 => _ = builder.delete_range(&from, &to, &machine.now()),
            3 => _ = builder.delete_partition(&machine.now()),
            _ => (0..ROWS).for_each(|row| {
                builder.row(&row.to_be_bytes(), &machine.now(), true).cell(3, b"value");
            }),
        }
        builder.finish().unwrap();
        store.write(Tag(1), &bytes).unwrap();
        let (mut turns, mut paused) = (0, 0);
        loop {
            let before_us = machine.clock.elapsed_us();
            let is_over = turn(&mut store).iter().any(|done| matches!(done, Done::Write(Tag(1))));
            let took_us = machine.clock.elapsed_us() - before_us;
            assert!(took_us < 1_200, "a turn of {took_us} us");
            assert_eq!(is_there(&mut store, &request(&other, false)), Some(true));
            let [first, last] =
                [false, true].map(|reverse| is_there(&mut store, &request(key, reverse)));
            match (first, last) {
                (None, None) => paused += 1,
                // The range has all rows but the first.
                (Some(_), Some(_)) if kind == 1 => {}
                (first, last) => assert_eq!(first, last, "after {turns} turns"),
            }
            turns += 1;
            if is_over {
                break;
            }
        }
        assert!(paused > 0, "half of it was applied after no turn, of {turns}");
    }
    assert_eq!(is_there(&mut store, &request(key, false)), Some(false));
}

#[test]
fn rows_of_more_windows_than_a_flush_has_files_are_all_kept() {
    let machine = Machine::new(Some(1_000));
    let mut store = machine.open();
    for window in 0..250_i64 {
        let key = [u8::try_from(window % 3).unwrap()];
        write(&mut store, |bytes| {
            let write = Write { timestamp: window * 1_000, ttl_s: 0, now_s: 0 };
            let mut builder = Builder::new(bytes, TABLE, token::token(&key), &key);
            builder.row(&window.to_be_bytes(), &write, true).cell(3, b"value");
            builder.finish().unwrap();
        });
    }
    machine.stop(store);
    let mut store = machine.open();
    assert_eq!(machine.scan(&mut store).0, 250);
}

/// How long a scan over this many deleted partitions takes.
fn scan_of_deleted(partitions: u32, on_disk: bool) -> u64 {
    let machine = Machine::new(None);
    let mut store = machine.open();
    machine.partitions(&mut store, partitions, false);
    machine.partitions(&mut store, partitions, true);
    if on_disk {
        machine.stop(store);
        store = machine.open();
    }
    let (rows, took_us) = machine.scan(&mut store);
    assert_eq!(rows, 0);
    took_us
}

#[test]
fn a_scan_over_deleted_partitions_takes_time_in_proportion() {
    for on_disk in [false, true] {
        let (few, many) = (scan_of_deleted(20_000, on_disk), scan_of_deleted(80_000, on_disk));
        assert!(few > 100, "it is work: {few}");
        assert!(many < few * 6, "four times as many: {few} and {many}, on disk: {on_disk}");
    }
}

#[test]
fn a_client_with_a_thousand_counts_leaves_the_point_read_of_another_quick() {
    let directory = tempdir().unwrap();
    for shards in ["1", "2"] {
        let directory = directory.path().join(shards);
        let engine = Engine::start(&directory, &["--shards", shards]);
        let mut client = Client::connect(engine.cql).unwrap();
        client.run(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        client.run("CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))");
        let insert = client.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, 1)");
        let key = |number: i32| number.to_be_bytes();
        for row in 0..10_000 {
            client
                .send(&frame(1, op::EXECUTE, &execute(&insert, &[&key(row % 4), &key(row)])))
                .unwrap();
        }
        (0..10_000).for_each(|_| assert_eq!(client.receive().unwrap().kind(), 1));
        let count = client.prepare("SELECT count(*) FROM ks.t");
        let point = client.prepare("SELECT v FROM ks.t WHERE k = ? AND c = ?");
        let begun = Instant::now();
        let counts: Vec<u8> = (0..1_000)
            .flat_map(|stream| frame(stream, op::EXECUTE, &execute(&count, &[])))
            .collect();
        client.send(&counts).unwrap();
        let reader = std::thread::spawn(move || {
            (0..1_000).for_each(|_| assert_eq!(client.receive().unwrap().rows().0.len(), 1));
            begun.elapsed()
        });
        let mut other = Client::connect(engine.cql).unwrap();
        let mut waited = Vec::new();
        while !reader.is_finished() {
            let asked = Instant::now();
            for row in 0..4 {
                let body = execute(&point, &[&key(row % 4), &key(row)]);
                let answer = other.ask(op::EXECUTE, &body).unwrap();
                assert_eq!(answer.rows().0.len(), 1);
            }
            waited.push(asked.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        let (all, longest) = (reader.join().unwrap(), waited.iter().max().copied().unwrap());
        println!("{shards} shards: counts {all:?}, {} reads, longest {longest:?}", waited.len());
        assert!(longest < all / 10, "{longest:?} of {all:?}");
    }
}

/// How long a request takes while so many clients have a thousand each waiting: if they have just
/// sent them, and if they are known to be busy.
fn waits_of_one_among(busy: usize) -> [u64; 2] {
    let mut crowd = Crowd::new(1, busy + 1);
    for client in 0..busy {
        (0..1_000).for_each(|_| crowd.ask(client, "SELECT key FROM system.local"));
        crowd.send(client);
    }
    let mut point_read = || {
        crowd.ask(busy, "SELECT cluster_name FROM system.local");
        crowd.send(busy);
        crowd.wait(busy, 1).1
    };
    let waits = [point_read(), point_read()];
    // When the first of the others has all that it wanted, each has had a good part of it.
    let mut answered = vec![0; busy];
    while !answered.contains(&1_000) {
        crowd.turn();
        for (client, answered) in answered.iter_mut().enumerate() {
            *answered += crowd.answers(client).len();
        }
    }
    assert!(answered.iter().all(|answered| *answered > 500), "{answered:?}");
    waits
}

#[test]
fn who_asks_little_waits_no_longer_the_more_others_ask_much() {
    let waits = [1, 10, 100].map(waits_of_one_among);
    println!("first among them, and when they are known: {waits:?} us");
    for (clients, [first, then]) in [1, 10, 100].into_iter().zip(waits) {
        assert!(first < 3_000 + clients * 250, "{first} us among {clients} new ones");
        assert!(then < 3_000, "{then} us among {clients}");
    }
}

/// The body of a BATCH of the same statement so many times, between two others.
fn repeated(count: u16, text: &str, first: &str, last: &str) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&(count + 2).to_be_bytes());
    for text in [first].into_iter().chain(std::iter::repeat_n(text, count.into())).chain([last]) {
        body.push(0);
        body.extend_from_slice(&long_string(text));
        body.extend_from_slice(&values(&[]));
    }
    body.extend_from_slice(&[0, 1, 0]);
    body
}

/// A schema of so many tables of ten columns.
fn crowd_with_tables(tables: usize) -> Crowd {
    let mut crowd = Crowd::new(1, 2);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let columns: Vec<_> = (0..9).map(|number| format!("c{number} int")).collect();
    for table in 0..tables {
        crowd.run(&format!(
            "CREATE TABLE ks.t{table:04} (k int PRIMARY KEY, {})",
            columns.join(", ")
        ));
    }
    crowd
}

#[test]
fn lists_of_a_large_schema_are_made_in_many_short_turns_of_the_schema_as_it_was() {
    let mut crowd = crowd_with_tables(150);
    for (text, rows) in [
        (
            "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = 'ks'",
            1_500,
        ),
        ("SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'ks'", 1),
        ("DESCRIBE KEYSPACE ks", 151),
    ] {
        crowd.ask(0, text);
        crowd.send(0);
        crowd.turn();
        assert!(crowd.answers(0).is_empty(), "{text} is over at once");
        // What is created meanwhile is not in it.
        crowd.ask(1, "CREATE TABLE ks.a (k int PRIMARY KEY)");
        crowd.send(1);
        let (answer, turns, longest_us) = crowd.turns_until_answer(0);
        let found = answer.rows().0;
        assert_eq!(found.len(), rows, "{text}");
        assert!(rows > 1 || found[0] == [Some(1_500_i64.to_be_bytes().to_vec())], "{found:?}");
        println!("{turns} turns, {longest_us} us at most");
        assert!(turns > 1, "{text} in {turns} turns");
        assert!(longest_us < 2_500, "a turn of {longest_us} us");
        crowd.wait(1, 1);
        crowd.run("DROP TABLE ks.a");
    }
}

#[test]
fn a_batch_of_many_statements_is_bound_in_many_short_turns() {
    let mut crowd = Crowd::new(1, 2);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, v int)");
    crowd.clients[0].ask(op::STARTUP, &wire::client::compressed_startup(), ());
    assert_eq!(crowd.turns_until_answer(0).0.opcode, op::READY);
    for (key, is_compressed) in [(1, false), (2, true)] {
        let last = format!("INSERT INTO ks.t (k, v) VALUES ({key}, 7)");
        let first = format!("INSERT INTO ks.t (k, v) VALUES (9, {key})");
        let body = repeated(20_000, "INSERT INTO ks.t (k, v) VALUES (8, 8)", &first, &last);
        if is_compressed {
            crowd.clients[0].ask_compressed(op::BATCH, &body, ());
        } else {
            crowd.clients[0].ask(op::BATCH, &body, ());
        }
        let (answer, turns, longest_us) = crowd.turns_until_answer(0);
        assert_eq!(answer.kind(), 1);
        println!("{turns} turns, {longest_us} us at most");
        assert!(turns > 20, "in {turns} turns");
        assert!(longest_us < 2_500, "a turn of {longest_us} us");
        let read = crowd.run(&format!("SELECT v FROM ks.t WHERE k = {key}"));
        assert_eq!(read.rows().0, [[Some(7_i32.to_be_bytes().to_vec())]]);
        let read = crowd.run("SELECT v FROM ks.t WHERE k = 9");
        assert_eq!(read.rows().0, [[Some(i32::to_be_bytes(key).to_vec())]]);
    }
    let metrics = crowd.engine.metrics(0);
    assert!(metrics.log_blocks.get() > 1);
    assert_eq!(metrics.log_write.count(), metrics.log_blocks.get(), "how long each of them took");
    // A mistake in the last statement is found as late, and nothing of the batch happens.
    let insert = "INSERT INTO ks.t (k, v) VALUES (5, 9)";
    let body = repeated(20_000, insert, insert, "INSERT INTO ks.none");
    crowd.clients[0].ask(op::BATCH, &body, ());
    let (answer, turns, _) = crowd.turns_until_answer(0);
    assert_eq!((answer.opcode, turns > 20), (op::ERROR, true));
    assert!(crowd.run("SELECT v FROM ks.t WHERE k = 5").rows().0.is_empty());
}
