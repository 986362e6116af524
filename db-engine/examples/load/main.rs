//! Load on the real binary over loopback, and what it costs the engine.
//!
//! ```text
//! cargo run --release --example load -- --seconds 4 [--json] [--shards N] [--engine PATH]
//! ```
//! Starts an engine of its own on a directory that is removed afterwards. Each step says how many
//! operations were answered, how long they took, the engine's CPU microseconds for each (from
//! `/proc/PID/task/*/schedstat`, helper threads included) and the loop's counters, which do not
//! depend on what else the machine does.

mod drive;
mod engine;
mod pace;
mod page_by_page;
#[allow(dead_code)] // the tests use all of it
#[path = "../../tests/wire/client.rs"]
mod client;

use clap::Parser;
use client::Client;
use drive::Step;
use engine::{Engine, Sample, Setup};
use pace::{Outcome, Pace};
use page_by_page::{LongRead, PagesRead};
use std::{path::PathBuf, time::Duration};

/// Connections of every step.
const CONNECTIONS: u32 = 4;

/// Requests in flight of every step, over all connections.
const IN_FLIGHT: usize = 64;

/// Rows of a batch.
const BATCH_ROWS: usize = 50;

/// Partitions that single writes go to and single reads come from.
const PARTITIONS: u64 = 10_000;

/// Measures what requests cost the engine.
#[derive(Parser)]
struct Options {
    /// How long each step takes, in seconds.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// One JSON object instead of lines to read.
    #[arg(long)]
    json: bool,
    /// Shards of the engine.
    #[arg(long, default_value_t = 1)]
    shards: u16,
    /// The engine's binary; by default the one built beside this program.
    #[arg(long)]
    engine: Option<PathBuf>,
    /// Only the steps whose names contain this, e.g. `pages`.
    #[arg(long, default_value = "")]
    only: String,
    /// Directory for the engine's data; by default a temporary one. Removed afterwards.
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() {
    let options = Options::parse();
    let mut engine = started(&options);
    let mut results = vec![];
    let mut client = Client::connect(engine.cql).expect("it serves");
    client.run(
        "CREATE KEYSPACE load WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run(
        "CREATE TABLE load.measurement (sensor text, ts timestamp, value double, \
         PRIMARY KEY (sensor, ts)) WITH CLUSTERING ORDER BY (ts DESC)",
    );
    client.run("CREATE TABLE load.blob (k bigint PRIMARY KEY, v blob)");
    let row = client.prepare("INSERT INTO load.measurement (sensor, ts, value) VALUES (?, ?, ?)");
    let write = client.prepare("INSERT INTO load.blob (k, v) VALUES (?, ?)");
    let read = client.prepare("SELECT v FROM load.blob WHERE k = ?");
    let length = Duration::from_secs_f64(options.seconds);
    let full = Pace::Full { in_flight: IN_FLIGHT / CONNECTIONS as usize };
    let at = |a_second| Pace::Rated { a_second: a_second / CONNECTIONS };
    let rated = at(4000);
    let batches = full;
    let steps = [
        Step { name: "batch_of_50", rows: BATCH_ROWS, pace: batches, id: &row },
        Step { name: "batch_of_50_sensors", rows: BATCH_ROWS, pace: batches, id: &row },
        Step { name: "row_1000_a_second", rows: 1, pace: at(1_000), id: &row },
        Step { name: "row_10000_a_second", rows: 1, pace: at(10_000), id: &row },
        Step { name: "write_1kb_64_in_flight", rows: 1, pace: full, id: &write },
        Step { name: "write_1kb_4000_a_second", rows: 1, pace: rated, id: &write },
        Step { name: "read_64_in_flight", rows: 1, pace: full, id: &read },
        Step { name: "read_4000_a_second", rows: 1, pace: rated, id: &read },
    ];
    for step in steps.into_iter().filter(|step| step.name.contains(&options.only)) {
        engine.settle();
        // Once for a quarter of the time, so that memory and caches are warm.
        step.run(engine.cql, length / 4);
        let before = engine.sample();
        let outcome = step.run(engine.cql, length);
        let after = engine.sample();
        results.push(report(&step, &outcome, &before, &after, options.json));
    }
    let paging: Vec<_> =
        page_by_page::all().into_iter().filter(|way| way.name.contains(&options.only)).collect();
    if !paging.is_empty() {
        page_by_page::fill(&mut engine);
        engine.settle();
    }
    for way in paging {
        way.run(engine.cql, length / 4);
        let before = engine.sample();
        let paged = way.run(engine.cql, length);
        let cpu_us = engine.sample().cpu_us - before.cpu_us;
        results.push(report_pages(&way, &paged, cpu_us, options.json));
    }
    std::thread::sleep(Duration::from_millis(500));
    let before = engine.sample();
    std::thread::sleep(length);
    let after = engine.sample();
    let (turns, cpu_us) = (after.turns - before.turns, after.cpu_us - before.cpu_us);
    if options.json {
        results.push(format!(
            "\"idle\":{{\"seconds\":{},\"turns\":{turns},\"cpu_us\":{cpu_us:.0}}}",
            options.seconds
        ));
        println!("{{{}}}", results.join(","));
    } else {
        println!("idle for {} s: {turns} turns, {cpu_us:.0} us of CPU", options.seconds);
    }
}

fn started(options: &Options) -> Engine {
    Engine::start(Setup {
        binary: options.engine.clone(),
        directory: options.directory.clone(),
        shards: options.shards,
        memory_mib: 512,
        files_max: None,
    })
}

fn report(
    step: &Step<'_>,
    outcome: &Outcome,
    before: &Sample,
    after: &Sample,
    json: bool,
) -> String {
    let count = outcome.latencies_us.len().max(1);
    let float = |n: usize| f64::from(u32::try_from(n).expect("seconds of load"));
    let requests = float(count);
    let rows = requests * float(step.rows);
    let cpu_us = (after.cpu_us - before.cpu_us) / rows;
    let per = |a: f64, b: f64| (a - b) / requests;
    let (p50, p99) = (outcome.percentile_us(50), outcome.percentile_us(99));
    let rate = rows / outcome.seconds;
    let sends = per(after.sends, before.sends);
    let receives = per(after.receives, before.receives);
    let turns = per(after.turns, before.turns);
    let blocks = per(after.blocks, before.blocks);
    let log_bytes = per(after.log_bytes, before.log_bytes);
    let (name, errors) = (step.name, outcome.errors);
    if !json {
        println!(
            "{name:24} {cpu_us:6.2} us/row  {rate:9.0} rows/s  p50 {p50} us  p99 {p99} us  \
             errors {errors}  per request: {turns:.3} turns {receives:.3} receives \
             {sends:.3} sends {blocks:.3} blocks {log_bytes:.0} bytes of log"
        );
    }
    format!(
        "\"{name}\":{{\"cpu_us_a_row\":{cpu_us:.3},\"rows_a_second\":{rate:.0},\"p50_us\":{p50},\
         \"p99_us\":{p99},\"errors\":{errors},\"turns_a_request\":{turns:.4},\
         \"receives_a_request\":{receives:.4},\"sends_a_request\":{sends:.4},\
         \"blocks_a_request\":{blocks:.4},\"log_bytes_a_request\":{log_bytes:.0}}}"
    )
}

fn report_pages(way: &LongRead, read: &PagesRead, cpu_us: f64, json: bool) -> String {
    let float = |n: u64| f64::from(u32::try_from(n).expect("seconds of load"));
    let (pages, rows) = (float(read.pages), float(read.rows));
    let (name, size) = (way.name, way.page_rows);
    let (a_page, a_row) = (cpu_us / pages, cpu_us / rows);
    let took_us = read.seconds * 1e6 / pages;
    if !json {
        println!(
            "{name:24} pages of {size:5}  {a_page:9.1} us/page  {a_row:6.3} us/row  \
             {took_us:9.1} us until the next page"
        );
    }
    format!(
        "\"{name}_{size}\":{{\"cpu_us_a_page\":{a_page:.2},\"cpu_us_a_row\":{a_row:.4},\
         \"us_a_page\":{took_us:.1}}}"
    )
}
