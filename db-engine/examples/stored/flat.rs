//! Reads of measurements, each with as much stored as is asked for: what a read costs should follow
//! from what it returns.

use super::{
    client::{Answer, Client, execute, execute_page, frame, op},
    engine::Engine,
    fill::write_all,
    float,
    measurements::{
        Batches, Days, FIRST_SILENT, FIRST_WATCHED, METRIC, READINGS, ROWS_A_DAY, SENSORS, WATCHED,
        WATCHED_READINGS, create, reading_ms, sensor_id,
    },
    pace::{Load, Outcome, Pace, Requests},
    random::Random,
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// Reads in flight: as many as there are connections.
const CONNECTIONS: u32 = 4;

/// Rows a second that come in while it is read.
const INGESTED: u64 = 5_000;

#[derive(Clone, Copy)]
enum Kind {
    Row,
    AbsentRow,
    Newest,
    Page,
    Count,
}

const PAGE_ROWS: i32 = 1_000;
const NEWEST_ROWS: usize = 100;

/// A kind of read, its name, and whether an answer is right.
type Named = (Kind, &'static str, fn(&Answer) -> bool);

const KINDS: [Named; 5] = [
    (Kind::Row, "row", |answer| has_rows(answer, 1)),
    (Kind::AbsentRow, "absent_row", |answer| has_rows(answer, 0)),
    (Kind::Newest, "newest_100", |answer| has_rows(answer, NEWEST_ROWS)),
    (Kind::Page, "page_of_1000", |answer| has_rows(answer, 1_000)),
    (Kind::Count, "count_of_a_day", counts_a_day),
];

fn has_rows(answer: &Answer, count: usize) -> bool {
    answer.opcode == op::RESULT && answer.rows().0.len() == count
}

fn counts_a_day(answer: &Answer) -> bool {
    let (rows, _) = if answer.opcode == op::RESULT { answer.rows() } else { return false };
    rows == [vec![Some(WATCHED_READINGS.to_be_bytes().to_vec())]]
}

impl Kind {
    fn statement(self) -> String {
        let (what, besides) = match self {
            Self::Row | Self::AbsentRow => ("v", " AND ts = ? AND seq = 0"),
            Self::Newest => ("ts, v", " LIMIT 100"),
            Self::Page => ("ts, v", ""),
            Self::Count => ("count(*)", ""),
        };
        format!(
            "SELECT {what} FROM bench.measurement_30d \
             WHERE sensor_id = ? AND bucket = ? AND metric = '{METRIC}'{besides}"
        )
    }
}

struct Reads<'a> {
    kind: Kind,
    id: &'a [u8],
    days: Days,
    random: Random,
}

impl Requests for Reads<'_> {
    fn next(&mut self, stream: i16) -> Vec<u8> {
        let day = self.random.below(self.days.count);
        let watched = FIRST_WATCHED + self.random.below(WATCHED);
        let few = self.random.below(SENSORS);
        let (sensor, day) = match self.kind {
            Kind::Row => (few, day),
            Kind::AbsentRow => (FIRST_SILENT + few, day),
            Kind::Newest => (watched, self.days.count - 1),
            Kind::Page | Kind::Count => (watched, day),
        };
        let bucket = self.days.bucket(day);
        let ts = reading_ms(bucket, few, self.random.below(READINGS)).to_be_bytes();
        let (sensor, bucket) = (sensor_id(sensor), bucket.to_be_bytes());
        let body = match self.kind {
            Kind::Row | Kind::AbsentRow => execute(self.id, &[&sensor, &bucket, &ts]),
            Kind::Page => execute_page(self.id, &[&sensor, &bucket], PAGE_ROWS, None),
            Kind::Newest | Kind::Count => execute(self.id, &[&sensor, &bucket]),
        };
        frame(stream, op::EXECUTE, &body)
    }
}

/// Fills an engine and reads: while more comes in, and after a compaction of everything.
pub fn run(engine: &Engine, millions: u64, late_percent: u64, seconds: f64) -> Value {
    let days = Days::of_rows(millions * 1_000_000);
    let length = Duration::from_secs_f64(seconds);
    eprintln!("{} rows of {} days, {late_percent} % late", days.rows(), days.count);
    let mut client = Client::connect(engine.cql).expect("it serves");
    let insert = create(&mut client);
    let (begun, before) = (Instant::now(), engine.sample());
    write_all(engine.cql, Batches::new(&insert, days, late_percent));
    engine.settle();
    let filled = engine.sample();
    let fill_s = begun.elapsed().as_secs_f64();
    let table = Table { engine, client: &mut client, days, length };
    let during = table.during_ingest(&insert);
    eprintln!("compacting");
    engine.ctl(&["flush", "bench"]);
    engine.settle();
    let (flushed, rows) = (engine.sample(), days.rows() + ROWS_A_DAY.min(during.1));
    engine.ctl(&["compact", "bench"]);
    let compacted = engine.sample();
    let table = Table { engine, client: &mut client, days, length };
    json!({
        "rows": days.rows(), "late_percent": late_percent, "fill_s": fill_s,
        "write_cpu_us_a_row": (filled.cpu_us - before.cpu_us) / float(days.rows()),
        "sstables": flushed.sstables,
        "compaction_cpu_us_a_row": (compacted.cpu_us - flushed.cpu_us) / float(rows),
        "sstables_compacted": compacted.sstables,
        "during": during.0,
        "after": table.read_all(),
    })
}

/// A table that is read.
struct Table<'a> {
    engine: &'a Engine,
    client: &'a mut Client,
    days: Days,
    length: Duration,
}

impl Table<'_> {
    /// Reads of each kind.
    fn read_all(self) -> Value {
        let mut all = serde_json::Map::new();
        for (kind, name, is_right) in KINDS {
            let id = self.client.prepare(&kind.statement());
            let load = Load {
                port: self.engine.cql,
                connections: CONNECTIONS,
                pace: Pace::Full { in_flight: 1 },
                length: self.length,
                is_right,
            };
            let run = |load: Load, seed: u64| -> Outcome {
                load.run(|number| Reads {
                    kind,
                    id: &id,
                    days: self.days,
                    random: Random(seed << 60 | u64::from(number) << 40),
                })
            };
            run(Load { length: self.length / 2, ..load }, 0);
            let before = self.engine.sample();
            let outcome = run(load, 1);
            let after = self.engine.sample();
            let count = float(outcome.latencies_us.len() as u64);
            eprintln!("{name}: {:.1} us", (after.cpu_us - before.cpu_us) / count);
            let misses = (after.cache_misses - before.cache_misses) / count;
            all.insert(
                name.to_owned(),
                json!({
                    "cpu_us": (after.cpu_us - before.cpu_us) / count,
                    "p50_us": outcome.percentile_us(50), "p99_us": outcome.percentile_us(99),
                    "cache_misses": misses, "reads": count, "errors": outcome.errors,
                }),
            );
        }
        Value::Object(all)
    }

    /// The same while rows of the next day come in, and how many of these there were.
    fn during_ingest(self, insert: &[u8]) -> (Value, u64) {
        let (is_over, port, days) = (AtomicBool::new(false), self.engine.cql, self.days);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let (begun, mut batches) = (Instant::now(), 0_u32);
                let all = Batches::next_day(insert, days);
                let gap = Duration::from_secs(1) * u32::try_from(ROWS_A_DAY).expect("fits")
                    / u32::try_from(INGESTED * WATCHED_READINGS).expect("fits");
                let paced = all.take_while(|_| {
                    batches += 1;
                    let due = begun + gap * batches;
                    sleep(due.saturating_duration_since(Instant::now()));
                    !is_over.load(Relaxed)
                });
                write_all(port, paced);
                u64::from(batches) * ROWS_A_DAY / WATCHED_READINGS
            });
            let read = self.read_all();
            is_over.store(true, Relaxed);
            (read, writer.join().expect("it writes"))
        })
    }
}
