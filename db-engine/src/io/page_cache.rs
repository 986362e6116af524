//! Reads of what the operating system has in memory: done at once. To hand a few kilobytes over to
//! another thread and back takes longer than to copy them.

use std::{fs::File, io::IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{Buffer, Completion, Outcome, Ticket, disk::Ring};

/// Bytes that are read at once between two polls, at most: about as long as one client's share of
/// a turn. What is more goes to the helper thread, so that no turn gets long by it.
const POLL_BYTES_MAX: usize = 256 << 10;

/// Reads from this offset on what is in memory, and never waits for the device.
pub(super) type ReadCached = fn(&File, &mut [u8], u64) -> Result<usize, Errno>;

/// Reads that were done at once, until they are polled.
pub(super) struct PageCacheReads {
    pub(super) read: ReadCached,
    ring: Ring,
    completions: Vec<Completion>,
    /// Bytes that may be read before the next poll.
    bytes_left: usize,
    /// Whether the kernel and the file system can tell what is in memory.
    is_supported: bool,
    reads: u64,
}

/// What came of a read that may not wait.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// It has all bytes.
    Done,
    /// It may have to wait, or failed: who reads without haste finds out what is the matter.
    NotNow,
    /// It will never be otherwise.
    Unsupported,
}

impl Attempt {
    fn of(read: Result<usize, Errno>, wanted: usize) -> Self {
        match read {
            Ok(bytes) if bytes == wanted => Self::Done,
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM) => Self::Unsupported,
            Ok(_) | Err(_) => Self::NotNow,
        }
    }
}

impl PageCacheReads {
    /// None yet. `ring` is told of those that wait to be polled.
    pub fn new(ring: &Ring) -> Self {
        Self {
            read: read_cached,
            ring: ring.clone(),
            completions: Vec::new(),
            bytes_left: POLL_BYTES_MAX,
            is_supported: true,
            reads: 0,
        }
    }

    /// Reads so many bytes, if all of them are in memory. If not, the buffer has anything.
    pub fn read(&mut self, file: &File, offset: u64, bytes: usize, buffer: &mut Buffer) -> bool {
        // Beyond what a file can have, an offset means something else to the kernel.
        if !self.is_supported || bytes > self.bytes_left || i64::try_from(offset).is_err() {
            return false;
        }
        buffer.resize_for_writing(bytes);
        let attempt = Attempt::of((self.read)(file, buffer.as_mut_slice(), offset), bytes);
        self.is_supported = attempt != Attempt::Unsupported;
        if attempt == Attempt::Done {
            self.bytes_left -= bytes;
            self.reads += 1;
        }
        attempt == Attempt::Done
    }

    /// Keeps a read that was done until it is polled.
    pub fn complete(&mut self, ticket: Ticket, buffer: Buffer) {
        if self.completions.is_empty() {
            (self.ring)();
        }
        self.completions.push(Completion {
            ticket,
            result: Ok(Outcome::Read),
            buffer: Some(buffer),
        });
    }

    /// Whether none waits to be polled.
    pub fn is_empty(&self) -> bool {
        self.completions.is_empty()
    }

    /// Appends those that were done. More may be read again.
    pub fn poll(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.completions);
        self.bytes_left = POLL_BYTES_MAX;
    }

    /// How many there were.
    pub fn reads(&self) -> u64 {
        self.reads
    }
}

fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}
