//! Which blocks stay in memory.

use super::*;

#[test]
fn a_read_that_bypasses_the_cache_finds_the_same_and_leaves_nothing_in_it() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    for ck in 0..100 {
        machine.write(&mut store, b"boiler", ck, &[7; 200], 0);
    }
    flush_and_close(store);
    let mut store = machine.open();
    let bypassing = ReadRequest { bypass_cache: true, ..everything() };
    let found = machine.pages(&mut store, bypassing.clone());
    assert_eq!(found.len(), 100);
    let counted = |store: &Store| {
        let metrics = store.metrics();
        (metrics.reads_from_disk, metrics.scans_filling_cache)
    };
    assert_eq!((store.metrics().cache_bytes, counted(&store)), (0, (1, 0)));
    assert_eq!(machine.pages(&mut store, everything()), found);
    assert!(store.metrics().cache_bytes > 0);
    assert_eq!(counted(&store), (2, 1));
    assert_eq!(machine.pages(&mut store, everything()), found);
    assert_eq!(counted(&store), (2, 1), "what is there already fills nothing");
    // What is there already is used.
    let misses = store.metrics().cache_misses;
    assert_eq!(machine.pages(&mut store, bypassing), found);
    assert_eq!(store.metrics().cache_misses, misses);
}

#[test]
fn a_scan_leaves_in_memory_what_other_reads_need() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    for pump in 0..200_u32 {
        for ck in 0..40 {
            machine.write(&mut store, &pump.to_be_bytes(), ck, &[7; 400], 0);
        }
    }
    flush_and_close(store);
    let mut store = machine.open();
    let needed = partition(&7_u32.to_be_bytes());
    assert_eq!(machine.pages(&mut store, needed.clone()).len(), 40);
    assert_eq!(machine.pages(&mut store, everything()).len(), 8_000);
    let before = store.metrics().cache_misses;
    assert!(before > 50, "the scan is of more than there is memory for: {before} blocks");
    assert_eq!(machine.pages(&mut store, needed).len(), 40);
    assert_eq!(store.metrics().cache_misses, before);
    assert!(store.metrics().cache_bytes <= machine.config.cache_bytes_max as u64);
}
