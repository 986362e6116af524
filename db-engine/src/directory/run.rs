//! What the manifests tell of the last run.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Sequential,
    manifest::{
        Change, checkpoint_name, decode_checkpoint, decode_journal, journal_name, parse_name,
    },
};
use crate::{
    error::{Error, Result},
    sstable::{SstableId, Summary},
};

/// What is known of a run from its manifests.
#[derive(Default)]
pub(crate) struct RunManifest {
    /// The run; 0 if there was none.
    pub epoch: u32,
    /// All sstables that count.
    pub sstables: BTreeMap<SstableId, Summary>,
    /// By shard: the first segment that is needed, and the last block that is not.
    pub flushed: BTreeMap<u16, (u32, u64)>,
}

/// Reads the newest checkpoint and the journals of its run.
pub(crate) fn read_manifest(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
) -> Result<RunManifest> {
    let manifests: Vec<_> = names.iter().filter_map(|name| parse_name(name)).collect();
    let newest = manifests.iter().filter(|(_, shard)| shard.is_none()).map(|(epoch, _)| *epoch);
    let Some(epoch) = newest.max() else { return Ok(RunManifest::default()) };
    let name = checkpoint_name(epoch);
    let bytes = files.read_file(&name)?;
    let summaries = decode_checkpoint(epoch, bytes.as_slice())
        .map_err(|error| Error::corrupt(&name, 0, error.to_string()))?;
    let sstables = summaries.into_iter().map(|summary| (summary.id, summary)).collect();
    let mut manifest = RunManifest { epoch, sstables, flushed: BTreeMap::new() };
    let journals =
        manifests.iter().filter(|(run, _)| *run == epoch).filter_map(|(_, shard)| *shard);
    for shard in journals {
        let name = journal_name(epoch, shard);
        let bytes = files.read_file(&name)?;
        for change in decode_journal(epoch, shard, bytes.as_slice()) {
            match change {
                Change::Add(added) => {
                    manifest
                        .sstables
                        .extend(added.into_iter().map(|summary| (summary.id, summary)));
                }
                Change::Remove(removed) => {
                    manifest.sstables.retain(|id, _| !removed.contains(id));
                }
                Change::Flushed { floor, sequence } => {
                    manifest.flushed.insert(shard, (floor, sequence));
                }
            }
        }
    }
    Ok(manifest)
}
