//! Opening a directory: whatever happened before, everything acknowledged comes back.
//!
//! The newest checkpoint and the journals of its run tell which sstables there are; the logs of
//! that run have the rest. All of them are judged before anything is written, and a refusal leaves
//! the directory as it was. Then what is in the logs is flushed into new sstables, and a new
//! checkpoint is the one moment at which all of this counts. Only after that files are removed.
//! ADR 0002 and 0029 have the reasons.

mod replay;
mod sstables;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU16},
};

pub(super) use sstables::index_of;

use super::StoreConfig;
use crate::{
    directory::{FoundDirectory, NewRun, Sequential},
    error::Result,
    mutation::{TableNumber, token::shard_of},
    schema::TableSettings,
    sstable::{Index, SstableId, Summary},
};
pub(super) use replay::{Recovery, ReplayPurpose, replay};
use sstables::expired;

/// What opening came to.
pub(super) struct Opened {
    /// This run.
    pub run: NewRun,
    /// All sstables.
    pub sstables: Vec<Summary>,
    /// How many shards use those that have rows of several.
    holders: BTreeMap<SstableId, Arc<AtomicU16>>,
    /// What was read of those that were there before.
    indexes: BTreeMap<SstableId, Arc<Index>>,
}

impl Opened {
    /// How many shards use an sstable, if it has rows of several.
    pub fn holders_of(&self, id: SstableId) -> Option<Arc<AtomicU16>> {
        self.holders.get(&id).cloned()
    }

    /// The index of an sstable, which is read unless it was.
    pub fn index_of(&self, files: &mut Sequential<'_>, summary: &Summary) -> Result<Arc<Index>> {
        let known = self.indexes.get(&summary.id).map(Arc::clone);
        known.map_or_else(|| index_of(files, summary), Ok)
    }
}

/// Judges what is left to be judged, brings the directory up to date and begins a new run.
pub(super) fn recover(
    config: &StoreConfig,
    files: &mut Sequential<'_>,
    found: &FoundDirectory,
    tables: &BTreeMap<TableNumber, TableSettings>,
    now_s: i64,
) -> Result<Opened> {
    let needed = found.run.sstables.values().filter(|summary| tables.contains_key(&summary.table));
    let needed: BTreeMap<_, _> = needed.map(|summary| (summary.id, *summary)).collect();
    let mut indexes = BTreeMap::new();
    for summary in needed.values() {
        indexes.insert(summary.id, index_of(files, summary)?);
    }
    let mut recovery = Recovery::new(config, (0, now_s), tables, ReplayPurpose::Judge);
    replay(files, &found.names, &found.run, &mut recovery)?;
    found.check_rows(recovery.has_blocks || !found.run.sstables.is_empty())?;

    let run = found.begin_run(files, config.shards)?;
    let mut recovery = Recovery::new(config, (run.epoch, now_s), tables, ReplayPurpose::Apply);
    let replayed = replay(files, &found.names, &found.run, &mut recovery);
    if let Err(error) = replayed.and_then(|()| recovery.flush(files)) {
        run.abandon(files);
        return Err(error);
    }
    let written = recovery.written.iter().map(|summary| summary.id).collect();
    let mut sstables = needed;
    sstables.extend(recovery.written.into_iter().map(|summary| (summary.id, summary)));
    for id in expired(&sstables, tables, now_s) {
        sstables.remove(&id);
    }
    let sstables: Vec<Summary> = sstables.into_values().collect();
    run.commit(files, found, sstables.clone(), &written)?;
    let holders = sstables.iter().filter_map(|summary| {
        let owner = |token| shard_of(token, config.shards);
        let others = owner(summary.token_last) - owner(summary.token_first);
        (others > 0).then(|| (summary.id, Arc::new(AtomicU16::new(others + 1))))
    });
    let holders = holders.collect();
    Ok(Opened { run, sstables, holders, indexes })
}
