//! The turns of a store: what is submitted, and what completions lead to.

use super::{
    Done, Fatal, Store,
    background::Task,
    compacting::CompactionStep,
    read::{ArrivedBlock, MissingBlock},
};
use crate::{
    budget::Charge,
    commitlog::SegmentId,
    error::Error,
    io::{Completion, FileId, Operation, Ticket},
    sstable::SstableId,
};

/// What an operation in flight is for.
#[derive(Debug)]
pub(super) enum InFlight {
    /// A block of the log, submitted at this moment.
    LogBlock { submitted_us: u64 },
    /// The operation at hand for the next segment of the log.
    Segment,
    /// A step of the task.
    Task,
    /// An operation of the compaction.
    Compaction(CompactionStep),
    /// A file that another shard has made of this sstable, by its number.
    TakeOver(SstableId, usize),
    /// A block of an sstable for reads, and the memory that it is read into.
    Block { block: MissingBlock, offset: u64, reads: Vec<u64>, held: Charge },
    /// The file of an sstable that does not count any more goes.
    Leaving(SstableId),
    /// Nobody waits for it.
    Tidying,
}

impl Store {
    /// Ends a turn: the block that was staged goes to the log unless one is on its way or being
    /// applied, and background work goes on by a little.
    pub fn turn_end(&mut self) {
        let now_us = self.clock.elapsed_us();
        self.reads.turn_end();
        if self.applying.is_none()
            && let Some(submitted) = self.next_log_block()
        {
            let ticket = if self.reads.log_block() {
                self.files.submit_alone(submitted.operation)
            } else {
                self.files.submit(submitted.operation)
            };
            self.jobs.insert(ticket, InFlight::LogBlock { submitted_us: now_us });
            if let Some(file) = submitted.close {
                self.close(file);
            }
        }
        self.prepare_segment(now_us);
        self.open_taken_over(now_us);
        self.choose_task(now_us);
        self.choose_compaction(now_us);
    }

    /// Said at the end of a turn: whether the shard would wait now. Returns whether a block of the
    /// log was written instead, and the store wants another turn at once.
    pub fn rest(&mut self, would_wait: bool) -> bool {
        self.files.rest(would_wait)
    }

    /// Takes note of all that is over: applies what is durable to the memtables, answers, and goes
    /// on with what waited.
    ///
    /// # Errors
    ///
    /// If this shard cannot go on; see [`Fatal`].
    pub fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Fatal> {
        if self.fatal.is_none() {
            self.fatal = self.poll_files().err();
        }
        // What was found durable before the failure stays unanswered: the client will ask again.
        if let Some(fatal) = &self.fatal {
            return Err(fatal.clone());
        }
        done.append(&mut self.done);
        self.update_levels();
        Ok(())
    }

    fn poll_files(&mut self) -> Result<(), Fatal> {
        let mut completions = std::mem::take(&mut self.completions);
        self.files.poll(&mut completions);
        for completion in completions.drain(..) {
            if let Some(job) = self.jobs.remove(&completion.ticket) {
                self.complete(job, completion)?;
            }
        }
        self.completions = completions;
        self.decode_arrived();
        self.apply();
        self.read_ready();
        self.compact();
        if !self.unused.is_empty() {
            self.close_unused();
        }
        self.encode()
    }

    /// The next moment at which the store wants a turn, by what has elapsed on its clock in
    /// microseconds; a moment that is over means at once, and `None` not before something happens.
    #[must_use]
    pub fn deadline_us(&self) -> Option<u64> {
        if self.reads.is_ready()
            || !self.recycling.is_empty()
            || self.applying.is_some()
            || self.log.is_encoding()
        {
            return Some(0);
        }
        let task = match &self.task {
            Task::Encode(..) => Some(0),
            Task::Pause(_, until_us) => Some(*until_us),
            Task::Write(_) => None,
            Task::Idle if !self.unwanted.is_empty() => Some(0),
            Task::Idle => {
                let expiry_us = self.expiry_due_us(self.clock.elapsed_us());
                [self.flush_due_us(), expiry_us].into_iter().flatten().min()
            }
        };
        let others = [self.segment_due_us(), self.compaction_due_us(), self.take_over_due_us()];
        others.into_iter().chain([task]).flatten().min()
    }

    pub(super) fn submit(&mut self, operation: Operation, job: InFlight) -> Ticket {
        let ticket = self.files.submit(operation);
        self.jobs.insert(ticket, job);
        ticket
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.submit(Operation::Close { file }, InFlight::Tidying);
    }

    fn complete(&mut self, job: InFlight, over: Completion) -> Result<(), Fatal> {
        match job {
            InFlight::Tidying => Ok(()),
            InFlight::Leaving(id) => {
                self.compacting.leaving.remove(&id);
                Ok(())
            }
            InFlight::LogBlock { submitted_us } => {
                let number = self.log.current_segment();
                let segment = SegmentId { epoch: self.epoch, shard: self.shard, number };
                over.result.map_err(|error| Error::io(segment.name(), error))?;
                let buffer = over.buffer.unwrap_or_default();
                self.block_written(buffer, submitted_us);
                Ok(())
            }
            InFlight::Segment => self.segment_over(over),
            InFlight::Task => self.step_over(over),
            InFlight::Compaction(step) => self.compaction_over(step, over),
            InFlight::TakeOver(input, number) => self.taken_over(input, number, over),
            InFlight::Block { block, offset, reads, held } => {
                self.block_read(ArrivedBlock { block, offset, reads, over, held });
                Ok(())
            }
        }
    }
}
