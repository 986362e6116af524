//! A script of operations, each of which begins when the one before it is over.

use std::{collections::VecDeque, iter::once};

use super::{Committed, Output};
use crate::{
    commitlog::LogEnd,
    directory::{
        Journal,
        manifest::{Change, journal_name},
    },
    io::{FileId, Operation},
    sstable::{SstableId, Summary},
};

/// What to do next, and when it counts.
#[derive(Debug)]
pub(in crate::store) struct Script {
    pub outputs: Vec<Output>,
    pub removed: Vec<SstableId>,
    /// `None` when nothing was flushed.
    pub committed: Option<Committed>,
    pub steps: VecDeque<ScriptStep>,
    /// The length of the journal when it is synced.
    pub journal_length: u64,
    /// The segment of the log from which on, by the journal, all are needed. More of them may be
    /// needless when it is synced, but the next start knows only of these.
    pub log_floor: u32,
    /// Up to where the log is on the device, by the journal.
    pub log_end: LogEnd,
}

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ScriptStep {
    Create(usize),
    /// A piece of a file, by their numbers.
    Write(usize, usize),
    Sync(usize),
    SyncDirectory,
    WriteJournal,
    SyncJournal,
    Close(usize),
    Remove(usize),
}

impl Script {
    /// Writes these files and makes them count.
    pub fn flush(outputs: Vec<Output>, committed: Committed) -> Self {
        let mut script = Self {
            outputs,
            removed: Vec::new(),
            committed: Some(committed),
            steps: VecDeque::new(),
            journal_length: 0,
            log_floor: 0,
            log_end: LogEnd::default(),
        };
        script.restart();
        script
    }

    /// Makes these files not count.
    pub fn remove(removed: Vec<SstableId>) -> Self {
        let steps = VecDeque::from([ScriptStep::WriteJournal, ScriptStep::SyncJournal]);
        Self {
            outputs: Vec::new(),
            removed,
            committed: None,
            steps,
            journal_length: 0,
            log_floor: 0,
            log_end: LogEnd::default(),
        }
    }

    /// Makes these files, which are on the device, count in place of those.
    pub fn replace(outputs: Vec<Output>, removed: Vec<SstableId>) -> Self {
        Self { outputs, ..Self::remove(removed) }
    }

    fn restart(&mut self) {
        self.steps.clear();
        for (number, output) in self.outputs.iter().enumerate() {
            self.steps.extend(file_steps(number, output.pieces.len()));
        }
        if !self.outputs.is_empty() {
            self.steps.push_back(ScriptStep::SyncDirectory);
        }
        self.steps.extend([ScriptStep::WriteJournal, ScriptStep::SyncJournal]);
    }

    /// The disk is full: first what was written is removed, then all begins again. What is in the
    /// journal stays and is written again.
    pub fn begin_again(&mut self) {
        if matches!(self.steps.front(), Some(ScriptStep::WriteJournal | ScriptStep::SyncJournal)) {
            self.steps = VecDeque::from([ScriptStep::WriteJournal, ScriptStep::SyncJournal]);
            return;
        }
        let mut steps = VecDeque::new();
        for (number, output) in self.outputs.iter().enumerate() {
            if output.file.is_some() {
                steps.extend([ScriptStep::Close(number), ScriptStep::Remove(number)]);
            }
        }
        self.restart();
        steps.extend(std::mem::take(&mut self.steps));
        self.steps = steps;
    }

    /// The operation of the step at hand; `None` if all are over.
    ///
    /// # Panics
    ///
    /// If a file is used before the step that creates it: a script would end in the middle.
    pub fn operation(
        &mut self,
        journal: &Journal,
        log_floor: u32,
        log_end: LogEnd,
    ) -> Option<Operation> {
        let operation = match *self.steps.front()? {
            ScriptStep::Create(number) => {
                let name = self.outputs[number].summary.id.file_name();
                Operation::Create { name }
            }
            ScriptStep::Write(number, piece) => {
                let output = &mut self.outputs[number];
                let offset = output.pieces[..piece].iter().map(|before| before.len() as u64).sum();
                let buffer = std::mem::take(&mut output.pieces[piece]);
                Operation::Write { file: opened(output), offset, buffer, durable: false }
            }
            ScriptStep::Sync(number) => Operation::Sync { file: opened(&self.outputs[number]) },
            ScriptStep::SyncDirectory => Operation::SyncDirectory,
            ScriptStep::WriteJournal => {
                (self.log_floor, self.log_end) = (log_floor, log_end);
                let (operation, length) = journal.append(&self.changes());
                self.journal_length = length;
                operation
            }
            ScriptStep::SyncJournal => Operation::Sync { file: journal.file },
            ScriptStep::Close(number) => {
                let file = opened(&self.outputs[number]);
                self.outputs[number].file = None;
                Operation::Close { file }
            }
            ScriptStep::Remove(number) => {
                Operation::Remove { name: self.outputs[number].summary.id.file_name() }
            }
        };
        Some(operation)
    }

    /// The file of the step at hand.
    pub fn file_name(&self, journal: &Journal) -> String {
        match self.steps.front() {
            Some(
                ScriptStep::Create(number)
                | ScriptStep::Write(number, _)
                | ScriptStep::Sync(number)
                | ScriptStep::Close(number)
                | ScriptStep::Remove(number),
            ) => self.outputs[*number].summary.id.file_name(),
            Some(ScriptStep::WriteJournal | ScriptStep::SyncJournal) => {
                journal_name(journal.epoch, journal.shard)
            }
            Some(ScriptStep::SyncDirectory) | None => ".".into(),
        }
    }

    fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.outputs.is_empty() {
            let added: Vec<Summary> = self.outputs.iter().map(|output| output.summary).collect();
            changes.push(Change::Add(added));
        }
        if !self.removed.is_empty() {
            changes.push(Change::Remove(self.removed.clone()));
        }
        if let Some(Committed { sequence, tables }) = &self.committed {
            let flushed = tables.iter().map(|table| (*table, *sequence)).collect();
            changes.push(Change::Log { floor: self.log_floor, flushed });
        }
        changes.push(Change::LogEnd(self.log_end));
        changes
    }
}

/// Writes a file, piece by piece. Each is on the device before the next one is written: a block of
/// the log waits for whatever was written before it and is not durable yet.
fn file_steps(number: usize, pieces: usize) -> impl Iterator<Item = ScriptStep> {
    let durably = move |piece| [ScriptStep::Write(number, piece), ScriptStep::Sync(number)];
    once(ScriptStep::Create(number)).chain((0..pieces).flat_map(durably))
}

/// The file of an output that is being written.
fn opened(output: &Output) -> FileId {
    output.file.expect("a file is created before it is used, and used until it is closed")
}

#[cfg(test)]
mod tests {
    use super::{ScriptStep::*, file_steps};

    #[test]
    fn a_piece_of_a_file_is_on_the_device_before_the_next_is_written() {
        let steps: Vec<_> = file_steps(7, 2).collect();
        assert_eq!(steps, [Create(7), Write(7, 0), Sync(7), Write(7, 1), Sync(7)]);
    }
}
