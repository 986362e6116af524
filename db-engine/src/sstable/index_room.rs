//! How much memory the indexes of small blocks may take.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes of memory for indexes, which the files that are written together share. As long as any are
/// left, blocks of large rows are small; by default there are none.
#[derive(Clone, Debug, Default)]
pub struct IndexRoom(Arc<AtomicUsize>);

impl IndexRoom {
    /// Of so many bytes.
    #[must_use]
    pub fn of(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes some, or what is left.
    pub fn take(&self, bytes: usize) {
        let left = self.0.load(Ordering::Relaxed).saturating_sub(bytes);
        self.0.store(left, Ordering::Relaxed);
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
