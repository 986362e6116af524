//! Memory: one budget for everything that clients can make a shard hold, in bytes at their real
//! cost.
//!
//! Each kind has a share of its own. Shares do not lend to each other, so that no kind of client
//! starves another. What does not fit waits, or is refused as OVERLOADED. ADR 0031 has the reasons.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Rows that no sstable has yet, and blocks of the log on their way.
    Memtables,
    /// Blocks of sstables that were read lately, and indexes and filters of sstables.
    Blocks,
    /// Reads under way, and answers that clients have not taken.
    Answers,
    /// Requests that have not arrived whole, or wait.
    Requests,
    /// Writes on their way to other shards, and logged batches until all of their parts are in.
    Transit,
    /// Prepared statements.
    Statements,
}

impl Share {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Memtables,
        Self::Blocks,
        Self::Answers,
        Self::Requests,
        Self::Transit,
        Self::Statements,
    ];

    /// As metrics call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memtables => "memtables",
            Self::Blocks => "blocks",
            Self::Answers => "answers",
            Self::Requests => "requests",
            Self::Transit => "transit",
            Self::Statements => "statements",
        }
    }

    /// Its part of this much memory, in bytes.
    #[must_use]
    pub fn of(self, memory: u64) -> u64 {
        let parts = match self {
            Self::Memtables => 14,
            Self::Blocks | Self::Answers => 6,
            Self::Requests => 3,
            Self::Statements => 2,
            Self::Transit => 1,
        };
        memory / 32 * parts
    }
}

/// What is taken of each share of a shard's memory. Only the shard's own thread takes; what it has
/// sent to another shard is given back there.
#[derive(Debug)]
pub struct Budget {
    most: [u64; Share::ALL.len()],
    taken: [AtomicU64; Share::ALL.len()],
}

impl Default for Budget {
    /// Without limits.
    fn default() -> Self {
        Self { most: [u64::MAX; Share::ALL.len()], taken: Default::default() }
    }
}

impl Budget {
    /// Shares out this many bytes.
    #[must_use]
    pub fn of(memory: u64) -> Self {
        Self { most: Share::ALL.map(|share| share.of(memory)), taken: Default::default() }
    }

    /// The most bytes of a share.
    #[must_use]
    pub fn most(&self, share: Share) -> u64 {
        self.most[share as usize]
    }

    /// Bytes taken of a share.
    #[must_use]
    pub fn taken(&self, share: Share) -> u64 {
        self.taken[share as usize].load(Relaxed)
    }

    /// Says how much is taken of a share that keeps its own account: it has no [`Charge`].
    pub fn set_taken(&self, share: Share, bytes: u64) {
        self.taken[share as usize].store(bytes, Relaxed);
    }

    /// Whether so many more bytes fit.
    #[must_use]
    pub fn has_room(&self, share: Share, bytes: u64) -> bool {
        self.taken(share).saturating_add(bytes) <= self.most(share)
    }

    /// Whether so many more bytes fit, or nothing else is there: what is larger than the share goes
    /// alone.
    #[must_use]
    pub fn admits(&self, share: Share, bytes: u64) -> bool {
        self.taken(share) == 0 || self.has_room(share, bytes)
    }

    /// Whether more is taken of a share than it has.
    #[must_use]
    pub fn is_over(&self, share: Share) -> bool {
        !self.has_room(share, 0)
    }
}

/// Bytes of a share that somebody holds. They are given back when it is dropped, whatever the
/// reason.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    share: Share,
    bytes: u64,
}

impl Charge {
    /// Nothing yet.
    #[must_use]
    pub fn new(budget: &Arc<Budget>, share: Share) -> Self {
        Self { budget: Arc::clone(budget), share, bytes: 0 }
    }

    /// So many bytes, if they fit.
    #[must_use]
    pub fn take(budget: &Arc<Budget>, share: Share, bytes: usize) -> Option<Self> {
        if !budget.has_room(share, bytes as u64) {
            return None;
        }
        let mut charge = Self::new(budget, share);
        charge.set(bytes);
        Some(charge)
    }

    /// Holds this many bytes from now on, whether they fit or not: they are there.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let taken = &self.budget.taken[self.share as usize];
        if bytes > self.bytes {
            taken.fetch_add(bytes - self.bytes, Relaxed);
        } else if bytes < self.bytes {
            taken.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }

    /// Holds so many more bytes, if they fit or nothing else is there.
    #[must_use]
    pub fn add(&mut self, bytes: usize) -> bool {
        let admits = self.budget.admits(self.share, bytes as u64);
        if admits {
            self.budget.taken[self.share as usize].fetch_add(bytes as u64, Relaxed);
            self.bytes += bytes as u64;
        }
        admits
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_the_whole_and_no_more() {
        for memory in [32 << 20, 64 << 20, 256 << 20, 1 << 40] {
            assert_eq!(Share::ALL.iter().map(|share| share.of(memory)).sum::<u64>(), memory);
        }
        for (number, share) in Share::ALL.into_iter().enumerate() {
            assert_eq!(share as usize, number);
        }
    }

    #[test]
    fn what_is_dropped_is_given_back_and_shares_do_not_lend() {
        let budget = Arc::new(Budget::of(160));
        let take = |bytes| Charge::take(&budget, Share::Answers, bytes);
        let mut first = take(20).expect("it fits");
        let second = take(10).expect("it fits exactly");
        assert!(take(1).is_none());
        assert!(budget.has_room(Share::Requests, 15));
        first.set(25);
        assert!(budget.is_over(Share::Answers));
        drop(second);
        assert_eq!(budget.taken(Share::Answers), 25);
        drop(first);
        assert_eq!(budget.taken(Share::Answers), 0);
    }

    #[test]
    fn what_is_larger_than_its_share_goes_alone() {
        let budget = Arc::new(Budget::of(320));
        let mut charge = Charge::new(&budget, Share::Transit);
        assert!(charge.add(25), "alone");
        assert!(!charge.add(1), "no room is left");
        charge.set(4);
        assert!(charge.add(6), "it fits exactly");
        let mut other = Charge::new(&budget, Share::Transit);
        assert!(!other.add(1));
        drop(charge);
        assert!(other.add(25));
        assert_eq!(budget.taken(Share::Transit), 25);
    }
}
