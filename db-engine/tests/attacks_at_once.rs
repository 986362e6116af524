//! All attacks at once, on two shards with little memory and few open files: memory stays within
//! one and a half times `--memory`, another client is served, and what it wrote is there.

mod wire;

use std::time::{Duration, Instant};
use tempfile::tempdir;
use wire::{
    attackers::{ALL, Attack, attacked, prepared},
    engine::{Engine, command},
    honest::{MIB, check_resident, ms_at},
};

/// How long they attack.
const ATTACK: Duration = Duration::from_secs(10);

#[test]
fn all_attacks_at_once_are_withstood() {
    let directory = tempdir().expect("a directory");
    let start = || Engine::spawn(attacked(&command(directory.path(), &[])));
    let (engine, mut honest) = prepared(start);
    let attack = Attack::new(engine.cql, ALL);
    let waits = attack.run(|| honest.serve(Instant::now() + ATTACK)).all();
    println!(
        "{} requests, p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms; {} MiB were resident, now {}",
        waits.len(),
        ms_at(50, &waits),
        ms_at(99, &waits),
        ms_at(100, &waits),
        engine.status_bytes("VmHWM:") / MIB,
        engine.status_bytes("VmRSS:") / MIB,
    );
    attack.check_rounds();
    assert!(honest.acknowledged.len() > 40, "{} writes", honest.acknowledged.len());
    check_resident(&engine);
    honest.check();

    engine.kill();
    let engine = start();
    honest.again(&engine).check();
    assert_eq!(engine.stop("-TERM"), Some(0));
}
