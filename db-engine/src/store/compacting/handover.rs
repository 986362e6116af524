//! Sstables with rows of several shards, which another number of shards has left.
//!
//! The shard that has the first of the rows writes them anew, in files of one shard each. When its
//! record says that these count in place of the old one, it tells the others, which go on with the
//! old file until they have opened their own. It is removed by the last that lets go of it.

use std::{collections::BTreeMap, sync::Arc};

use super::choosing::Chosen;
use crate::{
    error::{Error, is_passing},
    io::{Completion, Operation, Outcome},
    mutation::{TableNumber, token::shard_of},
    sstable::{Index, SstableId, Summary},
    store::{
        Done, Fatal, Store, TableData,
        background::{NO_SPACE_PAUSE_US, Output},
        table::Sstable,
        turn::InFlight,
    },
};

/// What another shard has made of an sstable, as far as it concerns this one.
#[derive(Debug)]
pub struct SplitSstable {
    table: TableNumber,
    input: SstableId,
    outputs: Vec<(Summary, Arc<Index>)>,
}

/// Files of another shard's making that are being opened.
pub(in crate::store) struct TakeOver {
    table: TableNumber,
    input: SstableId,
    outputs: Vec<Output>,
    in_flight: usize,
    /// When those are opened that are not open yet.
    open_at_us: Option<u64>,
}

impl Store {
    /// An sstable of this table that this shard is to split.
    pub(super) fn choose_split(&self, number: TableNumber, table: &TableData) -> Option<Chosen> {
        table.settings.tiers?;
        let is_ours = |one: &&Arc<Sstable>| {
            one.holders.is_some()
                && shard_of(one.summary.token_first, self.config.shards) == self.shard
                && !self.compacting.left_alone.contains(&one.summary.id)
        };
        let found = table.sstables.iter().find(is_ours)?;
        let window_of = |window_us: i64| found.summary.timestamp_max.div_euclid(window_us);
        let window_us = table.settings.window_us.filter(|window_us| *window_us > 0);
        let splits = window_us.is_some_and(|us| window_of(us) != found.summary.window);
        let inputs = vec![Arc::clone(found)];
        Some(Chosen { table: number, inputs, splits, keeps_all: true, share_min: 0 })
    }

    /// Tells other shards what an sstable was split into that these inputs are, if it was; gives
    /// what is left for this one.
    pub(in crate::store) fn hand_over(
        &mut self,
        outputs: Vec<Output>,
        inputs: &[SstableId],
    ) -> Vec<Output> {
        let is_input = |one: &&Arc<Sstable>| inputs.contains(&one.summary.id);
        let mut all = self.tables.values().flat_map(|table| table.sstables.iter());
        let found = all.find(|one| one.holders.is_some() && is_input(one));
        let Some(Summary { id, table, token_first, token_last, .. }) = found.map(|one| one.summary)
        else {
            return outputs;
        };
        let shards = self.config.shards;
        let owner = |token| shard_of(token, shards);
        let new = || SplitSstable { table, input: id, outputs: Vec::new() };
        let spanned = owner(token_first)..=owner(token_last);
        let others = spanned.filter(|shard| *shard != self.shard);
        let mut others: BTreeMap<u16, SplitSstable> = others.map(|other| (other, new())).collect();
        let mut own = Vec::new();
        for output in outputs {
            let Some(other) = others.get_mut(&owner(output.summary.token_first)) else {
                own.push(output);
                continue;
            };
            other.outputs.push((output.summary, output.index));
            if let Some(file) = output.file {
                self.close(file);
            }
        }
        self.done.extend(others.into_iter().map(|(to, split)| Done::Split(to, Box::new(split))));
        own
    }

    /// Takes over what another shard has made of an sstable. Until its files are open, reads go on
    /// with that.
    pub fn take_over(&mut self, split: SplitSstable) {
        let SplitSstable { table, input, outputs } = split;
        let outputs = outputs.into_iter().map(|(summary, index)| {
            let (pieces, file) = (Vec::new(), None);
            Output { summary, index, pieces, file }
        });
        let (outputs, open_at_us) = (outputs.collect(), Some(0));
        let new = TakeOver { table, input, outputs, in_flight: 0, open_at_us };
        self.compacting.taken_over.push(new);
        self.open_taken_over(0);
    }

    /// When files are opened that could not be before, by what has elapsed.
    pub(in crate::store) fn take_over_due_us(&self) -> Option<u64> {
        self.compacting.taken_over.iter().filter_map(|one| one.open_at_us).min()
    }

    /// Opens the files whose time has come.
    pub(in crate::store) fn open_taken_over(&mut self, now_us: u64) {
        let mut names = Vec::new();
        for one in &mut self.compacting.taken_over {
            if one.open_at_us.take_if(|at_us| *at_us <= now_us).is_some() {
                let closed = one.outputs.iter().enumerate();
                let closed = closed.filter(|(_, output)| output.file.is_none());
                let before = names.len();
                names.extend(closed.map(|(number, output)| {
                    (output.summary.id.file_name(), InFlight::TakeOver(one.input, number))
                }));
                one.in_flight += names.len() - before;
            }
        }
        for (name, job) in names {
            self.submit(Operation::Open { name }, job);
        }
        self.end_taking_over();
    }

    /// One of those files is open, or could not be opened.
    pub(in crate::store) fn taken_over(
        &mut self,
        input: SstableId,
        number: usize,
        over: Completion,
    ) -> Result<(), Fatal> {
        let now_us = self.clock.elapsed_us();
        let mut all = self.compacting.taken_over.iter_mut();
        let Some(one) = all.find(|one| one.input == input) else { return Ok(()) };
        one.in_flight -= 1;
        match over.result {
            Ok(Outcome::Opened { file, .. }) => one.outputs[number].file = Some(file),
            Ok(_) => {}
            Err(error) if is_passing(&error) => {
                one.open_at_us = Some(now_us.saturating_add(NO_SPACE_PAUSE_US));
            }
            Err(error) => {
                let name = one.outputs[number].summary.id.file_name();
                return Err(Error::io(name, error).into());
            }
        }
        self.end_taking_over();
        Ok(())
    }

    /// Goes on with the new files where all of them are open.
    fn end_taking_over(&mut self) {
        let is_over = |one: &mut TakeOver| one.in_flight == 0 && one.open_at_us.is_none();
        let over: Vec<_> = self.compacting.taken_over.extract_if(.., is_over).collect();
        for TakeOver { table, input, outputs, .. } in over {
            let is_known = self.tables.contains_key(&table);
            self.compacting.replaced(&outputs, &[input]);
            self.take_compacted(outputs, &[input]);
            if is_known {
                self.forget(&[input]);
            }
            self.note_sstables();
        }
    }
}
