//! The row that a read has merged last.

use super::slice::RowPlace;
use crate::{
    mutation::{Deletion, Token, merge, shadow},
    sstable::BlockRow,
    types::comparable::ABOVE,
};

/// Memory for a row that is kept for the next read. A large row gives its memory back.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// The last row that was merged, in memory that is used again; or the end of a partition, if the
/// row that was looked at last is behind it.
#[derive(Default)]
pub(super) struct Scratch {
    /// `None` before the first row.
    pub token: Option<Token>,
    pub key: Vec<u8>,
    pub ck: Vec<u8>,
    pub row: Vec<u8>,
    /// Where the next one is made of the last one.
    pub other: Vec<u8>,
}

impl Scratch {
    /// Takes the place of an entry, if that is a row.
    #[inline]
    pub fn come_to(&mut self, entry: &BlockRow<'_>) {
        let Some((ck, _)) = entry.row else { return };
        self.token = Some(entry.token);
        replace(&mut self.key, entry.key);
        replace(&mut self.ck, ck);
    }

    /// Takes the place behind all rows of a partition.
    pub fn come_to_end(&mut self, token: Token, key: &[u8]) {
        self.token = Some(token);
        replace(&mut self.key, key);
        replace(&mut self.ck, &[ABOVE]);
    }

    pub fn add(&mut self, version: &[u8], is_first: bool) {
        if is_first {
            replace(&mut self.row, version);
            return;
        }
        self.other.clear();
        merge(&self.row, version, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    pub fn hide(&mut self, deletion: Deletion) {
        self.other.clear();
        shadow(&self.row, deletion.timestamp, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    pub fn clear(&mut self) {
        self.token = None;
        if self.bytes() > SCRATCH_BYTES_KEPT {
            *self = Self::default();
        }
    }

    pub fn place(&self) -> Option<RowPlace<'_>> {
        Some((self.token?, &self.key, &self.ck))
    }

    pub fn bytes(&self) -> usize {
        [&self.key, &self.ck, &self.row, &self.other].map(Vec::capacity).iter().sum()
    }
}

pub(super) fn replace(bytes: &mut Vec<u8>, with: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(with);
}
