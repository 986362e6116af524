//! The sstables that a compaction reads, each from its beginning to its end.

use std::{io, ops::Range, sync::Arc};

use crate::{
    io::{Buffer, Operation},
    sstable::{Block, BlockRow},
    store::table::Sstable,
};

/// As many blocks as have so many bytes together are read at once, and one at least.
pub(super) const READ_BYTES: usize = 64 << 10;

/// The memory of a larger block is not kept for the next one.
const SPARE_BYTES_MAX: usize = 128 << 10;

/// An sstable that is being compacted, and how far it is.
pub(super) struct InputFile {
    pub sstable: Arc<Sstable>,
    /// What was read of the file last.
    read: Buffer,
    read_offset: u64,
    /// The blocks that it holds.
    read_blocks: Range<usize>,
    /// The block at hand.
    block: Option<Block>,
    /// The one before, for its memory.
    spare: Block,
    /// The block after it.
    next_block: usize,
    /// The entry at hand.
    entry: usize,
}

impl InputFile {
    /// At the beginning of an sstable, of which nothing is in memory.
    pub fn new(sstable: Arc<Sstable>) -> Self {
        Self {
            sstable,
            read: Buffer::default(),
            read_offset: 0,
            read_blocks: 0..0,
            block: None,
            spare: Block::default(),
            next_block: 0,
            entry: 0,
        }
    }

    /// The entry that it stands on; `None` at the end, or if it must be read.
    #[inline]
    pub fn peek(&self) -> Option<BlockRow<'_>> {
        self.block.as_ref()?.row(self.entry)
    }

    /// The block at hand, and which of its entries it stands on.
    #[inline]
    pub fn at(&self) -> Option<(&Block, usize)> {
        Some((self.block.as_ref()?, self.entry))
    }

    /// Goes on by so many entries of the block at hand.
    ///
    /// # Errors
    ///
    /// If the block behind it is not what was written there.
    pub fn advance(&mut self, entries: usize) -> io::Result<()> {
        self.entry += entries;
        if let Some(block) = self.block.take_if(|block| self.entry >= block.len()) {
            self.spare =
                if block.memory_bytes() <= SPARE_BYTES_MAX { block } else { Block::default() };
            self.take_block()?;
        }
        Ok(())
    }

    /// What must be read so that it stands on an entry, unless it does, is at the end, or has yet
    /// to decode what was read.
    pub fn missing(&mut self) -> Option<Operation> {
        if self.block.is_some() || self.is_undecoded() {
            return None;
        }
        let first = self.sstable.index.location(self.next_block)?;
        let (mut end, mut bytes) = (self.next_block, 0);
        while let Some(location) = self.sstable.index.location(end) {
            let with = bytes + location.bytes as usize;
            if bytes > 0 && with > READ_BYTES {
                break;
            }
            (end, bytes) = (end + 1, with);
        }
        (self.read_offset, self.read_blocks) = (first.offset, self.next_block..end);
        let (file, offset, buffer) =
            (self.sstable.file, first.offset, std::mem::take(&mut self.read));
        Some(Operation::Read { file, offset, bytes, buffer })
    }

    /// Whether the block that it needs was read and is yet to be decoded.
    pub fn is_undecoded(&self) -> bool {
        self.block.is_none() && self.read_blocks.contains(&self.next_block)
    }

    /// Takes what was read. It is decoded by [`Self::take_block`].
    pub fn take(&mut self, read: Buffer) {
        self.read = read;
    }

    /// Has the next block with an entry at hand, if it was read. A partition key as long as a block
    /// is alone in one.
    ///
    /// # Errors
    ///
    /// If it is not what was written there.
    pub fn take_block(&mut self) -> io::Result<()> {
        while self.is_undecoded() {
            let Some(location) = self.sstable.index.location(self.next_block) else { break };
            let start = usize::try_from(location.offset - self.read_offset).unwrap_or(usize::MAX);
            let stored = self.read.as_slice().get(start..).unwrap_or_default();
            let stored = stored.get(..location.bytes as usize).unwrap_or_default();
            let id = self.sstable.summary.id;
            let block = std::mem::take(&mut self.spare).decode_next(id, location.offset, stored)?;
            (self.next_block, self.entry) = (self.next_block + 1, 0);
            if block.is_empty() {
                self.spare = block;
            } else {
                self.block = Some(block);
            }
        }
        Ok(())
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let block = self.block.as_ref().unwrap_or(&self.spare);
        self.read.memory_bytes() + block.memory_bytes()
    }
}
