//! The manifest: which sstables there are.
//!
//! A checkpoint names all sstables with which a run of the engine began; each shard appends the
//! changes it makes during that run to a journal of its own. `docs/format/manifest.md` is the
//! format. Whatever is in a directory but in no manifest is a leftover.

use std::{collections::BTreeMap, io};

use crate::{
    commitlog::LogEnd,
    mutation::{Input, TableNumber},
    sstable::{SUMMARY_BYTES, SstableId, Summary, invalid},
};

const MAGIC: [u8; 8] = *b"SANDMAN2";

/// A checkpoint of the first version, which says of its run only which it is.
const MAGIC_FIRST: [u8; 8] = *b"SANDMAN1";

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const FLUSHED: u8 = 3;
const LOG: u8 = 4;

const TOGETHER: u8 = 5;
const BEGUN: u8 = 6;
const CATALOG: u8 = 7;
const LOG_END: u8 = 8;

/// The number that stands for no shard: files of an opening have it, and the catalog's journal.
pub const NO_SHARD: u16 = u16::MAX;

/// Something that a shard did to the set of sstables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The journal begins. Its first record says this and nothing else.
    Begun,
    /// The catalog was replaced, and this is the one.
    Catalog(CatalogMark),
    /// These are there now, all of them or none: what one flush wrote.
    Add(Vec<Summary>),
    /// These are not there any more.
    Remove(Vec<SstableId>),
    /// Which part of the shard's commit log is not needed any more, as earlier engines wrote it:
    /// their log is of the first format.
    Flushed {
        /// The number of the oldest segment that is.
        floor: u32,
        /// All writes up to this block are in sstables.
        sequence: u64,
    },
    /// Which part of the shard's commit log is needed.
    Log {
        /// The number of the oldest segment that is. It is there, and so are all after it up to the
        /// current one.
        floor: u32,
        /// All writes to these tables up to these blocks are in sstables.
        flushed: Vec<(TableNumber, u64)>,
    },
    /// The shard's commit log is on the device up to here.
    LogEnd(LogEnd),
}

/// Which part of a shard's commit log is needed, by its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeededLog {
    /// The number of the oldest segment that is.
    pub floor: u32,
    /// Whether the journal says that the log had begun. If not, it is of the first format, or
    /// nothing was ever written to it.
    pub is_begun: bool,
    /// Up to where it is there for sure.
    pub end: LogEnd,
    /// Writes up to these blocks are in sstables, by table.
    flushed: BTreeMap<TableNumber, u64>,
    /// Writes up to this block are, to any table.
    flushed_all: u64,
}

impl NeededLog {
    /// Takes note of a change.
    pub fn note(&mut self, change: &Change) {
        match change {
            Change::Flushed { floor, sequence } => {
                (self.floor, self.flushed_all) = (*floor, *sequence);
            }
            Change::Log { floor, flushed } => {
                (self.floor, self.is_begun) = (*floor, true);
                self.flushed.extend(flushed.iter().copied());
            }
            Change::LogEnd(end) => self.end = *end,
            Change::Begun | Change::Catalog(_) | Change::Add(_) | Change::Remove(_) => {}
        }
    }

    /// Whether the writes of this block to this table are in sstables.
    #[must_use]
    pub fn is_flushed(&self, table: TableNumber, sequence: u64) -> bool {
        let up_to = self.flushed.get(&table).copied().unwrap_or(0);
        sequence <= up_to.max(self.flushed_all)
    }
}

/// Which catalog there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogMark {
    /// One more with each change; 0 for a file of the first version.
    pub generation: u64,
    /// The checksum of its file's contents.
    pub checksum: u32,
}

/// What a run of the engine began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The run.
    pub epoch: u32,
    /// How the run began; a checkpoint of the first version does not say it.
    pub start: Option<RunStart>,
    /// All sstables that counted.
    pub sstables: Vec<Summary>,
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// How many shards it has: each has a journal, and so has the catalog.
    pub shards: u16,
    /// The catalog.
    pub catalog: CatalogMark,
    /// Sstables that did not count any more, whose files are to be removed.
    pub obsolete: Vec<SstableId>,
}

/// The name of the checkpoint with which this run began.
#[must_use]
pub fn checkpoint_name(epoch: u32) -> String {
    format!("manifest-{epoch:08}")
}

/// The name of the journal of this shard in this run.
#[must_use]
pub fn journal_name(epoch: u32, shard: u16) -> String {
    format!("manifest-{epoch:08}-{shard:04}")
}

/// The run, and the shard if it is a journal, of the manifest with this name.
#[must_use]
pub fn parse_name(name: &str) -> Option<(u32, Option<u16>)> {
    let mut parts = name.strip_prefix("manifest-")?.split('-');
    let epoch = parts.next()?.parse().ok()?;
    let shard = parts.next().map(str::parse).transpose().ok()?;
    let whole = shard.map_or_else(|| checkpoint_name(epoch), |shard| journal_name(epoch, shard));
    (whole == name).then_some((epoch, shard))
}

/// The bytes of a checkpoint.
///
/// # Panics
///
/// If there are more than 2^32 sstables, or if it does not say how its run began: those of the
/// first version are only read.
#[must_use]
pub fn encode_checkpoint(checkpoint: &Checkpoint) -> Vec<u8> {
    let count = |files: usize| u32::try_from(files).expect("a directory holds fewer files");
    let start = checkpoint.start.as_ref().expect("a run knows how it began");
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&checkpoint.epoch.to_le_bytes());
    out.extend_from_slice(&start.shards.to_le_bytes());
    out.extend_from_slice(&start.catalog.generation.to_le_bytes());
    out.extend_from_slice(&start.catalog.checksum.to_le_bytes());
    out.extend_from_slice(&count(start.obsolete.len()).to_le_bytes());
    for id in &start.obsolete {
        out.extend_from_slice(&id.to_bytes());
    }
    out.extend_from_slice(&count(checkpoint.sstables.len()).to_le_bytes());
    for summary in &checkpoint.sstables {
        summary.encode(&mut out);
    }
    let sum = crc32fast::hash(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a checkpoint.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the bytes are not the checkpoint of this run.
pub fn decode_checkpoint(epoch: u32, bytes: &[u8]) -> io::Result<Checkpoint> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| invalid("it is cut short"))?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(invalid("its checksum is wrong"));
    }
    let parsed = (|| {
        let mut input = Input(body);
        let magic = input.take(MAGIC.len())?;
        if input.u32()? != epoch {
            return None;
        }
        let start = if magic == MAGIC {
            Some(read_start(&mut input)?)
        } else if magic == MAGIC_FIRST {
            None
        } else {
            return None;
        };
        let count = input.u32()? as usize;
        Some(Checkpoint { epoch, start, sstables: summaries(&mut input, count)? })
    })();
    parsed.ok_or_else(|| invalid("it is the manifest of another run or format"))
}

fn read_start(input: &mut Input<'_>) -> Option<RunStart> {
    let shards = input.u16()?;
    let catalog = read_mark(input)?;
    let count = input.u32()? as usize;
    if count > input.0.len() {
        return None;
    }
    let obsolete = (0..count).map(|_| read_id(input)).collect::<Option<_>>()?;
    Some(RunStart { shards, catalog, obsolete })
}

fn read_mark(input: &mut Input<'_>) -> Option<CatalogMark> {
    Some(CatalogMark { generation: input.i64()?.cast_unsigned(), checksum: input.u32()? })
}

fn read_id(input: &mut Input<'_>) -> Option<SstableId> {
    Some(SstableId { epoch: input.u32()?, shard: input.u16()?, sequence: input.u32()? })
}

/// Appends a record of changes, which count together or not at all, to a journal that has `length`
/// bytes so far.
///
/// # Panics
///
/// If the changes name more than 4 GiB of sstables.
pub fn encode_record(epoch: u32, shard: u16, length: u64, changes: &[Change], out: &mut Vec<u8>) {
    let bytes_of =
        |body: &[u8]| u32::try_from(body.len()).expect("a change names a few files").to_le_bytes();
    let body = if let [change] = changes {
        encode_change(change)
    } else {
        let mut together = vec![TOGETHER];
        for change in changes {
            let body = encode_change(change);
            together.extend_from_slice(&bytes_of(&body));
            together.extend_from_slice(&body);
        }
        together
    };
    out.extend_from_slice(&bytes_of(&body));
    out.extend_from_slice(&checksum(epoch, shard, length, &body).to_le_bytes());
    out.extend_from_slice(&body);
}

fn encode_change(change: &Change) -> Vec<u8> {
    let mut body = Vec::new();
    match change {
        Change::Add(added) => {
            body.push(ADD);
            for summary in added {
                summary.encode(&mut body);
            }
        }
        Change::Remove(removed) => {
            body.push(REMOVE);
            for id in removed {
                body.extend_from_slice(&id.to_bytes());
            }
        }
        Change::Begun => body.push(BEGUN),
        Change::Catalog(mark) => {
            body.push(CATALOG);
            body.extend_from_slice(&mark.generation.to_le_bytes());
            body.extend_from_slice(&mark.checksum.to_le_bytes());
        }
        Change::Flushed { floor, sequence } => {
            body.push(FLUSHED);
            body.extend_from_slice(&floor.to_le_bytes());
            body.extend_from_slice(&sequence.to_le_bytes());
        }
        Change::Log { floor, flushed } => {
            body.push(LOG);
            body.extend_from_slice(&floor.to_le_bytes());
            for (table, sequence) in flushed {
                body.extend_from_slice(&table.0.to_le_bytes());
                body.extend_from_slice(&sequence.to_le_bytes());
            }
        }
        Change::LogEnd(LogEnd { segment, sequence }) => {
            body.push(LOG_END);
            body.extend_from_slice(&segment.to_le_bytes());
            body.extend_from_slice(&sequence.to_le_bytes());
        }
    }
    body
}

/// The changes of the record at this place of a journal, and where it ends; `None` if no whole
/// record is there.
#[must_use]
pub fn read_record(
    epoch: u32,
    shard: u16,
    journal: &[u8],
    at: usize,
) -> Option<(Vec<Change>, usize)> {
    let mut input = Input(journal.get(at..)?);
    let body_bytes = input.u32()? as usize;
    let sum = input.u32()?;
    let body = input.take(body_bytes)?;
    if checksum(epoch, shard, at as u64, body) != sum {
        return None;
    }
    let end = journal.len() - input.0.len();
    let mut input = Input(body);
    if body.first() != Some(&TOGETHER) {
        return Some((vec![read_change(&mut input)?], end));
    }
    input.u8()?;
    let mut changes = Vec::new();
    while !input.0.is_empty() {
        let bytes = input.u32()? as usize;
        changes.push(read_change(&mut Input(input.take(bytes)?))?);
    }
    Some((changes, end))
}

fn read_change(input: &mut Input<'_>) -> Option<Change> {
    match input.u8()? {
        ADD => {
            let count = input.0.len() / SUMMARY_BYTES;
            summaries(input, count).map(Change::Add)
        }
        REMOVE => {
            let mut removed = Vec::new();
            while !input.0.is_empty() {
                removed.push(read_id(input)?);
            }
            Some(Change::Remove(removed))
        }
        BEGUN => input.0.is_empty().then_some(Change::Begun),
        CATALOG => {
            let mark = read_mark(input)?;
            input.0.is_empty().then_some(Change::Catalog(mark))
        }
        FLUSHED => {
            let flushed =
                Change::Flushed { floor: input.u32()?, sequence: input.i64()?.cast_unsigned() };
            input.0.is_empty().then_some(flushed)
        }
        LOG => {
            let floor = input.u32()?;
            let mut flushed = Vec::new();
            while !input.0.is_empty() {
                let table = TableNumber(input.u32()?);
                flushed.push((table, input.i64()?.cast_unsigned()));
            }
            Some(Change::Log { floor, flushed })
        }
        LOG_END => {
            let end = LogEnd { segment: input.u32()?, sequence: input.i64()?.cast_unsigned() };
            input.0.is_empty().then_some(Change::LogEnd(end))
        }
        _ => None,
    }
}

/// Exactly so many summaries, and nothing behind them.
fn summaries(input: &mut Input<'_>, count: usize) -> Option<Vec<Summary>> {
    if input.0.len() != count.checked_mul(SUMMARY_BYTES)? {
        return None;
    }
    (0..count).map(|_| Some(Summary::decode(input.take(SUMMARY_BYTES)?.first_chunk()?))).collect()
}

fn checksum(epoch: u32, shard: u16, length: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&epoch.to_le_bytes());
    hasher.update(&shard.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}
