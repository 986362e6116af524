//! What the engine needs of a machine: files and a clock.
//!
//! Files are operations that are submitted and complete later, in any order; nothing here blocks.
//! [`disk`] carries them out, [`sim`] pretends to and breaks what a real machine may break. A shard
//! has a [`Files`] of its own and is the only one who uses it.
//!
//! All names are relative to one directory, the engine's, and contain no separator.

mod buffer;
mod clock;
mod random;
mod time_slice;
pub mod disk;
pub mod sim;

use std::io;

pub use buffer::Buffer;
pub use clock::{Clock, ManualClock, SystemClock};
pub use random::Random;
pub use time_slice::TimeSlice;

/// Direct writes begin and end at multiples of this many bytes, in the file and in memory.
pub const ALIGNMENT: usize = 4096;

/// Which operation a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An open file of one [`Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// Something to be done with files. Buffers are moved in and come back in the completion.
#[derive(Debug)]
pub enum Operation {
    /// Opens a file for reading and writing; [`Outcome::Opened`].
    Open {
        /// Its name.
        name: String,
    },
    /// Creates a file, or empties it, for reading and writing; [`Outcome::Opened`].
    Create {
        /// Its name.
        name: String,
        /// If not 0: it is filled with this many zeros and synced, and opened so that writes to
        /// it are durable when they complete. Such a file takes [`Operation::Write`] with
        /// `durable` alone, in multiples of [`ALIGNMENT`], and is not read through this id.
        preallocate_bytes: u64,
    },
    /// Reads as many bytes as there are, up to `bytes`; [`Outcome::Read`].
    Read {
        /// The file.
        file: FileId,
        /// Where to begin, in bytes.
        offset: u64,
        /// How many bytes to read.
        bytes: usize,
        /// Where to put them: its contents are replaced.
        buffer: Buffer,
    },
    /// Writes the whole buffer; [`Outcome::Done`].
    Write {
        /// The file.
        file: FileId,
        /// Where to begin, in bytes.
        offset: u64,
        /// What to write.
        buffer: Buffer,
        /// Whether it is on the device when it completes; only for preallocated files.
        durable: bool,
    },
    /// Puts what was written to a file on the device; [`Outcome::Done`].
    Sync {
        /// The file.
        file: FileId,
    },
    /// Closes a file; [`Outcome::Done`].
    Close {
        /// The file. Its id is free for another.
        file: FileId,
    },
    /// Gives a file another name, replacing what had it; [`Outcome::Done`].
    Rename {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Removes a file; [`Outcome::Done`].
    Remove {
        /// Its name.
        name: String,
    },
    /// Lists the directory; [`Outcome::Names`].
    List,
    /// Puts names that were created, changed or removed on the device; [`Outcome::Done`].
    SyncDirectory,
    /// Creates the file if need be and locks it until the process ends; [`Outcome::Done`], or
    /// [`io::ErrorKind::WouldBlock`] if another process has the lock.
    Lock {
        /// Its name.
        name: String,
    },
}

/// What an operation gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The file is open.
    Opened {
        /// By which it is known from now on.
        file: FileId,
        /// How long it is, in bytes.
        bytes: u64,
    },
    /// The buffer holds what was read: less than asked for at the end of the file.
    Read,
    /// All names in the directory, in any order.
    Names(Vec<String>),
}

/// An operation that is over.
#[derive(Debug)]
pub struct Completion {
    /// The operation.
    pub ticket: Ticket,
    /// What it gave. An error belongs to this operation alone.
    pub result: io::Result<Outcome>,
    /// The buffer of a read or write.
    pub buffer: Option<Buffer>,
}

/// The files of one shard.
pub trait Files: Send {
    /// Begins an operation. Operations in flight at the same time may be carried out in any order:
    /// wait for the completion of one that another needs.
    fn submit(&mut self, operation: Operation) -> Ticket;

    /// Appends the operations that are over to `out`; never waits.
    fn poll(&mut self, out: &mut Vec<Completion>);

    /// Like [`Self::poll`], but waits until there is at least one. For start-up only.
    fn wait(&mut self, out: &mut Vec<Completion>);
}
