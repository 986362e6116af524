//! Windows of a table that are merged together, where all of it is to be written once more: what a
//! deletion hides is in its own window or in any before it, and goes when both are read at once.

/// What a merge of several windows may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TogetherLimits {
    /// Sstables.
    pub sstables: usize,
    /// Bytes of these: it needs as much free space, and is begun anew after a stop.
    pub bytes: u64,
}

impl Default for TogetherLimits {
    fn default() -> Self {
        Self { sstables: WINDOWS_MAX, bytes: 8 << 30 }
    }
}

/// Each window has a file of its own that is written at the same time.
const WINDOWS_MAX: usize = 64;

impl TogetherLimits {
    /// Whether so many sstables of so many bytes can be merged.
    #[must_use]
    pub fn have_room(self, sstables: usize, bytes: u64) -> bool {
        sstables <= self.sstables && bytes <= self.bytes
    }

    /// Half of a merge for which there was no room.
    #[must_use]
    pub fn half_of(sstables: usize, bytes: u64) -> Self {
        Self { sstables: sstables / 2, bytes: bytes / 2 }
    }

    /// Whether two windows can be merged at all.
    #[must_use]
    pub fn allow_two(self) -> bool {
        self.sstables >= 2
    }
}

/// Which windows are merged together, one step after the other, so that any two of them are in one
/// step. Given are the number of each window, ascending, and the bytes of its one sstable. More
/// bytes than the limit are in a step only if two windows alone have them.
#[must_use]
pub fn steps(windows: &[(i64, u64)], limits: TogetherLimits) -> Vec<Vec<i64>> {
    let all = |windows: &[(i64, u64)]| windows.iter().map(|(window, _)| *window).collect();
    if limits.have_room(windows.len(), windows.iter().map(|(_, bytes)| bytes).sum()) {
        return vec![all(windows)];
    }
    let half = TogetherLimits::half_of(limits.sstables, limits.bytes);
    let mut groups: Vec<&[(i64, u64)]> = Vec::new();
    let mut rest = windows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().zip(1..).take_while(|((_, more), count)| {
            bytes += more;
            half.have_room(*count, bytes)
        });
        let (group, others) = rest.split_at(fitting.count().max(1));
        groups.push(group);
        rest = others;
    }
    let pairs = groups.iter().enumerate().flat_map(|(place, older)| {
        let newer = groups.iter().skip(place + 1);
        newer.map(|newer| all(&[*older, *newer].concat()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::{TogetherLimits, steps};
    use crate::io::Random;

    #[test]
    fn any_two_windows_are_in_one_step_and_a_step_keeps_the_limits() {
        for seed in 0..500 {
            let mut random = Random(seed);
            let count = i64::try_from(2 + random.below(20)).expect("few");
            let windows: Vec<(i64, u64)> =
                (0..count).map(|window| (window * 3, 1 + random.below(100))).collect();
            let sstables = usize::try_from(2 + random.below(12)).expect("few");
            let limits = TogetherLimits { sstables, bytes: 50 + random.below(1_000) };
            let steps = steps(&windows, limits);
            for (place, (one, _)) in windows.iter().enumerate() {
                for (other, _) in &windows[place + 1..] {
                    let meet = |step: &Vec<i64>| step.contains(one) && step.contains(other);
                    assert!(steps.iter().any(meet), "seed {seed}: {one}, {other}: {steps:?}");
                }
            }
            for step in &steps {
                let own = windows.iter().filter(|(window, _)| step.contains(window));
                let bytes = own.map(|(_, bytes)| bytes).sum();
                let has_room = limits.have_room(step.len(), bytes);
                let is_large = step.iter().any(|window| {
                    let (_, bytes) = windows.iter().find(|one| one.0 == *window).expect("one");
                    *bytes > limits.bytes / 2
                });
                assert!(has_room || step.len() == 2 || is_large, "seed {seed}: {step:?}");
                assert!(step.len() <= limits.sstables.max(2), "seed {seed}: {step:?}");
            }
        }
    }

    #[test]
    fn where_there_is_room_all_windows_are_one_step() {
        let windows: Vec<(i64, u64)> = (0..30).map(|window| (window, 1 << 20)).collect();
        assert_eq!(steps(&windows, TogetherLimits::default()).len(), 1);
        let limits = TogetherLimits { sstables: 24, ..TogetherLimits::default() };
        assert_eq!(steps(&windows, limits).len(), 3, "three groups, of which two are merged");
        assert!(!TogetherLimits::half_of(3, 100).allow_two());
    }
}
