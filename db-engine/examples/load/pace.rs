//! Connections that each keep a number of requests in flight, or send them at a rate.

use super::client::{Answer, Client};
use std::{
    io::Write,
    time::{Duration, Instant},
};

/// Streams of a connection that sends at a rate: more than are ever in flight.
const STREAMS: u32 = 32_768;

/// When requests are sent.
#[derive(Clone, Copy)]
pub enum Pace {
    /// So many are always in flight on each connection.
    Full {
        /// Per connection.
        in_flight: usize,
    },
    /// So many a second on each connection, whatever is in flight. Each has its own times, so that
    /// what arrives is spread.
    Rated {
        /// Per connection.
        a_second: u32,
    },
}

/// What the connections of a step do.
#[derive(Clone, Copy)]
pub struct Load {
    pub port: u16,
    pub connections: u32,
    pub pace: Pace,
    pub length: Duration,
    /// Whether an answer is what was to be expected.
    pub is_right: fn(&Answer) -> bool,
}

/// What became of a step.
pub struct Outcome {
    /// Of each request, ascending.
    pub latencies_us: Vec<u64>,
    pub errors: u64,
    pub seconds: f64,
}

/// The requests of one connection: the next one, on this stream.
pub trait Requests: Send {
    fn next(&mut self, stream: i16) -> Vec<u8>;
}

impl Load {
    /// Runs it on all connections, each with the requests that are made for its number.
    pub fn run<R: Requests>(&self, requests_of: impl Fn(u32) -> R + Sync) -> Outcome {
        let begun = Instant::now();
        let mut outcome = Outcome { latencies_us: Vec::new(), errors: 0, seconds: 0.0 };
        let requests_of = &requests_of;
        std::thread::scope(|scope| {
            let clients = (0..self.connections)
                .map(|number| scope.spawn(move || self.drive(requests_of(number), number, begun)));
            for client in clients.collect::<Vec<_>>() {
                let (latencies_us, errors) = client.join().expect("a client");
                outcome.latencies_us.extend(latencies_us);
                outcome.errors += errors;
            }
        });
        outcome.seconds = begun.elapsed().as_secs_f64();
        outcome.latencies_us.sort_unstable();
        outcome
    }

    /// The latencies of one connection in microseconds, and how many errors it got.
    fn drive(&self, requests: impl Requests, number: u32, begun: Instant) -> (Vec<u64>, u64) {
        let client = Client::connect(self.port).expect("it serves");
        match self.pace {
            Pace::Full { in_flight } => self.keep_in_flight(client, requests, in_flight, begun),
            Pace::Rated { a_second } => {
                let gap = Duration::from_secs(1) / a_second;
                let due = begun + gap * number / self.connections;
                self.send_when_due(client, requests, due, gap)
            }
        }
    }

    /// A request in each slot until the time is over; its stream is the slot.
    fn keep_in_flight(
        &self,
        mut client: Client,
        mut requests: impl Requests,
        slots: usize,
        begun: Instant,
    ) -> (Vec<u64>, u64) {
        let until = begun + self.length;
        let mut sent_at = vec![Instant::now(); slots];
        let (mut latencies_us, mut errors) = (Vec::with_capacity(1 << 20), 0);
        let mut outgoing = Vec::new();
        let mut free: Vec<usize> = (0..slots).collect();
        loop {
            let now = Instant::now();
            if now < until {
                for slot in free.drain(..) {
                    sent_at[slot] = now;
                    outgoing.extend(requests.next(i16::try_from(slot).expect("few")));
                }
                client.send(&outgoing).expect("it reads");
                outgoing.clear();
            }
            if free.len() == slots {
                return (latencies_us, errors);
            }
            let mut received = Some(client.receive().expect("an answer"));
            while let Some(answer) = received {
                let slot = usize::try_from(answer.stream).expect("a slot");
                latencies_us.push(as_us(sent_at[slot].elapsed()));
                errors += u64::from(!(self.is_right)(&answer));
                free.push(slot);
                received = client.buffered();
            }
        }
    }

    /// Each request when it is due, by a thread that sleeps in between. Latencies run from when a
    /// request was due, so that a stall counts for all that wait.
    fn send_when_due(
        &self,
        mut client: Client,
        mut requests: impl Requests,
        first_due: Instant,
        gap: Duration,
    ) -> (Vec<u64>, u64) {
        let count = u32::try_from(self.length.as_nanos() / gap.as_nanos()).expect("seconds");
        let mut socket = client.sending_half().expect("a second handle");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..count {
                    let due = first_due + gap * number;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let stream = i16::try_from(number % STREAMS).expect("a stream");
                    socket.write_all(&requests.next(stream)).expect("it reads");
                }
            });
            // Streams are taken by turns, so the next answer of one is that of STREAMS requests
            // later.
            let mut next_of_stream: Vec<u32> = (0..STREAMS).collect();
            let (mut latencies_us, mut errors) = (Vec::with_capacity(count as usize), 0);
            for _ in 0..count {
                let answer = client.receive().expect("an answer");
                let number = &mut next_of_stream[usize::try_from(answer.stream).expect("one")];
                latencies_us.push(as_us((first_due + gap * *number).elapsed()));
                errors += u64::from(!(self.is_right)(&answer));
                *number += STREAMS;
            }
            (latencies_us, errors)
        })
    }
}

impl Outcome {
    /// A percentile of the latencies, in microseconds.
    pub fn percentile_us(&self, percent: usize) -> u64 {
        let last = self.latencies_us.len().max(1) - 1;
        self.latencies_us.get(last * percent / 100).copied().unwrap_or_default()
    }
}

fn as_us(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}
