//! Which compaction is begun next.

use std::{ops::Bound, sync::Arc};

use super::inputs::READ_BYTES;
use crate::{
    compaction::choice::{Candidate, Selection, choose},
    mutation::{TableNumber, token::shard_of},
    store::{Store, table::Sstable},
};

/// What a compaction is begun with.
pub(super) struct Chosen {
    pub table: TableNumber,
    pub inputs: Vec<Arc<Sstable>>,
    /// Whether each window gets an sstable of its own.
    pub splits: bool,
    /// Nothing is forgotten: what it hides may be where nobody looks here.
    pub keeps_all: bool,
    /// Thousandths of the time that it may take at least.
    pub share_min: u64,
}

impl Store {
    /// Begins a compaction, if one is due.
    pub(in crate::store) fn choose_compaction(&mut self, now_us: u64) {
        self.look_for_rewrites();
        let state = &self.compacting;
        let is_paused = now_us < state.pause_until_us;
        if state.current.is_some() || is_paused || !self.may_choose() {
            return;
        }
        let most = self.config.cache_bytes_max / 4 / (READ_BYTES + 2 * self.config.block_bytes);
        let most = most.max(4);
        let is_majors_turn = !self.compacting.major.was_last;
        let chosen = if is_majors_turn {
            self.choose_major(most).or_else(|| self.choose_due(most))
        } else {
            self.choose_due(most).or_else(|| self.choose_major(most))
        };
        self.compacting.major.was_last = is_majors_turn;
        if let Some(chosen) = chosen {
            self.begin_compaction(chosen);
        } else {
            self.compacting.is_due = false;
            self.note_rewrites();
        }
    }

    /// The next that is due by itself.
    fn choose_due(&self, most: usize) -> Option<Chosen> {
        let last = self.compacting.last.unwrap_or(TableNumber(u32::MAX));
        let behind = self.tables.range((Bound::Excluded(last), Bound::Unbounded));
        behind.chain(self.tables.range(..=last)).find_map(|(number, table)| {
            if let Some(split) = self.choose_split(*number, table) {
                return Some(split);
            }
            let usable: Vec<_> = table.sstables.iter().filter(|one| self.is_usable(one)).collect();
            let candidates: Vec<Candidate> = usable.iter().map(|one| candidate(one)).collect();
            let selection = choose(&table.settings, &candidates, self.clock.now_us(), most);
            let selection = selection.or_else(|| {
                let place = self.choose_rewrite(*number, &table.settings, &usable)?;
                Some(Selection { places: vec![place], splits: false })
            })?;
            let inputs = selection.places.iter().map(|place| Arc::clone(usable[*place]));
            let (inputs, splits) = (inputs.collect(), selection.splits);
            Some(Chosen { table: *number, inputs, splits, keeps_all: false, share_min: 0 })
        })
    }

    /// Whether an sstable can be compacted here.
    pub(super) fn is_usable(&self, sstable: &Sstable) -> bool {
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        sstable.summary.is_of(is_own) && !self.compacting.left_alone.contains(&sstable.summary.id)
    }
}

pub(super) fn candidate(sstable: &Sstable) -> Candidate {
    let summary = &sstable.summary;
    Candidate {
        bytes: summary.bytes,
        window: summary.window,
        timestamp_min: summary.timestamp_min,
        timestamp_max: summary.timestamp_max,
    }
}
