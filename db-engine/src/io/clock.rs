//! The time.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch.
    fn now_us(&self) -> i64;

    /// Microseconds since some moment of this run: for durations, because it never goes back,
    /// whatever is done to the date.
    fn elapsed_us(&self) -> u64;

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
            Ok(since) => microseconds(since),
            Err(before) => -microseconds(before.duration()),
        }
    }

    fn elapsed_us(&self) -> u64 {
        static FIRST_ASKED: OnceLock<Instant> = OnceLock::new();
        microseconds(FIRST_ASKED.get_or_init(Instant::now).elapsed()).unsigned_abs()
    }
}

/// How many are in it; `as_micros` takes longer, for it computes with 128 bits.
fn microseconds(duration: Duration) -> i64 {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    seconds.saturating_mul(1_000_000).saturating_add(duration.subsec_micros().into())
}

/// A clock that stands still until it is moved: for simulations.
#[derive(Debug, Default)]
#[allow(clippy::struct_field_names)] // the unit is a part of the name
pub struct ManualClock {
    now_us: AtomicI64,
    elapsed_us: AtomicU64,
    look_us: u64,
}

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn at(now_us: i64) -> Self {
        Self::ticking(now_us, 0)
    }

    /// A clock that shows this time, and on which so many microseconds go by with each look at
    /// what has elapsed: so work that is cut by time is cut in a simulation, too.
    #[must_use]
    pub fn ticking(now_us: i64, look_us: u64) -> Self {
        Self { now_us: AtomicI64::new(now_us), elapsed_us: AtomicU64::new(0), look_us }
    }

    /// Makes it show another time, earlier or later, without any time going by.
    pub fn set(&self, now_us: i64) {
        self.now_us.store(now_us, Ordering::Relaxed);
    }

    /// Lets time go by.
    pub fn advance(&self, us: i64) {
        self.now_us.fetch_add(us, Ordering::Relaxed);
        self.elapsed_us.fetch_add(u64::try_from(us).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }

    fn elapsed_us(&self) -> u64 {
        self.elapsed_us.fetch_add(self.look_us, Ordering::Relaxed)
    }
}
