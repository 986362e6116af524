//! What opening reads of sstables.

use super::*;

/// One with a small index, and one whose index is longer than what is read of an end at once.
fn with_two_sstables(machine: &mut Machine) {
    for (block_bytes, rows) in [(32 << 10, 3), (1, 3_000)] {
        machine.config.block_bytes = block_bytes;
        let mut store = machine.open();
        for first in (0..rows).step_by(1_000) {
            let mut bytes = Vec::new();
            for ck in first..rows.min(first + 1_000) {
                bytes.extend(machine.mutation(b"boiler", ck, b"value", 0));
            }
            machine.put(&mut store, &bytes);
        }
        machine.clock.advance(1_000_000);
        flush_and_close(store);
    }
}

#[test]
fn opening_reads_the_end_of_each_sstable_once() {
    let mut machine = Machine::new();
    machine.config.memtable_bytes_max = 16 << 20;
    let empty = {
        machine.open();
        let before = machine.disk.read_rounds();
        machine.open();
        machine.disk.read_rounds() - before
    };
    with_two_sstables(&mut machine);
    let before = machine.disk.read_rounds();
    let mut store = machine.open();
    let spent = machine.disk.read_rounds() - before - empty;
    assert_eq!(spent, 3, "of one sstable the end, of the other one the rest of its index, too");
    assert!(store.metrics().index_bytes > 0, "memory is shared out before the first turn");
    let sstables = &store.tables[&TABLE].sstables;
    let most = sstables.iter().map(|one| one.index.len()).max().unwrap();
    assert!(sstables.len() == 2 && most >= 3_000, "{most} blocks");
    // The blocks of one partition share its key in memory.
    let bytes: usize = sstables.iter().map(|one| one.index.memory_bytes()).sum();
    assert!(bytes < 3_000 * 48, "{bytes} bytes");
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 3_000);
}
