//! UUIDs of version 1, and the places that they are in lists.

use crate::io::Random;
use std::cell::Cell;

/// 100-nanosecond intervals between the Gregorian reform and the Unix epoch: version 1 UUIDs count
/// from the former.
pub(super) const GREGORIAN_OFFSET: i64 = 0x01B2_1DD2_1381_4000;
/// A UUID of version 1: time in 100-nanosecond intervals since 1582, clock and node.
pub(super) fn timeuuid(intervals: i64, node: [u8; 8]) -> Vec<u8> {
    let t = intervals.to_be_bytes();
    let high = 0x10 | (t[0] & 0x0F);
    let mut out = vec![t[4], t[5], t[6], t[7], t[2], t[3], high, t[1]];
    out.extend_from_slice(&node);
    out
}

/// Clock and node of a UUID of version 1 that nobody else gives.
pub(super) fn node(random: u64) -> [u8; 8] {
    let mut node = Random(random).next_u64().to_be_bytes();
    node[0] = 0x80 | (node[0] & 0x3F);
    // The multicast bit says that the node is no hardware address.
    node[2] |= 0x01;
    node
}

/// 2010-01-01, in 100-nanosecond intervals since the Unix epoch, as in Cassandra: places behind a
/// list have times after it, places before a list have times as long before it.
const MIDDLE: i64 = 12_623_040_000_000_000;

/// Gives places to elements of lists: UUIDs of version 1. One that is given later is farther from
/// the middle, whatever the clock does.
#[derive(Debug, Default)]
pub struct ListPlaces {
    /// How far from the middle the last one is, in intervals.
    last: Cell<i64>,
}

impl ListPlaces {
    /// A place behind all others.
    pub(super) fn behind(&self, now_us: i64, random: u64) -> Vec<u8> {
        let distance = self.next(now_us);
        timeuuid(GREGORIAN_OFFSET + MIDDLE + distance, node(random))
    }

    /// So many places behind all others.
    pub(super) fn run_behind(&self, now_us: i64, random: u64, count: i32) -> ListRun {
        if count <= 0 {
            return ListRun { distance: 0, node: [0; 8] };
        }
        let distance = self.next(now_us);
        self.last.set(distance + i64::from(count) - 1);
        ListRun { distance, node: node(random) }
    }

    /// A place before all others.
    pub(super) fn before(&self, now_us: i64, random: u64) -> Vec<u8> {
        let distance = self.next(now_us);
        timeuuid(GREGORIAN_OFFSET + MIDDLE - distance, node(random))
    }

    fn next(&self, now_us: i64) -> i64 {
        let now = now_us.saturating_mul(10).saturating_sub(MIDDLE);
        let next = now.max(self.last.get() + 1);
        self.last.set(next);
        next
    }
}

/// Places that follow each other.
#[derive(Debug)]
pub(super) struct ListRun {
    /// How far from the middle the next one is.
    distance: i64,
    node: [u8; 8],
}

impl ListRun {
    /// The next of them.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let place = timeuuid(GREGORIAN_OFFSET + MIDDLE + self.distance, self.node);
        self.distance += 1;
        place
    }
}
