//! What a read does not look into: sstables that cannot have what it wants.

use super::*;
use crate::io::Random;

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

/// All sstables of a partition, from one of its ends: how many of them are looked into for so many
/// rows, and how often the disk is waited for.
#[test]
fn a_read_looks_into_sstables_as_it_comes_to_them() {
    let mut machine = Machine::new();
    drop(with_many_sstables(&mut machine));
    machine.config.cache_bytes_max = 8 << 20;
    // Each with a partition of its own: what is in memory is in an sstable after the next start.
    let mut keys = 0..PARTITIONS;
    for (reverse, in_memory) in [(false, false), (true, false), (false, true), (true, true)] {
        // With the second wait one more comes than was reached.
        for (rows_max, [sstables, rounds]) in [(5, [1, 1]), (10, [1, 1]), (11, [3, 2])] {
            let key = keys.next().unwrap().to_be_bytes();
            let request = partition(&key);
            let mut store = machine.open();
            let mut expected: Vec<u32> = (0..10 * SSTABLES).map(|ck| 2 * ck).collect();
            if in_memory {
                // Rows of all places, which decide to where sstables are looked into.
                let mut bytes = Vec::new();
                for ck in [1, 3_001, 20 * SSTABLES] {
                    bytes.extend(machine.mutation(&key, ck, b"value", 0));
                    expected.push(ck);
                }
                machine.put(&mut store, &bytes);
                expected.sort_unstable();
            }
            if reverse {
                expected.reverse();
            }
            let before = machine.disk.read_rounds();
            let request = ReadRequest { reverse, rows_max, ..request };
            let page = machine.read(&mut store, &request);
            let cks: Vec<_> =
                page.rows().map(|row| u32::from_be_bytes(row.ck.try_into().unwrap())).collect();
            assert_eq!(cks, expected[..rows_max]);
            let spent = [page.cost.sstables, machine.disk.read_rounds() - before];
            if in_memory {
                assert!(spent[0] <= sstables && spent[1] <= rounds, "{spent:?}");
            } else {
                assert_eq!(spent, [sstables, rounds], "{rows_max} {reverse}");
            }
            // All of them: the more it waits, the more comes at once.
            let before = machine.disk.read_rounds();
            let page = machine.read(&mut store, &ReadRequest { rows_max: 1 << 20, ..request });
            let cks: Vec<_> =
                page.rows().map(|row| u32::from_be_bytes(row.ck.try_into().unwrap())).collect();
            assert_eq!(cks, expected);
            assert_eq!(page.cost.sstables, u64::from(SSTABLES));
            let rounds = machine.disk.read_rounds() - before;
            assert!(rounds < 12, "{rounds} rounds");
        }
    }
}

/// Rows of a stretch of clustering keys, sometimes a static row, and sometimes a deletion: of a
/// range that reaches into other stretches, or of the partition.
fn stretch(random: &mut Random, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    let write = |random: &mut Random| {
        let timestamp = START_US + random.below(100).cast_signed();
        Write { timestamp, ttl_s: 0, now_s: START_US / 1_000_000 }
    };
    for _ in 0..random.below(6) {
        let ck = (8 * number + random.below(8)).to_be_bytes();
        builder.row(&ck, &write(random), true).cell(1, &random.below(1_000).to_be_bytes());
    }
    if random.percent(50) {
        let (from, length) = (random.below(8 * STRETCHES), 1 + random.below(60));
        builder.delete_range(&from.to_be_bytes(), &(from + length).to_be_bytes(), &write(random));
    }
    if random.percent(15) {
        builder.row(b"", &write(random), false).cell(1, &random.below(1_000).to_be_bytes());
    }
    if random.percent(4) {
        let timestamp = START_US + random.below(40).cast_signed();
        builder.delete_partition(&Write { timestamp, ttl_s: 0, now_s: START_US / 1_000_000 });
    }
    builder.row(&(8 * number).to_be_bytes(), &write(random), true);
    builder.finish().unwrap();
    bytes
}

const STRETCHES: u64 = 16;

/// The same writes, each in an sstable of its own and all in memory, give every read the same.
#[test]
fn sstables_that_are_not_looked_into_yet_hide_what_they_delete() {
    let (mut looked_into, mut all) = (0, 0);
    for seed in 0..20 {
        let mut random = Random(seed);
        let (mut machine, mut other) = (Machine::new(), Machine::new());
        let settings = TableSettings { gc_grace_s: 1_000_000, ..TableSettings::default() };
        for machine in [&mut machine, &mut other] {
            machine.tables.insert(TABLE, settings.clone());
            machine.config.block_bytes = [1, 32 << 10][usize::from(seed % 2 == 0)];
        }
        machine.config.data_lifetime_us = 1_000_000;
        machine.config.cache_bytes_max = [0, 4 << 20][usize::from(seed % 4 < 2)];
        let (mut store, mut in_memory) = (machine.open(), other.open());
        for number in 0..STRETCHES {
            let bytes = stretch(&mut random, (number * 7) % STRETCHES);
            machine.put(&mut store, &bytes);
            other.put(&mut in_memory, &bytes);
            machine.clock.advance(2_000_000);
            while store.tables[&TABLE].sstables.len() as u64 <= number {
                turn(&mut store);
            }
        }
        for _ in 0..40 {
            let mut bound = || match random.below(3) {
                0 => Bound::Included(random.below(8 * STRETCHES).to_be_bytes().to_vec()),
                1 => Bound::Excluded(random.below(8 * STRETCHES).to_be_bytes().to_vec()),
                _ => Bound::Unbounded,
            };
            let (from, to) = (bound(), bound());
            let rows_max = usize::try_from(1 + random.below(12)).unwrap();
            let (reverse, static_rows) = (random.percent(50), random.percent(50));
            let goes_on = random.percent(50);
            let mut request = ReadRequest {
                from,
                to,
                reverse,
                rows_max,
                static_rows,
                goes_on,
                ..partition(b"boiler")
            };
            let limited = machine.read(&mut store, &request);
            looked_into += limited.cost.sstables;
            all += STRETCHES;
            let mut rows = |machine: &Machine, store: &mut Store, rows_max: usize| {
                (request.rows_max, request.after) = (rows_max, None);
                let mut rows = Vec::new();
                loop {
                    let page = machine.read(store, &request);
                    // The static row comes with each page.
                    let is_again = static_rows && request.after.is_some();
                    let new = page.rows().filter(|row| !is_again || !row.ck.is_empty());
                    rows.extend(new.map(|row| (row.ck.to_vec(), row.row.to_vec())));
                    request.after = page.position().cloned();
                    if request.after.is_none() {
                        return rows;
                    }
                }
            };
            let expected = rows(&other, &mut in_memory, 1 << 20);
            assert_eq!(rows(&machine, &mut store, 1 << 20), expected, "of {seed}");
            assert_eq!(rows(&machine, &mut store, rows_max), expected, "of {seed}, by {rows_max}");
            let limited = limited.rows().map(|row| (row.ck.to_vec(), row.row.to_vec()));
            let limited: Vec<_> = limited.collect();
            assert!(expected.starts_with(&limited), "of {seed}");
        }
    }
    assert!(looked_into < all, "some are not looked into: {looked_into} of {all}");
}
