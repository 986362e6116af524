//! Deleted ranges in blocks: each block tells alone what is deleted in its part of a partition.

use super::*;
use crate::{io::Random, mutation::RangeDeletion};

const KEY: &[u8] = b"key";

fn deletion(timestamp: i64) -> Deletion {
    Deletion { timestamp, deleted_s: timestamp }
}

fn range<'a>(from: &'a [u8], to: &'a [u8], timestamp: i64) -> RangeDeletion<'a> {
    RangeDeletion { from, to, deletion: deletion(timestamp) }
}

/// From where to where rows are deleted, and when.
type WrittenRange = (Vec<u8>, Vec<u8>, i64);

/// Disjoint ranges and rows between keys of two bytes; most keys have none.
fn entries(random: &mut Random) -> (Vec<WrittenRange>, Vec<Vec<u8>>) {
    let key = |number: u64| u16::try_from(number).unwrap().to_be_bytes().to_vec();
    let (mut ranges, mut at) = (Vec::new(), 1);
    while at < 600 {
        let (from, to) = (at + random.below(40), 1 + random.below(60));
        ranges.push((key(from), key(from + to), i64::try_from(from).unwrap()));
        at = from + to + random.below(2);
    }
    let sparse = 1 + random.below(30);
    let rows = (1..700).filter(|_| random.below(sparse) == 0).map(key).collect();
    (ranges, rows)
}

/// Writes a partition, in order, in blocks of so many bytes.
fn put(writer: &mut Writer, ranges: &[WrittenRange], rows: &[Vec<u8>]) {
    let mut ranges = ranges.iter().peekable();
    for ck in rows.iter().map(Some).chain([None]) {
        while let Some((from, to, timestamp)) =
            ranges.next_if(|own| ck.is_none_or(|ck| own.0 <= *ck))
        {
            writer.range(range(from, to, *timestamp));
        }
        if let Some(ck) = ck {
            writer.row(ck, &row(5, 0, b"a value"));
        }
    }
}

#[test]
fn every_block_tells_alone_what_is_deleted_in_its_part() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (ranges, rows) = entries(&mut random);
        let block_bytes = [1, 200, 1_000][usize::try_from(seed % 3).unwrap()];
        let mut writer = Writer::new(ID, TABLE, 5).with_block_bytes(block_bytes);
        writer.partition(Token(0), b"before", None);
        put(&mut writer, &ranges[..1], &[]);
        writer.partition(Token(1), KEY, None);
        put(&mut writer, &ranges, &rows);
        writer.partition(Token(2), b"behind", None);
        writer.row(&[0], &row(5, 0, b"a value"));
        let (summary, bytes) = writer.finish();
        assert_eq!(summary.rows, rows.len() as u64 + 1);
        let timestamps = ranges.iter().map(|range| range.2);
        let least = timestamps.clone().min().unwrap();
        assert_eq!((summary.timestamp_min, summary.timestamp_max), {
            (least.min(5), timestamps.max().unwrap().max(5))
        });
        let (_, index) = open(&bytes).unwrap();
        let blocks: Vec<_> = (0..index.len()).map(|n| block(&bytes, &index, n).unwrap()).collect();
        assert!(block_bytes > 1 || blocks.len() > ranges.len());
        // Each key of two bytes, and one right behind it.
        for ck in (0..700_u16).flat_map(|ck| {
            let ck = ck.to_be_bytes().to_vec();
            [ck.clone(), [ck, vec![0]].concat()]
        }) {
            let covers = |range: &&WrittenRange| range.0 <= ck && ck < range.1;
            let expected = ranges.iter().find(covers).map(|range| deletion(range.2));
            let only = Bound::Included(&ck[..]);
            let found = index.blocks_of_partition(Token(1), KEY, only, only);
            // Where a cursor begins, forwards and backwards.
            for number in [found.start, found.end - 1] {
                let block = &blocks[number];
                let behind = block.lower_bound(Token(1), KEY, &[&ck[..], &[0]].concat());
                let range = block.range_before(behind, Token(1), KEY);
                let covering = range.filter(|range| range.from <= &ck[..] && &ck[..] < range.to);
                let found = covering.map(|range| range.deletion);
                assert_eq!(found, expected, "seed {seed}, {ck:?} in block {number}");
            }
            assert_eq!(blocks[0].range_before(0, Token(1), KEY), None);
        }
    }
}

#[test]
fn a_partition_may_be_there_for_its_deleted_ranges_alone() {
    let mut writer = Writer::new(ID, TABLE, 0);
    writer.partition(Token(5), KEY, None);
    writer.range(RangeDeletion {
        deletion: Deletion { timestamp: 8, deleted_s: 2 },
        ..range(b"a", b"b", 0)
    });
    writer.range(range(b"c", b"d", 1));
    let (summary, bytes) = writer.finish();
    assert_eq!((summary.timestamp_min, summary.timestamp_max, summary.expires_s), (1, 8, 2));
    assert_eq!((summary.rows, summary.token_first, summary.token_last), (0, Token(5), Token(5)));
    let (_, index) = open(&bytes).unwrap();
    let block = block(&bytes, &index, 0).unwrap();
    let found = [0, 1].map(|number| block.row(number).unwrap().range.unwrap().from);
    assert_eq!((block.len(), found), (2, [&b"a"[..], b"c"]));
}

#[test]
fn ranges_that_are_not_in_order_are_refused() {
    let written = |ranges: &[(&[u8], &[u8])], ck: Option<&[u8]>| {
        let mut writer = Writer::new(ID, TABLE, 5);
        writer.partition(Token(1), KEY, None);
        for (from, to) in ranges {
            writer.range(range(from, to, 1));
            if let Some(ck) = ck {
                writer.row(ck, &row(2, 0, b"a value"));
            }
        }
        let (_, bytes) = writer.finish();
        let (_, index) = open(&bytes).unwrap();
        block(&bytes, &index, 0).map(|block| block.len()).map_err(|error| error.to_string())
    };
    let refused = Err("rows of a block are not in order".to_string());
    assert_eq!(written(&[(b"a", b"c"), (b"c", b"d")], None), Ok(2));
    assert_eq!(written(&[(b"a", b"c")], Some(b"a")), Ok(2));
    for (from, to) in [(&b"c"[..], &b"c"[..]), (b"c", b"b"), (b"", b"b")] {
        assert_eq!(written(&[(from, to)], None), refused);
    }
    assert_eq!(written(&[(b"a", b"c"), (b"b", b"d")], None), refused);
    assert_eq!(written(&[(b"c", b"d"), (b"a", b"b")], None), refused);
    assert_eq!(written(&[(b"b", b"d")], Some(b"a")), refused);
}

#[test]
fn a_flipped_bit_of_a_range_is_found() {
    let mut writer = Writer::new(ID, TABLE, 5).with_block_bytes(60);
    writer.partition(Token(1), KEY, None);
    writer.range(range(b"a", b"z", 3));
    for ck in [b"b", b"c", b"d"] {
        writer.row(ck, &row(2, 60, b"a value"));
    }
    let (_, bytes) = writer.finish();
    assert!(open(&bytes).unwrap().1.len() > 1);
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = open(&bytes).and_then(|(_, index)| {
            (0..index.len()).try_for_each(|number| block(&bytes, &index, number).map(drop))
        });
        assert!(read.is_err(), "bit {bit}");
    }
}
