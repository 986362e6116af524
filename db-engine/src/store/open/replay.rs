//! What the logs hold becomes sstables of the new run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    commitlog::{EntryKind, SegmentId, entries, replay::Replay},
    directory::{RunManifest, Sequential, manifest::NO_SHARD},
    error::{Error, Result},
    io::TimeSlice,
    memtable::Pool,
    mutation::{TableNumber, mutations},
    schema::TableSettings,
    sstable::Summary,
    store::{
        StoreConfig, Table,
        background::{Encoded, Encoder, Output},
    },
};

/// What the logs are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find out whether they can be read. Nothing is written.
    Judge,
    /// To bring back what is in them.
    Apply,
}

/// Reads the logs of the manifest's run.
pub(super) fn replay(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    manifest: &RunManifest,
    recovery: &mut Recovery<'_>,
) -> Result<()> {
    let mut segments: Vec<SegmentId> = names
        .iter()
        .filter_map(|name| SegmentId::of_name(name))
        .filter(|segment| segment.epoch == manifest.epoch)
        .collect();
    segments.sort_unstable();
    let mut current: Option<(u16, Replay)> = None;
    for segment in segments {
        let (floor, sequence) = manifest.flushed.get(&segment.shard).copied().unwrap_or_default();
        if segment.number < floor {
            continue;
        }
        let (_, replay) = match &mut current {
            Some(current) if current.0 == segment.shard => current,
            _ => {
                recovery.end_of_shard(files)?;
                let replay = Replay::new(segment.epoch, segment.shard, floor);
                current.insert((segment.shard, replay))
            }
        };
        let bytes = files.read_file(&segment.name())?;
        replay.segment(segment.number, bytes.as_slice(), |block, payload| {
            recovery.block(&segment, payload, block <= sequence)
        })?;
        recovery.flush_if_large(files)?;
    }
    recovery.end_of_shard(files)
}

/// Rows that come back from the logs.
pub(super) struct Recovery<'a> {
    config: &'a StoreConfig,
    epoch: u32,
    settings: &'a BTreeMap<TableNumber, TableSettings>,
    purpose: Purpose,
    tables: BTreeMap<TableNumber, Table>,
    pool: Pool,
    /// Intents of the shard at hand that are not known to be done.
    intents: BTreeMap<u64, Vec<u8>>,
    next_file: u32,
    /// The sstables of the new run.
    pub written: Vec<Summary>,
    /// Whether the logs had anything.
    pub has_blocks: bool,
}

impl<'a> Recovery<'a> {
    pub fn new(
        config: &'a StoreConfig,
        epoch: u32,
        settings: &'a BTreeMap<TableNumber, TableSettings>,
        purpose: Purpose,
    ) -> Self {
        Self {
            config,
            epoch,
            settings,
            purpose,
            tables: BTreeMap::new(),
            pool: Pool::new(config.memtable_bytes_max / 2),
            intents: BTreeMap::new(),
            next_file: 0,
            written: Vec::new(),
            has_blocks: false,
        }
    }

    /// Applies a block; of one whose writes are in sstables, only what it says of intents.
    fn block(&mut self, segment: &SegmentId, payload: &[u8], is_flushed: bool) -> Result<()> {
        self.has_blocks = true;
        for entry in entries(payload) {
            match entry.kind {
                EntryKind::Write if is_flushed => {}
                EntryKind::Write => self.apply(segment, entry.mutations)?,
                EntryKind::Intent { id } => {
                    self.intents.insert(id, entry.mutations.to_vec());
                }
                EntryKind::IntentDone { id } => {
                    self.intents.remove(&id);
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, segment: &SegmentId, bytes: &[u8]) -> Result<()> {
        for mutation in mutations(bytes) {
            let mutation = mutation
                .and_then(|mutation| mutation.check().map(|()| mutation))
                .map_err(|error| Error::corrupt(segment.name(), 0, error.to_string()))?;
            if self.purpose == Purpose::Judge {
                continue;
            }
            // A table that was dropped is not missed.
            let Some(settings) = self.settings.get(&mutation.table()) else { continue };
            let new = || Table { settings: *settings, ..Table::default() };
            self.tables
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
            self.apply(&nowhere, &mutations)?;
        }
        self.flush_if_large(files)
    }

    fn flush_if_large(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        let bytes: usize = self.tables.values().map(|table| table.active.bytes()).sum();
        if bytes > self.config.memtable_bytes_max / 2 { self.flush(files) } else { Ok(()) }
    }

    pub fn flush(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        let mut tables = std::mem::take(&mut self.tables);
        for table in tables.values_mut() {
            table.flushing = Some(std::mem::take(&mut table.active).freeze());
        }
        let (owner, piece_bytes) = ((self.epoch, NO_SHARD), self.config.flush_write_bytes);
        let mut encoder = Encoder::new(owner, self.next_file, &tables, piece_bytes, Vec::new());
        let Encoded { outputs, next_file, .. } = loop {
            if let Some(done) =
                encoder.step(&mut TimeSlice::endless()).map_err(|error| Error::io(".", error))?
            {
                break done;
            }
        };
        self.next_file = next_file;
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
