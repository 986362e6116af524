//! Static rows: read with the rows of their partition, and counted apart from them.

use super::*;

/// In each sstable the static row and the others are in different blocks.
#[test]
fn a_cold_read_asks_for_the_static_row_and_the_rows_in_one_round() {
    const SSTABLES: u32 = 20;
    let mut machine = Machine::new();
    machine.config.block_bytes = 1;
    machine.config.cache_bytes_max = 1 << 20;
    for number in 0..SSTABLES {
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        let now_us = machine.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        builder.row(b"", &write, false).cell(1, b"static");
        for ck in [7_u32, 100 + number] {
            builder.row(&ck.to_be_bytes(), &write, true).cell(1, b"value");
        }
        builder.finish().unwrap();
        machine.put(&mut store, &bytes);
        flush_and_close(store);
    }
    let at = |ck: u32| Bound::Included(ck.to_be_bytes().to_vec());
    let all = ReadRequest { static_rows: true, ..partition(b"boiler") };
    let one = ReadRequest { from: at(7), to: at(7), ..all.clone() };
    let some = ReadRequest { from: at(7), ..all.clone() };
    for request in [one, some, ReadRequest { reverse: true, ..all }] {
        let mut store = machine.open();
        let before = machine.disk.read_rounds();
        let page = machine.read(&mut store, &ReadRequest { rows_max: 1, ..request.clone() });
        assert_eq!(page.rows().map(|row| row.ck.is_empty()).collect::<Vec<_>>(), [true, false]);
        assert_eq!(machine.disk.read_rounds() - before, 1, "{request:?}");
        // Backwards one sstable has the next row, and no other need be looked into for it.
        let of_rows = if request.reverse { 1 } else { SSTABLES };
        assert_eq!(page.cost.blocks_read, u64::from(SSTABLES + of_rows), "{request:?}");
    }
}

#[test]
fn a_static_row_that_is_not_live_is_no_dead_row() {
    let mut machine = Machine::new();
    machine
        .tables
        .insert(TABLE, TableSettings { gc_grace_s: 1_000_000, ..TableSettings::default() });
    let mut store = machine.open();
    let (token, key) = (token::token(b"boiler"), b"boiler");
    let change = |deletes: bool| {
        let write = Write { timestamp: START_US, ttl_s: 0, now_s: START_US / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token, key);
        if deletes {
            builder.delete_partition(&write);
        } else {
            builder.row(b"", &write, false).cell(1, b"value");
        }
        builder.finish().unwrap();
        bytes
    };
    machine.put(&mut store, &change(false));
    flush_and_close(store);
    let mut store = machine.open();
    machine.put(&mut store, &change(true));
    for (static_rows, dead) in [(true, 0), (false, 1)] {
        let request = ReadRequest { static_rows, ..ReadRequest::partition(TABLE, token, key, 0) };
        let page = machine.read(&mut store, &request);
        assert_eq!((page.len(), page.dead()), (0, dead));
    }
}
