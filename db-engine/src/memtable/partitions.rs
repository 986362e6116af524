//! The partitions of a memtable: by their keys, and in order.

use std::{collections::BTreeMap, hash::BuildHasher, ops::Bound, slice};

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use super::{ranges::RangeDeletions, rows::Rows};
use crate::mutation::{Deletion, Token};

/// Bytes that a partition takes besides its rows, and besides a key that is longer than
/// [`KEY_BYTES`], as measured.
const PARTITION_BYTES: usize = 190;

/// A key of so many bytes is kept in its partition: comparing it looks at no other place.
const KEY_BYTES: usize = 32;

/// Partitions of a piece of memory. Moving all of them to a larger one when it is full would take
/// tens of milliseconds where they are some hundred thousand.
const CHUNK_PARTITIONS: u32 = 256;

/// Hash tables that the partitions are spread over, as only one of them grows at once.
const TABLES: usize = 16;

#[derive(Debug)]
pub(super) struct Partition {
    pub token: Token,
    pub key: SmallVec<[u8; KEY_BYTES]>,
    /// No row holds anything that this covers.
    pub deletion: Option<Deletion>,
    /// Nor anything that one of these covers, if it has a clustering key.
    pub ranges: Option<Box<RangeDeletions>>,
    pub rows: Rows,
}

impl Partition {
    /// What is deleted at a clustering key, by the partition's deletion or that of a range.
    pub fn deletion_of(&self, ck: &[u8]) -> Option<Deletion> {
        let range = self.ranges.as_ref().and_then(|ranges| ranges.covering(ck));
        self.deletion.max(range)
    }
}

/// Where the first partition of a token is, beside a hash of that: a table that grows looks at no
/// partition.
#[derive(Clone, Copy, Debug)]
struct HashedPlace {
    hash: u32,
    place: u32,
}

/// The partitions of one token. It is nearly always one, but who knows how tokens are made can send
/// any number of keys that have the same.
#[derive(Clone, Copy, Debug)]
enum SameToken {
    One(u32),
    /// Those of the list with this number.
    More(u32),
}

/// The partitions of one memtable, each with a number that stays.
#[derive(Debug, Default)]
pub(super) struct PartitionMap {
    chunks: Vec<Vec<Partition>>,
    count: u32,
    /// By a hash of the token that nobody can foresee, unlike the token itself.
    tables: [HashTable<HashedPlace>; TABLES],
    hasher: DefaultHashBuilder,
    /// Kept in order all the time: sorting some hundred thousand of them when a scan or a flush
    /// needs them would take tens of milliseconds at once.
    by_token: BTreeMap<Token, SameToken>,
    /// Partitions that share a token, ascending by key.
    same: Vec<Vec<u32>>,
    /// Partitions that were looked at to find others.
    #[cfg(test)]
    looked_at: std::sync::atomic::AtomicUsize,
}

impl PartitionMap {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn get(&self, place: u32) -> &Partition {
        let (chunk, number) = position(place);
        &self.chunks[chunk][number]
    }

    pub fn get_mut(&mut self, place: u32) -> &mut Partition {
        let (chunk, number) = position(place);
        &mut self.chunks[chunk][number]
    }

    /// The partition with this key.
    #[inline]
    pub fn find(&self, token: Token, key: &[u8]) -> Option<u32> {
        let first = self.first(self.hash(token), token)?;
        if self.is_key(first, key) { Some(first) } else { self.find_same(token, key).ok() }
    }

    /// The partition of this token that came first.
    #[inline]
    fn first(&self, hash: u32, token: Token) -> Option<u32> {
        let is_it = |one: &HashedPlace| {
            #[cfg(test)]
            self.count_look();
            one.hash == hash && self.get(one.place).token == token
        };
        self.tables[table_of(hash)].find(spread(hash), is_it).map(|one| one.place)
    }

    #[inline]
    fn is_key(&self, place: u32, key: &[u8]) -> bool {
        *self.get(place).key == *key
    }

    /// The partition with this key among those of its token, or its number among them if it is not
    /// there.
    #[cold]
    fn find_same(&self, token: Token, key: &[u8]) -> Result<u32, usize> {
        let same = self.by_token.get(&token).map_or(&[][..], |same| self.of(same));
        let found = same.binary_search_by(|place| {
            #[cfg(test)]
            self.count_look();
            (*self.get(*place).key).cmp(key)
        });
        found.map(|number| same[number])
    }

    /// The partition with this key, which is made if there is none, and how many bytes of memory
    /// that took.
    ///
    /// # Panics
    ///
    /// If there are more than 2^32 partitions.
    #[inline]
    pub fn find_or_insert(&mut self, token: Token, key: &[u8]) -> (u32, usize) {
        let hash = self.hash(token);
        match self.first(hash, token) {
            Some(first) if self.is_key(first, key) => (first, 0),
            Some(_) => match self.find_same(token, key) {
                Ok(place) => (place, 0),
                Err(number) => {
                    let place = self.push(token, key);
                    self.put_beside(token, number, place.0);
                    place
                }
            },
            None => {
                let pushed = self.push(token, key);
                let one = HashedPlace { hash, place: pushed.0 };
                let hash_of = |one: &HashedPlace| spread(one.hash);
                self.tables[table_of(hash)].insert_unique(spread(hash), one, hash_of);
                self.by_token.insert(token, SameToken::One(pushed.0));
                pushed
            }
        }
    }

    /// Appends a partition; gives its place, and the bytes of memory that it takes.
    fn push(&mut self, token: Token, key: &[u8]) -> (u32, usize) {
        let place = self.count;
        self.count = place.checked_add(1).expect("memory ends before that");
        let (chunk, _) = position(place);
        if chunk == self.chunks.len() {
            // The first grows: most memtables of most tables have few partitions.
            let count = if chunk == 0 { 0 } else { CHUNK_PARTITIONS as usize };
            self.chunks.push(Vec::with_capacity(count));
        }
        let (key, rows) = (SmallVec::from_slice(key), Rows::default());
        let long_bytes = if key.spilled() { key.len() } else { 0 };
        self.chunks[chunk].push(Partition { token, key, deletion: None, ranges: None, rows });
        (place, PARTITION_BYTES + long_bytes)
    }

    /// Puts a partition among those of its token, with this number in their order.
    #[cold]
    fn put_beside(&mut self, token: Token, number: usize, place: u32) {
        let Self { by_token, same, .. } = self;
        let one = by_token.entry(token).or_insert(SameToken::One(place));
        if let SameToken::One(first) = *one {
            *one = SameToken::More(u32::try_from(same.len()).expect("there are fewer than places"));
            same.push(vec![first]);
        }
        if let SameToken::More(list) = *one {
            same[list as usize].insert(number, place);
        }
    }

    /// The partitions from this token and key on, ascending.
    pub fn from<'a>(
        &'a self,
        token: Token,
        key: &[u8],
    ) -> impl Iterator<Item = &'a Partition> + use<'a> {
        let of_token = self.by_token.get(&token).map_or(&[][..], |same| self.of(same));
        let first = of_token.partition_point(|place| *self.get(*place).key < *key);
        let behind = self.by_token.range((Bound::Excluded(token), Bound::Unbounded));
        let behind = behind.flat_map(|(_, same)| self.of(same));
        of_token[first..].iter().chain(behind).map(|place| self.get(*place))
    }

    /// The partitions of one token.
    fn of<'a>(&'a self, same: &'a SameToken) -> &'a [u32] {
        match same {
            SameToken::One(place) => slice::from_ref(place),
            SameToken::More(number) => &self.same[*number as usize],
        }
    }

    /// Gives the memory of one partition back, or a piece of it. False if none is left.
    pub fn free_some(&mut self) -> bool {
        let last = self.chunks.last_mut();
        if let Some(ranges) = last.and_then(|last| last.last_mut()?.ranges.as_mut())
            && ranges.pop()
        {
            return true;
        }
        self.chunks.pop_if(|last| last.pop().is_none()).is_some()
            || !self.chunks.is_empty()
            || self.by_token.pop_last().is_some()
            || self.same.pop().is_some()
    }

    #[cfg(test)]
    fn count_look(&self) {
        self.looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    #[inline]
    fn hash(&self, token: Token) -> u32 {
        u32::try_from(self.hasher.hash_one(token.0) >> 32).expect("half of it is left")
    }
}

fn position(place: u32) -> (usize, usize) {
    ((place / CHUNK_PARTITIONS) as usize, (place % CHUNK_PARTITIONS) as usize)
}

/// A table takes the place from the lowest bits and tells hashes apart by the highest seven: these
/// are some between.
fn table_of(hash: u32) -> usize {
    (hash >> 20) as usize % TABLES
}

fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Random;

    const COUNT: u32 = 20_000;

    fn map_of(partitions: impl Iterator<Item = (i64, Vec<u8>)>) -> PartitionMap {
        let mut map = PartitionMap::default();
        for (token, key) in partitions {
            map.find_or_insert(Token(token), &key);
        }
        map
    }

    /// How many partitions it looks at to find each of these once.
    fn looks(map: &PartitionMap, partitions: impl Iterator<Item = (i64, Vec<u8>)>) -> usize {
        map.looked_at.store(0, std::sync::atomic::Ordering::Relaxed);
        for (token, key) in partitions {
            let place = map.find(Token(token), &key).expect("it was put there");
            assert_eq!(*map.get(place).key, *key);
        }
        map.looked_at.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[test]
    fn finds_what_was_put_there_and_has_it_in_order() {
        let mut random = Random(7);
        let mut map = PartitionMap::default();
        let mut expected = BTreeMap::new();
        for _ in 0..COUNT {
            // Some share a token; some keys are longer than a partition has room for.
            let number = random.below(3_000);
            let token = Token(i64::try_from(number / 3).unwrap() - 500);
            let key = vec![u8::try_from(number % 3).unwrap(); if number < 400 { 40 } else { 5 }];
            let (place, bytes) = map.find_or_insert(token, &key);
            let is_new = !expected.contains_key(&(token, key.clone()));
            assert_eq!(bytes > 0, is_new, "{number}");
            assert_eq!(*expected.entry((token, key)).or_insert(place), place);
        }
        for ((token, key), place) in &expected {
            assert_eq!(map.find(*token, key), Some(*place));
            assert_eq!(map.find(*token, b"absent"), None);
        }
        for _ in 0..200 {
            let token = Token(i64::try_from(random.below(1_010)).unwrap() - 505);
            let key = vec![u8::try_from(random.below(4)).unwrap(); 5];
            let found = map.from(token, &key).map(|one| (one.token, one.key.to_vec()));
            let behind = expected.range((token, key.clone())..).map(|(place, _)| place.clone());
            assert!(found.eq(behind), "from {token:?} {key:?}");
        }
        while map.free_some() {}
        assert!(map.from(Token(i64::MIN), &[]).next().is_none());
    }

    #[test]
    fn more_partitions_move_none_but_those_of_the_first_piece_while_it_grows() {
        let mut map = PartitionMap::default();
        let mut places = Vec::new();
        for number in 0..i64::from(COUNT) {
            let (place, _) = map.find_or_insert(Token(number), b"key");
            places.push(std::ptr::from_ref(map.get(place)));
        }
        let first = CHUNK_PARTITIONS as usize;
        for (place, before) in (0..COUNT).zip(&places).skip(first) {
            assert!(std::ptr::eq(map.get(place), *before), "{place}");
        }
        assert!(places.len() > 4 * first);
    }

    #[test]
    fn keys_that_were_made_to_have_one_token_are_found_by_halving() {
        let all = || (0..COUNT).map(|number| (5, number.to_be_bytes().to_vec()));
        let map = map_of(all());
        let most = COUNT * (COUNT.ilog2() + 4);
        let looks = looks(&map, all());
        assert!(looks <= most as usize, "{looks} looks");
    }

    #[test]
    fn tokens_that_were_made_to_be_alike_are_found_at_once() {
        let alike = [0, 7, 24, 32, 40, 48];
        for shift in alike {
            let all = || (0..COUNT).map(|number| (i64::from(number) << shift, vec![1]));
            let map = map_of(all());
            let looks = looks(&map, all());
            assert!(looks < 2 * COUNT as usize, "{looks} looks, tokens in steps of 2^{shift}");
            let largest = map.tables.iter().map(HashTable::len).max().unwrap();
            assert!(largest < 2 * COUNT as usize / TABLES, "{largest} in one table");
        }
    }
}
