//! Rows that are written, with an old timestamp, to deleted ranges that a read has come past.

use super::*;

const RANGES: u32 = 60;

/// An sstable with deleted ranges of rows and nothing else.
fn with_ranges() -> (Machine, Store) {
    let mut machine = Machine::new();
    machine.config.read_us = 0;
    let settings = TableSettings { gc_grace_s: 1_000_000, ..TableSettings::default() };
    machine.tables.insert(TABLE, settings);
    let write = Write { timestamp: START_US + 5, ttl_s: 0, now_s: START_US / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    for from in (0..RANGES).map(|number| 10 * number) {
        builder.delete_range(&from.to_be_bytes(), &(from + 5).to_be_bytes(), &write);
    }
    builder.finish().unwrap();
    let mut store = machine.open();
    machine.put(&mut store, &bytes);
    flush_and_close(store);
    let store = machine.open();
    (machine, store)
}

/// A page that is read range by range, while a deleted row is written in each turn.
fn read_beside_writes(request: &ReadRequest, seed: u32) -> Page {
    let (machine, mut store) = with_ranges();
    let mut page = Page::default();
    let mut time = TimeSlice::new(&*machine.clock, 0);
    assert!(!store.read(Tag(0), request, &mut page, &mut time).unwrap());
    let (mut done, mut written) = (Vec::new(), 0);
    for turn in 0..10_000 {
        let ck = (seed + 7 * turn) % RANGES * 10 + 2;
        store.write(Tag(1), &machine.mutation(b"boiler", ck, b"old", 0)).unwrap();
        store.turn_end();
        store.poll(&mut done).unwrap();
        for one in done.drain(..) {
            match one {
                Done::Write(_) => written += 1,
                Done::Read(_, page) => {
                    assert!(written > RANGES / 4, "{written} rows were written before it ended");
                    return *page;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("the read does not end");
}

#[test]
fn a_row_that_is_written_to_a_deleted_range_is_not_there_wherever_a_read_is() {
    let forward = partition(b"boiler");
    let backwards = ReadRequest { reverse: true, ..partition(b"boiler") };
    for (request, seed) in [forward, backwards, everything()]
        .iter()
        .flat_map(|one| (0..5).map(move |seed| (one, seed)))
    {
        let page = read_beside_writes(request, seed);
        let found: Vec<_> = page.rows().map(|row| row.ck.to_vec()).collect();
        assert!(found.is_empty(), "{found:?} of {request:?}");
    }
}
