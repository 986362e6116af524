//! Reads of a long partition, or of the first rows of many, page by page, out of one sstable and
//! out of many.

use super::{
    client::{Client, batch, execute_page, frame, op},
    engine::Engine,
};
use std::time::{Duration, Instant};

/// Rows of each table.
const ROWS: u64 = 100_000;

/// Partitions of the table that has more than one.
const SENSORS: u64 = 1_000;

/// Rows that are read of each of those.
const FIRST_ROWS: u64 = 10;

/// Sstables that it may be spread over: one for each minute in which rows were written.
const SSTABLES: u64 = 200;

/// Rows of a batch that writes them.
const WRITTEN_AT_ONCE: u64 = 500;

/// One way of reading one.
pub struct LongRead {
    pub name: &'static str,
    /// What is behind `FROM`.
    from: &'static str,
    pub page_rows: i32,
}

/// What became of it.
pub struct PagesRead {
    pub pages: u64,
    pub rows: u64,
    pub seconds: f64,
}

/// Each way with each size of a page.
pub fn all() -> Vec<LongRead> {
    const WAYS: [(&str, &str); 6] = [
        ("pages_one_sstable", "one WHERE sensor = 'boiler'"),
        ("pages_in_order", "in_order WHERE sensor = 'boiler'"),
        // What is read past the cache finds nothing there yet.
        ("pages_past_the_cache", "interleaved WHERE sensor = 'boiler' BYPASS CACHE"),
        ("pages_interleaved", "interleaved WHERE sensor = 'boiler'"),
        // It leaves out none of the rows that it looks at.
        ("pages_filtered", "interleaved WHERE sensor = 'boiler' AND value > 0 ALLOW FILTERING"),
        ("pages_first_rows", "sensors PER PARTITION LIMIT 10"),
    ];
    let sizes = [100, 1_000, 5_000];
    let ways = WAYS.iter().flat_map(|way| sizes.map(|size| (way, size)));
    ways.map(|((name, from), page_rows)| LongRead { name, from, page_rows }).collect()
}

/// Fills the tables: all rows are in sstables then. In one table each sstable has its own part of
/// the partition, in another every 200th row of it; and one has many partitions.
pub fn fill(engine: &mut Engine) {
    let mut client = Client::connect(engine.cql).expect("it serves");
    let minutes = "compaction = {'class': 'TimeWindowCompactionStrategy', \
        'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1}";
    for (table, options) in [
        ("one", "comment = ''"),
        ("in_order", minutes),
        ("interleaved", minutes),
        ("sensors", "comment = ''"),
    ] {
        client.run(&format!(
            "CREATE TABLE load.{table} (sensor text, ts bigint, value double, \
             PRIMARY KEY (sensor, ts)) WITH {options}"
        ));
        let insert = format!(
            "INSERT INTO load.{table} (sensor, ts, value) VALUES (?, ?, ?) USING TIMESTAMP ?"
        );
        let id = client.prepare(&insert);
        for first in (0..ROWS).step_by(usize::try_from(WRITTEN_AT_ONCE).expect("few")) {
            let rows: Vec<Vec<Vec<u8>>> = (first..first + WRITTEN_AT_ONCE)
                .map(|ts| {
                    let minute = match table {
                        "one" | "sensors" => 0,
                        "in_order" => ts / (ROWS / SSTABLES),
                        _ => ts % SSTABLES,
                    };
                    let written_us = (29_000_000 + minute) * 60_000_000 + ts;
                    let value = f64::from_bits(0x4035_8000_0000_0000 | ts << 20);
                    let sensor = match table {
                        "sensors" => format!("sensor {}", ts % SENSORS),
                        _ => "boiler".to_owned(),
                    };
                    let numbers = [ts.to_be_bytes(), value.to_be_bytes(), written_us.to_be_bytes()];
                    std::iter::once(sensor.into()).chain(numbers.map(Vec::from)).collect()
                })
                .collect();
            let answer = client.ask(op::BATCH, &batch(1, &id, &rows)).expect("an answer");
            answer.kind();
        }
    }
    engine.restart();
}

impl LongRead {
    /// Reads all of it again and again, one page after the other.
    pub fn run(&self, port: u16, length: Duration) -> PagesRead {
        let begun = Instant::now();
        let mut client = Client::connect(port).expect("it serves");
        let id = client.prepare(&format!("SELECT ts, value FROM load.{}", self.from));
        let (mut pages, mut rows, mut state) = (0, 0, None::<Vec<u8>>);
        while begun.elapsed() < length || state.is_some() {
            let body = execute_page(&id, &[], self.page_rows, state.as_deref());
            client.send(&frame(1, op::EXECUTE, &body)).expect("it reads");
            let (found, next) = client.receive().expect("an answer").rows();
            (pages, rows, state) = (pages + 1, rows + found.len() as u64, next);
        }
        let is_of_many = self.from.starts_with("sensors");
        let all = if is_of_many { SENSORS * FIRST_ROWS } else { ROWS };
        assert_eq!(rows % all, 0, "each time all of it");
        PagesRead { pages, rows, seconds: begun.elapsed().as_secs_f64() }
    }
}
