//! The clients of one step: connections that each keep a number of requests in flight, or send
//! them at a rate.

use super::{
    BATCH_ROWS, CONNECTIONS, PARTITIONS,
    client::{Client, batch, execute, frame, op},
};
use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

/// Bytes of a value.
const VALUE_BYTES: usize = 1000;

/// When requests are sent.
#[derive(Clone, Copy)]
pub enum Pace {
    /// So many are always in flight on each connection.
    Full {
        /// Per connection.
        in_flight: usize,
    },
    /// So many a second on each connection, whatever is in flight.
    Rated {
        /// Per connection.
        a_second: u64,
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
                .map(|number| scope.spawn(move || self.drive(port, number as u64, begun + length)));
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

    fn drive(&self, port: u16, number: u64, until: Instant) -> (Vec<u64>, u64) {
        let mut client = Client::connect(port).expect("it serves");
        let mut requests = Requests { step: self, state: number + 1, sequence: number << 40 };
        let slots = match self.pace {
            Pace::Full { in_flight } => in_flight,
            Pace::Rated { .. } => 4096,
        };
        let mut sent_at = vec![Instant::now(); slots];
        let (mut latencies_us, mut errors) = (Vec::with_capacity(1 << 20), 0);
        let mut outgoing = Vec::new();
        let mut free: Vec<usize> = (0..slots).collect();
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            let over = now >= until;
            let mut wanted = if over { 0 } else { free.len() };
            if let Pace::Rated { a_second } = self.pace {
                let gap = Duration::from_nanos(1_000_000_000 / a_second);
                wanted = 0;
                while !over && due <= now {
                    due += gap;
                    wanted += 1;
                }
                let patience = due.saturating_duration_since(now).max(Duration::from_micros(50));
                client.set_patience(if over { Duration::from_secs(10) } else { patience });
            }
            for _ in 0..wanted.min(free.len()) {
                let slot = free.pop().expect("one is free");
                sent_at[slot] = now;
                outgoing.extend(requests.next(i16::try_from(slot).expect("few")));
            }
            if !outgoing.is_empty() {
                client.send(&outgoing).expect("it reads");
                outgoing.clear();
            }
            if over && free.len() == slots {
                return (latencies_us, errors);
            }
            let mut received = client.receive();
            loop {
                match received {
                    Ok(answer) => {
                        let slot = usize::try_from(answer.stream).expect("a slot");
                        let took = sent_at[slot].elapsed().as_micros();
                        latencies_us.push(u64::try_from(took).unwrap_or(u64::MAX));
                        errors += u64::from(answer.opcode != op::RESULT);
                        free.push(slot);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
                match client.buffered() {
                    Some(answer) => received = Ok(answer),
                    None => break,
                }
            }
        }
    }
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
