//! Compactions that the operator asked for: each sstable that a table had then is written once
//! more, with all others of its window.
//!
//! They take turns with those that are due by themselves, so that flushes do not pile up however
//! much there is to be rewritten.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::choosing::{Chosen, candidate};
use crate::{
    compaction::choice::{Candidate, choose_all},
    mutation::TableNumber,
    sstable::SstableId,
    store::Store,
};

/// Thousandths of the time that such a compaction may take at least: somebody waits for it.
pub(super) const SHARE_MIN: u64 = 500;

/// What the operator asked for.
#[derive(Debug, Default)]
pub(in crate::store) struct Major {
    /// What is still to be written once more.
    left: BTreeMap<TableNumber, BTreeSet<SstableId>>,
    /// The inputs of the last compaction of a window: what it writes is not written again.
    last: Vec<SstableId>,
    /// Whether the last choice was to be of these: then it is the turn of others.
    pub was_last: bool,
}

impl Major {
    /// Those have become these.
    pub fn replaced(&mut self, inputs: &[SstableId], outputs: &[(TableNumber, SstableId)]) {
        for (table, left) in &mut self.left {
            let before = left.len();
            left.retain(|id| !inputs.contains(id));
            if left.len() < before && self.last != inputs {
                let own = outputs.iter().filter(|(of, _)| of == table);
                left.extend(own.map(|(_, id)| *id));
            }
        }
        self.left.retain(|_, left| !left.is_empty());
    }
}

/// What is left of a compaction that the operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionLeft {
    /// Sstables that are still to be written once more.
    pub sstables: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Sstables that stay as they are: they cannot be read, or hold rows of several shards,
    /// and are split by themselves.
    pub left_alone: usize,
    /// Whether it waits until there is room on the disk.
    pub waits_for_space: bool,
}

impl Store {
    /// Begins to write all sstables that these tables have now once more.
    pub fn compact_tables(&mut self, tables: &[TableNumber]) {
        for number in tables {
            let Some(table) = self.tables.get(number) else { continue };
            let ids = table.sstables.iter().map(|sstable| sstable.summary.id);
            self.compacting.major.left.entry(*number).or_default().extend(ids);
        }
        self.compacting.is_due = true;
    }

    /// What is left to be done for these tables.
    #[must_use]
    pub fn compaction_left(&self, tables: &[TableNumber]) -> CompactionLeft {
        let pause_until_us = self.compacting.pause_until_us;
        let waits_for_space = self.clock.elapsed_us() < pause_until_us;
        let mut all = CompactionLeft { waits_for_space, ..CompactionLeft::default() };
        for table in tables {
            let Some(left) = self.compacting.major.left.get(table) else { continue };
            let Some(table) = self.tables.get(table) else { continue };
            for sstable in table.sstables.iter().filter(|one| left.contains(&one.summary.id)) {
                if self.is_usable(sstable) {
                    all.sstables += 1;
                    all.bytes += sstable.summary.bytes;
                } else {
                    all.left_alone += 1;
                }
            }
        }
        all
    }

    /// The next of them.
    pub(super) fn choose_major(&mut self, most: usize) -> Option<Chosen> {
        let mut chosen = None;
        for (number, left) in &self.compacting.major.left {
            let Some(table) = self.tables.get(number) else { continue };
            let usable = table.sstables.iter().filter(|sstable| self.is_usable(sstable));
            let usable: Vec<_> = usable.filter(|one| left.contains(&one.summary.id)).collect();
            let candidates: Vec<Candidate> = usable.iter().map(|one| candidate(one)).collect();
            if let Some((selection, is_last)) = choose_all(&table.settings, &candidates, most) {
                let inputs: Vec<_> =
                    selection.places.iter().map(|place| Arc::clone(usable[*place])).collect();
                chosen = Some((*number, inputs, selection.splits, is_last));
                break;
            }
        }
        let Some((table, inputs, splits, is_last)) = chosen else {
            // What is left cannot be compacted.
            self.compacting.major.left.clear();
            return None;
        };
        let ids = inputs.iter().map(|input| input.summary.id);
        self.compacting.major.last = if is_last { ids.collect() } else { Vec::new() };
        Some(Chosen { table, inputs, splits, keeps_all: false, share_min: SHARE_MIN })
    }
}
