//! Fresh memory, a piece at a time.

use super::TimeSlice;

/// Bytes that are touched between two looks at the clock.
const PIECE_BYTES: usize = 64 << 10;

/// Makes `memory` at least so many bytes long, by as many of them as there is time for; returns
/// whether it is, and there is time left to fill it.
///
/// The first touch of a page costs up to three microseconds, so that filling four MiB of fresh
/// memory at once takes several milliseconds, and filling them again half of one.
pub fn touch(memory: &mut Vec<u8>, bytes: usize, time: &mut TimeSlice<'_>) -> bool {
    memory.reserve_exact(bytes.saturating_sub(memory.len()));
    while memory.len() < bytes {
        if time.is_over() {
            return false;
        }
        let end = bytes.min(memory.len() + PIECE_BYTES);
        time.count(end - memory.len());
        memory.resize(end, 0);
    }
    !time.is_over()
}

#[cfg(test)]
mod tests {
    use super::{super::ManualClock, *};

    #[test]
    fn memory_is_touched_a_piece_at_a_time() {
        let clock = ManualClock::at(0);
        let (mut memory, mut pieces) = (vec![1; 10], 0);
        while !touch(&mut memory, 1 << 20, &mut TimeSlice::new(&clock, 0)) {
            let place = memory.as_ptr();
            pieces += 1;
            assert_eq!(memory.len(), (10 + pieces * PIECE_BYTES).min(1 << 20));
            assert_eq!(memory.as_ptr(), place, "it is not moved");
        }
        assert_eq!((memory.len(), pieces), (1 << 20, 16));
        assert!(touch(&mut memory, 5, &mut TimeSlice::new(&clock, 0)), "that is there");
        assert_eq!(memory.len(), 1 << 20);
    }
}
