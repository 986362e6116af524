//! How much of the time compaction may take: what the backlog needs, and no more.
//!
//! The backlog is what is still to be written until the sstables of each window are one, by
//! ScyllaDB's estimate (its `compaction_controller.md`): each byte once for each time that
//! its sstable must grow fourfold. Measured in the memory for rows it tells how far compaction is
//! behind flushes; with that the share grows, so that both meet at some point.

use std::collections::BTreeMap;

use super::super::Store;

/// Backlogs, in the memory for rows, and the thousandths of the time for them: ScyllaDB's points.
const POINTS: [(f64, f64); 3] = [(0.0, 50.0), (1.5, 100.0), (30.0, 1_000.0)];

/// Microseconds of turns in a row, after which a compaction pauses for its share of the time: to
/// sleep after each of them would cost more than the work that it does in one.
const BURST_US: u64 = 1_000;

/// The turns of a compaction, between which requests are served, and its pauses.
#[derive(Default)]
pub(super) struct Bursts {
    /// Nothing is combined before this moment.
    pub next_us: u64,
    /// When the first of the turns since the last pause began, and the microseconds of all of them.
    turns: (u64, u64),
}

impl Bursts {
    /// Takes note of a turn, and of the thousandths of the time that it may take.
    pub fn took(&mut self, from_us: u64, to_us: u64, share: u64) {
        let (began_us, took_us) = &mut self.turns;
        if *took_us == 0 {
            *began_us = from_us;
        }
        *took_us += to_us - from_us;
        if *took_us >= BURST_US {
            self.next_us = *began_us + std::mem::take(took_us).saturating_mul(1_000) / share;
        }
    }
}

impl Store {
    /// Finds out how much of the time compaction may take.
    pub(in crate::store) fn note_backlog(&mut self) {
        let mut windows: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for (number, table) in
            self.tables.iter().filter(|(_, table)| table.settings.tiers.is_some())
        {
            for sstable in table.sstables.iter() {
                let of_window = windows.entry((*number, sstable.summary.window));
                of_window.or_default().push(sstable.summary.bytes);
            }
        }
        let bytes: f64 = windows.values().map(|sizes| backlog(sizes)).sum();
        self.metrics.compaction_backlog_bytes = whole(bytes);
        self.compacting.share = share_of(bytes / float(self.config.memtable_bytes_max as u64));
    }
}

/// Bytes to be written until sstables of these sizes are one.
fn backlog(sizes: &[u64]) -> f64 {
    let all = float(sizes.iter().sum());
    sizes.iter().map(|size| float(*size) * (all / float((*size).max(1))).log(4.0)).sum()
}

fn share_of(backlog: f64) -> u64 {
    let mut below = POINTS[0];
    for point in POINTS {
        if backlog < point.0 {
            let part = (backlog - below.0) / (point.0 - below.0);
            return whole(below.1 + part * (point.1 - below.1));
        }
        below = point;
    }
    whole(below.1)
}

#[allow(clippy::cast_precision_loss)] // It is an estimate.
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // It is no negative number.
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::{BURST_US, Bursts, backlog, share_of, whole};

    #[test]
    fn turns_follow_each_other_until_a_pause_makes_up_for_them() {
        for share in [50, 500, 1_000] {
            let (mut bursts, mut now_us, mut worked_us) = (Bursts::default(), 7, 0);
            for turn in 0..1_000 {
                now_us = bursts.next_us.max(now_us + turn % 3);
                bursts.took(now_us, now_us + 200, share);
                (now_us, worked_us) = (now_us + 200, worked_us + 200);
                assert_eq!(bursts.next_us > now_us, share < 1_000 && turn % 5 == 4, "{turn}");
            }
            let part = worked_us * 1_000 / (bursts.next_us.max(now_us) - 7);
            assert!((share * 99 / 100..=share).contains(&part), "{part} of {share}");
        }
        let mut bursts = Bursts::default();
        bursts.took(100, 100 + BURST_US - 1, 500);
        assert_eq!(bursts.next_us, 0);
        // It waited for a disk meanwhile: that was pause enough.
        bursts.took(9_000, 9_001, 500);
        assert_eq!(bursts.next_us, 100 + 2 * BURST_US);
    }

    #[test]
    fn the_share_grows_with_what_is_behind() {
        assert_eq!(whole(backlog(&[])), 0);
        assert_eq!(whole(backlog(&[100])), 0);
        assert_eq!(whole(backlog(&[100; 4])), 400, "each byte once");
        assert_eq!(whole(backlog(&[100; 16])), 3_200, "each byte twice");
        assert!(backlog(&[1_000_000, 1]) < 12.0, "what is large is not written again for little");
        assert_eq!(
            [0.0, 0.75, 1.5, 15.75, 30.0, 1e9].map(share_of),
            [50, 75, 100, 550, 1_000, 1_000]
        );
    }
}
