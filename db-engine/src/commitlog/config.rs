//! Limits of a commit log.

use super::sector::{BLOCK_SECTORS_MAX, SECTOR_PAYLOAD_BYTES};

/// From so many bytes on, mutations are moved and not copied: to touch fresh memory takes up to a
/// microsecond for each KiB of it.
pub const LARGE_WRITE_BYTES: usize = 256 << 10;

/// Limits of a commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Bytes of one segment; a multiple of [`crate::io::ALIGNMENT`], and eight times that at least.
    /// A block has at most half of it and a write a quarter, so that what is staged always fits
    /// into an empty segment.
    pub segment_bytes: u64,
    /// Bytes of all segments beyond which a released one is removed and not kept for its space.
    pub bytes_max: u64,
    /// Bytes that are staged at most, unless it is one write alone that has more.
    pub staged_bytes_max: usize,
    /// Mutations of so many bytes are not copied; a quarter of that is made ready for the device
    /// between two looks at the clock. [`LARGE_WRITE_BYTES`], unless it is for a test.
    pub large_bytes: usize,
}

impl LogConfig {
    /// The most bytes of mutations in one write.
    #[must_use]
    pub fn write_bytes_max(&self) -> usize {
        usize::try_from(self.segment_bytes / 4).unwrap_or(usize::MAX)
    }

    /// The most bytes that one block can take.
    #[must_use]
    pub fn block_bytes_max(&self) -> usize {
        let half = usize::try_from(self.segment_bytes / 2).unwrap_or(usize::MAX);
        half.min(BLOCK_SECTORS_MAX / 2 * SECTOR_PAYLOAD_BYTES)
    }
}
