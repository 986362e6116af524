//! Counters: each increment that was acknowledged counts once, each that was refused not at all,
//! and any other once or not at all.

use super::simulation::{Asked, Simulation};
use crate::{
    whole::client::query,
    wire::client::{Answer, op},
};
use std::collections::{BTreeMap, BTreeSet};

/// Partition and clustering key.
type CounterKey = (u64, u64);

/// Increments of one counter that are in flight.
const IN_FLIGHT_MAX: usize = 5;

/// Sums that a counter may have, at most: what has more is not looked at any more.
const SUMS_MAX: usize = 4_000;

#[derive(Default)]
pub struct Counting {
    sums: BTreeMap<CounterKey, BTreeSet<i64>>,
    in_flight: BTreeMap<usize, Vec<(CounterKey, i64)>>,
    begun: usize,
}

#[derive(Debug)]
pub enum CounterAsked {
    Add(usize),
    Read {
        key: CounterKey,
        /// What it may have been when the read began, and what may have been added since.
        sums: BTreeSet<i64>,
        added: Vec<i64>,
    },
}

/// All of these with some of those added.
fn with_some(sums: &BTreeSet<i64>, added: &[i64]) -> BTreeSet<i64> {
    let mut all = sums.clone();
    for by in added {
        let more: Vec<i64> = all.iter().map(|sum| sum + by).collect();
        all.extend(more);
    }
    all
}

impl Counting {
    fn sums(&self, key: CounterKey) -> BTreeSet<i64> {
        self.sums.get(&key).cloned().unwrap_or([0].into())
    }

    fn added(&self, key: CounterKey) -> Vec<i64> {
        let all = self.in_flight.values().flatten();
        all.filter(|(own, _)| *own == key).map(|(_, by)| *by).collect()
    }

    /// Nothing is in flight any more.
    pub fn settle(&mut self) {
        for (_, added) in std::mem::take(&mut self.in_flight) {
            self.may_have(&added);
        }
    }

    fn may_have(&mut self, added: &[(CounterKey, i64)]) {
        for (key, by) in added {
            let sums = with_some(&self.sums(*key), &[*by]);
            self.sums.insert(*key, sums);
        }
    }
}

impl Simulation {
    pub fn act_on_counters(&mut self, index: usize) {
        let key = (self.random.below(2), self.random.below(2));
        if self.kinds.counting.sums(key).len() > SUMS_MAX {
            return;
        }
        if self.random.percent(30) {
            return self.read_counter(index, key);
        }
        let other = (self.random.below(2), key.1);
        let keys = if self.random.percent(20) { vec![key, other] } else { vec![key] };
        if keys.iter().any(|key| self.kinds.counting.added(*key).len() >= IN_FLIGHT_MAX) {
            return;
        }
        let (mut added, mut texts) = (Vec::new(), Vec::new());
        for (p, c) in keys {
            let by = self.random.below(1_000).cast_signed() - 300;
            let change = if by < 0 { format!("v - {}", -by) } else { format!("v + {by}") };
            texts.push(format!("UPDATE k.n SET v = {change} WHERE p = {p} AND c = {c}"));
            added.push(((p, c), by));
        }
        let text = match texts.as_slice() {
            [one] => one.clone(),
            all => format!("BEGIN COUNTER BATCH {} APPLY BATCH", all.join("; ")),
        };
        for asked in self.clients.iter_mut().flat_map(|client| client.waiting.values_mut()) {
            if let Asked::Counters(CounterAsked::Read { key, added: seen, .. }) = asked {
                seen.extend(added.iter().filter(|(own, _)| own == key).map(|(_, by)| by));
            }
        }
        self.kinds.counting.begun += 1;
        let number = self.kinds.counting.begun;
        self.kinds.counting.in_flight.insert(number, added);
        self.clients[index].ask(
            op::QUERY,
            &query(&text),
            Asked::Counters(CounterAsked::Add(number)),
        );
    }

    fn read_counter(&mut self, index: usize, key: CounterKey) {
        let (sums, added) = (self.kinds.counting.sums(key), self.kinds.counting.added(key));
        let text = format!("SELECT v FROM k.n WHERE p = {} AND c = {}", key.0, key.1);
        let asked = Asked::Counters(CounterAsked::Read { key, sums, added });
        self.clients[index].ask(op::QUERY, &query(&text), asked);
    }

    pub fn read_counters(&mut self) {
        for key in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let index = self.below(self.clients.len());
            self.read_counter(index, key);
        }
    }

    pub fn answered_counters(&mut self, asked: CounterAsked, answer: &Answer) {
        match asked {
            CounterAsked::Add(number) => {
                let added = self.kinds.counting.in_flight.remove(&number).unwrap();
                if self.is_refused_or_broken(answer, true) {
                    // A batch may be refused in part.
                    if added.len() > 1 {
                        self.kinds.counting.may_have(&added);
                    }
                    return;
                }
                assert_eq!(answer.kind(), 1, "void");
                self.tally.counted += 1;
                for (key, by) in added {
                    let sums = self.kinds.counting.sums(key);
                    let sums = sums.into_iter().map(|sum| sum + by).collect();
                    self.kinds.counting.sums.insert(key, sums);
                }
            }
            CounterAsked::Read { key, sums, added } => {
                if answer.opcode == op::ERROR {
                    assert!(self.is_broken, "a read has failed: {}", answer.message());
                    self.tally.failed_reads += 1;
                    return;
                }
                let rows = answer.rows().0;
                let value = rows.first().and_then(|row| row[0].as_deref());
                let found = value.map_or(0, |v| i64::from_be_bytes(v.try_into().unwrap()));
                let may_be = with_some(&sums, &added);
                assert!(may_be.contains(&found), "counter {key:?} is {found}: {may_be:?}");
                if added.is_empty() && sums == self.kinds.counting.sums(key) {
                    self.kinds.counting.sums.insert(key, [found].into());
                }
                self.tally.reads += 1;
            }
        }
    }
}
