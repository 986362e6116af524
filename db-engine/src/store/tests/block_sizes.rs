//! How large the blocks of sstables are.

use super::{Machine, TABLE, on_demand::compact};
use crate::{
    io::Clock as _,
    mutation::{Builder, TableNumber, Write, token},
    store::Store,
};

const KIB: usize = 1 << 10;
const OTHER: TableNumber = TableNumber(TABLE.0 + 1);

/// Writes half a megabyte of rows with keys of their own, and flushes them.
fn fill(machine: &mut Machine, store: &mut Store, table: TableNumber, row_bytes: usize) {
    for row in 0..(500 * KIB / row_bytes) {
        let now_us = machine.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let key = format!("{} {row}", machine.tags);
        let mut bytes = Vec::new();
        let mut builder =
            Builder::new(&mut bytes, table, token::token(key.as_bytes()), key.as_bytes());
        builder.row(&[1], &write, true).cell(1, &vec![7; row_bytes]);
        builder.finish().unwrap();
        machine.put(store, &bytes);
    }
    store.flush_tables(&[table]);
    while !store.has_flushed(&[table]) {
        store.poll(&mut Vec::new()).unwrap();
        store.turn_end();
    }
}

/// Bytes of a block on average, before compression, and of all indexes in memory.
fn sizes(store: &Store, row_bytes: usize) -> (usize, usize) {
    let sstables = &store.tables[&TABLE].sstables;
    let rows: u64 = sstables.iter().map(|one| one.summary.rows).sum();
    let blocks: usize = sstables.iter().map(|one| one.index.len()).sum();
    (usize::try_from(rows).unwrap() * row_bytes / blocks, store.index_bytes)
}

/// What two flushes and a compaction of them write beside another table, if so much memory is for
/// blocks and indexes.
fn written(cache_bytes_max: usize, row_bytes: usize) -> [(usize, usize); 2] {
    let mut machine = Machine::new();
    machine.config.cache_bytes_max = cache_bytes_max;
    machine.tables.insert(OTHER, machine.tables[&TABLE].clone());
    let mut store = machine.open();
    fill(&mut machine, &mut store, OTHER, KIB);
    fill(&mut machine, &mut store, TABLE, row_bytes);
    fill(&mut machine, &mut store, TABLE, row_bytes);
    let flushed = sizes(&store, row_bytes);
    compact(&machine, &mut store);
    assert_eq!(store.tables[&TABLE].sstables.len(), 1);
    [flushed, sizes(&store, row_bytes)]
}

#[test]
fn blocks_of_large_rows_are_small_as_long_as_their_index_leaves_room_for_blocks() {
    let small = 7 * KIB..10 * KIB;
    let large = 28 * KIB..36 * KIB;
    for (bytes, _) in written(1 << 20, KIB) {
        assert!(small.contains(&bytes), "{bytes}");
    }
    let without = written(0, KIB);
    for (bytes, _) in without {
        assert!(large.contains(&bytes), "{bytes}");
    }
    // The other table's index leaves room for some, which a compaction has again.
    let cache_bytes_max = 14 * KIB;
    for ((bytes, index_bytes), (_, large_index_bytes)) in
        written(cache_bytes_max, KIB).into_iter().zip(without)
    {
        assert!((small.end..large.start).contains(&bytes), "{bytes}");
        assert!(index_bytes <= cache_bytes_max / 2 + large_index_bytes / 2, "{index_bytes}");
    }
    let blocks = |cache_bytes_max| written(cache_bytes_max, 100).map(|(bytes, _)| bytes);
    assert_eq!(blocks(1 << 20), blocks(0), "rows of measurements");
}
