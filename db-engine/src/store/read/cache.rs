//! Blocks of sstables in memory, bounded in bytes.
//!
//! Two generations: what is used moves to the young one; when that has half of the memory, it
//! becomes the old one and the old one is forgotten. So what stays was used lately, and finding it
//! costs one or two look-ups and no lists.
//!
//! A scan uses each block once, and more of them than there is memory for. What only scans have
//! used has a part of the memory, and what nothing else needs, so that it drives out nothing else.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::sstable::{Block, SstableId};

/// Blocks that only scans have used have this part of the memory at least.
const SCANNED_PART: usize = 8;

/// Which block of which sstable.
pub(in crate::store) type BlockId = (SstableId, usize);

/// What a block is used for, the more important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum CacheUse {
    /// A read of rows that may be asked for again.
    Again,
    /// A read of all partitions, or of a range of their tokens.
    Scan,
}

/// Blocks that were read lately.
#[derive(Debug, Default)]
pub(in crate::store) struct Cache {
    used: Generations,
    /// By scans alone.
    scanned: Generations,
    bytes_max: usize,
}

impl Cache {
    /// A cache of at most this many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let mut cache = Self::default();
        cache.limit(bytes_max);
        cache
    }

    /// Changes how many bytes it may have.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.used.limit(bytes_max - bytes_max / SCANNED_PART);
        self.share();
    }

    /// Leaves to scans what nothing else needs.
    fn share(&mut self) {
        let others = self.used.bytes();
        self.scanned.limit(self.bytes_max - others);
    }

    pub fn get(&mut self, id: BlockId, by: CacheUse) -> Option<Arc<Block>> {
        if by == CacheUse::Scan {
            return self.used.peek(id).or_else(|| self.scanned.get(id));
        }
        self.used.get(id).or_else(|| {
            let block = self.scanned.take(id)?;
            self.put(id, Arc::clone(&block), by);
            Some(block)
        })
    }

    pub fn put(&mut self, id: BlockId, block: Arc<Block>, by: CacheUse) {
        match by {
            CacheUse::Scan => self.scanned.put(id, block),
            CacheUse::Again => self.used.put(id, block),
        }
        self.share();
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.used.bytes() + self.scanned.bytes()
    }
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<BlockId, Arc<Block>>,
    old: HashMap<BlockId, Arc<Block>>,
    young_bytes: usize,
    old_bytes: usize,
    bytes_max: usize,
}

impl Generations {
    fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes() > bytes_max {
            self.age();
        }
    }

    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.old_bytes = std::mem::take(&mut self.young_bytes);
    }

    #[inline]
    fn get(&mut self, id: BlockId) -> Option<Arc<Block>> {
        if let Some(block) = self.young.get(&id) {
            return Some(Arc::clone(block));
        }
        let block = self.old.remove(&id)?;
        self.old_bytes -= block.memory_bytes();
        self.put(id, Arc::clone(&block));
        Some(block)
    }

    /// A block, of which it is not noted that it was used.
    fn peek(&self, id: BlockId) -> Option<Arc<Block>> {
        self.young.get(&id).or_else(|| self.old.get(&id)).cloned()
    }

    fn take(&mut self, id: BlockId) -> Option<Arc<Block>> {
        if let Some(block) = self.young.remove(&id) {
            self.young_bytes -= block.memory_bytes();
            return Some(block);
        }
        let block = self.old.remove(&id)?;
        self.old_bytes -= block.memory_bytes();
        Some(block)
    }

    fn put(&mut self, id: BlockId, block: Arc<Block>) {
        let bytes = block.memory_bytes();
        if self.young_bytes + bytes > self.bytes_max / 2 {
            self.age();
        }
        if bytes <= self.bytes_max / 2 && self.young.insert(id, block).is_none() {
            self.young_bytes += bytes;
        }
        // The old ones may be from when there was more room.
        if self.bytes() > self.bytes_max {
            self.old.clear();
            self.old_bytes = 0;
        }
    }

    fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Block, Cache, CacheUse::*, SstableId};
    use crate::{
        io::Random,
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
            cache.put((ID, number), Arc::clone(&block), Again);
            assert!(cache.get((ID, 0), Again).is_some(), "block 0 after block {number}");
            assert!(cache.bytes() <= bytes_max);
        }
        assert!(cache.get((ID, 1), Again).is_none());
        assert!(cache.get((ID, 99), Again).is_some());
    }

    #[test]
    fn a_scan_drives_out_only_what_scans_have_used() {
        let block = block();
        let bytes_max = block.memory_bytes() * 64;
        let mut cache = Cache::new(bytes_max);
        for number in 0..40 {
            cache.put((ID, number), Arc::clone(&block), Again);
        }
        let used: Vec<_> =
            (0..40).filter(|number| cache.get((ID, *number), Scan).is_some()).collect();
        assert!(used.len() >= 28, "{used:?}");
        for number in 0..1_000 {
            if cache.get((ID, number), Scan).is_none() {
                cache.put((ID, number), Arc::clone(&block), Scan);
            }
            assert!(cache.bytes() <= bytes_max);
        }
        assert!(cache.get((ID, 999), Scan).is_some(), "the next page finds its block");
        assert!(cache.get((ID, 900), Scan).is_none());
        assert!(used.iter().all(|number| cache.get((ID, *number), Scan).is_some()));
        // What is used after a scan stays, as if it had been read for that.
        assert!(cache.get((ID, 999), Again).is_some());
        for number in 1_000..2_000 {
            cache.put((ID, number), Arc::clone(&block), Scan);
        }
        assert!(cache.get((ID, 999), Again).is_some());
        cache.limit(0);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn the_bytes_are_bounded_whatever_the_bound_becomes() {
        let block = block();
        let mut random = Random(1);
        let mut cache = Cache::new(0);
        for _ in 0..20_000 {
            if random.percent(5) {
                let blocks = usize::try_from(random.below(40)).unwrap();
                cache.limit(blocks * block.memory_bytes() + 1);
            }
            let number = usize::try_from(random.below(60)).unwrap();
            let by = random.one_of(&[Again, Scan]);
            if cache.get((ID, number), by).is_none() {
                cache.put((ID, number), Arc::clone(&block), by);
            }
            assert!(cache.bytes() <= cache.bytes_max);
        }
    }

    #[test]
    fn scans_have_what_nothing_else_needs() {
        let block = block();
        let bytes_max = block.memory_bytes() * 64;
        let mut cache = Cache::new(bytes_max);
        for number in 0..30 {
            cache.put((ID, number), Arc::clone(&block), Scan);
        }
        assert!((0..30).all(|number| cache.get((ID, number), Scan).is_some()));
        for number in 100..200 {
            cache.put((ID, number), Arc::clone(&block), Again);
            assert!(cache.bytes() <= bytes_max);
        }
        assert!(!(0..30).any(|number| cache.get((ID, number), Scan).is_some()));
        assert!((180..200).all(|number| cache.get((ID, number), Again).is_some()));
    }

    #[test]
    fn a_scan_does_not_count_as_use() {
        let block = block();
        let mut cache = Cache::new(block.memory_bytes() * 16);
        for number in 0..7 {
            cache.put((ID, number), Arc::clone(&block), Again);
        }
        for number in 7..100 {
            assert_eq!(cache.get((ID, 0), Scan).is_some(), number < 15, "after {number}");
            cache.put((ID, number), Arc::clone(&block), Again);
        }
    }
}
