//! Which read goes on next: clients take turns, however many reads each of them has sent.

use super::{session::ConnectionId, tag::SlabKey};
use hashbrown::{HashMap, hash_map::Entry};
use std::collections::VecDeque;

/// Reads of one client that are under way at once, unless said otherwise. The others of its reads
/// have not begun, so that they are in nobody's way: neither here, nor at the disk, nor on other
/// shards.
const READS_UNDER_WAY_MAX: usize = 8;

/// The reads of one client that were not answered at once.
#[derive(Debug, Default)]
struct Line {
    under_way: usize,
    /// Those under way that can go on.
    paused: VecDeque<SlabKey>,
    /// Those that have not begun.
    waiting: VecDeque<SlabKey>,
}

/// The reads of all clients of a shard that were not answered at once.
#[derive(Debug)]
pub struct RoundRobin {
    under_way_max: usize,
    lines: HashMap<ConnectionId, Line>,
    /// Clients with reads that can go on: the next one first.
    clients: VecDeque<ConnectionId>,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::of(READS_UNDER_WAY_MAX)
    }
}

impl RoundRobin {
    /// With so many under way of each client.
    pub fn of(under_way_max: usize) -> Self {
        Self { under_way_max, lines: HashMap::new(), clients: VecDeque::new() }
    }

    /// Whether another read of this client may begin.
    #[inline]
    pub fn may_begin(&self, client: ConnectionId) -> bool {
        self.lines.is_empty()
            || self.lines.get(&client).is_none_or(|line| line.under_way < self.under_way_max)
    }

    /// A read has begun and was not answered at once.
    pub fn begun(&mut self, client: ConnectionId) {
        self.lines.entry(client).or_default().under_way += 1;
    }

    /// A read must wait until others of its client have ended.
    pub fn wait(&mut self, client: ConnectionId, slot: SlabKey) {
        self.lines.entry(client).or_default().waiting.push_back(slot);
    }

    /// A read that has begun lets others go on.
    pub fn pause(&mut self, client: ConnectionId, slot: SlabKey) {
        let paused = &mut self.lines.entry(client).or_default().paused;
        if paused.is_empty() {
            self.clients.push_back(client);
        }
        paused.push_back(slot);
    }

    /// A read that had begun has ended: another one of its client may begin.
    pub fn ended(&mut self, client: ConnectionId) {
        let Entry::Occupied(mut line) = self.lines.entry(client) else { return };
        line.get_mut().under_way -= 1;
        if let Some(next) = line.get_mut().waiting.pop_front() {
            line.get_mut().under_way += 1;
            self.pause(client, next);
        } else if line.get().under_way == 0 {
            line.remove();
        }
    }

    /// The read that goes on next. It may have ended meanwhile.
    pub fn next(&mut self) -> Option<SlabKey> {
        loop {
            let client = self.clients.pop_front()?;
            let Some(line) = self.lines.get_mut(&client) else { continue };
            let Some(slot) = line.paused.pop_front() else { continue };
            if !line.paused.is_empty() {
                self.clients.push_back(client);
            }
            return Some(slot);
        }
    }

    /// Whether no read can go on.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    fn slot(index: u32) -> SlabKey {
        SlabKey { index, generation: 0 }
    }

    #[test]
    fn a_client_with_one_read_waits_for_one_of_each_other() {
        let mut reads = RoundRobin::default();
        for (client, count) in [(0, 8), (1, 1), (2, 8)] {
            for number in 0..count {
                assert!(reads.may_begin(place(client)));
                reads.begun(place(client));
                reads.pause(place(client), slot(client * 100 + number));
            }
        }
        let next: Vec<u32> = (0..5).filter_map(|_| reads.next()).map(|slot| slot.index).collect();
        assert_eq!(next, [0, 100, 200, 1, 201]);
        while reads.next().is_some() {}
        assert!(reads.is_empty());
    }

    #[test]
    fn reads_of_a_client_begin_as_others_of_it_end() {
        let mut reads = RoundRobin::default();
        let mut begun = 0;
        for number in 0..100 {
            if reads.may_begin(place(7)) {
                reads.begun(place(7));
                begun += 1;
            } else {
                reads.wait(place(7), slot(number));
            }
        }
        assert_eq!(begun, READS_UNDER_WAY_MAX);
        assert!(reads.is_empty(), "all that have begun wait for something");
        for number in READS_UNDER_WAY_MAX..100 {
            reads.ended(place(7));
            assert_eq!(reads.next(), Some(slot(u32::try_from(number).unwrap())));
            assert!(!reads.may_begin(place(7)));
        }
        (0..READS_UNDER_WAY_MAX).for_each(|_| reads.ended(place(7)));
        assert!(reads.lines.is_empty(), "nothing of it is remembered");
    }
}
