use proptest::prelude::*;

use super::*;
use crate::io::{ManualClock, TimeSlice};

const TABLE: TableNumber = TableNumber(7);

fn at(timestamp: i64) -> Write {
    Write { timestamp, ttl_s: 0, now_s: timestamp / 1_000_000 }
}

fn expiring(timestamp: i64, ttl_s: u32, now_s: i64) -> Write {
    Write { timestamp, ttl_s, now_s }
}

fn build(fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, TABLE, token::token(b"key"), b"key");
    fill(&mut builder);
    builder.finish().unwrap();
    out
}

fn row_of(mutation: &[u8]) -> Vec<u8> {
    let view = MutationView::parse(mutation).unwrap();
    view.check().unwrap();
    match view.items().next().unwrap() {
        Item::Row { row, .. } => row.to_vec(),
        Item::PartitionDeletion(_) | Item::RangeDeletion(_) => panic!("not a row"),
    }
}

fn row(write: Write, marker: bool, cells: &[(u16, Option<&[u8]>)]) -> Vec<u8> {
    row_of(&build(|builder| {
        let mut row = builder.row(b"ck", &write, marker);
        for (column, value) in cells {
            match value {
                Some(value) => row.cell(*column, value),
                None => row.tombstone(*column),
            };
        }
    }))
}

fn deleted(write: Write) -> Vec<u8> {
    row_of(&build(|builder| {
        builder.delete_row(b"ck", &write);
    }))
}

fn merged(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    merge(a, b, &mut out);
    RowView::parse(&out).unwrap().check().unwrap();
    let (clock, mut place, mut bit_by_bit) = (ManualClock::at(0), None, Vec::new());
    while !merge_some(a, b, &mut place, &mut bit_by_bit, &mut TimeSlice::new(&clock, 0)) {}
    assert_eq!(bit_by_bit, out, "it is the same bit by bit");
    out
}

fn value(row: &[u8], column: u16, now_s: i64) -> Option<Vec<u8>> {
    RowView::parse(row).unwrap().cell(column, now_s).map(|cell| cell.value.to_vec())
}

#[test]
fn the_encoding_is_frozen() {
    let bytes = build(|builder| {
        builder.row(b"c", &expiring(5, 60, 100), true).cell(1, b"21.5").tombstone(3);
        builder.delete_partition(&at(2_000_000));
    });
    let expected = [
        &[87, 0, 0, 0, 7, 0, 0, 0][..],
        &token::token(b"key").0.to_le_bytes(),
        &[3, 0, b'k', b'e', b'y'],
        &[1, 1, 0, b'c', 45, 0, 0, 0],
        &[3, 5, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 160, 0, 0, 0, 0, 0, 0, 0, 2, 0],
        &[1, 0, 0, 4, 0, 0, 0, b'2', b'1', b'.', b'5'],
        &[3, 0, 1, 100, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0x80, 0x84, 0x1e, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn the_encoding_of_elements_and_ranges_is_frozen() {
    let bytes = build(|builder| {
        let mut row = builder.row(b"", &at(9), false);
        row.delete_elements(1, 8).element(1, b"a", b"x").element_tombstone(1, b"b");
        drop(row);
        builder.delete_range(b"c", b"d", &at(2));
    });
    let expected = [
        &[110, 0, 0, 0, 7, 0, 0, 0][..],
        &token::token(b"key").0.to_le_bytes(),
        &[3, 0, b'k', b'e', b'y'],
        &[1, 0, 0, 59, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0],
        &[1, 0, 3, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 8, 1, 0, 0, 0, b'a', 1, 0, 0, 0, b'x'],
        &[1, 0, 9, 1, 0, 0, 0, b'b', 0, 0, 0, 0, 0, 0, 0, 0],
        &[3, 1, 0, 0, 0, b'c', 1, 0, 0, 0, b'd'],
        &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes, expected);
    let range = Item::RangeDeletion(RangeDeletion {
        from: b"c",
        to: b"d",
        deletion: Deletion { timestamp: 2, deleted_s: 0 },
    });
    let view = MutationView::parse(&bytes).unwrap();
    view.check().unwrap();
    assert_eq!(format!("{:?}", view.items().last().unwrap()), format!("{range:?}"));
}

/// The elements of column 1 as (path, value), as readers see them.
fn elements(row: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = RowView::parse(row).unwrap();
    row.check().unwrap();
    let live = row.cells().filter(|cell| cell.column == 1);
    live.filter_map(|cell| Some((cell.path?.to_vec(), cell.view(0)?.value.to_vec()))).collect()
}

fn with_elements(timestamp: i64, paths: &[&[u8]]) -> Vec<u8> {
    row_of(&build(|builder| {
        let write = at(timestamp);
        let mut row = builder.row(b"ck", &write, false);
        for path in paths {
            row.element(1, path, b"v");
        }
    }))
}

#[test]
fn a_tombstone_of_a_collection_hides_the_elements_that_are_not_newer() {
    let deleted = row_of(&build(|builder| {
        builder.row(b"ck", &at(9), false).delete_elements(1, 5).element(1, b"e", b"v");
    }));
    let (old, new) = (with_elements(5, &[b"a", b"e"]), with_elements(6, &[b"b"]));
    let both = merged(&merged(&old, &deleted), &new);
    assert_eq!(both, merged(&old, &merged(&new, &deleted)));
    let expected = [b"b", b"e"].map(|path| (path.to_vec(), b"v".to_vec()));
    assert_eq!(elements(&both), expected);
    assert_eq!(RowView::parse(&both).unwrap().cells().count(), 3);
    // Another column has nothing to do with it.
    let other = row(at(1), false, &[(2, Some(b"w"))]);
    assert_eq!(value(&merged(&other, &both), 2, 0), Some(b"w".to_vec()));
}

#[test]
fn a_row_may_have_more_elements_than_a_u16_counts() {
    let many = row_of(&build(|builder| {
        let write = at(1);
        let mut row = builder.row(b"ck", &write, true);
        for number in 0..70_000_u32 {
            row.element(1, &number.to_be_bytes(), b"v");
        }
        row.cell(2, b"w");
    }));
    assert_eq!(elements(&many).len(), 70_000);
    assert_eq!(value(&many, 2, 0), Some(b"w".to_vec()));
    let few = with_elements(2, &[&7_u32.to_be_bytes()]);
    let both = merged(&few, &many);
    assert_eq!(elements(&both), elements(&many));
    assert_eq!(merged(&both, &many), both);
}

#[test]
fn mutations_follow_each_other() {
    let mut bytes = build(|builder| {
        builder.row(b"a", &at(1), true).cell(0, b"x");
    });
    bytes.extend(build(|builder| {
        builder.delete_partition(&at(9));
    }));
    let views: Vec<_> = mutations(&bytes).map(Result::unwrap).collect();
    assert_eq!(views.len(), 2);
    assert_eq!((views[0].table(), views[0].key()), (TABLE, &b"key"[..]));
    assert!(
        matches!(views[1].items().next(), Some(Item::PartitionDeletion(d)) if d.timestamp == 9)
    );
}

#[test]
fn a_key_that_is_too_long_leaves_nothing_behind() {
    let mut out = vec![1, 2, 3];
    let mut builder = Builder::new(&mut out, TABLE, Token(0), b"key");
    builder.row(&vec![0; CK_BYTES_MAX + 1], &at(1), true);
    assert_eq!(builder.finish(), Err(TooLong));
    assert_eq!(out, [1, 2, 3]);
    let builder = Builder::new(&mut out, TABLE, Token(0), &vec![0; KEY_BYTES_MAX + 1]);
    assert_eq!(builder.finish(), Err(TooLong));
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn keys_of_any_length_come_back() {
    let lengths = [0, KEY_BYTES_MAX - 1, KEY_BYTES_MAX, KEY_BYTES_MAX + 1, CK_BYTES_MAX];
    for key_bytes in lengths.into_iter().filter(|length| *length <= KEY_BYTES_MAX) {
        let key = vec![0; key_bytes];
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, Token(0), &key);
        for length in lengths {
            builder.row(&vec![0xFF; length], &at(1), true).cell(1, b"21.5");
            builder.delete_row(&vec![0; length], &at(2));
        }
        builder.finish().unwrap();
        let view = MutationView::parse(&bytes).unwrap();
        assert_eq!((view.check(), view.key()), (Ok(()), &key[..]));
        let found = view.items().map(|item| match item {
            Item::Row { ck, row } => (ck.to_vec(), RowView::parse(row).unwrap().cells().count()),
            Item::PartitionDeletion(_) | Item::RangeDeletion(_) => panic!("there is none"),
        });
        let wanted = lengths.into_iter().flat_map(|n| [(vec![0xFF; n], 1), (vec![0; n], 0)]);
        assert!(found.eq(wanted), "of a key of {key_bytes} bytes");
    }
}

#[test]
fn every_shortened_mutation_is_malformed() {
    let bytes = build(|builder| {
        builder.row(b"c", &expiring(5, 60, 100), true).cell(1, b"21.5").tombstone(3);
        builder.delete_row(b"d", &at(2));
    });
    for length in 0..bytes.len() {
        let mut cut = bytes[..length].to_vec();
        assert!(MutationView::parse(&cut).is_err(), "{length}");
        // The same with a length that agrees with what is left.
        if let Some(left) = length.checked_sub(4) {
            cut[..4].copy_from_slice(&u32::try_from(left).unwrap().to_le_bytes());
            let checked = MutationView::parse(&cut).and_then(|view| view.check());
            let items = MutationView::parse(&cut).map(|view| view.items().count());
            assert!(checked.is_err() || items.unwrap() < 2, "{length}");
        }
    }
}

#[test]
fn a_flipped_bit_never_panics() {
    let bytes = build(|builder| {
        builder.row(b"c", &expiring(5, 60, 100), true).cell(1, b"21.5").tombstone(3);
    });
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let _ = MutationView::parse(&bytes).and_then(|view| view.check());
    }
}

#[test]
fn the_later_write_wins_cell_by_cell() {
    let old = row(at(1), true, &[(1, Some(b"a")), (2, Some(b"b"))]);
    let new = row(at(2), false, &[(2, Some(b"c")), (3, Some(b"d"))]);
    for both in [merged(&old, &new), merged(&new, &old)] {
        assert_eq!(value(&both, 1, 0).unwrap(), b"a");
        assert_eq!(value(&both, 2, 0).unwrap(), b"c");
        assert_eq!(value(&both, 3, 0).unwrap(), b"d");
        assert_eq!(RowView::parse(&both).unwrap().marker(), Some(Liveness::forever(1)));
    }
}

#[test]
fn at_one_timestamp_ties_are_broken_as_cassandra_does() {
    let cell = |write: Write, value: &'static [u8]| row(write, false, &[(1, Some(value))]);
    let tombstone = |now_s| row(expiring(9, 0, now_s), false, &[(1, None)]);
    let ascending = [
        cell(at(9), b"a"),
        cell(at(9), b"b"),
        cell(expiring(9, 60, 100), b"z"),
        cell(expiring(9, 70, 100), b"a"),
        cell(expiring(9, 60, 110), b"a"),
        cell(expiring(9, 60, 110), b"b"),
        tombstone(5),
        tombstone(6),
    ];
    for (index, winner) in ascending.iter().enumerate() {
        for loser in &ascending[..index] {
            assert_eq!(&merged(winner, loser), winner, "{index}");
            assert_eq!(&merged(loser, winner), winner, "{index}");
        }
    }
}

#[test]
fn a_deletion_hides_what_is_not_newer() {
    let old = row(at(5), true, &[(1, Some(b"a"))]);
    let new = row(at(6), false, &[(2, Some(b"b"))]);
    let rest = merged(&merged(&old, &new), &deleted(at(5)));
    assert_eq!(value(&rest, 1, 0), None);
    assert_eq!(value(&rest, 2, 0).unwrap(), b"b");
    assert_eq!(RowView::parse(&rest).unwrap().marker(), None);
    assert_eq!(merged(&rest, &old), rest, "what comes late is hidden too");
}

#[test]
fn a_deletion_of_the_partition_hides_a_deletion_of_the_row() {
    let mut out = Vec::new();
    shadow(&merged(&deleted(at(5)), &row(at(7), true, &[(1, Some(b"a"))])), 6, &mut out);
    let left = RowView::parse(&out).unwrap();
    assert_eq!(left.deletion(), None);
    assert_eq!(left.cells().count(), 1);
    let mut out = Vec::new();
    shadow(&row(at(7), true, &[(1, Some(b"a"))]), 7, &mut out);
    assert!(RowView::parse(&out).unwrap().is_empty());
}

#[test]
fn what_has_expired_is_not_seen_but_still_hides() {
    let lasting = row(at(1), true, &[(1, Some(b"old"))]);
    let brief = row(expiring(2, 60, 100), true, &[(1, Some(b"new"))]);
    let both = merged(&lasting, &brief);
    assert_eq!(value(&both, 1, 159).unwrap(), b"new");
    assert_eq!(value(&both, 1, 160), None);
    assert!(RowView::parse(&both).unwrap().is_live(159));
    assert!(!RowView::parse(&both).unwrap().is_live(160));
    assert_eq!(times(&both), [(2, 160), (2, 160)]);
    assert_eq!(times(&lasting), [(1, i64::MAX), (1, i64::MAX)]);
    let mut gone = row(at(3), false, &[(1, None), (2, Some(b"x"))]);
    assert_eq!(times(&gone)[1], (3, i64::MAX));
    gone = merged(&gone, &row(expiring(4, 60, 100), false, &[(2, Some(b"y"))]));
    assert_eq!(times(&gone)[1], (4, 160));
}

/// When each part of a row was written, and until when it is seen.
fn times(row: &[u8]) -> Vec<(i64, i64)> {
    let mut times = Vec::new();
    RowView::parse(row).unwrap().each_time(|us, gone_s| times.push((us, gone_s)));
    times
}

fn any_row() -> impl Strategy<Value = Vec<u8>> {
    let write = (0..4_i64, 0..3_u32, 0..3_i64).prop_map(|(timestamp, ttl_s, now_s)| Write {
        timestamp,
        ttl_s,
        now_s,
    });
    let cell = prop::option::of(prop::sample::select(vec![&b""[..], b"a", b"b"]));
    let cells = prop::collection::btree_map(0..3_u16, cell, 0..3);
    let written = (write.clone(), any::<bool>(), cells).prop_map(|(write, marker, cells)| {
        row(write, marker, &cells.into_iter().collect::<Vec<_>>())
    });
    let paths = prop::sample::subsequence(vec![&b""[..], b"a", b"b"], 0..=3);
    let elements = (write.clone(), prop::option::of(0..4_i64), paths, any::<(bool, bool)>());
    let elements = elements.prop_map(|(write, deleted_us, paths, (is_deleted, is_other))| {
        row_of(&build(|builder| {
            let mut row = builder.row(b"ck", &write, false);
            // No table has values and elements in one column, but merging does not ask.
            let column = 1 + u16::from(is_other);
            deleted_us.map(|timestamp| row.delete_elements(column, timestamp));
            for path in paths {
                if is_deleted {
                    row.element_tombstone(column, path);
                } else {
                    row.element(column, path, b"v");
                }
            }
        }))
    });
    prop_oneof![4 => written, 4 => elements, 1 => write.prop_map(deleted)]
}

proptest! {
    #[test]
    fn merging_does_not_depend_on_order(a in any_row(), b in any_row(), c in any_row()) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        let once = merged(&a, &b);
        prop_assert_eq!(merged(&once, &a), once.clone());
        prop_assert_eq!(merged(&once, &once), once);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for view in mutations(&bytes).flatten() {
            let _ = view.check();
        }
        if let Ok(row) = RowView::parse(&bytes) {
            let _ = row.check();
            let _ = (row.is_live(0), row.timestamp_span());
            row.each_time(|_, _| {});
        }
    }
}
