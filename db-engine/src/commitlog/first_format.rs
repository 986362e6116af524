//! The first format of the log, which is only read: what earlier engines left.
//!
//! ```text
//! segment := block* zeros          blocks begin at multiples of 4096 bytes
//! block   := length u32            bytes of all entries, at least 1
//!            checksum u32          CRC-32 (IEEE) of length, of the rest of the header, of entries
//!            epoch u32 | shard u16 | format u16 = 1 | segment u32 | 0 u32 | sequence u64
//!            entry*
//!            zeros                 up to the next multiple of 4096
//! ```
//!
//! A crash can tear only the last block: the next one is written when it is on the device. So a
//! block that cannot be read is the end of the log, unless a whole block with a higher sequence
//! number follows it in this or a later segment.

use super::SegmentId;
use crate::{
    error::{Error, Result},
    io::ALIGNMENT,
};

const HEADER_BYTES: usize = 32;
const FORMAT: u16 = 1;

/// Bytes of every segment.
const SEGMENT_BYTES: usize = 16 << 20;

/// Follows the blocks of one shard's run through its segments.
#[derive(Debug)]
pub struct FirstReplay {
    epoch: u32,
    shard: u16,
    next_segment: u32,
    /// The sequence number that must come next; `None` before the first block if that is not known.
    next_sequence: Option<u64>,
    /// Where the log ended: nothing may come after it.
    end: Option<(SegmentId, usize)>,
}

impl FirstReplay {
    /// Begins with the segment that has this number; what came before it was released.
    #[must_use]
    pub fn new(epoch: u32, shard: u16, first_segment: u32) -> Self {
        let next_sequence = (first_segment == 0).then_some(1);
        Self { epoch, shard, next_segment: first_segment, next_sequence, end: None }
    }

    /// Gives each block of the next segment, by its sequence number and payload, to `apply`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a block is missing that was once durable, or what `apply` returns.
    pub fn segment(
        &mut self,
        number: u32,
        bytes: &[u8],
        mut apply: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let id = SegmentId { epoch: self.epoch, shard: self.shard, number };
        if number != self.next_segment && self.end.is_none() {
            self.end = Some((SegmentId { number: self.next_segment, ..id }, 0));
        }
        self.next_segment = number + 1;
        let mut at = 0;
        while self.end.is_none() && at < bytes.len() {
            match parse_block(&bytes[at..], id) {
                SegmentPart::Block { sequence, payload, bytes } if self.follows(sequence) => {
                    apply(sequence, payload)?;
                    self.next_sequence = Some(sequence + 1);
                    at += bytes;
                }
                // The rest of a segment is zeros, too, if the next block did not fit into it.
                SegmentPart::Zeros => break,
                SegmentPart::Block { .. } | SegmentPart::Torn => self.end = Some((id, at)),
                SegmentPart::Foreign => {
                    let what = "these bytes are no block of this segment of the commit log, nor \
                                what a crash leaves. Restore this directory from a backup";
                    return Err(Error::corrupt(id.name(), at as u64, what));
                }
            }
        }
        // A segment was filled with zeros, and synced, before it was used.
        if bytes.len() != SEGMENT_BYTES && bytes.iter().any(|byte| *byte != 0) {
            let what = format!(
                "this segment of the commit log had {SEGMENT_BYTES} bytes and has {}; what it held \
                 was acknowledged. Restore this directory from a backup",
                bytes.len()
            );
            return Err(Error::corrupt(id.name(), bytes.len() as u64, what));
        }
        self.refuse_blocks_after(id, at, bytes)
    }

    fn follows(&self, sequence: u64) -> bool {
        self.next_sequence.is_none_or(|next| next == sequence)
    }

    /// Nothing that was written after the place where reading stopped may be whole.
    fn refuse_blocks_after(&self, id: SegmentId, stop: usize, bytes: &[u8]) -> Result<()> {
        for at in (stop..bytes.len()).step_by(ALIGNMENT) {
            let SegmentPart::Block { sequence, .. } = parse_block(&bytes[at..], id) else {
                continue;
            };
            let (end, offset) = self.end.unwrap_or((id, stop));
            let what = format!(
                "a block of the commit log cannot be read, but block {sequence} at byte {at} of {} \
                 was written after it; what it held was acknowledged. Restore this directory from \
                 a backup",
                id.name()
            );
            return Err(Error::corrupt(end.name(), offset as u64, what));
        }
        Ok(())
    }
}

/// What stands at some place of a segment.
enum SegmentPart<'a> {
    /// A whole block.
    Block {
        /// Its sequence number.
        sequence: u64,
        /// Its entries.
        payload: &'a [u8],
        /// Bytes up to the next block.
        bytes: usize,
    },
    /// Nothing was written here.
    Zeros,
    /// A block was cut short, or its bytes changed.
    Torn,
    /// It begins with something else than a block of this segment.
    Foreign,
}

/// Reads the block of this segment at the beginning of `bytes`.
fn parse_block(bytes: &[u8], segment: SegmentId) -> SegmentPart<'_> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return SegmentPart::Torn;
    };
    if *header == [0; HEADER_BYTES] {
        return SegmentPart::Zeros;
    }
    let mut expected = [0; 16];
    expected[..4].copy_from_slice(&segment.epoch.to_le_bytes());
    expected[4..6].copy_from_slice(&segment.shard.to_le_bytes());
    expected[6..8].copy_from_slice(&FORMAT.to_le_bytes());
    expected[8..12].copy_from_slice(&segment.number.to_le_bytes());
    if header[8..24] != expected {
        return SegmentPart::Foreign;
    }
    let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
    let length = u32_at(0) as usize;
    let whole = HEADER_BYTES.checked_add(length).and_then(|end| bytes.get(..end));
    let Some(block) = whole.filter(|block| length > 0 && checksum(block) == u32_at(4)) else {
        return SegmentPart::Torn;
    };
    let sequence = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte| header[24 + byte]));
    let bytes = block.len().next_multiple_of(ALIGNMENT);
    SegmentPart::Block { sequence, payload: &block[HEADER_BYTES..], bytes }
}

fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..4]);
    hasher.update(&block[8..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commitlog::{entries, sector::write_sectors},
        io::SECTOR_BYTES,
    };

    const ID: SegmentId = SegmentId { epoch: 3, shard: 1, number: 0 };

    /// A block of the first format, as an earlier engine wrote it.
    fn block(sequence: u64, mutations: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 32];
        block[8..12].copy_from_slice(&ID.epoch.to_le_bytes());
        block[12..14].copy_from_slice(&ID.shard.to_le_bytes());
        block[14..16].copy_from_slice(&1_u16.to_le_bytes());
        block[24..32].copy_from_slice(&sequence.to_le_bytes());
        block.push(1);
        block.extend_from_slice(&u32::try_from(mutations.len()).unwrap().to_le_bytes());
        block.extend_from_slice(mutations);
        let length = u32::try_from(block.len() - 32).unwrap();
        block[..4].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32fast::hash(&[&block[..4], &block[8..]].concat());
        block[4..8].copy_from_slice(&checksum.to_le_bytes());
        block.resize(block.len().next_multiple_of(ALIGNMENT), 0);
        block
    }

    fn replayed(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        FirstReplay::new(ID.epoch, ID.shard, 0).segment(0, bytes, |_, payload| {
            found.extend(entries(payload).map(|entry| entry.mutations.to_vec()));
            Ok(())
        })?;
        Ok(found)
    }

    fn refused(bytes: &[u8]) {
        assert!(matches!(replayed(bytes), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn the_first_format_is_read_as_before() {
        let writes: [&[u8]; 3] = [b"one", &[7; 9000], b"three"];
        let mut whole = Vec::new();
        for (sequence, write) in (1..).zip(writes) {
            whole.extend(block(sequence, write));
        }
        whole.resize(SEGMENT_BYTES, 0);
        assert_eq!(replayed(&whole).unwrap(), writes.map(<[u8]>::to_vec));
        let torn = |sector: usize| {
            let mut bytes = whole.clone();
            bytes[ALIGNMENT + sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
            bytes
        };
        refused(&torn(0));
        refused(&torn(17));
        let mut ended = whole.clone();
        ended[4 * ALIGNMENT..5 * ALIGNMENT].fill(0);
        assert_eq!(replayed(&ended).unwrap().len(), 2);
        for sector in 0..18 {
            let mut bytes = ended.clone();
            bytes[ALIGNMENT + sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
            assert_eq!(replayed(&bytes).unwrap(), [b"one"], "sector {sector}");
        }
        refused(&whole[..8 << 20]);
        refused(&whole[..100]);
        assert_eq!(replayed(&[]).unwrap().len(), 0, "it was being made");
        let mut second_format = vec![0; SEGMENT_BYTES];
        write_sectors(&mut second_format[..SECTOR_BYTES], ID, 1, b"an entry");
        refused(&second_format);
    }
}
