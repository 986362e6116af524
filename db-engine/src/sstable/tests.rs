mod bit_by_bit;
mod contents;
mod ranges;

use std::ops::Bound;

use super::{
    BLOCK_BYTES, Block, FOOTER_BYTES, Index, SstableId, Summary, Writer, read_footer, read_index,
};
use crate::mutation::{Builder, Deletion, Item, MutationView, TableNumber, Token, Write};

const ID: SstableId = SstableId { epoch: 3, shard: 1, sequence: 7 };
const TABLE: TableNumber = TableNumber(9);

fn row(timestamp: i64, ttl_s: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, Token(0), b"");
    builder.row(b"", &Write { timestamp, ttl_s, now_s: 100 }, true).cell(4, value);
    builder.finish().unwrap();
    let view = MutationView::parse(&bytes).unwrap();
    let Some(Item::Row { row, .. }) = view.items().next() else { panic!("it has a row") };
    row.to_vec()
}

fn ck(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A file of `partitions` partitions with `rows` rows each; the second is deleted, too.
fn file(partitions: i64, rows: u32) -> (Vec<u8>, Summary) {
    let mut writer = Writer::new(ID, TABLE, 5);
    let mut bytes = Vec::new();
    for partition in 0..partitions {
        let deletion = (partition == 1).then_some(Deletion { timestamp: 1, deleted_s: 1 });
        writer.partition(Token(partition * 10), &partition.to_be_bytes(), deletion);
        for number in 0..rows {
            writer.row(&ck(number), &row(i64::from(number) + 2, 60, b"a value that repeats"));
        }
        bytes.append(writer.output());
    }
    let (summary, tail) = writer.finish();
    bytes.extend(tail);
    (bytes, summary)
}

fn open(bytes: &[u8]) -> std::io::Result<(Summary, Index)> {
    let at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = read_footer(ID, bytes.len() as u64, &bytes[at..])?;
    let start = usize::try_from(footer.index.offset).unwrap();
    let index = read_index(&footer, &bytes[start..start + footer.index.bytes as usize])?;
    Ok((footer.summary, index))
}

fn block(bytes: &[u8], index: &Index, number: usize) -> std::io::Result<Block> {
    let location = index.location(number).unwrap();
    let start = usize::try_from(location.offset).unwrap();
    Block::decode(ID, location.offset, &bytes[start..start + location.bytes as usize])
}

#[test]
fn rows_of_long_keys_are_found_by_them() {
    // Their first 60,000 bytes are the same; the index has the keys of all but the short ones.
    let lengths = [60_000, 60_001, 65_534, 65_535, 65_536, 65_537, 131_072, 262_140];
    let cks: Vec<Vec<u8>> = lengths.iter().map(|length| vec![0; *length]).collect();
    let key = b"key".to_vec();
    let mut writer = Writer::new(ID, TABLE, 5);
    writer.partition(Token(1), &key, None);
    for (number, ck) in (2..).zip(&cks) {
        writer.row(ck, &row(number, 0, b"a value"));
    }
    let (_, bytes) = writer.finish();
    let (_, index) = open(&bytes).unwrap();
    assert_eq!(index.len(), cks.len());
    for (number, ck) in cks.iter().enumerate() {
        let only = Bound::Included(&ck[..]);
        let blocks = index.blocks_of_partition(Token(1), &key, only, only);
        assert!(blocks.contains(&number), "{} bytes: {blocks:?}", ck.len());
        let block = block(&bytes, &index, number).unwrap();
        let found = block.row(block.lower_bound(Token(1), &key, ck)).unwrap();
        assert_eq!((found.key, found.row.unwrap().0), (&key[..], &ck[..]));
    }
}

#[test]
fn blocks_of_large_rows_are_small_as_long_as_there_is_room_for_their_index() {
    let blocks = |room_bytes: usize, value_bytes: usize| {
        let mut writer =
            Writer::new(ID, TABLE, 5).with_index_room(super::IndexRoom::of(room_bytes));
        for token in 0..1000 {
            writer.partition(Token(token), b"key", None);
            writer.row(&ck(1), &row(2, 60, &vec![7; value_bytes]));
        }
        let (_, bytes) = writer.finish();
        let (_, index) = open(&bytes).unwrap();
        for token in 0..1000 {
            let at =
                index.blocks_of_partition(Token(token), b"key", Bound::Unbounded, Bound::Unbounded);
            let found = at.map(|number| {
                let block = block(&bytes, &index, number).unwrap();
                let row = block.row(block.lower_bound(Token(token), b"key", &[]));
                usize::from(row.is_some_and(|row| row.token == Token(token)))
            });
            assert_eq!(found.sum::<usize>(), 1, "token {token}");
        }
        index.len()
    };
    assert_eq!(blocks(1 << 20, 20), blocks(0, 20), "rows of measurements");
    let [small, some, large] = [1 << 20, 2_000, 0].map(|room_bytes| blocks(room_bytes, 1000));
    assert!((3 * large..5 * large).contains(&small), "{small} blocks instead of {large}");
    assert!((large + 20..small - 20).contains(&some), "{some}, not {large} or {small}");
}

#[test]
fn what_hardly_gets_smaller_is_not_compressed() {
    let mut random = crate::io::Random(3);
    let noise: Vec<u8> = (0..4000).map(|_| random.below(256).to_le_bytes()[0]).collect();
    let is_stored_as_it_is = |value: &[u8]| {
        let mut writer = Writer::new(ID, TABLE, 5);
        writer.partition(Token(1), b"key", None);
        writer.row(&ck(1), &row(2, 60, value));
        let (_, bytes) = writer.finish();
        let (_, index) = open(&bytes).unwrap();
        let block = block(&bytes, &index, 0).unwrap();
        assert_eq!(block.row(0).unwrap().row, Some((&ck(1)[..], &row(2, 60, value)[..])));
        bytes[4..8] == bytes[8..12]
    };
    assert!(is_stored_as_it_is(&[&noise[..], &[7; 100]].concat()), "it would save a fortieth");
    assert!(!is_stored_as_it_is(&[&noise[..], &[7; 1000]].concat()), "it saves a fifth");
}

#[test]
fn what_is_not_in_order_is_refused() {
    let written = |tokens: [i64; 2], cks: [u32; 2]| {
        let mut writer = Writer::new(ID, TABLE, 5);
        for token in tokens {
            writer.partition(Token(token), b"key", Some(Deletion { timestamp: 1, deleted_s: 1 }));
            for number in cks {
                writer.row(&ck(number), &row(2, 60, b"a value"));
            }
        }
        let (_, bytes) = writer.finish();
        open(&bytes).and_then(|(_, index)| block(&bytes, &index, 0)).map_err(|e| e.to_string())
    };
    let refused = "rows of a block are not in order".to_string();
    assert_eq!(written([1, 2], [1, 2]).unwrap().len(), 6);
    for (tokens, cks) in [([2, 1], [1, 2]), ([1, 1], [1, 2]), ([1, 2], [2, 1]), ([1, 2], [1, 1])] {
        assert_eq!(written(tokens, cks).unwrap_err(), refused);
    }
    let large = vec![7; 40_000];
    let mut writer = Writer::new(ID, TABLE, 5);
    for token in [2, 1] {
        writer.partition(Token(token), b"key", None);
        writer.row(&ck(1), &row(2, 60, &large));
    }
    let (_, bytes) = writer.finish();
    assert_eq!(open(&bytes).unwrap_err().to_string(), "the index is not in order");
}

#[test]
fn the_index_holds_no_more_of_long_keys_than_tells_them_apart() {
    let mut writer = Writer::new(ID, TABLE, 5);
    writer.partition(Token(1), b"key", None);
    let cks: Vec<Vec<u8>> = (1..100).map(|first| [vec![first], vec![0; 65_535]].concat()).collect();
    for ck in &cks {
        writer.row(ck, &row(1, 0, b"a value"));
    }
    let (_, bytes) = writer.finish();
    let (_, index) = open(&bytes).unwrap();
    assert_eq!(index.len(), cks.len());
    assert!(index.memory_bytes() < 10_000, "{} bytes", index.memory_bytes());
    for (number, ck) in cks.iter().enumerate() {
        // Between two keys there is nothing, in whichever block it is looked for.
        for (place, is_there) in [(&ck[..], true), (&ck[..1], false)] {
            let only = Bound::Included(place);
            let blocks = index.blocks_of_partition(Token(1), b"key", only, only);
            let found = blocks.map(|number| block(&bytes, &index, number).unwrap()).any(|block| {
                let row = block.row(block.lower_bound(Token(1), b"key", place));
                row.is_some_and(|row| row.row.unwrap().0 == place)
            });
            assert_eq!(found, is_there, "key {number}");
        }
    }
}

#[test]
fn a_block_takes_little_more_memory_than_its_rows() {
    let (bytes, _) = file(2, 2_000);
    let (_, index) = open(&bytes).unwrap();
    let blocks = index.len();
    assert!(blocks > 2);
    for number in 0..blocks {
        let block = block(&bytes, &index, number).unwrap();
        let kept: usize = (0..block.len())
            .filter_map(|at| block.row(at)?.row)
            .map(|(ck, row)| 7 + ck.len() + row.len())
            .sum();
        let most = kept + 16 * block.len() + 512;
        assert!(block.memory_bytes() <= most, "{} > {most}", block.memory_bytes());
    }
}

#[test]
fn every_row_reads_back_in_order() {
    let (bytes, written) = file(3, 2_000);
    let (summary, index) = open(&bytes).unwrap();
    assert_eq!(summary, written);
    assert_eq!((summary.rows, summary.bytes), (6_000, bytes.len() as u64));
    assert_eq!((summary.token_first, summary.token_last), (Token(0), Token(20)));
    assert_eq!((summary.timestamp_min, summary.timestamp_max), (1, 2_001));
    assert_eq!(summary.expires_s, 160);
    assert!(index.len() > 3, "the file has several blocks");

    let mut places = Vec::new();
    for number in 0..index.len() {
        let block = block(&bytes, &index, number).unwrap();
        for number in 0..block.len() {
            let found = block.row(number).unwrap();
            assert_eq!(found.deletion.is_some(), found.token == Token(10));
            if let Some((ck, _)) = found.row {
                assert_eq!(block.lower_bound(found.token, found.key, ck), number);
                places.push((found.token, ck.to_vec()));
            }
        }
    }
    let expected: Vec<_> = (0..3)
        .flat_map(|partition| {
            (0..2_000).map(move |number| (Token(partition * 10), ck(number).to_vec()))
        })
        .collect();
    assert!(places == expected, "rows are complete and in order");
}

/// The index may name a block too many, never one too few.
#[test]
fn the_index_finds_every_row_and_every_deletion() {
    let (bytes, _) = file(3, 700);
    let (_, index) = open(&bytes).unwrap();
    let blocks: Vec<_> = (0..index.len()).map(|n| block(&bytes, &index, n).unwrap()).collect();
    for partition in 0..3_i64 {
        for (from, to) in [(0, 0), (0, 699), (350, 360), (699, 699), (5_000, 6_000)] {
            let (token, key) = (Token(partition * 10), partition.to_be_bytes());
            let range = (ck(from), ck(to));
            let (low, high) = (Bound::Included(&range.0[..]), Bound::Included(&range.1[..]));
            let found = index.blocks_of_partition(token, &key, low, high);
            let told = [found.start, found.end - 1];
            let rows_in = |range: std::ops::Range<usize>| -> Vec<_> {
                blocks[range]
                    .iter()
                    .flat_map(|block| (0..block.len()).filter_map(|number| block.row(number)))
                    .filter(|row| row.token == token)
                    .collect()
            };
            let rows = rows_in(found);
            let inside = |row: &&super::BlockRow<'_>| {
                row.row.is_some_and(|(ck, _)| ck >= &range.0[..] && ck <= &range.1[..])
            };
            let expected = (to.min(699) + 1).saturating_sub(from) as usize;
            assert_eq!(rows.iter().filter(inside).count(), expected, "{partition} {from}..={to}");
            for told in told {
                let rows = rows_in(told..told + 1);
                let deleted = rows.iter().any(|row| row.deletion.is_some());
                assert!(!rows.is_empty(), "{partition} {from}..={to}");
                assert_eq!(deleted, partition == 1, "{partition} {from}..={to}");
            }
        }
        let (token, key) = (Token(partition * 10), partition.to_be_bytes());
        let all = index.blocks_of_partition(token, &key, Bound::Unbounded, Bound::Unbounded);
        let tokens = index.blocks_of_tokens(token.0, token.0);
        for found in [all, tokens] {
            let rows = blocks[found]
                .iter()
                .flat_map(|block| (0..block.len()).filter_map(|number| block.row(number)))
                .filter(|row| row.token == token && row.row.is_some());
            assert_eq!(rows.count(), 700);
        }
    }
}

#[test]
fn a_partition_may_be_there_for_its_deletion_alone() {
    let mut writer = Writer::new(ID, TABLE, 0);
    let deletion = Deletion { timestamp: 8, deleted_s: 2 };
    writer.partition(Token(5), b"gone", Some(deletion));
    let mut bytes = Vec::new();
    let (summary, tail) = writer.finish();
    bytes.extend(tail);
    assert_eq!((summary.timestamp_max, summary.expires_s), (8, 2));
    let (_, index) = open(&bytes).unwrap();
    let low = Bound::Included(&b"z"[..]);
    assert_eq!(index.blocks_of_partition(Token(5), b"gone", low, Bound::Unbounded), 0..1);
    let block = block(&bytes, &index, 0).unwrap();
    let found = block.row(0).unwrap();
    assert_eq!((found.deletion, found.row), (Some(deletion), None));
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let (bytes, _) = file(2, 40);
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = open(&bytes).and_then(|(_, index)| {
            (0..index.len()).try_for_each(|number| block(&bytes, &index, number).map(drop))
        });
        assert!(read.is_err(), "bit {bit}");
    }
}

#[test]
fn a_file_cut_anywhere_is_found() {
    let (bytes, _) = file(1, 10);
    for length in 0..bytes.len() {
        assert!(open(&bytes[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn a_block_from_another_place_is_found() {
    let (bytes, _) = file(1, 2_000);
    let (_, index) = open(&bytes).unwrap();
    let first = index.location(0).unwrap();
    let stored = &bytes[..first.bytes as usize];
    assert!(Block::decode(ID, 0, stored).is_ok());
    assert!(Block::decode(ID, 4096, stored).is_err());
    assert!(Block::decode(SstableId { sequence: 8, ..ID }, 0, stored).is_err());
}

#[test]
fn names_tell_what_a_file_is() {
    assert_eq!(SstableId::from_file_name(&ID.file_name()), Some(ID));
    for name in ["sst-3-1-7", "sst-00000003-0001", "log-00000003-0001-00000007", "sst-x-y-z"] {
        assert_eq!(SstableId::from_file_name(name), None, "{name}");
    }
}

/// Wherever a partition begins: before the end of a block, at it, or in a block of its own.
#[test]
fn the_block_in_which_a_cursor_begins_tells_whether_its_partition_is_deleted() {
    let deletion = Some(Deletion { timestamp: 1, deleted_s: 1 });
    let (token, key) = (Token(2), b"deleted".as_slice());
    let mut begins = std::collections::BTreeSet::new();
    for filler in BLOCK_BYTES - 120..BLOCK_BYTES {
        let mut writer = Writer::new(ID, TABLE, 0);
        writer.partition(Token(1), b"filler", None);
        writer.row(&ck(0), &row(2, 0, &vec![7; filler]));
        writer.partition(token, key, deletion);
        for number in 10..20 {
            writer.row(&ck(number), &row(2, 0, &[7; BLOCK_BYTES / 3]));
        }
        let (_, bytes) = writer.finish();
        let (_, index) = open(&bytes).unwrap();
        let blocks: Vec<_> = (0..index.len()).map(|n| block(&bytes, &index, n).unwrap()).collect();
        begins.insert((blocks[0].len(), blocks[1].len()));
        for (from, to) in (0..25).flat_map(|from| (from..25).map(move |to| (ck(from), ck(to)))) {
            let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            let found = index.blocks_of_partition(token, key, from, to);
            for near in [found.start, found.end - 1] {
                let block = &blocks[near];
                let own = block.row(block.lower_bound(token, key, &[])).unwrap();
                assert_eq!((own.token, own.key, own.deletion), (token, key, deletion));
            }
        }
    }
    assert!(begins.len() > 2, "{begins:?}");
}
