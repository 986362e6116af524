//! From a directory as it was found to one in which a new run has begun.

use std::collections::BTreeSet;

use super::{
    Journal, RunManifest, Sequential,
    catalog_file::{self, FoundCatalog},
    claim::{self, FORMAT_VERSION},
    manifest::{
        CatalogMark, Checkpoint, NO_SHARD, RunStart, checkpoint_name, encode_checkpoint, parse_name,
    },
    run::next_epoch,
};
use crate::{
    commitlog::SegmentId,
    error::Result,
    io::{Files, Operation},
    schema::Catalog,
    sstable::{SstableId, Summary},
};

pub(super) const CHECKPOINT_NEW: &str = "manifest.tmp";

/// A directory that is locked and whose manifests and catalog were judged. Nothing of it was
/// changed; only its lock file may be new.
pub(crate) struct FoundDirectory {
    pub names: BTreeSet<String>,
    pub run: RunManifest,
    pub catalog: Option<FoundCatalog>,
    /// Of its formats; `None` in an empty directory.
    version: Option<u32>,
}

impl FoundDirectory {
    /// Takes and judges a directory. The lock lives as long as `lock`.
    pub fn read(lock: &mut dyn Files, files: &mut Sequential<'_>) -> Result<Self> {
        let version = claim::claim(&mut Sequential(lock))?;
        let names = files.names()?;
        let (run, catalog) = judge(files, &names, version)?;
        Ok(Self { names, run, catalog, version })
    }

    /// The schema; an empty one if there is none yet.
    pub fn take_catalog(&mut self) -> Catalog {
        self.catalog.as_mut().map(|found| std::mem::take(&mut found.catalog)).unwrap_or_default()
    }

    /// Refuses a directory of the first version that has rows and no catalog; those of later
    /// versions always have one.
    pub fn check_rows(&self, has_rows: bool) -> Result<()> {
        if has_rows && self.catalog.is_none() {
            return Err(catalog_file::missing());
        }
        Ok(())
    }

    /// Begins a run: all that it needs is there, but does not count before [`NewRun::commit`].
    pub fn begin_run(&self, files: &mut Sequential<'_>, shards: u16) -> Result<NewRun> {
        let epoch = next_epoch(&self.names)?;
        if self.version != Some(FORMAT_VERSION) {
            claim::write_format(files)?;
        }
        let catalog = match &self.catalog {
            Some(catalog) => catalog.mark,
            None => FoundCatalog::create(files)?.mark,
        };
        for shard in (0..shards).chain([NO_SHARD]) {
            Journal::create(files, epoch, shard)?;
        }
        files.run(".", Operation::SyncDirectory)?;
        Ok(NewRun { epoch, shards, catalog })
    }
}

/// Reads and judges the manifests and the catalog of a directory whose formats have this version.
pub(super) fn judge(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    version: Option<u32>,
) -> Result<(RunManifest, Option<FoundCatalog>)> {
    let run = RunManifest::read(files, names)?;
    if !run.is_of_first_version() && version != Some(FORMAT_VERSION) {
        return Err(claim::put_back());
    }
    let catalog = FoundCatalog::read(files, names)?;
    run.check_catalog(catalog.as_ref())?;
    Ok((run, catalog))
}

/// A run that begins.
pub(crate) struct NewRun {
    pub epoch: u32,
    shards: u16,
    pub catalog: CatalogMark,
}

impl NewRun {
    /// The one moment at which the run counts: these are its sstables. Whatever else was found is
    /// removed then, and what was written for it and expired meanwhile.
    pub fn commit(
        &self,
        files: &mut Sequential<'_>,
        found: &FoundDirectory,
        sstables: Vec<Summary>,
        written: &BTreeSet<SstableId>,
    ) -> Result<()> {
        let counts: BTreeSet<SstableId> = sstables.iter().map(|summary| summary.id).collect();
        let known = found.names.iter().filter_map(|name| SstableId::from_file_name(name));
        let known: BTreeSet<SstableId> = known.chain(written.iter().copied()).collect();
        let obsolete: Vec<SstableId> = known.difference(&counts).copied().collect();
        let mut gone: Vec<String> = obsolete.iter().map(SstableId::file_name).collect();
        // Of a file that is none of ours nobody knows whether it is of use.
        let is_of_a_run = |name: &&String| {
            SegmentId::of_name(name).is_some()
                || SegmentId::is_new_name(name)
                || parse_name(name).is_some()
        };
        gone.extend(found.names.iter().filter(is_of_a_run).cloned());

        let start = RunStart { shards: self.shards, catalog: self.catalog, obsolete };
        let checkpoint = Checkpoint { epoch: self.epoch, start: Some(start), sstables };
        let bytes = encode_checkpoint(&checkpoint);
        files.run(".", Operation::SyncDirectory)?;
        files.replace_file(CHECKPOINT_NEW, &checkpoint_name(self.epoch), &bytes)?;
        gone.iter().try_for_each(|name| files.remove(name))?;
        files.run(".", Operation::SyncDirectory)?;
        Ok(())
    }

    /// Takes back the sstables of a run that could not begin, so that trying again and again does
    /// not fill the disk. Its journals stay: no other run gets its number.
    pub fn abandon(&self, files: &mut Sequential<'_>) {
        for name in files.names().unwrap_or_default() {
            if SstableId::from_file_name(&name).is_some_and(|id| id.epoch == self.epoch) {
                // The error that ended the run is the one to be told.
                drop(files.remove(&name));
            }
        }
    }
}
