//! Descriptors: a process may have so many, and a directory may have more files than that.
//!
//! A file keeps its name. If its descriptor is needed for another file it is closed, and opened
//! again when the file is used next. Files that were used lately keep theirs.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::removal::Removal;
use crate::{error::is_no_descriptor, metrics::ProcessMetrics};

/// Removed files have such a part of the descriptors at most, and so many, while their space is
/// given back.
const REMOVED_PART: usize = 8;
const REMOVED_MAX: usize = 32;

/// A file that may have a descriptor.
#[derive(Debug)]
pub(super) struct NamedFile {
    path: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    file: Option<Arc<File>>,
    /// Used since the last search for a descriptor to close.
    used: bool,
    /// Written and not synced. Closing it could lose the error of a write to the device, which
    /// the sync is to find.
    unsynced: bool,
}

impl NamedFile {
    /// A file that always keeps its descriptor.
    pub fn pinned(path: PathBuf, file: File) -> Arc<Self> {
        Self::new(path, file, false)
    }

    fn new(path: PathBuf, file: File, unsynced: bool) -> Arc<Self> {
        let state = FileState { file: Some(Arc::new(file)), used: true, unsynced };
        Arc::new(Self { path, state: Mutex::new(state) })
    }

    /// Whether this is the file's name.
    pub fn is_named(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|own| own == name)
    }

    /// The file, if it has its descriptor.
    pub fn if_open(&self) -> Option<Arc<File>> {
        let mut state = self.state();
        state.used = true;
        state.file.clone()
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptors of files that are not pinned, of all shards.
#[derive(Debug)]
pub struct Descriptors {
    most: usize,
    /// Files with a descriptor, in the order in which they are asked to give it up.
    open: Mutex<VecDeque<Arc<NamedFile>>>,
    /// It has a few of them for itself.
    pub(super) removal: Removal,
    metrics: Arc<ProcessMetrics>,
}

impl Descriptors {
    /// At most this many; a few more while all others have writes that are not synced.
    #[must_use]
    pub fn new(most: usize, metrics: Arc<ProcessMetrics>) -> Self {
        let removed = (most / REMOVED_PART).min(REMOVED_MAX);
        let removal = Removal::new(removed, Arc::clone(&metrics));
        let most = most.saturating_sub(removed + 1).max(1);
        Self { most, open: Mutex::default(), removal, metrics }
    }

    /// Opens a file for reading and writing.
    pub(super) fn open(&self, path: PathBuf) -> io::Result<Arc<NamedFile>> {
        self.make_room();
        let file = self.opening(|| OpenOptions::new().read(true).write(true).open(&path))?;
        Ok(self.keep(NamedFile::new(path, file, false)))
    }

    /// Creates a file, or empties it.
    pub(super) fn create(&self, path: PathBuf) -> io::Result<Arc<NamedFile>> {
        self.make_room();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = self.opening(|| options.open(&path))?;
        Ok(self.keep(NamedFile::new(path, file, true)))
    }

    /// The file, opened again if it has no descriptor any more.
    pub(super) fn get(&self, named: &Arc<NamedFile>) -> io::Result<Arc<File>> {
        if let Some(file) = named.if_open() {
            return Ok(file);
        }
        self.make_room();
        let file = self.opening(|| OpenOptions::new().read(true).write(true).open(&named.path))?;
        let file = Arc::new(file);
        let mut state = named.state();
        if let Some(other) = &state.file {
            // Another helper was faster.
            return Ok(Arc::clone(other));
        }
        state.file = Some(Arc::clone(&file));
        drop(state);
        self.keep(Arc::clone(named));
        Ok(file)
    }

    /// The same, for a write: the descriptor stays until the file is synced.
    pub(super) fn get_to_write(&self, named: &Arc<NamedFile>) -> io::Result<Arc<File>> {
        let mut state = named.state();
        if let Some(file) = &state.file {
            let file = Arc::clone(file);
            (state.used, state.unsynced) = (true, true);
            return Ok(file);
        }
        drop(state);
        let file = self.get(named)?;
        named.state().unsynced = true;
        Ok(file)
    }

    /// Puts what was written to the file on the device.
    pub(super) fn sync(&self, named: &Arc<NamedFile>) -> io::Result<()> {
        self.get(named)?.sync_data()?;
        named.state().unsynced = false;
        Ok(())
    }

    /// Gives a file's descriptor back for good.
    pub(super) fn close(&self, named: &Arc<NamedFile>) {
        let mut open = self.lock();
        open.retain(|other| !Arc::ptr_eq(other, named));
        named.state().file = None;
        self.metrics.files_open.set(open.len() as u64);
    }

    /// Runs what needs a descriptor for a moment. If the process has none left, files give theirs.
    pub(super) fn opening<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_no_descriptor(&error) && self.close_one(&mut self.lock()) => {}
                other => return other,
            }
        }
    }

    fn make_room(&self) {
        let mut open = self.lock();
        while open.len() >= self.most && self.close_one(&mut open) {}
    }

    /// Closes the file that was not used for longest, about: each has a second chance.
    fn close_one(&self, open: &mut VecDeque<Arc<NamedFile>>) -> bool {
        for _ in 0..2 * open.len() {
            let Some(named) = open.pop_front() else { return false };
            let mut state = named.state();
            let used = std::mem::take(&mut state.used);
            if !used && !state.unsynced {
                state.file = None;
                self.metrics.files_open.set(open.len() as u64);
                return true;
            }
            drop(state);
            open.push_back(named);
        }
        false
    }

    fn keep(&self, named: Arc<NamedFile>) -> Arc<NamedFile> {
        let mut open = self.lock();
        open.push_back(Arc::clone(&named));
        self.metrics.files_opened.add(1);
        self.metrics.files_open.set(open.len() as u64);
        named
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<NamedFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn first_byte(descriptors: &Descriptors, named: &Arc<NamedFile>) -> u8 {
        let mut byte = [0];
        descriptors.get(named).unwrap().read_exact_at(&mut byte, 0).unwrap();
        byte[0]
    }

    fn written(descriptors: &Descriptors, path: PathBuf, byte: u8) -> Arc<NamedFile> {
        let named = descriptors.create(path).unwrap();
        descriptors.get_to_write(&named).unwrap().write_all_at(&[byte], 0).unwrap();
        named
    }

    #[test]
    fn more_files_are_read_than_there_are_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        let metrics = Arc::new(ProcessMetrics::default());
        let descriptors = Descriptors::new(3, Arc::clone(&metrics));
        let path = |number: u8| folder.path().join(number.to_string());
        let files: Vec<_> = (0..10)
            .map(|number| {
                let named = written(&descriptors, path(number), number);
                descriptors.sync(&named).unwrap();
                named
            })
            .collect();
        for round in 0..3 {
            for (number, named) in (0..).zip(&files) {
                assert_eq!(first_byte(&descriptors, named), number, "round {round}");
                assert!(metrics.files_open.get() <= 3);
            }
        }
        let before = metrics.files_opened.get();
        for _ in 0..100 {
            first_byte(&descriptors, &files[9]);
        }
        assert_eq!(metrics.files_opened.get(), before, "what is used keeps its descriptor");
        for named in &files {
            descriptors.close(named);
        }
        assert_eq!(metrics.files_open.get(), 0);
    }

    #[test]
    fn a_file_that_is_not_synced_keeps_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let descriptors = Descriptors::new(2, Arc::default());
        let unsynced = written(&descriptors, folder.path().join("unsynced"), 7);
        for number in 0..10 {
            let other = written(&descriptors, folder.path().join(number.to_string()), 1);
            descriptors.sync(&other).unwrap();
            assert!(unsynced.state().file.is_some(), "after file {number}");
        }
        descriptors.sync(&unsynced).unwrap();
        for number in 0..10 {
            descriptors.open(folder.path().join(number.to_string())).unwrap();
        }
        assert!(unsynced.state().file.is_none(), "now it may go");
        assert_eq!(first_byte(&descriptors, &unsynced), 7);
    }
}
