//! Looking ahead in a memtable, for flushes and scans.
//!
//! They take partitions and rows in order, and memory has them as they came. Each is in
//! another place, for which a core waits some 100 ns. Places that do not follow from one another it
//! fetches at the same time: so those of the next items are looked at before the first is taken.

use smallvec::{IntoIter, SmallVec};

/// Items that are looked at together: more than a core fetches at once.
const AHEAD_ITEMS: usize = 16;

/// Items in the same order, with what they point to fetched before they are taken.
pub(super) struct Ahead<I: Iterator, F> {
    rest: I,
    fetched: IntoIter<[I::Item; AHEAD_ITEMS]>,
    fetch: F,
}

/// Has `fetch` look at where the next items point to.
pub(super) fn ahead<I: Iterator, F: FnMut(&[I::Item])>(items: I, fetch: F) -> Ahead<I, F> {
    Ahead { rest: items, fetched: SmallVec::new().into_iter(), fetch }
}

impl<I: Iterator, F: FnMut(&[I::Item])> Iterator for Ahead<I, F> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        if let Some(item) = self.fetched.next() {
            return Some(item);
        }
        let next: SmallVec<_> = self.rest.by_ref().take(AHEAD_ITEMS).collect();
        (self.fetch)(&next);
        self.fetched = next.into_iter();
        self.fetched.next()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn gives_all_items_in_order_each_of_them_fetched_and_few_that_are_not_taken() {
        for count in 0..=3 * AHEAD_ITEMS + 1 {
            let fetched = RefCell::new(Vec::new());
            let fetch = |items: &[usize]| fetched.borrow_mut().extend_from_slice(items);
            let mut taken = 0;
            for item in ahead(0..count, fetch) {
                assert_eq!(item, taken);
                assert!((item + 1..=item + AHEAD_ITEMS).contains(&fetched.borrow().len()));
                taken += 1;
            }
            assert_eq!(taken, count);
            assert!(fetched.borrow().iter().copied().eq(0..count));
        }
    }
}
