//! Traces: what the engine did for the requests that asked to be traced.
//!
//! They are in memory, of all shards together, and read through `system_traces`. Two limits keep
//! them small: the oldest are forgotten when they have no room any more, and all are after
//! [`TTL_US`]. Only traced requests and those who read traces take the lock.
//!
//! The texts of statements are kept, as in Cassandra, and cut at [`TEXT_BYTES_MAX`]. The values
//! that are bound to markers are not.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use uuid::Uuid;

/// Most bytes of all traces. The oldest make room for new ones.
pub const BYTES_MAX: usize = 4 << 20;
/// How long a trace can be read, in microseconds.
pub const TTL_US: i64 = 3_600_000_000;
/// Most events of one trace; a scan of many pages has more.
pub const EVENTS_MAX: usize = 200;
/// Bytes of the text of a statement, above which the rest of it is left out. As much of each
/// prepared statement is kept, traced or not.
pub const TEXT_BYTES_MAX: usize = 1 << 10;

/// What one trace, and one event, takes besides its texts: structs, places in collections.
const TRACE_BYTES: usize = 320;
const EVENT_BYTES: usize = 96;

/// One thing that was done for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// In words.
    pub activity: String,
    /// Microseconds since the request began.
    pub elapsed_us: u32,
    /// The thread that did it.
    pub thread: String,
}

/// A request that was traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The identifier that the client was given: a UUID of version 1.
    pub id: Uuid,
    /// Tells identifiers that are made for it from those that are made elsewhere.
    pub node: u64,
    /// Where the client is.
    pub client: Option<IpAddr>,
    /// What kind of request it is, in Cassandra's words.
    pub request: &'static str,
    /// The text of the statement, the level asked for, and the like.
    pub parameters: BTreeMap<String, String>,
    /// When it came, in microseconds since the Unix epoch.
    pub started_us: i64,
    /// How long it took; none until it is answered.
    pub duration_us: Option<u32>,
    /// What was done for it.
    pub events: Vec<TraceEvent>,
}

impl Trace {
    fn bytes(&self) -> usize {
        let texts = self.parameters.iter().map(|(key, value)| key.len() + value.len() + 64);
        TRACE_BYTES
            + texts.sum::<usize>()
            + self.events.iter().map(TraceEvent::bytes).sum::<usize>()
    }
}

impl TraceEvent {
    fn bytes(&self) -> usize {
        EVENT_BYTES + self.activity.len() + self.thread.len()
    }
}

/// The traces of all shards.
#[derive(Debug)]
pub struct Traces {
    kept: Mutex<Kept>,
    bytes: AtomicU64,
    bytes_max: usize,
}

impl Default for Traces {
    fn default() -> Self {
        Self::with_room(BYTES_MAX)
    }
}

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<Uuid, Trace>,
    /// The oldest first.
    order: VecDeque<Uuid>,
    bytes: usize,
}

impl Traces {
    /// None yet, and never more than so many bytes or [`BYTES_MAX`].
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        let bytes_max = bytes.min(BYTES_MAX);
        Self { kept: Mutex::default(), bytes: AtomicU64::new(0), bytes_max }
    }

    /// Remembers a request that has just begun.
    pub fn begin(&self, trace: Trace) {
        let mut kept = self.lock();
        kept.forget_expired(trace.started_us);
        kept.bytes += trace.bytes();
        kept.order.push_back(trace.id);
        kept.by_id.insert(trace.id, trace);
        kept.make_room(self.bytes_max);
        self.bytes.store(kept.bytes as u64, Relaxed);
    }

    /// Adds what was done for a request, unless it has been forgotten or has events enough.
    pub fn add(&self, id: Uuid, event: TraceEvent) {
        let mut kept = self.lock();
        let Some(trace) = kept.by_id.get_mut(&id) else { return };
        if trace.events.len() >= EVENTS_MAX {
            return;
        }
        let bytes = event.bytes();
        trace.events.push(event);
        kept.bytes += bytes;
        kept.make_room(self.bytes_max);
        self.bytes.store(kept.bytes as u64, Relaxed);
    }

    /// A request is answered.
    pub fn end(&self, id: Uuid, duration_us: u32) {
        if let Some(trace) = self.lock().by_id.get_mut(&id) {
            trace.duration_us = Some(duration_us);
        }
    }

    /// Calls `f` with each trace that has not expired, the oldest first.
    pub fn each(&self, now_us: i64, mut f: impl FnMut(&Trace)) {
        let mut kept = self.lock();
        kept.forget_expired(now_us);
        self.bytes.store(kept.bytes as u64, Relaxed);
        kept.order.iter().filter_map(|id| kept.by_id.get(id)).for_each(&mut f);
    }

    /// Bytes of all traces, for the metrics.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn make_room(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && self.forget_oldest() {}
    }

    fn forget_expired(&mut self, now_us: i64) {
        let is_old = |trace: &Trace| now_us.saturating_sub(trace.started_us) > TTL_US;
        while self.order.front().and_then(|id| self.by_id.get(id)).is_some_and(is_old) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(id) = self.order.pop_front() else { return false };
        let bytes = self.by_id.remove(&id).map_or(0, |trace| trace.bytes());
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// The text of a statement, or the beginning of it.
#[must_use]
pub fn beginning(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_string();
    }
    format!("{}…", text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default())
}

/// Ticks of 100 ns from the Gregorian reform, from which UUIDs of version 1 count, to 1970.
const GREGORIAN_TICKS: i64 = 0x01B2_1DD2_1381_4000;

/// A UUID of version 1 of this moment. `number` tells those of one moment apart and is their
/// order; `node` tells those who make them apart.
#[must_use]
pub fn time_uuid(now_us: i64, number: u16, node: u64) -> Uuid {
    let ticks = now_us.saturating_mul(10).saturating_add(GREGORIAN_TICKS).cast_unsigned();
    let [n0, n1, _, _, n4, n5, n6, n7] = node.to_be_bytes();
    // The multicast bit says that the node is no hardware address.
    let node = [n0 | 1, n1, n4, n5, n6, n7];
    uuid::Builder::from_gregorian_timestamp(ticks, number & 0x3FFF, &node).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(number: u16, started_us: i64) -> Trace {
        Trace {
            id: time_uuid(started_us, number, 7),
            node: 7,
            client: None,
            request: "Execute CQL3 query",
            parameters: BTreeMap::from([("query".to_string(), "SELECT 1".to_string())]),
            started_us,
            duration_us: None,
            events: Vec::new(),
        }
    }

    fn event(bytes: usize) -> TraceEvent {
        let (activity, thread) = ("x".repeat(bytes), "shard-0".to_string());
        TraceEvent { activity, elapsed_us: 1, thread }
    }

    fn ids(traces: &Traces, now_us: i64) -> Vec<Uuid> {
        let mut ids = Vec::new();
        traces.each(now_us, |trace| ids.push(trace.id));
        ids
    }

    #[test]
    fn what_is_done_for_a_request_is_told_until_it_is_too_old() {
        let traces = Traces::default();
        let id = trace(1, 1_000).id;
        traces.begin(trace(1, 1_000));
        traces.add(id, event(3));
        traces.end(id, 42);
        let mut seen = Vec::new();
        traces.each(1_000 + TTL_US, |trace| seen.push(trace.clone()));
        let expected = Trace { duration_us: Some(42), events: vec![event(3)], ..trace(1, 1_000) };
        assert_eq!(seen, [expected]);
        assert!(ids(&traces, 1_001 + TTL_US).is_empty());
        assert_eq!(traces.bytes(), 0, "nothing is kept of what is forgotten");
    }

    #[test]
    fn the_oldest_make_room_and_what_is_forgotten_takes_no_more_events() {
        let room = BYTES_MAX / 4;
        let traces = Traces::with_room(room);
        let many: Vec<_> = (0..100).map(|number| trace(number, i64::from(number))).collect();
        for trace in &many {
            traces.begin(trace.clone());
            (0..2).for_each(|_| traces.add(trace.id, event(room / 20)));
        }
        assert!(traces.bytes() <= room as u64);
        let left = ids(&traces, 100);
        assert!((2..20).contains(&left.len()), "{}", left.len());
        assert_eq!(left.last(), many.last().map(|trace| &trace.id));
        let before = traces.bytes();
        traces.add(many[0].id, event(1));
        assert_eq!(traces.bytes(), before);
    }

    #[test]
    fn a_trace_has_only_so_many_events() {
        let traces = Traces::default();
        let one = trace(1, 1);
        traces.begin(one.clone());
        (0..EVENTS_MAX + 5).for_each(|_| traces.add(one.id, event(1)));
        traces.each(1, |trace| assert_eq!(trace.events.len(), EVENTS_MAX));
    }

    #[test]
    fn identifiers_of_one_moment_are_ordered_and_say_when() {
        let (a, b) =
            (time_uuid(1_700_000_000_123_456, 1, 9), time_uuid(1_700_000_000_123_456, 2, 9));
        assert_eq!(a.get_version_num(), 1);
        assert!(a.as_bytes() < b.as_bytes(), "the time is the same, the number is not");
        let (seconds, nanos) = a.get_timestamp().expect("of version 1").to_unix();
        assert_eq!((seconds, nanos), (1_700_000_000, 123_456_000));
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        assert_eq!(beginning("short"), "short");
        let text = "é".repeat(TEXT_BYTES_MAX);
        let cut = beginning(&text);
        assert!(cut.ends_with('…') && cut.len() <= TEXT_BYTES_MAX + 3);
    }
}
