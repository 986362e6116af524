//! How long another client waits while one sends a single request that is as dear as its kind can
//! be: what one turn of the engine does at once, and a turn or two of shares around it.
//!
//! ```text
//! cargo run --release --example turns -- [--rounds 9] [--only WORD] [--engine PATH]
//! ```
//! Starts an engine of its own with one shard. Of each kind of request it prints the median and the
//! longest wait of some rounds, and how long the request itself took, in milliseconds. Other load on
//! the machine makes them longer: `chrt -f 10` keeps that away.

#[path = "../../tests/wire/mod.rs"]
mod wire;

mod requests;
mod same_token;

use clap::Parser;
use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};
use wire::{
    client::{Client, op},
    engine::{Engine, command_of},
};

/// Before a request and after it, so that what it leaves behind counts, too.
const AROUND: Duration = Duration::from_millis(30);

/// Measures what one request makes another client wait.
#[derive(Parser)]
struct Options {
    /// How often each request is sent.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Only requests with this in their name.
    #[arg(long, default_value = "")]
    only: String,
    /// After each round, flush what was written, and tell how long that makes the other one wait.
    #[arg(long)]
    flush: bool,
    /// The engine's binary; by default the one built beside this program.
    #[arg(long)]
    engine: Option<PathBuf>,
}

fn main() {
    let options = Options::parse();
    let own = std::env::current_exe().expect("we have a path");
    let folder = own.parent().and_then(|examples| examples.parent());
    let built = folder.expect("examples lie in a folder").join("sandglass-db");
    let binary = options.engine.unwrap_or(built);
    let directory = tempfile::tempdir().expect("a directory");
    let engine = Engine::spawn(command_of(&binary, directory.path(), &["--shards", "1"]));
    let mut sender = Client::connect(engine.cql).expect("it serves");
    for statement in requests::SCHEMA {
        sender.run(statement);
    }
    let mut other = Client::connect(engine.cql).expect("it serves");
    println!("{:<50} {:>8} {:>8} {:>8}", "request", "median", "longest", "itself");
    for (name, make) in requests::ALL.iter().filter(|(name, _)| name.contains(&options.only)) {
        // What the one before it has left is not in its way.
        sender.run("TRUNCATE k.t");
        let (opcode, body) = make(&mut sender);
        let (mut sent, mut flushed) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds.max(1) {
            sent.push(beside(&mut other, || {
                let answer = sender.ask(opcode, &body).expect("it serves");
                assert_eq!(answer.opcode, op::RESULT, "{}", answer.message());
            }));
            if options.flush {
                flushed.push(beside(&mut other, || {
                    let mut flush = Command::new(&binary);
                    flush.args(["ctl", "flush", "--data-dir"]).arg(directory.path());
                    assert!(flush.output().expect("it runs").status.success());
                }));
            }
        }
        print(name, sent);
        if options.flush {
            print("  its flush", flushed);
        }
    }
}

fn print(name: &str, rounds: Vec<(Duration, Duration)>) {
    let (mut waits, mut took): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    waits.sort();
    took.sort();
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let (middle, last) = (waits.len() / 2, waits.len() - 1);
    println!(
        "{name:<50} {:>8.2} {:>8.2} {:>8.1}",
        ms(&waits[middle]),
        ms(&waits[last]),
        ms(&took[middle])
    );
}

/// Does something while another client asks one thing after the other. Gives its longest wait, and
/// how long that took.
fn beside(other: &mut Client, act: impl FnOnce()) -> (Duration, Duration) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !done.load(SeqCst) {
                let before = Instant::now();
                other.query("SELECT key FROM system.local").expect("it serves");
                longest = longest.max(before.elapsed());
            }
            longest
        });
        std::thread::sleep(AROUND);
        let before = Instant::now();
        act();
        let took = before.elapsed();
        std::thread::sleep(AROUND);
        done.store(true, SeqCst);
        (asker.join().expect("it asks"), took)
    })
}
