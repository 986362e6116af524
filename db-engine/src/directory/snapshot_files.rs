//! What makes a directory of a snapshot or a restored one, beside its sstables: the files of a run
//! that has ended and had no shards. `docs/format/manifest.md` has them.
//!
//! `FORMAT` comes last. Without it nothing counts: the engine refuses such a directory, and so does
//! whoever restores.

use std::collections::BTreeSet;

use super::{
    Journal, RunManifest, Sequential,
    catalog_file::FoundCatalog,
    claim,
    found::{CHECKPOINT_NEW, judge},
    manifest::{Checkpoint, NO_SHARD, RunStart, checkpoint_name, encode_checkpoint},
};
use crate::{error::Result, io::Operation, schema::Catalog, sstable::Summary};

/// A directory that nobody has locked: a snapshot, or one that is looked at while its engine is
/// stopped.
pub(crate) struct Survey {
    pub names: BTreeSet<String>,
    pub run: RunManifest,
    pub catalog: Catalog,
}

impl Survey {
    /// Reads and judges a directory as an opening does it. Nothing of it is changed.
    pub fn read(files: &mut Sequential<'_>) -> Result<Self> {
        let version = claim::version(files)?;
        let names = files.names()?;
        let (run, catalog) = judge(files, &names, version)?;
        let catalog = catalog.map(|found| found.catalog).unwrap_or_default();
        Ok(Self { names, run, catalog })
    }
}

/// Makes a directory, in which these sstables lie and nothing else, one that can be restored.
pub(crate) fn complete_snapshot(
    files: &mut Sequential<'_>,
    catalog: &Catalog,
    sstables: Vec<Summary>,
) -> Result<()> {
    let epoch = sstables.iter().map(|summary| summary.id.epoch).max().unwrap_or(1);
    let catalog = FoundCatalog::write(files, catalog.clone())?;
    Journal::create(files, epoch, NO_SHARD)?;
    let start = RunStart { shards: 0, catalog: catalog.mark, obsolete: Vec::new() };
    let bytes = encode_checkpoint(&Checkpoint { epoch, start: Some(start), sstables });
    files.replace_file(CHECKPOINT_NEW, &checkpoint_name(epoch), &bytes)?;
    files.run(".", Operation::SyncDirectory)?;
    claim::write_format(files)
}

/// Makes a directory that has all files of a snapshot but `FORMAT` one that an engine opens.
pub(crate) fn complete_restored(files: &mut Sequential<'_>) -> Result<()> {
    files.write_file(claim::LOCK, Vec::new())?;
    files.run(".", Operation::SyncDirectory)?;
    claim::write_format(files)
}
