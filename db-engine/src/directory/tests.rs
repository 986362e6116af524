use super::manifest::{
    Change, checkpoint_name, decode_checkpoint, decode_journal, encode_change, encode_checkpoint,
    journal_name, parse_name,
};
use crate::{
    mutation::{TableNumber, Token},
    sstable::{SstableId, Summary, Writer},
};

const ID: SstableId = SstableId { epoch: 3, shard: 1, sequence: 7 };

fn summary() -> Summary {
    let mut writer = Writer::new(ID, TableNumber(9), 5);
    writer.partition(Token(10), b"key", None);
    writer.finish().0
}

#[test]
fn names_of_manifests_tell_what_they_are() {
    assert_eq!(parse_name(&checkpoint_name(4)), Some((4, None)));
    assert_eq!(parse_name(&journal_name(4, 2)), Some((4, Some(2))));
    for name in ["manifest-4", "manifest-00000004-2", "manifest-00000004.tmp", "manifest"] {
        assert_eq!(parse_name(name), None, "{name}");
    }
}

#[test]
fn a_checkpoint_reads_back_and_a_damaged_one_does_not() {
    let summary = summary();
    let bytes = encode_checkpoint(6, &[summary, summary]);
    assert_eq!(decode_checkpoint(6, &bytes).unwrap(), [summary, summary]);
    assert!(decode_checkpoint(7, &bytes).is_err());
    for length in 0..bytes.len() {
        assert!(decode_checkpoint(6, &bytes[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_checkpoint(6, &bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_journal_cut_anywhere_keeps_the_changes_before_the_cut() {
    let summary = summary();
    let changes = [
        Change::Add(vec![summary, summary]),
        Change::Flushed { floor: 4, sequence: 90 },
        Change::Remove(vec![ID]),
        Change::Add(vec![]),
    ];
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for change in &changes {
        encode_change(6, 1, bytes.len() as u64, change, &mut bytes);
        ends.push(bytes.len());
    }
    for length in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(decode_journal(6, 1, &bytes[..length]), changes[..whole], "cut at {length}");
    }
    assert_eq!(decode_journal(6, 2, &bytes), [], "a journal of another shard");
    bytes.resize(bytes.len() + 64, 0);
    assert_eq!(decode_journal(6, 1, &bytes), changes, "zeros are no change");
}
