//! The memtable against the oracle, on every kind of workload that the leaves tell apart.

use std::ops::Bound;

use super::{Memtable, Pool, RowVersions, Unapplied, is_range, oracle::Oracle};
use crate::{
    io::{ManualClock, Random, TimeSlice},
    mutation::{Builder, MutationView, RowBuilder, RowView, TableNumber, Token, Write, merge},
};

const ROUNDS: u64 = 40;
const MUTATIONS: u64 = 1_500;

/// In which order clustering keys come.
#[derive(Clone, Copy, Debug)]
enum Order {
    Ascending,
    Descending,
    Anywhere,
    /// Many share their first sixteen bytes, and some are prefixes of others.
    Alike,
    /// As [`Order::Alike`], and some are longer than a `u16` can count.
    Long,
    /// Three rows, which get large.
    Few,
}

/// The column that has elements, and how many.
const MAP: u16 = 7;
const ELEMENTS: u64 = 200;

const ORDERS: [Order; 6] =
    [Order::Ascending, Order::Descending, Order::Anywhere, Order::Alike, Order::Long, Order::Few];

fn ck(order: Order, number: u64, random: &mut Random) -> Vec<u8> {
    match order {
        Order::Ascending => (number + random.below(3)).to_be_bytes().to_vec(),
        Order::Descending => (MUTATIONS * 4 - number + random.below(3)).to_be_bytes().to_vec(),
        Order::Anywhere => random.below(MUTATIONS).to_be_bytes().to_vec(),
        Order::Alike => {
            let length = usize::try_from(random.below(20)).unwrap();
            let mut ck = vec![0; length];
            ck.iter_mut().skip(14).for_each(|byte| *byte = u8::from(random.below(2) == 0));
            ck
        }
        Order::Long => {
            let length = usize::try_from(random.below(40)).unwrap();
            vec![0; if length < 37 { length } else { 65_535 - 38 + length }]
        }
        Order::Few => vec![u8::try_from(random.below(3)).unwrap()],
    }
}

fn mutation(order: Order, number: u64, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Two keys of one token: a hash is not an identity.
    let partition = random.below(4);
    let token = Token(i64::try_from(partition / 2).unwrap() - 1);
    let mut builder = Builder::new(&mut bytes, TableNumber(1), token, &partition.to_be_bytes());
    let now_s = 1_000 + i64::try_from(random.below(3)).unwrap();
    let timestamp = i64::try_from(random.below(50)).unwrap();
    let ttl_s = if random.below(5) == 0 { 60 } else { 0 };
    let write = Write { timestamp, ttl_s, now_s };
    if random.below(200) == 0 {
        builder.delete_partition(&write);
    }
    if random.below(20) == 0 {
        let mut ends = [(); 2].map(|()| ck(order, number, random));
        ends.sort();
        let [from, to] = ends;
        if !from.is_empty() && from < to {
            builder.delete_range(&from, &to, &write);
        }
    }
    for _ in 0..random.below(4) {
        let ck = ck(order, number, random);
        if random.below(20) == 0 {
            builder.delete_row(&ck, &write);
            continue;
        }
        let mut row = builder.row(&ck, &write, random.below(4) != 0);
        for column in 0..3 {
            match random.below(4) {
                0 => row.tombstone(column),
                1 | 2 => {
                    // Now and then one that is larger than a chunk's share.
                    let bytes = if random.below(300) == 0 { 20_000 } else { 40 };
                    let length = usize::try_from(random.below(bytes)).unwrap();
                    row.cell(column, &vec![7; length])
                }
                _ => &mut row,
            };
        }
        elements(&mut row, timestamp, random);
    }
    builder.finish().unwrap();
    bytes
}

/// Some elements, now and then in the place of all others.
fn elements(row: &mut RowBuilder<'_>, timestamp: i64, random: &mut Random) {
    if random.below(40) == 0 {
        row.delete_elements(MAP, timestamp - 1);
    }
    let first = random.below(ELEMENTS);
    for path in first..first + random.below(4) {
        if random.below(4) == 0 {
            row.element_tombstone(MAP, &path.to_be_bytes());
        } else {
            let length = usize::try_from(random.below(40)).unwrap();
            row.element(MAP, &path.to_be_bytes(), &vec![9; length]);
        }
    }
}

fn bound(ck: &[u8], random: &mut Random) -> Bound<Vec<u8>> {
    match random.below(3) {
        0 => Bound::Included(ck.to_vec()),
        1 => Bound::Excluded(ck.to_vec()),
        _ => Bound::Unbounded,
    }
}

fn compare(memtable: &Memtable, oracle: &Oracle, order: Order, random: &mut Random) {
    let found: Vec<_> = memtable.in_order(Token(i64::MIN), &[]).collect();
    let places = found.iter().map(|partition| (partition.token, partition.key.to_vec()));
    assert!(places.eq(oracle.partitions.keys().cloned()), "the same partitions");
    let rows: usize = oracle.partitions.values().map(|partition| partition.rows.len()).sum();
    assert_eq!(memtable.rows(), rows);
    assert_eq!(memtable.timestamp_min(), oracle.timestamp_min);
    for ((token, key), expected) in &oracle.partitions {
        let partition = memtable.partition(*token, key).unwrap();
        assert_eq!(memtable.in_order(*token, key).next().unwrap().key, key);
        assert_eq!(partition.deletion, expected.deletion);
        let merged = |row: RowVersions<'_>| (row.ck.to_vec(), row.merged().into_owned());
        let rows = expected.rows.clone();
        assert!(partition.rows().map(merged).eq(rows), "the same rows");
        for row in partition.rows() {
            let (ck, covering) = (row.ck, expected.covering(row.ck));
            assert_eq!(memtable.range_deletion(*token, key, ck), covering, "{ck:?}");
        }
        for _ in 0..20 {
            let ends = [(); 2].map(|()| ck(order, random.below(MUTATIONS), random));
            let ends = ends.map(|ck| bound(&ck, random));
            let [from, to] = ends.each_ref().map(|end| end.as_ref().map(Vec::as_slice));
            let range = is_range(from, to).then(|| expected.rows.range::<[u8], _>((from, to)));
            let rows = range.into_iter().flatten();
            let rows: Vec<_> = rows.map(|(ck, row)| (ck.clone(), row.clone())).collect();
            let found = partition.range(from, to).map(merged);
            assert!(found.eq(rows.iter().cloned()), "{from:?} to {to:?}");
            let backwards = partition.range(from, to).rev().map(merged);
            assert!(backwards.eq(rows.into_iter().rev()), "{to:?} back to {from:?}");
        }
    }
}

/// Applies a mutation in slices of so much time, which does not go by; says how many.
fn apply_bit_by_bit(
    memtable: &mut Memtable,
    mutation: &MutationView<'_>,
    pool: &mut Pool,
    us: u64,
) -> u32 {
    let (clock, mut left) = (ManualClock::at(0), Unapplied::default());
    let mut slices = 1;
    while !memtable.apply_some(mutation, &mut left, pool, &mut TimeSlice::new(&clock, us)) {
        slices += 1;
    }
    slices
}

#[test]
fn a_deletion_of_many_rows_goes_on_where_it_was() {
    let write = |timestamp| Write { timestamp, ttl_s: 0, now_s: 0 };
    let (from, to) = (100_u32.to_be_bytes(), 4_900_u32.to_be_bytes());
    for (is_range, expected) in [(true, 1_800), (false, 1_666)] {
        let (mut memtable, mut pool) = (Memtable::default(), Pool::new(0));
        for (number, timestamp) in (0..5_000_u32).zip([1, 1, 9].into_iter().cycle()) {
            let mut bytes = Vec::new();
            let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
            builder.row(&number.to_be_bytes(), &write(timestamp), true).cell(0, b"value");
            builder.finish().unwrap();
            memtable.apply(&MutationView::parse(&bytes).unwrap(), &mut pool);
        }
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
        if is_range {
            builder.delete_range(&from, &to, &write(5));
        } else {
            builder.delete_partition(&write(5));
        }
        builder.finish().unwrap();
        let view = MutationView::parse(&bytes).unwrap();
        let slices = apply_bit_by_bit(&mut memtable, &view, &mut pool, 0);
        assert!(slices > 5, "{slices}");
        let partition = memtable.partition(Token(1), b"key").unwrap();
        assert_eq!((partition.rows().count(), memtable.rows()), (expected, expected));
    }
}

#[test]
fn a_deletion_over_many_newer_ranges_goes_on_where_it_was() {
    const RANGES: u32 = 5_000;
    let apply = |memtable: &mut Memtable, (from, to): (u32, u32), timestamp, us| {
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
        let write = Write { timestamp, ttl_s: 0, now_s: 0 };
        builder.delete_range(&from.to_be_bytes(), &to.to_be_bytes(), &write);
        builder.finish().unwrap();
        let view = MutationView::parse(&bytes).unwrap();
        apply_bit_by_bit(memtable, &view, &mut Pool::new(0), us)
    };
    let mut memtable = Memtable::default();
    for number in 0..RANGES {
        assert_eq!(apply(&mut memtable, (4 * number, 4 * number + 2), 9, 0), 1);
    }
    let slices = apply(&mut memtable, (1, 4 * RANGES), 5, 0);
    let pieces = RANGES / u32::try_from(super::PIECE_RANGES).unwrap();
    assert!((pieces / 2..2 * pieces).contains(&slices), "{slices}");
    let found: Vec<_> = memtable
        .partition(Token(1), b"key")
        .and_then(|partition| partition.ranges)
        .map(|ranges| ranges.beginning_from(Bound::Unbounded).map(|one| one.deletion.timestamp))
        .unwrap()
        .collect();
    assert_eq!(found, [9, 5].repeat(RANGES as usize));
}

/// Rows with timestamps ahead of those of deletions stay, and are not looked at each time.
#[test]
fn deletions_look_at_what_they_take_from() {
    const ROWS: u32 = 20_000;
    const LEAF: usize = 64;
    let (mut memtable, mut pool) = (Memtable::default(), Pool::new(0));
    let mut apply =
        |memtable: &mut Memtable, timestamp, fill: &dyn Fn(&mut Builder<'_>, &Write)| {
            let mut bytes = Vec::new();
            let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
            fill(&mut builder, &Write { timestamp, ttl_s: 0, now_s: 0 });
            builder.finish().unwrap();
            memtable.apply(&MutationView::parse(&bytes).unwrap(), &mut pool);
        };
    for number in 0..ROWS {
        // Every hundredth has something old, besides.
        let timestamp = if number % 100 == 7 { 5 } else { 1_000 };
        apply(&mut memtable, timestamp, &|builder, write| {
            builder.row(&number.to_be_bytes(), write, true).cell(0, b"old");
            let ahead = Write { timestamp: 1_000, ..*write };
            builder.row(&number.to_be_bytes(), &ahead, false).cell(1, b"ahead");
        });
    }
    let looked_at = |memtable: &Memtable| memtable.partitions.get(0).rows.looked_at;
    let delete = |builder: &mut Builder<'_>, write: &Write| {
        if write.timestamp % 2 == 0 {
            builder.delete_partition(write);
        } else {
            builder.delete_range(&100_u32.to_be_bytes(), &19_900_u32.to_be_bytes(), write);
        }
    };
    apply(&mut memtable, 10, &delete);
    assert_eq!(memtable.rows(), ROWS as usize);
    let first = looked_at(&memtable);
    assert!(first > 0);
    for timestamp in 11..110 {
        apply(&mut memtable, timestamp, &delete);
    }
    assert_eq!(looked_at(&memtable), first, "nothing was left to take");
    for number in 0..100_u32 {
        let timestamp = 110 + 3 * i64::from(number);
        apply(&mut memtable, timestamp, &|builder, write| {
            let ck = [&(number * 31 + 500).to_be_bytes()[..], b"new"].concat();
            builder.row(&ck, write, true).cell(0, b"old");
        });
        assert_eq!(memtable.rows(), ROWS as usize + 1);
        apply(&mut memtable, timestamp + 1, &delete);
        assert_eq!(memtable.rows(), ROWS as usize);
    }
    let more = looked_at(&memtable) - first;
    assert!((100..=100 * LEAF).contains(&more), "{more}");
}

#[test]
fn holds_what_an_ordered_map_would_whatever_the_order_of_keys() {
    for order in ORDERS {
        // Memory goes from one to the next, so what was in it before must not matter.
        let mut pool = Pool::new(1 << 20);
        for seed in 0..ROUNDS {
            println!("{order:?}, seed {seed}");
            let mut random = Random(seed);
            let (mut memtable, mut oracle) = (Memtable::default(), Oracle::default());
            for number in 0..MUTATIONS {
                let bytes = mutation(order, number, &mut random);
                let view = MutationView::parse(&bytes).unwrap();
                view.check().unwrap();
                apply_bit_by_bit(&mut memtable, &view, &mut pool, number % 2);
                oracle.apply(&view);
            }
            compare(&memtable, &oracle, order, &mut random);
            memtable.recycle(&mut pool, &mut TimeSlice::endless());
        }
    }
}

/// All that a memtable holds, as equal cells are always encoded.
fn contents(memtable: &Memtable) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    let partitions = memtable.in_order(Token(i64::MIN), &[]);
    let partitions = partitions.map(|partition| {
        let rows = partition.rows().map(|row| {
            let (merged, mut encoded) = (row.merged(), Vec::new());
            merge(&merged, &merged, &mut encoded);
            (row.ck.to_vec(), encoded)
        });
        (partition.key.to_vec(), partition.deletion, rows.collect::<Vec<_>>())
    });
    partitions.collect()
}

#[test]
fn the_same_writes_in_any_order_make_the_same_rows() {
    let mut pool = Pool::new(1 << 20);
    for (order, seed) in ORDERS.into_iter().flat_map(|order| (0..4).map(move |seed| (order, seed)))
    {
        println!("{order:?}, seed {seed}");
        let mut random = Random(seed);
        let mut writes: Vec<_> =
            (0..MUTATIONS).map(|number| mutation(order, number, &mut random)).collect();
        let [first, second] = [(); 2].map(|()| {
            let mut memtable = Memtable::default();
            for bytes in &writes {
                memtable.apply(&MutationView::parse(bytes).unwrap(), &mut pool);
            }
            for at in (1..writes.len()).rev() {
                writes.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
            }
            contents(&memtable)
        });
        assert_eq!(first, second);
    }
}

/// Writes to one row of a memtable, each time by a mutation of its own.
struct OneRow {
    memtable: Memtable,
    pool: Pool,
}

impl OneRow {
    fn new() -> Self {
        Self { memtable: Memtable::default(), pool: Pool::new(0) }
    }

    fn write(&mut self, timestamp: i64, fill: impl FnOnce(&mut RowBuilder<'_>)) {
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
        fill(&mut builder.row(b"ck", &Write { timestamp, ttl_s: 0, now_s: 0 }, false));
        builder.finish().unwrap();
        self.memtable.apply(&MutationView::parse(&bytes).unwrap(), &mut self.pool);
    }

    fn row(&self) -> Vec<u8> {
        let partition = self.memtable.partition(Token(1), b"key").unwrap();
        partition.rows().next().unwrap().merged().into_owned()
    }

    fn merged_bytes(&self) -> usize {
        self.memtable.layers.merged_bytes
    }
}

#[test]
fn an_element_costs_what_it_is_and_not_its_row() {
    const ELEMENTS: u32 = 100_000;
    let mut map = OneRow::new();
    for element in 0..ELEMENTS {
        // In no order.
        let path = element.wrapping_mul(2_654_435_761).to_be_bytes();
        map.write(1, |row| {
            row.element(MAP, &path, b"a value");
        });
    }
    let row = map.row();
    assert_eq!(RowView::parse(&row).unwrap().cells().count(), ELEMENTS as usize);
    // The logarithm of how many there are, and not their number.
    let copied = map.merged_bytes() / row.len();
    assert!(copied < 40, "each byte of the row was copied {copied} times");
    let taken = map.memtable.bytes();
    assert!(taken < 4 * row.len(), "{taken} bytes for a row of {}", row.len());

    for element in 0..ELEMENTS {
        let path = element.wrapping_mul(2_654_435_761).to_be_bytes();
        map.write(2, |row| {
            row.element_tombstone(MAP, &path);
        });
    }
    let row = map.row();
    assert!(!RowView::parse(&row).unwrap().is_live(0));
    let copied = map.merged_bytes() / row.len();
    assert!(copied < 80, "each byte of the row was copied {copied} times");
    let taken = map.memtable.bytes();
    assert!(taken < 4 * row.len(), "{taken} bytes for a row of {}", row.len());
}

#[test]
fn a_small_update_of_a_large_row_costs_what_it_is() {
    const MIB: usize = 1 << 20;
    let mut large = OneRow::new();
    large.write(1, |row| {
        row.cell(0, &vec![7; MIB]);
    });
    for update in 0..1_000 {
        large.write(update, |row| {
            row.cell(1 + u16::try_from(update % 10).unwrap(), b"new");
        });
    }
    assert!(large.merged_bytes() < MIB, "{} bytes were copied", large.merged_bytes());
    assert!(large.memtable.bytes() < MIB + 10_000, "{} bytes", large.memtable.bytes());
    assert_eq!(RowView::parse(&large.row()).unwrap().cells().count(), 11);
    // What is as large as the row is merged with it, and does not lie beside it.
    for timestamp in 1_000..1_010 {
        large.write(timestamp, |row| {
            row.cell(0, &vec![8; MIB]);
        });
    }
    assert!(large.memtable.bytes() < MIB + 10_000, "{} bytes", large.memtable.bytes());
    assert_eq!(RowView::parse(&large.row()).unwrap().cells().count(), 11);
}

#[test]
fn a_row_that_is_written_again_takes_no_more_memory() {
    let (mut memtable, mut pool) = (Memtable::default(), Pool::new(0));
    let mut bytes = Vec::new();
    let write = |timestamp| Write { timestamp, ttl_s: 0, now_s: 0 };
    let mut used = Vec::new();
    for timestamp in 0..100 {
        bytes.clear();
        let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
        builder.row(b"ck", &write(timestamp), true).cell(0, &[7; 1_000]);
        builder.finish().unwrap();
        memtable.apply(&MutationView::parse(&bytes).unwrap(), &mut pool);
        used.push(memtable.bytes());
    }
    assert!(used[0] > 1_000);
    assert_eq!(used.first(), used.last());
}

#[test]
fn a_large_row_that_grows_by_little_is_there_once() {
    const MIB: usize = 1 << 20;
    let (mut memtable, mut pool) = (Memtable::default(), Pool::new(0));
    let mut apply = |ck: &[u8], columns: std::ops::Range<u16>, value: &[u8]| {
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TableNumber(1), Token(1), b"key");
        for column in columns {
            let write = Write { timestamp: 1, ttl_s: 0, now_s: 1 };
            builder.row(ck, &write, true).cell(column, value);
        }
        builder.finish().unwrap();
        memtable.apply(&MutationView::parse(&bytes).unwrap(), &mut pool);
        (memtable.bytes(), memtable.arena.memory_bytes())
    };
    apply(b"a", 0..1, &vec![7; MIB]);
    apply(b"b", 0..1, &vec![7; 15_000]);
    // One mutation with a thousand cells, then a thousand mutations of one.
    apply(b"a", 1..1_000, b"small");
    apply(b"b", 1..1_000, b"small");
    let mut last = (0, 0);
    for column in 1_000..2_000 {
        apply(b"a", column..column + 1, b"small");
        last = apply(b"b", column..column + 1, b"small");
    }
    let (counted, real) = last;
    assert!(real < MIB + MIB / 2, "{real} bytes for a row of a mebibyte and a small one");
    assert!(counted + (64 << 10) >= real, "{counted} of {real} bytes are counted");
    let partition = memtable.partition(Token(1), b"key").unwrap();
    for row in partition.rows() {
        assert_eq!(RowView::parse(&row.merged()).unwrap().cells().count(), 2_000);
    }
}
