//! How much of an sstable is deleted or has expired, and from when on.
//!
//! A histogram of few bins over all that has a timestamp: markers, cells and deletions. Bins are
//! made as they are needed; when there are too many they become twice as wide. Whatever is in a bin
//! counts at its end, so that never more is told than there is.

use std::collections::BTreeMap;

use crate::mutation::Input;

const BINS_MAX: usize = 32;

/// Seconds of a bin, as long as few bins do.
const BIN_S: i64 = 64;

/// How much of an sstable is deleted or has expired, and from when on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TombstoneTimes {
    /// When the file was written, in seconds since the Unix epoch.
    pub written_s: i64,
    /// Markers, cells and deletions, those that are there for ever included.
    pub all: u64,
    /// Ends of bins, in seconds since the Unix epoch, and how many are gone by then, ascending.
    gone: Vec<(i64, u64)>,
}

impl TombstoneTimes {
    /// How many of all are deleted or have expired at this second; rather too few than too many.
    #[must_use]
    pub fn gone_at(&self, second: i64) -> u64 {
        let after = self.gone.partition_point(|(end, _)| *end <= second);
        after.checked_sub(1).and_then(|last| self.gone.get(last)).map_or(0, |(_, count)| *count)
    }

    /// The first second at which more than this part of all is gone; `None` if it never is.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // It is an estimate.
    pub fn exceeds_at(&self, part: f64) -> Option<i64> {
        let most = part * self.all as f64;
        self.gone.iter().find(|(_, count)| *count as f64 > most).map(|(end, _)| *end)
    }

    /// Bytes that it takes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.gone.capacity() * size_of::<(i64, u64)>()
    }

    pub(super) fn decode(input: &mut Input<'_>) -> Option<Self> {
        let written_s = input.i64()?;
        let all = input.i64()?.cast_unsigned();
        let bins = input.u16()?;
        let mut gone = Vec::with_capacity(usize::from(bins).min(BINS_MAX));
        for _ in 0..bins {
            gone.push((input.i64()?, input.i64()?.cast_unsigned()));
        }
        let is_ascending = gone.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1);
        let fits = gone.last().is_none_or(|(_, count)| *count <= all);
        (is_ascending && fits).then_some(Self { written_s, all, gone })
    }
}

/// Counts what comes.
#[derive(Debug)]
pub(super) struct TombstoneTimesWriter {
    written_s: i64,
    all: u64,
    bin_s: i64,
    /// The beginning of each bin, and what is in it, but for what is counted below.
    bins: BTreeMap<i64, u64>,
    /// The bin of what came last, and what came for it in a row.
    start: i64,
    run: u64,
}

impl TombstoneTimesWriter {
    /// None yet, of a file that is written now.
    pub fn new(written_s: i64) -> Self {
        Self { written_s, all: 0, bin_s: BIN_S, bins: BTreeMap::new(), start: 0, run: 0 }
    }

    /// Counts some that are gone from this second on; `i64::MAX` if never.
    #[inline]
    pub fn note(&mut self, gone_s: i64, count: u64) {
        self.all += count;
        if gone_s == i64::MAX {
            return;
        }
        if gone_s < self.start || gone_s.saturating_sub(self.start) >= self.bin_s {
            self.end_run();
            self.start = self.bin_of(gone_s);
        }
        self.run += count;
    }

    fn bin_of(&self, second: i64) -> i64 {
        second.saturating_sub(second.rem_euclid(self.bin_s))
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run > 0 {
            *self.bins.entry(self.start).or_default() += run;
        }
        while self.bins.len() > BINS_MAX {
            self.bin_s = self.bin_s.saturating_mul(2);
            let mut wider = BTreeMap::new();
            for (start, count) in std::mem::take(&mut self.bins) {
                *wider.entry(self.bin_of(start)).or_default() += count;
            }
            self.bins = wider;
        }
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.end_run();
        out.extend_from_slice(&self.written_s.to_le_bytes());
        out.extend_from_slice(&self.all.to_le_bytes());
        out.extend_from_slice(&u16::try_from(self.bins.len()).unwrap_or(u16::MAX).to_le_bytes());
        let mut gone = 0_u64;
        for (start, count) in self.bins {
            gone += count;
            // What is in the bin is gone by its last second.
            out.extend_from_slice(&start.saturating_add(self.bin_s - 1).to_le_bytes());
            out.extend_from_slice(&gone.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BINS_MAX, TombstoneTimes, TombstoneTimesWriter};
    use crate::{io::Random, mutation::Input};

    fn written(all: impl IntoIterator<Item = i64>) -> TombstoneTimes {
        let mut writer = TombstoneTimesWriter::new(5);
        all.into_iter().for_each(|gone_s| writer.note(gone_s, 1));
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        let mut input = Input(&bytes);
        let times = TombstoneTimes::decode(&mut input).unwrap();
        assert!(input.0.is_empty() && times.gone.len() <= BINS_MAX && times.written_s == 5);
        times
    }

    #[test]
    fn what_is_there_for_ever_counts_as_there() {
        assert_eq!(written([]).exceeds_at(0.0), None);
        let times = written([i64::MAX, i64::MAX, i64::MAX, 1_000]);
        assert_eq!((times.all, times.gone_at(900), times.gone_at(1_023)), (4, 0, 1));
        assert_eq!((times.exceeds_at(0.2), times.exceeds_at(0.25)), (Some(1_023), None));
        let extremes = written([i64::MIN, -1, i64::MAX - 1]);
        assert_eq!((extremes.gone_at(0), extremes.gone_at(i64::MAX)), (2, 3));
    }

    /// Never more is told than there is, and what is told late is late by a bin.
    #[test]
    fn any_times_are_told_about_right() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let bits = 1 + random.below(40);
            let spread = 1 + random.below(1 << bits);
            let origin = random.below(1 << 40).cast_signed() - (1 << 39);
            let mut all: Vec<i64> = (0..random.below(3_000))
                .map(|_| origin + random.below(spread).cast_signed())
                .collect();
            all.extend((0..random.below(3)).map(|_| -(1 << 50)));
            let times = written(all.iter().copied());
            all.sort_unstable();
            let bin_s = (spread.cast_signed() / 4).max(128);
            for _ in 0..50 {
                let second = origin + random.below(spread * 2).cast_signed();
                let exactly = |at: i64| all.partition_point(|gone_s| *gone_s <= at) as u64;
                let told = times.gone_at(second);
                assert!(told <= exactly(second), "seed {seed}");
                assert!(told >= exactly(second - bin_s), "seed {seed}: late by more than a bin");
            }
            for part in [0.0, 0.2, 0.9] {
                let Some(second) = times.exceeds_at(part) else { continue };
                let count = |at: i64| f64::from(u32::try_from(times.gone_at(at)).unwrap());
                let most = part * f64::from(u32::try_from(all.len()).unwrap());
                assert!(count(second) > most && count(second - 1) <= most, "seed {seed}");
            }
        }
    }
}
