//! Flushes and compactions that the operator asks for.

use super::{Machine, TABLE, partition, wait};
use crate::{
    io::{Clock as _, Random},
    mutation::{Builder, TableNumber, Write, token},
    store::{Done, Store, Tag},
};

use std::collections::BTreeSet;

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

/// Asks for a compaction and waits until nothing is left of it. Gives how many turns that takes.
pub(super) fn compact(machine: &Machine, store: &mut Store) -> u32 {
    store.compact_tables(&[TABLE]);
    for turns in 0..100_000 {
        store.poll(&mut Vec::new()).unwrap();
        if store.compaction_left(&[TABLE]).sstables == 0 {
            // The files of the inputs go, and it has nothing to do any more.
            (0..20).for_each(|_| turn(store));
            let is_due = |us| us <= machine.clock.elapsed_us();
            assert!(!store.deadline_us().is_some_and(is_due), "it comes to rest");
            return turns;
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

/// A key as long as a block is alone in the first block of its partition, before its rows.
#[test]
fn a_compaction_goes_on_behind_a_block_that_has_a_key_alone() {
    for block_bytes in [1, 100, 1_000] {
        let mut machine = Machine::new();
        machine.config.block_bytes = block_bytes;
        let keys = [b'a', b'b', b'c'].map(|byte| vec![byte; block_bytes]);
        let mut store = machine.open();
        for file in 0..2 {
            for key in keys.iter().map(Vec::as_slice).chain([b"boiler".as_slice()]) {
                for ck in 0..3 {
                    machine.write(&mut store, key, 2 * ck + file, b"v", 0);
                }
            }
            flush(&mut store);
        }
        compact(&machine, &mut store);
        assert_eq!(files(&machine), 1, "blocks of {block_bytes} bytes");
        for key in keys.iter().map(Vec::as_slice).chain([b"boiler".as_slice()]) {
            let rows = machine.pages(&mut store, partition(key));
            assert_eq!(rows.len(), 6, "blocks of {block_bytes} bytes");
        }
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
    assert_eq!(store.metrics().compactions, 7, "two for each, and one of all three");
    assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
    assert_eq!(files(&machine), 3, "no other file is left");

    // What is one already is written once more.
    compact(&machine, &mut store);
    assert_eq!((store.metrics().compactions, store.metrics().sstables), (8, 3));
    assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
}

/// Deletes rows of the boiler between two clustering keys, now.
fn delete(machine: &mut Machine, store: &mut Store, from: u32, to: u32) {
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    builder.delete_range(&from.to_be_bytes(), &to.to_be_bytes(), &write);
    builder.finish().unwrap();
    machine.put(store, &bytes);
}

/// Whether a value is in a file of the table, or in one that was forgotten.
fn is_in_a_file(machine: &Machine, value: &[u8]) -> bool {
    let files = machine.disk.contents();
    let mut sstables = files.iter().filter(|(name, _)| name.starts_with("sst-"));
    sstables.any(|(_, bytes)| bytes.windows(value.len()).any(|part| part == value))
}

/// Bytes that do not become fewer when they are compressed.
fn unique(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| u8::try_from(random.below(256)).unwrap()).collect()
}

/// Ten windows, of which four are merged at once, and of each a row that is deleted in the last.
#[test]
fn what_is_deleted_in_a_later_window_is_in_no_file_when_a_compaction_is_over() {
    for windows in [2_u32, 4, 10] {
        let mut machine = Machine::new();
        machine.tables.get_mut(&TABLE).unwrap().gc_grace_s = 1_000_000;
        let (mut store, mut random) = (machine.open(), Random(7));
        let mut values = Vec::new();
        for window in 0..windows {
            for row in [0, 1_000] {
                values.push(unique(&mut random, 40));
                let value = &values[values.len() - 1];
                machine.write(&mut store, b"boiler", row + window, value, 0);
            }
            machine.clock.advance(10);
            if window + 1 == windows {
                delete(&mut machine, &mut store, 1_000, 2_000);
            }
            flush(&mut store);
            machine.clock.advance(HOUR_US);
        }
        assert!(values.iter().all(|value| {
            // The last one was under its deletion in memory.
            is_in_a_file(&machine, value) || *value == values[values.len() - 1]
        }));
        let before = machine.pages(&mut store, partition(b"boiler"));
        compact(&machine, &mut store);
        for (number, value) in values.iter().enumerate() {
            let is_deleted = number % 2 == 1;
            assert_eq!(is_in_a_file(&machine, value), !is_deleted, "{number} of {windows}");
        }
        assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
        assert_eq!(before.len(), windows as usize);
        let own = &store.tables[&TABLE].sstables;
        let all: BTreeSet<i64> = own.iter().map(|one| one.summary.window).collect();
        assert_eq!((all.len(), own.len()), (windows as usize, windows as usize));
        assert_eq!(store.compaction_left(&[TABLE]).apart, 0);
    }
}

/// Blocks of one row that are too large for one of each window at once, then for two.
#[test]
fn windows_with_large_rows_are_merged_as_many_as_there_is_memory_for() {
    for (bytes, is_apart) in [(60_000, false), (300_000, true)] {
        let mut machine = Machine::new();
        machine.config.log_segment_bytes = 4 << 20;
        machine.config.cache_bytes_max = 2 << 20;
        let (mut store, mut random) = (machine.open(), Random(3));
        for window in 0..8 {
            for row in [0, 1_000] {
                let value = unique(&mut random, bytes);
                machine.write(&mut store, b"boiler", row + window, &value, 0);
            }
            flush(&mut store);
            machine.clock.advance(HOUR_US);
        }
        delete(&mut machine, &mut store, 1_000, 2_000);
        flush(&mut store);
        let before = machine.pages(&mut store, partition(b"boiler"));
        compact(&machine, &mut store);
        let left = store.compaction_left(&[TABLE]);
        assert_eq!((left.apart == 1, left.left_alone), (is_apart, 0), "{bytes}");
        let rows = flushed_rows(&store);
        assert_eq!(rows, if is_apart { 16 } else { 8 }, "{bytes}");
        assert_eq!(machine.pages(&mut store, partition(b"boiler")), before);
    }
}

/// Until then somebody who had a value deleted would find it in them.
#[test]
fn a_compaction_is_over_when_the_files_that_it_replaced_are_gone() {
    for is_pinned in [false, true] {
        let mut machine = Machine::new();
        let mut store = machine.open();
        for ck in 0..2 {
            machine.write(&mut store, b"boiler", ck, b"v", 0);
            flush(&mut store);
        }
        let mut pinned = is_pinned.then(|| store.pin(&[TABLE]));
        let mut replaced: Vec<_> = machine.disk.contents().into_keys().collect();
        replaced.retain(|name| name.starts_with("sst-"));
        assert_eq!(replaced.len(), 2);
        store.compact_tables(&[TABLE]);
        let mut most_leaving = 0;
        for turns in 0..10_000 {
            store.poll(&mut Vec::new()).unwrap();
            let left = store.compaction_left(&[TABLE]);
            if left.is_over() {
                break;
            }
            most_leaving = most_leaving.max(left.leaving);
            if turns == 1_000 {
                assert_eq!((left.sstables, left.leaving), (0, 2), "they are being read");
                pinned.take().expect("nobody reads them");
            }
            store.turn_end();
        }
        assert!(store.compaction_left(&[TABLE]).is_over(), "it does not end");
        assert_eq!(most_leaving, 2);
        assert!(pinned.is_none(), "they were still being read");
        let contents = machine.disk.contents();
        assert!(!replaced.iter().any(|name| contents.contains_key(name)));
    }
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
