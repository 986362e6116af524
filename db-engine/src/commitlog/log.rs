//! Writing the log: staging, segments, release.

use std::collections::{BTreeMap, VecDeque};

use super::{
    ENTRY_HEADER_BYTES, EntryKind, FILL_BYTES, LogBlock, LogConfig, Preparation, PreparedSegment,
    SegmentId, preparation::beginning_bytes, sector::padded,
};
use crate::io::{Buffer, FileId, Operation, SECTOR_BYTES, TimeSlice};

/// Bytes that an entry adds to a block besides its mutations, at most.
const ENTRY_OVERHEAD_BYTES: usize = ENTRY_HEADER_BYTES + size_of::<u64>();

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

/// A block that is being made ready for the device.
#[derive(Debug)]
struct Encoding {
    file: FileId,
    offset: u64,
    buffer: Buffer,
    /// How many of its sectors are in the buffer.
    sectors: usize,
    close: Option<FileId>,
}

#[derive(Debug)]
struct Segment {
    number: u32,
    file: FileId,
    offset: u64,
    /// It has its last block, which says that the log goes on in the next segment.
    is_closed: bool,
}

/// The segment after the current one.
#[derive(Debug)]
enum FollowingSegment {
    Missing,
    InPreparation,
    Ready(FileId),
}

/// The commit log of one shard, while it runs. Does no I/O: it says what is to be done.
#[derive(Debug)]
pub struct CommitLog {
    epoch: u32,
    shard: u16,
    config: LogConfig,
    /// The smallest write that the device takes, in bytes.
    block_bytes: usize,
    staging: LogBlock,
    /// The block on its way; what is written of it is with the device, or being made ready for it.
    flying: Option<LogBlock>,
    encoding: Option<Encoding>,
    /// Memory of what was written last.
    buffer: Buffer,
    spare: Option<LogBlock>,
    /// Of the next block to be submitted.
    sequence: u64,
    current: Segment,
    next: FollowingSegment,
    /// Segments that are full, the oldest first.
    sealed: VecDeque<u32>,
    /// Segments whose files can be used again.
    released: Vec<u32>,
    /// The number of the oldest segment that may be needed.
    floor: u32,
    intents: u64,
    /// Intents that are not done, by tag: their id, and the segment once it is known.
    open: BTreeMap<u128, (u64, Option<u32>)>,
    no_space: bool,
}

impl CommitLog {
    /// A log that begins with segment 0, which is ready.
    #[must_use]
    pub fn new(epoch: u32, shard: u16, config: LogConfig, first: PreparedSegment) -> Self {
        let PreparedSegment { file, block_bytes } = first;
        let offset = beginning_bytes(block_bytes);
        Self {
            epoch,
            shard,
            config,
            block_bytes,
            staging: LogBlock::default(),
            flying: None,
            encoding: None,
            buffer: Buffer::default(),
            spare: Some(LogBlock::default()),
            sequence: 1,
            current: Segment { number: 0, file, offset, is_closed: false },
            next: FollowingSegment::Missing,
            sealed: VecDeque::new(),
            released: Vec::new(),
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

    /// As [`Self::stage_write`]. Takes many mutations away from the caller, and leaves none there.
    ///
    /// # Errors
    ///
    /// If it cannot be taken now; nothing has changed then.
    #[inline]
    pub fn take_write(&mut self, tag: u128, mutations: &mut Vec<u8>) -> Result<(), NotStaged> {
        if mutations.len() < self.config.large_bytes {
            return self.stage_write(tag, mutations);
        }
        self.admit(mutations.len())?;
        self.staging.push_large(EntryKind::Write, taken(mutations), Some(tag));
        Ok(())
    }

    /// Stages an intent, which stays open until [`Self::intent_done`].
    ///
    /// # Errors
    ///
    /// If it cannot be taken now; nothing has changed then.
    pub fn stage_intent(&mut self, tag: u128, mutations: &[u8]) -> Result<(), NotStaged> {
        self.admit(mutations.len())?;
        let kind = self.open_intent(tag);
        self.staging.push(kind, mutations, Some(tag));
        Ok(())
    }

    /// As [`Self::stage_intent`]. Takes many mutations away from the caller, and leaves none there.
    ///
    /// # Errors
    ///
    /// If it cannot be taken now; nothing has changed then.
    pub fn take_intent(&mut self, tag: u128, mutations: &mut Vec<u8>) -> Result<(), NotStaged> {
        if mutations.len() < self.config.large_bytes {
            return self.stage_intent(tag, mutations);
        }
        self.admit(mutations.len())?;
        let kind = self.open_intent(tag);
        self.staging.push_large(kind, taken(mutations), Some(tag));
        Ok(())
    }

    fn open_intent(&mut self, tag: u128) -> EntryKind {
        self.intents += 1;
        let id = self.intents;
        self.open.insert(tag, (id, None));
        EntryKind::Intent { id }
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
        let block = self.staging.bytes() + bytes + ENTRY_OVERHEAD_BYTES;
        let is_full = block > self.config.staged_bytes_max && !self.staging.is_empty();
        if is_full || block > self.config.block_bytes_max() {
            return Err(NotStaged::Full);
        }
        // While the next segment is being made a block may wait for it, but not for ever.
        let room = self.fits_current(block) || !matches!(self.next, FollowingSegment::Missing);
        if room { Ok(()) } else { Err(NotStaged::NoSpace) }
    }

    /// Whether a block with so many bytes of entries has room in the current segment, and after it
    /// the one that closes the segment.
    fn fits_current(&self, entry_bytes: usize) -> bool {
        let padded = padded(entry_bytes, self.block_bytes) + self.block_bytes;
        !self.current.is_closed && self.current.offset + padded as u64 <= self.config.segment_bytes
    }

    /// The next block to be written, unless nothing is staged or one is on its way. A large one is
    /// made ready bit by bit: [`Self::is_encoding`] until it is.
    #[must_use]
    pub fn submit(&mut self, time: &mut TimeSlice<'_>) -> Option<Submitted> {
        if self.encoding.is_some() {
            return self.encode(time);
        }
        if self.flying.is_some() || self.staging.is_empty() {
            return None;
        }
        let mut close = None;
        if !self.fits_current(self.staging.bytes()) {
            let FollowingSegment::Ready(next) = self.next else { return None };
            if !self.current.is_closed {
                return self.close_segment(time);
            }
            close = Some(self.switch_segment(next));
        }
        let spare = self.spare.take().unwrap_or_default();
        let block = std::mem::replace(&mut self.staging, spare);
        for (_, segment) in self.open.values_mut() {
            segment.get_or_insert(self.current.number);
        }
        self.begin_write(block, close);
        self.encode(time)
    }

    /// Writes the last block of the current segment. Once it is on the device a start that does not
    /// find the next segment knows that something is missing.
    fn close_segment(&mut self, time: &mut TimeSlice<'_>) -> Option<Submitted> {
        let mut block = self.spare.take().unwrap_or_default();
        block.push(EntryKind::Continued, &[], None);
        self.begin_write(block, None);
        self.current.is_closed = true;
        self.encode(time)
    }

    fn begin_write(&mut self, block: LogBlock, close: Option<FileId>) {
        let buffer = std::mem::take(&mut self.buffer);
        let (file, offset) = (self.current.file, self.current.offset);
        self.current.offset += padded(block.bytes(), self.block_bytes) as u64;
        self.encoding = Some(Encoding { file, offset, buffer, sectors: 0, close });
        self.flying = Some(block);
    }

    /// Goes on with the block that is being made ready; gives it when it is.
    fn encode(&mut self, time: &mut TimeSlice<'_>) -> Option<Submitted> {
        let segment = self.segment_id(self.current.number);
        let (block, encoding) = (self.flying.as_ref()?, self.encoding.as_mut()?);
        let Encoding { buffer, sectors, .. } = encoding;
        let place = (segment, self.sequence);
        let sizes = (self.block_bytes, self.config.large_bytes / 4 / SECTOR_BYTES);
        if let Some(rest) = block.encode_some(place, sizes, buffer, *sectors, time) {
            *sectors = rest;
            return None;
        }
        let Encoding { file, offset, buffer, close, .. } = self.encoding.take()?;
        self.sequence += 1;
        let operation = Operation::Write { file, offset, buffer, durable: true };
        Some(Submitted { operation, close })
    }

    /// Whether a block is being made ready for the device.
    #[must_use]
    pub fn is_encoding(&self) -> bool {
        self.encoding.is_some()
    }

    /// Begins to use the next segment, and returns the file of the last.
    fn switch_segment(&mut self, file: FileId) -> FileId {
        self.next = FollowingSegment::Missing;
        let (number, offset) = (self.current.number + 1, beginning_bytes(self.block_bytes));
        let next = Segment { number, file, offset, is_closed: false };
        let last = std::mem::replace(&mut self.current, next);
        self.sealed.push_back(last.number);
        last.file
    }

    /// The block is on the device: gives it, its sequence number and the number of its segment.
    ///
    /// # Panics
    ///
    /// If no block is on its way.
    pub fn written(&mut self, buffer: Buffer) -> (LogBlock, u64, u32) {
        let block = self.flying.take().expect("a block is on its way");
        self.buffer =
            if buffer.capacity() > self.kept_bytes_max() { Buffer::default() } else { buffer };
        (block, self.sequence - 1, self.current.number)
    }

    /// Takes a block back for its memory, unless that is unusually much.
    pub fn recycle(&mut self, mut block: LogBlock) {
        block.clear();
        let is_large = block.memory_bytes() > self.kept_bytes_max();
        self.spare = Some(if is_large { LogBlock::default() } else { block });
    }

    /// Bytes of a block's memory that are kept for the next one.
    fn kept_bytes_max(&self) -> usize {
        self.config.staged_bytes_max / 4
    }

    /// Begins to prepare the next segment, unless that has begun: in the file of a released one if
    /// there is one.
    #[must_use]
    pub fn prepare_segment(&mut self) -> Option<Preparation> {
        if !matches!(self.next, FollowingSegment::Missing) {
            return None;
        }
        self.next = FollowingSegment::InPreparation;
        let id = self.segment_id(self.current.number + 1);
        let bytes = self.config.segment_bytes;
        Some(match self.released.pop() {
            Some(number) => {
                let released = self.segment_id(number);
                Preparation::of_released(id, released, bytes, self.block_bytes)
            }
            None => Preparation::of_new_file(id, bytes, FILL_BYTES),
        })
    }

    /// Whether what is staged waits for the next segment.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.staging.is_empty() && !self.fits_current(self.staging.bytes())
    }

    /// Bytes of the current segment that are used; more than it has if the next one is waited for.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        if self.is_waiting() { u64::MAX } else { self.current.offset }
    }

    /// The next segment is ready.
    pub fn segment_ready(&mut self, segment: PreparedSegment) {
        self.next = FollowingSegment::Ready(segment.file);
    }

    /// There is space for the segment that is being prepared.
    pub fn space_found(&mut self) {
        self.no_space = false;
    }

    /// There is space again, perhaps: its preparation goes on.
    pub fn segment_tried_again(&mut self) {
        self.next = FollowingSegment::InPreparation;
    }

    /// There is no space for it. Returns whom to tell that their writes and intents did not happen:
    /// what is staged and cannot be written to the current segment. That intents are done may stay
    /// staged: else the next start carried out again what is deleted, and the deletion forgotten.
    #[must_use]
    pub fn segment_failed(&mut self, keeps_done: bool) -> Vec<Unwritten> {
        self.next = FollowingSegment::Missing;
        self.no_space = true;
        if !self.is_waiting() {
            return Vec::new();
        }
        let mut tags = self.staging.tags().iter();
        let (mut unwritten, mut done) = (Vec::new(), Vec::new());
        for entry in self.staging.entries() {
            let is_intent = matches!(entry.kind, EntryKind::Intent { .. });
            match entry.kind {
                EntryKind::Write | EntryKind::Intent { .. } => {
                    unwritten.extend(tags.next().map(|tag| Unwritten { tag: *tag, is_intent }));
                }
                EntryKind::IntentDone { id } if keeps_done => done.push(id),
                EntryKind::IntentDone { .. } | EntryKind::Continued => {}
            }
        }
        self.staging.clear();
        for id in done {
            self.staging.push(EntryKind::IntentDone { id }, &[], None);
        }
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

    /// The oldest segment that is needed, if rows that are only in memory need those from
    /// `unflushed` on.
    #[must_use]
    pub fn floor_with(&self, unflushed: Option<u32>) -> u32 {
        let pinned = self.open.values().filter_map(|(_, segment)| *segment).min();
        [unflushed, pinned].into_iter().flatten().fold(self.current.number, u32::min)
    }

    /// The segments before `floor` are not needed any more, and it is durable that they are not.
    /// Returns those to be removed: the others are used again.
    pub fn release(&mut self, floor: u32) -> Vec<SegmentId> {
        self.floor = self.floor.max(floor);
        let mut removed = Vec::new();
        while let Some(oldest) = self.sealed.pop_front_if(|oldest| *oldest < floor) {
            if self.bytes() + self.config.segment_bytes <= self.config.bytes_max {
                self.released.push(oldest);
            } else {
                removed.push(self.segment_id(oldest));
            }
        }
        removed
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

    /// How many segments there are, those ahead of need included.
    #[must_use]
    pub fn segments(&self) -> u64 {
        let ready = u64::from(matches!(self.next, FollowingSegment::Ready(_)));
        (self.sealed.len() + self.released.len()) as u64 + 1 + ready
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments() * self.config.segment_bytes
    }

    /// Whether the segments that are full take as many bytes as all may.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.sealed.len() as u64 * self.config.segment_bytes >= self.config.bytes_max
    }

    /// The number of the segment with the next block.
    #[must_use]
    pub fn current_segment(&self) -> u32 {
        self.current.number
    }

    /// Bytes of memory for writes that are staged or on their way, and for those to come.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let flying = self.flying.as_ref().map_or(self.buffer.capacity(), |block| {
            block.memory_bytes() + padded(block.bytes(), self.block_bytes)
        });
        let spare = self.spare.as_ref().map_or(0, LogBlock::memory_bytes);
        self.staging.memory_bytes() + flying + spare
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

/// Many mutations, without the memory around them that they do not use.
fn taken(mutations: &mut Vec<u8>) -> Vec<u8> {
    let mut taken = std::mem::take(mutations);
    taken.shrink_to_fit();
    taken
}
