//! What a store does not take, and when it takes it again.

use super::{
    super::{Done, Refused, Tag},
    Machine, partition, wait,
};
use crate::io::sim::Fault;

#[test]
fn rows_that_memory_does_not_hold_are_refused_until_others_are_flushed() {
    let mut machine = Machine::new();
    machine.config.memtable_bytes_max = 1 << 20;
    machine.config.log_segment_bytes = 16 << 20;
    let mut store = machine.open();
    // Nothing can be flushed, and the log has room enough.
    machine.disk.set_fault(Fault::NoSpace(machine.disk.calls()));
    let value = vec![7; 10_000];
    let mut rows = 0;
    let refused = loop {
        let bytes = machine.mutation(b"key", rows, &value, 0);
        machine.tags += 1;
        let tag = Tag(machine.tags);
        match store.write(tag, &bytes) {
            Ok(()) => wait(&mut store, |done| matches!(done, Done::Write(other) if *other == tag)),
            Err(refused) => break refused,
        };
        rows += 1;
        let held = store.metrics().memtable_memory;
        assert!(held <= 1 << 20, "{held} bytes with {rows} rows");
    };
    assert_eq!(refused, Refused::Overloaded);
    assert!((80..105).contains(&rows), "{rows} rows were taken");
    machine.disk.set_fault(Fault::None);
    machine.clock.advance(60_000_000);
    while store.metrics().flushes == 0 {
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
    }
    machine.write(&mut store, b"key", rows, &value, 0);
    assert_eq!(machine.pages(&mut store, partition(b"key")).len(), rows as usize + 1);
}

#[test]
fn a_large_write_that_has_no_room_begins_a_flush() {
    let mut machine = Machine::new();
    machine.config.memtable_bytes_max = 1 << 20;
    machine.config.log_segment_bytes = 16 << 20;
    let mut store = machine.open();
    // So slowly that memory would do for hours.
    for row in 0..75 {
        machine.clock.advance(60_000_000);
        machine.write(&mut store, b"key", row, &[7; 10_000], 0);
    }
    assert_eq!(store.metrics().flushes, 0);
    let large = machine.mutation(b"key", 100, &vec![7; 400_000], 0);
    assert_eq!(store.write(Tag(1_000), &large), Err(Refused::Overloaded));
    let turn = |store: &mut super::super::Store| {
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
    };
    (0..1_000).for_each(|_| turn(&mut store));
    assert_eq!(store.metrics().flushes, 1);
    store.write(Tag(1_001), &large).unwrap();
    (0..1_000).for_each(|_| turn(&mut store));
    // What has no room for other reasons begins none.
    machine.config.memtable_bytes_max = 64 << 10;
    drop(store);
    let mut store = machine.open();
    machine.write(&mut store, b"key", 200, &[7; 1_000], 0);
    assert_eq!(store.write(Tag(1_002), &large), Err(Refused::Overloaded));
    (0..1_000).for_each(|_| turn(&mut store));
    assert_eq!(store.metrics().flushes, 0);
}
