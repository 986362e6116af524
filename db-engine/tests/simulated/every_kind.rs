//! A partition that has everything that a partition can: a static row with elements of collections,
//! some of which expire, and deletions of all kinds. A script of writes goes to it, and it follows
//! from which of them have happened what is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use sandglass_db::{
    mutation::{Builder, RowView, Write, token},
    store::{ReadRequest, Store},
};

use super::{KEPT, TTL_S, key, read};

pub const EVERY_KIND_KEY: &[u8] = b"every kind";

const LASTING: u16 = 5;
const BRIEF: u16 = 6;

/// Every so many writes one replaces all elements.
const REPLACES_EVERY: u32 = 20;

/// The element that write `number` takes out.
fn removed(number: u32) -> Option<u32> {
    number.checked_sub(4)
}

fn replaces(number: u32) -> bool {
    number % REPLACES_EVERY == 7
}

/// The row whose deletion write `number` is.
fn deleted(number: u32) -> Option<u32> {
    number.checked_sub(6).filter(|_| number % 5 == 1)
}

/// The rows that write `number` deletes as a range.
fn deleted_range(number: u32) -> Option<Range<u32>> {
    let from = number.checked_sub(20).filter(|_| number % 10 == 4)?;
    Some(from..number - 8)
}

/// Adds what write `number` changes at this time.
pub fn put(out: &mut Vec<u8>, number: u32, now_us: i64) {
    let lasting = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let key_of = EVERY_KIND_KEY;
    let mut builder = Builder::new(out, KEPT, token::token(key_of), key_of);
    let mut row = builder.row(b"", &lasting, false);
    if replaces(number) {
        row.delete_elements(LASTING, now_us - 1);
    }
    if let Some(removed) = removed(number) {
        row.element_tombstone(LASTING, &key(removed));
    }
    row.element(LASTING, &key(number), b"lasting");
    drop(row);
    let brief = Write { ttl_s: TTL_S, ..lasting };
    builder.row(b"", &brief, false).element(BRIEF, &key(number), b"brief");
    builder.row(&key(number), &lasting, true).element(LASTING, b"", &key(number));
    if let Some(deleted) = deleted(number) {
        builder.delete_row(&key(deleted), &lasting);
    }
    if let Some(Range { start, end }) = deleted_range(number) {
        builder.delete_range(&key(start), &key(end), &lasting);
    }
    builder.finish().unwrap();
}

/// What is in the partition: elements of the two columns of its static row, and its rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct EveryKind {
    lasting: BTreeSet<u32>,
    brief: BTreeSet<u32>,
    rows: BTreeSet<u32>,
}

/// The partition has what these writes have left at this time, by when they were sent.
pub fn check(stores: &mut [Store], writes: &BTreeMap<u32, i64>, now_s: i64) {
    let mut expected = EveryKind::default();
    for (number, sent_us) in writes {
        if replaces(*number) {
            expected.lasting.clear();
        }
        removed(*number).map(|removed| expected.lasting.remove(&removed));
        expected.lasting.insert(*number);
        if sent_us / 1_000_000 + i64::from(TTL_S) > now_s {
            expected.brief.insert(*number);
        }
        expected.rows.insert(*number);
        deleted(*number).map(|deleted| expected.rows.remove(&deleted));
        let range = deleted_range(*number);
        expected.rows.retain(|row| range.as_ref().is_none_or(|range| !range.contains(row)));
    }
    assert_eq!(found(stores, now_s), expected);
}

fn found(stores: &mut [Store], now_s: i64) -> EveryKind {
    let mut found = EveryKind::default();
    let token = token::token(EVERY_KIND_KEY);
    for store in stores {
        let request = ReadRequest::partition(KEPT, token, EVERY_KIND_KEY, now_s);
        for row in read(store, &request).rows() {
            let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
            let cells = RowView::parse(row.row).unwrap().cells();
            for cell in cells.filter(|cell| cell.view(now_s).is_some()) {
                let path = cell.path.expect("all are elements");
                let is_new = match (row.ck, cell.column) {
                    (b"", LASTING) => found.lasting.insert(number(path)),
                    (b"", BRIEF) => found.brief.insert(number(path)),
                    (ck, LASTING) => found.rows.insert(number(ck)),
                    (_, column) => panic!("a row has a cell of column {column}"),
                };
                assert!(is_new, "a row or an element is found once");
            }
        }
    }
    found
}
