//! The background tasks of a store: flushing, and removing what has expired. One at a time, as a
//! script of operations.

mod encoder;
mod flush;
mod script;
mod windows;

use std::{collections::BTreeSet, sync::Arc};

use self::script::ScriptStep;
pub(super) use self::{
    encoder::{Encoded, Encoder},
    flush::Filling,
    script::Script,
    windows::{FileNumbers, Finished, Output, WindowWriters, windows_of},
};
use super::{Fatal, Store, table::Sstable, turn::InFlight};
use crate::{
    error::{Error, is_passing},
    io::{Completion, Operation, Outcome, TimeSlice},
    mutation::{TableNumber, token::shard_of},
    sstable::SstableId,
};

/// After the disk was found full, the pause before the next attempt, in microseconds.
pub(in crate::store) const NO_SPACE_PAUSE_US: u64 = 1_000_000;

/// Microseconds of each turn that encoding takes.
const TURN_US: u64 = 500;

/// What is being done.
#[derive(Debug, Default)]
pub(in crate::store) enum Task {
    #[default]
    Idle,
    /// Memtables are being encoded, a piece each turn.
    Encode(Box<Encoder>, Committed),
    /// Files are being written.
    Write(Script),
    /// Nothing before this moment: the disk was full.
    Pause(Script, u64),
}

/// For what the log will not be needed once a flush is over.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Committed {
    /// For all writes up to this block.
    pub sequence: u64,
    /// To these tables.
    pub tables: Vec<TableNumber>,
}

impl Store {
    /// When to look for sstables that have expired: at their time by the date, but not too often.
    pub(super) fn expiry_due_us(&self, now_us: u64) -> Option<u64> {
        let first_us = self.first_expiry_s?.saturating_mul(1_000_000);
        let left_us = first_us.saturating_sub(self.clock.now_us());
        let due_us = now_us.saturating_add(u64::try_from(left_us).unwrap_or(0));
        Some(due_us.max(self.next_expiry_check_us))
    }

    pub(super) fn choose_task(&mut self, now_us: u64) {
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
        if self.replace_compacted() {
            self.submit_step();
        } else if self.applying.is_none()
            && self.flush_due_us().is_some_and(|due_us| now_us >= due_us)
        {
            self.begin_flush(now_us);
        } else if !self.unwanted.is_empty() {
            self.task = Task::Write(Script::remove(std::mem::take(&mut self.unwanted)));
            self.submit_step();
        } else if self.expiry_due_us(now_us).is_some_and(|due_us| now_us >= due_us) {
            self.begin_expiry(now_us);
        }
    }

    fn begin_expiry(&mut self, now_us: u64) {
        self.next_expiry_check_us = now_us.saturating_add(self.config.expiry_check_us);
        let second = self.clock.now_s();
        let is_own = |token| shard_of(token, self.config.shards) == self.shard;
        let mut expired: Vec<SstableId> =
            self.tables.values().flat_map(|table| table.expired(second, is_own)).collect();
        // What is being compacted goes with the rest of it.
        let compacting = self.compacting.current.as_ref();
        expired.retain(|id| compacting.is_none_or(|current| !current.inputs.contains(id)));
        if !expired.is_empty() {
            self.metrics.sstables_expired += expired.len() as u64;
            self.task = Task::Write(Script::remove(expired));
            self.submit_step();
        }
    }

    /// Encodes some more of what is being flushed, and gives back memory of what was.
    pub(super) fn encode(&mut self) -> Result<(), Fatal> {
        let mut time = TimeSlice::new(&*self.clock, TURN_US);
        while let Some(memtable) = self.recycling.last_mut() {
            if !memtable.recycle(&mut self.pool, &mut time) {
                return Ok(());
            }
            self.recycling.pop();
        }
        let Task::Encode(flush, committed) = &mut self.task else { return Ok(()) };
        let encoded = flush.step(&mut time).map_err(|error| Error::io("an sstable", error))?;
        if let Some(Encoded { outputs, spare }) = encoded {
            self.spare_pieces = spare;
            self.metrics.flush_bytes +=
                outputs.iter().map(|output| output.summary.bytes).sum::<u64>();
            self.task = Task::Write(Script::flush(outputs, std::mem::take(committed)));
            self.submit_step();
        }
        Ok(())
    }

    fn submit_step(&mut self) {
        let log_floor = self.log_floor();
        let Task::Write(script) = &mut self.task else { return };
        match script.operation(&self.journal, log_floor, self.applied) {
            Some(operation) => {
                self.submit(operation, InFlight::Task);
            }
            None => self.finish_task(),
        }
    }

    /// A step of the task is over.
    pub(super) fn step_over(&mut self, over: Completion) -> Result<(), Fatal> {
        let Task::Write(script) = &mut self.task else { return Ok(()) };
        let Some(step) = script.steps.front().copied() else { return Ok(()) };
        if let (ScriptStep::Write(number, piece), Some(buffer)) = (step, over.buffer) {
            script.outputs[number].pieces[piece] = buffer;
        }
        match over.result {
            Ok(outcome) => {
                if let (ScriptStep::Create(number), Outcome::Opened { file, .. }) = (step, outcome)
                {
                    script.outputs[number].file = Some(file);
                }
                script.steps.pop_front();
                self.submit_step();
                Ok(())
            }
            Err(error) if is_passing(&error) => {
                self.metrics.flushes_no_space += 1;
                if self.closing {
                    // The log has everything, and the next start flushes it.
                    self.give_up();
                    return Ok(());
                }
                script.begin_again();
                let until_us = self.clock.elapsed_us().saturating_add(NO_SPACE_PAUSE_US);
                if let Task::Write(script) = std::mem::take(&mut self.task) {
                    self.task = Task::Pause(script, until_us);
                }
                Ok(())
            }
            Err(error) => Err(Error::io(script.file_name(&self.journal), error).into()),
        }
    }

    /// Ends the task although it is not over, for good: nothing that it did counts.
    fn give_up(&mut self) {
        self.task = Task::Idle;
        self.unwanted.clear();
        self.unflushed_since_us = None;
        self.recorded = self.applied;
    }

    /// All steps of the task are over: it counts.
    fn finish_task(&mut self) {
        let Task::Write(script) = std::mem::take(&mut self.task) else { return };
        self.journal.length = script.journal_length;
        self.recorded = script.log_end;
        let Some(committed) = script.committed else {
            let outputs = self.hand_over(script.outputs, &script.removed);
            self.compacting.replaced(&outputs, &script.removed);
            self.take_compacted(outputs, &script.removed);
            self.forget(&script.removed);
            return self.note_sstables();
        };
        self.metrics.flushes += u64::from(!committed.tables.is_empty());
        for table in self.tables.values_mut() {
            // The encoder, which shared it, is gone.
            self.recycling.extend(table.flushing.take().and_then(Arc::into_inner));
        }
        (self.flushing_bytes, self.flushing_rows) = (0, 0);
        for mut output in script.outputs {
            let room = self.config.spare_pieces_max().saturating_sub(self.spare_pieces.len());
            self.spare_pieces.extend(output.pieces.drain(..).take(room));
            let Some(file) = output.file else { continue };
            if let Some(table) = self.tables.get_mut(&output.summary.table) {
                table.counts.flush_bytes += output.summary.bytes;
                table.add((output.summary, output.index, file), None);
                self.reads.look_at(output.summary.table, table);
            } else {
                // The table was dropped meanwhile.
                self.unwanted.push(output.summary.id);
                self.close(file);
            }
        }
        self.note_sstables();
        for segment in self.log.release(script.log_floor) {
            self.submit(Operation::Remove { name: segment.name() }, InFlight::Tidying);
        }
    }

    /// Takes in what others were compacted into. A read under way that has looked at all of those
    /// need not look at it.
    pub(super) fn take_compacted(&mut self, outputs: Vec<Output>, inputs: &[SstableId]) {
        for Output { summary, index, file, .. } in outputs {
            let Some(file) = file else { continue };
            let Some(table) = self.tables.get_mut(&summary.table) else {
                // The table was dropped meanwhile.
                self.unwanted.push(summary.id);
                self.close(file);
                continue;
            };
            table.counts.compaction_bytes += summary.bytes;
            let inputs = table.sstables.iter().filter(|one| inputs.contains(&one.summary.id));
            let added = inputs.map(|one| one.added).max().unwrap_or(table.added);
            table.insert(Sstable { summary, index, file, added, holders: None });
        }
    }

    /// Removes the files of sstables that do not count any more, as soon as no read uses them.
    pub(super) fn forget(&mut self, removed: &[SstableId]) {
        let mut removed: BTreeSet<SstableId> = removed.iter().copied().collect();
        for (number, table) in &mut self.tables {
            let gone = table.take(&removed);
            if !gone.is_empty() {
                // With them go deletions, which a read must not apply to what is written now.
                self.reads.keep_none_of(*number);
            }
            self.unused.extend(gone.into_iter().map(|sstable| (sstable, false)));
        }
        for (sstable, is_removed) in &mut self.unused {
            *is_removed |= removed.remove(&sstable.summary.id);
        }
        for id in removed {
            self.submit(Operation::Remove { name: id.file_name() }, InFlight::Tidying);
        }
        self.close_unused();
    }

    /// Removes a file of a table: a compaction that was asked for is not over before it is gone.
    pub(super) fn remove_file(&mut self, id: SstableId, table: TableNumber) {
        self.compacting.leaving.insert(id, table);
        self.submit(Operation::Remove { name: id.file_name() }, InFlight::Leaving(id));
    }

    /// Closes sstables that are not used any more, and removes the files of those that are
    /// forgotten.
    pub(super) fn close_unused(&mut self) {
        let is_free = |(sstable, _): &mut (Arc<Sstable>, bool)| Arc::strong_count(sstable) == 1;
        let free: Vec<_> = self.unused.extract_if(.., is_free).collect();
        for (sstable, is_removed) in free {
            self.close(sstable.file);
            if is_removed && sstable.let_go() {
                self.remove_file(sstable.summary.id, sstable.summary.table);
            }
        }
    }
}
