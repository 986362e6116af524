//! A share of time for one piece of work.

use super::Clock;

/// Units of work between two looks at the clock: a few microseconds.
const UNITS_PER_LOOK: u32 = 32;

/// Bytes that count as one more unit of work.
const BYTES_PER_UNIT: usize = 256;

/// Bytes that are copied into new memory in a microsecond: so long ago work began that moved more
/// of them before the first look at the clock.
const BYTES_PER_US: usize = 2 << 10;

/// A share of time. The work that was given it counts units, about a row each, and stops soon
/// after [`Self::is_over`] becomes true.
///
/// Time runs from the first look at the clock, so that work of a few rows costs no look at all.
pub struct TimeSlice<'a> {
    clock: Option<&'a dyn Clock>,
    whole: Deadline,
    /// What the work at hand may take of it.
    part: Deadline,
    units_to_look: u32,
}

/// Some microseconds, which run from when the clock was first looked at.
#[derive(Clone, Copy)]
struct Deadline {
    us: u64,
    until_us: Option<u64>,
    is_over: bool,
}

impl Deadline {
    fn new(us: u64) -> Self {
        Self { us, until_us: None, is_over: false }
    }

    /// Looks at the clock after work that took so long, if this is the first look.
    fn look(&mut self, now_us: u64, took_us: u64) {
        let began_us = now_us.saturating_sub(took_us);
        let until_us = *self.until_us.get_or_insert(began_us.saturating_add(self.us));
        self.is_over |= now_us >= until_us;
    }
}

impl<'a> TimeSlice<'a> {
    /// So many microseconds of this clock; 0 are over after the first unit of work.
    #[must_use]
    pub fn new(clock: &'a dyn Clock, us: u64) -> Self {
        let units_to_look = if us == 0 { 1 } else { UNITS_PER_LOOK };
        Self {
            clock: Some(clock),
            whole: Deadline::new(us),
            part: Deadline::new(us),
            units_to_look,
        }
    }

    /// All the time there is: where nobody waits.
    #[must_use]
    pub fn endless() -> Self {
        let (whole, part) = (Deadline::new(0), Deadline::new(0));
        Self { clock: None, whole, part, units_to_look: UNITS_PER_LOOK }
    }

    /// Begins a part of so many microseconds, after which the work at hand makes way for other
    /// work in the same slice.
    pub fn begin_part(&mut self, us: u64) {
        self.part = Deadline::new(us);
    }

    /// Counts one unit of work, and more if it moved many bytes.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        let units = u32::try_from(bytes / BYTES_PER_UNIT).unwrap_or(u32::MAX).saturating_add(1);
        self.units_to_look = self.units_to_look.saturating_sub(units);
        if self.units_to_look == 0 {
            self.look_after((bytes / BYTES_PER_US) as u64);
        }
    }

    /// Looks at the clock.
    pub fn look(&mut self) {
        self.look_after(0);
    }

    fn look_after(&mut self, took_us: u64) {
        self.units_to_look = UNITS_PER_LOOK;
        let Some(clock) = self.clock else { return };
        let now_us = clock.elapsed_us();
        self.whole.look(now_us, took_us);
        self.part.look(now_us, took_us);
    }

    /// Whether the time of the work at hand was used up at the last look.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.part.is_over || self.whole.is_over
    }

    /// Whether that of all parts was.
    #[inline]
    #[must_use]
    pub fn is_whole_over(&self) -> bool {
        self.whole.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ManualClock, TimeSlice};

    /// How many units of so many bytes fit into a slice, if each look takes a microsecond.
    fn units(us: u64, bytes: usize) -> u32 {
        let clock = ManualClock::ticking(0, 1);
        let mut slice = TimeSlice::new(&clock, us);
        let mut units = 0;
        while !slice.is_over() {
            slice.count(bytes);
            units += 1;
        }
        units
    }

    #[test]
    fn work_ends_with_its_time_and_bytes_are_work() {
        assert!(units(10, 0) < units(20, 0));
        assert!(units(10, 1 << 20) <= 11, "a look after each unit of a megabyte");
        assert!(units(10, 1 << 20) < units(10, 0));
    }

    #[test]
    fn what_moved_many_bytes_before_the_first_look_began_before_it() {
        for (mib, is_over) in [(1, false), (3, true)] {
            let clock = ManualClock::at(0);
            clock.advance(10_000);
            let mut slice = TimeSlice::new(&clock, 1_000);
            slice.count(mib << 20);
            assert_eq!(slice.is_over(), is_over, "{mib} MiB");
            slice.count(3 << 20);
            assert_eq!(slice.is_over(), is_over, "later looks tell what they see");
        }
    }

    #[test]
    fn a_part_ends_before_the_whole_and_not_after_it() {
        let clock = ManualClock::ticking(0, 1);
        let mut slice = TimeSlice::new(&clock, 25);
        let mut parts = Vec::new();
        while !slice.is_whole_over() {
            slice.begin_part(10);
            let mut looks = 0;
            while !slice.is_over() {
                slice.look();
                looks += 1;
            }
            parts.push(looks);
        }
        assert_eq!(parts, [11, 11, 4]);
    }

    #[test]
    fn no_time_at_all_is_one_unit() {
        let clock = ManualClock::at(0);
        let mut slice = TimeSlice::new(&clock, 0);
        assert!(!slice.is_over());
        slice.count(0);
        assert!(slice.is_over());
    }

    #[test]
    fn an_endless_slice_does_not_end() {
        let mut slice = TimeSlice::endless();
        (0..10_000).for_each(|_| slice.count(1 << 20));
        assert!(!slice.is_over());
    }
}
