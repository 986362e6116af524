//! The manifest: which sstables there are.
//!
//! A checkpoint names all sstables with which a run of the engine began; each shard appends the
//! changes it makes during that run to a journal of its own. `docs/format/manifest.md` is the
//! format. Whatever is in a directory but in no manifest is a leftover.

use std::io;

use crate::{
    mutation::Input,
    sstable::{SUMMARY_BYTES, SstableId, Summary, invalid},
};

const MAGIC: [u8; 8] = *b"SANDMAN1";

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const FLUSHED: u8 = 3;

/// Something that a shard did to the set of sstables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These are there now, all of them or none: what one flush wrote.
    Add(Vec<Summary>),
    /// These are not there any more.
    Remove(Vec<SstableId>),
    /// Which part of the shard's commit log is not needed any more.
    Flushed {
        /// The number of the oldest segment that is.
        floor: u32,
        /// All writes up to this block are in sstables.
        sequence: u64,
    },
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
/// If there are more than 2^32 sstables.
#[must_use]
pub fn encode_checkpoint(epoch: u32, sstables: &[Summary]) -> Vec<u8> {
    let count = u32::try_from(sstables.len()).expect("a directory holds fewer files");
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    for summary in sstables {
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
pub fn decode_checkpoint(epoch: u32, bytes: &[u8]) -> io::Result<Vec<Summary>> {
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(|| invalid("it is cut short"))?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(invalid("its checksum is wrong"));
    }
    let parsed = (|| {
        let mut input = Input(body);
        let known = input.take(MAGIC.len())? == MAGIC && input.u32()? == epoch;
        let count = input.u32()? as usize;
        known.then(|| summaries(&mut input, count)).flatten()
    })();
    parsed.ok_or_else(|| invalid("it is the manifest of another run or format"))
}

/// Appends a change to a journal that has `length` bytes so far.
///
/// # Panics
///
/// If the change names more than 4 GiB of sstables.
pub fn encode_change(epoch: u32, shard: u16, length: u64, change: &Change, out: &mut Vec<u8>) {
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
        Change::Flushed { floor, sequence } => {
            body.push(FLUSHED);
            body.extend_from_slice(&floor.to_le_bytes());
            body.extend_from_slice(&sequence.to_le_bytes());
        }
    }
    let count = u32::try_from(body.len()).expect("a change names a few files");
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&checksum(epoch, shard, length, &body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// Reads the changes of a journal, up to where it was cut short by a crash: what follows was never
/// synced, so nobody relied on it.
#[must_use]
pub fn decode_journal(epoch: u32, shard: u16, bytes: &[u8]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut input = Input(bytes);
    loop {
        let length = (bytes.len() - input.0.len()) as u64;
        let Some(change) = read_change(epoch, shard, length, &mut input) else { return changes };
        changes.push(change);
    }
}

fn read_change(epoch: u32, shard: u16, length: u64, input: &mut Input<'_>) -> Option<Change> {
    let body_bytes = input.u32()? as usize;
    let sum = input.u32()?;
    let body = input.take(body_bytes)?;
    if checksum(epoch, shard, length, body) != sum {
        return None;
    }
    let mut input = Input(body);
    match input.u8()? {
        ADD => {
            let count = input.0.len() / SUMMARY_BYTES;
            summaries(&mut input, count).map(Change::Add)
        }
        REMOVE => {
            let mut removed = Vec::new();
            while !input.0.is_empty() {
                let (epoch, shard, sequence) = (input.u32()?, input.u16()?, input.u32()?);
                removed.push(SstableId { epoch, shard, sequence });
            }
            Some(Change::Remove(removed))
        }
        FLUSHED => {
            let flushed =
                Change::Flushed { floor: input.u32()?, sequence: input.i64()?.cast_unsigned() };
            input.0.is_empty().then_some(flushed)
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
