//! A compaction beside all else that a store does.

use super::{Machine, ReadRequest, TABLE, TableSettings, flush_and_close, partition};
use crate::{
    io::{Clock as _, Random, sim::SimDisk},
    schema::SizeTiers,
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
    for (seed, turns) in (0..40).flat_map(|seed| (1..8).map(move |turns| (seed, turns))) {
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
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 5);
    }
}
