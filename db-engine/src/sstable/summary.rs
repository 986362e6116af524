//! What is known of an sstable without opening it.

use crate::mutation::{TableNumber, Token};

/// Names an sstable, for ever: no two files of a directory, past or present, have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SstableId {
    /// The run of the engine that wrote it.
    pub epoch: u32,
    /// The shard that wrote it.
    pub shard: u16,
    /// Which of that shard's files in that run it is.
    pub sequence: u32,
}

impl SstableId {
    /// The name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sst-{:08}-{:04}-{:08}", self.epoch, self.shard, self.sequence)
    }

    /// The sstable whose file has this name.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("sst-")?.split('-');
        let id = Self {
            epoch: parts.next()?.parse().ok()?,
            shard: parts.next()?.parse().ok()?,
            sequence: parts.next()?.parse().ok()?,
        };
        (id.file_name() == name).then_some(id)
    }

    pub(crate) fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..4].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.shard.to_le_bytes());
        bytes[6..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

/// What is in an sstable, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which sstable.
    pub id: SstableId,
    /// The table whose rows it has.
    pub table: TableNumber,
    /// The number of its compaction window since the Unix epoch; 0 if the table has only one.
    pub window: i64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How many rows it has.
    pub rows: u64,
    /// The token of its first partition.
    pub token_first: Token,
    /// The token of its last partition.
    pub token_last: Token,
    /// The oldest timestamp in it: of a cell, a marker or a deletion; microseconds.
    pub timestamp_min: i64,
    /// The newest timestamp in it.
    pub timestamp_max: i64,
    /// The second at which the last of it expired or was deleted, from which on readers see
    /// nothing of it; `i64::MAX` if some of it is there for ever.
    pub expires_s: i64,
}

/// Bytes of an encoded [`Summary`].
pub(crate) const SUMMARY_BYTES: usize = 78;

impl Summary {
    /// Whether all its rows belong to the shard whose tokens these are: a shard's are one range.
    pub fn is_of(&self, is_own: impl Fn(Token) -> bool) -> bool {
        is_own(self.token_first) && is_own(self.token_last)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_bytes());
        out.extend_from_slice(&self.table.0.to_le_bytes());
        for number in [self.window, self.token_first.0, self.token_last.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.bytes, self.rows] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.timestamp_min, self.timestamp_max, self.expires_s] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(crate) fn decode(bytes: &[u8; SUMMARY_BYTES]) -> Self {
        let mut rest: &[u8] = bytes;
        let id = SstableId {
            epoch: u32::from_le_bytes(take(&mut rest)),
            shard: u16::from_le_bytes(take(&mut rest)),
            sequence: u32::from_le_bytes(take(&mut rest)),
        };
        let table = TableNumber(u32::from_le_bytes(take(&mut rest)));
        let mut long = || i64::from_le_bytes(take(&mut rest));
        Self {
            id,
            table,
            window: long(),
            token_first: Token(long()),
            token_last: Token(long()),
            bytes: long().cast_unsigned(),
            rows: long().cast_unsigned(),
            timestamp_min: long(),
            timestamp_max: long(),
            expires_s: long(),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_first_chunk().expect("SUMMARY_BYTES is the sum of its fields");
    *bytes = rest;
    *taken
}
