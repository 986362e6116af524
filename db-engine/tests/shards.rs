//! A directory opens with any number of shards: log entries and sstables carry tokens.
#![allow(clippy::unwrap_used)]

mod simulated;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sandglass_db::{
    io::{
        Clock, ManualClock,
        sim::{Fault, SimDisk},
    },
    mutation::{Builder, Write, token},
    store::{Done, Refused, Store, Tag},
};
use simulated::{KEPT, START_US, key, rows, try_open, value};

/// Keys of each shard count's part of the test.
const KEYS_EACH: u32 = 40;

fn mutation(number: u32, clock: &ManualClock) -> Vec<u8> {
    let now_us = clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, KEPT, token::token(&key(number)), &key(number));
    builder.row(b"", &write, true).cell(3, &value(number));
    builder.finish().unwrap();
    bytes
}

fn wait(store: &mut Store, is_it: impl Fn(&Done) -> bool) {
    loop {
        let mut done = Vec::new();
        store.turn_end();
        store.poll(&mut done).unwrap();
        if done.iter().any(&is_it) {
            return;
        }
    }
}

fn stop(mut stores: Vec<Store>) {
    for store in &mut stores {
        store.begin_shutdown();
        while !store.is_idle() {
            store.turn_end();
            store.poll(&mut Vec::new()).unwrap();
        }
    }
}

fn with_shard_counts(counts: &[u16], crash: bool) {
    let mut disk = SimDisk::new(5);
    let clock = Arc::new(ManualClock::at(START_US));
    let mut expected = BTreeMap::new();
    for (round, shards) in (0_u32..).zip(counts) {
        let mut stores = try_open(&disk, &clock, *shards).unwrap();
        let found = rows(&mut stores, KEPT, clock.now_us() / 1_000_000);
        assert!(found == expected, "{counts:?}, round {round}");
        for number in round * KEYS_EACH..(round + 1) * KEYS_EACH {
            let owner = token::shard_of(token::token(&key(number)), *shards);
            let store = &mut stores[usize::from(owner)];
            store.write(Tag(0), &mutation(number, &clock)).unwrap();
            wait(store, |done| matches!(done, Done::Write(_)));
            expected.insert(key(number).to_vec(), number);
        }
        if crash {
            disk = disk.crash(u64::from(round));
        } else {
            stop(stores);
        }
        clock.advance(1_000_000);
    }
    let mut stores = try_open(&disk, &clock, 1).unwrap();
    assert!(rows(&mut stores, KEPT, clock.now_us() / 1_000_000) == expected);
}

#[test]
fn a_directory_opens_with_one_two_three_and_one_shards_after_a_clean_stop() {
    with_shard_counts(&[1, 2, 3, 1], false);
}

#[test]
fn a_directory_opens_with_one_two_three_and_one_shards_after_crashes() {
    with_shard_counts(&[1, 2, 3, 1, 3, 2], true);
}

/// A turn of all stores; each is told what others have made of its sstables.
fn turn(stores: &mut [Store]) {
    let mut all = Vec::new();
    for store in &mut *stores {
        store.turn_end();
        store.poll(&mut all).unwrap();
    }
    for done in all {
        if let Done::Split(shard, split) = done {
            stores[usize::from(shard)].take_over(*split);
        }
    }
}

/// Runs stores until they have nothing to do.
fn settle(stores: &mut [Store], clock: &ManualClock) {
    let is_due = |store: &Store| store.deadline_us().is_some_and(|us| us <= clock.elapsed_us());
    let mut quiet = 0;
    while quiet < 100 {
        turn(stores);
        quiet = if stores.iter().any(is_due) { 0 } else { quiet + 1 };
    }
}

fn files(disk: &SimDisk) -> BTreeSet<String> {
    disk.contents().into_keys().filter(|name| name.starts_with("sst-")).collect()
}

/// Of one shard's making, with rows of all three that are opened then.
fn of_another_number_of_shards() -> (SimDisk, Arc<ManualClock>, BTreeMap<Vec<u8>, u32>) {
    let (disk, clock) = (SimDisk::new(12), Arc::new(ManualClock::at(START_US)));
    let mut stores = try_open(&disk, &clock, 1).unwrap();
    for number in 0..KEYS_EACH {
        stores[0].write(Tag(0), &mutation(number, &clock)).unwrap();
        wait(&mut stores[0], |done| matches!(done, Done::Write(_)));
    }
    stop(stores);
    (disk, clock, (0..KEYS_EACH).map(|number| (key(number).to_vec(), number)).collect())
}

#[test]
fn an_sstable_of_another_number_of_shards_becomes_one_for_each_and_goes() {
    let (disk, clock, expected) = of_another_number_of_shards();
    let before = files(&disk);
    let mut stores = try_open(&disk, &clock, 3).unwrap();
    settle(&mut stores, &clock);
    let after = files(&disk);
    assert_eq!(after.len(), 3);
    assert!(after.is_disjoint(&before), "the old ones are gone");
    let each: Vec<u64> = stores.iter().map(|store| store.metrics().sstables).collect();
    assert_eq!(each, [1, 1, 1]);
    assert!(rows(&mut stores, KEPT, 0) == expected);
    // Each shard compacts its own from now on.
    for store in &mut stores {
        store.compact_tables(&[KEPT]);
    }
    settle(&mut stores, &clock);
    assert!(files(&disk).is_disjoint(&after));
    assert!(rows(&mut stores, KEPT, 0) == expected);
    stop(stores);
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    assert!(rows(&mut stores, KEPT, 0) == expected);
}

/// Whenever the power goes, and whether the others have heard of it or not.
#[test]
fn a_split_that_ends_at_any_moment_loses_nothing() {
    for turns in 0..10_000 {
        let mut is_over = false;
        for hears in [true, false] {
            let (disk, clock, expected) = of_another_number_of_shards();
            let mut stores = try_open(&disk, &clock, 3).unwrap();
            for _ in 0..turns {
                if hears {
                    turn(&mut stores);
                } else {
                    stores[0].turn_end();
                    stores[0].poll(&mut Vec::new()).unwrap();
                }
            }
            assert!(rows(&mut stores, KEPT, 0) == expected, "after {turns} turns");
            is_over |= hears
                && stores.iter().all(|store| store.metrics().sstables == 1)
                && files(&disk).len() == 3;
            drop(stores);
            let disk = disk.crash(turns);
            let mut stores = try_open(&disk, &clock, 2).unwrap();
            assert!(rows(&mut stores, KEPT, 0) == expected, "after {turns} turns");
            settle(&mut stores, &clock);
            assert!(rows(&mut stores, KEPT, 0) == expected, "after {turns} turns");
        }
        if is_over {
            assert!(turns > 5, "it was caught in its midst");
            return;
        }
    }
    panic!("it does not end");
}

#[test]
fn what_recovery_writes_is_of_one_shard_each() {
    let disk = SimDisk::new(6);
    let clock = Arc::new(ManualClock::at(START_US));
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    let all: Vec<u8> = (0..20).flat_map(|number| mutation(number, &clock)).collect();
    stores[0].write_intent(Tag(4), &all).unwrap();
    wait(&mut stores[0], |done| matches!(done, Done::Intent(Tag(4))));
    drop(stores);

    let disk = disk.crash(1);
    let mut stores = try_open(&disk, &clock, 3).unwrap();
    let files = disk.contents().keys().filter(|name| name.starts_with("sst-")).count();
    let each: Vec<u64> = stores.iter().map(|store| store.metrics().sstables).collect();
    assert_eq!((files, each), (3, vec![1, 1, 1]), "of no file there are two shards");
    assert_eq!(rows(&mut stores, KEPT, 0).len(), 20);
}

#[test]
fn an_intent_that_is_durable_happens_on_all_shards_and_one_that_is_done_only_once() {
    let disk = SimDisk::new(9);
    let clock = Arc::new(ManualClock::at(START_US));
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    let all: Vec<u8> = (0..20).flat_map(|number| mutation(number, &clock)).collect();
    stores[0].write_intent(Tag(4), &all).unwrap();
    wait(&mut stores[0], |done| matches!(done, Done::Intent(Tag(4))));
    assert!(rows(&mut stores, KEPT, 0).is_empty(), "an intent alone is not visible");
    drop(stores);

    let disk = disk.crash(1);
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    assert_eq!(rows(&mut stores, KEPT, 0).len(), 20, "recovery does what was intended");
}

#[test]
fn an_intent_for_which_there_is_no_space_is_said_not_to_happen_and_does_not() {
    let disk = SimDisk::new(10);
    let clock = Arc::new(ManualClock::at(START_US));
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    disk.set_fault(Fault::NoSpace(disk.calls()));
    let (mut intended, mut failed) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..1_000_u32 {
        // Segments are tried again after a while; what is staged meanwhile waits for the outcome.
        clock.advance(2_000_000);
        stores[0].turn_end();
        let mut waiting = 0;
        for number in [2 * number, 2 * number + 1] {
            let mutation = mutation(number, &clock);
            let intent = stores[0].write_intent(Tag(number.into()), &mutation);
            waiting += usize::from(intent.is_ok());
        }
        if waiting == 0 || failed.len() > 4 {
            break;
        }
        while waiting > 0 {
            let mut done = Vec::new();
            stores[0].turn_end();
            stores[0].poll(&mut done).unwrap();
            waiting -= done.len();
            for done in done {
                match done {
                    Done::Intent(Tag(tag)) => intended.insert(tag),
                    Done::IntentFailed(Tag(tag), Refused::NoSpace) => failed.insert(tag),
                    other => panic!("{other:?}"),
                };
            }
        }
    }
    assert!(!intended.is_empty() && !failed.is_empty(), "{intended:?} {failed:?}");
    drop(stores);

    let disk = disk.crash(2);
    let mut stores = try_open(&disk, &clock, 2).unwrap();
    let expected = intended.iter().map(|tag| key(u32::try_from(*tag).unwrap()).to_vec());
    let found = rows(&mut stores, KEPT, 0);
    assert!(found.keys().eq(&expected.collect::<BTreeSet<_>>()), "{found:?}");
}
