//! Reading the segments of one shard's run back.
//!
//! One block is on its way at a time, and everything before it is on the device. So a crash leaves
//! whole blocks up to some sequence number, and of the next block any of its sectors. Every other
//! sector is as it was before: zeros, or what an earlier segment held in the same file. What does
//! not fit that was not left by a crash, and the log is refused. `docs/format/commitlog.md` has the
//! proof.

use super::{
    EntryKind, LogEnd, SegmentId, entries,
    preparation::SEGMENT_MAGIC,
    sector::{Sector, SectorId, read_sector},
};
use crate::{
    error::{Error, Result},
    io::SECTOR_BYTES,
};

const BACKUP: &str = "what it held was acknowledged. Restore this directory from a backup";

/// Follows the blocks of one shard's run through its segments.
#[derive(Debug)]
pub struct Replay {
    first_segment: u32,
    next_segment: SegmentId,
    /// The sequence number that must come next; `None` before the first block if that is not known.
    next_sequence: Option<u64>,
    /// Whether the segment before said that the log goes on in the next one.
    is_continued: bool,
    /// Where the log ended: nothing may come after it.
    end: Option<(SegmentId, usize)>,
    /// The entries of a block, put together.
    payload: Vec<u8>,
}

impl Replay {
    /// Begins with the segment that has this number; what came before it was released. That one
    /// must be there: the shard had begun it.
    #[must_use]
    pub fn new(epoch: u32, shard: u16, first_segment: u32) -> Self {
        Self {
            first_segment,
            next_segment: SegmentId { epoch, shard, number: first_segment },
            next_sequence: (first_segment == 0).then_some(1),
            is_continued: true,
            end: None,
            payload: Vec::new(),
        }
    }

    /// Gives each block of the next segment, by its sequence number and payload, to `apply`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if something is missing or different that was once durable, or what
    /// `apply` returns.
    pub fn segment(
        &mut self,
        number: u32,
        bytes: &[u8],
        mut apply: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let id = SegmentId { number, ..self.next_segment };
        if number != self.next_segment.number {
            return Err(missing(self.next_segment));
        }
        self.next_segment.number = number + 1;
        let mut at = check_beginning(id, bytes)?;
        if !std::mem::take(&mut self.is_continued) {
            self.end.get_or_insert((id, at));
        }
        while self.end.is_none() && !self.is_continued {
            let Some(sequence) = self.block(id, &bytes[at..]) else {
                self.end = Some((id, at));
                break;
            };
            apply(sequence, &self.payload)?;
            let last = entries(&self.payload).last();
            self.is_continued = last.is_some_and(|entry| entry.kind == EntryKind::Continued);
            self.next_sequence = Some(sequence + 1);
            at += sectors_of(&bytes[at..], id) * SECTOR_BYTES;
        }
        self.check_rest(id, at, bytes)
    }

    /// No segment comes any more. The log had once come as far as `reached`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the last one said that there is another, or if the log ends too early.
    pub fn finish(&self, reached: LogEnd) -> Result<()> {
        if self.is_continued {
            return Err(missing(self.next_segment));
        }
        let is_short = match self.next_sequence {
            Some(next) => next <= reached.sequence,
            None => self.first_segment <= reached.segment,
        };
        match self.end {
            Some((id, at)) if is_short => Err(put_back(id, at, reached)),
            _ => Ok(()),
        }
    }

    /// Puts the entries of the block at the beginning of `bytes` together, and gives its sequence
    /// number, if it is the next one and whole.
    fn block(&mut self, id: SegmentId, bytes: &[u8]) -> Option<u64> {
        self.payload.clear();
        let mut first: Option<SectorId> = None;
        for index in 0.. {
            let Sector::Written(sector, part) = sector_at(bytes, usize::from(index), id)? else {
                return None;
            };
            let first = first.get_or_insert(sector);
            let follows = self.next_sequence.is_none_or(|next| next == sector.sequence);
            if !follows || sector.sequence == 0 || sector != (SectorId { index, ..*first }) {
                return None;
            }
            self.payload.extend_from_slice(part);
            if index + 1 == sector.sectors {
                break;
            }
        }
        let first = first?;
        (self.payload.len() == first.bytes as usize).then_some(first.sequence)
    }

    /// After the last whole block there is at most a part of the next one, at its place, and
    /// nothing at all if the log had ended before.
    fn check_rest(&self, id: SegmentId, stop: usize, bytes: &[u8]) -> Result<()> {
        let is_end = self.end == Some((id, stop));
        for index in 0..(bytes.len() - stop).div_ceil(SECTOR_BYTES) {
            let at = (stop + index * SECTOR_BYTES) as u64;
            match sector_at(&bytes[stop..], index, id) {
                Some(Sector::Zeros | Sector::Old) => {}
                Some(Sector::Written(sector, _)) => {
                    let is_torn = self.next_sequence.is_none_or(|next| next == sector.sequence)
                        && usize::from(sector.index) == index;
                    if !(is_end && is_torn && !self.is_continued) {
                        return Err(self.lost(id, stop, at, sector.sequence));
                    }
                }
                Some(Sector::Damaged) | None => return Err(damaged(id, at)),
            }
        }
        Ok(())
    }

    fn lost(&self, id: SegmentId, stop: usize, at: u64, sequence: u64) -> Error {
        let (end, offset) = self.end.unwrap_or((id, stop));
        let what = format!(
            "a block of the commit log cannot be read, but block {sequence} at byte {at} of {} was \
             written after it; {BACKUP}",
            id.name()
        );
        Error::corrupt(end.name(), offset as u64, what)
    }
}

/// The sector with this number; `None` if it is cut short or there is none.
fn sector_at(bytes: &[u8], index: usize, id: SegmentId) -> Option<Sector<'_>> {
    let sector = bytes.get(index * SECTOR_BYTES..)?.first_chunk()?;
    Some(read_sector(sector, id))
}

/// How many sectors the block at the beginning of `bytes` has.
fn sectors_of(bytes: &[u8], id: SegmentId) -> usize {
    match sector_at(bytes, 0, id) {
        Some(Sector::Written(sector, _)) => usize::from(sector.sectors),
        _ => 0,
    }
}

/// A segment says which it is and how long, since before it had its name. Returns where its first
/// block begins.
fn check_beginning(id: SegmentId, bytes: &[u8]) -> Result<usize> {
    let Some(Sector::Written(sector, text)) = sector_at(bytes, 0, id) else {
        return Err(damaged(id, 0));
    };
    let length = text.strip_prefix(&SEGMENT_MAGIC).and_then(|text| text.first_chunk());
    let Some(length) = length.filter(|_| sector.sequence == 0 && sector.index == 0) else {
        return Err(damaged(id, 0));
    };
    for index in 1..sector.sectors {
        match sector_at(bytes, usize::from(index), id) {
            Some(Sector::Written(other, _)) if other == SectorId { index, ..sector } => {}
            _ => return Err(damaged(id, u64::from(index) * SECTOR_BYTES as u64)),
        }
    }
    let length = u64::from_le_bytes(*length);
    if length != bytes.len() as u64 {
        let what = format!(
            "this segment of the commit log was made with {length} bytes and has {}; {BACKUP}",
            bytes.len()
        );
        return Err(Error::corrupt(id.name(), bytes.len() as u64, what));
    }
    Ok(usize::from(sector.sectors) * SECTOR_BYTES)
}

fn damaged(id: SegmentId, at: u64) -> Error {
    let what = "this sector of the commit log is not what was written there, nor what a crash \
                leaves. Restore this directory from a backup";
    Error::corrupt(id.name(), at, what)
}

fn put_back(id: SegmentId, at: usize, reached: LogEnd) -> Error {
    let LogEnd { segment, sequence } = reached;
    let name = SegmentId { number: segment, ..id }.name();
    let what = format!(
        "the commit log ends here, but the journal of its shard says that it had block {sequence} \
         in {name}: a segment was cut short or put back to what it was before; {BACKUP}"
    );
    Error::corrupt(id.name(), at as u64, what)
}

fn missing(id: SegmentId) -> Error {
    let what = format!("this segment of the commit log is missing; {BACKUP}");
    Error::corrupt(id.name(), 0, what)
}
