//! A compaction beside all else that a store does.

use super::{
    Machine, Page, ReadRequest, START_US, TABLE, TableSettings, Tag, TimeSlice, flush_and_close,
    partition,
};
use crate::{
    io::{Clock as _, Random, sim::SimDisk},
    mutation::{Builder, Write, token},
    schema::{SizeTiers, TombstoneRule},
    store::Store,
};

/// A table of so many sstables that they are to be compacted if its settings say so.
fn flushed() -> Machine {
    flushed_on(SimDisk::new(11))
}

fn flushed_on(disk: SimDisk) -> Machine {
    let mut machine = Machine { disk, ..Machine::new() };
    machine.tables.get_mut(&TABLE).unwrap().window_us = None;
    for ck in 0..4 {
        let mut store = machine.open();
        machine.write(&mut store, b"boiler", ck, &[7; 2_000], 0);
        machine.clock.advance(10);
        flush_and_close(store);
    }
    machine
}

/// A store that is about to compact them.
fn due() -> (Machine, Store) {
    due_on(SimDisk::new(11))
}

fn due_on(disk: SimDisk) -> (Machine, Store) {
    let mut machine = flushed_on(disk);
    machine.tables.get_mut(&TABLE).unwrap().tiers = Some(SizeTiers::default());
    let store = machine.open();
    (machine, store)
}

/// Has the store do what it does by itself. It is woken when an operation is over, or when it asked
/// for it, and never else.
fn settle(machine: &Machine, store: &mut Store) {
    for _ in 0..10_000 {
        let is_due = store.deadline_us().is_some_and(|us| us <= machine.clock.elapsed_us());
        if !is_due && machine.disk.pending() == 0 {
            return;
        }
        turn(store);
    }
    panic!("it does not come to rest");
}

fn turn(store: &mut Store) {
    store.poll(&mut Vec::new()).unwrap();
    store.turn_end();
}

fn files(machine: &Machine) -> usize {
    machine.disk.contents().keys().filter(|name| name.starts_with("sst-")).count()
}

#[test]
fn what_is_being_replaced_is_not_compacted_again() {
    let (machine, mut store) = due();
    settle(&machine, &mut store);
    assert_eq!((store.metrics().compactions, store.metrics().sstables), (1, 1));
    assert_eq!(files(&machine), 1, "the files of the inputs went");
    assert_eq!(store.deadline_us(), None, "a store that has nothing to do is not woken");
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 4);
}

#[test]
fn a_stop_in_the_midst_of_a_compaction_ends() {
    for turns in 0.. {
        let (machine, mut store) = due();
        (0..turns).for_each(|_| turn(&mut store));
        let is_over = store.metrics().sstables == 1;
        store.begin_shutdown();
        turn(&mut store);
        settle(&machine, &mut store);
        assert!(store.is_idle(), "after {turns} turns");
        drop(store);
        let mut store = machine.open();
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 4);
        if is_over {
            assert!(turns > 5, "it was caught in its midst");
            return;
        }
    }
}

#[test]
fn a_table_that_is_dropped_while_it_is_compacted_leaves_no_file() {
    for turns in 0.. {
        let (machine, mut store) = due();
        (0..turns).for_each(|_| turn(&mut store));
        let is_over = store.metrics().sstables == 1;
        store.drop_table(TABLE);
        turn(&mut store);
        settle(&machine, &mut store);
        assert_eq!(files(&machine), 0, "after {turns} turns");
        assert!(store.is_idle(), "after {turns} turns");
        if is_over {
            assert!(turns > 5, "it was caught in its midst");
            return;
        }
    }
}

/// A read of the compaction may take longer than it takes to record that the table went. When it
/// comes the compaction is given up, and no other event follows in which its inputs could be let
/// go of.
#[test]
fn a_compaction_that_is_given_up_last_of_all_lets_go_of_its_files() {
    let mut last_of_all = 0;
    for (seed, turns) in (0..80).flat_map(|seed| (1..8).map(move |turns| (seed, turns))) {
        let (machine, mut store) = due_on(SimDisk::new(seed));
        (0..turns).for_each(|_| turn(&mut store));
        store.drop_table(TABLE);
        turn(&mut store);
        store.begin_shutdown();
        turn(&mut store);
        while machine.disk.pending() > 0 {
            let is_last = store.jobs.len() == 1 && store.unwanted.is_empty();
            last_of_all += u32::from(is_last && store.compacting.current.is_some());
            turn(&mut store);
        }
        settle(&machine, &mut store);
        assert!(store.is_idle() && files(&machine) == 0, "seed {seed}, after {turns} turns");
    }
    assert!(last_of_all > 20, "{last_of_all} were given up last of all");
}

#[test]
fn what_is_kept_for_a_next_page_holds_no_file_that_was_compacted() {
    let machine = flushed();
    let mut store = machine.open();
    let first = ReadRequest { rows_max: 1, goes_on: true, ..partition(b"boiler") };
    let page = machine.read(&mut store, &first);
    settle(&machine, &mut store);
    turn(&mut store);
    assert!(store.metrics().suspended_bytes > 0, "it is kept");
    let settings =
        TableSettings { tiers: Some(SizeTiers::default()), ..machine.tables[&TABLE].clone() };
    store.define(TABLE, settings);
    settle(&machine, &mut store);
    turn(&mut store);
    assert_eq!((store.metrics().suspended_bytes, files(&machine)), (0, 1));
    let after = Some(page.position().unwrap().clone());
    let rest = machine.read(&mut store, &ReadRequest { rows_max: 9, after, ..first });
    assert_eq!((page.len(), rest.len()), (1, 3));
}

/// What it has looked at are sstables that do not count any more: with them went deletions, which
/// its next page must not apply to what is written meanwhile.
#[test]
fn a_read_that_is_under_way_while_its_sstables_are_compacted_is_not_kept() {
    let mut late = 0;
    for (seed, turns) in (0..20).flat_map(|seed| (10..20).map(move |turns| (seed, turns))) {
        let (machine, mut store) = due_on(SimDisk::new(seed));
        (0..turns).for_each(|_| turn(&mut store));
        let request = ReadRequest { rows_max: 1, goes_on: true, ..partition(b"boiler") };
        let mut page = Page::default();
        let before = store.metrics().compactions;
        let is_waiting =
            !store.read(Tag(0), &request, &mut page, &mut TimeSlice::endless()).unwrap();
        while is_waiting && !store.reads.is_empty() {
            late += u32::from(store.metrics().compactions > before);
            turn(&mut store);
        }
        settle(&machine, &mut store);
        store.begin_shutdown();
        settle(&machine, &mut store);
        assert!(store.is_idle() && files(&machine) == 1, "seed {seed}, after {turns} turns");
    }
    assert!(late >= 5, "{late} turns of reads that were under way when the compaction was over");
}

#[test]
fn sstables_of_rows_that_are_too_large_for_the_memory_are_left_alone() {
    for is_alike in [true, false] {
        let mut machine = Machine::new();
        machine.config.log_segment_bytes = 4 << 20;
        machine.tables.get_mut(&TABLE).unwrap().window_us = None;
        let mut random = Random(5);
        for ck in 0..5 {
            let mut store = machine.open();
            let byte = |_| if is_alike { 7 } else { u8::try_from(random.below(256)).unwrap() };
            let value: Vec<u8> = (0..if ck == 0 { 10 } else { 600_000 }).map(byte).collect();
            machine.write(&mut store, b"boiler", ck, &value, 0);
            flush_and_close(store);
        }
        machine.tables.get_mut(&TABLE).unwrap().tiers =
            Some(SizeTiers { min_threshold: 2, ..SizeTiers::default() });
        let mut store = machine.open();
        for _ in 0..10_000 {
            turn(&mut store);
            let taken = store.metrics().compaction_memory;
            assert!(taken < 2 << 20, "{taken} bytes are taken");
        }
        settle(&machine, &mut store);
        assert!(store.deadline_us().is_none(), "it is not tried again and again");
        let metrics = store.metrics();
        assert_eq!((metrics.compactions, metrics.compactions_failed, metrics.sstables), (0, 0, 5));
        assert!(metrics.compactions_no_memory > 0, "it is told");
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 5);
    }
}

#[test]
fn files_of_any_size_are_compacted_in_little_memory() {
    let mut machine = Machine::new();
    machine.tables.get_mut(&TABLE).unwrap().window_us = None;
    let mut random = Random(5);
    for file in 0..4 {
        let mut store = machine.open();
        for ck in 0..300 {
            let value: Vec<u8> = (0..250).flat_map(|_| random.next_u64().to_le_bytes()).collect();
            machine.write(&mut store, b"boiler", file * 300 + ck, &value, 0);
        }
        flush_and_close(store);
    }
    machine.tables.get_mut(&TABLE).unwrap().tiers = Some(SizeTiers::default());
    let mut store = machine.open();
    settle(&machine, &mut store);
    assert_eq!((store.metrics().compactions, store.metrics().sstables), (1, 1));
    assert!(store.metrics().sstable_bytes > 2 << 20);
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 1_200);
}

/// A table with an sstable of which a third is deleted, and one of an older row if that is wanted.
fn a_third_deleted(rule: TombstoneRule, has_older: bool) -> Machine {
    let mut machine = Machine::new();
    let settings = machine.tables.get_mut(&TABLE).unwrap();
    (settings.window_us, settings.gc_grace_s) = (None, 100);
    (settings.tiers, settings.tombstones) = (Some(SizeTiers::default()), Some(rule));
    if has_older {
        let mut store = machine.open();
        machine.write(&mut store, b"older", 0, b"x", 0);
        machine.clock.advance(1_000_000);
        flush_and_close(store);
    }
    let mut store = machine.open();
    for ck in 0..10_u32 {
        machine.write(&mut store, b"boiler", ck, b"x", 0);
        let now_us = machine.clock.now_us();
        let write = Write { timestamp: now_us + 1, ttl_s: 0, now_s: now_us / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        if ck % 2 == 0 {
            builder.delete_row(&ck.to_be_bytes(), &write);
            builder.finish().unwrap();
            machine.put(&mut store, &bytes);
        }
    }
    flush_and_close(store);
    machine
}

const RULE: TombstoneRule = TombstoneRule { threshold: 0.3, interval_s: 1_000, unchecked: false };

/// When a file with tombstones of the start is due, in seconds after it: they count from the end of
/// their bin, and then the grace is over.
const GRACE_OVER_S: i64 = 63 + 100;

#[test]
fn an_sstable_with_many_tombstones_is_written_anew_when_it_is_time() {
    for (interval_s, due_s) in [(1_000, 1_000), (10, GRACE_OVER_S)] {
        let machine = a_third_deleted(TombstoneRule { interval_s, ..RULE }, false);
        let mut store = machine.open();
        settle(&machine, &mut store);
        let told = store.report(&[TABLE]).remove(0);
        assert_eq!((told.tombstones, told.counted), (0, 15), "they count from the end of a bin");
        let wakes_us = store.deadline_us().expect("it will be due");
        assert_eq!(wakes_us - machine.clock.elapsed_us(), due_s.cast_unsigned() * 1_000_000);
        machine.clock.advance((due_s - 1) * 1_000_000);
        turn(&mut store);
        settle(&machine, &mut store);
        assert_eq!(store.metrics().compactions, 0, "not yet");
        assert_eq!(store.report(&[TABLE])[0].tombstones, 5);
        machine.clock.advance(1_000_000);
        settle(&machine, &mut store);
        let metrics = store.metrics();
        assert_eq!((metrics.compactions, metrics.compactions_forgetting), (1, 1));
        let told = store.report(&[TABLE]).remove(0);
        assert_eq!((told.tombstones, told.counted), (0, 10));
        assert_eq!(store.deadline_us(), None, "nothing is left for which to wake up");
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 5);
    }
}

#[test]
fn an_sstable_that_may_hide_something_elsewhere_is_not_written_anew() {
    for unchecked in [false, true] {
        let machine = a_third_deleted(TombstoneRule { unchecked, ..RULE }, true);
        let mut store = machine.open();
        for times in 1..=3 {
            machine.clock.advance(1_000_000_000);
            settle(&machine, &mut store);
            let metrics = store.metrics();
            let compactions = if unchecked { times } else { 0 };
            assert_eq!((metrics.compactions, metrics.compactions_forgetting), (compactions, 0));
            assert_eq!(store.report(&[TABLE])[0].tombstones, 5, "they stay");
        }
        // With the other one they become one file, in which nothing is hidden elsewhere.
        store.compact_tables(&[TABLE]);
        settle(&machine, &mut store);
        assert_eq!(store.report(&[TABLE])[0].tombstones, 0);
    }
}

#[test]
fn a_table_whose_rule_becomes_stricter_is_looked_at() {
    let machine = a_third_deleted(TombstoneRule { threshold: 0.34, ..RULE }, false);
    let mut store = machine.open();
    machine.clock.advance(2_000_000_000);
    settle(&machine, &mut store);
    assert_eq!((store.metrics().compactions, store.deadline_us()), (0, None));
    let settings = machine.tables[&TABLE].clone();
    store.define(TABLE, TableSettings { tombstones: Some(RULE), ..settings });
    settle(&machine, &mut store);
    assert_eq!(store.metrics().compactions, 1);
}

/// As after a change from size tiers to windows: one sstable becomes many, which are filled at the
/// same time, each with its part of the memory.
#[test]
fn an_sstable_of_many_windows_is_split_however_many_they_are() {
    for windows in [2_u32, 8, 20] {
        let mut machine = Machine::new();
        machine.tables.get_mut(&TABLE).unwrap().window_us = None;
        let mut random = Random(3);
        let mut store = machine.open();
        for ck in 0..400 {
            let value: Vec<u8> = (0..250).flat_map(|_| random.next_u64().to_le_bytes()).collect();
            let now_us = START_US - i64::from(ck % windows) * 3_600_000_000;
            let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
            let mut bytes = Vec::new();
            let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
            builder.row(&ck.to_be_bytes(), &write, true).cell(1, &value);
            builder.finish().unwrap();
            machine.put(&mut store, &bytes);
        }
        flush_and_close(store);
        let settings = machine.tables.get_mut(&TABLE).unwrap();
        settings.window_us = Some(3_600_000_000);
        settings.tiers = Some(SizeTiers::default());
        let mut store = machine.open();
        settle(&machine, &mut store);
        assert_eq!(store.tables[&TABLE].sstables.len(), windows as usize);
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 400);
    }
}
