//! How long things took, in ranges.

use std::fmt::Write as _;

use super::Counter;

/// Upper bounds of the latency buckets, in microseconds.
const BOUNDS_US: [u64; 18] = [
    50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 25_000, 50_000, 100_000, 200_000, 400_000,
    800_000, 1_600_000, 5_000_000, 20_000_000,
];

/// How long things took: a count for each range of microseconds, and their sum.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; BOUNDS_US.len() + 1],
    sum_us: Counter,
}

impl Histogram {
    /// Counts one thing. Only the owning thread may.
    #[inline]
    pub fn record(&self, us: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(counter) = self.buckets.get(bucket) {
            counter.add(1);
        }
        self.sum_us.add(us);
    }

    /// Things counted so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(Counter::get).sum()
    }

    pub(super) fn render(&self, out: &mut String, name: &str, shard: usize) {
        let mut count = 0;
        for (counter, bound) in self.buckets.iter().zip(BOUNDS_US) {
            count += counter.get();
            let le = seconds(bound);
            let _ = writeln!(out, "{name}_bucket{{shard=\"{shard}\",le=\"{le}\"}} {count}");
        }
        count += self.buckets.last().map_or(0, Counter::get);
        let _ = writeln!(out, "{name}_bucket{{shard=\"{shard}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{shard=\"{shard}\"}} {}", seconds(self.sum_us.get()));
        let _ = writeln!(out, "{name}_count{{shard=\"{shard}\"}} {count}");
    }
}

/// Microseconds as a decimal number of seconds, exactly.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
