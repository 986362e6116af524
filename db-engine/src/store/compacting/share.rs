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
    use super::{backlog, share_of, whole};

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
