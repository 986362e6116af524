//! A read of one row tells the newest timestamp of all that it saw, live or not.

use super::*;
use crate::mutation::{Builder, Write, token::token};

const KEY: &[u8] = b"boiler";

fn newest(machine: &Machine, store: &mut Store, ck: &[u8]) -> Option<i64> {
    newest_with(machine, store, ck, false)
}

fn newest_with(machine: &Machine, store: &mut Store, ck: &[u8], static_rows: bool) -> Option<i64> {
    let ck = Bound::Included(ck.to_vec());
    let now_s = machine.clock.now_us() / 1_000_000;
    let of_partition = ReadRequest::partition(TABLE, token(KEY), KEY, now_s);
    let request = ReadRequest {
        from: ck.clone(),
        to: ck,
        rows_max: 1,
        newest: true,
        static_rows,
        ..of_partition
    };
    machine.read(store, &request).newest_us()
}

fn write(store: &mut Store, fill: impl Fn(&mut Builder<'_>, &dyn Fn(i64) -> Write)) {
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token(KEY), KEY);
    fill(&mut builder, &|timestamp| Write { timestamp, ttl_s: 0, now_s: 1 });
    builder.finish().unwrap();
    store.write(Tag(1), &bytes).unwrap();
    let mut done = Vec::new();
    while !done.iter().any(|done| matches!(done, Done::Write(Tag(1)))) {
        store.turn_end();
        store.poll(&mut done).unwrap();
    }
}

#[test]
fn deleted_things_count_in_memory_and_on_disk() {
    let machine = Machine::new();
    let mut store = machine.open();
    write(&mut store, |builder, at| {
        builder.row(b"", &at(18), false).tombstone(2);
        builder.row(b"live", &at(10), true).cell(1, b"x");
        builder.row(b"cell", &at(11), true).tombstone(1);
        builder.row(b"element", &at(15), false).element(1, b"e", b"v");
        builder.row(b"gone", &at(16), false).element_tombstone(1, b"e");
        builder.row(b"none left", &at(3), false).delete_elements(1, 17);
        builder.delete_row(b"row", &at(13));
        builder.delete_range(b"s", b"t", &at(14));
        builder.row(b"s1", &at(12), true);
    });
    let expected: [(&[u8], Option<i64>); 9] = [
        (b"live", Some(10)),
        (b"cell", Some(11)),
        (b"element", Some(15)),
        (b"gone", Some(16)),
        (b"none left", Some(17)),
        (b"row", Some(13)),
        (b"s1", Some(14)),
        (b"s2", Some(14)),
        (b"none", None),
    ];
    for is_on_disk in [false, true] {
        for (ck, newest_us) in expected {
            let found = newest(&machine, &mut store, ck);
            assert_eq!(found, newest_us, "{} {is_on_disk}", String::from_utf8_lossy(ck));
            let found = newest_with(&machine, &mut store, ck, true);
            assert_eq!(found, Some(18), "the static row counts, too");
        }
        if !is_on_disk {
            flush_and_close(store);
            store = machine.open();
        }
    }
    write(&mut store, |builder, at| {
        builder.delete_partition(&at(20));
    });
    for (ck, _) in expected {
        assert_eq!(newest(&machine, &mut store, ck), Some(20));
    }
    let mut store = {
        flush_and_close(store);
        machine.open()
    };
    for (ck, _) in expected {
        assert_eq!(newest(&machine, &mut store, ck), Some(20));
    }
}

#[test]
fn of_all_rows_of_a_partition_none_is_newer() {
    let machine = Machine::new();
    let mut store = machine.open();
    write(&mut store, |builder, at| {
        builder.row(b"a", &at(31), true).cell(1, b"x");
        builder.row(b"b", &at(17), true).cell(1, b"x");
    });
    let ask = |store: &mut Store| {
        let none = || Bound::Included(Vec::new());
        let of_partition = ReadRequest::partition(TABLE, token(KEY), KEY, 1);
        let request = ReadRequest {
            from: none(),
            to: none(),
            newest: true,
            newest_of_all: true,
            ..of_partition
        };
        machine.read(store, &request).newest_us()
    };
    assert_eq!(ask(&mut store), Some(31), "in memory");
    flush_and_close(store);
    let mut store = machine.open();
    assert_eq!(ask(&mut store), Some(31), "on disk");
    write(&mut store, |builder, at| {
        builder.row(b"c", &at(40), true).cell(1, b"x");
    });
    assert_eq!(ask(&mut store), Some(40), "in both");
}
