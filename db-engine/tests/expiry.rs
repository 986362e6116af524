//! What was deleted or has expired hides what is older, even if that arrives later, for the grace
//! of its table. After that its files go, whether the engine runs on or is started again.
#![allow(clippy::unwrap_used)]

mod simulated;

use std::sync::Arc;

use sandglass_db::{
    io::{Clock, ManualClock, sim::SimDisk},
    mutation::{Builder, Write, token},
    store::{Done, ReadRequest, Store, Tag},
};
use simulated::{EXPIRING, KEPT, START_US, config, read, tables, try_open_with};

const GRACE_S: u32 = 1_000;
const TTL_S: u32 = 60;
const KEY: &[u8] = b"boiler";
const CK: &[u8] = b"7";

struct Machine {
    disk: SimDisk,
    clock: Arc<ManualClock>,
}

impl Machine {
    fn new() -> Self {
        Self { disk: SimDisk::new(3), clock: Arc::new(ManualClock::at(START_US)) }
    }

    fn open(&self) -> Store {
        let stores = try_open_with(&self.disk, &self.clock, &config(1), &tables(GRACE_S));
        stores.unwrap().pop().unwrap()
    }

    /// Writes, so many microseconds before the start, in both tables.
    fn write(&self, store: &mut Store, before_us: i64, ttl_s: u32, change: &Change) {
        for table in [KEPT, EXPIRING] {
            let now_s = self.clock.now_us() / 1_000_000;
            let write = Write { timestamp: START_US - before_us, ttl_s, now_s };
            let mut bytes = Vec::new();
            let mut builder = Builder::new(&mut bytes, table, token::token(KEY), KEY);
            match change {
                Change::Row => {
                    builder.row(CK, &write, true).cell(1, b"21.5");
                }
                Change::Cell => {
                    builder.row(CK, &write, false).cell(1, b"21.5");
                }
                Change::NoCell => {
                    builder.row(CK, &write, false).tombstone(1);
                }
                Change::NoRow => {
                    builder.delete_row(CK, &write);
                }
                Change::NoPartition => {
                    builder.delete_partition(&write);
                }
            }
            builder.finish().unwrap();
            store.write(Tag(1), &bytes).unwrap();
            turn_until(store, |done| matches!(done, Done::Write(_)));
        }
    }

    fn is_seen(&self, store: &mut Store) -> bool {
        let now_s = self.clock.now_us() / 1_000_000;
        let seen = [KEPT, EXPIRING].map(|table| {
            let request = ReadRequest::partition(table, token::token(KEY), KEY, now_s);
            read(store, &request).len() == 1
        });
        assert_eq!(seen[0], seen[1], "with windows and without");
        seen[0]
    }

    fn sstables(&self) -> usize {
        self.disk.contents().keys().filter(|name| name.starts_with("sst-")).count()
    }

    /// Lets so much time go by for a store that runs.
    fn wait(&self, store: &mut Store, seconds: i64) {
        self.clock.advance(seconds * 1_000_000);
        for _ in 0..100 {
            store.turn_end();
            store.poll(&mut Vec::new()).unwrap();
        }
    }
}

enum Change {
    Row,
    Cell,
    NoCell,
    NoRow,
    NoPartition,
}

fn turn_until(store: &mut Store, is_it: impl Fn(&Done) -> bool) {
    for _ in 0..10_000 {
        let mut done = Vec::new();
        store.turn_end();
        store.poll(&mut done).unwrap();
        if done.iter().any(&is_it) {
            return;
        }
    }
    panic!("it does not come");
}

fn stop(mut store: Store) {
    store.begin_shutdown();
    for _ in 0..10_000 {
        if store.is_idle() {
            return;
        }
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
    }
    panic!("it does not stop");
}

/// What hides an older write, and until when a reader would see it, in seconds after the start.
const HIDING: [(Change, u32, i64); 4] = [
    (Change::Row, TTL_S, TTL_S as i64),
    (Change::NoCell, 0, 0),
    (Change::NoRow, 0, 0),
    (Change::NoPartition, 0, 0),
];

#[test]
fn an_older_write_that_arrives_within_the_grace_stays_hidden() {
    for (change, ttl_s, until_s) in &HIDING {
        for restarts in [false, true] {
            let machine = Machine::new();
            let mut store = machine.open();
            machine.write(&mut store, 0, *ttl_s, change);
            stop(store);
            let mut store = machine.open();
            machine.wait(&mut store, until_s + i64::from(GRACE_S) - 1);
            if restarts {
                stop(store);
                store = machine.open();
            }
            assert_eq!(machine.sstables(), 2);
            // Of what has the same timestamp, a deletion or what expires wins.
            for before_us in [5_000_000, 0] {
                machine.write(&mut store, before_us, 0, &Change::Cell);
                assert!(!machine.is_seen(&mut store));
            }
            stop(store);
            let mut store = machine.open();
            assert!(!machine.is_seen(&mut store));
        }
    }
}

#[test]
fn after_the_grace_the_files_go() {
    for (change, ttl_s, until_s) in &HIDING {
        for restarts in [false, true] {
            let machine = Machine::new();
            let mut store = machine.open();
            machine.write(&mut store, 0, *ttl_s, change);
            stop(store);
            let mut store = machine.open();
            assert!(store.deadline_us().is_some());
            machine.wait(&mut store, until_s + i64::from(GRACE_S) - 1);
            assert_eq!(machine.sstables(), 2);
            if restarts {
                stop(store);
                machine.clock.advance(1_000_000);
                store = machine.open();
            } else {
                machine.wait(&mut store, 1);
            }
            assert_eq!(machine.sstables(), 0);
            assert_eq!(store.deadline_us(), None, "an idle store wants no turn");
            // Whoever tries again now is too late to be known.
            machine.write(&mut store, 5_000_000, 0, &Change::Cell);
            assert!(machine.is_seen(&mut store));
        }
    }
}

#[test]
fn another_grace_holds_from_then_on() {
    let machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, 0, 0, &Change::NoRow);
    stop(store);
    let mut store = machine.open();
    machine.wait(&mut store, 10);
    assert_eq!(machine.sstables(), 2);
    for (table, settings) in tables(5) {
        store.define(table, settings);
    }
    machine.wait(&mut store, 1);
    assert_eq!(machine.sstables(), 0);
}
