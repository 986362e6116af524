//! The steps of the load, and their requests.

use super::{
    BATCH_ROWS, CONNECTIONS, PARTITIONS,
    client::{batch, execute, frame, op},
    pace::{Load, Outcome, Pace, Requests},
};
use std::time::Duration;

/// Bytes of a value.
const VALUE_BYTES: usize = 1000;

/// One kind of load.
pub struct Step<'a> {
    pub name: &'static str,
    /// Rows of one request.
    pub rows: usize,
    pub pace: Pace,
    /// The prepared statement.
    pub id: &'a [u8],
}

impl Step<'_> {
    /// Runs it on all connections.
    pub fn run(&self, port: u16, length: Duration) -> Outcome {
        let (pace, connections) = (self.pace, CONNECTIONS);
        let is_right = |answer: &super::client::Answer| answer.opcode == op::RESULT;
        Load { port, connections, pace, length, is_right }.run(|number| StepRequests {
            step: self,
            state: u64::from(number) + 1,
            sequence: u64::from(number) << 40,
        })
    }
}

/// The requests of one connection, different from those of the others.
struct StepRequests<'a> {
    step: &'a Step<'a>,
    state: u64,
    sequence: u64,
}

impl StepRequests<'_> {
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.state >> 33
    }
}

impl Requests for StepRequests<'_> {
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
