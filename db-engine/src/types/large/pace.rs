//! When work on a large value pauses.

use std::{
    future::poll_fn,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    task::Poll,
};

/// Units of work between two pauses: some ten microseconds.
pub(super) const PIECE_UNITS: u32 = if cfg!(test) { 8 } else { 512 };

/// Bytes of a value that are looked at in about the time of one unit, a tenth of a microsecond.
const BYTES_PER_UNIT: usize = 8;

/// Counts the work of a piece.
#[derive(Debug, Default)]
pub(super) struct Pace {
    units_left: AtomicU32,
}

impl Pace {
    /// Said by whoever has the time.
    pub(super) fn begin_piece(&self) {
        self.units_left.store(PIECE_UNITS, Relaxed);
    }

    /// Counts an item of so many bytes that was worked on, and pauses if the piece is done.
    #[inline]
    pub(super) async fn worked(&self, bytes: usize) {
        let units = u32::try_from(bytes / BYTES_PER_UNIT).unwrap_or(u32::MAX).saturating_add(1);
        let left = self.units_left.load(Relaxed).saturating_sub(units);
        self.units_left.store(left, Relaxed);
        if left == 0 {
            self.pause().await;
        }
    }

    async fn pause(&self) {
        poll_fn(|_| match self.units_left.load(Relaxed) {
            0 => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }
}
