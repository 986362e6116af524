//! What the logs hold becomes sstables of the new run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    commitlog::{EntryKind, SegmentId, entries, first_format::FirstReplay, replay::Replay},
    directory::{
        RunManifest, Sequential,
        manifest::{NO_SHARD, NeededLog},
    },
    error::{Error, Result},
    io::TimeSlice,
    memtable::Pool,
    mutation::{TableNumber, mutations, token::shard_of},
    schema::TableSettings,
    sstable::Summary,
    store::{
        StoreConfig, TableData,
        background::{Encoded, Encoder, FileNumbers, Output},
    },
};

/// What the logs are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ReplayPurpose {
    /// To find out whether they can be read. Nothing is written.
    Judge,
    /// To bring back what is in them.
    Apply,
}

/// Reads the logs of the manifest's run.
pub(in crate::store) fn replay(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    manifest: &RunManifest,
    recovery: &mut Recovery<'_>,
) -> Result<()> {
    let mut shards: BTreeMap<u16, Vec<SegmentId>> =
        manifest.logs.keys().map(|shard| (*shard, Vec::new())).collect();
    for segment in names.iter().filter_map(|name| SegmentId::of_name(name)) {
        if segment.epoch == manifest.epoch {
            shards.entry(segment.shard).or_default().push(segment);
        }
    }
    for (shard, mut segments) in shards {
        segments.sort_unstable();
        let needed = manifest.logs.get(&shard).cloned().unwrap_or_default();
        segments.retain(|segment| segment.number >= needed.floor);
        if manifest.is_of_first_version() {
            replay_first_format(files, &needed, &segments, recovery)?;
        } else if needed.is_begun {
            replay_shard(files, (manifest.epoch, shard), &needed, &segments, recovery)?;
        } else {
            check_unused(files, &segments)?;
        }
        recovery.end_of_shard(files)?;
    }
    Ok(())
}

fn replay_shard(
    files: &mut Sequential<'_>,
    (epoch, shard): (u32, u16),
    needed: &NeededLog,
    segments: &[SegmentId],
    recovery: &mut Recovery<'_>,
) -> Result<()> {
    let mut replay = Replay::new(epoch, shard, needed.floor);
    for segment in segments {
        let bytes = files.read_file(&segment.name())?;
        replay.segment(segment.number, bytes.as_slice(), |block, payload| {
            recovery.block(segment, payload, |table| needed.is_flushed(table, block))
        })?;
        recovery.flush_if_large(files)?;
    }
    replay.finish(needed.end)
}

fn replay_first_format(
    files: &mut Sequential<'_>,
    needed: &NeededLog,
    segments: &[SegmentId],
    recovery: &mut Recovery<'_>,
) -> Result<()> {
    let Some(first) = segments.first() else { return Ok(()) };
    let mut replay = FirstReplay::new(first.epoch, first.shard, needed.floor);
    for segment in segments {
        let bytes = files.read_file(&segment.name())?;
        replay.segment(segment.number, bytes.as_slice(), |block, payload| {
            recovery.block(segment, payload, |table| needed.is_flushed(table, block))
        })?;
        recovery.flush_if_large(files)?;
    }
    Ok(())
}

/// The run ended before its journal said that the log had begun: nothing was written to it.
fn check_unused(files: &mut Sequential<'_>, segments: &[SegmentId]) -> Result<()> {
    for segment in segments {
        let bytes = files.read_file(&segment.name())?;
        let mut replay = Replay::new(segment.epoch, segment.shard, segment.number);
        replay.segment(segment.number, bytes.as_slice(), |_, _| {
            let what = "this segment of the commit log has blocks, but the journal of its shard \
                        does not say that the log had begun. Restore this directory from a backup";
            Err(Error::corrupt(segment.name(), 0, what))
        })?;
    }
    Ok(())
}

/// Rows that come back from the logs.
pub(in crate::store) struct Recovery<'a> {
    config: &'a StoreConfig,
    epoch: u32,
    /// Seconds since the Unix epoch.
    now_s: i64,
    settings: &'a BTreeMap<TableNumber, TableSettings>,
    purpose: ReplayPurpose,
    /// The tables of each shard, so that a file has rows of one.
    tables: Vec<BTreeMap<TableNumber, TableData>>,
    pool: Pool,
    /// Intents of the shard at hand that are not known to be done.
    intents: BTreeMap<u64, Vec<u8>>,
    numbers: FileNumbers,
    /// The sstables of the new run.
    pub written: Vec<Summary>,
    /// Whether the logs had anything.
    pub has_blocks: bool,
}

impl<'a> Recovery<'a> {
    pub fn new(
        config: &'a StoreConfig,
        (epoch, now_s): (u32, i64),
        settings: &'a BTreeMap<TableNumber, TableSettings>,
        purpose: ReplayPurpose,
    ) -> Self {
        Self {
            config,
            epoch,
            now_s,
            settings,
            purpose,
            tables: (0..config.shards).map(|_| BTreeMap::new()).collect(),
            pool: Pool::new(config.memtable_bytes_max / 2),
            intents: BTreeMap::new(),
            numbers: FileNumbers::default(),
            written: Vec::new(),
            has_blocks: false,
        }
    }

    /// Applies a block, but for writes to tables in whose sstables they are.
    fn block(
        &mut self,
        segment: &SegmentId,
        payload: &[u8],
        is_flushed: impl Fn(TableNumber) -> bool,
    ) -> Result<()> {
        self.has_blocks = true;
        for entry in entries(payload) {
            match entry.kind {
                EntryKind::Write => self.apply(segment, entry.mutations, &is_flushed)?,
                EntryKind::Intent { id } => {
                    self.intents.insert(id, entry.mutations.to_vec());
                }
                EntryKind::IntentDone { id } => {
                    self.intents.remove(&id);
                }
                EntryKind::Continued => {}
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        segment: &SegmentId,
        bytes: &[u8],
        is_flushed: impl Fn(TableNumber) -> bool,
    ) -> Result<()> {
        for mutation in mutations(bytes) {
            let mutation = mutation
                .and_then(|mutation| mutation.check().map(|()| mutation))
                .map_err(|error| Error::corrupt(segment.name(), 0, error.to_string()))?;
            if self.purpose == ReplayPurpose::Judge || is_flushed(mutation.table()) {
                continue;
            }
            // A table that was dropped is not missed.
            let Some(settings) = self.settings.get(&mutation.table()) else { continue };
            let new = || TableData { settings: settings.clone(), ..TableData::default() };
            let shard = shard_of(mutation.token(), self.config.shards);
            self.tables[usize::from(shard)]
                .entry(mutation.table())
                .or_insert_with(new)
                .active
                .apply(&mutation, &mut self.pool);
        }
        Ok(())
    }

    /// All of a shard's log was read: intents that are open happen now.
    fn end_of_shard(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        let nowhere = SegmentId { epoch: self.epoch, shard: NO_SHARD, number: 0 };
        for (_, mutations) in std::mem::take(&mut self.intents) {
            self.apply(&nowhere, &mutations, |_| false)?;
        }
        self.flush_if_large(files)
    }

    fn flush_if_large(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        let tables = self.tables.iter().flat_map(BTreeMap::values);
        let bytes: usize = tables.map(|table| table.active.bytes()).sum();
        if bytes > self.config.memtable_bytes_max / 2 { self.flush(files) } else { Ok(()) }
    }

    pub fn flush(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        for shard in 0..self.tables.len() {
            self.flush_shard(shard, files)?;
        }
        Ok(())
    }

    fn flush_shard(&mut self, shard: usize, files: &mut Sequential<'_>) -> Result<()> {
        let mut tables = std::mem::take(&mut self.tables[shard]);
        for table in tables.values_mut() {
            table.flushing = Some(std::mem::take(&mut table.active).freeze());
        }
        let owner = (self.epoch, NO_SHARD);
        let written = (self.config, self.now_s);
        let mut encoder = Encoder::new(owner, self.numbers.clone(), &tables, written, Vec::new());
        let Encoded { outputs, .. } = loop {
            if let Some(done) =
                encoder.step(&mut TimeSlice::endless()).map_err(|error| Error::io(".", error))?
            {
                break done;
            }
        };
        for Output { summary, pieces, .. } in outputs {
            files.write_file(&summary.id.file_name(), pieces)?;
            self.written.push(summary);
        }
        for memtable in tables.into_values().filter_map(|table| table.flushing) {
            if let Some(mut memtable) = Arc::into_inner(memtable) {
                memtable.recycle(&mut self.pool, &mut TimeSlice::endless());
            }
        }
        Ok(())
    }
}
