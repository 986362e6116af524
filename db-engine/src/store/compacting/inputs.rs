//! The sstables that a compaction reads, each from its beginning to its end.

use std::{io, ops::Range, sync::Arc};

use crate::{
    io::{Buffer, Operation},
    sstable::{Block, BlockRow},
    store::table::Sstable,
};

/// As many blocks as have so many bytes together are read at once, and one at least.
pub(super) const READ_BYTES: usize = 64 << 10;

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
    /// The block after it.
    next_block: usize,
    /// The entry at hand.
    entry: usize,
}

impl InputFile {
    /// At the beginning of an sstable, of which nothing is in memory.
    pub fn new(sstable: Arc<Sstable>) -> Self {
        let (read, block) = (Buffer::default(), None);
        Self { sstable, read, read_offset: 0, read_blocks: 0..0, block, next_block: 0, entry: 0 }
    }

    /// The entry that it stands on; `None` at the end, or if it must be read.
    #[inline]
    pub fn peek(&self) -> Option<BlockRow<'_>> {
        self.block.as_ref()?.row(self.entry)
    }

    /// Goes on to the next entry.
    ///
    /// # Errors
    ///
    /// If its block is not what was written there.
    pub fn advance(&mut self) -> io::Result<()> {
        self.entry += 1;
        if self.block.as_ref().is_some_and(|block| self.entry >= block.len()) {
            self.block = None;
            self.take_block()?;
        }
        Ok(())
    }

    /// What must be read so that it stands on an entry, unless it does or is at the end.
    pub fn missing(&mut self) -> Option<Operation> {
        if self.block.is_some() {
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

    /// Takes what was read.
    ///
    /// # Errors
    ///
    /// If it is not what was written there.
    pub fn take(&mut self, read: Buffer) -> io::Result<()> {
        self.read = read;
        self.take_block()
    }

    /// Has the next block at hand, if it was read.
    fn take_block(&mut self) -> io::Result<()> {
        if !self.read_blocks.contains(&self.next_block) {
            return Ok(());
        }
        let Some(location) = self.sstable.index.location(self.next_block) else { return Ok(()) };
        let start = usize::try_from(location.offset - self.read_offset).unwrap_or(usize::MAX);
        let stored = self.read.as_slice().get(start..).unwrap_or_default();
        let stored = stored.get(..location.bytes as usize).unwrap_or_default();
        self.block = Some(Block::decode(self.sstable.summary.id, location.offset, stored)?);
        self.next_block += 1;
        self.entry = 0;
        Ok(())
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.read.memory_bytes() + self.block.as_ref().map_or(0, Block::memory_bytes)
    }
}
