//! A sector of the commit log: what a device writes as a whole or not at all, and what of it was
//! written when.
//!
//! ```text
//! sector := checksum u32           CRC-32 (IEEE) of epoch u32, shard u16, the rest of the sector
//!           segment u32            number of the segment in which it was written
//!           sequence u64           of its block; 0 in the block that begins a segment
//!           index u16              of the sector in its block, from 0
//!           sectors u16            how many sectors the block has
//!           bytes u32              of the block's entries, in all its sectors together
//!           bytes of entries, then zeros
//! ```
//!
//! Each sector proves alone where it belongs. So what a crash leaves, of which each sector is old
//! or new, differs from what damage leaves, of which some sector is neither.

use super::SegmentId;
use crate::io::SECTOR_BYTES;

/// Bytes of a sector before its part of the entries.
const HEADER_BYTES: usize = 24;

/// Bytes of entries in a full sector.
pub const SECTOR_PAYLOAD_BYTES: usize = SECTOR_BYTES - HEADER_BYTES;

/// Most sectors of a block.
pub const BLOCK_SECTORS_MAX: usize = u16::MAX as usize;

/// Which part of which block a sector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorId {
    /// The number of its block.
    pub sequence: u64,
    /// Its place in the block.
    pub index: u16,
    /// How many sectors the block has.
    pub sectors: u16,
    /// Bytes of the block's entries.
    pub bytes: u32,
}

/// What stands in a sector of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Sector<'a> {
    /// It was written in this segment: a part of a block, and what it holds of the entries.
    Written(SectorId, &'a [u8]),
    /// It was written when the file was an earlier segment, and not since.
    Old,
    /// It was never written.
    Zeros,
    /// None of these.
    Damaged,
}

/// The sectors of a block that is written.
pub struct SectorsOfBlock {
    number: u32,
    sequence: u64,
    sectors: u16,
    bytes: u32,
    hasher: crc32fast::Hasher,
    identity: [u8; 4],
}

impl SectorsOfBlock {
    /// Those of a block with so many of them, and so many bytes of entries.
    ///
    /// # Panics
    ///
    /// If there are more than [`BLOCK_SECTORS_MAX`] of them.
    pub fn new(segment: SegmentId, sequence: u64, sectors: usize, entry_bytes: usize) -> Self {
        let sectors = u16::try_from(sectors).expect("blocks are limited to less");
        let bytes = u32::try_from(entry_bytes).expect("blocks are limited to less");
        let (hasher, identity) = (crc32fast::Hasher::new(), bytes_with(identity_checksum(segment)));
        Self { number: segment.number, sequence, sectors, bytes, hasher, identity }
    }

    /// Writes sectors over all of `out`, whatever was in it: the one of this number and those after
    /// it, with what comes next of the entries.
    pub fn write<'a>(
        &self,
        out: &mut [u8],
        first: usize,
        entries: &mut Parts<'a, impl Iterator<Item = &'a [u8]>>,
    ) {
        for (index, sector) in (first..).zip(out.chunks_exact_mut(SECTOR_BYTES)) {
            let index = u16::try_from(index).expect("there are fewer");
            // A whole sector is checked sooner than all of it but four bytes.
            sector[..4].copy_from_slice(&self.identity);
            sector[4..8].copy_from_slice(&self.number.to_le_bytes());
            sector[8..16].copy_from_slice(&self.sequence.to_le_bytes());
            sector[16..18].copy_from_slice(&index.to_le_bytes());
            sector[18..20].copy_from_slice(&self.sectors.to_le_bytes());
            sector[20..24].copy_from_slice(&self.bytes.to_le_bytes());
            let filled = entries.fill(&mut sector[HEADER_BYTES..]);
            let padding = &mut sector[HEADER_BYTES + filled..];
            if !padding.is_empty() {
                padding.fill(0);
            }
        }
        // Reading at once what was just written would wait until it is in the cache.
        for sector in out.chunks_exact_mut(SECTOR_BYTES) {
            let mut hasher = self.hasher.clone();
            hasher.update(sector);
            sector[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
        }
    }
}

/// Writes all sectors of a block: `entries` over all of `out`, whatever was in it.
///
/// # Panics
///
/// If the entries do not fit into them, or as [`SectorsOfBlock::new`].
pub fn write_sectors(out: &mut [u8], segment: SegmentId, sequence: u64, entries: &[u8]) {
    let sectors = out.len() / SECTOR_BYTES;
    let mut parts = Parts::new(std::iter::once(entries));
    SectorsOfBlock::new(segment, sequence, sectors, entries.len()).write(out, 0, &mut parts);
    assert!(parts.is_empty(), "the entries fit");
}

/// Runs of bytes that are read one after the other.
pub struct Parts<'a, I> {
    rest: &'a [u8],
    more: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Parts<'a, I> {
    /// All of these.
    pub fn new(mut parts: I) -> Self {
        Self { rest: parts.next().unwrap_or_default(), more: parts }
    }

    /// Passes over so many bytes, or all that there are.
    pub fn skip(&mut self, mut bytes: usize) {
        while !self.is_empty() && bytes > 0 {
            let some = bytes.min(self.rest.len());
            (self.rest, bytes) = (&self.rest[some..], bytes - some);
        }
    }

    /// Copies the next bytes, as many as there are; returns how many.
    #[inline]
    fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() && !self.is_empty() {
            let some = (out.len() - filled).min(self.rest.len());
            let (next, rest) = self.rest.split_at(some);
            out[filled..filled + some].copy_from_slice(next);
            (self.rest, filled) = (rest, filled + some);
        }
        filled
    }

    /// Whether none are left.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        while self.rest.is_empty() {
            let Some(next) = self.more.next() else { return true };
            self.rest = next;
        }
        false
    }
}

/// Reads a sector of this segment.
#[must_use]
pub fn read_sector(sector: &[u8; SECTOR_BYTES], segment: SegmentId) -> Sector<'_> {
    if *sector == [0; SECTOR_BYTES] {
        return Sector::Zeros;
    }
    let u16_at = |at: usize| u16::from_le_bytes([0, 1].map(|byte| sector[at + byte]));
    let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| sector[at + byte]));
    let sequence = u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32;
    let (number, index, sectors, bytes) = (u32_at(4), u16_at(16), u16_at(18), u32_at(20));
    let mut hasher = crc32fast::Hasher::new_with_initial(identity_checksum(segment));
    hasher.update(&sector[4..]);
    let is_whole = hasher.finalize() == u32_at(0);
    if !is_whole || index >= sectors || number > segment.number {
        return Sector::Damaged;
    }
    if number < segment.number {
        return Sector::Old;
    }
    let before = usize::from(index) * SECTOR_PAYLOAD_BYTES;
    let part = (bytes as usize).saturating_sub(before).min(SECTOR_PAYLOAD_BYTES);
    let id = SectorId { sequence, index, sectors, bytes };
    Sector::Written(id, &sector[HEADER_BYTES..HEADER_BYTES + part])
}

/// How many bytes a block with so many bytes of entries takes, in blocks of the device.
#[must_use]
pub fn padded(entry_bytes: usize, block_bytes: usize) -> usize {
    let sectors = entry_bytes.div_ceil(SECTOR_PAYLOAD_BYTES).max(1);
    (sectors * SECTOR_BYTES).next_multiple_of(block_bytes)
}

/// What the checksums of all sectors of a log begin with.
fn identity_checksum(segment: SegmentId) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.epoch.to_le_bytes());
    hasher.update(&segment.shard.to_le_bytes());
    hasher.finalize()
}

/// The four bytes that have this CRC-32: whatever follows them, its checksum is as if it went on
/// from this one. They are found by going back through the 32 steps of the register.
fn bytes_with(checksum: u32) -> [u8; 4] {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let before = (0..32).fold(!checksum, |register, _| {
        let is_divided = register >> 31;
        ((register ^ (POLYNOMIAL * is_divided)) << 1) | is_divided
    });
    (!before).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SECTOR_BYTES, Sector, SegmentId, bytes_with, read_sector, write_sectors};

    proptest! {
        #[test]
        fn a_checksum_goes_on_from_its_bytes_as_from_itself(checksum: u32, rest: [u8; 32]) {
            let mut from_itself = crc32fast::Hasher::new_with_initial(checksum);
            from_itself.update(&rest);
            let bytes = bytes_with(checksum);
            prop_assert_eq!(crc32fast::hash(&bytes), checksum);
            let from_bytes = crc32fast::hash(&[&bytes[..], &rest].concat());
            prop_assert_eq!(from_bytes, from_itself.finalize());
        }

        #[test]
        fn a_sector_is_one_of_its_log_and_of_no_other(epoch: u32, shard: u16, other: u32) {
            let of = |epoch| SegmentId { epoch, shard, number: 7 };
            let mut sector = [9; SECTOR_BYTES];
            write_sectors(&mut sector, of(epoch), 3, b"entries");
            prop_assert!(matches!(read_sector(&sector, of(epoch)), Sector::Written(_, b"entries")));
            prop_assume!(other != epoch);
            prop_assert_eq!(read_sector(&sector, of(other)), Sector::Damaged);
        }
    }
}
