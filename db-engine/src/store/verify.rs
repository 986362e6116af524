//! Looking whether files are what was written: every block of every sstable, its index, filter and
//! footer, the manifests, the catalog, and the commit log.

use super::{
    StoreConfig,
    open::{Recovery, ReplayPurpose, index_of, replay},
};
use crate::{
    directory::{Sequential, Survey},
    error::{Error, Result},
    io::{Files, Operation},
    schema::{Catalog, TableSettings},
    sstable::{Block, Summary},
};
use std::collections::BTreeMap;

/// What was looked at, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Verified {
    /// Sstables.
    pub sstables: usize,
    /// Blocks of these.
    pub blocks: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What is wrong: which file, where, and what to do.
    pub problems: Vec<Error>,
}

impl Verified {
    /// Looks at an sstable; goes on behind a block that is damaged.
    pub fn sstable(&mut self, files: &mut dyn Files, summary: &Summary) {
        self.sstables += 1;
        self.bytes += summary.bytes;
        if let Err(error) = self.blocks(&mut Sequential(files), summary) {
            self.problems.push(error);
        }
    }

    fn blocks(&mut self, files: &mut Sequential<'_>, summary: &Summary) -> Result<()> {
        let name = summary.id.file_name();
        let index = index_of(files, summary)?;
        let (file, _) = files.open(&name)?;
        for location in (0..index.len()).filter_map(|block| index.location(block)) {
            let stored = files.read(&name, file, location.offset, u64::from(location.bytes))?;
            self.blocks += 1;
            if let Err(error) = Block::decode(summary.id, location.offset, stored.as_slice()) {
                let what = format!("{error}. Restore this file from a backup");
                self.problems.push(Error::corrupt(&name, location.offset, what));
            }
        }
        files.run(&name, Operation::Close { file })?;
        Ok(())
    }
}

/// A directory that no engine uses.
pub struct StoppedDirectory {
    survey: Survey,
}

impl StoppedDirectory {
    /// Judges its manifests and its catalog. Nothing of it is changed.
    ///
    /// # Errors
    /// It cannot be read, or is not what an engine has left.
    pub fn read(files: &mut dyn Files) -> Result<Self> {
        Survey::read(&mut Sequential(files)).map(|survey| Self { survey })
    }

    /// Its schema.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.survey.catalog
    }

    /// Its sstables that count.
    pub fn sstables(&self) -> impl Iterator<Item = &Summary> {
        self.survey.run.sstables.values()
    }

    /// Its files that make it one, but for the sstables.
    pub fn manifests(&self) -> impl Iterator<Item = &str> {
        let is_one = |name: &&String| *name == "catalog" || name.starts_with("manifest-");
        self.survey.names.iter().filter(is_one).map(String::as_str)
    }

    /// Looks at everything, and tells before each sstable how far it is.
    pub fn verify(&self, files: &mut dyn Files, tell: &mut dyn FnMut(&Verified)) -> Verified {
        let mut verified = Verified::default();
        for summary in self.sstables() {
            tell(&verified);
            verified.sstable(files, summary);
        }
        let config = StoreConfig::default();
        let tables: BTreeMap<_, TableSettings> = self.survey.catalog.stored();
        let mut recovery = Recovery::new(&config, (0, 0), &tables, ReplayPurpose::Judge);
        let Survey { names, run, .. } = &self.survey;
        let replayed = replay(&mut Sequential(files), names, run, &mut recovery);
        verified.problems.extend(replayed.err());
        verified
    }
}
