//! How the rows of a block are stored: compressed, if that is worth it, and with their checksum.

use std::io;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::{BLOCK_HEADER_BYTES, SstableId, block::invalid, checksum, joined_lz4::JoinedLz4};
use crate::mutation::Input;

/// A larger block is not believed, however its checksum. Many writes make one row as large as a
/// memtable may get, and a row is never divided: only what a length can say is the limit.
const RAW_BYTES_MAX: usize = u32::MAX as usize;

/// A block is compressed if that saves such a part of it: less is not worth the time that each read
/// of it would take longer.
const SAVED_PART_MIN: usize = 16;

/// Where the last block did not get smaller, such a part of the next one is tried first, but not
/// less than these bytes: a smaller sample tells nothing.
const SAMPLE_PART: usize = 8;
const SAMPLE_BYTES_MIN: usize = 2 << 10;

/// After so many bytes in a row that did not get smaller, of which a sample of each block was
/// tried, one is tried of so many more.
const SAMPLED_BYTES: usize = 256 << 10;
const SAMPLE_EVERY_BYTES: usize = 128 << 10;

/// After so many bytes a block is tried as a whole, whatever its sample is like.
const WHOLE_EVERY_BYTES: usize = 1 << 20;

/// Such a part of the memory of a block may be left from another one.
const UNUSED_PART: usize = 8;

/// Memory for a larger block is not kept.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What compresses blocks, one after the other.
pub(super) struct Compressor {
    /// A longer block is compressed in pieces of so many bytes.
    piece_bytes: usize,
    table: CompressTable,
    /// For what comes out of it.
    room: Vec<u8>,
    trial: Trial,
    /// Bytes of blocks in a row that did not get smaller.
    plain_bytes: usize,
    /// How many of them came before the last sample, and before the last block that was tried as a
    /// whole.
    sampled_at: usize,
    tried_at: usize,
    #[cfg(test)]
    tried_bytes: usize,
}

/// How far the block at hand is.
enum Trial {
    NotBegun,
    Joining(JoinedLz4),
    /// How long it is in `room`, if that is worth it.
    Done(Option<usize>),
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// Compresses blocks that are longer than this in pieces of so many bytes.
    pub fn new(piece_bytes: usize) -> Self {
        Self {
            piece_bytes: piece_bytes.max(1),
            table: CompressTable::default(),
            room: Vec::new(),
            trial: Trial::NotBegun,
            plain_bytes: 0,
            sampled_at: 0,
            tried_at: 0,
            #[cfg(test)]
            tried_bytes: 0,
        }
    }

    /// Whether a block of so many bytes is compressed in pieces.
    pub fn is_long(&self, raw_bytes: usize) -> bool {
        raw_bytes > self.piece_bytes
    }

    /// The compressed bytes of a block; `None` if it is to be stored as it is.
    ///
    /// Where one block does not get smaller, the next hardly will: then only a sample of it is
    /// tried, so that data which cannot be compressed costs little and what can be is noticed.
    fn compressed(&mut self, raw: &[u8]) -> Option<&[u8]> {
        while !self.is_done() {
            self.go_on(raw);
        }
        let Trial::Done(stored) = std::mem::replace(&mut self.trial, Trial::NotBegun) else {
            return None;
        };
        match stored {
            Some(_) => (self.plain_bytes, self.sampled_at, self.tried_at) = (0, 0, 0),
            None => self.plain_bytes = self.plain_bytes.saturating_add(raw.len()),
        }
        self.room.get(..stored?)
    }

    /// Whether the block at hand is as small as it gets.
    pub fn is_done(&self) -> bool {
        matches!(self.trial, Trial::Done(_))
    }

    /// Goes on with a block, which stays the same until it is packed: by one piece, if it is long.
    pub fn go_on(&mut self, raw: &[u8]) {
        self.trial = match std::mem::replace(&mut self.trial, Trial::NotBegun) {
            Trial::NotBegun if !self.is_likely(raw) => Trial::Done(None),
            Trial::NotBegun if self.is_long(raw.len()) => {
                Trial::Joining(JoinedLz4::behind(Vec::with_capacity(raw.len())))
            }
            Trial::NotBegun => Trial::Done(self.try_compress(raw)),
            Trial::Joining(joined) => self.join(joined, raw),
            done @ Trial::Done(_) => done,
        };
    }

    /// Whether it is worth trying to compress a block.
    fn is_likely(&mut self, raw: &[u8]) -> bool {
        let plain = self.plain_bytes;
        let is_sampled = plain <= SAMPLED_BYTES || plain - self.sampled_at >= SAMPLE_EVERY_BYTES;
        let is_tried = plain == 0 || plain - self.tried_at >= WHOLE_EVERY_BYTES;
        if is_tried {
            self.tried_at = plain;
        } else if is_sampled {
            self.sampled_at = plain;
        }
        is_tried || (is_sampled && self.try_compress(sample(raw, self.piece_bytes)).is_some())
    }

    /// Compresses one more piece of a block.
    fn join(&mut self, mut joined: JoinedLz4, raw: &[u8]) -> Trial {
        let rest = raw.get(joined.end()..).unwrap_or_default();
        let piece = rest.get(..self.piece_bytes).unwrap_or(rest);
        let bytes = self.compress(piece);
        let compressed = bytes.and_then(|bytes| self.room.get(..bytes)).unwrap_or_default();
        joined.join(raw, piece.len(), compressed).expect("it was compressed here");
        if !is_worth_it(raw.len(), joined.bytes()) {
            return Trial::Done(None);
        }
        if joined.end() < raw.len() {
            return Trial::Joining(joined);
        }
        self.room = joined.finish(raw);
        let stored = self.room.len();
        Trial::Done(is_worth_it(raw.len(), stored).then_some(stored))
    }

    /// Compresses into `room`. Gives how long it is, if that is worth it.
    fn try_compress(&mut self, raw: &[u8]) -> Option<usize> {
        self.compress(raw).filter(|stored| is_worth_it(raw.len(), *stored))
    }

    fn compress(&mut self, raw: &[u8]) -> Option<usize> {
        #[cfg(test)]
        {
            self.tried_bytes += raw.len();
        }
        let bytes_max = get_maximum_output_size(raw.len());
        if self.room.len() < bytes_max || self.room.len() > bytes_max.max(KEPT_BYTES_MAX) {
            self.room = vec![0; bytes_max];
        }
        compress_into_with_table(raw, &mut self.room, &mut self.table).ok()
    }
}

fn is_worth_it(raw_bytes: usize, stored_bytes: usize) -> bool {
    stored_bytes < raw_bytes - raw_bytes / SAVED_PART_MIN
}

/// So many bytes at most of the middle of a block: it begins with the key of a partition, which is
/// not like the rest.
fn sample(raw: &[u8], bytes_max: usize) -> &[u8] {
    let bytes = (raw.len() / SAMPLE_PART).min(bytes_max).max(SAMPLE_BYTES_MIN).min(raw.len());
    raw.get((raw.len() - bytes) / 2..).and_then(|rest| rest.get(..bytes)).unwrap_or(raw)
}

/// Appends rows as a block that will be at this place of this file. Gives its length.
pub(super) fn pack(
    id: SstableId,
    offset: u64,
    raw: &[u8],
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) -> u32 {
    let start = out.len();
    let body = compressor.compressed(raw).unwrap_or(raw);
    let lengths = [raw.len(), body.len()]
        .map(|length| u32::try_from(length).expect("a block is a few rows").to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(lengths.as_flattened());
    out.extend_from_slice(body);
    let sum = checksum(id, offset, out.get(start + 4..).unwrap_or_default());
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    u32::try_from(out.len() - start).expect("a block is a few rows")
}

/// Reads the rows of a block that is stored at this place of this file. What `out` held goes.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the bytes are not what was written there.
pub(super) fn unpack(
    id: SstableId,
    offset: u64,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let mut input = Input(stored);
    let header = (|| Some((input.u32()?, input.u32()? as usize, input.u32()? as usize)))();
    let (sum, raw_bytes, stored_bytes) = header.ok_or_else(|| invalid("a block is cut short"))?;
    let found = checksum(id, offset, stored.get(4..).unwrap_or_default());
    if found != sum {
        return Err(invalid(format!("checksum of a block is {found:08x}, expected {sum:08x}")));
    }
    if stored.len() != BLOCK_HEADER_BYTES + stored_bytes || raw_bytes > RAW_BYTES_MAX {
        return Err(invalid("the lengths of a block disagree"));
    }
    // In the memory of a much larger one the rest would be held and not used.
    let is_fitting = (raw_bytes..=raw_bytes + raw_bytes / UNUSED_PART).contains(&out.capacity());
    if stored_bytes == raw_bytes {
        if !is_fitting {
            *out = Vec::with_capacity(raw_bytes);
        }
        out.clear();
        out.extend_from_slice(input.0);
        return Ok(());
    }
    if !is_fitting {
        *out = vec![0; raw_bytes];
    }
    out.resize(raw_bytes, 0);
    let bytes = lz4_flex::block::decompress_into(input.0, out);
    let bytes = bytes.map_err(|error| invalid(error.to_string()))?;
    out.truncate(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Compressor, SstableId, pack, unpack};
    use crate::io::Random;

    const ID: SstableId = SstableId { epoch: 1, shard: 0, sequence: 0 };
    const BLOCK_BYTES: usize = 32 << 10;

    fn noise(random: &mut Random) -> Vec<u8> {
        (0..BLOCK_BYTES).map(|_| random.below(256).to_le_bytes()[0]).collect()
    }

    fn text(random: &mut Random) -> Vec<u8> {
        let words = [b"boiler ", b"valve 1", b"closed ", b"is warm"];
        (0..BLOCK_BYTES / 7).flat_map(|_| *random.one_of(&words)).collect()
    }

    /// Whether each of these blocks gets smaller; and how many bytes were tried.
    fn packed(compressor: &mut Compressor, blocks: &[Vec<u8>]) -> (Vec<bool>, usize) {
        let before = compressor.tried_bytes;
        let is_small = blocks.iter().map(|raw| {
            let (mut out, mut back) = (Vec::new(), vec![3; 5]);
            let bytes = pack(ID, 8, raw, compressor, &mut out);
            assert_eq!(bytes as usize, out.len());
            unpack(ID, 8, &out, &mut back).unwrap();
            assert!(back == *raw, "it comes back");
            out.len() < raw.len()
        });
        (is_small.collect(), compressor.tried_bytes - before)
    }

    #[test]
    fn a_small_block_does_not_hold_the_memory_of_a_large_one() {
        let mut random = Random(3);
        let mut compressor = Compressor::new(BLOCK_BYTES);
        for raw in [text(&mut random), noise(&mut random)] {
            let raw = &raw[..8 << 10];
            let mut stored = Vec::new();
            pack(ID, 8, raw, &mut compressor, &mut stored);
            for capacity in [0, raw.len() - 1, raw.len(), raw.len() * 9 / 8, BLOCK_BYTES] {
                let mut out = vec![7; capacity];
                let before = out.as_ptr();
                unpack(ID, 8, &stored, &mut out).unwrap();
                assert!(out == raw, "it comes back");
                let is_fitting = (raw.len()..=raw.len() * 9 / 8).contains(&capacity);
                assert_eq!(out.as_ptr() == before, is_fitting, "{capacity}");
                assert!(out.capacity() <= raw.len() * 9 / 8, "{capacity}");
            }
        }
    }

    #[test]
    fn what_does_not_get_smaller_is_hardly_tried_and_what_does_is_noticed() {
        let mut random = Random(1);
        let mut compressor = Compressor::new(BLOCK_BYTES);
        let blocks = |of: fn(&mut Random) -> Vec<u8>, random: &mut Random| -> Vec<_> {
            (0..65).map(|_| of(random)).collect()
        };
        let (noise, text) = (blocks(noise, &mut random), blocks(text, &mut random));
        let (small, tried) = packed(&mut compressor, &noise);
        assert!(small.iter().all(|is_small| !is_small));
        assert!(tried < 64 * BLOCK_BYTES / 8, "{tried} bytes");
        let (small, _) = packed(&mut compressor, &text);
        assert!(small[3..].iter().all(|is_small| *is_small), "all but the first few");
        let by_turns: Vec<_> = noise.into_iter().zip(text).flat_map(|(a, b)| [a, b]).collect();
        let (small, _) = packed(&mut compressor, &by_turns);
        assert!(small.chunks(2).all(|pair| pair == [false, true]));
    }

    #[test]
    fn small_blocks_are_tried_no_more_than_as_many_bytes_in_large_ones() {
        let mut random = Random(4);
        let mut compressor = Compressor::new(BLOCK_BYTES);
        let blocks = |of: fn(&mut Random) -> Vec<u8>, random: &mut Random| -> Vec<_> {
            let large = (0..65).map(|_| of(random));
            large
                .flat_map(|raw| raw.chunks(4 << 10).map(<[u8]>::to_vec).collect::<Vec<_>>())
                .collect()
        };
        let (small, tried) = packed(&mut compressor, &blocks(noise, &mut random));
        assert!(small.iter().all(|is_small| !is_small));
        assert!(tried < 64 * BLOCK_BYTES / 8, "{tried} bytes");
        let (small, _) = packed(&mut compressor, &blocks(text, &mut random));
        assert!(small[32..].iter().all(|is_small| *is_small), "all but the first few");
    }

    /// Whose repetitions are too far apart to be in a sample.
    #[test]
    fn what_a_sample_does_not_show_is_found_a_little_later() {
        let mut random = Random(2);
        let mut compressor = Compressor::new(BLOCK_BYTES);
        assert_eq!(packed(&mut compressor, &[noise(&mut random)]).0, [false]);
        let half = &noise(&mut random)[..BLOCK_BYTES / 2];
        let (small, _) = packed(&mut compressor, &vec![[half, half].concat(); 60]);
        assert!(small.iter().filter(|is_small| **is_small).count() > 20, "{small:?}");
    }
}
