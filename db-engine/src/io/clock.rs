//! The time.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch.
    fn now_us(&self) -> i64;

    /// Seconds since the Unix epoch.
    fn now_s(&self) -> i64 {
        self.now_us().div_euclid(1_000_000)
    }
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // this is the one clock
    fn now_us(&self) -> i64 {
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
        }
    }
}

/// A clock that stands still until it is moved: for simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicI64,
}

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn at(now_us: i64) -> Self {
        Self { now_us: AtomicI64::new(now_us) }
    }

    /// Makes it show another time, earlier or later.
    pub fn set(&self, now_us: i64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    /// Moves it forward.
    pub fn advance(&self, us: i64) {
        self.now_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }
}
