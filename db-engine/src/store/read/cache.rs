//! Blocks of sstables in memory, bounded in bytes.
//!
//! What goes is chosen by SIEVE (Zhang et al., NSDI 2024): blocks are in the order in which they
//! came, and a hand goes from the oldest to the newest and round again. One that was used since it
//! last passed stays, one that was not makes room. So using a block costs a look-up and a flag, all
//! of the memory is used, and what is read once goes soon.
//!
//! A scan uses each block once, and more of them than there is memory for. What only scans have
//! used has a part of the memory, and what nothing else needs, so that it drives out nothing else.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::sstable::{Block, SstableId};

/// Blocks that only scans have used have this part of the memory at least.
const SCANNED_PART: usize = 8;

/// Blocks that the hand passes at most before one has to go: a turn has no time to pass them all.
const PASSED_MAX: usize = 64;

/// The largest block whose memory is kept for the next one: it is counted nowhere.
const SPARE_BYTES_MAX: usize = 64 << 10;

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
    used: Sieve,
    /// By scans alone.
    scanned: Sieve,
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
        let others = self.used.bytes;
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

    /// The memory of a block that went, for the next one.
    pub fn spare(&mut self) -> Block {
        let spare = self.used.spare.take().or_else(|| self.scanned.spare.take());
        spare.unwrap_or_default()
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.used.bytes + self.scanned.bytes
    }
}

#[derive(Debug, Default)]
struct Sieve {
    places: HashMap<BlockId, usize>,
    slots: Vec<CachedBlock>,
    /// Slots without a block.
    free: Vec<usize>,
    newest: Option<usize>,
    oldest: Option<usize>,
    /// The next one that stays or goes; else the oldest is.
    hand: Option<usize>,
    /// Of a block that went.
    spare: Option<Block>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct CachedBlock {
    id: BlockId,
    /// Nothing in a slot that is free.
    block: Option<Arc<Block>>,
    is_used: bool,
    newer: Option<usize>,
    older: Option<usize>,
}

impl Sieve {
    fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.make_room(0);
    }

    #[inline]
    fn get(&mut self, id: BlockId) -> Option<Arc<Block>> {
        let slot = &mut self.slots[*self.places.get(&id)?];
        slot.is_used = true;
        slot.block.clone()
    }

    /// A block, of which it is not noted that it was used.
    fn peek(&self, id: BlockId) -> Option<Arc<Block>> {
        self.slots[*self.places.get(&id)?].block.clone()
    }

    fn take(&mut self, id: BlockId) -> Option<Arc<Block>> {
        let place = *self.places.get(&id)?;
        self.remove(place)
    }

    fn put(&mut self, id: BlockId, block: Arc<Block>) {
        let bytes = block.memory_bytes();
        if bytes > self.bytes_max / 2 || self.places.contains_key(&id) {
            return;
        }
        self.make_room(bytes);
        self.bytes += bytes;
        let block = Some(block);
        let slot = CachedBlock { id, block, is_used: false, newer: None, older: self.newest };
        let place = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(place) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        match self.newest.replace(place) {
            Some(older) => self.slots[older].newer = Some(place),
            None => self.oldest = Some(place),
        }
        self.places.insert(id, place);
    }

    /// Has blocks go until there is room for so many bytes.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max
            && let Some(place) = self.next_to_go()
        {
            let block = self.remove(place).and_then(Arc::into_inner);
            let spare = block.filter(|one| one.memory_bytes() <= SPARE_BYTES_MAX);
            self.spare = spare.or(self.spare.take());
        }
    }

    fn next_to_go(&mut self) -> Option<usize> {
        let mut place = self.hand.or(self.oldest)?;
        for _ in 0..PASSED_MAX {
            let slot = &mut self.slots[place];
            if !std::mem::take(&mut slot.is_used) {
                break;
            }
            place = slot.newer.or(self.oldest)?;
        }
        self.hand = Some(place);
        Some(place)
    }

    fn remove(&mut self, place: usize) -> Option<Arc<Block>> {
        let slot = &mut self.slots[place];
        let (id, newer, older, block) = (slot.id, slot.newer, slot.older, slot.block.take()?);
        match newer {
            Some(newer) => self.slots[newer].older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => self.slots[older].newer = newer,
            None => self.oldest = newer,
        }
        if self.hand == Some(place) {
            self.hand = newer;
        }
        self.places.remove(&id);
        self.free.push(place);
        self.bytes -= block.memory_bytes();
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Block, Cache, CacheUse::*, PASSED_MAX, SstableId};
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
    fn one_block_goes_for_one_that_comes_and_leaves_its_memory() {
        let bytes = block().memory_bytes();
        let mut cache = Cache::new(bytes * 8);
        for number in 0..7 {
            cache.put((ID, number), block(), Again);
            assert_eq!(cache.bytes(), bytes * (number + 1));
            assert_eq!(cache.spare().memory_bytes(), 0, "nothing went");
        }
        assert!(cache.get((ID, 0), Again).is_some());
        let held = cache.get((ID, 3), Scan);
        for (number, gone, spare) in [(7, 1, bytes), (8, 2, bytes), (9, 3, 0), (10, 4, bytes)] {
            cache.put((ID, number), block(), Again);
            assert_eq!(cache.bytes(), bytes * 7, "all of the memory is used");
            assert!(cache.get((ID, gone), Scan).is_none(), "{gone} goes");
            let left = 7 - (0..7).filter(|one| cache.get((ID, *one), Scan).is_none()).count();
            assert_eq!(left, 13 - number, "and no other");
            assert_eq!(cache.spare().memory_bytes(), spare, "3 is held by a read");
        }
        assert!(held.is_some());
    }

    #[test]
    fn a_block_goes_soon_although_all_were_used() {
        let block = block();
        let mut cache = Cache::new(block.memory_bytes() * 8_000);
        for number in 0..7_000 {
            cache.put((ID, number), Arc::clone(&block), Again);
            cache.get((ID, number), Again);
        }
        cache.put((ID, 7_000), Arc::clone(&block), Again);
        let gone: Vec<_> = (0..7_000).filter(|at| cache.get((ID, *at), Scan).is_none()).collect();
        assert_eq!(gone, [PASSED_MAX]);
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
        let scanned = (0..30).filter(|number| cache.get((ID, *number), Scan).is_some()).count();
        assert_eq!(scanned, 8, "an eighth is theirs");
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
