//! What a read does not look into: sstables that cannot have what it wants.

use super::*;

const SSTABLES: u32 = 300;
const PARTITIONS: u32 = 20;

/// A store of many sstables, each with ten rows of its own in each of some partitions.
fn with_many_sstables(machine: &mut Machine) -> Store {
    machine.config.data_lifetime_us = 1_000_000;
    machine.tables.insert(TABLE, TableSettings::default());
    let mut store = machine.open();
    for number in 0..SSTABLES {
        let mut bytes = Vec::new();
        for partition in 0..PARTITIONS {
            for ck in 10 * number..10 * number + 10 {
                bytes.extend(machine.mutation(&partition.to_be_bytes(), 2 * ck, b"value", 0));
            }
        }
        machine.put(&mut store, &bytes);
        machine.clock.advance(2_000_000);
        while store.tables[&TABLE].sstables.len() <= number as usize {
            turn(&mut store);
        }
    }
    flush_and_close(store);
    machine.open()
}

fn turn(store: &mut Store) {
    store.turn_end();
    store.poll(&mut Vec::new()).unwrap();
}

/// Rows of a partition from one clustering key up to another one; how many there are, in how many
/// sstables it looked, and how many blocks it read from disk.
fn counted(machine: &Machine, store: &mut Store, key: u32, from: u32, to: u32) -> [u64; 3] {
    let key = key.to_be_bytes();
    let bound = |ck: u32| Bound::Included(ck.to_be_bytes().to_vec());
    let request = ReadRequest::partition(TABLE, token::token(&key), &key, 0);
    let request = ReadRequest { from: bound(from), to: bound(to), ..request };
    let page = machine.read(store, &request);
    [page.len() as u64, page.cost.sstables, page.cost.blocks_read]
}

#[test]
fn a_read_looks_into_no_sstable_that_cannot_have_what_it_wants() {
    let mut machine = Machine::new();
    let mut store = with_many_sstables(&mut machine);
    assert_eq!(store.tables[&TABLE].sstables.len(), SSTABLES as usize);
    for (from, to, expected) in [
        (2_000, 2_000, [1, 1, 1]),
        // Between two rows of one, and between two sstables.
        (2_001, 2_001, [0, 1, 0]),
        (2_019, 2_019, [0, 0, 0]),
        (6_000, 6_000, [0, 0, 0]),
        // Two of them.
        (2_100, 2_139, [20, 2, 2]),
    ] {
        assert_eq!(counted(&machine, &mut store, 7, from, to), expected, "{from} {to}");
    }
    // Of partitions that are not there, nearly no sstable is looked into, whatever is wanted.
    let (mut looked_into, rounds) = (0, machine.disk.read_rounds());
    for key in PARTITIONS..PARTITIONS + 100 {
        let [rows, sstables, blocks] = counted(&machine, &mut store, key, 0, u32::MAX);
        assert!(rows == 0 && blocks <= sstables);
        looked_into += sstables;
    }
    let rounds = machine.disk.read_rounds() - rounds;
    assert!(looked_into < u64::from(SSTABLES), "{looked_into} of {}", 100 * SSTABLES);
    assert!(rounds < 20, "{rounds} of 100 reads asked for a block");
}
