//! What is done with directories that no engine uses: looking at them, and restoring.

use super::{CtlFailure, text};
use crate::{
    server::{
        accounts::{KeptSnapshot, RestoreAccount, SstableAccount, VerifyAccount},
        errands::{resolve, sstable_account},
        snapshots::{SNAPSHOTS, files_of, restore, snapshots_in},
    },
    store::{StoppedDirectory, Verified},
};
use std::{
    fs::{File, TryLockError},
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant, UNIX_EPOCH},
};

/// How often what takes long tells how far it is.
const PROGRESS_TIME: Duration = Duration::from_secs(2);

/// Keeps an engine from using the directory meanwhile; `None` in a snapshot, which has no lock.
///
/// # Errors
/// [`CtlFailure::Running`] if an engine uses it.
fn lock(directory: &Path) -> Result<Option<File>, CtlFailure> {
    let path = directory.join("LOCK");
    let failed = |what: String| CtlFailure::Failed(format!("{}: {what}", path.display()));
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(error.to_string()))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(CtlFailure::Running),
        Err(TryLockError::Error(error)) => Err(failed(error.to_string())),
    }
}

/// Reads a directory that must be there. `Running` if an engine uses it.
fn read(directory: &Path) -> Result<(StoppedDirectory, Option<File>), CtlFailure> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(CtlFailure::Failed(format!("{shown}: there is no such directory")));
    }
    let lock = lock(directory)?;
    let files = files_of(directory);
    let mut files = files.map_err(|error| CtlFailure::Failed(format!("{shown}: {error}")))?;
    let found = StoppedDirectory::read(&mut files)
        .map_err(|error| CtlFailure::Failed(format!("{shown}/{error}")))?;
    Ok((found, lock))
}

/// Looks at all of a directory.
pub(super) fn verify(directory: &Path) -> Result<VerifyAccount, CtlFailure> {
    let (found, _lock) = read(directory)?;
    verify_found(directory, &found).map(|verified| VerifyAccount::of(&verified, true))
}

fn verify_found(directory: &Path, found: &StoppedDirectory) -> Result<Verified, CtlFailure> {
    let shown = directory.display();
    let files = files_of(directory);
    let mut files = files.map_err(|error| CtlFailure::Failed(format!("{shown}: {error}")))?;
    let (all, mut told) = (found.sstables().count(), Instant::now());
    Ok(found.verify(&mut files, &mut |verified| {
        tell_sometimes(&mut told, || {
            format!("{} of {all} sstables are verified", verified.sstables)
        });
    }))
}

fn tell_sometimes(told: &mut Instant, progress: impl Fn() -> String) {
    if told.elapsed() >= PROGRESS_TIME {
        eprintln!("{}", progress());
        *told = Instant::now();
    }
}

/// The sstables of tables of a directory.
pub(super) fn sstables(
    directory: &Path,
    names: &[String],
) -> Result<Vec<SstableAccount>, CtlFailure> {
    let (found, _lock) = read(directory)?;
    let tables = resolve(found.catalog(), names).map_err(CtlFailure::Failed)?;
    let mut accounts = Vec::new();
    for table in tables {
        let own = found.sstables().filter(|summary| summary.table == table.number);
        accounts.extend(own.map(|summary| sstable_account(&table, summary)));
    }
    Ok(accounts)
}

/// The snapshots of a data directory.
pub(super) fn snapshots(directory: &Path) -> Result<Vec<KeptSnapshot>, CtlFailure> {
    let parent = directory.join(SNAPSHOTS);
    let names = snapshots_in(&parent).map_err(CtlFailure::Failed)?;
    let kept = names.into_iter().map(|name| {
        let path = parent.join(&name);
        let taken = path.join("FORMAT").metadata().and_then(|format| format.modified()).ok();
        let taken_s = taken.and_then(|taken| taken.duration_since(UNIX_EPOCH).ok());
        let mut one = KeptSnapshot {
            name,
            taken_s: taken_s.map_or(0, |taken| taken.as_secs()),
            tables: 0,
            sstables: 0,
            bytes: 0,
            problem: None,
        };
        match read(&path) {
            Ok((found, _)) => {
                one.tables = found.catalog().tables().count();
                one.sstables = found.sstables().count();
                one.bytes = found.sstables().map(|summary| summary.bytes).sum();
            }
            Err(CtlFailure::Failed(problem)) => one.problem = Some(problem),
            Err(_) => one.problem = Some("an engine uses it as its data directory".to_owned()),
        }
        one
    });
    Ok(kept.collect())
}

/// The directory of a snapshot: one of the data directory by its name, or any by its path.
pub(super) fn snapshot_at(data_dir: &Path, given: &Path) -> PathBuf {
    let is_name = given.components().count() == 1 && !given.as_os_str().is_empty();
    let named = data_dir.join(SNAPSHOTS).join(given);
    if is_name && (named.exists() || !given.exists()) { named } else { given.to_path_buf() }
}

/// Makes a new data directory of a snapshot.
pub(super) fn restore_into(snapshot: &Path, target: &Path) -> Result<RestoreAccount, CtlFailure> {
    let shown = snapshot.display();
    if snapshot.join("LOCK").exists() {
        return Err(CtlFailure::Failed(format!(
            "{shown}: it is a data directory and no snapshot. Stop its engine and copy it as a \
             whole, or take a snapshot"
        )));
    }
    let (found, _) = read(snapshot)?;
    let verified = verify_found(snapshot, &found)?;
    if !verified.problems.is_empty() {
        let problems = text::problems(&VerifyAccount::of(&verified, true));
        return Err(CtlFailure::Failed(format!("{shown} is damaged:\n{problems}")));
    }
    let mut told = Instant::now();
    restore(snapshot, &found, target, &mut |done| {
        tell_sometimes(&mut told, || format!("{done} of {} sstables are there", verified.sstables));
    })
    .map_err(CtlFailure::Failed)?;
    Ok(RestoreAccount {
        directory: target.display().to_string(),
        sstables: verified.sstables,
        bytes: verified.bytes,
    })
}
