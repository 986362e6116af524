//! What reading stored data costs the engine, and what keeping it in order does.
//!
//! ```text
//! cargo run --release --example stored -- reads --millions 1 --millions 10 --late-percent 1
//! cargo run --release --example stored -- ycsb --memory-mib 128
//! cargo run --release --example stored -- sstables --count 1000
//! cargo run --release --example stored -- kinds
//! ```
//! Starts an engine of its own on a directory that is removed afterwards, and prints one JSON
//! object. CPU is that of the engine's threads alone (`/proc/PID/task/*/schedstat`). What it does
//! meanwhile is told to stderr.

mod fill;
mod files;
mod flat;
mod kinds;
mod measurements;
mod random;
mod ycsb;
mod zipfian;
#[allow(dead_code)] // the tests use all of it
#[path = "../../tests/wire/client.rs"]
mod client;
#[path = "../load/engine.rs"]
mod engine;
#[path = "../load/pace.rs"]
mod pace;

use clap::{Parser, Subcommand};
use engine::{Engine, Setup};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Measures stored data.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
    /// How long each step takes, in seconds.
    #[arg(long, default_value_t = 4.0, global = true)]
    seconds: f64,
    /// The engine's binary; by default the one built beside this program.
    #[arg(long, global = true)]
    engine: Option<PathBuf>,
    /// Directory for the engine's data; by default a temporary one. Removed afterwards.
    #[arg(long, global = true)]
    directory: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Reads of measurements: does what they cost grow with what is stored?
    Reads {
        /// How many million rows are stored, each in a run of its own.
        #[arg(long, default_values_t = [1, 10])]
        millions: Vec<u64>,
        /// How many of a hundred rows come late, up to a day; each in a run of its own.
        #[arg(long, default_values_t = [0])]
        late_percent: Vec<u64>,
        #[arg(long, default_value_t = 256)]
        memory_mib: u64,
    },
    /// The core workloads A to D of YCSB on five times as much data as memory; reads of 1 KB; both
    /// beside a compaction.
    Ycsb {
        #[arg(long, default_value_t = 128)]
        memory_mib: u64,
    },
    /// Rows of several kinds: what does it cost to write, flush and compact them?
    Kinds {
        #[arg(long, default_value_t = 1_000_000)]
        rows: u64,
        #[arg(long, default_value_t = 256)]
        memory_mib: u64,
    },
    /// Many sstables and few open files: reads, wake-ups.
    Sstables {
        #[arg(long, default_value_t = 1_000)]
        count: u32,
        #[arg(long, default_value_t = 256)]
        files_max: u32,
    },
}

fn main() {
    let Options { what, seconds, engine: binary, directory } = Options::parse();
    let start = |memory_mib, files_max| {
        let (binary, directory) = (binary.clone(), directory.clone());
        Engine::start(Setup { binary, directory, shards: 1, memory_mib, files_max })
    };
    let result = match what {
        What::Reads { millions, late_percent, memory_mib } => {
            let runs =
                late_percent.iter().flat_map(|late| millions.iter().map(move |n| (*n, *late)));
            let runs = runs.map(|(n, late)| flat::run(&start(memory_mib, None), n, late, seconds));
            json!({ "runs": runs.collect::<Vec<Value>>() })
        }
        What::Ycsb { memory_mib } => ycsb::run(start(memory_mib, None), memory_mib, seconds),
        What::Kinds { rows, memory_mib } => kinds::run(&start(memory_mib, None), rows),
        What::Sstables { count, files_max } => {
            files::run(start(256, Some(files_max)), count, seconds)
        }
    };
    println!("{result}");
}

#[allow(clippy::cast_precision_loss)] // It is for people.
fn float(count: u64) -> f64 {
    count as f64
}
