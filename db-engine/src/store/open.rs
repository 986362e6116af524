//! Opening a directory: whatever happened before, everything acknowledged comes back.
//!
//! The newest checkpoint and the journals of its run tell which sstables there are; the logs of
//! that run have the rest. What is in the logs is flushed into new sstables, and a new checkpoint
//! is the one moment at which all of this counts. ADR 0002 has the reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::Arc,
};

use super::{
    StoreConfig, Table,
    background::{Encoded, Encoder, Output},
    table::extent,
};
use crate::{
    commitlog::{EntryKind, SegmentId, entries, replay::Replay},
    compaction::expiry::droppable,
    error::{Error, Result},
    io::{Buffer, Completion, FileId, Files, Operation, Outcome},
    memtable::Pool,
    mutation::{TableNumber, mutations},
    schema::TableSettings,
    sstable::{
        FOOTER_BYTES, Index, SstableId, Summary,
        manifest::{
            Change, checkpoint_name, decode_checkpoint, decode_journal, encode_checkpoint,
            parse_name,
        },
        read_footer, read_index,
    },
};

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.tmp";
const CHECKPOINT_NEW: &str = "manifest.tmp";

const FORMAT_MAGIC: [u8; 8] = *b"SANDGLDB";

/// The version of all formats in a directory together.
const FORMAT_VERSION: u32 = 1;

/// Sstables written while opening are those of no shard.
const NO_SHARD: u16 = u16::MAX;

/// What opening found.
pub(super) struct Opened {
    /// This run.
    pub epoch: u32,
    /// All sstables.
    pub sstables: Vec<Summary>,
}

/// Carries operations out one after the other. For start-up only: it waits.
pub(super) struct Sequential<'a>(pub &'a mut dyn Files);

impl Sequential<'_> {
    fn complete(&mut self, operation: Operation) -> Completion {
        self.0.submit(operation);
        let mut completions = Vec::new();
        self.0.wait(&mut completions);
        completions.pop().expect("the one that was waited for")
    }

    pub fn run(&mut self, name: &str, operation: Operation) -> Result<Outcome> {
        self.complete(operation).result.map_err(|error| Error::io(name, error))
    }

    pub fn open(&mut self, name: &str) -> Result<(FileId, u64)> {
        match self.run(name, Operation::Open { name: name.into() })? {
            Outcome::Opened { file, bytes } => Ok((file, bytes)),
            _ => Err(unexpected(name)),
        }
    }

    pub fn create(&mut self, name: &str, preallocate_bytes: u64) -> Result<FileId> {
        let operation = Operation::Create { name: name.into(), preallocate_bytes };
        match self.run(name, operation)? {
            Outcome::Opened { file, .. } => Ok(file),
            _ => Err(unexpected(name)),
        }
    }

    pub fn read(&mut self, name: &str, file: FileId, offset: u64, bytes: u64) -> Result<Buffer> {
        let bytes = usize::try_from(bytes).map_err(|_| unexpected(name))?;
        let buffer = Buffer::with_capacity(bytes);
        let over = self.complete(Operation::Read { file, offset, bytes, buffer });
        over.result.map_err(|error| Error::io(name, error))?;
        over.buffer.ok_or_else(|| unexpected(name))
    }

    fn read_file(&mut self, name: &str) -> Result<Buffer> {
        let (file, bytes) = self.open(name)?;
        let buffer = self.read(name, file, 0, bytes)?;
        self.run(name, Operation::Close { file })?;
        Ok(buffer)
    }

    fn write_file(&mut self, name: &str, pieces: Vec<Buffer>) -> Result<()> {
        let file = self.create(name, 0)?;
        let mut offset = 0;
        for buffer in pieces {
            let bytes = buffer.len() as u64;
            self.run(name, Operation::Write { file, offset, buffer, durable: false })?;
            offset += bytes;
        }
        self.run(name, Operation::Sync { file })?;
        self.run(name, Operation::Close { file })?;
        Ok(())
    }

    /// Replaces a file: afterwards there is the old one or the new one, whole.
    fn replace_file(&mut self, new: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(bytes);
        self.write_file(new, vec![buffer])?;
        self.run(name, Operation::Rename { from: new.into(), to: name.into() })?;
        self.run(name, Operation::SyncDirectory)?;
        Ok(())
    }

    fn names(&mut self) -> Result<BTreeSet<String>> {
        match self.run(".", Operation::List)? {
            Outcome::Names(names) => Ok(names.into_iter().collect()),
            _ => Err(unexpected(".")),
        }
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.run(name, Operation::Remove { name: name.into() })?;
        Ok(())
    }
}

fn unexpected(name: &str) -> Error {
    Error::io(name, io::Error::other("the operation gave something else than was asked for"))
}

/// Takes the directory, which must be ours or empty.
pub(super) fn claim(files: &mut Sequential<'_>) -> Result<()> {
    let locked = files.complete(Operation::Lock { name: LOCK.into() });
    if let Err(error) = locked.result {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(Error::io(LOCK, error));
        }
        let what = "another engine is using this directory. Stop it, or choose another directory \
                    with --data-dir";
        return Err(Error::Unusable { path: LOCK.into(), what: what.into() });
    }
    let names = files.names()?;
    if names.contains(FORMAT) {
        let bytes = files.read_file(FORMAT)?;
        return check_format(bytes.as_slice());
    }
    if let Some(name) = names.iter().find(|name| ![LOCK, FORMAT_NEW].contains(&name.as_str())) {
        let what = format!(
            "the directory has no file {FORMAT}, so it is not a database, and it is not empty \
             either. Choose an empty or a new directory with --data-dir"
        );
        return Err(Error::Unusable { path: name.into(), what });
    }
    let mut bytes = FORMAT_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    files.replace_file(FORMAT_NEW, FORMAT, &bytes)
}

fn check_format(bytes: &[u8]) -> Result<()> {
    let unusable = |what: String| Err(Error::Unusable { path: FORMAT.into(), what });
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
        return unusable("it is cut short. Restore the directory from a backup".into());
    };
    let version = body
        .strip_prefix(&FORMAT_MAGIC)
        .and_then(|version| version.first_chunk())
        .map(|version| u32::from_le_bytes(*version));
    match version {
        None => unusable("this is not a database of Sandglass. Choose another --data-dir".into()),
        Some(version) if version > FORMAT_VERSION => unusable(format!(
            "the directory has format {version}, and this engine knows formats up to \
             {FORMAT_VERSION}. Use the engine that wrote it, or a newer one"
        )),
        Some(version)
            if version < FORMAT_VERSION || crc32fast::hash(body) != u32::from_le_bytes(*sum) =>
        {
            unusable("it is damaged. Restore the directory from a backup".into())
        }
        Some(_) => Ok(()),
    }
}

/// What is known of a run from its manifests.
#[derive(Default)]
struct Manifest {
    epoch: u32,
    sstables: BTreeMap<SstableId, Summary>,
    /// By shard: the first segment that is needed, and the last block that is not.
    flushed: BTreeMap<u16, (u32, u64)>,
}

/// Brings the directory up to date and begins a new run.
pub(super) fn recover(
    config: &StoreConfig,
    files: &mut Sequential<'_>,
    tables: &BTreeMap<TableNumber, TableSettings>,
    now_s: i64,
) -> Result<Opened> {
    let names = files.names()?;
    let mut manifest = read_manifest(files, &names)?;
    let epoch = manifest.epoch + 1;
    // Leftovers of a run that did not get as far as its checkpoint.
    remove_if(files, &names, |name| {
        SstableId::from_file_name(name).is_some_and(|id| !manifest.sstables.contains_key(&id))
            || name == CHECKPOINT_NEW
    })?;
    let mut obsolete: BTreeSet<SstableId> = manifest
        .sstables
        .values()
        .filter(|summary| !tables.contains_key(&summary.table))
        .map(|summary| summary.id)
        .collect();
    manifest.sstables.retain(|id, _| !obsolete.contains(id));

    let mut recovery = Recovery::new(config, epoch, tables);
    replay(files, &names, &manifest, &mut recovery)?;
    recovery.flush(files)?;
    for summary in recovery.written {
        manifest.sstables.insert(summary.id, summary);
    }
    for id in expired(&manifest.sstables, tables, now_s) {
        manifest.sstables.remove(&id);
        obsolete.insert(id);
    }

    let sstables: Vec<Summary> = manifest.sstables.into_values().collect();
    let checkpoint = encode_checkpoint(epoch, &sstables);
    files.run(".", Operation::SyncDirectory)?;
    files.replace_file(CHECKPOINT_NEW, &checkpoint_name(epoch), &checkpoint)?;

    let names = files.names()?;
    remove_if(files, &names, |name| {
        SstableId::from_file_name(name).is_some_and(|id| obsolete.contains(&id))
            || SegmentId::of_name(name).is_some()
            || parse_name(name).is_some_and(|(other, _)| other != epoch)
    })?;
    files.run(".", Operation::SyncDirectory)?;
    Ok(Opened { epoch, sstables })
}

fn remove_if(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    is_obsolete: impl Fn(&str) -> bool,
) -> Result<()> {
    names.iter().filter(|name| is_obsolete(name)).try_for_each(|name| files.remove(name))
}

fn read_manifest(files: &mut Sequential<'_>, names: &BTreeSet<String>) -> Result<Manifest> {
    let manifests: Vec<_> = names.iter().filter_map(|name| parse_name(name)).collect();
    let newest = manifests.iter().filter(|(_, shard)| shard.is_none()).map(|(epoch, _)| *epoch);
    let Some(epoch) = newest.max() else { return Ok(Manifest::default()) };
    let name = checkpoint_name(epoch);
    let bytes = files.read_file(&name)?;
    let summaries = decode_checkpoint(epoch, bytes.as_slice())
        .map_err(|error| Error::corrupt(&name, 0, error.to_string()))?;
    let sstables = summaries.into_iter().map(|summary| (summary.id, summary)).collect();
    let mut manifest = Manifest { epoch, sstables, flushed: BTreeMap::new() };
    let journals =
        manifests.iter().filter(|(run, _)| *run == epoch).filter_map(|(_, shard)| *shard);
    for shard in journals {
        let name = crate::sstable::manifest::journal_name(epoch, shard);
        let bytes = files.read_file(&name)?;
        for change in decode_journal(epoch, shard, bytes.as_slice()) {
            match change {
                Change::Add(added) => {
                    manifest
                        .sstables
                        .extend(added.into_iter().map(|summary| (summary.id, summary)));
                }
                Change::Remove(removed) => {
                    manifest.sstables.retain(|id, _| !removed.contains(id));
                }
                Change::Flushed { floor, sequence } => {
                    manifest.flushed.insert(shard, (floor, sequence));
                }
            }
        }
    }
    Ok(manifest)
}

/// Reads the logs of the manifest's run into memtables.
fn replay(
    files: &mut Sequential<'_>,
    names: &BTreeSet<String>,
    manifest: &Manifest,
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
struct Recovery<'a> {
    config: &'a StoreConfig,
    epoch: u32,
    settings: &'a BTreeMap<TableNumber, TableSettings>,
    tables: BTreeMap<TableNumber, Table>,
    pool: Pool,
    /// Intents of the shard at hand that are not known to be done.
    intents: BTreeMap<u64, Vec<u8>>,
    next_file: u32,
    written: Vec<Summary>,
}

impl<'a> Recovery<'a> {
    fn new(
        config: &'a StoreConfig,
        epoch: u32,
        settings: &'a BTreeMap<TableNumber, TableSettings>,
    ) -> Self {
        Self {
            config,
            epoch,
            settings,
            tables: BTreeMap::new(),
            pool: Pool::new(config.memtable_bytes_max / 2),
            intents: BTreeMap::new(),
            next_file: 0,
            written: Vec::new(),
        }
    }

    /// Applies a block; of one whose writes are in sstables, only what it says of intents.
    fn block(&mut self, segment: &SegmentId, payload: &[u8], is_flushed: bool) -> Result<()> {
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

    fn flush(&mut self, files: &mut Sequential<'_>) -> Result<()> {
        let mut tables = std::mem::take(&mut self.tables);
        for table in tables.values_mut() {
            table.flushing = Some(std::mem::take(&mut table.active).freeze());
        }
        let (owner, piece_bytes) = ((self.epoch, NO_SHARD), self.config.flush_write_bytes);
        let mut encoder = Encoder::new(owner, self.next_file, &tables, piece_bytes, Vec::new());
        let Encoded { outputs, next_file, .. } = loop {
            if let Some(done) = encoder.step().map_err(|error| Error::io(".", error))? {
                break done;
            }
        };
        self.next_file = next_file;
        for Output { summary, pieces, .. } in outputs {
            files.write_file(&summary.id.file_name(), pieces)?;
            self.written.push(summary);
        }
        for memtable in tables.into_values().filter_map(|table| table.flushing) {
            if let Some(memtable) = Arc::into_inner(memtable) {
                memtable.recycle(&mut self.pool);
            }
        }
        Ok(())
    }
}

/// The sstables that are of no use any more, over all shards.
fn expired(
    sstables: &BTreeMap<SstableId, Summary>,
    tables: &BTreeMap<TableNumber, TableSettings>,
    now_s: i64,
) -> Vec<SstableId> {
    let ids = tables.iter().flat_map(|(table, settings)| {
        let own = sstables.values().filter(|summary| summary.table == *table);
        let (summaries, extents): (Vec<&Summary>, Vec<_>) =
            own.map(|summary| (summary, extent(summary, settings))).unzip();
        let places = droppable(&extents, None, now_s);
        places.into_iter().map(move |place| summaries[place].id)
    });
    ids.collect()
}

/// Opens an sstable for reading.
pub(super) fn open_sstable(
    files: &mut Sequential<'_>,
    summary: &Summary,
) -> Result<(FileId, Index)> {
    let name = summary.id.file_name();
    let corrupt = |offset: u64, error: io::Error| {
        Error::corrupt(PathBuf::from(&name), offset, error.to_string())
    };
    let (file, bytes) = files.open(&name)?;
    let footer_at = bytes.saturating_sub(FOOTER_BYTES as u64);
    let footer = files.read(&name, file, footer_at, FOOTER_BYTES as u64)?;
    let footer = read_footer(summary.id, bytes, footer.as_slice())
        .map_err(|error| corrupt(footer_at, error))?;
    if footer.summary != *summary {
        return Err(Error::corrupt(&name, footer_at, "the manifest says something else of it"));
    }
    let index = files.read(&name, file, footer.index.offset, u64::from(footer.index.bytes))?;
    let index = read_index(&footer, index.as_slice())
        .map_err(|error| corrupt(footer.index.offset, error))?;
    Ok((file, index))
}
