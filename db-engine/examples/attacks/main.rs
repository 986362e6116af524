//! How long another client waits while nine attacks on memory, open files and turns go on at once.
//!
//! ```text
//! cargo run --release --example attacks -- --seconds 10 [--engine PATH]
//! ```
//! Starts an engine of its own with 64 MiB of memory and two shards, and prints one JSON object.
//! The attackers are a process of its own at a low priority: in reality they are on other machines,
//! and take nothing from the engine's but what they make it do.

#[path = "../../tests/wire/mod.rs"]
mod wire;

use clap::Parser;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use wire::{
    attackers::{Attack, OF_BYTES_AND_TURNS, attacked, prepared},
    engine::{Engine, command_of},
    honest::{MEMORY_BYTES, ms_at},
};

/// Attackers run when nobody else wants to: `nice` with this.
const LOW_PRIORITY: &str = "19";

/// Measures how an engine that is attacked serves others.
#[derive(Parser)]
struct Options {
    /// How long they attack, in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The engine's binary; by default the one built beside this program.
    #[arg(long)]
    engine: Option<PathBuf>,
    /// Only attacks, an engine on this port.
    #[arg(long, hide = true)]
    attack: Option<u16>,
}

fn main() {
    let options = Options::parse();
    let length = Duration::from_secs_f64(options.seconds);
    match options.attack {
        Some(port) => {
            let attack = Attack::new(port, OF_BYTES_AND_TURNS);
            attack.run(|| std::thread::sleep(length));
            attack.check_rounds();
        }
        None => measure(options.engine, length),
    }
}

fn measure(engine: Option<PathBuf>, length: Duration) {
    let own = std::env::current_exe().expect("we have a path");
    let folder = own.parent().and_then(|examples| examples.parent());
    let built = folder.expect("examples lie in a folder").join("sandglass-db");
    let binary = engine.unwrap_or(built);
    let directory = tempfile::tempdir().expect("a directory");
    let start = || Engine::spawn(attacked(&command_of(&binary, directory.path(), &[])));
    let (engine, mut honest) = prepared(start);
    let mut attackers = Command::new("nice")
        .args(["-n", LOW_PRIORITY])
        .arg(&own)
        .args(["--attack", &engine.cql.to_string()])
        .args(["--seconds", &length.as_secs_f64().to_string()])
        .stdout(Stdio::null())
        .spawn()
        .expect("nice runs");
    let waits = honest.serve(Instant::now() + length);
    let resident = engine.status_bytes("VmHWM:");
    assert!(attackers.wait().expect("they end").success(), "all attacks began");

    engine.kill();
    let engine = start();
    let lost = honest.again(&engine).lost().len();
    let all = waits.all();
    println!(
        "{{\"requests\":{},\"p50_ms\":{},\"p99_ms\":{},\"write_p99_ms\":{},\"read_p99_ms\":{},\
         \"longest_ms\":{},\"resident_bytes\":{resident},\"memory_bytes\":{MEMORY_BYTES},\
         \"lost_rows\":{lost}}}",
        all.len(),
        ms_at(50, &all),
        ms_at(99, &all),
        ms_at(99, &waits.writes),
        ms_at(99, &waits.reads),
        ms_at(100, &all),
    );
}
