//! The row that a read has merged last.

use std::sync::Arc;

use super::slice::RowPlace;
use crate::{
    io::TimeSlice,
    mutation::{Deletion, MergedRow, Token, shadow},
    sstable::{Block, BlockRow},
    types::comparable::ABOVE,
};

/// Memory for a row that is kept for the next read. A large row gives its memory back.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;

/// So many bytes are merged with others at once; what is more is merged in many turns.
const MERGED_AT_ONCE_BYTES: usize = if cfg!(test) { 64 } else { 64 << 10 };

/// A version of a row that is kept until it is merged.
pub(super) enum KeptVersion {
    /// Of a memtable, which may change meanwhile.
    Copy(Box<[u8]>),
    /// Of a block, where it has this number.
    InBlock(Arc<Block>, usize),
}

/// The last row that was merged, in memory that is used again; or the end of a partition, if the
/// row that was looked at last is behind it.
#[derive(Default)]
pub(super) struct Scratch {
    /// `None` before the first row.
    pub token: Option<Token>,
    pub key: Vec<u8>,
    pub ck: Vec<u8>,
    pub merged: MergedRow,
    /// What deletes the row, besides what the row says itself.
    pub deletion: Option<Deletion>,
    /// How many bytes of versions were merged at once.
    at_once_bytes: usize,
    /// The versions that are yet to be merged: the next one is last.
    left: Vec<KeptVersion>,
}

impl KeptVersion {
    pub fn of(row: &[u8]) -> Self {
        Self::Copy(row.into())
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Copy(row) => row,
            Self::InBlock(block, number) => {
                block.row(*number).and_then(|entry| entry.row).map_or(&[], |(_, row)| row)
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Copy(row) => row.len(),
            Self::InBlock(block, _) => block.memory_bytes(),
        }
    }
}

impl Scratch {
    /// Takes the place of an entry, if that is a row.
    #[inline]
    pub fn come_to(&mut self, entry: &BlockRow<'_>) {
        let Some((ck, _)) = entry.row else { return };
        self.token = Some(entry.token);
        replace(&mut self.key, entry.key);
        replace(&mut self.ck, ck);
        self.merged.begin();
        self.at_once_bytes = 0;
    }

    /// Takes the place behind all rows of a partition.
    pub fn come_to_end(&mut self, token: Token, key: &[u8]) {
        self.token = Some(token);
        replace(&mut self.key, key);
        replace(&mut self.ck, &[ABOVE]);
    }

    /// Adds a version of the row. If that is too much for now, it is kept for [`Self::merge_some`].
    #[inline]
    pub fn add(&mut self, version: &[u8], keep: impl FnOnce() -> KeptVersion) {
        self.at_once_bytes += version.len();
        if self.merged.is_begun() {
            self.at_once_bytes += self.merged.row.len();
            if self.at_once_bytes > MERGED_AT_ONCE_BYTES {
                return self.left.push(keep());
            }
        }
        self.merged.add_some(version, &mut TimeSlice::endless());
    }

    /// Whether versions of the row are yet to be merged.
    #[inline]
    pub fn is_unmerged(&self) -> bool {
        !self.left.is_empty()
    }

    /// Merges what is left of the versions, as far as there is time for: false if that is not all.
    #[inline]
    pub fn merge_some(&mut self, time: &mut TimeSlice<'_>) -> bool {
        if self.is_unmerged() {
            // What was copied has taken some of the time already.
            time.count(std::mem::take(&mut self.at_once_bytes));
        }
        while let Some(version) = self.left.last() {
            if !self.merged.add_some(version.bytes(), time) {
                return false;
            }
            self.left.pop();
        }
        true
    }

    /// Applies what deletes the row.
    pub fn hide(&mut self, deletion: Deletion) {
        let MergedRow { row, other, .. } = &mut self.merged;
        other.clear();
        shadow(row, deletion.timestamp, other);
        std::mem::swap(row, other);
    }

    pub fn clear(&mut self) {
        (self.token, self.at_once_bytes) = (None, 0);
        self.left.clear();
        if self.bytes() > SCRATCH_BYTES_KEPT {
            *self = Self::default();
        }
    }

    pub fn place(&self) -> Option<RowPlace<'_>> {
        Some((self.token?, &self.key, &self.ck))
    }

    pub fn bytes(&self) -> usize {
        let left: usize = self.left.iter().map(KeptVersion::memory_bytes).sum();
        self.key.capacity() + self.ck.capacity() + self.merged.bytes() + left
    }
}

pub(super) fn replace(bytes: &mut Vec<u8>, with: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(with);
}
