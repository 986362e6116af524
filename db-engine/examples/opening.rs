//! How long opening takes: a directory of sstables with as many blocks as so many bytes of rows
//! have, made first and removed afterwards.
//!
//! ```text
//! cargo run --release --example opening -- [--gib 10] [--times 5] [--json] [--directory PATH]
//! ```
//! An opening reads of each sstable the end alone, so its blocks are made with a hundredth of the
//! bytes: what is opened is what so many bytes would have, and the disk holds a fraction of them.

// What is measured is told to three digits.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use sandglass_db::{
    io::{
        Clock, Descriptors, Files, SystemClock,
        disk::{DiskFiles, Ring},
    },
    mutation::{Builder, TableNumber, Write, token},
    schema::TableSettings,
    sstable::BLOCK_BYTES,
    store::{Done, Refused, Store, StoreConfig, Tag, open},
};

/// Blocks have so many times less than they would have.
const SMALLER: usize = 100;

/// Bytes of a row that stand for so many times more of them, and do not get smaller.
const VALUE_BYTES: usize = 300;

/// How many sstables there are about, each a window of its own.
const SSTABLES: u64 = 300;

/// Rows of one write.
const ROWS: u64 = 500;

const TABLE: TableNumber = TableNumber(1);

/// Measures how long opening takes.
#[derive(Parser)]
struct Options {
    /// For how many GiB of rows the directory has blocks, before compression.
    #[arg(long, default_value_t = 10.0)]
    gib: f64,
    /// How often it is opened.
    #[arg(long, default_value_t = 5)]
    times: usize,
    /// One JSON object instead of lines to read.
    #[arg(long)]
    json: bool,
    /// Where the directory is made; by default among temporary files. Removed afterwards.
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() {
    let options = Options::parse();
    let folder = options.directory.unwrap_or_else(|| {
        std::env::temp_dir().join(format!("sandglass-opening-{}", std::process::id()))
    });
    std::fs::create_dir_all(&folder).expect("a directory can be made");
    let blocks = options.gib * f64::from(1 << 30) / BLOCK_BYTES as f64;
    fill(&folder, blocks);
    let (mut times, mut cpu_ms, mut metrics) = (Vec::new(), 0.0, None);
    for _ in 0..options.times {
        let (begun, cpu_before) = (Instant::now(), own_cpu_ms());
        let store = opened(&folder);
        times.push(begun.elapsed());
        cpu_ms += (own_cpu_ms() - cpu_before) / options.times as f64;
        metrics = Some(ended(store));
    }
    let (sstables, index_bytes) = metrics.expect("it was opened");
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    times.sort_unstable();
    let middle: Duration = times[times.len() / 2];
    let (ms, mib) = (middle.as_secs_f64() * 1e3, index_bytes as f64 / f64::from(1 << 20));
    if options.json {
        println!(
            "{{\"blocks\":{blocks:.0},\"sstables\":{sstables},\"ms\":{ms:.1},\"cpu_ms\":{cpu_ms:.0},\"index_mib\":{mib:.1}}}"
        );
    } else {
        println!("{blocks:.0} blocks in {sstables} sstables");
        println!("{ms:.1} ms to open, the middle of {}; {cpu_ms:.0} ms of CPU", times.len());
        println!("{mib:.1} MiB of indexes in memory");
    }
}

/// Time that this process has had a processor, with threads that have ended, in milliseconds.
fn own_cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().expect("it has a name");
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number") * 10.0).sum()
}

fn config() -> StoreConfig {
    StoreConfig {
        memtable_bytes_max: 32 << 20,
        cache_bytes_max: 1 << 30,
        block_bytes: BLOCK_BYTES / SMALLER,
        ..StoreConfig::default()
    }
}

fn opened(folder: &Path) -> Store {
    let ring: Ring = Arc::new(|| ());
    let descriptors = Arc::new(Descriptors::new(10_000, Arc::default()));
    let files = || -> Box<dyn Files> {
        Box::new(DiskFiles::open(folder, &descriptors, &ring).expect("the directory is there"))
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings = TableSettings { window_us: Some(1), ..TableSettings::default() };
    let tables = BTreeMap::from([(TABLE, settings)]);
    let opened = open(&config(), vec![files()], files(), &clock, |_| tables);
    opened.expect("it opens").stores.pop().expect("one shard")
}

/// Writes rows in which about so many blocks begin.
fn fill(folder: &Path, blocks: f64) {
    let mut store = opened(folder);
    let bytes = blocks * (BLOCK_BYTES / SMALLER) as f64;
    let writes = (bytes / (VALUE_BYTES as f64 * ROWS as f64)).ceil() as u64;
    let (mut random, mut done) = (88_172_645_463_325_252_u64, Vec::new());
    for number in 0..writes {
        let key = format!("sensor-{:08}", number % 500).into_bytes();
        let mut mutation = Vec::new();
        let mut builder = Builder::new(&mut mutation, TABLE, token::token(&key), &key);
        let timestamp = i64::try_from(number * SSTABLES / writes).expect("they are few");
        for row in 0..ROWS {
            let mut value = Vec::with_capacity(VALUE_BYTES);
            while value.len() < VALUE_BYTES {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                value.extend_from_slice(&random.to_le_bytes());
            }
            let write = Write { timestamp, ttl_s: 0, now_s: 0 };
            let ck = (number * ROWS + row).to_be_bytes();
            builder.row(&ck, &write, true).cell(1, &value);
        }
        builder.finish().expect("it is short");
        loop {
            let taken = store.write(Tag(u128::from(number)), &mutation);
            turn(&mut store, &mut done);
            match taken {
                Ok(()) => break,
                Err(Refused::Overloaded) => std::thread::sleep(Duration::from_micros(100)),
                Err(refused) => panic!("{refused}"),
            }
        }
    }
    ended(store);
}

fn turn(store: &mut Store, done: &mut Vec<Done>) {
    store.turn_end();
    store.poll(done).expect("the disk works");
    done.clear();
}

/// Stops a store in order. Gives how many sstables it has, and the bytes of their indexes.
fn ended(mut store: Store) -> (u64, u64) {
    store.begin_shutdown();
    let mut done = Vec::new();
    turn(&mut store, &mut done);
    while !store.is_idle() {
        turn(&mut store, &mut done);
        std::thread::sleep(Duration::from_micros(100));
    }
    (store.metrics().sstables, store.metrics().index_bytes)
}
