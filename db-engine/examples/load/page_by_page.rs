//! Reads of a long partition, page by page, out of one sstable and out of many.

use super::{
    client::{Client, batch, execute_page, frame, op},
    engine::Engine,
};
use std::time::{Duration, Instant};

/// Rows of the partition.
const ROWS: u64 = 100_000;

/// Sstables that it is spread over: one for each minute in which rows were written.
const SSTABLES: u64 = 200;

/// Rows of a batch that writes them.
const WRITTEN_AT_ONCE: u64 = 500;

/// One way of reading it.
pub struct LongRead {
    pub name: &'static str,
    /// The table, and what its statement ends with.
    table: &'static str,
    suffix: &'static str,
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
    const WAYS: [(&str, &str, &str); 4] = [
        ("pages_one_sstable", "one", ""),
        ("pages_in_order", "in_order", ""),
        // What is read past the cache finds nothing there yet.
        ("pages_past_the_cache", "interleaved", " BYPASS CACHE"),
        ("pages_interleaved", "interleaved", ""),
    ];
    let sizes = [100, 1_000, 5_000];
    let ways = WAYS.iter().flat_map(|way| sizes.map(|size| (way, size)));
    ways.map(|((name, table, suffix), page_rows)| LongRead { name, table, suffix, page_rows })
        .collect()
}

/// Fills the tables: all rows are in sstables then. In one table each sstable has its own part of
/// the partition, in another every 200th row of it.
pub fn fill(engine: &mut Engine) {
    let mut client = Client::connect(engine.cql).expect("it serves");
    let minutes = "compaction = {'class': 'TimeWindowCompactionStrategy', \
        'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1}";
    for (table, options) in
        [("one", "comment = ''"), ("in_order", minutes), ("interleaved", minutes)]
    {
        client.run(&format!(
            "CREATE TABLE load.{table} (sensor text, ts bigint, value double, \
             PRIMARY KEY (sensor, ts)) WITH {options}"
        ));
        let insert = format!(
            "INSERT INTO load.{table} (sensor, ts, value) VALUES ('boiler', ?, ?) USING TIMESTAMP ?"
        );
        let id = client.prepare(&insert);
        for first in (0..ROWS).step_by(usize::try_from(WRITTEN_AT_ONCE).expect("few")) {
            let rows: Vec<Vec<Vec<u8>>> = (first..first + WRITTEN_AT_ONCE)
                .map(|ts| {
                    let minute = match table {
                        "one" => 0,
                        "in_order" => ts / (ROWS / SSTABLES),
                        _ => ts % SSTABLES,
                    };
                    let written_us = (29_000_000 + minute) * 60_000_000 + ts;
                    let value = f64::from_bits(0x4035_8000_0000_0000 | ts << 20);
                    [ts.to_be_bytes(), value.to_be_bytes(), written_us.to_be_bytes()]
                        .map(Vec::from)
                        .into()
                })
                .collect();
            let answer = client.ask(op::BATCH, &batch(1, &id, &rows)).expect("an answer");
            answer.kind();
        }
    }
    engine.restart();
}

impl LongRead {
    /// Reads the whole partition again and again, one page after the other.
    pub fn run(&self, port: u16, length: Duration) -> PagesRead {
        let begun = Instant::now();
        let mut client = Client::connect(port).expect("it serves");
        let Self { table, suffix, .. } = self;
        let id = client.prepare(&format!(
            "SELECT ts, value FROM load.{table} WHERE sensor = 'boiler'{suffix}"
        ));
        let (mut pages, mut rows, mut state) = (0, 0, None::<Vec<u8>>);
        while begun.elapsed() < length || state.is_some() {
            let body = execute_page(&id, &[], self.page_rows, state.as_deref());
            client.send(&frame(1, op::EXECUTE, &body)).expect("it reads");
            let (found, next) = client.receive().expect("an answer").rows();
            (pages, rows, state) = (pages + 1, rows + found.len() as u64, next);
        }
        assert_eq!(rows % ROWS, 0, "each time all of it");
        PagesRead { pages, rows, seconds: begun.elapsed().as_secs_f64() }
    }
}
