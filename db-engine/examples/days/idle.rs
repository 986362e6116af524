//! What a turn costs in which there is nothing to do.

use super::{MEASUREMENTS, Messages, config, opened, put, ratio, turn};
use sandglass_db::{
    io::{Clock, ManualClock},
    schema::TableSettings,
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

const MINUTE_US: i64 = 60_000_000;

/// Turns of one measurement, and how often that is repeated: the fastest counts, as another process
/// makes it slower and nothing makes it faster.
const TURNS: u32 = 200_000;
const REPEATS: usize = 9;

/// Microseconds of an idle turn of a store with so many sstables, and when it wants to be woken.
pub fn turns(sstables: u32) -> Vec<(&'static str, f64)> {
    let clock = Arc::new(ManualClock::at(super::START_US));
    // A window a minute, so that none is merged with another.
    let settings = TableSettings {
        window_us: Some(MINUTE_US),
        gc_grace_s: 10_800,
        ..super::tables(1)[&MEASUREMENTS].clone()
    };
    let tables = BTreeMap::from([
        (MEASUREMENTS, settings),
        (super::LATEST, super::tables(1)[&super::LATEST].clone()),
    ]);
    let (mut store, _) = opened(&config(1), &tables, &clock);
    let mut messages = Messages::new(10, 0);
    let mut bytes = Vec::new();
    for _ in 0..sstables {
        clock.advance(MINUTE_US);
        bytes.clear();
        messages.next(clock.now_us(), &mut bytes);
        put(&mut store, &bytes);
        store.flush_tables(&[MEASUREMENTS]);
        while !store.has_flushed(&[MEASUREMENTS]) {
            turn(&mut store, &mut Vec::new());
        }
    }
    for _ in 0..1_000 {
        turn(&mut store, &mut Vec::new());
    }
    let mut done = Vec::new();
    let fastest = (0..REPEATS).map(|_| {
        let begun = Instant::now();
        for _ in 0..TURNS {
            turn(&mut store, &mut done);
            let _ = store.deadline_us();
        }
        begun.elapsed()
    });
    let fastest = fastest.min().expect("several").as_secs_f64() * 1e6 / f64::from(TURNS);
    let wakes_us = store.deadline_us().map(|us| us.saturating_sub(clock.elapsed_us()));
    vec![
        ("idle_sstables", ratio(store.metrics().sstables, 1)),
        ("idle_turn_us", fastest),
        ("idle_wakes_in_s", wakes_us.map_or(-1.0, |us| ratio(us, 1_000_000))),
    ]
}
