//! The last run, as its manifests tell of it.
//!
//! Nothing here changes the directory. `docs/format/manifest.md` says what a crash may leave at
//! each moment; whatever else is found is refused, with the file that tells so.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Sequential,
    catalog_file::{self, FoundCatalog},
    journal::read_journal,
    manifest::{
        CatalogMark, Change, Checkpoint, NO_SHARD, NeededLog, RunStart, checkpoint_name,
        decode_checkpoint, journal_name, parse_name,
    },
};
use crate::{
    commitlog::SegmentId,
    error::{Error, Result},
    sstable::{SstableId, Summary},
};

const BACKUP: &str = "Restore this directory from a backup";

/// What is known of a run from its manifests.
#[derive(Debug, Default)]
pub(crate) struct RunManifest {
    /// The run; 0 if there was none.
    pub epoch: u32,
    /// All sstables that count.
    pub sstables: BTreeMap<SstableId, Summary>,
    /// What is needed of the commit log, by shard.
    pub logs: BTreeMap<u16, NeededLog>,
    /// How it began; `None` if there was none, or if it is of the first version.
    start: Option<RunStart>,
    /// The last catalog that was recorded.
    catalog: Option<CatalogMark>,
    /// Sstables that were taken out of the manifest.
    removed: BTreeSet<SstableId>,
}

impl RunManifest {
    /// Reads the newest checkpoint and the journals of its run, and judges by them which files
    /// there may be.
    pub fn read(files: &mut Sequential<'_>, names: &BTreeSet<String>) -> Result<Self> {
        let manifests: Vec<_> = names.iter().filter_map(|name| parse_name(name)).collect();
        let newest = manifests.iter().filter(|(_, shard)| shard.is_none()).map(|(epoch, _)| *epoch);
        let mut manifest = match newest.max() {
            Some(epoch) => Self::read_checkpoint(files, epoch)?,
            None => Self::default(),
        };
        manifest.check_names(files, names)?;
        let shards = manifests.iter().filter(|(epoch, _)| *epoch == manifest.epoch);
        let mut shards: BTreeSet<u16> = shards.filter_map(|(_, shard)| *shard).collect();
        if let Some(start) = &manifest.start {
            shards.extend((0..start.shards).chain([NO_SHARD]));
        }
        for shard in shards {
            manifest.read_journal(files, names, shard)?;
        }
        // What one shard has written for another is added by one journal and removed by the other.
        let Self { sstables, removed, .. } = &mut manifest;
        sstables.retain(|id, _| !removed.contains(id));
        manifest.check_sstables(names)?;
        Ok(manifest)
    }

    fn read_checkpoint(files: &mut Sequential<'_>, epoch: u32) -> Result<Self> {
        let name = checkpoint_name(epoch);
        let bytes = files.read_file(&name)?;
        let Checkpoint { start, sstables, .. } = decode_checkpoint(epoch, bytes.as_slice())
            .map_err(|error| Error::corrupt(&name, 0, format!("{error}. {BACKUP}")))?;
        Ok(Self {
            epoch,
            sstables: sstables.into_iter().map(|summary| (summary.id, summary)).collect(),
            catalog: start.as_ref().map(|start| start.catalog),
            start,
            ..Self::default()
        })
    }

    fn read_journal(
        &mut self,
        files: &mut Sequential<'_>,
        names: &BTreeSet<String>,
        shard: u16,
    ) -> Result<()> {
        let name = journal_name(self.epoch, shard);
        if !names.contains(&name) {
            return Err(self.missing(&name));
        }
        let bytes = files.read_file(&name)?;
        for change in read_journal(self.epoch, shard, bytes.as_slice(), self.start.is_none())? {
            self.logs.entry(shard).or_default().note(&change);
            match change {
                Change::Begun | Change::Flushed { .. } | Change::Log { .. } | Change::LogEnd(_) => {
                }
                Change::Catalog(mark) => self.catalog = Some(mark),
                Change::Add(added) => {
                    self.sstables.extend(added.into_iter().map(|summary| (summary.id, summary)));
                }
                Change::Remove(removed) => {
                    self.removed.extend(removed);
                }
            }
        }
        Ok(())
    }

    /// A run is in the names of its files, and before the first of them, but for those of an
    /// opening, its checkpoint is there.
    fn check_names(&self, files: &mut Sequential<'_>, names: &BTreeSet<String>) -> Result<()> {
        for name in names {
            if let Some(segment) = SegmentId::of_name(name) {
                self.check_run(name, segment.epoch, segment.shard)?;
            } else if let Some((epoch, Some(shard))) = parse_name(name) {
                if epoch > self.epoch {
                    check_unused(files, name, epoch, shard)?;
                } else if shard != NO_SHARD {
                    self.check_run(name, epoch, shard)?;
                }
            }
        }
        Ok(())
    }

    fn check_run(&self, name: &str, epoch: u32, shard: u16) -> Result<()> {
        let of_no_shard = |start: &RunStart| epoch == self.epoch && shard >= start.shards;
        if epoch > self.epoch {
            let what = format!(
                "the run of the engine that wrote it began with a file {}, which is missing. \
                 {BACKUP}",
                checkpoint_name(epoch)
            );
            return Err(Error::Unusable { path: name.into(), what });
        }
        if self.start.as_ref().is_some_and(of_no_shard) {
            let what = format!("its run had no such shard. Move it out of the directory. {BACKUP}");
            return Err(Error::Unusable { path: name.into(), what });
        }
        Ok(())
    }

    /// Sstables that count are there, and those that do not are what a crash may leave.
    fn check_sstables(&self, names: &BTreeSet<String>) -> Result<()> {
        let mut counting = self.sstables.keys().map(SstableId::file_name);
        if let Some(name) = counting.find(|name| !names.contains(name)) {
            return Err(self.missing(&name));
        }
        let found = names.iter().filter_map(|name| SstableId::from_file_name(name));
        for id in found.filter(|id| !self.sstables.contains_key(id)) {
            if !self.is_leftover(id) {
                let what = "no manifest knows of this sstable, and no crash leaves one like it. \
                            Move it out of the directory if it does not belong there; else a \
                            manifest is not what it was: restore this directory from a backup";
                return Err(Error::Unusable { path: id.file_name().into(), what: what.into() });
            }
        }
        Ok(())
    }

    /// Whether an sstable that does not count was left by a flush or an opening that did not end,
    /// or is one whose removal did not.
    fn is_leftover(&self, id: SstableId) -> bool {
        if id.epoch > self.epoch {
            return self.epoch > 0 && id.shard == NO_SHARD;
        }
        let Some(start) = &self.start else { return true };
        let of_a_flush = id.epoch == self.epoch && id.shard < start.shards;
        of_a_flush || self.removed.contains(&id) || start.obsolete.contains(&id)
    }

    /// Whether its checkpoint is of the first version, or there is none.
    pub fn is_of_first_version(&self) -> bool {
        self.start.is_none()
    }

    /// Judges the catalog, or that there is none.
    pub fn check_catalog(&self, found: Option<&FoundCatalog>) -> Result<()> {
        let refuse = |what: &str| {
            let what = format!("{what}. {BACKUP}");
            Err(Error::Unusable { path: catalog_file::NAME.into(), what })
        };
        match (self.catalog, found) {
            (Some(_), None) => refuse("it is missing"),
            // The change was not answered yet when the engine ended.
            (Some(mark), Some(found)) if found.mark.generation == mark.generation + 1 => Ok(()),
            (Some(mark), Some(found)) if found.mark == mark => Ok(()),
            (Some(mark), Some(found)) => refuse(&format!(
                "it is catalog {} with checksum {:08x}, and the manifest says {} with {:08x}",
                found.mark.generation, found.mark.checksum, mark.generation, mark.checksum
            )),
            (None, Some(found)) if self.epoch == 0 && !found.is_first() => {
                refuse("there is a schema, but the manifest of the last run is missing")
            }
            (None, Some(found)) if found.mark.generation > 1 => {
                refuse("it is newer than the manifest, which was put back")
            }
            (None, _) => Ok(()),
        }
    }

    fn missing(&self, name: &str) -> Error {
        let what = format!("it is missing, and {} needs it. {BACKUP}", checkpoint_name(self.epoch));
        Error::Unusable { path: name.into(), what }
    }
}

/// A number that no file of a run or of an opening has: the next run gets it.
pub(super) fn next_epoch(names: &BTreeSet<String>) -> Result<u32> {
    let epoch_of = |name: &String| {
        parse_name(name)
            .map(|(epoch, _)| epoch)
            .or_else(|| SstableId::from_file_name(name).map(|id| id.epoch))
    };
    let newest = names.iter().filter_map(epoch_of).max().unwrap_or(0);
    newest.checked_add(1).ok_or_else(|| {
        let what = "no run can have a higher number than the newest file here";
        Error::Unusable { path: ".".into(), what: what.into() }
    })
}

/// A journal without a checkpoint was left by an opening that did not end: nothing but its
/// first record is in it.
fn check_unused(files: &mut Sequential<'_>, name: &str, epoch: u32, shard: u16) -> Result<()> {
    let bytes = files.read_file(name)?;
    let changes = read_journal(epoch, shard, bytes.as_slice(), true)?;
    if changes.iter().all(|change| *change == Change::Begun) {
        return Ok(());
    }
    let what = format!(
        "the run of the engine that wrote it began with a file {}, which is missing. {BACKUP}",
        checkpoint_name(epoch)
    );
    Err(Error::Unusable { path: name.into(), what })
}
