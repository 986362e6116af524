//! Snapshots: directories with hard links to the sstables of a moment, and what an engine needs to
//! open them.
//!
//! Sstables never change, and a link keeps a file when the engine removes its own. `FORMAT` is
//! written last: a directory without it was cut off, is not told of, and gives way to the next of
//! its name.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    directory::{Sequential, complete_restored, complete_snapshot},
    io::{Descriptors, disk::DiskFiles},
    schema::Catalog,
    sstable::Summary,
    store::StoppedDirectory,
};

/// Where snapshots are in a data directory, unless they are to be elsewhere.
pub const SNAPSHOTS: &str = "snapshots";

const FORMAT: &str = "FORMAT";

/// Open files of one who works off one file after the other.
const FILES_MAX: usize = 4;

/// A directory, for one who works off one file after the other.
///
/// # Errors
/// The operating system refuses.
pub fn files_of(directory: &Path) -> io::Result<DiskFiles> {
    let descriptors = Arc::new(Descriptors::new(FILES_MAX, Arc::default()));
    let silent: crate::io::disk::Ring = Arc::new(|| ());
    DiskFiles::open(directory, &descriptors, &silent)
}

/// Why something was not done, as a line for the operator.
type NotDone = String;

fn at(path: &Path) -> impl Fn(io::Error) -> NotDone {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Makes the directory of a snapshot that is to come, empty.
///
/// # Errors
/// There is one of this name, or the name is no name.
pub fn prepare(parent: &Path, name: &str) -> Result<PathBuf, NotDone> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(format!(
            "{name:?} cannot be the name of a snapshot. Give letters, digits, '.', '_' and '-', \
             100 at most and no '.' at the beginning"
        ));
    }
    let target = parent.join(name);
    if target.join(FORMAT).exists() {
        let what = "there is such a snapshot. Choose another name, or remove the directory";
        return Err(format!("{}: {what}", target.display()));
    }
    match fs::read_dir(&target) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(at(&target)(error)),
        Ok(_) if is_cut_off(&target) => fs::remove_dir_all(&target).map_err(at(&target))?,
        Ok(_) => {
            let what = "it is no snapshot that was cut off, and not empty. Choose another name";
            return Err(format!("{}: {what}", target.display()));
        }
    }
    fs::create_dir_all(&target).map_err(at(&target))?;
    Ok(target)
}

/// Whether a directory without `FORMAT` has nothing but what a snapshot may have had.
fn is_cut_off(directory: &Path) -> bool {
    let is_ours = |entry: io::Result<fs::DirEntry>| {
        let name = entry.ok().and_then(|entry| entry.file_name().into_string().ok());
        let prefixes = ["sst-", "manifest", "catalog", "FORMAT.tmp"];
        name.is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_ours))
}

/// Fills a prepared directory with these sstables of an engine's. `tell` is told how many there
/// are so far.
///
/// # Errors
/// The operating system refuses, as for a target on another file system.
pub fn fill(
    from: &Path,
    target: &Path,
    catalog: &Catalog,
    sstables: Vec<Summary>,
    tell: &mut dyn FnMut(usize) -> Result<(), NotDone>,
) -> Result<(), NotDone> {
    for (number, summary) in sstables.iter().enumerate() {
        tell(number)?;
        let name = summary.id.file_name();
        fs::hard_link(from.join(&name), target.join(&name)).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::CrossesDevices => {
                    ". A snapshot lies on the file system of the data. Take it without --to, and \
                     copy its directory"
                }
                _ => "",
            };
            format!("{}: {error}{remedy}", target.join(&name).display())
        })?;
    }
    tell(sstables.len())?;
    let mut files = files_of(target).map_err(at(target))?;
    complete_snapshot(&mut Sequential(&mut files), catalog, sstables)
        .map_err(|error| format!("{}/{error}", target.display()))?;
    sync_parents(target)
}

/// Puts the name of a directory on the device, and those above it that may be new.
fn sync_parents(directory: &Path) -> Result<(), NotDone> {
    for parent in directory.ancestors().skip(1).take(2) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(at(parent))?;
    }
    Ok(())
}

/// The snapshots in a directory, by name.
///
/// # Errors
/// The operating system refuses.
pub fn snapshots_in(parent: &Path) -> Result<Vec<String>, NotDone> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(parent))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at(parent))?;
        if entry.path().join(FORMAT).exists() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Makes a new directory that an engine opens of a snapshot that was verified: by hard links, or by
/// copies where these are impossible.
///
/// # Errors
/// The directory is not empty, or the operating system refuses. It is no database then.
pub fn restore(
    snapshot: &Path,
    found: &StoppedDirectory,
    target: &Path,
    tell: &mut dyn FnMut(usize),
) -> Result<(), NotDone> {
    let is_empty = match fs::read_dir(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        entries => entries.map_err(at(target))?.next().is_none(),
    };
    if !is_empty {
        return Err(format!(
            "{}: it is not empty, and nothing in it was changed. Restore into a new directory, \
             and start the engine with that one",
            target.display()
        ));
    }
    let mut files = files_of(target).map_err(at(target))?;
    let sstables = found.sstables().map(|summary| summary.id.file_name());
    for (number, name) in sstables.enumerate() {
        tell(number);
        let (from, to) = (snapshot.join(&name), target.join(&name));
        match fs::hard_link(&from, &to) {
            Err(error) if error.kind() == ErrorKind::CrossesDevices => copy(&from, &to)?,
            linked => linked.map_err(at(&to))?,
        }
    }
    // These are changed, or their names used again: they are copies.
    for name in found.manifests() {
        copy(&snapshot.join(name), &target.join(name))?;
    }
    complete_restored(&mut Sequential(&mut files))
        .map_err(|error| format!("{}/{error}", target.display()))?;
    sync_parents(target)
}

fn copy(from: &Path, to: &Path) -> Result<(), NotDone> {
    let copied = fs::copy(from, to).and_then(|_| fs::File::open(to)?.sync_all());
    copied.map_err(at(to))
}
