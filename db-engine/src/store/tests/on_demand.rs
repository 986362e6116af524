//! Flushes and compactions that the operator asks for.

use super::{Machine, TABLE, partition, wait};
use crate::{
    io::Clock as _,
    mutation::TableNumber,
    store::{Done, Store, Tag},
};

const HOUR_US: i64 = 3_600_000_000;

fn turn(store: &mut Store) {
    store.poll(&mut Vec::new()).unwrap();
    store.turn_end();
}

/// Asks for a flush and waits as the shard does: it looks when the store has been heard.
fn flush(store: &mut Store) {
    store.flush_tables(&[TABLE]);
    for _ in 0..10_000 {
        store.poll(&mut Vec::new()).unwrap();
        if store.has_flushed(&[TABLE]) {
            return;
        }
        store.turn_end();
    }
    panic!("it is not flushed");
}

/// Asks for a compaction and waits until nothing is left of it.
fn compact(machine: &Machine, store: &mut Store) {
    store.compact_tables(&[TABLE]);
    for _ in 0..100_000 {
        store.poll(&mut Vec::new()).unwrap();
        if store.compaction_left(&[TABLE]).sstables == 0 {
            // The files of the inputs go, and it has nothing to do any more.
            (0..20).for_each(|_| turn(store));
            let is_due = |us| us <= machine.clock.elapsed_us();
            assert!(!store.deadline_us().is_some_and(is_due), "it comes to rest");
            return;
        }
        store.turn_end();
    }
    panic!("it does not end: {:?}", store.compaction_left(&[TABLE]));
}

fn files(machine: &Machine) -> usize {
    machine.disk.contents().keys().filter(|name| name.starts_with("sst-")).count()
}

fn flushed_rows(store: &Store) -> u64 {
    store.tables[&TABLE].sstables.iter().map(|one| one.summary.rows).sum()
}

/// Whatever the store is doing when it is asked, and whatever is written meanwhile.
#[test]
fn what_was_written_before_a_flush_was_asked_for_is_in_sstables_when_it_is_over() {
    for turns in 0..40 {
        let mut machine = Machine::new();
        let mut store = machine.open();
        flush(&mut store);
        assert_eq!(store.metrics().flushes, 0, "there is nothing to flush");
        machine.write(&mut store, b"boiler", 1, b"v", 0);
        store.flush_tables(&[TABLE]);
        (0..turns).for_each(|_| turn(&mut store));
        // The store is asked for a write and has another before the first flush is over.
        let bytes = machine.mutation(b"boiler", 2, b"v", 0);
        store.write(Tag(99), &bytes).unwrap();
        wait(&mut store, |done| matches!(done, Done::Write(Tag(99))));
        flush(&mut store);
        assert_eq!(flushed_rows(&store), 2, "after {turns} turns");
        assert_eq!(store.report(&[TABLE])[0].memtable_rows, 0);
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 2);
    }
}

#[test]
fn a_table_that_is_not_asked_for_is_not_flushed() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 1, b"v", 0);
    store.flush_tables(&[TableNumber(99)]);
    assert!(store.has_flushed(&[TableNumber(99)]), "there is no such table");
    (0..50).for_each(|_| turn(&mut store));
    assert_eq!((store.metrics().flushes, flushed_rows(&store)), (0, 0));
}

/// Six sstables of each of three windows, of which a compaction takes four at most: two for each
/// window.
#[test]
fn the_sstables_of_each_window_become_one() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    for window in 0..3 {
        for ck in 0..6 {
            machine.write(&mut store, b"boiler", window * 10 + ck, &[7; 500], 0);
            machine.clock.advance(10);
            flush(&mut store);
        }
        machine.clock.advance(HOUR_US);
    }
    assert_eq!(store.metrics().sstables, 18);
    let before = machine.pages(&mut store, partition(b"boiler"));
    compact(&machine, &mut store);
    let windows: Vec<i64> =
        store.tables[&TABLE].sstables.iter().map(|one| one.summary.window).collect();
    assert_eq!(windows.len(), 3, "{windows:?}");
    assert!(windows[0] > windows[1] && windows[1] > windows[2], "the newest first");
    assert_eq!(store.metrics().compactions, 6);
    assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
    assert_eq!(files(&machine), 3, "no other file is left");

    // What is one already is written once more, and once alone.
    compact(&machine, &mut store);
    assert_eq!((store.metrics().compactions, store.metrics().sstables), (9, 3));
    assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
}

/// A snapshot links the files meanwhile.
#[test]
fn the_file_of_what_is_pinned_stays_until_it_is_let_go_whatever_becomes_of_the_table() {
    for drops in [false, true] {
        let mut machine = Machine::new();
        let mut store = machine.open();
        for ck in 0..2 {
            machine.write(&mut store, b"boiler", ck, b"v", 0);
            flush(&mut store);
        }
        let pinned = store.pin(&[TABLE]);
        let names: Vec<_> = pinned.iter().map(|one| one.summary().id.file_name()).collect();
        compact(&machine, &mut store);
        if drops {
            store.drop_table(TABLE);
            (0..20).for_each(|_| turn(&mut store));
        }
        let contents = machine.disk.contents();
        assert!(names.len() == 2 && names.iter().all(|name| contents.contains_key(name)));
        drop(pinned);
        (0..20).for_each(|_| turn(&mut store));
        assert_eq!(files(&machine), usize::from(!drops));
    }
}

#[test]
fn what_has_expired_goes_although_its_sstable_is_alone() {
    let mut machine = Machine::new();
    machine.config.expiry_check_us = u64::MAX;
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 1, b"v", 1);
    machine.write(&mut store, b"boiler", 2, b"v", 0);
    flush(&mut store);
    machine.clock.advance(2 * HOUR_US);
    assert_eq!(flushed_rows(&store), 2);
    compact(&machine, &mut store);
    assert_eq!((flushed_rows(&store), store.metrics().compactions_forgetting), (1, 1));
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 1);
}

#[test]
fn a_table_that_is_dropped_ends_its_compaction() {
    for turns in [0, 3, 10] {
        let mut machine = Machine::new();
        let mut store = machine.open();
        machine.write(&mut store, b"boiler", 1, b"v", 0);
        flush(&mut store);
        store.compact_tables(&[TABLE]);
        (0..turns).for_each(|_| turn(&mut store));
        store.drop_table(TABLE);
        assert_eq!(store.compaction_left(&[TABLE]).sstables, 0);
        (0..50).for_each(|_| turn(&mut store));
        assert_eq!(store.metrics().sstables, 0);
        assert!(!machine.disk.contents().keys().any(|name| name.starts_with("sst-")));
    }
}
