//! Blocks of sstables in memory, bounded in bytes.
//!
//! Two generations: what is used moves to the young one; when that has half of the memory, it
//! becomes the old one and the old one is forgotten. So what stays was used lately, and finding it
//! costs one or two look-ups and no lists.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::sstable::{Block, SstableId};

/// Which block of which sstable.
pub(in crate::store) type BlockId = (SstableId, usize);

/// Blocks that were read lately.
#[derive(Debug, Default)]
pub(in crate::store) struct Cache {
    young: HashMap<BlockId, Arc<Block>>,
    old: HashMap<BlockId, Arc<Block>>,
    young_bytes: usize,
    old_bytes: usize,
    bytes_max: usize,
}

impl Cache {
    /// A cache of at most this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Changes how many bytes it may have.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes() > bytes_max {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
    }

    pub fn get(&mut self, id: BlockId) -> Option<Arc<Block>> {
        if let Some(block) = self.young.get(&id) {
            return Some(Arc::clone(block));
        }
        let block = self.old.remove(&id)?;
        self.old_bytes -= block.memory_bytes();
        self.put(id, Arc::clone(&block));
        Some(block)
    }

    pub fn put(&mut self, id: BlockId, block: Arc<Block>) {
        let bytes = block.memory_bytes();
        if self.young_bytes + bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        if bytes <= self.bytes_max / 2 && self.young.insert(id, block).is_none() {
            self.young_bytes += bytes;
        }
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Block, Cache, SstableId};
    use crate::{
        mutation::{TableNumber, Token},
        sstable::Writer,
    };

    const ID: SstableId = SstableId { epoch: 1, shard: 0, sequence: 0 };

    fn block() -> Arc<Block> {
        let mut writer = Writer::new(ID, TableNumber(1), 0);
        writer.partition(Token(1), b"key", None);
        let mut bytes = Vec::new();
        bytes.extend(writer.finish().1);
        let stored = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        Arc::new(Block::decode(ID, 0, &bytes[..12 + stored]).unwrap())
    }

    #[test]
    fn what_is_used_stays_and_the_bytes_are_bounded() {
        let block = block();
        let bytes_max = block.memory_bytes() * 8;
        let mut cache = Cache::new(bytes_max);
        for number in 0..100 {
            cache.put((ID, number), Arc::clone(&block));
            assert!(cache.get((ID, 0)).is_some(), "block 0 after block {number}");
            assert!(cache.bytes() <= bytes_max);
        }
        assert!(cache.get((ID, 1)).is_none());
        assert!(cache.get((ID, 99)).is_some());
    }
}
