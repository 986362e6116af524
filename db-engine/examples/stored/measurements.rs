//! Measurements as ingest stores them: the table, and rows of days of many sensors.

use super::{
    client::{Client, op},
    random::mixed,
};
use sandglass_db::io::{Clock, SystemClock};

/// Sensors that report now and then, and how often a day.
pub const SENSORS: u64 = 100_000;
pub const READINGS: u64 = 4;

/// Sensors that report all the time, and how often a day. Of these pages are read.
pub const WATCHED: u64 = 20;
pub const WATCHED_READINGS: u64 = 2_880;

pub const ROWS_A_DAY: u64 = SENSORS * READINGS + WATCHED * WATCHED_READINGS;

const DAY_MS: u64 = 86_400_000;

/// Numbers of the watched sensors, and of such as never sent anything.
pub const FIRST_WATCHED: u64 = 1 << 40;
pub const FIRST_SILENT: u64 = 1 << 41;

pub const METRIC: &str = "temperature";

/// As `common/src/schema.js` has it, with the retention of the class `30d`.
const TABLE: &str = "CREATE TABLE bench.measurement_30d (
    sensor_id uuid, bucket bigint, metric text, ts timestamp, seq bigint,
    v double, i bigint, b boolean, s text, lat double, lon double,
    PRIMARY KEY ((sensor_id, bucket), metric, ts, seq)
  ) WITH CLUSTERING ORDER BY (metric ASC, ts DESC, seq DESC)
    AND compaction = {'class': 'TimeWindowCompactionStrategy',
      'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'}
    AND default_time_to_live = 2592000 AND gc_grace_seconds = 10800";

const INSERT: &str = "INSERT INTO bench.measurement_30d (sensor_id, bucket, metric, ts, seq, v) \
    VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?";

/// Some days, the last of which is yesterday.
#[derive(Clone, Copy)]
pub struct Days {
    pub count: u64,
    /// The day behind the last one, since the Unix epoch.
    end: u64,
}

impl Days {
    /// As many as have about so many rows.
    pub fn of_rows(rows: u64) -> Self {
        let now_us = u64::try_from(SystemClock.now_us()).expect("a clock that is set");
        let count = ((rows + ROWS_A_DAY / 2) / ROWS_A_DAY).max(1);
        Self { count, end: now_us / 1000 / DAY_MS }
    }

    pub fn rows(&self) -> u64 {
        self.count * ROWS_A_DAY
    }

    /// Seconds since the Unix epoch at which one of them begins.
    pub fn bucket(&self, day: u64) -> u64 {
        (self.end - self.count + day) * DAY_MS / 1000
    }
}

/// When a sensor sends its readings of a day, in milliseconds.
pub fn reading_ms(bucket: u64, sensor: u64, reading: u64) -> u64 {
    bucket * 1000 + (reading * SENSORS + sensor) * (DAY_MS / (SENSORS * READINGS))
}

pub fn sensor_id(number: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mixed(number).to_be_bytes());
    id[8..].copy_from_slice(&mixed(!number).to_be_bytes());
    id
}

/// Makes the table. Gives the id of the statement that writes a row.
pub fn create(client: &mut Client) -> Vec<u8> {
    client.run(
        "CREATE KEYSPACE bench WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run(TABLE);
    client.prepare(INSERT)
}

#[derive(Clone, Copy)]
struct Row {
    sensor: u64,
    ts_ms: u64,
}

/// The rows of days, as batches in the order in which they arrive: what comes late, comes up to a
/// day later, with the timestamp of its time.
pub struct Batches {
    insert: Vec<u8>,
    first_ms: u64,
    steps: u64,
    step: u64,
    late_percent: u64,
    /// What comes in each of the next steps.
    late: Vec<Vec<Row>>,
}

impl Batches {
    pub fn new(insert: &[u8], days: Days, late_percent: u64) -> Self {
        Self {
            insert: insert.to_vec(),
            first_ms: days.bucket(0) * 1000,
            steps: days.count * WATCHED_READINGS,
            step: 0,
            late_percent,
            late: vec![Vec::new(); usize::try_from(WATCHED_READINGS).expect("few")],
        }
    }

    /// The day behind these.
    pub fn next_day(insert: &[u8], days: Days) -> Self {
        Self::new(insert, Days { count: 1, end: days.end + 1 }, 0)
    }

    fn sent_now(&self) -> Vec<Row> {
        let (day, part) = (self.step / WATCHED_READINGS, self.step % WATCHED_READINGS);
        let day_ms = self.first_ms + day * DAY_MS;
        let all = SENSORS * READINGS;
        let few = all * part / WATCHED_READINGS..all * (part + 1) / WATCHED_READINGS;
        let few = few.map(|number| {
            let (sensor, reading) = (number % SENSORS, number / SENSORS);
            Row { sensor, ts_ms: reading_ms(day_ms / 1000, sensor, reading) }
        });
        let ts_ms = day_ms + part * (DAY_MS / WATCHED_READINGS);
        let watched = (0..WATCHED).map(|n| Row { sensor: FIRST_WATCHED + n, ts_ms: ts_ms + n });
        few.chain(watched).collect()
    }
}

impl Iterator for Batches {
    type Item = (u8, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let slots = self.late.len() as u64;
        let slot = |step: u64| usize::try_from(step % slots).expect("few");
        let mut rows = Vec::new();
        // After the end comes what is late still.
        while rows.is_empty() {
            if self.step >= self.steps + slots {
                return None;
            }
            rows = std::mem::take(&mut self.late[slot(self.step)]);
            let new = if self.step < self.steps { self.sent_now() } else { Vec::new() };
            for row in new {
                let hash = mixed(row.ts_ms ^ mixed(row.sensor));
                if hash % 100 < self.late_percent {
                    let later = 1 + (hash >> 32) % (slots - 1);
                    self.late[slot(self.step + later)].push(row);
                } else {
                    rows.push(row);
                }
            }
            self.step += 1;
        }
        Some((op::BATCH, body(&self.insert, &rows)))
    }
}

/// Rows of some sensors, each of which sends every second of the last day, or of so much of it.
pub fn each_second(
    insert: &[u8],
    sensors: u64,
    seconds: u64,
) -> impl Iterator<Item = (u8, Vec<u8>)> + use<'_> {
    let first_ms = Days::of_rows(0).bucket(0) * 1000;
    (0..seconds).map(move |second| {
        let ts_ms = first_ms + second * 1000;
        let rows = (0..sensors).map(|sensor| Row { sensor, ts_ms: ts_ms + sensor % 1000 });
        (op::BATCH, body(insert, &rows.collect::<Vec<_>>()))
    })
}

/// An unlogged batch at consistency ONE.
fn body(insert: &[u8], rows: &[Row]) -> Vec<u8> {
    let mut out = vec![1];
    out.extend_from_slice(&u16::try_from(rows.len()).expect("few").to_be_bytes());
    let mut head = vec![1];
    head.extend_from_slice(&u16::try_from(insert.len()).expect("short").to_be_bytes());
    head.extend_from_slice(insert);
    head.extend_from_slice(&7_u16.to_be_bytes());
    for row in rows {
        out.extend_from_slice(&head);
        let bucket = row.ts_ms / DAY_MS * (DAY_MS / 1000);
        // A sensor has some noise, and few values.
        let value = 21.5 + f64::from(mixed(row.ts_ms ^ row.sensor).to_le_bytes()[0] % 64) / 8.0;
        put(&mut out, &sensor_id(row.sensor));
        put(&mut out, &bucket.to_be_bytes());
        put(&mut out, METRIC.as_bytes());
        put(&mut out, &row.ts_ms.to_be_bytes());
        put(&mut out, &0_u64.to_be_bytes());
        put(&mut out, &value.to_be_bytes());
        put(&mut out, &(row.ts_ms * 1000).to_be_bytes());
    }
    out.extend_from_slice(&[0, 1, 0]);
    out
}

fn put(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&u32::try_from(value.len()).expect("short").to_be_bytes());
    out.extend_from_slice(value);
}
