//! Deletions of ranges of rows in one partition: disjoint, in order of their beginnings.
//!
//! Where several deletions cover a key the greatest counts, and the others are not kept there. So
//! the same deletions in any order are the same ranges, and one look tells what covers a key.

use std::{collections::BTreeMap, ops::Bound};

use crate::mutation::{Deletion, RangeDeletion};

/// Bytes that a range takes besides its two ends, about.
const RANGE_BYTES: usize = 130;

/// Where a range ends, and what it deletes.
#[derive(Debug)]
struct RangeEnd {
    to: Box<[u8]>,
    deletion: Deletion,
}

/// Deleted ranges of rows. None is empty, and two that touch each other delete differently.
#[derive(Debug, Default)]
pub(super) struct RangeDeletions {
    by_start: BTreeMap<Box<[u8]>, RangeEnd>,
    bytes: usize,
}

impl RangeDeletions {
    /// Adds a deletion up to behind the first of the ranges that it meets, `most` of them or a few
    /// more; returns where the rest of it begins, if it meets others.
    pub fn add_some(&mut self, range: RangeDeletion<'_>, most: usize) -> Option<Vec<u8>> {
        let other = self.beginning_from(Bound::Excluded(range.from)).nth(most);
        let rest = other.filter(|other| other.from < range.to).map(|other| other.from.to_vec());
        self.add(RangeDeletion { to: rest.as_deref().unwrap_or(range.to), ..range });
        rest
    }

    /// Adds a deletion. It takes as long as the ranges that it meets are many.
    fn add(&mut self, range: RangeDeletion<'_>) {
        let RangeDeletion { from, to, deletion } = range;
        let first = self.before(Bound::Included(from)).filter(|first| first.to > from);
        let first: Box<[u8]> = first.map_or(from, |first| first.from).into();
        // The one behind may begin where this one ends, and go on with it.
        let met = self.by_start.extract_if(first..=to.into(), |_, _| true);
        let met: Vec<_> = met.collect();
        self.bytes -= met.iter().map(|(from, end)| bytes_of(from, &end.to)).sum::<usize>();
        let mut at = from;
        for (own_from, RangeEnd { to: own_to, deletion: own }) in &met {
            self.append(own_from, from.min(own_to), *own);
            self.append(at, own_from, deletion);
            self.append(own_from.as_ref().max(from), own_to.as_ref().min(to), deletion.max(*own));
            self.append(own_from.as_ref().max(to), own_to, *own);
            at = own_to.as_ref().min(to).max(at);
        }
        self.append(at, to, deletion);
    }

    /// Puts a range behind all that are before it: none is there. Empty ones are left out.
    fn append(&mut self, from: &[u8], to: &[u8], deletion: Deletion) {
        if from >= to {
            return;
        }
        let before = (Bound::Unbounded, Bound::Excluded(from));
        let last = self.by_start.range_mut::<[u8], _>(before).next_back();
        let same = last.filter(|(_, last)| *last.to == *from && last.deletion == deletion);
        if let Some((_, last)) = same {
            self.bytes = self.bytes + to.len() - last.to.len();
            last.to = to.into();
        } else {
            self.bytes += bytes_of(from, to);
            self.by_start.insert(from.into(), RangeEnd { to: to.into(), deletion });
        }
    }

    /// The last range that begins before this key, or at it if that is included.
    fn before(&self, key: Bound<&[u8]>) -> Option<RangeDeletion<'_>> {
        let last = self.by_start.range::<[u8], _>((Bound::Unbounded, key)).next_back();
        last.map(|(from, RangeEnd { to, deletion })| range_of(from, to, *deletion))
    }

    /// What deletes the row with this clustering key.
    pub fn covering(&self, ck: &[u8]) -> Option<Deletion> {
        let range = self.before(Bound::Included(ck)).filter(|range| ck < range.to);
        range.map(|range| range.deletion)
    }

    /// Those that begin from here on, ascending.
    pub fn beginning_from(
        &self,
        from: Bound<&[u8]>,
    ) -> impl Iterator<Item = RangeDeletion<'_>> + use<'_> {
        let ranges = self.by_start.range::<[u8], _>((from, Bound::Unbounded));
        ranges.map(|(from, RangeEnd { to, deletion })| range_of(from, to, *deletion))
    }

    /// Frees the last of them; false if there is none.
    pub fn pop(&mut self) -> bool {
        self.by_start.pop_last().is_some()
    }

    /// Bytes that they take in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn range_of<'a>(from: &'a [u8], to: &'a [u8], deletion: Deletion) -> RangeDeletion<'a> {
    RangeDeletion { from, to, deletion }
}

fn bytes_of(from: &[u8], to: &[u8]) -> usize {
    RANGE_BYTES + from.len() + to.len()
}

#[cfg(test)]
mod tests {
    use super::{Bound, Deletion, RangeDeletion, RangeDeletions, bytes_of};
    use crate::io::Random;

    /// Keys are numbers of one byte, or two: so some lie between two that are next to each other.
    fn key(number: u64) -> Vec<u8> {
        let number = u8::try_from(number).unwrap();
        if number.is_multiple_of(3) {
            vec![number / 3 + 1]
        } else {
            vec![number / 3 + 1, number % 3]
        }
    }

    /// What covers each of the keys, in the fewest words.
    fn naive(added: &[(Vec<u8>, Vec<u8>, Deletion)], ck: &[u8]) -> Option<Deletion> {
        let covers = |(from, to, _): &&(Vec<u8>, Vec<u8>, Deletion)| **from <= *ck && *ck < **to;
        added.iter().filter(covers).map(|(_, _, deletion)| *deletion).max()
    }

    #[test]
    fn each_key_is_covered_by_the_greatest_deletion_whatever_their_order() {
        const KEYS: u64 = 60;
        for seed in 0..300 {
            let mut random = Random(seed);
            let kinds = 1 + random.below(6);
            let mut added = Vec::new();
            let mut ranges = RangeDeletions::default();
            for _ in 0..random.below(40) {
                let ends = [(); 2].map(|()| key(random.below(KEYS)));
                let (from, to) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
                if from == to {
                    continue;
                }
                let [timestamp, deleted_s] =
                    [kinds, 3].map(|most| i64::try_from(random.below(most)).unwrap());
                let deletion = Deletion { timestamp, deleted_s };
                ranges.add(RangeDeletion { from, to, deletion });
                added.push((from.clone(), to.clone(), deletion));
                for ck in (0..KEYS).map(key) {
                    assert_eq!(ranges.covering(&ck), naive(&added, &ck), "seed {seed}, {ck:?}");
                }
            }
            let found: Vec<_> = ranges.beginning_from(Bound::Unbounded).collect();
            for pair in found.windows(2) {
                let touches = pair[0].to == pair[1].from && pair[0].deletion == pair[1].deletion;
                assert!(pair[0].to <= pair[1].from && !touches, "seed {seed}: {pair:?}");
            }
            assert!(found.iter().all(|range| range.from < range.to), "seed {seed}");
            let bytes: usize = found.iter().map(|range| bytes_of(range.from, range.to)).sum();
            assert_eq!(ranges.bytes(), bytes, "seed {seed}");
            // Backwards, and in pieces.
            let mut backwards = RangeDeletions::default();
            for (from, to, deletion) in added.iter().rev() {
                let mut rest = Some(from.clone());
                while let Some(from) = rest {
                    let piece = RangeDeletion { from: &from, to, deletion: *deletion };
                    rest = backwards.add_some(piece, 2);
                }
            }
            assert!(backwards.beginning_from(Bound::Unbounded).eq(found), "seed {seed}");
        }
    }
}
