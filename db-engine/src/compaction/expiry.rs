//! Removing whole sstables in which everything has expired.
//!
//! What has expired, or is a deletion, still hides older versions of itself. An sstable may
//! therefore go only if everything that stays was written after it: then nothing that it hides is
//! left. For readings, which arrive in order and are written once, that is always so, and a window
//! that has expired goes as a file, unread.
//!
//! An older version may also arrive later, because a client tries again. So an sstable stays for
//! its table's `gc_grace_seconds` after the last of it expired or was deleted, as in Cassandra.

/// From when to when an sstable was written, and until when it is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The oldest timestamp in it, in microseconds since the Unix epoch.
    pub timestamp_min: i64,
    /// The newest timestamp in it.
    pub timestamp_max: i64,
    /// The first second since the Unix epoch at which readers see nothing of it, and what it hides
    /// is not expected to arrive any more.
    pub expires_s: i64,
}

/// The places in `sstables`, all of one table, of those that may go.
///
/// `unflushed_timestamp_min` is the oldest timestamp of what is not in sstables yet.
#[must_use]
pub fn droppable(
    sstables: &[Extent],
    unflushed_timestamp_min: Option<i64>,
    now_s: i64,
) -> Vec<usize> {
    let mut candidates: Vec<(usize, &Extent)> =
        sstables.iter().enumerate().filter(|(_, sstable)| sstable.expires_s <= now_s).collect();
    // Newest first: the first that may go takes all older ones with it.
    candidates.sort_by_key(|(_, sstable)| std::cmp::Reverse(sstable.timestamp_max));
    let staying = sstables.iter().filter(|sstable| sstable.expires_s > now_s);
    let mut oldest = staying.map(|sstable| sstable.timestamp_min).min().unwrap_or(i64::MAX);
    oldest = oldest.min(unflushed_timestamp_min.unwrap_or(i64::MAX));
    let mut dropped = Vec::new();
    for (place, sstable) in candidates {
        if sstable.timestamp_max < oldest {
            dropped.push(place);
        } else {
            oldest = oldest.min(sstable.timestamp_min);
        }
    }
    dropped.sort_unstable();
    dropped
}

#[cfg(test)]
mod tests {
    use super::{Extent, droppable};

    const NONE: [usize; 0] = [];

    fn extent(timestamp_min: i64, timestamp_max: i64, expires_s: i64) -> Extent {
        Extent { timestamp_min, timestamp_max, expires_s }
    }

    #[test]
    fn what_has_expired_goes_and_what_has_not_stays() {
        let sstables = [extent(10, 19, 50), extent(20, 29, 60), extent(30, 39, i64::MAX)];
        assert_eq!(droppable(&sstables, None, 49), NONE);
        assert_eq!(droppable(&sstables, None, 50), [0]);
        assert_eq!(droppable(&sstables, None, 60), [0, 1]);
        assert_eq!(droppable(&sstables, Some(40), i64::MAX - 1), [0, 1]);
    }

    #[test]
    fn what_has_expired_stays_while_it_may_hide_something_older() {
        let older_stays = [extent(20, 29, 50), extent(5, 6, i64::MAX)];
        assert_eq!(droppable(&older_stays, None, 50), NONE);
        let older_in_memory = [extent(20, 29, 50)];
        assert_eq!(droppable(&older_in_memory, Some(29), 50), NONE);
        assert_eq!(droppable(&older_in_memory, Some(30), 50), [0]);
    }

    /// Every set of three small extents: whatever goes is older than whatever stays.
    #[test]
    fn nothing_that_stays_is_as_old_as_what_goes() {
        let mut all = Vec::new();
        for min in 0..4 {
            for max in min..4 {
                all.extend([extent(min, max, 1), extent(min, max, 9)]);
            }
        }
        for a in &all {
            for b in &all {
                for c in &all {
                    let sstables = [*a, *b, *c];
                    let gone = droppable(&sstables, None, 5);
                    for place in 0..3 {
                        let stays = !gone.contains(&place);
                        assert!(stays || sstables[place].expires_s <= 5);
                        let hides = |gone: &usize| {
                            sstables[*gone].timestamp_max >= sstables[place].timestamp_min
                        };
                        assert!(!(stays && gone.iter().any(hides)), "{sstables:?}: {gone:?}");
                    }
                }
            }
        }
    }
}
