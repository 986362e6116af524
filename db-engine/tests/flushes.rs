//! How often a store flushes, and how much of the log it keeps.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use sandglass_db::{
    io::{Clock, ManualClock, sim::SimDisk},
    mutation::{Builder, TableNumber, Write, token},
    schema::TableSettings,
    store::{Done, Store, StoreConfig, StoreMetrics, Tag},
};
use simulated::{START_US, try_open_with};

const MEASUREMENTS: TableNumber = TableNumber(1);
const LATEST: TableNumber = TableNumber(2);

/// A machine so many times smaller than one with the defaults, to which as many times fewer
/// messages come in a second.
const SCALE: u64 = 32;

/// So many sensors send a message in turn.
const SENSORS: u64 = 1_000 / SCALE;

/// What a shard with the default of 256 MiB has, but for the scale.
fn config() -> StoreConfig {
    let whole = StoreConfig::default();
    let part = usize::try_from(SCALE).unwrap();
    StoreConfig {
        memtable_bytes_max: (128 << 20) / part,
        log_segment_bytes: whole.log_segment_bytes / SCALE,
        log_bytes_max: whole.log_bytes_max / SCALE,
        ..whole
    }
}

fn tables() -> BTreeMap<TableNumber, TableSettings> {
    let day = Some(86_400_000_000);
    BTreeMap::from([
        (
            MEASUREMENTS,
            TableSettings { window_us: day, gc_grace_s: 10_800, ..TableSettings::default() },
        ),
        (LATEST, TableSettings { gc_grace_s: 10_800, ..TableSettings::default() }),
    ])
}

/// What one message of a sensor becomes: a measurement, and the newest one of its metric.
fn message(number: u64, now_us: i64) -> Vec<u8> {
    let sensor = number % SENSORS;
    let key = [&[0, 16][..], &sensor.to_be_bytes(), &[7; 8], &[0, 0, 8], &[1; 8], &[0]].concat();
    let write = Write { timestamp: now_us, ttl_s: 30 * 86_400, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, MEASUREMENTS, token::token(&key), &key);
    let metric = [b"temperature\0".to_vec(), number.to_be_bytes().to_vec()].concat();
    let ck = [&metric[..], &[0; 8]].concat();
    builder.row(&ck, &write, true).cell(5, &21.5_f64.to_be_bytes());
    builder.finish().unwrap();
    let key = &key[..18];
    let mut builder = Builder::new(&mut bytes, LATEST, token::token(key), key);
    let forever = Write { ttl_s: 0, ..write };
    let mut row = builder.row(b"temperature\0", &forever, true);
    row.cell(2, &number.to_be_bytes()).cell(4, &21.5_f64.to_be_bytes());
    drop(row);
    builder.finish().unwrap();
    bytes
}

/// Writes messages as of 1,000 a second, each alone: no two share a block of the log.
fn run(store: &mut Store, clock: &ManualClock, messages: Range<u64>) {
    for number in messages {
        clock.advance(i64::try_from(SCALE * 1_000).unwrap());
        store.write(Tag(1), &message(number, clock.now_us())).unwrap();
        let mut done = Vec::new();
        while !done.iter().any(|done| matches!(done, Done::Write(_))) {
            store.turn_end();
            store.poll(&mut done).unwrap();
        }
    }
}

fn opened(block_bytes: usize, config: &StoreConfig) -> (SimDisk, Arc<ManualClock>, Store) {
    let (disk, clock) = (SimDisk::new(7), Arc::new(ManualClock::at(START_US)));
    disk.set_block_bytes(block_bytes);
    let store = try_open_with(&disk, &clock, config, &tables()).unwrap().pop().unwrap();
    (disk, clock, store)
}

/// Flushes a day, and bytes of the log a message.
fn rates(metrics: &StoreMetrics, messages: u64) -> (u64, u64) {
    let seconds = messages * SCALE / 1_000;
    (metrics.flushes * 86_400 / seconds, metrics.log_block_bytes / messages)
}

#[test]
fn a_thousand_messages_a_second_flush_at_most_a_hundred_times_a_day() {
    const MESSAGES: u64 = 120_000;
    let (_, clock, mut store) = opened(512, &config());
    run(&mut store, &clock, 0..MESSAGES);
    let metrics = store.metrics();
    let (flushes, log_bytes) = rates(metrics, MESSAGES);
    assert!(metrics.flushes >= 2, "{} flushes", metrics.flushes);
    assert!(flushes <= 100, "{flushes} flushes a day");
    assert!(log_bytes <= 830, "{log_bytes} bytes of the log a message");
    // Only the table with the measurements is large. The other is flushed once, when the log is
    // as long as it may be.
    let sstables = metrics.sstables;
    assert!((metrics.flushes..=metrics.flushes + 1).contains(&sstables), "{sstables} files");
    // Beside the segments that count are the one that is written to and the one after it.
    let most = config().log_bytes_max + 2 * config().log_segment_bytes;
    assert!(metrics.log_bytes <= most, "{} bytes of log", metrics.log_bytes);
}

#[test]
fn a_device_that_writes_4096_bytes_at_least_has_the_log_begin_flushes() {
    const MESSAGES: u64 = 40_000;
    let (disk, clock, mut store) = opened(4096, &config());
    run(&mut store, &clock, 0..MESSAGES);
    let metrics = store.metrics().clone();
    let (flushes, log_bytes) = rates(&metrics, MESSAGES);
    assert!((4096..4200).contains(&log_bytes), "{log_bytes} bytes of the log a message");
    assert!(metrics.flushes >= 2 && flushes <= 700, "{flushes} flushes a day");
    let most = config().log_bytes_max * 5 / 4;
    assert!(metrics.log_bytes <= most, "{} bytes of log", metrics.log_bytes);
    // Files of the log are not made anew for ever: their sectors are those of earlier segments.
    let segments = disk.contents().into_iter().filter(|(name, _)| name.starts_with("log-"));
    assert!(segments.count() as u64 <= metrics.log_segments + 1);
}

/// What a flush has put into sstables does not come back from the log, although another table keeps
/// the log.
#[test]
fn what_is_in_sstables_is_not_replayed_for_the_sake_of_another_table() {
    let config = config();
    let (disk, clock, mut store) = opened(512, &config);
    let mut messages = 0;
    while store.metrics().flushes == 0 {
        run(&mut store, &clock, messages..messages + 1_000);
        messages += 1_000;
        assert!(messages < 100_000, "it flushes");
    }
    let sstables = |disk: &SimDisk| -> usize {
        let files = disk.contents().into_iter();
        files.filter(|(name, _)| name.starts_with("sst-")).map(|(_, bytes)| bytes.len()).sum()
    };
    let before = sstables(&disk);
    drop(store);
    let disk = disk.crash(1);
    drop(try_open_with(&disk, &clock, &config, &tables()).unwrap());
    assert!(before > 500_000, "{before} bytes");
    let added = sstables(&disk) - before;
    assert!(added < before / 10, "{added} bytes beside {before}");
}
