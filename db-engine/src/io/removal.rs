//! Removes files, and gives the space of large ones back bit by bit.
//!
//! A file system that is mounted with `discard` tells the device of all blocks that a removed file
//! had, and durable writes wait meanwhile: 1.7 s for 640 MiB (ADR 0086). So a large file loses its
//! name at once, and then a thread cuts it shorter, a piece at a time, and sleeps in between, as
//! `RocksDB` does (`bytes_max_delete_chunk` of its `SstFileManager`).
//!
//! A file that has another name, such as that of a snapshot, is not cut. Nor is one before its
//! removal is on the device: after a power failure it would be back, and too short.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::{disk::sync_directory, limits::free_bytes};
use crate::metrics::ProcessMetrics;

/// A file is cut by so much at once. With `discard` that takes 3 ms.
const PIECE_BYTES: u64 = 1 << 20;

/// For so many times as long as a piece took nothing is cut.
const PAUSE_TIMES: u32 = 3;

/// What waits is given back without pauses if it is more than such a part of what is free.
const FREE_PART: u64 = 4;

/// A file without a name.
struct RemovedFile {
    file: File,
    bytes: u64,
    /// Where it was.
    directory: PathBuf,
}

/// What waits to be given back, of all shards.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Mutex<u64>,
    metrics: Arc<ProcessMetrics>,
}

impl Waiting {
    /// Counts bytes that come, and then those that go; returns how many there are now.
    fn count(&self, more: u64, less: u64) -> u64 {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes = (*bytes + more).saturating_sub(less);
        self.metrics.removed_bytes.set(*bytes);
        *bytes
    }
}

/// Removes files, one piece after the other.
#[derive(Debug)]
pub(super) struct Removal {
    /// The thread that cuts them, from the first large one on; `None` if there can be none.
    queue: OnceLock<Option<SyncSender<RemovedFile>>>,
    files_max: usize,
    waiting: Arc<Waiting>,
}

impl Removal {
    /// At most this many files wait, each with its descriptor.
    pub fn new(files_max: usize, metrics: Arc<ProcessMetrics>) -> Self {
        let waiting = Arc::new(Waiting { metrics, ..Waiting::default() });
        Self { queue: OnceLock::new(), files_max, waiting }
    }

    /// Removes a file that nobody here will read any more.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        // One that cannot be opened may still be removed.
        let file = options.open(path).ok();
        fs::remove_file(path)?;
        if let Some(file) = file
            && let Ok(found) = file.metadata()
            && found.is_file()
            && found.nlink() == 0
            && found.len() > PIECE_BYTES
        {
            let directory = path.parent().unwrap_or(Path::new(".")).to_path_buf();
            self.give_back(RemovedFile { file, bytes: found.len(), directory });
        }
        Ok(())
    }

    fn give_back(&self, removed: RemovedFile) {
        self.waiting.count(removed.bytes, 0);
        let queue = self.queue.get_or_init(|| {
            let (sender, queued) = sync_channel(self.files_max);
            let waiting = Arc::clone(&self.waiting);
            let work = move || give_back_all(&queued, &waiting);
            thread::Builder::new().name("removal".into()).spawn(work).is_ok().then_some(sender)
        });
        let left = match queue {
            None => removed,
            Some(queue) => match queue.try_send(removed) {
                Ok(()) => return,
                Err(TrySendError::Full(left) | TrySendError::Disconnected(left)) => left,
            },
        };
        // There are too many, or no thread: whoever removes this one waits for it.
        cut(&left, &self.waiting, |_, _| Duration::ZERO);
    }
}

fn give_back_all(queued: &Receiver<RemovedFile>, waiting: &Waiting) {
    while let Ok(removed) = queued.recv() {
        cut(&removed, waiting, |took, bytes| {
            pause(took, bytes, free_bytes(&removed.directory).unwrap_or(0))
        });
    }
}

/// How long nothing is cut, after a piece that took so long, where so many bytes wait and so many
/// are free.
fn pause(took: Duration, waiting: u64, free: u64) -> Duration {
    if waiting > free / FREE_PART { Duration::ZERO } else { took * PAUSE_TIMES }
}

/// Cuts a file until there is nothing of it. What cannot be cut goes when it is closed.
fn cut(removed: &RemovedFile, waiting: &Waiting, pause: impl Fn(Duration, u64) -> Duration) {
    let mut left = removed.bytes;
    let mut is_possible = sync_directory(&removed.directory).is_ok();
    while left > PIECE_BYTES && is_possible {
        let begun = Instant::now();
        let rest = (left - 1) / PIECE_BYTES * PIECE_BYTES;
        is_possible = removed.file.set_len(rest).is_ok();
        let bytes = waiting.count(0, left - rest);
        left = rest;
        thread::sleep(pause(begun.elapsed(), bytes));
    }
    waiting.count(0, left);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::FileExt, sync::mpsc::channel};

    const MIB: u64 = 1 << 20;

    /// A file of so many bytes, open once more.
    fn file_of(path: &Path, bytes: u64) -> File {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path).unwrap();
        file.write_all_at(&vec![7; usize::try_from(bytes).unwrap()], 0).unwrap();
        file
    }

    /// Waits until no space waits to be given back.
    fn settle(removal: &Removal) {
        let begun = Instant::now();
        while removal.waiting.count(0, 0) > 0 {
            assert!(begun.elapsed() < Duration::from_mins(1), "it is given back some time");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn removal(files_max: usize) -> (Removal, tempfile::TempDir) {
        (Removal::new(files_max, Arc::default()), tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_large_file_loses_its_name_at_once_and_its_space_bit_by_bit() {
        let (removal, folder) = removal(4);
        let path = folder.path().join("large");
        let file = file_of(&path, 9 * MIB + 5);
        removal.remove(&path).unwrap();
        assert!(!path.exists());
        settle(&removal);
        assert_eq!(file.metadata().unwrap().len(), MIB, "the last piece goes with the descriptor");
        assert_eq!(removal.waiting.metrics.removed_bytes.get(), 0);
    }

    #[test]
    fn each_piece_is_small_and_then_there_is_a_pause() {
        let (removal, folder) = removal(4);
        let file = file_of(&folder.path().join("large"), 4 * MIB + 5);
        let directory = folder.path().to_path_buf();
        let (told, pauses) = channel();
        let removed =
            RemovedFile { file: file.try_clone().unwrap(), bytes: 4 * MIB + 5, directory };
        removal.waiting.count(removed.bytes, 0);
        cut(&removed, &removal.waiting, |_, waiting| {
            told.send((file.metadata().unwrap().len(), waiting)).unwrap();
            Duration::ZERO
        });
        let left: Vec<_> = pauses.try_iter().collect();
        assert_eq!(left, [4, 3, 2, 1].map(|mib| (mib * MIB, mib * MIB)));
        assert_eq!(removal.waiting.count(0, 0), 0);
    }

    #[test]
    fn nothing_is_cut_unless_its_removal_is_on_the_device() {
        let (removal, folder) = removal(4);
        let file = file_of(&folder.path().join("large"), 4 * MIB);
        // It cannot be synced.
        let directory = folder.path().join("gone");
        let removed = RemovedFile { file: file.try_clone().unwrap(), bytes: 4 * MIB, directory };
        removal.waiting.count(removed.bytes, 0);
        cut(&removed, &removal.waiting, |_, _| Duration::ZERO);
        assert_eq!(file.metadata().unwrap().len(), 4 * MIB);
        assert_eq!(removal.waiting.count(0, 0), 0, "it goes with the descriptor");
    }

    #[test]
    fn a_pause_is_longer_than_a_piece_took_unless_space_is_short() {
        let took = Duration::from_millis(3);
        assert_eq!(pause(took, 10 * MIB, 100 * MIB), took * 3);
        assert_eq!(pause(took, 25 * MIB, 100 * MIB), took * 3);
        assert_eq!(pause(took, 26 * MIB, 100 * MIB), Duration::ZERO);
        assert_eq!(pause(took, MIB, 0), Duration::ZERO);
    }

    #[test]
    fn a_file_with_another_name_stays_whole() {
        let (removal, folder) = removal(4);
        let (path, other) = (folder.path().join("one"), folder.path().join("other"));
        file_of(&path, 3 * MIB);
        fs::hard_link(&path, &other).unwrap();
        removal.remove(&path).unwrap();
        assert!(!path.exists());
        // One after the other: when this is over, the first one would be, too.
        let next = folder.path().join("next");
        file_of(&next, 3 * MIB);
        removal.remove(&next).unwrap();
        settle(&removal);
        assert_eq!(fs::read(&other).unwrap(), vec![7; 3 << 20]);
        removal.remove(&other).unwrap();
        settle(&removal);
    }

    #[test]
    fn many_files_at_once_are_given_back_whoever_does_it() {
        for files_max in [0, 1, 100] {
            let (removal, folder) = removal(files_max);
            let removed = (0..20).map(|number| {
                let path = folder.path().join(number.to_string());
                let file = file_of(&path, 3 * MIB);
                removal.remove(&path).unwrap();
                file
            });
            let removed: Vec<_> = removed.collect();
            settle(&removal);
            let left = removed.iter().map(|file| file.metadata().unwrap().len());
            assert_eq!(left.collect::<Vec<_>>(), [MIB; 20]);
        }
    }

    #[test]
    fn what_is_no_large_file_is_removed_as_ever() {
        let (removal, folder) = removal(4);
        let target = folder.path().join("target");
        let file = file_of(&target, 3 * MIB);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        removal.remove(&link).unwrap();
        assert!(!link.is_symlink());
        assert_eq!(file.metadata().unwrap().len(), 3 * MIB);
        let small = folder.path().join("small");
        let file = file_of(&small, MIB);
        removal.remove(&small).unwrap();
        assert_eq!(file.metadata().unwrap().len(), MIB);
        assert!(removal.queue.get().is_none(), "there was nothing for a thread to do");
        let error = removal.remove(&small).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
