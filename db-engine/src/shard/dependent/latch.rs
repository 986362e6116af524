//! Latches: of the writes that depend on what is in a partition, one at a time.
//!
//! The shard that owns a partition has its latch, and a line of those who want it, in the order in
//! which they asked. Who holds it reads, writes, and gives it up when the write is durable and can
//! be read. Plain writes take no latch.
//!
//! Nothing here is bounded: whoever claims a latch has taken memory for the claim, and gives up
//! after a time.

use crate::mutation::TableNumber;
use crate::shard::tag::SlabKey;
use hashbrown::{HashMap, hash_map::Entry};
use std::{collections::VecDeque, sync::Arc};

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatchName {
    /// Its table.
    pub table: TableNumber,
    /// Its key.
    pub key: Arc<[u8]>,
}

/// Who wants a latch: a write under way on this shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The shard.
    pub shard: u16,
    /// The write.
    pub slot: SlabKey,
}

/// The latches of a shard that somebody holds.
#[derive(Debug, Default)]
pub struct Latches {
    /// The first in a line holds the latch.
    lines: HashMap<LatchName, VecDeque<Claim>>,
    waiting: usize,
}

impl Latches {
    /// Joins the line of a latch. Whether it holds the latch now; if not, it is told later.
    pub fn claim(&mut self, name: LatchName, claim: Claim) -> bool {
        let line = self.lines.entry(name).or_default();
        line.push_back(claim);
        let is_held = line.len() == 1;
        self.waiting += usize::from(!is_held);
        is_held
    }

    /// Leaves the line of a latch, whether it holds the latch or waits. Who holds it from now on,
    /// if that is somebody else than before.
    pub fn release(&mut self, name: LatchName, claim: Claim) -> Option<Claim> {
        let Entry::Occupied(mut line) = self.lines.entry(name) else { return None };
        let place = line.get().iter().position(|other| *other == claim)?;
        line.get_mut().remove(place);
        // Either one that waited has left, or one of them holds the latch now.
        self.waiting -= usize::from(place > 0 || !line.get().is_empty());
        if line.get().is_empty() {
            line.remove();
            return None;
        }
        line.get().front().copied().filter(|_| place == 0)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(table: u32, key: &[u8]) -> LatchName {
        LatchName { table: TableNumber(table), key: key.into() }
    }

    fn claim(shard: u16, index: u32) -> Claim {
        Claim { shard, slot: SlabKey { index, generation: 1 } }
    }

    #[test]
    fn a_latch_goes_from_one_to_the_next_in_the_order_of_asking() {
        let mut latches = Latches::default();
        assert!(latches.claim(name(1, b"a"), claim(0, 1)));
        assert!(!latches.claim(name(1, b"a"), claim(1, 1)));
        assert!(!latches.claim(name(1, b"a"), claim(0, 2)));
        assert!(latches.claim(name(1, b"b"), claim(0, 3)), "another key");
        assert!(latches.claim(name(2, b"a"), claim(0, 4)), "another table");
        assert_eq!(latches.waiting(), 2);
        assert_eq!(latches.release(name(1, b"a"), claim(0, 1)), Some(claim(1, 1)));
        assert_eq!(latches.release(name(1, b"a"), claim(1, 1)), Some(claim(0, 2)));
        assert_eq!(latches.waiting(), 0);
        assert_eq!(latches.release(name(1, b"a"), claim(0, 2)), None);
        assert!(latches.claim(name(1, b"a"), claim(1, 5)), "free again");
    }

    #[test]
    fn who_waits_may_leave_and_nothing_is_remembered_of_anybody() {
        let mut latches = Latches::default();
        for index in 0..4 {
            assert_eq!(latches.claim(name(1, b"a"), claim(0, index)), index == 0);
        }
        assert_eq!(latches.release(name(1, b"a"), claim(0, 2)), None, "it waited");
        assert_eq!(latches.release(name(1, b"a"), claim(0, 2)), None, "it has left");
        assert_eq!(latches.release(name(1, b"a"), claim(1, 0)), None, "of another shard");
        assert_eq!(latches.release(name(1, b"z"), claim(0, 0)), None, "nobody has it");
        assert_eq!(latches.waiting(), 2);
        assert_eq!(latches.release(name(1, b"a"), claim(0, 0)), Some(claim(0, 1)));
        assert_eq!(latches.release(name(1, b"a"), claim(0, 3)), None);
        assert_eq!(latches.release(name(1, b"a"), claim(0, 1)), None);
        assert_eq!((latches.waiting(), latches.lines.len()), (0, 0));
    }
}
