//! The files of a real machine.
//!
//! Each shard has three helper threads, so that its own does not wait while it has anything else to
//! do: one writes the log, one reads, one does everything else. A flush that writes megabytes or a
//! segment that is being filled with zeros thus delays neither an acknowledgement nor a reader.
//! Threads that have nothing to do cost nothing. What the page cache has is read without them, and
//! a short block of the log is written without them by a shard that would only wait for it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use super::{
    ALIGNMENT, Buffer, Clock, Completion, FileId, Files, Operation, Outcome, SECTOR_BYTES,
    SystemClock, Ticket,
    descriptors::{Descriptors, NamedFile},
    limits::free_bytes,
    own_writes::{KeptWrite, OwnWrites},
    page_cache::PageCacheReads,
};

/// Called, on a helper thread, whenever an operation is over.
pub type Ring = Arc<dyn Fn() + Send + Sync>;

/// The files of one directory of the operating system.
pub struct DiskFiles {
    context: Arc<HelperContext>,
    helpers: Vec<Helper>,
    over: Receiver<Over>,
    files: Vec<Option<Arc<NamedFile>>>,
    tickets: u64,
    pub(super) page_cache: PageCacheReads,
    own: OwnWrites,
    /// Locks last until they are dropped.
    locks: Vec<File>,
}

struct Helper {
    /// `None` once there is nothing more to do.
    jobs: Option<Sender<(Ticket, Job)>>,
    thread: Option<JoinHandle<()>>,
}

/// A helper writes so much at once, which takes some 50 microseconds, unless it is to be durable.
const PIECE_BYTES: usize = 64 << 10;

/// Which helper does it.
#[derive(Clone, Copy)]
enum QueueKind {
    Log,
    Read,
    Other,
}

/// An operation with its file at hand.
enum Job {
    Open(String),
    Create(String),
    CreateDurable(String),
    OpenDurable(String),
    Fill(Arc<NamedFile>, u64, usize),
    Read(Arc<NamedFile>, u64, usize, Buffer),
    /// Whether it is durable when it is done, too.
    Write(Arc<NamedFile>, u64, Buffer, bool),
    Sync(Arc<NamedFile>),
    Close(Option<Arc<NamedFile>>),
    Rename(String, String),
    /// Whether it is still open here, too.
    Remove(String, bool),
    List,
    SyncDirectory,
    FreeSpace,
    Lock(String),
}

enum Gave {
    Outcome(Outcome),
    Opened(Arc<NamedFile>, u64),
    Created(Arc<NamedFile>, usize),
    Locked(File),
}

struct Over {
    ticket: Ticket,
    result: io::Result<Gave>,
    buffer: Option<Buffer>,
    /// From when to when a durable write took place, in microseconds.
    durable_us: Option<(u64, u64)>,
}

impl DiskFiles {
    /// The files of this directory, which is created if need be. Several may share descriptors.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created or a thread cannot be started.
    pub fn open(directory: &Path, descriptors: &Arc<Descriptors>, ring: &Ring) -> io::Result<Self> {
        create_directory(directory)?;
        let (sender, over) = channel();
        let context =
            HelperContext { directory: Arc::from(directory), descriptors: Arc::clone(descriptors) };
        let context = Arc::new(context);
        let mut helpers = Vec::new();
        for name in ["log", "read", "file"] {
            let (over, ring) = (sender.clone(), ring.clone());
            let context = Arc::clone(&context);
            let (jobs, queued) = channel();
            let work = move || help(&context, &queued, &over, &ring);
            let thread = thread::Builder::new().name(name.into()).spawn(work)?;
            helpers.push(Helper { jobs: Some(jobs), thread: Some(thread) });
        }
        let (page_cache, own) = (PageCacheReads::new(ring), OwnWrites::default());
        let (files, locks) = (Vec::new(), Vec::new());
        Ok(Self { context, helpers, over, files, tickets: 0, page_cache, own, locks })
    }

    fn file(&self, id: FileId) -> Arc<NamedFile> {
        let file = self.files.get(id.0 as usize).and_then(Option::as_ref);
        file.expect("the file was opened here and not closed").clone()
    }

    fn job(&mut self, operation: Operation) -> (QueueKind, Job) {
        match operation {
            Operation::Open { name } => (QueueKind::Other, Job::Open(name)),
            Operation::Create { name } => (QueueKind::Other, Job::Create(name)),
            Operation::CreateDurable { name } => (QueueKind::Other, Job::CreateDurable(name)),
            Operation::OpenDurable { name } => (QueueKind::Other, Job::OpenDurable(name)),
            Operation::Fill { file, offset, bytes } => {
                (QueueKind::Other, Job::Fill(self.file(file), offset, bytes))
            }
            Operation::Read { file, offset, bytes, buffer } => {
                (QueueKind::Read, Job::Read(self.file(file), offset, bytes, buffer))
            }
            Operation::Write { file, offset, buffer, durable } => {
                let kind = if durable { QueueKind::Log } else { QueueKind::Other };
                (kind, Job::Write(self.file(file), offset, buffer, durable))
            }
            Operation::Sync { file } => (QueueKind::Other, Job::Sync(self.file(file))),
            Operation::Close { file } => {
                let slot = self.files.get_mut(file.0 as usize);
                (QueueKind::Other, Job::Close(slot.and_then(Option::take)))
            }
            Operation::Rename { from, to } => (QueueKind::Other, Job::Rename(from, to)),
            Operation::Remove { name } => {
                // Reads that were asked for before may have to open the file once more.
                let is_open = self.files.iter().flatten().any(|file| file.is_named(&name));
                let kind = if is_open { QueueKind::Read } else { QueueKind::Other };
                (kind, Job::Remove(name, is_open))
            }
            Operation::List => (QueueKind::Other, Job::List),
            Operation::SyncDirectory => (QueueKind::Other, Job::SyncDirectory),
            Operation::FreeSpace => (QueueKind::Other, Job::FreeSpace),
            Operation::Lock { name } => (QueueKind::Other, Job::Lock(name)),
        }
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn hand_over(&mut self, kind: QueueKind, ticket: Ticket, job: Job) {
        let jobs = self.helpers[kind as usize].jobs.as_ref();
        let jobs = jobs.expect("helpers have work until they are dropped");
        jobs.send((ticket, job)).expect("helpers listen until they are dropped");
    }

    fn complete(&mut self, over: Over) -> Completion {
        if let Some((begun_us, now_us)) = over.durable_us {
            self.own.took(begun_us, now_us);
        }
        let result = over.result.map(|gave| match gave {
            Gave::Outcome(outcome) => outcome,
            Gave::Opened(file, bytes) => Outcome::Opened { file: self.keep(file), bytes },
            Gave::Created(file, block_bytes) => {
                Outcome::Created { file: self.keep(file), block_bytes }
            }
            Gave::Locked(file) => {
                self.locks.push(file);
                Outcome::Done
            }
        });
        Completion { ticket: over.ticket, result, buffer: over.buffer }
    }

    fn keep(&mut self, file: Arc<NamedFile>) -> FileId {
        let file = Some(file);
        let index = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        match self.files.get_mut(index) {
            Some(slot) => *slot = file,
            None => self.files.push(file),
        }
        FileId(u32::try_from(index).expect("there are fewer files than that"))
    }
}

impl Files for DiskFiles {
    fn submit(&mut self, mut operation: Operation) -> Ticket {
        let ticket = self.next_ticket();
        if let Operation::Read { file, offset, bytes, buffer } = &mut operation
            && let Some(file) = self.file(*file).if_open()
            && self.page_cache.read(&file, *offset, *bytes, buffer)
        {
            self.page_cache.complete(ticket, std::mem::take(buffer));
            return ticket;
        }
        let (kind, job) = self.job(operation);
        self.hand_over(kind, ticket, job);
        ticket
    }

    fn submit_alone(&mut self, operation: Operation) -> Ticket {
        match operation {
            Operation::Write { file, offset, buffer, durable: true }
                if self.own.may_keep(buffer.len(), SystemClock.elapsed_us()) =>
            {
                let (ticket, file) = (self.next_ticket(), self.file(file));
                self.own.kept = Some(KeptWrite { ticket, file, offset, buffer });
                ticket
            }
            operation => self.submit(operation),
        }
    }

    fn rest(&mut self, would_wait: bool) -> bool {
        let Some(kept) = self.own.kept.take() else { return false };
        let job = Job::Write(kept.file, kept.offset, kept.buffer, true);
        if would_wait {
            let over = carry_out(&self.context, kept.ticket, job);
            self.own.over = Some(self.complete(over));
            self.own.count += 1;
        } else {
            self.hand_over(QueueKind::Log, kept.ticket, job);
        }
        would_wait
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        self.rest(true);
        out.extend(self.own.over.take());
        self.page_cache.poll(out);
        while let Ok(over) = self.over.try_recv() {
            let completion = self.complete(over);
            out.push(completion);
        }
    }

    fn wait(&mut self, out: &mut Vec<Completion>) {
        let has_some = self.rest(true) || self.own.over.is_some() || !self.page_cache.is_empty();
        if !has_some {
            let over = self.over.recv().expect("helpers live as long as their files");
            let completion = self.complete(over);
            out.push(completion);
        }
        self.poll(out);
    }

    fn reads_at_once(&self) -> u64 {
        self.page_cache.reads()
    }

    fn own_writes(&self) -> u64 {
        self.own.count
    }
}

impl Drop for DiskFiles {
    /// Ends when everything submitted is done, so that the directory can be opened again.
    fn drop(&mut self) {
        self.rest(false);
        for helper in &mut self.helpers {
            helper.jobs = None;
        }
        for helper in &mut self.helpers {
            if let Some(thread) = helper.thread.take() {
                // A helper that panicked has said so already.
                let _ = thread.join();
            }
        }
    }
}

/// What a helper thread needs for its work.
struct HelperContext {
    directory: Arc<Path>,
    descriptors: Arc<Descriptors>,
}

fn help(
    context: &HelperContext,
    queued: &Receiver<(Ticket, Job)>,
    over: &Sender<Over>,
    ring: &Ring,
) {
    while let Ok((ticket, job)) = queued.recv() {
        if over.send(carry_out(context, ticket, job)).is_err() {
            return;
        }
        ring();
    }
}

fn carry_out(context: &HelperContext, ticket: Ticket, job: Job) -> Over {
    let is_durable = matches!(job, Job::Write(.., true));
    let begun_us = is_durable.then(|| SystemClock.elapsed_us());
    let (result, buffer) = work(context, job);
    let durable_us = begun_us.map(|begun_us| (begun_us, SystemClock.elapsed_us()));
    Over { ticket, result, buffer, durable_us }
}

fn work(context: &HelperContext, job: Job) -> (io::Result<Gave>, Option<Buffer>) {
    let done = |()| Gave::Outcome(Outcome::Done);
    let HelperContext { directory, descriptors } = context;
    let result = match job {
        Job::Open(name) => open(descriptors, directory.join(name)),
        Job::Create(name) => {
            descriptors.create(directory.join(name)).map(|file| Gave::Opened(file, 0))
        }
        Job::CreateDurable(name) => descriptors.opening(|| create_durable(&directory.join(&name))),
        Job::OpenDurable(name) => descriptors.opening(|| open_durable(&directory.join(&name))),
        Job::Fill(file, offset, bytes) => {
            descriptors.get_to_write(&file).and_then(|file| fill(&file, offset, bytes)).map(done)
        }
        Job::Read(file, offset, bytes, mut buffer) => {
            let file = descriptors.get(&file);
            let result = file.and_then(|file| read(&file, offset, bytes, &mut buffer));
            return (result.map(|()| Gave::Outcome(Outcome::Read)), Some(buffer));
        }
        Job::Write(file, offset, buffer, durable) => {
            let file = descriptors.get_to_write(&file);
            let piece_bytes = if durable { usize::MAX } else { PIECE_BYTES };
            let result = file.and_then(|file| write(&file, offset, buffer.as_slice(), piece_bytes));
            return (result.map(done), Some(buffer));
        }
        Job::Sync(file) => descriptors.sync(&file).map(done),
        Job::Close(file) => {
            file.inspect(|file| descriptors.close(file));
            Ok(done(()))
        }
        Job::Rename(from, to) => fs::rename(directory.join(from), directory.join(to)).map(done),
        Job::Remove(name, true) => fs::remove_file(directory.join(name)).map(done),
        Job::Remove(name, false) => descriptors.removal.remove(&directory.join(name)).map(done),
        Job::List => descriptors
            .opening(|| list(directory))
            .map(|names| Gave::Outcome(Outcome::Names(names))),
        Job::SyncDirectory => descriptors.opening(|| sync_directory(directory)).map(done),
        Job::FreeSpace => {
            free_bytes(directory).map(|bytes| Gave::Outcome(Outcome::Space { bytes }))
        }
        Job::Lock(name) => descriptors.opening(|| lock(&directory.join(&name))),
    };
    (result, None)
}

fn open(descriptors: &Arc<Descriptors>, path: PathBuf) -> io::Result<Gave> {
    let file = descriptors.open(path)?;
    let bytes = descriptors.get(&file)?.metadata()?.len();
    Ok(Gave::Opened(file, bytes))
}

/// Creates a file for durable writes, and asks the device for the smallest that it takes.
fn create_durable(path: &Path) -> io::Result<Gave> {
    File::create(path)?;
    let (file, is_direct) = open_direct(path)?;
    // Through the page cache every write is one of a whole page, and so are those to the device.
    let is_small = is_direct && takes_sectors(&file)?;
    let file = NamedFile::pinned(path.to_path_buf(), file);
    Ok(Gave::Created(file, if is_small { SECTOR_BYTES } else { ALIGNMENT }))
}

/// Whether single sectors can be written. Which are possible depends on the device, its driver and
/// the file system, and not every kernel tells: so it is tried, in a file that nobody uses yet.
fn takes_sectors(file: &File) -> io::Result<bool> {
    let mut sector = Buffer::default();
    sector.resize(SECTOR_BYTES);
    match file.write_all_at(sector.as_slice(), 0) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

fn open_durable(path: &Path) -> io::Result<Gave> {
    let (file, _) = open_direct(path)?;
    let bytes = file.metadata()?.len();
    Ok(Gave::Opened(NamedFile::pinned(path.to_path_buf(), file), bytes))
}

/// Writes some bytes, a piece at a time. In between whoever waits for this core has it: the shard
/// that woke this helper, often.
fn write(file: &File, mut offset: u64, bytes: &[u8], piece_bytes: usize) -> io::Result<()> {
    let mut pieces = bytes.chunks(piece_bytes).peekable();
    while let Some(piece) = pieces.next() {
        file.write_all_at(piece, offset)?;
        offset += piece.len() as u64;
        if pieces.peek().is_some() {
            thread::yield_now();
        }
    }
    Ok(())
}

/// Zeros, and not only reserved space: a write into an unwritten extent changes metadata, and that
/// costs a journal commit per block.
fn fill(file: &File, mut offset: u64, mut bytes: usize) -> io::Result<()> {
    while bytes > 0 {
        let zeros = &ZEROS.0[..bytes.min(ZEROS.0.len())];
        file.write_all_at(zeros, offset)?;
        offset += zeros.len() as u64;
        bytes -= zeros.len();
    }
    Ok(())
}

/// Zeros that no piece of a file needs memory of its own for.
#[repr(align(4096))]
struct Zeros([u8; 1 << 20]);

static ZEROS: Zeros = Zeros([0; 1 << 20]);
const _: () = assert!(align_of::<Zeros>() == ALIGNMENT);

/// Opens a file for writes that are durable when they return, and pass by the page cache if its
/// file system can do without. Filling pages that nobody reads costs more than all else.
fn open_direct(path: &Path) -> io::Result<(File, bool)> {
    let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
    match open(libc::O_DIRECT | libc::O_DSYNC) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            open(libc::O_DSYNC).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

fn read(file: &File, offset: u64, bytes: usize, buffer: &mut Buffer) -> io::Result<()> {
    buffer.resize_for_writing(bytes);
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut buffer.as_mut_slice()[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.resize(filled);
    Ok(())
}

fn list(directory: &Path) -> io::Result<Vec<String>> {
    // A name that is not text is none of ours.
    let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name().into_string());
    let names: io::Result<Vec<_>> = fs::read_dir(directory)?.map(name).collect();
    Ok(names?.into_iter().flatten().collect())
}

fn lock(path: &Path) -> io::Result<Gave> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Gave::Locked(file)),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Creates the directory and makes its name durable, with those of its parents.
fn create_directory(directory: &Path) -> io::Result<()> {
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut parent = Some(directory);
    while let Some(path) = parent.filter(|path| !path.as_os_str().is_empty() && !path.exists()) {
        missing.push(path.to_path_buf());
        parent = path.parent();
    }
    fs::create_dir_all(directory)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
