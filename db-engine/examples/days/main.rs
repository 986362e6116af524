//! Simulated days of one store: how many bytes it writes for each that comes, and what a turn costs
//! in which there is nothing to do.
//!
//! ```text
//! cargo run --release --example days -- --hours 24 [--late-percent 10] [--json]
//! ```
//! Messages come evenly, each alone, so that no two share a block of the log: a measurement that
//! expires, and the newest value of its series. A third table gets a row a minute. Those that are late come up to a day late. The
//! machine is smaller than one with the defaults by the scale, and so are memory, log and rate; the
//! time is simulated and the disk is memory. All that reaches the disk is counted.

mod counted;
mod idle;
mod messages;

use clap::Parser;
use counted::CountedFiles;
use messages::{LATEST, MEASUREMENTS, Messages, RARE};
use sandglass_db::{
    io::{Clock, Files, ManualClock, sim::SimDisk},
    mutation::TableNumber,
    schema::{SizeTiers, TableSettings},
    store::{Done, Store, StoreConfig, StoreMetrics, Tag, open},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed},
};

/// Eight hours after the beginning of a day.
const START_US: i64 = 1_800_000_000_000_000;
const HOUR_US: u64 = 3_600_000_000;
const MINUTE_US: u64 = 60_000_000;

/// Measures simulated days of a store.
#[derive(Parser)]
struct Options {
    /// Simulated hours.
    #[arg(long, default_value_t = 24)]
    hours: u64,
    /// Messages a second of the whole machine.
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// How many of a hundred messages are late.
    #[arg(long, default_value_t = 0)]
    late_percent: u64,
    /// By how much the machine is smaller.
    #[arg(long, default_value_t = 32)]
    scale: u64,
    /// Hours of a compaction window.
    #[arg(long, default_value_t = 24)]
    window_hours: u64,
    /// Sstables of the store whose idle turns are measured; 0 measures none.
    #[arg(long, default_value_t = 1_000)]
    idle_sstables: u32,
    /// One JSON object instead of lines to read.
    #[arg(long)]
    json: bool,
}

fn main() {
    let options = Options::parse();
    let mut figures = Vec::new();
    if options.hours > 0 {
        figures.extend(live(&options));
    }
    if options.idle_sstables > 0 {
        figures.extend(idle::turns(options.idle_sstables));
    }
    if options.json {
        let fields = figures.iter().map(|(name, value)| format!("\"{name}\":{value:.4}"));
        println!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    } else {
        for (name, value) in figures {
            println!("{name:32} {value:12.3}");
        }
    }
}

/// What a shard with the default of 256 MiB has, but for the scale.
fn config(scale: u64) -> StoreConfig {
    let whole = StoreConfig::default();
    let part = usize::try_from(scale).expect("a small number");
    StoreConfig {
        memtable_bytes_max: (128 << 20) / part,
        // It decides how many files are merged at once, and not how much is written.
        cache_bytes_max: 48 << 20,
        log_segment_bytes: whole.log_segment_bytes / scale,
        log_bytes_max: whole.log_bytes_max / scale,
        ..whole
    }
}

fn tables(window_hours: u64) -> BTreeMap<TableNumber, TableSettings> {
    let window_us = i64::try_from(window_hours * HOUR_US).ok();
    let plain = TableSettings {
        gc_grace_s: 10_800,
        tiers: Some(SizeTiers::default()),
        ..TableSettings::default()
    };
    let measurements = TableSettings { window_us, ..plain.clone() };
    BTreeMap::from([(MEASUREMENTS, measurements), (LATEST, plain.clone()), (RARE, plain)])
}

/// A store on an empty disk, and the bytes that reach that disk.
fn opened(
    config: &StoreConfig,
    tables: &BTreeMap<TableNumber, TableSettings>,
    clock: &Arc<ManualClock>,
) -> (Store, Arc<AtomicU64>) {
    let disk = SimDisk::new(7);
    disk.set_block_bytes(512);
    let written = Arc::new(AtomicU64::new(0));
    let files: Box<dyn Files> = Box::new(CountedFiles::new(disk.files(), &written));
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    let opened = open(config, vec![files], disk.files(), &clock, |_| tables.clone());
    (opened.expect("it is empty").stores.pop().expect("one shard"), written)
}

/// Writes and waits until it is durable.
fn put(store: &mut Store, mutations: &[u8]) {
    store.write(Tag(1), mutations).expect("there is room");
    let mut done = Vec::new();
    while !done.iter().any(|done| matches!(done, Done::Write(_))) {
        turn(store, &mut done);
    }
}

fn turn(store: &mut Store, done: &mut Vec<Done>) {
    store.turn_end();
    store.poll(done).expect("the disk is well");
}

/// Lets the hours go by.
fn live(options: &Options) -> Vec<(&'static str, f64)> {
    let clock = Arc::new(ManualClock::at(START_US));
    let config = config(options.scale);
    let (mut store, written) = opened(&config, &tables(options.window_hours), &clock);
    let sensors = (1_000 / options.scale).max(1);
    let mut messages = Messages::new(sensors, options.late_percent);
    let gap_us = 1_000_000 * options.scale / options.rate;
    let count = options.hours * HOUR_US / gap_us;
    let (mut sstables_most, mut log_most, mut bytes) = (0, 0, Vec::new());
    let (mut minute, mut rare_sstables) = (0, BTreeSet::new());
    for number in 0..count {
        clock.advance(i64::try_from(gap_us).expect("less than a second"));
        bytes.clear();
        messages.next(clock.now_us(), &mut bytes);
        put(&mut store, &bytes);
        sstables_most = sstables_most.max(store.metrics().sstables);
        log_most = log_most.max(store.metrics().log_segments * config.log_segment_bytes);
        if number * gap_us / MINUTE_US >= minute {
            minute += 1;
            bytes.clear();
            Messages::rare(clock.now_us(), &mut bytes);
            put(&mut store, &bytes);
            let reports = store.report(&[RARE]);
            rare_sstables.extend(reports.iter().flat_map(|one| &one.sstables).map(|one| one.id));
        }
        if number % (count / 20).max(1) == 0 {
            eprintln!("{} of {} hours", number * gap_us / HOUR_US, options.hours);
        }
    }
    let metrics = store.metrics();
    let per_byte = |bytes: u64| ratio(bytes, metrics.write_bytes);
    let all = written.load(Relaxed);
    vec![
        ("messages", ratio(count, 1)),
        ("bytes_a_message", ratio(metrics.write_bytes, count)),
        ("written_a_byte", per_byte(all)),
        ("log_a_byte", per_byte(metrics.log_block_bytes)),
        ("flush_a_byte", per_byte(metrics.flush_bytes)),
        ("compaction_a_byte", per_byte(metrics.compaction_written_bytes)),
        ("compaction_a_flushed_byte", ratio(metrics.compaction_written_bytes, metrics.flush_bytes)),
        ("zeros_and_journal_a_byte", per_byte(all - counted(metrics))),
        ("flushes", ratio(metrics.flushes, 1)),
        ("compactions", ratio(metrics.compactions, 1)),
        ("sstables_at_most", ratio(sstables_most, 1)),
        ("sstables_at_the_end", ratio(metrics.sstables, 1)),
        ("rare_rows", ratio(minute, 1)),
        ("rare_sstables_made", ratio(rare_sstables.len() as u64, 1)),
        ("log_at_most_of_its_limit", ratio(log_most, config.log_bytes_max)),
    ]
}

/// Bytes that the store itself counts.
fn counted(metrics: &StoreMetrics) -> u64 {
    metrics.log_block_bytes + metrics.flush_bytes + metrics.compaction_written_bytes
}

#[allow(clippy::cast_precision_loss)] // It is for people.
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}
