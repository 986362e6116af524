//! Compactions that the operator asked for: each sstable that a table had then is written once
//! more, with all others of its table.
//!
//! Windows are merged together, and each has an sstable of its own again afterwards. Where there is
//! no memory for all of them at once, or no space, they are merged some at a time, so that any two
//! meet; and each for itself if there is not enough for two.
//!
//! These compactions take turns with those that are due by themselves, so that flushes do not pile
//! up however much there is to be rewritten.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Compacting,
    choosing::{Chosen, candidate},
};
use crate::{
    compaction::{
        choice::{Candidate, Selection, choose_all},
        together::{TogetherLimits, steps},
    },
    mutation::TableNumber,
    schema::TableSettings,
    sstable::{SstableId, Summary},
    store::{Store, background::Output, table::Sstable},
};

/// Thousandths of the time that such a compaction may take at least: somebody waits for it.
pub(super) const SHARE_MIN: u64 = 500;

/// What the operator asked for.
#[derive(Debug, Default)]
pub(in crate::store) struct Major {
    tables: BTreeMap<TableNumber, MajorTable>,
    at_hand: Option<AtHand>,
    /// Tables of which the windows were not merged together.
    apart: BTreeSet<TableNumber>,
    /// Whether the last choice was to be of these: then it is the turn of others.
    pub was_last: bool,
}

/// What is left to be done for a table.
#[derive(Debug, Default)]
struct MajorTable {
    /// What is still to be written once more.
    left: BTreeSet<SstableId>,
    limits: TogetherLimits,
    /// The windows that are still to be merged together, the next ones last. Known once each window
    /// is one sstable.
    steps: Option<Vec<Vec<i64>>>,
}

/// The merge that was chosen last.
#[derive(Debug)]
struct AtHand {
    table: TableNumber,
    inputs: Vec<SstableId>,
    bytes: u64,
    kind: MergeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeKind {
    /// What comes of it is merged once more.
    Before,
    /// The last step of a table, or the one at hand of several.
    Together,
    /// The last of a window, or of a table without windows.
    Alone,
}

impl MajorTable {
    /// The next merge of these, which are what is left and can be read.
    fn choose(
        &mut self,
        settings: &TableSettings,
        candidates: &[Candidate],
        most: usize,
    ) -> Option<(Selection, MergeKind)> {
        let alone = |is_last| if is_last { MergeKind::Alone } else { MergeKind::Before };
        let limits = TogetherLimits { sstables: self.limits.sstables.min(most), ..self.limits };
        let window_us = settings.window_us.filter(|window_us| *window_us > 0);
        let Some(window_us) = window_us.filter(|_| limits.allow_two()) else {
            let (selection, is_last) = choose_all(settings, candidates, most)?;
            return Some((selection, alone(is_last)));
        };
        let window_of = |timestamp_us: i64| timestamp_us.div_euclid(window_us);
        let mut windows: BTreeMap<i64, (usize, u64)> = BTreeMap::new();
        for one in candidates {
            let (sstables, bytes) = windows.entry(window_of(one.timestamp_max)).or_default();
            (*sstables, *bytes) = (*sstables + 1, *bytes + one.bytes);
        }
        if self.steps.is_none() {
            let is_spanning = |one: &Candidate| one.window != window_of(one.timestamp_max);
            let bytes = windows.values().map(|(_, bytes)| bytes).sum();
            let fit = limits.have_room(candidates.len(), bytes);
            let is_alone = |one: &Candidate| {
                let window = windows.get(&window_of(one.timestamp_max));
                (fit || window.is_some_and(|(sstables, _)| *sstables == 1)) && !is_spanning(one)
            };
            let several: Vec<usize> =
                (0..candidates.len()).filter(|place| !is_alone(&candidates[*place])).collect();
            let own: Vec<Candidate> = several.iter().map(|place| candidates[*place]).collect();
            if let Some((Selection { places, splits }, _)) = choose_all(settings, &own, most) {
                let places = places.iter().map(|place| several[*place]).collect();
                return Some((Selection { places, splits }, MergeKind::Before));
            }
        }
        let all: Vec<(i64, u64)> =
            windows.into_iter().map(|(window, (_, bytes))| (window, bytes)).collect();
        let steps = self.steps.get_or_insert_with(|| steps(&all, limits));
        while let Some(step) = steps.last() {
            let is_in = |one: &Candidate| step.contains(&window_of(one.timestamp_max));
            let own = candidates.iter().enumerate().filter(|(_, one)| is_in(one));
            let places: Vec<usize> = own.map(|(place, _)| place).collect();
            if !places.is_empty() {
                return Some((Selection { places, splits: true }, MergeKind::Together));
            }
            steps.pop();
        }
        None
    }
}

impl Major {
    /// Those have become these.
    pub fn replaced(&mut self, inputs: &[SstableId], outputs: &[Summary]) {
        let own = self.at_hand.take_if(|at_hand| at_hand.inputs == inputs);
        for (number, table) in &mut self.tables {
            let before = table.left.len();
            table.left.retain(|id| !inputs.contains(id));
            if table.left.len() == before {
                continue;
            }
            let kind = own.as_ref().map(|own| own.kind);
            if kind == Some(MergeKind::Together)
                && let Some(steps) = &mut table.steps
            {
                steps.pop();
            }
            let is_left = |output: &&Summary| match (kind, &table.steps) {
                (Some(MergeKind::Alone), _) => false,
                (Some(MergeKind::Together), Some(steps)) => {
                    steps.iter().any(|step| step.contains(&output.window))
                }
                _ => true,
            };
            let outputs = outputs.iter().filter(|output| output.table == *number);
            table.left.extend(outputs.filter(is_left).map(|output| output.id));
        }
        self.tables.retain(|_, table| !table.left.is_empty());
    }

    /// There is no room to merge these. True if fewer of them are tried: they are several windows.
    pub fn try_fewer(&mut self, inputs: &[SstableId]) -> bool {
        let is_it = |at_hand: &mut AtHand| at_hand.inputs == inputs;
        let Some(AtHand { table, inputs, bytes, kind }) = self.at_hand.take_if(is_it) else {
            return false;
        };
        let Some(state) = self.tables.get_mut(&table) else { return false };
        if kind != MergeKind::Together || inputs.len() < 2 {
            return false;
        }
        state.limits = TogetherLimits::half_of(inputs.len(), bytes);
        state.steps = None;
        if !state.limits.allow_two() {
            self.apart.insert(table);
        }
        true
    }
}

impl Compacting {
    /// Those have become these.
    pub fn replaced(&mut self, outputs: &[Output], inputs: &[SstableId]) {
        let outputs: Vec<_> = outputs.iter().map(|output| output.summary).collect();
        self.major.replaced(inputs, &outputs);
    }

    /// Whether the compaction at hand, for which there is no room, is tried with fewer sstables.
    pub(super) fn try_fewer(&mut self) -> bool {
        self.current.as_ref().is_some_and(|current| self.major.try_fewer(&current.inputs))
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
    /// Tables whose windows were not merged together, for want of memory or space.
    pub apart: usize,
    /// Sstables that were replaced, and whose files are still there: they are being read, or are
    /// about to go.
    pub leaving: usize,
    /// Whether it waits until there is room on the disk.
    pub waits_for_space: bool,
}

impl CompactionLeft {
    /// Whether nothing is left to be done, and the files of what was replaced are gone.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.sstables == 0 && self.leaving == 0
    }
}

impl Store {
    /// Begins to write all sstables that these tables have now once more.
    pub fn compact_tables(&mut self, tables: &[TableNumber]) {
        for number in tables {
            self.compacting.major.apart.remove(number);
            let Some(table) = self.tables.get(number) else { continue };
            let ids = table.sstables.iter().map(|sstable| sstable.summary.id);
            let state = self.compacting.major.tables.entry(*number).or_default();
            *state = MajorTable { left: ids.collect(), ..MajorTable::default() };
        }
        self.compacting.is_due = true;
    }

    /// What is left to be done for these tables.
    #[must_use]
    pub fn compaction_left(&self, tables: &[TableNumber]) -> CompactionLeft {
        let pause_until_us = self.compacting.pause_until_us;
        let waits_for_space = self.clock.elapsed_us() < pause_until_us;
        let unused = self.unused.iter().filter(|(_, is_removed)| *is_removed);
        let unused = unused.map(|(sstable, _)| &sstable.summary.table);
        let leaving = unused.chain(self.compacting.leaving.values());
        let leaving = leaving.filter(|table| tables.contains(table)).count();
        let mut all = CompactionLeft { leaving, waits_for_space, ..CompactionLeft::default() };
        for number in tables {
            all.apart += usize::from(self.compacting.major.apart.contains(number));
            let Some(state) = self.compacting.major.tables.get(number) else { continue };
            let Some(table) = self.tables.get(number) else { continue };
            for sstable in table.sstables.iter().filter(|one| state.left.contains(&one.summary.id))
            {
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
        let mut tables = std::mem::take(&mut self.compacting.major.tables);
        let chosen = tables.iter_mut().find_map(|(number, state)| {
            let table = self.tables.get(number)?;
            let usable = table.sstables.iter().filter(|sstable| self.is_usable(sstable));
            let usable: Vec<&Arc<Sstable>> =
                usable.filter(|one| state.left.contains(&one.summary.id)).collect();
            let candidates: Vec<Candidate> = usable.iter().map(|one| candidate(one)).collect();
            let (selection, kind) = state.choose(&table.settings, &candidates, most)?;
            let inputs = selection.places.iter().map(|place| Arc::clone(usable[*place]));
            Some((*number, inputs.collect::<Vec<_>>(), selection.splits, kind))
        });
        let Some((table, inputs, splits, kind)) = chosen else {
            // What is left cannot be compacted.
            return None;
        };
        self.compacting.major.tables = tables;
        self.compacting.major.at_hand = Some(AtHand {
            table,
            inputs: inputs.iter().map(|input| input.summary.id).collect(),
            bytes: inputs.iter().map(|input| input.summary.bytes).sum(),
            kind,
        });
        Some(Chosen { table, inputs, splits, keeps_all: false, share_min: SHARE_MIN })
    }
}
