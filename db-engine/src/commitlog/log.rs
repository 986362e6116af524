//! Writing the log: staging, segments, release.

use std::collections::{BTreeMap, VecDeque};

use super::{BLOCK_ALIGNMENT, Block, ENTRY_HEADER_BYTES, EntryKind, HEADER_BYTES, SegmentId};
use crate::io::{Buffer, FileId, Operation};

/// Bytes that an entry adds to a block besides its mutations, at most.
const ENTRY_OVERHEAD_BYTES: usize = ENTRY_HEADER_BYTES + size_of::<u64>();

/// Limits of a commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Bytes of one segment; a multiple of [`BLOCK_ALIGNMENT`]. A block has at most half of it and
    /// a write a quarter, so that what is staged always fits into an empty segment.
    pub segment_bytes: u64,
}

impl LogConfig {
    /// The most bytes of mutations in one write.
    #[must_use]
    pub fn write_bytes_max(&self) -> usize {
        usize::try_from(self.segment_bytes / 4).unwrap_or(usize::MAX)
    }

    /// The most bytes staged: what one block can take.
    #[must_use]
    pub fn block_bytes_max(&self) -> usize {
        usize::try_from(self.segment_bytes / 2).unwrap_or(usize::MAX)
    }
}

/// Why something was not staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStaged {
    /// The block that is being filled is full, and the one before it still on its way.
    Full,
    /// There is no room on the disk for another segment.
    NoSpace,
    /// It is larger than [`LogConfig::write_bytes_max`].
    TooLarge,
}

/// Something that was staged and then did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Whom to tell.
    pub tag: u128,
    /// Whether it was an intent.
    pub is_intent: bool,
}

/// A block on its way to the device.
#[derive(Debug)]
pub struct Submitted {
    /// Writes it.
    pub operation: Operation,
    /// The file of the segment before, if this block is the first of another.
    pub close: Option<FileId>,
}

#[derive(Debug)]
struct Segment {
    number: u32,
    file: FileId,
    offset: u64,
}

#[derive(Debug)]
struct Sealed {
    number: u32,
    last_sequence: u64,
}

/// The segment after the current one.
#[derive(Debug)]
enum Next {
    Missing,
    Creating,
    Ready(FileId),
}

/// The commit log of one shard, while it runs. Does no I/O: it says what is to be done.
#[derive(Debug)]
pub struct CommitLog {
    epoch: u32,
    shard: u16,
    config: LogConfig,
    staging: Block,
    /// The block on its way; its buffer is with the device.
    flying: Option<Block>,
    flying_bytes: usize,
    spare: Option<Block>,
    /// Of the next block to be submitted.
    sequence: u64,
    current: Segment,
    next: Next,
    sealed: VecDeque<Sealed>,
    /// The number of the oldest segment that may be needed.
    floor: u32,
    intents: u64,
    /// Intents that are not done, by tag: their id, and the segment once it is known.
    open: BTreeMap<u128, (u64, Option<u32>)>,
    no_space: bool,
}

impl CommitLog {
    /// A log that begins with segment 0, preallocated and open as `file`.
    #[must_use]
    pub fn new(epoch: u32, shard: u16, config: LogConfig, file: FileId) -> Self {
        Self {
            epoch,
            shard,
            config,
            staging: Block::default(),
            flying: None,
            flying_bytes: 0,
            spare: Some(Block::default()),
            sequence: 1,
            current: Segment { number: 0, file, offset: 0 },
            next: Next::Missing,
            sealed: VecDeque::new(),
            floor: 0,
            intents: 0,
            open: BTreeMap::new(),
            no_space: false,
        }
    }

    /// Stages a write.
    ///
    /// # Errors
    ///
    /// If it cannot be taken now; nothing has changed then.
    #[inline]
    pub fn stage_write(&mut self, tag: u128, mutations: &[u8]) -> Result<(), NotStaged> {
        self.admit(mutations.len())?;
        self.staging.push(EntryKind::Write, mutations, Some(tag));
        Ok(())
    }

    /// Stages an intent, which stays open until [`Self::intent_done`].
    ///
    /// # Errors
    ///
    /// If it cannot be taken now; nothing has changed then.
    pub fn stage_intent(&mut self, tag: u128, mutations: &[u8]) -> Result<(), NotStaged> {
        self.admit(mutations.len())?;
        self.intents += 1;
        let id = self.intents;
        self.open.insert(tag, (id, None));
        self.staging.push(EntryKind::Intent { id }, mutations, Some(tag));
        Ok(())
    }

    /// All mutations of an intent are durable: it need not be kept. Nobody waits for this to be
    /// durable itself; if it is lost, recovery writes what is there already.
    pub fn intent_done(&mut self, tag: u128) {
        if let Some((id, _)) = self.open.remove(&tag) {
            self.staging.push(EntryKind::IntentDone { id }, &[], None);
        }
    }

    #[inline]
    fn admit(&self, bytes: usize) -> Result<(), NotStaged> {
        if bytes > self.config.write_bytes_max() {
            return Err(NotStaged::TooLarge);
        }
        let block = self.staging.bytes().max(HEADER_BYTES) + bytes + ENTRY_OVERHEAD_BYTES;
        if block > self.config.block_bytes_max() {
            return Err(NotStaged::Full);
        }
        // While the next segment is being made a block may wait for it, but not for ever.
        let room = self.fits_current(block) || !matches!(self.next, Next::Missing);
        if room { Ok(()) } else { Err(NotStaged::NoSpace) }
    }

    fn fits_current(&self, block_bytes: usize) -> bool {
        let padded = block_bytes.next_multiple_of(BLOCK_ALIGNMENT) as u64;
        self.current.offset + padded <= self.config.segment_bytes
    }

    /// The next block to be written, unless nothing is staged or one is on its way.
    #[must_use]
    pub fn submit(&mut self) -> Option<Submitted> {
        if self.flying.is_some() || self.staging.is_empty() {
            return None;
        }
        let mut close = None;
        if !self.fits_current(self.staging.bytes()) {
            close = Some(self.switch_segment()?);
        }
        let spare = self.spare.take().unwrap_or_default();
        let mut block = std::mem::replace(&mut self.staging, spare);
        block.seal(self.segment_id(self.current.number), self.sequence);
        self.sequence += 1;
        for (_, segment) in self.open.values_mut() {
            segment.get_or_insert(self.current.number);
        }
        let buffer = block.take_buffer();
        let offset = self.current.offset;
        self.flying_bytes = buffer.len();
        self.current.offset += buffer.len() as u64;
        self.flying = Some(block);
        let file = self.current.file;
        Some(Submitted {
            operation: Operation::Write { file, offset, buffer, durable: true },
            close,
        })
    }

    /// Begins to use the next segment, if there is one, and returns the file of the last.
    fn switch_segment(&mut self) -> Option<FileId> {
        let Next::Ready(file) = self.next else {
            return None;
        };
        self.next = Next::Missing;
        let number = self.current.number + 1;
        let last = std::mem::replace(&mut self.current, Segment { number, file, offset: 0 });
        self.sealed.push_back(Sealed { number: last.number, last_sequence: self.sequence - 1 });
        Some(last.file)
    }

    /// The block is on the device: gives it back, with its sequence number.
    ///
    /// # Panics
    ///
    /// If no block is on its way.
    pub fn written(&mut self, buffer: Buffer) -> (Block, u64) {
        let mut block = self.flying.take().expect("a block is on its way");
        self.flying_bytes = 0;
        block.return_buffer(buffer);
        (block, self.sequence - 1)
    }

    /// Takes a block back for its memory.
    pub fn recycle(&mut self, mut block: Block) {
        block.clear();
        self.spare = Some(block);
    }

    /// The segment that must be created, filled with zeros and its name made durable, if one must.
    #[must_use]
    pub fn wants_segment(&self) -> Option<SegmentId> {
        matches!(self.next, Next::Missing).then(|| self.segment_id(self.current.number + 1))
    }

    /// It is being created.
    pub fn segment_begun(&mut self) {
        self.next = Next::Creating;
    }

    /// It is there.
    pub fn segment_ready(&mut self, file: FileId) {
        self.next = Next::Ready(file);
        self.no_space = false;
    }

    /// There is no space for it. Returns whom to tell that their writes and intents did not happen:
    /// what is staged and cannot be written to the current segment.
    #[must_use]
    pub fn segment_failed(&mut self) -> Vec<Unwritten> {
        self.next = Next::Missing;
        self.no_space = true;
        if self.staging.is_empty() || self.fits_current(self.staging.bytes()) {
            return Vec::new();
        }
        let mut tags = self.staging.tags().iter();
        let mut unwritten = Vec::new();
        for entry in self.staging.staged() {
            let is_intent = match entry.kind {
                EntryKind::Write => false,
                EntryKind::Intent { .. } => true,
                EntryKind::IntentDone { .. } => continue,
            };
            unwritten.extend(tags.next().map(|tag| Unwritten { tag: *tag, is_intent }));
        }
        self.staging.clear();
        // A write may have the tag of an intent that is durable, whose part it is: that stays open.
        for Unwritten { tag, .. } in unwritten.iter().filter(|unwritten| unwritten.is_intent) {
            self.open.remove(tag);
        }
        unwritten
    }

    /// Whether the last segment could not be created for want of space.
    #[must_use]
    pub fn no_space(&self) -> bool {
        self.no_space
    }

    /// The oldest segment that is needed when all writes up to this block are in sstables.
    #[must_use]
    pub fn floor_after(&self, flushed_sequence: u64) -> u32 {
        let pinned = self.open.values().filter_map(|(_, segment)| *segment).min();
        let unflushed = self.sealed.iter().find(|sealed| sealed.last_sequence > flushed_sequence);
        let unflushed = unflushed.map_or(self.current.number, |sealed| sealed.number);
        unflushed.min(pinned.unwrap_or(u32::MAX))
    }

    /// The segments before `floor` are not needed any more, and it is durable that they are not.
    /// Returns those to be removed.
    pub fn release(&mut self, floor: u32) -> Vec<SegmentId> {
        let mut released = Vec::new();
        while let Some(oldest) = self.sealed.pop_front_if(|oldest| oldest.number < floor) {
            released.push(self.segment_id(oldest.number));
        }
        self.floor = self.floor.max(floor);
        released
    }

    /// The number of the oldest segment that may be needed.
    #[must_use]
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// The last block that was submitted; 0 if none was.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.sequence - 1
    }

    /// How many segments there are, the one ahead of need included.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.sealed.len() as u64 + 1 + u64::from(matches!(self.next, Next::Ready(_)))
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments() * self.config.segment_bytes
    }

    /// Bytes of all segments that are full.
    #[must_use]
    pub fn sealed_bytes(&self) -> u64 {
        self.sealed.len() as u64 * self.config.segment_bytes
    }

    /// Bytes of writes that are staged or on their way.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.staging.bytes() + self.flying_bytes
    }

    /// Whether nothing is staged or on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flying.is_none() && self.staging.is_empty()
    }

    /// Whether a block is on its way.
    #[must_use]
    pub fn is_flying(&self) -> bool {
        self.flying.is_some()
    }

    fn segment_id(&self, number: u32) -> SegmentId {
        SegmentId { epoch: self.epoch, shard: self.shard, number }
    }
}
