//! The clients of one step: connections that each keep a number of requests in flight, or send
//! them at a rate.

use super::{
    BATCH_ROWS, CONNECTIONS, PARTITIONS,
    client::{Client, batch, execute, frame, op},
};
use std::{
    io::Write,
    time::{Duration, Instant},
};

/// Bytes of a value.
const VALUE_BYTES: usize = 1000;

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

/// One kind of load.
pub struct Step<'a> {
    pub name: &'static str,
    /// Rows of one request.
    pub rows: usize,
    pub pace: Pace,
    /// The prepared statement.
    pub id: &'a [u8],
}

/// What became of a step.
pub struct Outcome {
    /// Of each request, ascending.
    pub latencies_us: Vec<u64>,
    pub errors: u64,
    pub seconds: f64,
}

impl Step<'_> {
    /// Runs it on all connections.
    pub fn run(&self, port: u16, length: Duration) -> Outcome {
        let begun = Instant::now();
        let mut outcome = Outcome { latencies_us: Vec::new(), errors: 0, seconds: 0.0 };
        std::thread::scope(|scope| {
            let clients = (0..CONNECTIONS)
                .map(|number| scope.spawn(move || self.drive(port, number, begun, length)));
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
    fn drive(&self, port: u16, number: u32, begun: Instant, length: Duration) -> (Vec<u64>, u64) {
        let client = Client::connect(port).expect("it serves");
        let (state, sequence) = (u64::from(number) + 1, u64::from(number) << 40);
        let requests = Requests { step: self, state, sequence };
        match self.pace {
            Pace::Full { in_flight } => keep_in_flight(client, requests, in_flight, begun + length),
            Pace::Rated { a_second } => {
                let gap = Duration::from_secs(1) / a_second;
                let count = length.as_nanos() / gap.as_nanos();
                let due = begun + gap * number / CONNECTIONS;
                send_when_due(client, requests, due, gap, u32::try_from(count).expect("seconds"))
            }
        }
    }
}

/// A request in each slot until the time is over; its stream is the slot.
fn keep_in_flight(
    mut client: Client,
    mut requests: Requests<'_>,
    slots: usize,
    until: Instant,
) -> (Vec<u64>, u64) {
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
            errors += u64::from(answer.opcode != op::RESULT);
            free.push(slot);
            received = client.buffered();
        }
    }
}

/// So many requests, each when it is due, by a thread that sleeps in between. Latencies run from
/// when a request was due, so that a stall counts for all that wait.
fn send_when_due(
    mut client: Client,
    mut requests: Requests<'_>,
    first_due: Instant,
    gap: Duration,
    count: u32,
) -> (Vec<u64>, u64) {
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
        // Streams are taken by turns, so the next answer of one is that of STREAMS requests later.
        let mut next_of_stream: Vec<u32> = (0..STREAMS).collect();
        let (mut latencies_us, mut errors) = (Vec::with_capacity(count as usize), 0);
        for _ in 0..count {
            let answer = client.receive().expect("an answer");
            let number = &mut next_of_stream[usize::try_from(answer.stream).expect("a stream")];
            latencies_us.push(as_us((first_due + gap * *number).elapsed()));
            errors += u64::from(answer.opcode != op::RESULT);
            *number += STREAMS;
        }
        (latencies_us, errors)
    })
}

fn as_us(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// The requests of one connection, different from those of the others.
struct Requests<'a> {
    step: &'a Step<'a>,
    state: u64,
    sequence: u64,
}

impl Requests<'_> {
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.state >> 33
    }

    fn next(&mut self, stream: i16) -> Vec<u8> {
        self.sequence += 1;
        if self.step.rows == BATCH_ROWS {
            // All of one sensor, as on a cluster; or of as many as there are rows, as ingest does it
            // when each has sent one reading.
            let is_mixed = self.step.name == "batch_of_50_sensors";
            let rows: Vec<Vec<Vec<u8>>> = (0..BATCH_ROWS as u64)
                .map(|row| {
                    let other = if is_mixed { row } else { 0 };
                    let sensor = format!("sensor-{}", (self.sequence + other) % 500);
                    let ts = self.sequence * BATCH_ROWS as u64 + row;
                    let value = f64::from_bits(0x4035_8000_0000_0000 | row);
                    let ts = ts.to_be_bytes().to_vec();
                    vec![sensor.into_bytes(), ts, value.to_be_bytes().to_vec()]
                })
                .collect();
            return frame(stream, op::BATCH, &batch(1, self.step.id, &rows));
        }
        if self.step.name.starts_with("row") {
            let sensor = format!("sensor-{}", self.random() % PARTITIONS);
            let ts = self.sequence.to_be_bytes();
            let bound: &[&[u8]] = &[sensor.as_bytes(), &ts, &21.5_f64.to_be_bytes()];
            return frame(stream, op::EXECUTE, &execute(self.step.id, bound));
        }
        let key = (self.random() % PARTITIONS).to_be_bytes();
        let value = [self.state.to_be_bytes()[0]; VALUE_BYTES];
        let bound: &[&[u8]] =
            if self.step.name.starts_with("read") { &[&key] } else { &[&key, &value] };
        frame(stream, op::EXECUTE, &execute(self.step.id, bound))
    }
}
