//! Which sstable is written anew by itself, because much of it is deleted or has expired.
//!
//! As in Cassandra: when nothing else is to be merged, when the file is old enough, and when what
//! it deletes cannot be elsewhere. Then what may be forgotten goes, and the rest is in a new file.

use crate::schema::TombstoneRule;

/// Seconds between two attempts at a file at least, whatever the table says: an attempt may find
/// that everything must stay.
const INTERVAL_S_MIN: i64 = 60;

/// What the choice follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritable {
    /// Bytes of its file.
    pub bytes: u64,
    /// When it was written, in seconds since the Unix epoch.
    pub written_s: i64,
    /// The first second at which more than the threshold of it is deleted or has expired.
    pub exceeds_s: i64,
}

impl Rewritable {
    /// The first second at which it may be written anew.
    #[must_use]
    pub fn due_s(&self, rule: &TombstoneRule, gc_grace_s: u32) -> i64 {
        let forgettable_s = self.exceeds_s.saturating_add(i64::from(gc_grace_s));
        let interval_s = rule.interval_s.max(INTERVAL_S_MIN);
        forgettable_s.max(self.written_s.saturating_add(interval_s))
    }
}

/// The place of the sstable that is written anew now: the smallest of those that are due.
///
/// With each comes the oldest timestamp, in microseconds since the Unix epoch, of all else of the
/// table: if that is older than its tombstones they may hide it, and stay. Nobody knows the
/// timestamps of these, but whoever deletes seldom does so for the future.
#[must_use]
pub fn choose_rewrite(
    rule: &TombstoneRule,
    gc_grace_s: u32,
    candidates: &[(Rewritable, Option<i64>)],
    now_s: i64,
) -> Option<usize> {
    let is_free = |(one, oldest_elsewhere_us): &(Rewritable, Option<i64>)| {
        let oldest_s = oldest_elsewhere_us.map_or(i64::MAX, |us| us.div_euclid(1_000_000));
        rule.unchecked || one.exceeds_s < oldest_s
    };
    let all = candidates.iter().enumerate();
    all.filter(|(_, one)| one.0.due_s(rule, gc_grace_s) <= now_s && is_free(one))
        .min_by_key(|(_, one)| one.0.bytes)
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL_S_MIN, Rewritable, choose_rewrite};
    use crate::schema::TombstoneRule;

    const RULE: TombstoneRule =
        TombstoneRule { threshold: 0.2, interval_s: 1_000, unchecked: false };
    const GRACE_S: u32 = 500;

    fn chosen(rule: &TombstoneRule, one: Rewritable, elsewhere_s: i64, now_s: i64) -> bool {
        let oldest_us = (elsewhere_s < i64::MAX).then(|| elsewhere_s.saturating_mul(1_000_000));
        choose_rewrite(rule, GRACE_S, &[(one, oldest_us)], now_s).is_some()
    }

    /// Every case around each of the three conditions.
    #[test]
    fn an_sstable_is_due_when_all_conditions_hold_and_not_before() {
        for written_s in [0, 9_000] {
            for exceeds_s in [8_000, 10_000] {
                for elsewhere_s in [0, exceeds_s, exceeds_s + 1, i64::MAX] {
                    let one = Rewritable { bytes: 1, written_s, exceeds_s };
                    let due_s = (exceeds_s + 500).max(written_s + 1_000);
                    let is_free = elsewhere_s > exceeds_s;
                    assert!(!chosen(&RULE, one, elsewhere_s, due_s - 1));
                    assert_eq!(chosen(&RULE, one, elsewhere_s, due_s), is_free, "{one:?}");
                    let unchecked = TombstoneRule { unchecked: true, ..RULE };
                    assert!(chosen(&unchecked, one, elsewhere_s, due_s));
                }
            }
        }
        let at_once = TombstoneRule { interval_s: 0, ..RULE };
        let one = Rewritable { bytes: 1, written_s: 5_000, exceeds_s: 0 };
        assert!(!chosen(&at_once, one, i64::MAX, 5_000 + INTERVAL_S_MIN - 1), "not in a loop");
        assert!(chosen(&at_once, one, i64::MAX, 5_000 + INTERVAL_S_MIN));
        let never = Rewritable { exceeds_s: i64::MAX, ..one };
        assert!(!chosen(&RULE, never, i64::MAX, i64::MAX - 1));
    }

    #[test]
    fn the_smallest_comes_first() {
        let sized = |bytes| Rewritable { bytes, written_s: 0, exceeds_s: 0 };
        let later = Rewritable { exceeds_s: 1_000_000, ..sized(1) };
        let all = [(sized(9), None), (sized(3), None), (sized(2), Some(0)), (later, None)];
        assert_eq!(choose_rewrite(&RULE, GRACE_S, &all, 5_000), Some(1));
        assert_eq!(choose_rewrite(&RULE, GRACE_S, &[], 5_000), None);
    }
}
