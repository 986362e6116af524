//! Stopping in order: every shard answers what it has begun, and only when all have done so does
//! any of them give up its store, because until then another may need it.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};

/// For how many microseconds requests in flight are waited for. Clients that do not take their
/// answers lose them. What follows is flushing, and whoever stops the engine does not wait for
/// long: container managers kill after ten seconds.
pub(super) const ANSWERING_US_MAX: u64 = 3_000_000;

/// What the shards must know of each other in order to stop.
pub struct Stop {
    requested: AtomicBool,
    answering: AtomicU16,
    ring_all: Box<dyn Fn() + Send + Sync>,
}

impl Stop {
    /// For this many shards, all of which `ring_all` wakes.
    pub fn new(shards: u16, ring_all: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            requested: AtomicBool::new(false),
            answering: AtomicU16::new(shards),
            ring_all: Box::new(ring_all),
        }
    }

    /// Asks all shards to stop.
    pub fn request(&self) {
        self.requested.store(true, SeqCst);
        (self.ring_all)();
    }

    /// Whether stopping was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }

    /// Said by each shard once, when its clients have nothing in flight any more.
    pub fn answered(&self) {
        if self.answering.fetch_sub(1, SeqCst) == 1 {
            (self.ring_all)();
        }
    }

    /// Whether all shards have said so.
    #[must_use]
    pub fn all_answered(&self) -> bool {
        self.answering.load(SeqCst) == 0
    }
}
