//! The turns of a store: what is submitted, and what completions lead to.

use std::{io, sync::Arc};

use hashbrown::HashMap;

use super::{
    Done, Fatal, Page, PendingRead, ReadRequest, Refused, Store, Tag,
    background::{Committed, NO_SPACE_PAUSE_US, Script, Step, Task},
    cache::BlockId,
    flush::{Encoded, Encoder},
    read::{Cost, Progress, read},
    table::Sstable,
};
use crate::{
    commitlog::{EntryKind, Unwritten},
    error::{Error, is_no_space},
    io::{Buffer, Completion, FileId, Operation, Outcome},
    mutation::{mutations, token::shard_of},
    sstable::{Block, SstableId},
};

/// What an operation in flight is for.
#[derive(Debug)]
pub(super) enum Job {
    /// A block of the log, submitted at this moment.
    LogBlock { submitted_us: i64 },
    /// The next segment of the log is being created.
    Segment,
    /// Its name is being made durable.
    SegmentName(FileId),
    /// A step of the task.
    Task,
    /// A block of an sstable for reads.
    Block { id: BlockId, offset: u64, reads: Vec<u64> },
    /// Nobody waits for it.
    Tidying,
}

impl Store {
    /// Ends a turn: the block that was staged goes to the log unless one is on its way, and
    /// background work goes on by a little.
    pub fn turn_end(&mut self) {
        let now_us = self.clock.now_us();
        if let Some(submitted) = self.log.submit() {
            self.submit(submitted.operation, Job::LogBlock { submitted_us: now_us });
            if let Some(file) = submitted.close {
                self.close(file);
            }
        }
        if now_us >= self.segment_pause_until_us
            && let Some(segment) = self.log.wants_segment().filter(|_| !self.closing)
        {
            self.log.segment_begun();
            let preallocate_bytes = self.config.log_segment_bytes;
            let operation = Operation::Create { name: segment.name(), preallocate_bytes };
            self.submit(operation, Job::Segment);
        }
        self.choose_task(now_us);
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
        self.encode()
    }

    /// The next moment at which the store wants a turn, in microseconds since the Unix epoch; a
    /// moment that is over means at once, and `None` not before something happens.
    #[must_use]
    pub fn deadline_us(&self) -> Option<i64> {
        let task = match &self.task {
            Task::Encode(..) => Some(i64::MIN),
            Task::Pause(_, until_us) => Some(*until_us),
            Task::Write(_) => None,
            Task::Idle if !self.unwanted.is_empty() => Some(i64::MIN),
            Task::Idle => [self.flush_due_us(), self.expiry_due_us()].into_iter().flatten().min(),
        };
        let segment = self.log.no_space().then_some(self.segment_pause_until_us);
        [task, segment].into_iter().flatten().min()
    }

    pub(super) fn submit(&mut self, operation: Operation, job: Job) {
        let ticket = self.files.submit(operation);
        self.jobs.insert(ticket, job);
    }

    pub(super) fn close(&mut self, file: FileId) {
        self.submit(Operation::Close { file }, Job::Tidying);
    }

    /// Closes an sstable that is not used any more, once no read of it is in flight.
    pub(super) fn close_sstable(&mut self, id: SstableId, file: FileId) {
        let is_read = |job: &Job| matches!(job, Job::Block { id: (other, _), .. } if *other == id);
        if self.jobs.values().any(is_read) {
            self.unused.push((id, file));
        } else {
            self.close(file);
        }
    }

    fn complete(&mut self, job: Job, over: Completion) -> Result<(), Fatal> {
        let name = || format!("shard {}", self.shard);
        match job {
            Job::Tidying => Ok(()),
            Job::LogBlock { submitted_us } => {
                over.result.map_err(|error| Error::io("the commit log", error))?;
                let buffer = over.buffer.unwrap_or_default();
                self.block_written(buffer, submitted_us);
                Ok(())
            }
            Job::Segment => match over.result {
                Ok(Outcome::Opened { file, .. }) => {
                    self.submit(Operation::SyncDirectory, Job::SegmentName(file));
                    Ok(())
                }
                Err(error) if is_no_space(&error) => {
                    self.segment_failed();
                    Ok(())
                }
                Err(error) => Err(Error::io("the commit log", error).into()),
                Ok(_) => Err(Error::io(name(), io::Error::other("no file was opened")).into()),
            },
            Job::SegmentName(file) => match over.result {
                Ok(_) => {
                    self.log.segment_ready(file);
                    Ok(())
                }
                Err(error) if is_no_space(&error) => {
                    self.close(file);
                    self.segment_failed();
                    Ok(())
                }
                Err(error) => Err(Error::io("the commit log", error).into()),
            },
            Job::Task => self.step_over(over),
            Job::Block { id, offset, reads } => {
                self.block_read(id, offset, &reads, over);
                for (id, file) in std::mem::take(&mut self.unused) {
                    self.close_sstable(id, file);
                }
                Ok(())
            }
        }
    }

    /// A block of the log is on the device: its writes happen.
    fn block_written(&mut self, buffer: Buffer, submitted_us: i64) {
        let now_us = self.clock.now_us();
        self.metrics.log_blocks += 1;
        self.metrics.log_block_bytes += buffer.len() as u64;
        let took_us = now_us.saturating_sub(submitted_us).max(0);
        self.metrics.log_block_us += took_us.cast_unsigned();
        let (block, sequence) = self.log.written(buffer);
        let mut tags = block.tags().iter().map(|tag| Tag(*tag));
        for entry in block.entries() {
            match entry.kind {
                EntryKind::IntentDone { .. } => {}
                EntryKind::Intent { .. } => self.done.extend(tags.next().map(Done::Intent)),
                EntryKind::Write => {
                    for mutation in mutations(entry.mutations).flatten() {
                        if let Some(table) = self.tables.get_mut(&mutation.table()) {
                            let before = table.active.bytes();
                            table.active.apply(&mutation, &mut self.pool);
                            self.active_bytes = self.active_bytes + table.active.bytes() - before;
                        }
                    }
                    self.unflushed_since_us.get_or_insert(now_us);
                    self.done.extend(tags.next().map(Done::Write));
                }
            }
        }
        drop(tags);
        self.applied = sequence;
        self.log.recycle(block);
    }

    fn segment_failed(&mut self) {
        self.segment_pause_until_us = self.clock.now_us().saturating_add(NO_SPACE_PAUSE_US);
        for Unwritten { tag, is_intent } in self.log.segment_failed() {
            let failed = if is_intent { Done::IntentFailed } else { Done::WriteFailed };
            self.done.push(failed(Tag(tag), Refused::NoSpace));
        }
    }

    fn flush_due_us(&self) -> Option<i64> {
        let since_us = self.unflushed_since_us?;
        let is_large = self.active_bytes >= self.config.memtable_bytes_max / 2
            || self.log.sealed_bytes() >= self.config.log_bytes_max;
        if is_large || (self.closing && self.log.is_idle()) {
            return Some(i64::MIN);
        }
        Some(since_us.saturating_add(self.config.data_lifetime_us))
    }

    fn expiry_due_us(&self) -> Option<i64> {
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        let first_s = self.tables.values().filter_map(|table| table.expires_s(is_own)).min()?;
        Some(first_s.saturating_mul(1_000_000).max(self.next_expiry_check_us))
    }

    fn choose_task(&mut self, now_us: i64) {
        if let Task::Pause(_, until_us) = &self.task
            && now_us >= *until_us
            && let Task::Pause(script, _) = std::mem::take(&mut self.task)
        {
            self.task = Task::Write(script);
            self.submit_step();
        }
        if !matches!(self.task, Task::Idle) {
            return;
        }
        if self.flush_due_us().is_some_and(|due_us| now_us >= due_us) {
            self.begin_flush();
        } else if !self.unwanted.is_empty() {
            self.task = Task::Write(Script::remove(std::mem::take(&mut self.unwanted)));
            self.submit_step();
        } else if self.expiry_due_us().is_some_and(|due_us| now_us >= due_us) {
            self.begin_expiry(now_us);
        }
    }

    fn begin_flush(&mut self) {
        for table in self.tables.values_mut().filter(|table| !table.active.is_empty()) {
            table.flushing = Some(std::mem::take(&mut table.active).freeze());
        }
        self.flushing_bytes = std::mem::take(&mut self.active_bytes);
        self.unflushed_since_us = None;
        let (owner, spare) = ((self.epoch, self.shard), std::mem::take(&mut self.spare_pieces));
        let piece_bytes = self.config.flush_write_bytes;
        let encoder = Encoder::new(owner, self.next_file, &self.tables, piece_bytes, spare);
        self.task = Task::Encode(encoder, Committed { sequence: self.applied });
    }

    fn begin_expiry(&mut self, now_us: i64) {
        self.next_expiry_check_us = now_us.saturating_add(self.config.expiry_check_us);
        let second = now_us.div_euclid(1_000_000);
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        let expired: Vec<SstableId> =
            self.tables.values().flat_map(|table| table.expired(second, is_own)).collect();
        if !expired.is_empty() {
            self.metrics.sstables_expired += expired.len() as u64;
            self.task = Task::Write(Script::remove(expired));
            self.submit_step();
        }
    }

    /// Encodes some more of what is being flushed.
    fn encode(&mut self) -> Result<(), Fatal> {
        let Task::Encode(flush, committed) = &mut self.task else { return Ok(()) };
        let committed = *committed;
        let encoded = flush.step().map_err(|error| Error::io("an sstable", error))?;
        if let Some(Encoded { outputs, next_file, spare }) = encoded {
            self.next_file = next_file;
            self.spare_pieces = spare;
            self.metrics.flush_bytes +=
                outputs.iter().map(|output| output.summary.bytes).sum::<u64>();
            self.task = Task::Write(Script::flush(outputs, committed));
            self.submit_step();
        }
        Ok(())
    }

    fn submit_step(&mut self) {
        let Task::Write(script) = &mut self.task else { return };
        let sequence = script.committed.map_or(0, |committed| committed.sequence);
        match script.operation(&self.journal, self.log.floor_after(sequence)) {
            Some(operation) => self.submit(operation, Job::Task),
            None => self.finish_task(),
        }
    }

    /// A step of the task is over.
    fn step_over(&mut self, over: Completion) -> Result<(), Fatal> {
        let Task::Write(script) = &mut self.task else { return Ok(()) };
        let Some(step) = script.steps.front().copied() else { return Ok(()) };
        if let (Step::Write(number, piece), Some(buffer)) = (step, over.buffer) {
            script.outputs[number].pieces[piece] = buffer;
        }
        match over.result {
            Ok(outcome) => {
                if let (Step::Create(number), Outcome::Opened { file, .. }) = (step, outcome) {
                    script.outputs[number].file = Some(file);
                }
                script.steps.pop_front();
                self.submit_step();
                Ok(())
            }
            Err(error) if is_no_space(&error) => {
                self.metrics.flushes_no_space += 1;
                script.begin_again();
                let until_us = self.clock.now_us().saturating_add(NO_SPACE_PAUSE_US);
                if let Task::Write(script) = std::mem::take(&mut self.task) {
                    self.task = Task::Pause(script, until_us);
                }
                Ok(())
            }
            Err(error) => Err(Error::io("an sstable or the manifest", error).into()),
        }
    }

    /// All steps of the task are over: it counts.
    fn finish_task(&mut self) {
        let Task::Write(script) = std::mem::take(&mut self.task) else { return };
        self.journal.length = script.journal_length;
        for removed in &script.removed {
            self.forget(*removed);
        }
        if script.committed.is_none() {
            return;
        }
        self.metrics.flushes += 1;
        for table in self.tables.values_mut() {
            // The encoder, which shared it, is gone.
            if let Some(memtable) = table.flushing.take().and_then(Arc::into_inner) {
                memtable.recycle(&mut self.pool);
            }
        }
        self.flushing_bytes = 0;
        for mut output in script.outputs {
            let room = self.config.spare_pieces_max().saturating_sub(self.spare_pieces.len());
            self.spare_pieces.extend(output.pieces.drain(..).take(room));
            let Some(file) = output.file else { continue };
            if let Some(table) = self.tables.get_mut(&output.summary.table) {
                let (summary, index) = (output.summary, output.index);
                table.add(Sstable { summary, index, file });
            } else {
                // The table was dropped meanwhile.
                self.unwanted.push(output.summary.id);
                self.close(file);
            }
        }
        for segment in self.log.release(script.log_floor) {
            self.submit(Operation::Remove { name: segment.name() }, Job::Tidying);
        }
    }

    fn forget(&mut self, id: SstableId) {
        let mut files = Vec::new();
        for table in self.tables.values_mut() {
            let gone = table.sstables.extract_if(.., |sstable| sstable.summary.id == id);
            files.extend(gone.map(|sstable| sstable.file));
        }
        for file in files {
            self.close_sstable(id, file);
        }
        self.submit(Operation::Remove { name: id.file_name() }, Job::Tidying);
    }

    /// Reads as far as blocks are in memory; those that are missing.
    pub(super) fn read_on(
        &mut self,
        request: &mut ReadRequest,
        page: &mut Page,
        held: &HashMap<BlockId, Arc<Block>>,
    ) -> Result<Vec<BlockId>, Refused> {
        let table = self.tables.get_mut(&request.table).ok_or(Refused::UnknownTable)?;
        let mut cost = Cost::default();
        let (cache, metrics) = (&mut self.cache, &mut self.metrics);
        let mut find = |id: BlockId| {
            let found = held.get(&id).cloned().or_else(|| cache.get(id));
            metrics.cache_hits += u64::from(found.is_some());
            found
        };
        let progress = read(table, request, page, &mut find, &mut cost);
        self.metrics.rows_scanned += cost.rows_scanned;
        match progress {
            Progress::Complete => Ok(Vec::new()),
            Progress::Missing(missing) => Ok(missing),
        }
    }

    /// Asks for blocks that a read waits for.
    pub(super) fn fetch(&mut self, read: u64, missing: &[BlockId]) {
        for id in missing {
            if let Some(pending) = self.reads.get_mut(&read) {
                pending.waiting += 1;
            }
            let same = self.jobs.values_mut().find_map(|job| match job {
                Job::Block { id: other, reads, .. } if other == id => Some(reads),
                _ => None,
            });
            if let Some(reads) = same {
                reads.push(read);
                continue;
            }
            let sstables = self.tables.values().flat_map(|table| &table.sstables);
            let sstable = sstables.into_iter().find(|sstable| sstable.summary.id == id.0);
            let place = sstable.and_then(|sstable| {
                sstable.index.location(id.1).map(|location| (sstable.file, location))
            });
            let Some((file, location)) = place else { continue };
            self.metrics.cache_misses += 1;
            let (offset, bytes) = (location.offset, location.bytes as usize);
            let buffer = Buffer::with_capacity(bytes);
            let operation = Operation::Read { file, offset, bytes, buffer };
            self.submit(operation, Job::Block { id: *id, offset, reads: vec![read] });
        }
    }

    /// A block was read, for these reads.
    fn block_read(&mut self, id: BlockId, offset: u64, reads: &[u64], over: Completion) {
        let bytes = over.buffer.unwrap_or_default();
        let decoded = match over.result {
            Ok(_) => Block::decode(id.0, offset, bytes.as_slice())
                .map_err(|error| Error::corrupt(id.0.file_name(), offset, error.to_string())),
            Err(error) => Err(Error::io(id.0.file_name(), error)),
        };
        match decoded.map(Arc::new).map_err(Arc::new) {
            Ok(block) => {
                let is_kept = |read: &u64| {
                    self.reads.get(read).is_none_or(|pending| !pending.request.bypass_cache)
                };
                if reads.iter().any(is_kept) {
                    self.cache.put(id, Arc::clone(&block));
                }
                for read in reads {
                    if let Some(pending) = self.reads.get_mut(read) {
                        pending.held.insert(id, Arc::clone(&block));
                        pending.waiting -= 1;
                    }
                    self.resume(*read);
                }
            }
            Err(error) => {
                for read in reads {
                    if let Some(pending) = self.reads.remove(read) {
                        self.metrics.reads_failed += 1;
                        self.done.push(Done::ReadFailed(pending.tag, Arc::clone(&error)));
                    }
                }
            }
        }
    }

    /// Goes on with a read that does not wait any more.
    fn resume(&mut self, read: u64) {
        if self.reads.get(&read).is_none_or(|pending| pending.waiting > 0) {
            return;
        }
        let Some(mut pending) = self.reads.remove(&read) else { return };
        let held = std::mem::take(&mut pending.held);
        let PendingRead { tag, request, page, .. } = &mut pending;
        match self.read_on(request, page, &held) {
            Ok(missing) if missing.is_empty() => {
                self.metrics.rows_returned += page.len() as u64;
                self.done.push(Done::Read(*tag, Box::new(std::mem::take(page))));
            }
            Ok(missing) => {
                // Blocks that it may need again stay with it, however small the cache is.
                pending.held = held;
                self.reads.insert(read, pending);
                self.fetch(read, &missing);
            }
            // The table was dropped while it was read: it has no rows.
            Err(_) => self.done.push(Done::Read(*tag, Box::default())),
        }
    }
}
