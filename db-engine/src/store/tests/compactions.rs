//! A compaction beside all else that a store does.

use super::{Machine, TABLE, flush_and_close, partition};
use crate::{io::Clock as _, schema::SizeTiers, store::Store};

/// Sstables of a table, and a store that is about to compact them.
fn due() -> (Machine, Store) {
    let mut machine = Machine::new();
    for ck in 0..4 {
        let mut store = machine.open();
        machine.write(&mut store, b"boiler", ck, &[7; 2_000], 0);
        machine.clock.advance(10);
        flush_and_close(store);
    }
    let settings = machine.tables.get_mut(&TABLE).unwrap();
    (settings.window_us, settings.tiers) = (None, Some(SizeTiers::default()));
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
