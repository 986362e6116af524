//! Durable writes by the shard's own thread, where it would wait for them with nothing else to do:
//! waking a helper thread for a write and being woken by it costs more than the write.

use std::sync::Arc;

use super::{Buffer, Completion, Ticket, descriptors::NamedFile};

/// Longest write. Where more is written at once many requests come, and while a helper thread
/// writes their shard runs the next ones.
const BYTES_MAX: usize = 4 << 10;

/// What takes longer is slow: a turn of a shard is about as long.
const SLOW_US: u64 = 1_000;

/// After a slow write its shard writes nothing for so many times as long: of a hundred moments at
/// most one finds a shard that waits for a slow write.
const PAUSE_TIMES: u64 = 100;

/// A durable write, kept until its shard would wait.
pub(super) struct KeptWrite {
    pub ticket: Ticket,
    pub file: Arc<NamedFile>,
    pub offset: u64,
    pub buffer: Buffer,
}

/// The durable writes that one shard carries out itself.
#[derive(Default)]
pub(super) struct OwnWrites {
    pub kept: Option<KeptWrite>,
    /// One that is over, until it is polled.
    pub over: Option<Completion>,
    pub count: u64,
    /// The moment until which the device counts as slow, in microseconds of the machine's clock.
    slow_until_us: u64,
}

impl OwnWrites {
    /// Whether a write of so many bytes may be kept now.
    pub fn may_keep(&self, bytes: usize, now_us: u64) -> bool {
        self.kept.is_none() && bytes <= BYTES_MAX && now_us >= self.slow_until_us
    }

    /// Takes note of how long a durable write took, whoever carried it out.
    pub fn took(&mut self, begun_us: u64, now_us: u64) {
        let took_us = now_us.saturating_sub(begun_us);
        if took_us > SLOW_US {
            let pause_us = took_us.saturating_mul(PAUSE_TIMES);
            self.slow_until_us = self.slow_until_us.max(now_us.saturating_add(pause_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ones_are_kept_unless_the_device_was_slow() {
        let mut writes = OwnWrites::default();
        assert!(writes.may_keep(BYTES_MAX, 0));
        assert!(!writes.may_keep(BYTES_MAX + 1, 0));
        writes.took(5_000, 5_000 + SLOW_US);
        assert!(writes.may_keep(1, 6_000), "as long as a turn is not slow");
        writes.took(10_000, 12_000);
        for (now_us, may) in [(12_000, false), (211_999, false), (212_000, true)] {
            assert_eq!(writes.may_keep(1, now_us), may, "at {now_us}");
        }
        // A shorter pause that begins later does not end a longer one.
        writes.took(300_000, 400_000);
        writes.took(500_000, 501_001);
        for (now_us, may) in [(10_399_999, false), (10_400_000, true)] {
            assert_eq!(writes.may_keep(1, now_us), may, "at {now_us}");
        }
    }
}
