//! Files of deleted ranges, and reads of very many of them.

use super::*;
use crate::budget::{Budget, Share};

/// Deletes rows with these numbers, from the first to before the second.
fn delete_range(machine: &mut Machine, store: &mut Store, from: u32, to: u32) {
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    builder.delete_range(&from.to_be_bytes(), &to.to_be_bytes(), &write);
    builder.finish().unwrap();
    machine.put(store, &bytes);
}

#[test]
fn a_file_of_deleted_ranges_stays_as_long_as_it_hides_something() {
    for ttl_s in [0, 5_000] {
        let mut machine = Machine::new();
        let mut store = machine.open();
        for ck in 0..10 {
            machine.write(&mut store, b"boiler", ck, b"value", ttl_s);
        }
        flush_and_close(store);
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        delete_range(&mut machine, &mut store, 3, 8);
        flush_and_close(store);
        let left: Vec<u32> = if ttl_s == 0 { vec![0, 1, 2, 8, 9] } else { Vec::new() };
        let files = if ttl_s == 0 { 2 } else { 0 };
        let mut store = machine.open();
        assert_eq!(store.tables[&TABLE].sstables.len(), 2, "it hides rows that are there");
        machine.clock.advance(10_000_000_000);
        for _ in 0..2 {
            for _ in 0..100 {
                store.turn_end();
                store.poll(&mut Vec::new()).unwrap();
            }
            let rows = machine.pages(&mut store, partition(b"boiler"));
            assert_eq!(rows.into_iter().map(|row| row.1).collect::<Vec<_>>(), left);
            assert_eq!(store.tables[&TABLE].sstables.len(), files, "{ttl_s}");
            flush_and_close(store);
            store = machine.open();
        }
    }
}

/// Of very many ranges each is a step of its own, and a read of one row does not take any.
#[test]
fn reads_are_cut_by_time_among_deleted_ranges() {
    const RANGES: u32 = 5_000;
    let mut machine = Machine::new();
    machine.config.block_bytes = 1_000;
    machine.config.read_us = 0;
    machine
        .tables
        .insert(TABLE, TableSettings { gc_grace_s: 1_000_000, ..TableSettings::default() });
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 7, b"old", 0);
    machine.write(&mut store, b"boiler", 2 * RANGES + 2, b"old", 0);
    machine.clock.advance(1);
    for number in 0..RANGES {
        delete_range(&mut machine, &mut store, 2 * number, 2 * number + 1);
    }
    for is_in_memory in [true, false] {
        for (reverse, from) in [(false, 0), (true, 0), (false, 2 * RANGES)] {
            let from = Bound::Included(u32::to_be_bytes(from).to_vec());
            let request = ReadRequest { from: from.clone(), reverse, ..partition(b"boiler") };
            let request = ReadRequest { now_s: START_US / 1_000_000, ..request };
            let (mut page, mut turns) = (Page::default(), 0);
            let budget = Arc::new(Budget::default());
            store.charge_reads_to(&budget);
            let mut time = TimeSlice::new(&*machine.clock, 0);
            let mut is_read = store.read(Tag(0), &request, &mut page, &mut time).unwrap();
            while !is_read {
                turns += 1;
                let held = budget.taken(Share::Answers);
                assert!(held < 20_000, "those that it has passed are forgotten: {held} bytes");
                let mut done = Vec::new();
                store.turn_end();
                store.poll(&mut done).unwrap();
                for done in done {
                    let Done::Read(_, found) = done else { panic!("{done:?}") };
                    (page, is_read) = (*found, true);
                }
            }
            let is_short = is_in_memory || from != Bound::Included(vec![0; 4]);
            assert_eq!(page.len(), if from == Bound::Included(vec![0; 4]) { 2 } else { 1 });
            assert_eq!(turns < 20, is_short, "{turns} turns");
            assert!(is_short || turns >= RANGES, "{turns} turns");
            assert_eq!(page.dead(), 0, "ranges are no rows");
        }
        flush_and_close(store);
        store = machine.open();
    }
}
