//! The connections of one shard and its turns. A turn: read every ready connection and run its
//! frames; let the shard talk to its peers and its store; then one send for each connection that
//! has answers.
//!
//! Nothing is sent between two frames: a send costs more than everything else a request costs.
//! The reactor knows no sockets: the [event loop](super::event_loop) tells it which connections
//! are ready, and a simulation does the same with connections in memory.

use super::{
    connection::{Connection, Life, Received, Stream},
    connections::Connections,
    requests::{refuse, run, run_kept},
    stop::{ANSWERING_US_MAX, Stop},
};
use crate::{
    budget::Share, io::TimeSlice, metrics::ShardMetrics, protocol::code, shard::Shard, store::Fatal,
};
use log::debug;
use std::{collections::VecDeque, io, sync::Arc, time::Duration};

/// Microseconds of a turn for the requests of clients that have just sent some, all together; and
/// as many for those that have more than there was time for.
const REQUESTS_US: u64 = 1_000;

/// The least that a client is given of them when it is its turn.
const CLIENT_US: u64 = 100;

/// Bytes that are sent in a turn, and of one connection: the kernel takes a millisecond or two for
/// a few megabytes.
const SENT_BYTES_MAX: usize = 1 << 20;
const CONNECTION_SENT_BYTES_MAX: usize = 256 << 10;

/// Bytes of the buffer that all connections are read into.
const SHARED_BYTES: usize = 64 << 10;

/// How long a connection may take nothing of its answers while others have no room for theirs, in
/// microseconds.
const STALLED_US_MAX: u64 = 1_000_000;

/// How often connections are looked through for such, in microseconds.
const RELIEF_US: u64 = 100_000;

/// What one shard's connections may use.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_field_names)] // each is the most of something
pub struct Limits {
    /// Longest body of a request.
    pub frame_bytes_max: usize,
    /// Connections.
    pub connections_max: u32,
    /// Requests of one connection that are not answered.
    pub in_flight_max: u32,
    /// Answers that one connection has not taken, in bytes.
    pub output_bytes_max: usize,
}

/// One shard and its connections.
pub struct Reactor {
    connections: Connections,
    shard: Shard,
    limits: Limits,
    shared: Vec<u8>,
    /// Connections of which something is to be read: they have been idle. They are first, because
    /// most have sent little.
    fresh: VecDeque<u32>,
    /// Connections that have had a share of time and have more to be run. No event will tell so.
    busy: VecDeque<u32>,
    /// Memory for the list of those who have something to send.
    spare: Vec<u32>,
    /// When answers were last looked through for those that nobody takes, in microseconds.
    relieved_us: u64,
    stop: Arc<Stop>,
    stopping: Stopping,
}

/// How far the shard is in stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// Not at all.
    No,
    /// Requests in flight are answered; nothing new is read.
    Answering { until_us: u64 },
    /// All of ours are answered; those of other shards may still need us.
    Helping,
    /// Everything in memory is written.
    Flushing,
}

impl Reactor {
    /// A shard without connections.
    #[must_use]
    pub fn new(mut shard: Shard, limits: Limits, stop: Arc<Stop>) -> Self {
        shard.limit_output(limits.output_bytes_max);
        Self {
            connections: Connections::new(Arc::clone(&shard.metrics().memory)),
            shard,
            limits,
            shared: vec![0; SHARED_BYTES],
            fresh: VecDeque::new(),
            busy: VecDeque::new(),
            spare: Vec::new(),
            relieved_us: 0,
            stop,
            stopping: Stopping::No,
        }
    }

    /// Whether the shard was told to stop and everything is written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopping == Stopping::Flushing && self.shard.is_idle()
    }

    /// Whether connections are taken: not any more once stopping has begun.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stopping == Stopping::No
    }

    /// Said before waiting: for how long there is nothing to do unless something happens; `None`
    /// for ever. Where there is nothing, the shard uses the time for a write of its own.
    pub fn lie_down(&mut self) -> Option<Duration> {
        let mut timeout = self.shard.timeout();
        if let Stopping::Answering { until_us } = self.stopping {
            let left = Duration::from_micros(until_us.saturating_sub(self.shard.turn_us()));
            timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
        }
        let has_requests = !(self.fresh.is_empty() && self.busy.is_empty());
        let is_behind = has_requests || self.connections.has_touched();
        if is_behind || !self.shard.lie_down() {
            timeout = Some(Duration::ZERO);
        }
        if self.shard.rest(timeout != Some(Duration::ZERO)) {
            timeout = Some(Duration::ZERO);
        }
        timeout
    }

    /// Said after waiting, first in every turn.
    pub fn get_up(&mut self) {
        self.shard.get_up();
        self.shard.begin_turn();
    }

    /// Where the shard counts.
    #[must_use]
    pub fn metrics(&self) -> &ShardMetrics {
        self.shard.metrics()
    }

    /// Takes over a new connection, unless there are as many as there may be. `watch` asks for
    /// the events of its stream, which are to be told under the number it is given.
    pub fn accept<S: Stream + 'static>(
        &mut self,
        mut stream: S,
        watch: impl FnOnce(&mut S, u32) -> io::Result<()>,
    ) {
        if self.connections.open() >= self.limits.connections_max && !self.make_way() {
            return;
        }
        if watch(&mut stream, self.connections.next_index()).is_ok() {
            self.connections.insert(Box::new(stream));
            self.shard.metrics().accepted.add(1);
        }
    }

    /// Notes that a client has closed its side. Nothing will tell so again: the connection is read
    /// to the end, however short a read is.
    pub fn ended(&mut self, index: u32) {
        if let Some(connection) = self.connections.get(index) {
            connection.ended = true;
        }
    }

    /// Notes that there is something to read of a connection.
    pub fn readable(&mut self, index: u32) {
        if let Some(connection) = self.connections.get(index)
            && !connection.is_queued
        {
            connection.is_queued = true;
            self.fresh.push_back(index);
        }
    }

    /// Notes that a connection can be written to.
    pub fn writable(&mut self, index: u32) {
        self.connections.touch(index);
    }

    /// A turn, once it is known which connections are ready.
    ///
    /// # Errors
    /// Storage has failed: nothing more may be acknowledged.
    pub fn turn(&mut self) -> Result<(), Fatal> {
        self.serve();
        self.shard.turn(&mut self.connections)?;
        self.send();
        self.relieve();
        self.step_down();
        Ok(())
    }

    /// Closes the connection that has waited longest without having said STARTUP, if there is
    /// one, for the sake of another.
    pub fn make_way(&mut self) -> bool {
        self.shard.metrics().refused.add(1);
        let silent = self.connections.oldest_silent();
        silent.is_some_and(|silent| {
            self.remove(silent);
            true
        })
    }

    /// Runs what clients have sent, as much of it as there is time for. They share the time of a
    /// turn, so that a turn is short however many of them there are.
    fn serve(&mut self) {
        let clock = self.shard.clock();
        // Those that are not done in this turn have had their share of it.
        let waiting = self.busy.len();
        let mut time = TimeSlice::new(&*clock, REQUESTS_US);
        let share_us = share_of(self.fresh.len());
        while !time.is_whole_over() {
            let Some(index) = self.fresh.pop_front() else { break };
            time.begin_part(share_us);
            self.read(index, &mut time);
        }
        if waiting == 0 {
            return;
        }
        let mut time = TimeSlice::new(&*clock, REQUESTS_US);
        let share_us = share_of(waiting);
        for _ in 0..waiting {
            let Some(index) = self.busy.pop_front() else { return };
            time.begin_part(share_us);
            self.read(index, &mut time);
            if time.is_whole_over() || !self.fresh.is_empty() {
                return;
            }
        }
    }

    /// Reads a connection that is in no line any more, and runs its frames until there are none, or
    /// its time is over.
    fn read(&mut self, index: u32, time: &mut TimeSlice<'_>) {
        let Some(connection) = self.connections.get(index) else { return };
        connection.is_queued = false;
        if connection.life == Life::Lingering {
            connection.drain(&mut self.shared);
            if connection.life == Life::Closed {
                self.remove(index);
            }
            return;
        }
        let stopping = self.stopping != Stopping::No;
        if connection.blocked || connection.session.broken || stopping {
            return;
        }
        let metrics = self.shard.metrics_handle();
        let mut drained = false;
        run_kept(connection, &mut self.shard, &self.limits, time);
        while !(connection.blocked || connection.session.broken || drained || time.is_over()) {
            metrics.receives.add(1);
            let before = connection.kept.len();
            let length = match connection.receive(&mut self.shared) {
                Received::Shared { length, drained: last } => {
                    drained = last && !connection.ended;
                    let bytes = &self.shared[..length];
                    let used = run(connection, &mut self.shard, &self.limits, bytes, time);
                    connection.keep(&bytes[used..]);
                    length - before
                }
                Received::Kept { drained: last } => {
                    drained = last && !connection.ended;
                    let length = connection.kept.len() - before;
                    time.count(length);
                    run_kept(connection, &mut self.shard, &self.limits, time);
                    length
                }
                Received::Nothing => break,
                Received::Closed => {
                    self.remove(index);
                    return;
                }
            };
            metrics.received_bytes.add(length as u64);
        }
        let is_held_up = connection.blocked || connection.session.broken;
        let has_more = !drained || connection.kept.len() >= connection.needed;
        if has_more && time.is_over() && !is_held_up {
            connection.is_queued = true;
            self.busy.push_back(index);
        }
        connection.settle();
        self.connections.touch(index);
        self.shed();
    }

    /// Refuses requests that have not arrived whole, or are not bound yet, while they hold more
    /// than their share: the longest first, so that whoever holds little is served as ever.
    fn shed(&mut self) {
        let metrics = self.shard.metrics_handle();
        while metrics.memory.is_over(Share::Requests) {
            let longest = self.connections.iter_mut().max_by_key(|one| one.request_bytes());
            let Some(connection) = longest.filter(|one| one.request_bytes() > 0) else { return };
            let index = connection.session.place.index;
            if !connection.session.broken {
                let message = "too many bytes of unfinished requests, try again later";
                refuse(&mut connection.session, -1, code::OVERLOADED, message);
                metrics.error(code::OVERLOADED);
                metrics.shed.add(1);
            }
            connection.kept = Vec::new();
            connection.session.unbound = None;
            connection.settle();
            self.connections.touch(index);
        }
    }

    /// Where no answer has room any more, memory that holds none is given back, and the connection
    /// is closed that has most of those that take nothing.
    fn relieve(&mut self) {
        let now_us = self.shard.turn_us();
        if !self.shard.is_short_of_answers() || now_us < self.relieved_us + RELIEF_US {
            return;
        }
        self.relieved_us = now_us;
        self.connections.iter_mut().for_each(Connection::give_back);
        let stalled = self.connections.iter().filter(|connection| {
            connection.stalled_since_us.is_some_and(|since| now_us >= since + STALLED_US_MAX)
        });
        let most = stalled.max_by_key(|connection| connection.output_bytes());
        if let Some(index) = most.map(|connection| connection.session.place.index) {
            self.shard.metrics().stalled.add(1);
            self.remove(index);
        }
    }

    /// One send for each connection that has answers, and what follows from it. Those who have
    /// more than is sent at once, and those for whom nothing is left of the turn, come next time.
    fn send(&mut self) {
        let metrics = self.shard.metrics_handle();
        let now_us = self.shard.turn_us();
        let mut touched = self.connections.touched(std::mem::take(&mut self.spare));
        let (mut left, mut unfinished) = (SENT_BYTES_MAX, Vec::new());
        for index in touched.drain(..) {
            let Some(connection) = self.connections.get(index) else { continue };
            connection.dirty = false;
            if connection.output_bytes() > 0 {
                if left == 0 {
                    self.connections.touch(index);
                    continue;
                }
                metrics.sends.add(1);
                let bytes_max = left.min(CONNECTION_SENT_BYTES_MAX);
                let sent = connection.send(bytes_max);
                left -= sent;
                if sent == bytes_max {
                    unfinished.push(index);
                }
                metrics.sent_bytes.add(sent as u64);
                connection.stalled_since_us = match connection.stalled_since_us {
                    _ if connection.output_bytes() == 0 => None,
                    Some(since_us) if sent == 0 => Some(since_us),
                    _ => Some(now_us),
                };
            }
            let output = connection.output_bytes();
            if connection.life == Life::Open && connection.session.broken && output == 0 {
                connection.linger();
            }
            connection.settle();
            if connection.life == Life::Closed {
                self.remove(index);
                continue;
            }
            let in_flight = connection.session.in_flight;
            if connection.blocked
                && output <= self.limits.output_bytes_max / 2
                && in_flight <= self.limits.in_flight_max / 2
                && (output == 0 || !metrics.memory.is_over(Share::Answers))
            {
                connection.blocked = false;
                if !connection.is_queued {
                    connection.is_queued = true;
                    self.busy.push_back(index);
                }
            }
        }
        for index in unfinished {
            self.connections.touch(index);
        }
        self.spare = touched;
        metrics.connections.set(u64::from(self.connections.open()));
        metrics.request_bytes.set(metrics.memory.taken(Share::Requests));
        metrics.output_bytes.set(metrics.memory.taken(Share::Answers));
    }

    fn remove(&mut self, index: u32) {
        if let Some(removed) = self.connections.remove(index) {
            debug!(in_flight = removed.session.in_flight; "a connection is closed");
        }
    }

    /// Goes on with stopping, once told to.
    fn step_down(&mut self) {
        match self.stopping {
            Stopping::No => {
                if self.stop.is_requested() {
                    let until_us = self.shard.turn_us() + ANSWERING_US_MAX;
                    self.stopping = Stopping::Answering { until_us };
                    self.shard.stop_waiting();
                    self.step_down();
                }
            }
            Stopping::Answering { until_us } => {
                // A client may have left: what it has begun ends all the same.
                let has_output = |connection: &Connection| connection.output_bytes() > 0;
                let is_busy = self.shard.is_serving() || self.connections.iter().any(has_output);
                if !is_busy || self.shard.turn_us() >= until_us {
                    self.stop.answered();
                    self.stopping = Stopping::Helping;
                    self.step_down();
                }
            }
            Stopping::Helping => {
                if self.stop.all_answered() {
                    self.shard.begin_shutdown();
                    self.stopping = Stopping::Flushing;
                }
            }
            Stopping::Flushing => {}
        }
    }
}

/// What each of so many clients is given of the time of a turn.
fn share_of(clients: usize) -> u64 {
    (REQUESTS_US / clients.max(1) as u64).max(CLIENT_US)
}
