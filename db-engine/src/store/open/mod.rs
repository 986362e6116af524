//! Opening a directory: whatever happened before, everything acknowledged comes back.
//!
//! The newest checkpoint and the journals of its run tell which sstables there are; the logs of
//! that run have the rest. What is in the logs is flushed into new sstables, and a new checkpoint
//! is the one moment at which all of this counts. ADR 0002 has the reasons.

mod replay;
mod sstables;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use sstables::open_sstable;

use super::StoreConfig;
use crate::{
    commitlog::SegmentId,
    directory::{
        Sequential,
        manifest::{checkpoint_name, encode_checkpoint, parse_name},
        read_manifest,
    },
    error::Result,
    io::Operation,
    mutation::TableNumber,
    schema::TableSettings,
    sstable::{SstableId, Summary},
};
use replay::{Recovery, replay};
use sstables::expired;

const CHECKPOINT_NEW: &str = "manifest.tmp";

/// What opening found.
pub(super) struct Opened {
    /// This run.
    pub epoch: u32,
    /// All sstables.
    pub sstables: Vec<Summary>,
}

/// Brings the directory up to date and begins a new run.
pub(super) fn recover(
    config: &StoreConfig,
    files: &mut Sequential<'_>,
    tables: &BTreeMap<TableNumber, TableSettings>,
    now_s: i64,
) -> Result<Opened> {
    let names = files.names()?;
    let mut manifest = read_manifest(files, &names)?;
    let epoch = manifest.epoch + 1;
    // Leftovers of a run that did not get as far as its checkpoint.
    remove_if(files, &names, |name| {
        SstableId::from_file_name(name).is_some_and(|id| !manifest.sstables.contains_key(&id))
            || name == CHECKPOINT_NEW
    })?;
    let mut obsolete: BTreeSet<SstableId> = manifest
        .sstables
        .values()
        .filter(|summary| !tables.contains_key(&summary.table))
        .map(|summary| summary.id)
        .collect();
    manifest.sstables.retain(|id, _| !obsolete.contains(id));

    let mut recovery = Recovery::new(config, epoch, tables);
    replay(files, &names, &manifest, &mut recovery)?;
    recovery.flush(files)?;
    for summary in recovery.written {
        manifest.sstables.insert(summary.id, summary);
    }
    for id in expired(&manifest.sstables, tables, now_s) {
        manifest.sstables.remove(&id);
        obsolete.insert(id);
    }

    let sstables: Vec<Summary> = manifest.sstables.into_values().collect();
    let checkpoint = encode_checkpoint(epoch, &sstables);
    files.run(".", Operation::SyncDirectory)?;
    files.replace_file(CHECKPOINT_NEW, &checkpoint_name(epoch), &checkpoint)?;

    let names = files.names()?;
    remove_if(files, &names, |name| {
        SstableId::from_file_name(name).is_some_and(|id| obsolete.contains(&id))
            || SegmentId::of_name(name).is_some()
            || parse_name(name).is_some_and(|(other, _)| other != epoch)
    })?;
    files.run(".", Operation::SyncDirectory)?;
    Ok(Opened { epoch, sstables })
}

fn remove_if(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    is_obsolete: impl Fn(&str) -> bool,
) -> Result<()> {
    names.iter().filter(|name| is_obsolete(name)).try_for_each(|name| files.remove(name))
}
