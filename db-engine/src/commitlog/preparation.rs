//! Making a segment ready before it is needed, one small operation after the other.
//!
//! A new file is filled with zeros piece by piece, no faster than the current segment is used, so
//! that the log's own writes never wait behind it for long. A segment that was released is used
//! again as it is: its sectors carry the number under which they were written. In either case the
//! file gets the segment's name only when it is as long as all segments and says which it is. So a
//! file with that name that is shorter, or says something else, was not left by a crash.

use super::{
    SegmentId,
    sector::{padded, write_sectors},
};
use crate::io::{Buffer, FileId, Operation, Outcome};

/// The first bytes of what begins each segment, followed by the length of the file.
pub const SEGMENT_MAGIC: [u8; 8] = *b"SANDLOG2";

/// Zeros are written to a new segment in pieces of this many bytes: about a millisecond, in which a
/// block of the log may wait for the device.
pub const FILL_BYTES: usize = 256 << 10;

/// The operation at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Open,
    Fill,
    Begin,
    Rename,
    SyncDirectory,
}

/// A segment that will soon be ready.
#[derive(Debug)]
pub struct Preparation {
    id: SegmentId,
    /// The segment whose file it gets; a new file if there is none.
    reused: Option<SegmentId>,
    segment_bytes: u64,
    fill_bytes: usize,
    doing: Doing,
    file: Option<FileId>,
    filled: u64,
    block_bytes: usize,
}

/// A segment that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedSegment {
    /// Its file, open for durable writes.
    pub file: FileId,
    /// The smallest write that the device takes, in bytes.
    pub block_bytes: usize,
}

impl Preparation {
    /// Begins with a new file of this length, filled in pieces of `fill_bytes`.
    #[must_use]
    pub fn of_new_file(id: SegmentId, segment_bytes: u64, fill_bytes: usize) -> Self {
        let (doing, file) = (Doing::Open, None);
        let block_bytes = crate::io::ALIGNMENT;
        Self { id, reused: None, segment_bytes, fill_bytes, doing, file, filled: 0, block_bytes }
    }

    /// Begins with the file of a segment that was released, on a device with blocks of so many
    /// bytes.
    #[must_use]
    pub fn of_released(
        id: SegmentId,
        released: SegmentId,
        segment_bytes: u64,
        block_bytes: usize,
    ) -> Self {
        let new = Self::of_new_file(id, segment_bytes, 0);
        Self { reused: Some(released), block_bytes, ..new }
    }

    /// Its segment.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Whether the operation at hand need not wait until more than this of the current segment is
    /// used. Half of that is enough for all of them.
    #[must_use]
    pub fn is_due(&self, used_bytes: u64) -> bool {
        self.doing != Doing::Fill || self.filled <= used_bytes.saturating_mul(2)
    }

    /// The operation at hand. It is submitted once, and again if there was no space for it.
    ///
    /// # Panics
    ///
    /// If an operation comes before the file is open.
    #[must_use]
    pub fn operation(&self) -> Operation {
        let file = || self.file.expect("it was opened first");
        match self.doing {
            Doing::Open => match self.reused {
                Some(released) => Operation::OpenDurable { name: released.name() },
                None => Operation::CreateDurable { name: self.id.new_name() },
            },
            Doing::Fill => {
                let left = usize::try_from(self.segment_bytes - self.filled).unwrap_or(usize::MAX);
                let bytes = left.min(self.fill_bytes);
                Operation::Fill { file: file(), offset: self.filled, bytes }
            }
            Doing::Begin => {
                let buffer = beginning(self.id, self.segment_bytes, self.block_bytes);
                Operation::Write { file: file(), offset: 0, buffer, durable: true }
            }
            Doing::Rename => {
                let from = self.reused.map_or_else(|| self.id.new_name(), SegmentId::name);
                Operation::Rename { from, to: self.id.name() }
            }
            Doing::SyncDirectory => Operation::SyncDirectory,
        }
    }

    /// The operation at hand is over, and gave this. The segment, once it is ready.
    pub fn over(&mut self, outcome: &Outcome) -> Option<PreparedSegment> {
        self.doing = match self.doing {
            Doing::Open => {
                match *outcome {
                    Outcome::Created { file, block_bytes } => {
                        (self.file, self.block_bytes) = (Some(file), block_bytes);
                    }
                    Outcome::Opened { file, .. } => self.file = Some(file),
                    _ => return None,
                }
                if self.reused.is_some() { Doing::Begin } else { Doing::Fill }
            }
            Doing::Fill => {
                self.filled = (self.filled + self.fill_bytes as u64).min(self.segment_bytes);
                if self.filled < self.segment_bytes { Doing::Fill } else { Doing::Begin }
            }
            Doing::Begin => Doing::Rename,
            Doing::Rename => Doing::SyncDirectory,
            Doing::SyncDirectory => {
                let block_bytes = self.block_bytes;
                return self.file.map(|file| PreparedSegment { file, block_bytes });
            }
        };
        None
    }
}

/// Bytes of a segment before its first block.
#[must_use]
pub fn beginning_bytes(block_bytes: usize) -> u64 {
    padded(size_of::<[u64; 2]>(), block_bytes) as u64
}

/// What a segment begins with: a block that says which segment it is, and how long.
fn beginning(id: SegmentId, segment_bytes: u64, block_bytes: usize) -> Buffer {
    let mut text = SEGMENT_MAGIC.to_vec();
    text.extend_from_slice(&segment_bytes.to_le_bytes());
    let mut buffer = Buffer::default();
    buffer.resize(padded(text.len(), block_bytes));
    write_sectors(buffer.as_mut_slice(), id, 0, &text);
    buffer
}
