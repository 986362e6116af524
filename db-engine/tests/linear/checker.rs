//! Is a history of concurrent operations linearizable: can each be given a moment between its call
//! and its return, such that one after the other they give the answers that were given?
//!
//! The algorithm is that of Wing and Gong ("Testing and verifying concurrent objects", 1993), with
//! the memory of Lowe ("Testing for linearizability", 2017), as Porcupine has it: operations are
//! tried in the order of their calls, each as the next one; what was tried is taken back when an
//! operation has returned that was not given its moment; and no set of operations is tried twice
//! with the same state after it.

use std::{collections::HashSet, fmt::Debug, hash::Hash};

/// What operations do to a thing, one after the other.
pub trait Sequential {
    type State: Clone + Eq + Hash + Debug;
    type Operation: Debug;

    /// The state after an operation; `None` if it cannot have been answered so in this state.
    fn apply(state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;
}

/// An operation of a history, with its answer, if that is known.
#[derive(Debug)]
pub struct Call<T> {
    pub operation: T,
    /// When it was called. All moments of a history differ.
    pub called: u64,
    /// When it was answered. Without an answer it may have its moment at any time later, or never:
    /// which is the same as after all others.
    pub returned: Option<u64>,
}

/// A list of events, in which each can be taken out and put back.
struct Events {
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Events {
    fn take_out(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn put_back(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = event;
        self.previous[next] = event;
    }
}

/// Whether a history that begins in this state is linearizable.
pub fn is_linearizable<S: Sequential>(first: S::State, calls: &[Call<S::Operation>]) -> bool {
    // Event 2n + 1 is the call of operation n, event 2n + 2 its return; 0 is before all of them.
    let mut order: Vec<(u64, usize)> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        order.push((call.called, 2 * number + 1));
        order.push((call.returned.unwrap_or(u64::MAX), 2 * number + 2));
    }
    order.sort_unstable();
    let mut events =
        Events { next: vec![0; 2 * calls.len() + 1], previous: vec![0; 2 * calls.len() + 1] };
    let mut last = 0;
    for (_, event) in order {
        (events.next[last], events.previous[event]) = (event, last);
        last = event;
    }
    (events.next[last], events.previous[0]) = (0, last);

    let mut state = first;
    let mut done = vec![0_u64; calls.len().div_ceil(64)];
    let mut tried: HashSet<(Vec<u64>, S::State)> = HashSet::new();
    let mut chosen: Vec<(usize, S::State)> = Vec::new();
    let mut event = events.next[0];
    while events.next[0] != 0 {
        let is_call = event % 2 == 1;
        let number = event.saturating_sub(1) / 2;
        if event != 0 && is_call {
            let after = S::apply(&state, &calls[number].operation);
            let fresh = after.filter(|after| {
                done[number / 64] |= 1 << (number % 64);
                let is_fresh = tried.insert((done.clone(), after.clone()));
                if !is_fresh {
                    done[number / 64] &= !(1 << (number % 64));
                }
                is_fresh
            });
            if let Some(after) = fresh {
                chosen.push((number, std::mem::replace(&mut state, after)));
                events.take_out(event);
                events.take_out(event + 1);
                event = events.next[0];
            } else {
                event = events.next[event];
            }
        } else {
            // An operation has returned, and can have had its moment nowhere: another order.
            let Some((number, before)) = chosen.pop() else { return false };
            state = before;
            done[number / 64] &= !(1 << (number % 64));
            events.put_back(2 * number + 2);
            events.put_back(2 * number + 1);
            event = events.next[2 * number + 1];
        }
    }
    true
}

/// A number that is read and written.
struct Register;

#[derive(Debug)]
enum OfRegister {
    Write(u8),
    Read(u8),
}

impl Sequential for Register {
    type State = u8;
    type Operation = OfRegister;

    fn apply(state: &u8, operation: &OfRegister) -> Option<u8> {
        match operation {
            OfRegister::Write(value) => Some(*value),
            OfRegister::Read(value) => (value == state).then_some(*state),
        }
    }
}

fn history(calls: Vec<(OfRegister, u64, u64)>) -> bool {
    let call = |(operation, called, returned)| {
        let returned = (returned != 0).then_some(returned);
        Call { operation, called, returned }
    };
    let calls: Vec<_> = calls.into_iter().map(call).collect();
    is_linearizable::<Register>(0, &calls)
}

#[test]
fn histories_are_told_apart() {
    use OfRegister::{Read, Write};
    assert!(history(vec![]));
    assert!(history(vec![(Write(1), 1, 2), (Read(1), 3, 4)]));
    assert!(!history(vec![(Write(1), 1, 2), (Read(0), 3, 4)]), "a lost write");
    assert!(!history(vec![(Read(1), 1, 2), (Write(1), 3, 4)]), "a read of the future");
    assert!(history(vec![(Write(1), 1, 6), (Read(0), 2, 3), (Read(1), 4, 5)]), "during a write");
    assert!(!history(vec![(Write(1), 1, 6), (Read(1), 2, 3), (Read(0), 4, 5)]), "back in time");
    let both = |first, second| {
        vec![(Write(1), 1, 10), (Write(2), 2, 11), (Read(first), 3, 4), (Read(second), 5, 6)]
    };
    assert!(history(both(1, 2)) && history(both(2, 1)), "either may be first");
    assert!(history(both(0, 2)) && history(both(1, 1)));
    assert!(!history(both(2, 0)));
    let mut three = both(1, 2);
    three.push((Read(1), 7, 8));
    assert!(!history(three), "each is written once");
}

#[test]
fn what_was_not_answered_may_have_happened_at_any_time_or_never() {
    use OfRegister::{Read, Write};
    assert!(history(vec![(Write(1), 1, 0), (Read(0), 2, 3), (Read(0), 4, 5)]), "never");
    assert!(history(vec![(Write(1), 1, 0), (Read(0), 2, 3), (Read(1), 4, 5)]), "late");
    assert!(!history(vec![(Write(1), 1, 0), (Read(1), 2, 3), (Read(0), 4, 5)]), "but not undone");
    assert!(!history(vec![(Read(1), 2, 3), (Write(1), 4, 0)]), "nor before its call");
}

#[test]
fn many_that_overlap_are_judged_in_time() {
    use OfRegister::{Read, Write};
    let mut calls: Vec<_> = (1..=10).map(|n| (Write(n), u64::from(n), 0)).collect();
    for number in 0..200_u8 {
        let at = 100 + 2 * u64::from(number);
        calls.push((Read(number / 20 + 1), at, at + 1));
    }
    assert!(history(calls));
}
