//! Compaction: several sstables become one, or one of many windows becomes one for each.
//!
//! One at a time is read, combined and written, a piece each turn, beside whatever else the store
//! does. When all that it wrote is on the device, one record in the manifest replaces what it read,
//! and only then the files of that are removed, as soon as no read uses them. Until then nothing of
//! it counts: it can be given up at any moment.
//!
//! A deletion, or what has expired, is left out once `gc_grace_seconds` are over and everything
//! elsewhere, in memory or in other sstables, was written after it: when the compaction begins, and
//! again when it is to count.

mod choosing;
mod combine;
mod handover;
mod inputs;
mod major;
mod order;
mod rewriting;
mod share;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use self::{
    choosing::Chosen,
    combine::{Combined, Combiner, Destination},
    handover::TakeOver,
    inputs::InputFile,
    major::Major,
    share::Bursts,
};
pub use self::{handover::SplitSstable, major::CompactionLeft};
use super::{
    Fatal, Store,
    background::{Finished, NO_SPACE_PAUSE_US, Output, Script, Task, WindowWriters, windows_of},
    turn::InFlight,
};
use crate::{
    error::{Error, is_passing},
    io::{Buffer, Completion, FileId, Operation, Outcome, TimeSlice},
    mutation::{Forgettable, TableNumber},
    sstable::SstableId,
};

/// Microseconds of a turn that combining takes: a request that comes meanwhile waits so long.
const TURN_US: u64 = 200;

/// Bytes of a file after which it is put on the device: flushes and the log wait behind that.
const SYNC_BYTES: u64 = 2 << 20;

/// A compaction may take so many bytes of memory, or half of what there is for blocks.
const MEMORY_BYTES: usize = 1 << 20;

/// A piece of a file that it writes has this part of that at most.
const PIECE_PART: usize = 8;

/// After the disk was full, a compaction is tried again after so many of the pauses of a flush.
const NO_SPACE_PAUSES: u64 = 60;

/// An operation of a compaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum CompactionStep {
    /// Blocks of one of the inputs, by its number.
    Read(usize),
    FreeSpace,
    Create(SstableId),
    Write(SstableId),
    Sync(SstableId),
    SyncDirectory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactionStage {
    FreeSpace,
    Combine,
    /// The files are ended and the rest of them is written.
    Finish,
    /// So many files are on the device.
    Sync(usize),
    SyncDirectory,
    /// It may count.
    Ready,
}

/// A file that was created, and how many bytes of it were written and are on the device.
struct CreatedFile {
    file: FileId,
    written: u64,
    synced: u64,
}

/// A compaction that is being done.
pub(super) struct Compaction {
    pub table: TableNumber,
    pub inputs: Vec<SstableId>,
    /// Space that must be free: for what it writes, and for flushes and the log meanwhile.
    needed_bytes: u64,
    /// Memory that it may take.
    memory_max: usize,
    combiner: Combiner,
    stage: CompactionStage,
    in_flight: usize,
    is_given_up: bool,
    created: BTreeMap<SstableId, CreatedFile>,
    finished: Vec<Output>,
    bursts: Bursts,
    /// Thousandths of the time that it may take at least.
    share_min: u64,
}

impl Compaction {
    /// Goes on as far as time allows; gives what is to be done before more of it.
    fn step(&mut self, time: &mut TimeSlice<'_>) -> io::Result<Vec<(CompactionStep, Operation)>> {
        loop {
            match self.stage {
                CompactionStage::FreeSpace => {
                    self.stage = CompactionStage::Combine;
                    return Ok(vec![(CompactionStep::FreeSpace, Operation::FreeSpace)]);
                }
                CompactionStage::Combine => {
                    if let Some(operation) = self.next_write() {
                        return Ok(vec![operation]);
                    }
                    if self.combiner.decode_one(time)? {
                        if time.is_over() || !self.too_large(&[]).is_empty() {
                            return Ok(Vec::new());
                        }
                        continue;
                    }
                    let combined = self.combiner.step(time)?;
                    self.finished.append(&mut self.combiner.ended);
                    match combined {
                        Combined::Missing(reads) => {
                            let reads = reads.into_iter();
                            return Ok(reads
                                .map(|(number, read)| (CompactionStep::Read(number), read))
                                .collect());
                        }
                        Combined::Ready => {}
                        Combined::TimeIsOver => return Ok(Vec::new()),
                        Combined::Complete => self.stage = CompactionStage::Finish,
                    }
                }
                CompactionStage::Finish => {
                    if let Some(operation) = self.next_write() {
                        return Ok(vec![operation]);
                    }
                    match self.combiner.finish_one(time)? {
                        Finished::File(output) => self.finished.push(output),
                        Finished::NotYet => return Ok(Vec::new()),
                        Finished::Nothing => self.stage = CompactionStage::Sync(0),
                    }
                }
                CompactionStage::Sync(number) => {
                    let Some(output) = self.finished.get_mut(number) else {
                        let has_files = !self.finished.is_empty();
                        self.stage = if has_files {
                            CompactionStage::SyncDirectory
                        } else {
                            CompactionStage::Ready
                        };
                        continue;
                    };
                    self.stage = CompactionStage::Sync(number + 1);
                    output.file = self.created.get(&output.summary.id).map(|created| created.file);
                    let Some(file) = output.file else { continue };
                    let id = output.summary.id;
                    return Ok(vec![(CompactionStep::Sync(id), Operation::Sync { file })]);
                }
                CompactionStage::SyncDirectory => {
                    self.stage = CompactionStage::Ready;
                    return Ok(vec![(CompactionStep::SyncDirectory, Operation::SyncDirectory)]);
                }
                CompactionStage::Ready => return Ok(Vec::new()),
            }
        }
    }

    /// Writes a piece that is ready, or creates its file.
    fn next_write(&mut self) -> Option<(CompactionStep, Operation)> {
        let piece_bytes = self.combiner.writers.piece_bytes;
        let is_full =
            |pieces: &Vec<Buffer>| pieces.first().is_some_and(|one| one.len() >= piece_bytes);
        let mut open =
            self.combiner.writers.open.values_mut().map(|open| (open.id, &mut open.pieces));
        let found = open.find(|(_, pieces)| is_full(pieces));
        let mut finished =
            self.finished.iter_mut().map(|output| (output.summary.id, &mut output.pieces));
        let (id, pieces) = found.or_else(|| finished.find(|(_, pieces)| !pieces.is_empty()))?;
        let Some(CreatedFile { file, written, synced }) = self.created.get_mut(&id) else {
            return Some((CompactionStep::Create(id), Operation::Create { name: id.file_name() }));
        };
        if *written - *synced >= SYNC_BYTES {
            *synced = *written;
            return Some((CompactionStep::Sync(id), Operation::Sync { file: *file }));
        }
        let (file, offset, buffer) = (*file, *written, pieces.remove(0));
        *written += buffer.len() as u64;
        Some((CompactionStep::Write(id), Operation::Write { file, offset, buffer, durable: false }))
    }

    /// The inputs that take too much memory, with what is to be read of them; none if there is
    /// enough for all.
    fn too_large(&self, coming: &[(CompactionStep, Operation)]) -> Vec<SstableId> {
        let mut needs: Vec<usize> = self.combiner.inputs.iter().map(InputFile::bytes).collect();
        let mut all = self.bytes();
        for (step, operation) in coming {
            if let (CompactionStep::Read(number), Operation::Read { bytes, .. }) = (step, operation)
            {
                needs[*number] += bytes;
                all += bytes;
            }
        }
        if all <= self.memory_max {
            return Vec::new();
        }
        let part = self.memory_max / 2 / needs.len().max(1);
        let part = needs.iter().copied().max().unwrap_or(0).min(part);
        let large = needs.iter().zip(&self.inputs).filter(|(need, _)| **need >= part);
        large.map(|(_, id)| *id).collect()
    }

    fn is_ready(&self) -> bool {
        self.stage == CompactionStage::Ready && self.in_flight == 0
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let pieces = self.finished.iter().flat_map(|output| &output.pieces);
        self.combiner.bytes() + pieces.map(Buffer::memory_bytes).sum::<usize>()
    }
}

/// What a store knows of compaction.
#[derive(Default)]
pub(super) struct Compacting {
    pub current: Option<Compaction>,
    /// Sstables came or went, or were found wanting, since the last choice.
    pub is_due: bool,
    /// The next second since the Unix epoch at which an sstable is to be written anew for its
    /// tombstones, for all that is known now.
    rewrite_due_s: Option<i64>,
    /// Not before this moment, because the disk was full.
    pause_until_us: u64,
    /// Sstables that cannot be read, or of which there is no memory for several blocks at a time.
    left_alone: BTreeSet<SstableId>,
    /// The table that was compacted last, whose turn comes after the others'.
    last: Option<TableNumber>,
    /// Nothing is forgotten: what was to be so has hidden something that came meanwhile.
    keeps_all: bool,
    /// Thousandths of the time that it may take.
    pub share: u64,
    /// What the operator asked for.
    pub major: Major,
    /// Files that are being removed, and their tables.
    pub leaving: BTreeMap<SstableId, TableNumber>,
    /// What other shards have made of sstables is being opened.
    taken_over: Vec<TakeOver>,
}

impl Store {
    /// When compaction goes on, by what has elapsed; `None` not before something happens.
    pub(super) fn compaction_due_us(&self) -> Option<u64> {
        match &self.compacting.current {
            Some(current) if current.in_flight > 0 => None,
            Some(current) if current.is_ready() => matches!(self.task, Task::Idle).then_some(0),
            Some(current) => Some(current.bursts.next_us),
            None if self.may_choose() => Some(self.compacting.pause_until_us),
            None => self.rewrite_due_us(),
        }
    }

    /// Whether there is something to choose from, none of which is on its way out.
    fn may_choose(&self) -> bool {
        let is_removing = match &self.task {
            Task::Write(script) | Task::Pause(script, _) => !script.removed.is_empty(),
            Task::Idle | Task::Encode(..) => false,
        };
        self.compacting.is_due && !self.closing && !is_removing
    }

    fn begin_compaction(&mut self, chosen: Chosen) {
        let Chosen { table, inputs, splits, keeps_all, share_min } = chosen;
        let Some(settings) = self.tables.get(&table).map(|table| table.settings.clone()) else {
            return;
        };
        let keeps_all = keeps_all || self.compacting.keeps_all;
        let ids: Vec<SstableId> = inputs.iter().map(|input| input.summary.id).collect();
        let oldest_us = self.oldest_elsewhere(table, &ids).unwrap_or(i64::MAX);
        let forgettable = Forgettable {
            written_before_us: if keeps_all { i64::MIN } else { oldest_us },
            dead_until_s: self.clock.now_s().saturating_sub(i64::from(settings.gc_grace_s)),
        };
        let window_us = settings.window_us.map(|window_us| window_us.max(1));
        let newest = inputs.iter().map(|input| input.summary.timestamp_max).max().unwrap_or(0);
        let target = match window_us {
            Some(window_us) if splits => Destination::Windows(window_us),
            _ => Destination::One(window_us.map_or(0, |window_us| newest.div_euclid(window_us))),
        };
        let owner = (self.epoch, self.shard);
        let memory_max = MEMORY_BYTES.max(self.config.cache_bytes_max / 2);
        let mut writers =
            WindowWriters::new(owner, self.file_numbers.clone(), &self.config, self.clock.now_s());
        // One piece is filled and another on its way, beside what is read; of each window.
        let summaries = inputs.iter().map(|input| &input.summary);
        let files = match window_us {
            Some(window_us) if splits => windows_of(summaries, window_us),
            _ => 1,
        };
        writers.piece_bytes = writers.piece_bytes.min(memory_max / PIECE_PART / files).max(4 << 10);
        let needed_bytes: u64 = inputs.iter().map(|input| input.summary.bytes).sum();
        let old_bytes: usize = inputs.iter().map(|input| input.index.memory_bytes()).sum();
        writers.index_room = self.index_room(self.index_bytes.saturating_sub(old_bytes));
        let reserve_bytes = self.config.log_segment_bytes * 4
            + (self.config.memtable_bytes_max as u64).saturating_mul(2);
        let inputs = inputs.into_iter().map(InputFile::new).collect();
        self.compacting.last = Some(table);
        self.compacting.current = Some(Compaction {
            table,
            inputs: ids,
            combiner: Combiner::new(
                (table, target, self.config.shards),
                inputs,
                writers,
                forgettable,
                settings.dropped,
            ),
            needed_bytes: needed_bytes.saturating_add(reserve_bytes),
            memory_max,
            stage: CompactionStage::FreeSpace,
            in_flight: 0,
            is_given_up: false,
            created: BTreeMap::new(),
            finished: Vec::new(),
            bursts: Bursts::default(),
            share_min,
        });
    }

    /// The oldest timestamp of a table in memory and in sstables that are not these.
    fn oldest_elsewhere(&self, table: TableNumber, but: &[SstableId]) -> Option<i64> {
        let table = self.tables.get(&table)?;
        let others = table.sstables.iter().map(|sstable| &sstable.summary);
        let others = others.filter(|summary| !but.contains(&summary.id));
        let flushing = table.flushing.as_ref().and_then(|memtable| memtable.timestamp_min());
        let in_memory = table.active.timestamp_min().into_iter().chain(flushing);
        others.map(|summary| summary.timestamp_min).chain(in_memory).min()
    }

    /// Goes on with the compaction at hand, if its time has come.
    pub(super) fn compact(&mut self) {
        let now_us = self.clock.elapsed_us();
        let Some(current) = &mut self.compacting.current else { return };
        if current.in_flight > 0 {
            return;
        }
        if current.is_given_up || self.closing || !self.tables.contains_key(&current.table) {
            return self.give_compaction_up();
        }
        if now_us < current.bursts.next_us || current.is_ready() {
            return;
        }
        let mut time = TimeSlice::new(&*self.clock, TURN_US);
        let result = current.step(&mut time);
        let share = self.compacting.share.max(current.share_min).max(1);
        current.bursts.took(now_us, self.clock.elapsed_us(), share);
        let unreadable = current.combiner.order.unreadable;
        let operations = match result {
            Ok(operations) => operations,
            Err(error) => return self.compaction_failed(unreadable, &error),
        };
        let too_large = current.too_large(&operations);
        if !too_large.is_empty() {
            return self.leave_alone(too_large);
        }
        current.in_flight = operations.len();
        for (step, operation) in operations {
            self.submit(operation, InFlight::Compaction(step));
        }
    }

    /// An operation of the compaction is over.
    pub(super) fn compaction_over(
        &mut self,
        step: CompactionStep,
        over: Completion,
    ) -> Result<(), Fatal> {
        let Some(current) = &mut self.compacting.current else { return Ok(()) };
        current.in_flight -= 1;
        let outcome = match (step, over.result) {
            (CompactionStep::Read(number), result) => {
                let bytes = over.buffer.unwrap_or_default();
                self.metrics.compaction_read_bytes += bytes.len() as u64;
                if current.is_given_up {
                    return Ok(());
                }
                if let Err(error) = result {
                    self.compaction_failed(Some(number), &error);
                } else if let Some(input) = current.combiner.inputs.get_mut(number) {
                    input.take(bytes);
                }
                return Ok(());
            }
            (_, Ok(outcome)) => outcome,
            (step, Err(error))
                if is_passing(&error) || matches!(step, CompactionStep::FreeSpace) =>
            {
                self.wait_for_space();
                return Ok(());
            }
            (
                CompactionStep::Create(id) | CompactionStep::Write(id) | CompactionStep::Sync(id),
                Err(error),
            ) => return Err(Error::io(id.file_name(), error).into()),
            (_, Err(error)) => return Err(Error::io(".", error).into()),
        };
        if let Outcome::Space { bytes } = outcome
            && bytes < current.needed_bytes
        {
            self.wait_for_space();
            return Ok(());
        }
        if let (CompactionStep::Create(id), Outcome::Opened { file, .. }) = (step, outcome) {
            current.created.insert(id, CreatedFile { file, written: 0, synced: 0 });
        }
        if let (CompactionStep::Write(_), Some(buffer)) = (step, over.buffer) {
            self.metrics.compaction_written_bytes += buffer.len() as u64;
            current.combiner.spare.push(buffer);
        }
        Ok(())
    }

    /// An input of the compaction, by its number, cannot be read; or it is not known which.
    fn compaction_failed(&mut self, input: Option<usize>, error: &io::Error) {
        let Some(current) = &mut self.compacting.current else { return };
        let inputs = current.inputs.iter().enumerate();
        let bad = inputs.filter(|(number, _)| input.is_none_or(|bad| bad == *number));
        let bad: BTreeSet<_> = bad.map(|(_, id)| *id).collect();
        let files: Vec<_> = bad.iter().map(SstableId::file_name).collect();
        log::error!(error:% = error, files:? = files; "a compaction has failed");
        self.metrics.compactions_failed += 1;
        self.compacting.left_alone.extend(bad);
        current.is_given_up = true;
    }

    /// There is no memory to compact these sstables.
    fn leave_alone(&mut self, sstables: Vec<SstableId>) {
        if !self.compacting.try_fewer() {
            self.compacting.left_alone.extend(sstables);
            self.metrics.compactions_no_memory += 1;
        }
        self.compacting.current.iter_mut().for_each(|current| current.is_given_up = true);
    }

    /// The disk is full, or nearly: what the compaction has written so far goes.
    fn wait_for_space(&mut self) {
        let tries_fewer = self.compacting.try_fewer();
        self.compacting.current.iter_mut().for_each(|current| current.is_given_up = true);
        if tries_fewer {
            return;
        }
        self.metrics.compactions_no_space += 1;
        let pause_us = NO_SPACE_PAUSE_US * NO_SPACE_PAUSES;
        self.compacting.pause_until_us = self.clock.elapsed_us().saturating_add(pause_us);
    }

    /// Nothing of the compaction at hand counts: its files go. None of its operations is under way.
    fn give_compaction_up(&mut self) {
        let Some(current) = self.compacting.current.take() else { return };
        for (id, CreatedFile { file, .. }) in current.created {
            self.close(file);
            self.remove_file(id, current.table);
        }
        self.compacting.is_due = true;
    }

    /// Has the compaction at hand count, if everything that it wrote is on the device. False if
    /// there is nothing of the kind.
    pub(super) fn replace_compacted(&mut self) -> bool {
        let Some(current) = &self.compacting.current else { return false };
        if !current.is_ready() || current.is_given_up || self.closing {
            return false;
        }
        let oldest_us = self.oldest_elsewhere(current.table, &current.inputs);
        let forgotten_us = current.combiner.forgotten_us;
        if forgotten_us.is_some_and(|us| oldest_us.is_some_and(|oldest_us| oldest_us <= us)) {
            self.compacting.keeps_all = true;
            self.give_compaction_up();
            return false;
        }
        let Some(current) = self.compacting.current.take() else { return false };
        self.compacting.keeps_all = false;
        self.metrics.compactions += 1;
        self.metrics.compactions_forgetting += u64::from(forgotten_us.is_some());
        self.task = Task::Write(Script::replace(current.finished, current.inputs));
        true
    }
}
