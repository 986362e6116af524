//! Snapshots of an engine that runs, and looking at its sstables.

use super::{
    accounts::{SnapshotAccount, VerifyAccount},
    errands::{Errands, Refusal, Teller, numbers, resolve},
    snapshots::{SNAPSHOTS, files_of, fill, prepare},
};
use crate::{
    mutation::{TableNumber, token::shard_of},
    shard::errand::Errand,
    sstable::{SstableId, Summary},
    store::{PinnedSstable, Verified},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::TryLockError,
    thread::sleep,
    time::{Duration, Instant},
};

/// After which it is looked again whether all shards know that an sstable was split.
const SPLIT_TIME: Duration = Duration::from_millis(5);

/// Sstables that stay where they are until this is dropped.
struct Pinned<'a> {
    sstables: BTreeMap<SstableId, PinnedSstable>,
    errands: &'a Errands,
}

impl Pinned<'_> {
    fn summaries(&self) -> Vec<Summary> {
        self.sstables.values().map(PinnedSstable::summary).collect()
    }
}

impl Drop for Pinned<'_> {
    /// Shards that wait for it to remove files look again.
    fn drop(&mut self) {
        self.sstables.clear();
        for letterbox in &self.errands.boxes {
            letterbox.bell().ring();
        }
    }
}

impl Errands {
    /// Takes a snapshot of these tables, into the data directory or elsewhere.
    pub(super) fn snapshot(
        &self,
        name: &str,
        names: &[String],
        to: Option<PathBuf>,
        teller: &Teller<'_>,
    ) -> Result<SnapshotAccount, Refusal> {
        let _alone = match self.snapshot_at_hand.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err("another snapshot is being taken: wait for it".to_owned());
            }
            other => other,
        };
        let parent = to.unwrap_or_else(|| self.directory.join(SNAPSHOTS));
        let target = prepare(&parent, name)?;
        self.fill_snapshot(&target, names, teller).inspect_err(|_| {
            // What is there counts for nothing, and the error to be told is the first one.
            let _ = fs::remove_dir_all(&target);
        })
    }

    fn fill_snapshot(
        &self,
        target: &Path,
        names: &[String],
        teller: &Teller<'_>,
    ) -> Result<SnapshotAccount, Refusal> {
        let (catalog, (tables, pinned)) = unchanged(
            || self.shared.schema(),
            |catalog| {
                let tables = resolve(catalog, names)?;
                let numbers = numbers(&tables);
                self.ask_all(teller, |to| Errand::Flush(numbers.clone(), to))?;
                Ok((tables.len(), self.pin(&numbers, teller)?))
            },
        )?;
        let summaries = pinned.summaries();
        let all = summaries.len();
        let account = SnapshotAccount {
            directory: target.display().to_string(),
            tables,
            sstables: all,
            bytes: summaries.iter().map(|summary| summary.bytes).sum(),
        };
        let mut told = Instant::now();
        fill(&self.directory, target, &catalog, summaries, &mut |done| {
            teller.tell_sometimes(&mut told, || format!("{done} of {all} sstables are linked"))
        })?;
        Ok(account)
    }

    /// Reads all blocks of all sstables of these tables.
    pub(super) fn verify(
        &self,
        names: &[String],
        teller: &Teller<'_>,
    ) -> Result<VerifyAccount, Refusal> {
        let numbers = numbers(&resolve(&self.shared.schema().1, names)?);
        let pinned = self.pin(&numbers, teller)?;
        let summaries = pinned.summaries();
        let mut files = files_of(&self.directory).map_err(|error| error.to_string())?;
        let (mut verified, mut told) = (Verified::default(), Instant::now());
        for summary in &summaries {
            let all = summaries.len();
            teller.tell_sometimes(&mut told, || {
                format!("{} of {all} sstables are verified", verified.sstables)
            })?;
            verified.sstable(&mut files, summary);
        }
        Ok(VerifyAccount::of(&verified, false))
    }

    /// Has each shard keep the files of these tables where they are.
    fn pin(&self, tables: &[TableNumber], teller: &Teller<'_>) -> Result<Pinned<'_>, Refusal> {
        let mut told_at = Instant::now();
        loop {
            let told = self.ask_all(teller, |to| Errand::Pin(tables.to_vec(), to))?;
            let told: Vec<_> = told.into_iter().flatten().collect();
            let is_whole = self.is_whole(&told);
            let sstables = told.into_iter().map(|one| (one.summary().id, one));
            let pinned = Pinned { sstables: sstables.collect(), errands: self };
            if is_whole {
                return Ok(pinned);
            }
            drop(pinned);
            teller.tell_sometimes(&mut told_at, || "an sstable is being split".to_owned())?;
            sleep(SPLIT_TIME);
        }
    }

    /// Whether of each sstable all shards have told that have rows in it. While one is being split,
    /// some have it and others what it became, from which deletions may be gone already.
    fn is_whole(&self, told: &[PinnedSstable]) -> bool {
        let shards = u16::try_from(self.boxes.len()).unwrap_or(u16::MAX);
        let owner = |token| usize::from(shard_of(token, shards));
        let mut tellers: BTreeMap<SstableId, (usize, usize)> = BTreeMap::new();
        for summary in told.iter().map(PinnedSstable::summary) {
            let spanned = owner(summary.token_last) - owner(summary.token_first) + 1;
            tellers.entry(summary.id).or_insert((0, spanned)).0 += 1;
        }
        tellers.values().all(|(tellers, spanned)| tellers == spanned)
    }
}

/// Does something with a schema, again and again until that is the same before and after: sstables
/// that were written by a later one may have columns that it does not know.
fn unchanged<S, T>(
    schema: impl Fn() -> (u64, S),
    mut act: impl FnMut(&S) -> Result<T, Refusal>,
) -> Result<(S, T), Refusal> {
    loop {
        let (version, before) = schema();
        let acted = act(&before)?;
        if schema().0 == version {
            return Ok((before, acted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_snapshot_is_of_a_schema_that_did_not_change_while_its_sstables_were_chosen() {
        let version = Cell::new(7);
        let mut acted = Vec::new();
        let found = unchanged(
            || (version.get(), version.get() * 10),
            |schema| {
                acted.push(*schema);
                // Two changes come in between.
                version.set([8, 9, 9][acted.len() - 1]);
                Ok(acted.len())
            },
        );
        assert_eq!(found, Ok((90, 3)));
        assert_eq!(acted, [70, 80, 90]);
        let refused = unchanged(|| (1, ()), |()| Err::<(), _>("full".to_owned()));
        assert_eq!(refused, Err("full".to_owned()));
    }
}
