//! What the engine needs of a machine: files and a clock.
//!
//! Files are operations that are submitted and complete later, in any order; nothing here blocks,
//! but for a write that a shard keeps until it would wait anyway.
//! [`disk`] carries them out, [`sim`] pretends to and breaks what a real machine may break. A shard
//! has a [`Files`] of its own and is the only one who uses it.
//!
//! All names are relative to one directory, the engine's, and contain no separator.

mod buffer;
mod clock;
mod descriptors;
mod own_writes;
mod page_cache;
mod random;
mod removal;
mod time_slice;
mod touch;
pub mod disk;
pub mod limits;
pub mod sim;

use std::io;

pub use buffer::Buffer;
pub use clock::{Clock, ManualClock, SystemClock};
pub use descriptors::Descriptors;
pub use random::Random;
pub use time_slice::TimeSlice;
pub use touch::touch;

/// Direct writes that begin and end at multiples of this many bytes are taken by every device.
/// Their memory is aligned to it.
pub const ALIGNMENT: usize = 4096;

/// What a device writes as a whole or not at all, at the least, in bytes.
pub const SECTOR_BYTES: usize = 512;

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
    },
    /// Creates a file, or empties it, for writes that are durable when they complete;
    /// [`Outcome::Created`]. It takes [`Operation::Fill`], and then [`Operation::Write`] with
    /// `durable` alone, and is not read through this id.
    CreateDurable {
        /// Its name.
        name: String,
    },
    /// Opens a file that was made by [`Operation::CreateDurable`] for more such writes;
    /// [`Outcome::Opened`].
    OpenDurable {
        /// Its name.
        name: String,
    },
    /// Writes zeros to a file for durable writes, at its end or over what it has;
    /// [`Outcome::Done`]. They are on the device when it completes.
    Fill {
        /// The file.
        file: FileId,
        /// Where to begin, in bytes; a multiple of [`ALIGNMENT`].
        offset: u64,
        /// How many zeros; a multiple of [`ALIGNMENT`].
        bytes: usize,
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
        /// Whether it is on the device when it completes: for files for durable writes, and only
        /// over what they were filled with. It begins and ends at multiples of their
        /// `block_bytes`.
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
    /// Gives a file that is not open another name, replacing what had it; [`Outcome::Done`].
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
    /// Asks how much space is free; [`Outcome::Space`].
    FreeSpace,
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
    /// The file is open for durable writes, and empty.
    Created {
        /// By which it is known from now on.
        file: FileId,
        /// The smallest write that the device takes, in bytes: a divisor of [`ALIGNMENT`], and a
        /// multiple of [`SECTOR_BYTES`].
        block_bytes: usize,
    },
    /// The buffer holds what was read: less than asked for at the end of the file.
    Read,
    /// So much space is free on the disk of the directory.
    Space {
        /// In bytes.
        bytes: u64,
    },
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

    /// Begins a durable write for which its shard will wait with nothing else to do. It may be
    /// kept until [`Self::rest`], or the next [`Self::poll`], and be carried out there.
    fn submit_alone(&mut self, operation: Operation) -> Ticket {
        self.submit(operation)
    }

    /// Said at the end of a turn: whether the shard would wait now. Returns whether a write that
    /// was kept is over instead, and there is something to poll.
    fn rest(&mut self, _would_wait: bool) -> bool {
        false
    }

    /// Appends the operations that are over to `out`; never waits, but for a write that was kept.
    fn poll(&mut self, out: &mut Vec<Completion>);

    /// Like [`Self::poll`], but waits until there is at least one. For start-up only.
    fn wait(&mut self, out: &mut Vec<Completion>);

    /// How many reads were done when they were submitted, because their bytes were in memory.
    fn reads_at_once(&self) -> u64 {
        0
    }

    /// How many durable writes the shard's own thread has carried out.
    fn own_writes(&self) -> u64 {
        0
    }
}
