//! Sstables that are written anew by themselves, for their tombstones.

use std::sync::Arc;

use crate::{
    compaction::tombstones::{Rewritable, choose_rewrite},
    mutation::TableNumber,
    schema::{TableSettings, TombstoneRule},
    store::{Store, table::Sstable},
};

impl Store {
    /// The place of the one that is to be written anew now, of these of a table.
    pub(super) fn choose_rewrite(
        &self,
        table: TableNumber,
        settings: &TableSettings,
        usable: &[&Arc<Sstable>],
    ) -> Option<usize> {
        let rule = settings.tombstones.as_ref()?;
        let now_s = self.clock.now_s();
        let is_due = |one: &Rewritable| one.due_s(rule, settings.gc_grace_s) <= now_s;
        let (places, candidates): (Vec<usize>, Vec<_>) = usable
            .iter()
            .enumerate()
            .filter_map(|(place, one)| {
                let rewritable = rewritable(one, rule).filter(is_due)?;
                let oldest_elsewhere_us = self.oldest_elsewhere(table, &[one.summary.id]);
                Some((place, (rewritable, oldest_elsewhere_us)))
            })
            .unzip();
        choose_rewrite(rule, settings.gc_grace_s, &candidates, now_s).map(|chosen| places[chosen])
    }

    /// Finds out when the next of them is due. One that is due already and was not chosen waits
    /// until other sstables come or go.
    pub(in crate::store) fn note_rewrites(&mut self) {
        let now_s = self.clock.now_s();
        let due = self.tables.values().flat_map(|table| {
            let settings = &table.settings;
            let rule = settings.tombstones.as_ref();
            let usable = table.sstables.iter().filter(|one| self.is_usable(one));
            let all = usable.filter_map(move |one| Some((rewritable(one, rule?)?, rule?)));
            all.map(|(one, rule)| one.due_s(rule, settings.gc_grace_s))
        });
        self.compacting.rewrite_due_s = due.filter(|due_s| *due_s > now_s).min();
    }

    /// Has a choice made if one of them has become due.
    pub(super) fn look_for_rewrites(&mut self) {
        // The clock is asked only if something will be due.
        if self.compacting.rewrite_due_s.is_some_and(|due_s| due_s <= self.clock.now_s()) {
            self.compacting.rewrite_due_s = None;
            self.compacting.is_due = true;
        }
    }

    /// When the next of them is due, by what has elapsed.
    pub(super) fn rewrite_due_us(&self) -> Option<u64> {
        let due_us = self.compacting.rewrite_due_s?.saturating_mul(1_000_000);
        let left_us = due_us.saturating_sub(self.clock.now_us());
        Some(self.clock.elapsed_us().saturating_add(u64::try_from(left_us).unwrap_or(0)))
    }
}

/// What decides about an sstable; `None` if it never has so many tombstones, or does not tell.
fn rewritable(sstable: &Sstable, rule: &TombstoneRule) -> Option<Rewritable> {
    let times = sstable.index.tombstone_times()?;
    let exceeds_s = times.exceeds_at(rule.threshold)?;
    Some(Rewritable { bytes: sstable.summary.bytes, written_s: times.written_s, exceeds_s })
}
