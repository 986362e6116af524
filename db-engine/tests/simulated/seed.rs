//! Which runs are tried, and which one failed.

use std::ops::Range;

/// Says which run failed, if it ends in a panic.
pub struct SeedOfRun(pub u64);

impl Drop for SeedOfRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SANDGLASS_SEED={}", self.0);
        }
    }
}

/// The seeds that `SANDGLASS_SEED` asks for, as `n` or `n..m`; these, if it does not.
pub fn seeds(all: Range<u64>) -> Range<u64> {
    let Ok(seeds) = std::env::var("SANDGLASS_SEED") else { return all };
    let number = |text: &str| text.parse().expect("SANDGLASS_SEED is a number, or two with ..");
    match seeds.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&seeds)..number(&seeds) + 1,
    }
}
