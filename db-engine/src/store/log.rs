//! A store and its log: what is durable happens, and segments are ready before they are needed.

use super::{
    Done, Fatal, Refused, Store, Tag, apply::Applying, background::NO_SPACE_PAUSE_US,
    turn::InFlight,
};
use crate::{
    commitlog::{LogEnd, Preparation, PreparedSegment, SegmentId, Submitted, Unwritten},
    directory::Sequential,
    error::{Error, Result, is_passing},
    io::{Buffer, Completion, TimeSlice},
};
use std::sync::Arc;

/// The first segment of a shard is filled with zeros in pieces of this many bytes: nobody waits for
/// the device yet.
const FIRST_FILL_BYTES: usize = 4 << 20;

/// The segment that is being prepared.
#[derive(Debug, Default)]
pub(super) struct NextSegment {
    preparation: Option<Preparation>,
    /// Whether its operation is with the device.
    is_submitted: bool,
    /// Nothing is tried before this moment: the disk was full.
    pause_until_us: Option<u64>,
}

/// Makes the first segment of a shard ready.
pub(super) fn prepare_first(
    files: &mut Sequential<'_>,
    segment: SegmentId,
    segment_bytes: u64,
) -> Result<PreparedSegment> {
    let mut preparation = Preparation::of_new_file(segment, segment_bytes, FIRST_FILL_BYTES);
    loop {
        let outcome = files.run(&segment.name(), preparation.operation())?;
        if let Some(prepared) = preparation.over(&outcome) {
            return Ok(prepared);
        }
    }
}

impl Store {
    /// The oldest segment that holds rows which are only in active memtables.
    pub(super) fn oldest_unflushed(&self) -> Option<u32> {
        self.tables.values().filter_map(|table| Some(table.unflushed?.segment)).min()
    }

    /// The oldest segment of the log that will be needed when what is being flushed is in sstables.
    pub(super) fn log_floor(&self) -> u32 {
        self.log.floor_with(self.oldest_unflushed())
    }

    /// A store that is closing needs another segment only for what it has taken already.
    fn wants_segment(&self) -> bool {
        !self.closing || self.log.is_waiting()
    }

    /// When the next attempt at a segment is due, if the disk was full.
    pub(super) fn segment_due_us(&self) -> Option<u64> {
        self.next_segment.pause_until_us.filter(|_| self.wants_segment())
    }

    /// Goes on with the next segment, if it is time.
    pub(super) fn prepare_segment(&mut self, now_us: u64) {
        let is_paused = self.next_segment.pause_until_us.is_some_and(|until_us| now_us < until_us);
        if self.next_segment.is_submitted || is_paused || !self.wants_segment() {
            return;
        }
        if self.next_segment.pause_until_us.take().is_some() {
            self.log.segment_tried_again();
        }
        if self.next_segment.preparation.is_none() {
            self.next_segment.preparation = self.log.prepare_segment();
        }
        let used_bytes = self.log.used_bytes();
        let preparation = self.next_segment.preparation.as_ref();
        if let Some(preparation) = preparation.filter(|segment| segment.is_due(used_bytes)) {
            let operation = preparation.operation();
            self.next_segment.is_submitted = true;
            self.submit(operation, InFlight::Segment);
        }
    }

    /// An operation for the next segment is over.
    pub(super) fn segment_over(&mut self, over: Completion) -> std::result::Result<(), Fatal> {
        let now_us = self.clock.elapsed_us();
        self.next_segment.is_submitted = false;
        let Some(preparation) = &mut self.next_segment.preparation else { return Ok(()) };
        match over.result {
            Ok(outcome) => {
                self.log.space_found();
                if let Some(prepared) = preparation.over(&outcome) {
                    self.next_segment.preparation = None;
                    self.log.segment_ready(prepared);
                }
                self.prepare_segment(now_us);
                Ok(())
            }
            Err(error) if is_passing(&error) => {
                self.next_segment.pause_until_us = Some(now_us.saturating_add(NO_SPACE_PAUSE_US));
                for Unwritten { tag, is_intent } in self.log.segment_failed(!self.closing) {
                    let failed = if is_intent { Done::IntentFailed } else { Done::WriteFailed };
                    self.done.push(failed(Tag(tag), Refused::NoSpace));
                }
                Ok(())
            }
            Err(error) => Err(Error::io(preparation.id().name(), error).into()),
        }
    }

    /// The next block of the log, if it is ready to be written.
    pub(super) fn next_log_block(&mut self) -> Option<Submitted> {
        let clock = Arc::clone(&self.clock);
        self.log.submit(&mut TimeSlice::new(&*clock, self.config.log_encoding_us))
    }

    /// A block of the log is on the device: its writes happen.
    pub(super) fn block_written(&mut self, buffer: Buffer, submitted_us: u64) {
        let now_us = self.clock.elapsed_us();
        self.metrics.log_blocks += 1;
        self.metrics.log_block_bytes += buffer.len() as u64;
        self.metrics.log_block_us += now_us - submitted_us;
        let (block, sequence, segment) = self.log.written(buffer);
        self.applying = Some(Applying::new(block, LogEnd { segment, sequence }, now_us));
    }
}
