//! What a store does besides requests: flushing, and removing what has expired. One at a time, as
//! a script of operations of which each begins when the one before it is over.

use std::collections::VecDeque;

use super::flush::{Encoder, Output};
use crate::{
    io::{Buffer, FileId, Operation},
    sstable::{SstableId, Summary, manifest::Change, manifest::encode_change},
};

/// After the disk was found full, the pause before the next attempt, in microseconds.
pub(super) const NO_SPACE_PAUSE_US: i64 = 1_000_000;

/// The journal of the manifest to which a shard appends.
#[derive(Debug)]
pub(super) struct Journal {
    pub epoch: u32,
    pub shard: u16,
    pub file: FileId,
    /// Bytes of all changes that are synced.
    pub length: u64,
}

impl Journal {
    /// The operation that appends these changes, and the length that the journal has then.
    fn append(&self, changes: &[Change]) -> (Operation, u64) {
        let mut bytes = Vec::new();
        for change in changes {
            let at = self.length + bytes.len() as u64;
            encode_change(self.epoch, self.shard, at, change, &mut bytes);
        }
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(&bytes);
        let length = self.length + bytes.len() as u64;
        let (file, offset) = (self.file, self.length);
        (Operation::Write { file, offset, buffer, durable: false }, length)
    }
}

/// What is being done.
#[derive(Debug, Default)]
pub(super) enum Task {
    #[default]
    Idle,
    /// Memtables are being encoded, a piece each turn.
    Encode(Encoder, Committed),
    /// Files are being written.
    Write(Script),
    /// Nothing before this moment: the disk was full.
    Pause(Script, i64),
}

/// Up to where the log will not be needed once a flush is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Committed {
    /// All writes up to this block.
    pub sequence: u64,
}

/// What to do next, and when it counts.
#[derive(Debug)]
pub(super) struct Script {
    pub outputs: Vec<Output>,
    pub removed: Vec<SstableId>,
    /// `None` when nothing was flushed.
    pub committed: Option<Committed>,
    pub steps: VecDeque<Step>,
    /// The length of the journal when it is synced.
    pub journal_length: u64,
    /// The segment of the log from which on, by the journal, all are needed. More of them may be
    /// needless when it is synced, but the next start knows only of these.
    pub log_floor: u32,
}

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
        };
        script.restart();
        script
    }

    /// Makes these files not count.
    pub fn remove(removed: Vec<SstableId>) -> Self {
        let steps = VecDeque::from([Step::WriteJournal, Step::SyncJournal]);
        let outputs = Vec::new();
        Self { outputs, removed, committed: None, steps, journal_length: 0, log_floor: 0 }
    }

    fn restart(&mut self) {
        self.steps.clear();
        for (number, output) in self.outputs.iter().enumerate() {
            self.steps.push_back(Step::Create(number));
            self.steps.extend((0..output.pieces.len()).map(|piece| Step::Write(number, piece)));
            self.steps.push_back(Step::Sync(number));
        }
        if !self.outputs.is_empty() {
            self.steps.push_back(Step::SyncDirectory);
        }
        self.steps.extend([Step::WriteJournal, Step::SyncJournal]);
    }

    /// The disk is full: first what was written is removed, then all begins again. What is in the
    /// journal stays and is written again.
    pub fn begin_again(&mut self) {
        if matches!(self.steps.front(), Some(Step::WriteJournal | Step::SyncJournal)) {
            self.steps = VecDeque::from([Step::WriteJournal, Step::SyncJournal]);
            return;
        }
        let mut steps = VecDeque::new();
        for (number, output) in self.outputs.iter().enumerate() {
            if output.file.is_some() {
                steps.extend([Step::Close(number), Step::Remove(number)]);
            }
        }
        self.restart();
        steps.extend(std::mem::take(&mut self.steps));
        self.steps = steps;
    }

    /// The operation of the step at hand; `None` if all are over.
    pub fn operation(&mut self, journal: &Journal, log_floor: u32) -> Option<Operation> {
        let operation = match *self.steps.front()? {
            Step::Create(number) => {
                let name = self.outputs[number].summary.id.file_name();
                Operation::Create { name, preallocate_bytes: 0 }
            }
            Step::Write(number, piece) => {
                let output = &mut self.outputs[number];
                let offset = output.pieces[..piece].iter().map(|before| before.len() as u64).sum();
                let buffer = std::mem::take(&mut output.pieces[piece]);
                Operation::Write { file: output.file?, offset, buffer, durable: false }
            }
            Step::Sync(number) => Operation::Sync { file: self.outputs[number].file? },
            Step::SyncDirectory => Operation::SyncDirectory,
            Step::WriteJournal => {
                let (operation, length) = journal.append(&self.changes(log_floor));
                (self.journal_length, self.log_floor) = (length, log_floor);
                operation
            }
            Step::SyncJournal => Operation::Sync { file: journal.file },
            Step::Close(number) => Operation::Close { file: self.outputs[number].file.take()? },
            Step::Remove(number) => {
                Operation::Remove { name: self.outputs[number].summary.id.file_name() }
            }
        };
        Some(operation)
    }

    fn changes(&self, log_floor: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.outputs.is_empty() {
            let added: Vec<Summary> = self.outputs.iter().map(|output| output.summary).collect();
            changes.push(Change::Add(added));
        }
        if !self.removed.is_empty() {
            changes.push(Change::Remove(self.removed.clone()));
        }
        if let Some(Committed { sequence }) = self.committed {
            changes.push(Change::Flushed { floor: log_floor, sequence });
        }
        changes
    }
}
