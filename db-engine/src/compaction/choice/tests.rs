use super::{Candidate, LATE_PART, PATIENCE, Selection, choose, choose_all};
use crate::{
    compaction::expiry::{Extent, droppable},
    io::Random,
    schema::{SizeTiers, TableSettings},
};
use std::collections::{BTreeMap, BTreeSet};

const HOUR_US: i64 = 3_600_000_000;
const MIB: u64 = 1 << 20;

fn settings(window_us: Option<i64>) -> TableSettings {
    let tiers = Some(SizeTiers::default());
    TableSettings { window_us, tiers, ..TableSettings::default() }
}

/// One of so many bytes, of an hour.
fn of_hour(hour: i64, bytes: u64) -> Candidate {
    let timestamp_min = hour * HOUR_US;
    let timestamp_max = timestamp_min + HOUR_US - 1;
    Candidate { bytes, window: hour, timestamp_min, timestamp_max }
}

fn chosen(settings: &TableSettings, sizes: &[u64]) -> Option<Vec<usize>> {
    let all: Vec<_> = sizes.iter().map(|bytes| of_hour(0, *bytes)).collect();
    choose(settings, &all, i64::MAX, usize::MAX).map(|choice| choice.places)
}

#[test]
fn sstables_of_the_same_size_are_merged_when_there_are_enough() {
    let plain = settings(None);
    let sized = |sizes: &[u64]| {
        let sizes: Vec<u64> = sizes.iter().map(|size| size * MIB).collect();
        chosen(&plain, &sizes)
    };
    assert_eq!(sized(&[]), None);
    assert_eq!(sized(&[1, 1, 1]), None);
    assert_eq!(sized(&[1, 1, 1, 1]), Some(vec![0, 1, 2, 3]));
    assert_eq!(sized(&[1, 4, 1, 4, 1]), None);
    assert_eq!(sized(&[4, 1, 4, 16, 4, 1, 4]), Some(vec![0, 2, 4, 6]), "of the larger ones");
    assert_eq!(sized(&[4, 1, 4, 1, 4, 1, 4, 1]), Some(vec![1, 3, 5, 7]), "the smaller ones first");
    assert_eq!(sized(&[1; 100]).map(|places| places.len()), Some(32));
    assert_eq!(chosen(&plain, &[1, 60, 600, 6_000]), Some(vec![0, 1, 2, 3]), "all are small");
}

#[test]
fn options_are_heeded() {
    let with = |change: fn(&mut SizeTiers)| {
        let mut tiers = SizeTiers::default();
        change(&mut tiers);
        TableSettings { tiers: Some(tiers), ..settings(None) }
    };
    let sizes = [MIB; 6];
    assert_eq!(chosen(&TableSettings { tiers: None, ..settings(None) }, &sizes), None);
    assert_eq!(chosen(&with(|tiers| tiers.min_threshold = 7), &sizes), None);
    let some = chosen(&with(|tiers| tiers.max_threshold = 5), &sizes);
    assert_eq!(some.map(|places| places.len()), Some(5));
    let sizes = [8 * MIB, 9 * MIB, 12 * MIB, 10 * MIB];
    assert!(chosen(&settings(None), &sizes).is_some());
    assert_eq!(chosen(&with(|tiers| tiers.bucket_high = 1.2), &sizes), None);
    let sizes = [MIB, 4 * MIB, 16 * MIB, 64 * MIB];
    assert_eq!(chosen(&settings(None), &sizes), None);
    assert!(chosen(&with(|tiers| tiers.min_sstable_bytes = 65 * MIB), &sizes).is_some());
    let low = with(|tiers| {
        (tiers.bucket_low, tiers.bucket_high) = (0.1, 100.0);
    });
    assert!(chosen(&low, &sizes).is_some());
}

#[test]
fn a_window_that_is_over_becomes_one_sstable_and_what_is_late_does_not_rewrite_it() {
    let hourly = settings(Some(HOUR_US));
    let next = |all: &[Candidate], now_us| choose(&hourly, all, now_us, usize::MAX);
    let now_us = 3 * HOUR_US;
    let mut all = vec![of_hour(1, 5 * MIB), of_hour(1, MIB), of_hour(2, MIB)];
    assert_eq!(next(&all, now_us), Some(Selection { places: vec![1, 0], splits: false }));
    assert_eq!(next(&all[..2], now_us), None, "nothing newer is there");
    all[1].bytes = 5 * MIB / LATE_PART - 1;
    assert_eq!(next(&all, now_us), None, "it is late");
    // A client whose clock is years ahead ends no window.
    let all = [of_hour(1, 5 * MIB), of_hour(1, MIB), of_hour(1_000_000, MIB)];
    assert_eq!(next(&all, HOUR_US), None);
    assert!(next(&all, now_us).is_some());
}

#[test]
fn the_window_at_hand_waits_for_more() {
    let hourly = settings(Some(HOUR_US));
    let few = vec![of_hour(1, MIB); PATIENCE * 4 - 1];
    assert_eq!(choose(&hourly, &few, HOUR_US, usize::MAX), None);
    let enough = vec![of_hour(1, MIB); PATIENCE * 4];
    let choice = choose(&hourly, &enough, HOUR_US, usize::MAX).unwrap();
    assert_eq!(choice.places.len(), PATIENCE * 4);
    assert_eq!(choose(&hourly, &enough, HOUR_US, 10).unwrap().places.len(), 10);
    assert_eq!(choose(&hourly, &enough, HOUR_US, 1), None);
}

#[test]
fn an_sstable_of_other_windows_is_split_if_it_spans_several() {
    let hourly = settings(Some(HOUR_US));
    let [one, two] = [1, 2].map(|hour| of_hour(hour, MIB));
    let both = Candidate { window: 0, timestamp_max: two.timestamp_max, ..one };
    let all = [two, both];
    let choice = Selection { places: vec![1], splits: true };
    assert_eq!(choose(&hourly, &all, 9 * HOUR_US, usize::MAX), Some(choice));
    let renamed = [Candidate { window: 24, ..one }, two];
    assert_eq!(choose(&hourly, &renamed, 9 * HOUR_US, usize::MAX), None, "it spans one");
    let with_old_cell = [Candidate { timestamp_min: 0, ..two }];
    assert_eq!(choose(&hourly, &with_old_cell, 9 * HOUR_US, usize::MAX), None);
}

/// Carries choices out until there are none; how many there were.
fn settle(settings: &TableSettings, all: &mut Vec<Candidate>, now_us: i64, most: usize) -> u32 {
    let mut written = 0;
    while let Some(choice) = choose(settings, all, now_us, most) {
        written += 1;
        let places: BTreeSet<usize> = choice.places.iter().copied().collect();
        assert_eq!(places.len(), choice.places.len(), "each is there once");
        assert!(places.len() >= 2 && places.len() <= most && !choice.splits, "{choice:?}");
        let mut merged = all[choice.places[0]];
        for place in &choice.places[1..] {
            let one = all[*place];
            let mixes = settings.window_us.is_some() && one.window != merged.window;
            assert!(!mixes, "windows are not mixed");
            merged.bytes += one.bytes;
            merged.timestamp_min = merged.timestamp_min.min(one.timestamp_min);
            merged.timestamp_max = merged.timestamp_max.max(one.timestamp_max);
        }
        let mut place = 0;
        all.retain(|_| {
            place += 1;
            !places.contains(&(place - 1))
        });
        all.push(merged);
    }
    written
}

/// After all choices a window that is over is one large sstable and little beside it; and of all
/// others there are no four of the same size.
fn check_settled(all: &[Candidate], hours: Option<i64>) {
    let mut windows: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for one in all {
        windows.entry(hours.map_or(0, |_| one.window)).or_default().push(one.bytes);
    }
    let newest = windows.keys().last().copied();
    for (window, mut sizes) in windows {
        sizes.sort_unstable();
        let is_newest = Some(window) == newest;
        if hours.is_some() && !is_newest {
            let largest = sizes.pop().unwrap();
            let rest: u64 = sizes.iter().sum();
            assert!(
                sizes.is_empty() || rest * LATE_PART < largest,
                "{window}: {largest} {sizes:?}"
            );
        } else if hours.is_some() && sizes.len() < PATIENCE * 4 {
            continue;
        }
        for four in sizes.windows(4) {
            // Where the first of a tier is depends on what is smaller; alike are these for sure.
            assert!(four[0] != four[3], "{window}: {sizes:?}");
            assert!(four[3] >= 64 << 10, "{window}: {sizes:?}");
        }
    }
}

/// Every multiset of up to seven sstables of four sizes, in one window or two.
#[test]
fn whatever_there_is_few_are_left() {
    const SIZES: [u64; 4] = [1 << 10, MIB, 4 * MIB, 15 * MIB];
    for hours in [None, Some(HOUR_US)] {
        for counts in 0..8_usize.pow(4) {
            let counts = [counts % 8, counts / 8 % 8, counts / 64 % 8, counts / 512];
            if counts.iter().sum::<usize>() > 7 {
                continue;
            }
            for newer in [false, true] {
                let sizes = SIZES.iter().zip(counts);
                let mut all: Vec<_> = sizes
                    .flat_map(|(size, count)| std::iter::repeat_n(of_hour(0, *size), count))
                    .collect();
                all.extend(newer.then(|| of_hour(1, MIB)));
                let bytes: u64 = all.iter().map(|one| one.bytes).sum();
                settle(&settings(hours), &mut all, 9 * HOUR_US, usize::MAX);
                assert_eq!(all.iter().map(|one| one.bytes).sum::<u64>(), bytes);
                check_settled(&all, hours);
            }
        }
    }
}

#[test]
fn many_sstables_of_any_size_settle_in_few_steps() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let hours = random.one_of(&[None, Some(HOUR_US)]);
        let count = 1 + random.below(700);
        let mut all = Vec::new();
        for _ in 0..count {
            let bytes = 100 + random.next_u64() % (1 << (10 + random.below(20)));
            all.push(of_hour(random.below(5).cast_signed(), bytes));
        }
        let most = random.one_of(&[2, 5, 32, usize::MAX]);
        let steps = settle(&settings(hours), &mut all, 9 * HOUR_US, most);
        assert!(u64::from(steps) < count, "each step makes one of several");
        let left: usize = if hours.is_some() { 5 * 70 } else { 70 };
        assert!(all.len() < left, "seed {seed}: {} of {count} are left", all.len());
        if most > 5 {
            check_settled(&all, hours);
        }
    }
}

/// What a table of measurements came to.
#[derive(Debug)]
struct Days {
    /// Bytes written by flushes and compactions for each that came.
    written: f64,
    /// The most sstables at a time, in the window at hand and in any other.
    newest: usize,
    older: usize,
    /// The most windows at a time.
    windows: usize,
}

/// Some days of a table whose rows live for 18 hours, with windows of an hour, so many
/// flushes in each, and rows that come up to a day late.
fn live(flushes: i64, late_percent: u64) -> Days {
    const TTL_US: i64 = 18 * HOUR_US;
    const FLUSH_BYTES: u64 = 100_000_000;
    let hourly = settings(Some(HOUR_US));
    let mut all: Vec<(Candidate, i64)> = Vec::new();
    let (mut came, mut written) = (0, 0);
    let mut days = Days { written: 0.0, newest: 0, older: 0, windows: 0 };
    for flush in 0..flushes * 24 * 3 {
        let now_us = (flush + 1) * HOUR_US / flushes;
        let late = FLUSH_BYTES * late_percent / 100;
        let part = |hour: i64, bytes: u64| {
            let begin = hour * HOUR_US;
            let timestamp_max = (begin + HOUR_US).min(now_us) - 1;
            let one = Candidate { bytes, window: hour, timestamp_min: begin, timestamp_max };
            (one, now_us + TTL_US)
        };
        let newest = (now_us - 1) / HOUR_US;
        all.push(part(newest, FLUSH_BYTES - late));
        all.extend((1..=24).filter(|_| late > 0).map(|ago| part(newest - ago, late / 24)));
        came += FLUSH_BYTES;
        written += FLUSH_BYTES;
        loop {
            let candidates: Vec<Candidate> = all.iter().map(|one| one.0).collect();
            let Some(choice) = choose(&hourly, &candidates, now_us, 32) else { break };
            let own = |place: &usize| all[*place];
            let (mut merged, mut expires_us) = own(&choice.places[0]);
            for (one, expires) in choice.places[1..].iter().map(own) {
                merged.bytes += one.bytes;
                merged.timestamp_max = merged.timestamp_max.max(one.timestamp_max);
                expires_us = expires_us.max(expires);
            }
            written += merged.bytes;
            let mut place = 0;
            all.retain(|_| {
                place += 1;
                !choice.places.contains(&(place - 1))
            });
            all.push((merged, expires_us));
        }
        let extents: Vec<Extent> = all
            .iter()
            .map(|(one, expires_us)| Extent {
                timestamp_min: one.timestamp_min,
                timestamp_max: one.timestamp_max,
                expires_s: *expires_us,
            })
            .collect();
        // What is in memory is late by a day at most, too.
        let unflushed = Some((newest - 24) * HOUR_US);
        for place in droppable(&extents, unflushed, now_us).into_iter().rev() {
            all.remove(place);
        }
        let mut windows: BTreeMap<i64, usize> = BTreeMap::new();
        for (one, _) in &all {
            *windows.entry(one.window).or_default() += 1;
        }
        days.windows = days.windows.max(windows.len());
        days.newest = days.newest.max(windows.remove(&newest).unwrap_or(0));
        days.older = days.older.max(windows.into_values().max().unwrap_or(0));
    }
    #[allow(clippy::cast_precision_loss)]
    {
        days.written = written as f64 / came as f64;
    }
    days
}

#[test]
fn days_of_measurements_cost_few_bytes_and_leave_few_sstables() {
    for (flushes, late_percent, most) in [(24, 1, 3.0), (24, 10, 5.0), (60, 10, 5.0)] {
        let days = live(flushes, late_percent);
        let what = format!("{flushes} flushes an hour, {late_percent} % late: {days:?}");
        assert!(days.written < most, "{what}");
        assert!(days.newest <= PATIENCE * 4 && days.older <= 18, "{what}");
        // Those hours, a day in which more came for it, and the hours at both ends.
        assert!(days.windows <= 18 + 24 + 2, "{what}");
    }
}

/// What is asked for ends: one sstable for each window is left, none spans several, and each byte
/// is written once where all of a window are merged at once.
#[test]
fn whatever_there_is_becomes_one_for_each_window() {
    let windowed = settings(Some(HOUR_US));
    for (settings, seed) in [(windowed, 1..300), (settings(None), 300..400)] {
        for seed in seed {
            let mut random = Random(seed);
            let most = usize::try_from(2 + random.below(6)).expect("small");
            let mut left: Vec<Candidate> = (0..random.below(20))
                .map(|_| {
                    let hour = i64::try_from(random.below(4)).expect("small");
                    let mut one = of_hour(hour, 1 + random.below(100));
                    if random.below(5) == 0 {
                        // Of windows of days, before they became those of hours.
                        (one.timestamp_min, one.window) = (-5 * HOUR_US, 0);
                        one.timestamp_max = hour * HOUR_US + 3 * HOUR_US;
                    }
                    one
                })
                .collect();
            let mut done: Vec<Candidate> = Vec::new();
            let mut merges = 0;
            while let Some((selection, is_last)) = choose_all(&settings, &left, most) {
                merges += 1;
                assert!(merges < 100 && selection.places.len() <= most, "seed {seed}");
                let places: BTreeSet<usize> = selection.places.iter().copied().collect();
                let inputs: Vec<Candidate> = places.iter().map(|place| left[*place]).collect();
                let kept = left.iter().enumerate().filter(|(place, _)| !places.contains(place));
                left = kept.map(|(_, one)| *one).collect();
                let outputs = if selection.splits {
                    let last = inputs[0].timestamp_max.div_euclid(HOUR_US);
                    (last - 1..=last).map(|hour| of_hour(hour, 1)).collect()
                } else {
                    let newest = inputs.iter().map(|one| one.timestamp_max).max().expect("some");
                    let bytes = inputs.iter().map(|one| one.bytes).sum();
                    vec![of_hour(newest.div_euclid(HOUR_US), bytes)]
                };
                if is_last { done.extend(outputs) } else { left.extend(outputs) }
            }
            let windows: BTreeSet<i64> = done.iter().map(|one| one.window).collect();
            let most = if settings.window_us.is_some() { windows.len() } else { 1 };
            assert!(left.is_empty() && done.len() <= most, "seed {seed}: {done:?}");
        }
    }
}
