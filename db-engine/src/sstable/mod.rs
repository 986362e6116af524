//! Sstables: rows that were flushed, sorted, in files that never change.
//!
//! This module turns sorted rows into bytes and bytes into rows; it does no I/O. A file is blocks
//! of rows, an index of where each block begins, and a footer: see `docs/format/sstable.md`.
//!
//! The index is sparse: it says of each block where it begins, and stays in memory. A read finds in
//! it the few blocks that can hold what it wants, and reads those.

#![deny(clippy::indexing_slicing)]

mod block;
mod clustering_span;
mod index;
mod index_room;
mod joined_lz4;
mod packing;
mod summary;
mod token_filter;
mod tombstone_times;
mod writer;

pub(crate) use block::invalid;
pub use block::{Block, BlockRow};
pub use index::{Footer, Index, IndexReader, Location, read_footer, read_index};
pub use index_room::IndexRoom;
pub use joined_lz4::JoinedLz4;
pub(crate) use summary::SUMMARY_BYTES;
pub use summary::{SstableId, Summary};
pub use tombstone_times::TombstoneTimes;
pub use writer::Writer;

/// Bytes of rows after which a block is closed, before compression.
pub const BLOCK_BYTES: usize = 32 << 10;

/// Bytes of the footer, the last of the file.
pub const FOOTER_BYTES: usize = 128;

/// Bytes before the rows of a block: checksum, length, length as stored.
const BLOCK_HEADER_BYTES: usize = 12;

/// The checksum of bytes at a place: of what file, and where in it, so that bytes which a device
/// wrote to the wrong place are not taken for what belongs there.
fn checksum(id: SstableId, offset: u64, bytes: &[u8]) -> u32 {
    let mut hasher = hasher_of(id, offset);
    hasher.update(bytes);
    hasher.finalize()
}

/// What begins such a checksum.
fn hasher_of(id: SstableId, offset: u64) -> crc32fast::Hasher {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher
}

#[cfg(test)]
mod tests;
