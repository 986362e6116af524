//! Reading the segments of one shard's run back.
//!
//! A crash can tear only the last block: the next one is written when it is on the device. So a
//! block that cannot be read is the end of the log, quietly, *unless* a whole block with a higher
//! sequence number follows it in this or a later segment. That is not what a crash leaves; data
//! that was acknowledged is damaged, and the log is refused.

use super::{BLOCK_ALIGNMENT, Parsed, SegmentId, parse_block};
use crate::error::{Error, Result};

/// Follows the blocks of one shard's run through its segments.
#[derive(Debug)]
pub struct Replay {
    epoch: u32,
    shard: u16,
    next_segment: u32,
    /// The sequence number that must come next; `None` before the first block if that is not known.
    next_sequence: Option<u64>,
    /// Where the log ended: nothing may come after it.
    end: Option<(SegmentId, u64)>,
}

impl Replay {
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
            let missing = SegmentId { number: self.next_segment, ..id };
            self.end = Some((missing, 0));
        }
        self.next_segment = number + 1;
        let mut at = 0;
        while self.end.is_none() && at < bytes.len() {
            match parse_block(&bytes[at..], id) {
                Parsed::Block { sequence, payload, bytes } if self.follows(sequence) => {
                    apply(sequence, payload)?;
                    self.next_sequence = Some(sequence + 1);
                    at += bytes;
                }
                // The rest of a segment is zeros, too, if the next block did not fit into it.
                Parsed::Zeros => break,
                Parsed::Block { .. } | Parsed::Torn => self.end = Some((id, at as u64)),
            }
        }
        self.refuse_blocks_after(id, at, bytes)
    }

    fn follows(&self, sequence: u64) -> bool {
        self.next_sequence.is_none_or(|next| next == sequence)
    }

    /// Nothing that was written after the place where reading stopped may be whole.
    fn refuse_blocks_after(&self, id: SegmentId, stop: usize, bytes: &[u8]) -> Result<()> {
        for at in (stop..bytes.len()).step_by(BLOCK_ALIGNMENT) {
            let Parsed::Block { sequence, .. } = parse_block(&bytes[at..], id) else {
                continue;
            };
            let (end, offset) = self.end.unwrap_or((id, stop as u64));
            let what = format!(
                "a block of the commit log cannot be read, but block {sequence} at byte {at} of {} \
                 was written after it; what it held was acknowledged. Restore this directory from \
                 a backup",
                id.name()
            );
            return Err(Error::corrupt(end.name(), offset, what));
        }
        Ok(())
    }
}
