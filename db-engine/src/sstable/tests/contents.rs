//! What an sstable says that it cannot have, and what it says when it is of a version before.

use super::*;
use crate::{
    io::Random,
    mutation::{Input, RangeDeletion},
    sstable::{TombstoneTimes, checksum, clustering_span::ClusteringSpan, index::put_footer},
};

const DELETION: Deletion = Deletion { timestamp: 1, deleted_s: 1 };

/// Something of a partition: from where to where. A row is both; a deleted range is not there at
/// its end, but may be taken to be; a deleted partition is `None`.
type WrittenEntry = (Token, Option<(Vec<u8>, Vec<u8>)>);

/// A key between 1 and 20, of two bytes or of a few hundred.
fn key(number: u64, is_long: bool) -> Vec<u8> {
    let mut key = u16::try_from(number).unwrap().to_be_bytes().to_vec();
    key.resize(if is_long { 255 + usize::try_from(number % 4).unwrap() } else { 2 }, 0);
    key
}

/// A file with some partitions, of even tokens, and all that is in it.
fn random_file(random: &mut Random) -> (Vec<u8>, Vec<WrittenEntry>) {
    let [deleted, empty, ranges, rows, long] = [30, 3, 2, 2, 3].map(|one_in| {
        let one_in = if random.below(2) == 0 { u64::MAX } else { one_in };
        move |random: &mut Random| random.below(one_in) == 0
    });
    let low = random.below(10);
    let high = low + 1 + random.below(10);
    let mut written = Vec::new();
    let mut writer = Writer::new(ID, TABLE, 5)
        .with_block_bytes([1, 200, 4_000][usize::try_from(random.below(3)).unwrap()]);
    for number in 0..=random.below(12) {
        let token = Token(i64::try_from(number).unwrap() * 2);
        let deletion = deleted(random).then_some(DELETION);
        writer.partition(token, b"key", deletion);
        written.extend(deletion.map(|_| (token, None)));
        if empty(random) {
            writer.row(&[], &row(5, 0, b"static"));
            written.push((token, Some((Vec::new(), Vec::new()))));
        }
        for ck in low..high {
            let (ck, next) = (key(ck, long(random)), key(ck + 1, false));
            if ranges(random) && ck < next {
                writer.range(RangeDeletion { from: &ck, to: &next, deletion: DELETION });
                written.push((token, Some((ck.clone(), next))));
            }
            if rows(random) {
                writer.row(&ck, &row(5, 0, b"a value"));
                written.push((token, Some((ck.clone(), ck))));
            }
        }
    }
    (writer.finish().1, written)
}

/// Whether something that is from here to there, and does not end before, is between two bounds.
fn is_between(from: &[u8], to: &[u8], (low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    let is_before = match high {
        Bound::Included(high) => from > high,
        Bound::Excluded(high) => from >= high,
        Bound::Unbounded => false,
    };
    let is_behind = match low {
        Bound::Included(low) => to < low,
        Bound::Excluded(low) => to <= low,
        Bound::Unbounded => false,
    };
    !is_before && !is_behind
}

#[test]
fn what_a_file_says_it_has_not_it_has_not() {
    let (mut excluded, mut begun) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let (bytes, written) = random_file(&mut random);
        let (_, index) = open(&bytes).unwrap();
        let keys: Vec<_> = (0..22).map(|number| key(number, random.below(4) == 0)).collect();
        let all = keys.iter().map(Vec::as_slice).chain([&b""[..]]);
        let bounds = |bound: fn(&[u8]) -> Bound<&[u8]>| all.clone().map(bound);
        let bounds: Vec<_> = bounds(|key| Bound::Included(key))
            .chain(bounds(|key| Bound::Excluded(key)))
            .chain([Bound::Unbounded])
            .collect();
        for (from, to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (*from, *to))) {
            let has = |token: Token| {
                written.iter().any(|(own, entry)| {
                    let is_inside =
                        |(first, last): &(Vec<u8>, Vec<u8>)| is_between(first, last, (from, to));
                    *own == token && entry.as_ref().is_none_or(is_inside)
                })
            };
            for token in (0..30).map(Token) {
                let may_have = index.may_have(token, from, to);
                assert!(may_have || !has(token), "seed {seed}: {token:?} {from:?} {to:?}");
                excluded += u64::from(!may_have);
            }
            for reverse in [false, true] {
                let Some(place) = index.begins_at(from, to, reverse) else { continue };
                begun += 1;
                for (_, entry) in &written {
                    let (first, last) = entry.as_ref().expect("then no partition is deleted");
                    let is_before = if reverse { &**last > place } else { &**first < place };
                    let is_read = is_between(first, last, (from, to));
                    assert!(!is_before || !is_read, "seed {seed}: {from:?} {to:?} {reverse}");
                }
            }
        }
    }
    assert!(excluded > 1_000_000 && begun > 50_000, "{excluded} {begun}");
}

#[test]
fn a_file_tells_exactly_between_which_keys_it_has_something() {
    let mut writer = Writer::new(ID, TABLE, 5);
    for (token, keys) in [(1, [b"d", b"e"]), (2, [b"g", b"h"])] {
        writer.partition(Token(token), b"key", None);
        writer.row(b"", &row(5, 0, b"static"));
        for ck in keys {
            writer.row(ck, &row(5, 0, b"a value"));
        }
    }
    writer.range(RangeDeletion { from: b"k", to: b"m", deletion: DELETION });
    let (_, index) = open(&writer.finish().1).unwrap();
    let included = |key: &'static [u8]| Bound::Included(key);
    let excluded = |key: &'static [u8]| Bound::Excluded(key);
    for (from, to, may_have) in [
        (included(b""), included(b""), true),
        (excluded(b""), included(b"c"), false),
        (excluded(b""), excluded(b"d"), false),
        (excluded(b""), included(b"d"), true),
        (included(b"c"), excluded(b"d"), false),
        (included(b"f"), included(b"f"), true),
        (included(b"l"), Bound::Unbounded, true),
        (included(b"n"), Bound::Unbounded, false),
    ] {
        assert_eq!(index.may_have(Token(1), from, to), may_have, "{from:?} {to:?}");
        assert!(!index.may_have(Token(3), from, to), "{from:?} {to:?}");
    }
    assert_eq!(index.begins_at(excluded(b""), Bound::Unbounded, false), Some(&b"d"[..]));
    assert_eq!(index.begins_at(Bound::Unbounded, Bound::Unbounded, false), None, "the static row");
    assert_eq!(index.begins_at(included(b"d"), Bound::Unbounded, false), None, "at once");
    assert_eq!(index.begins_at(Bound::Unbounded, Bound::Unbounded, true), Some(&b"m"[..]));
    assert_eq!(index.begins_at(Bound::Unbounded, excluded(b"m"), true), None, "at once");
}

/// The file as if it were of this version, with what it tells of its contents in version 4 or not.
fn of_version(version: u8, tells: bool, bytes: &[u8], summary: &Summary) -> Vec<u8> {
    let footer = read_footer(ID, bytes.len() as u64, &bytes[bytes.len() - FOOTER_BYTES..]).unwrap();
    let index_at = usize::try_from(footer.index.offset).unwrap();
    let blocks = u32::try_from(open(bytes).unwrap().1.len()).unwrap();
    let mut older = bytes[..index_at].to_vec();
    let mut at = index_at;
    let mut copy = |length: usize| {
        older.extend_from_slice(&bytes[at..at + length]);
        at += length;
        bytes[..at].to_vec()
    };
    for _ in 0..blocks {
        let key = *copy(8 + 4 + 8 + 2).last_chunk::<2>().unwrap();
        copy(u16::from_le_bytes(key).into());
        let ck = *copy(4).last_chunk::<4>().unwrap();
        copy(u32::from_le_bytes(ck) as usize);
    }
    if tells {
        let mut rest = Input(&bytes[at..bytes.len() - FOOTER_BYTES]);
        let before = rest.0.len();
        ClusteringSpan::decode(&mut rest).unwrap();
        older.extend_from_slice(&bytes[at..at + before - rest.0.len()]);
        TombstoneTimes::decode(&mut rest).unwrap();
        older.extend_from_slice(rest.0);
    }
    let summary = Summary { bytes: (older.len() + FOOTER_BYTES) as u64, ..*summary };
    put_footer(&mut older, &summary, footer.index.offset, blocks);
    let (at, end) = (older.len() - FOOTER_BYTES, older.len() - 4);
    older[at + 7] = b'0' + version;
    let sum = checksum(ID, at as u64, &older[at..end]);
    older[end..].copy_from_slice(&sum.to_le_bytes());
    older
}

#[test]
fn files_of_versions_before_are_read_and_say_nothing_of_what_they_have_not() {
    let (bytes, summary) = file(2, 2_000);
    let (_, index) = open(&bytes).unwrap();
    assert!(!index.may_have(Token(5), Bound::Unbounded, Bound::Unbounded));
    assert!(index.tombstone_times().is_some());
    for version in [2, 3, 4] {
        let older = of_version(version, version == 4, &bytes, &summary);
        let (_, found) = open(&older).unwrap();
        let may_have = found.may_have(Token(5), Bound::Unbounded, Bound::Unbounded);
        assert_eq!(may_have, version < 4);
        let begins_at = found.begins_at(Bound::Unbounded, Bound::Unbounded, false);
        let told = index.begins_at(Bound::Unbounded, Bound::Unbounded, false);
        assert_eq!(begins_at, told.filter(|_| version == 4));
        assert_eq!(found.len(), index.len());
        assert_eq!(found.tombstone_times(), None);
        let all = (0..index.len()).all(|block| found.location(block) == index.location(block));
        assert!(all, "version {version}");
    }
    for (version, tells) in [(4, false), (5, true), (5, false), (6, true)] {
        let other = of_version(version, tells, &bytes, &summary);
        assert!(open(&other).is_err(), "without what version {version} has");
    }
}
