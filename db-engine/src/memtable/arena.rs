//! Memory for rows: chunks that are filled one after the other and used again by the next memtable.
//!
//! A row costs no allocation of its own, and a flush gives everything back at once. Chunks are kept
//! and not returned to the operating system: the first touch of a fresh page costs more than all
//! else that a write does in memory.

use std::hint::black_box;

use crate::io::{TimeSlice, touch};

/// Bytes of a chunk. Small enough that a table with few rows wastes little.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// What is larger gets a chunk of its own, so that little is left over at the end of a chunk.
const LARGE_BYTES: usize = CHUNK_BYTES / 4;

/// Bytes that a core fetches at once.
const CACHE_LINE_BYTES: usize = 64;

/// Bytes of a record before its clustering key: the room for the row, the length of the row and the
/// length of the clustering key, each a u32.
pub(super) const HEADER_BYTES: usize = 12;

/// Chunks that no memtable uses.
#[derive(Debug)]
pub struct Pool {
    spare: Vec<Box<[u8]>>,
    spare_max: usize,
    /// For a large record that is to come.
    room: Vec<u8>,
}

impl Pool {
    /// A pool that keeps at most this many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { spare: Vec::new(), spare_max: bytes_max / CHUNK_BYTES, room: Vec::new() }
    }

    /// Bytes of chunks that no memtable uses.
    #[must_use]
    pub fn spare_bytes(&self) -> usize {
        self.spare.len() * CHUNK_BYTES
    }

    /// Gives chunks back to the operating system until at most this many bytes are left.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.spare.truncate(bytes / CHUNK_BYTES);
    }

    /// Touches the memory of a chunk of so many bytes; returns whether that is done.
    pub(super) fn make_room(&mut self, bytes: usize, time: &mut TimeSlice<'_>) -> bool {
        if self.room.len() > bytes {
            self.room = Vec::new();
        }
        touch(&mut self.room, bytes, time)
    }

    /// A chunk of so many bytes.
    fn take_large(&mut self, bytes: usize) -> Box<[u8]> {
        let room = std::mem::take(&mut self.room);
        if room.len() == bytes { room } else { vec![0; bytes] }.into_boxed_slice()
    }

    fn take(&mut self) -> Box<[u8]> {
        self.spare.pop().unwrap_or_else(|| vec![0; CHUNK_BYTES].into_boxed_slice())
    }

    /// Takes back the memory of an arena that is not needed any more.
    pub(super) fn put(&mut self, arena: Arena) {
        let chunks = arena.chunks.into_iter().filter(|chunk| chunk.len() == CHUNK_BYTES);
        let room = self.spare_max.saturating_sub(self.spare.len());
        self.spare.extend(chunks.take(room));
    }
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordOffset {
    chunk: u32,
    start: u32,
}

/// What came of putting a row in the place of another.
pub(super) struct Replaced {
    /// Where the record is now.
    pub place: RecordOffset,
    /// Bytes that the arena has grown by.
    pub more_bytes: usize,
}

/// The records of one memtable: rows with their clustering keys.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Box<[u8]>>,
    /// The chunk that is being filled, and how far it is.
    open: Option<(usize, usize)>,
}

impl Arena {
    /// Bytes that a record takes.
    pub fn record_bytes(ck: &[u8], row: &[u8]) -> usize {
        HEADER_BYTES + ck.len() + row.len()
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, ck: &[u8], row: &[u8], pool: &mut Pool) -> RecordOffset {
        self.push_with_room(ck, row, row.len(), pool)
    }

    #[inline]
    fn push_with_room(
        &mut self,
        ck: &[u8],
        row: &[u8],
        room: usize,
        pool: &mut Pool,
    ) -> RecordOffset {
        let bytes = HEADER_BYTES + ck.len() + room;
        let (chunk, start) = self.reserve(bytes, pool);
        self.put(chunk, start, ck, row, room);
        RecordOffset { chunk: length_u32(chunk), start: length_u32(start) }
    }

    #[inline]
    fn put(&mut self, chunk: usize, start: usize, ck: &[u8], row: &[u8], room: usize) {
        let record = &mut self.chunks[chunk][start..];
        record[..4].copy_from_slice(&length_u32(room).to_le_bytes());
        record[4..8].copy_from_slice(&length_u32(row.len()).to_le_bytes());
        record[8..HEADER_BYTES].copy_from_slice(&length_u32(ck.len()).to_le_bytes());
        record[HEADER_BYTES..HEADER_BYTES + ck.len()].copy_from_slice(ck);
        record[HEADER_BYTES + ck.len()..][..row.len()].copy_from_slice(row);
    }

    fn reserve(&mut self, bytes: usize, pool: &mut Pool) -> (usize, usize) {
        if let Some((chunk, used)) = &mut self.open
            && bytes <= CHUNK_BYTES - *used
        {
            let start = *used;
            *used += bytes;
            return (*chunk, start);
        }
        let chunk = self.chunks.len();
        if bytes > LARGE_BYTES {
            self.chunks.push(pool.take_large(bytes));
        } else {
            self.chunks.push(pool.take());
            self.open = Some((chunk, bytes));
        }
        (chunk, 0)
    }

    /// Puts another row in the place of a record's. If it has no room there it gets more than it
    /// needs, so that a small row that grows by little again and again is copied seldom.
    pub fn replace(&mut self, place: RecordOffset, row: &[u8], pool: &mut Pool) -> Replaced {
        let (chunk, start) = (place.chunk as usize, place.start as usize);
        let record = &mut self.chunks[chunk][start..];
        let room = u32::from_le_bytes(array(&record[..4])) as usize;
        let ck_length = u32::from_le_bytes(array(&record[8..HEADER_BYTES])) as usize;
        if row.len() <= room {
            record[4..8].copy_from_slice(&length_u32(row.len()).to_le_bytes());
            record[HEADER_BYTES + ck_length..][..row.len()].copy_from_slice(row);
            return Replaced { place, more_bytes: 0 };
        }
        let ck = record[HEADER_BYTES..HEADER_BYTES + ck_length].to_vec();
        if self.chunks[chunk].len() == HEADER_BYTES + ck_length + room {
            // The record is alone in its chunk: the old one goes at once.
            self.chunks[chunk] = Box::default();
            self.chunks[chunk] = vec![0; HEADER_BYTES + ck_length + row.len()].into_boxed_slice();
            self.put(chunk, start, &ck, row, row.len());
            return Replaced { place, more_bytes: row.len() - room };
        }
        // The old record stays until the flush, and counts until then.
        let roomy = row.len() + row.len() / 2;
        let place = self.push_with_room(&ck, row, roomy, pool);
        Replaced { place, more_bytes: HEADER_BYTES + ck_length + roomy }
    }

    /// Bytes of all chunks.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Has memory brought that begins with a record, and mostly has all of it.
    pub fn fetch(&self, place: RecordOffset) {
        let record = &self.chunks[place.chunk as usize][place.start as usize..];
        black_box((record[0], record[record.len().min(CACHE_LINE_BYTES) - 1]));
    }

    /// The clustering key of a record.
    pub fn ck(&self, place: RecordOffset) -> &[u8] {
        self.get(place).0
    }

    /// The clustering key and the row of a record.
    pub fn get(&self, place: RecordOffset) -> (&[u8], &[u8]) {
        let record = &self.chunks[place.chunk as usize][place.start as usize..];
        let row_length = u32::from_le_bytes(array(&record[4..8])) as usize;
        let ck_length = u32::from_le_bytes(array(&record[8..HEADER_BYTES])) as usize;
        let (ck, rest) = record[HEADER_BYTES..].split_at(ck_length);
        (ck, &rest[..row_length])
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice has that length")
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("memtables are smaller than that")
}
