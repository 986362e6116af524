//! Whatever breaks, and whenever: what was acknowledged is there afterwards, as a whole.
//!
//! A script of writes, flushes, compactions and expiry runs on a simulated disk, once for each of
//! its I/O calls and several seeds, with a power cut, a failure or a full disk at that call.
//! `SANDGLASS_SEED=n` runs one seed, `SANDGLASS_SEED=n..m` all of these.

mod simulated;

use std::sync::Arc;

use sandglass_db::{
    commitlog::{Sector, SegmentId, read_sector},
    io::{
        Clock, ManualClock, Random,
        sim::{Fault, ReadFault, ReadFaults, SimDisk},
    },
    mutation::{Builder, Write, token},
    store::{ReadRequest, StoreConfig, Tag},
};
use simulated::{
    KEPT, Record, START_US, WRITES, check, config, key, read, run, seed::seeds, tables, try_open,
    try_open_with,
};

fn machine(seed: u64) -> (SimDisk, Arc<ManualClock>) {
    (SimDisk::new(seed), Arc::new(ManualClock::at(START_US)))
}

/// Says which run failed.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with {}", self.0);
        }
    }
}

fn reopen_and_check(disk: &SimDisk, clock: &Arc<ManualClock>, record: &Record) {
    let mut stores = try_open(disk, clock, 1).expect("it opens after a crash");
    check(&mut stores, record, clock.now_us());
}

#[test]
fn the_script_does_what_the_tests_need() {
    let (disk, clock) = machine(1);
    let record = run(&disk, &clock);
    assert_eq!(record.ended, None);
    assert_eq!(record.acknowledged.len(), WRITES as usize);
    assert!(uses_a_file_again(&disk), "segments of the log are used again");
    assert!(disk.calls() > 100, "{} calls", disk.calls());
    assert!(record.compactions.0 > 1, "{:?} compactions", record.compactions);
    reopen_and_check(&disk, &clock, &record);
    let names: Vec<_> = disk.contents().into_keys().collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert!(count("sst-") > 1, "it flushes, by windows: {names:?}");
}

/// Whether a segment of the log is in a file that was an earlier one.
fn uses_a_file_again(disk: &SimDisk) -> bool {
    disk.contents().iter().any(|(name, bytes)| {
        SegmentId::of_name(name).is_some_and(|segment| {
            let mut sectors = bytes.chunks_exact(512).filter_map(|sector| sector.first_chunk());
            sectors.any(|sector| read_sector(sector, segment) == Sector::Old)
        })
    })
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_acknowledged() {
    let mut cuts = 0;
    for seed in seeds(1..4) {
        for call in 0.. {
            let _context = Context(format!("seed {seed}, power cut at call {call}"));
            let (disk, clock) = machine(seed);
            disk.set_fault(Fault::PowerCut(call));
            let record = run(&disk, &clock);
            if !disk.is_off() {
                break;
            }
            cuts += 1;
            reopen_and_check(&disk.crash(seed ^ call), &clock, &record);
        }
    }
    assert!(cuts > 300, "{cuts} cuts");
}

#[test]
fn a_power_cut_at_any_call_of_the_recovery_loses_nothing_either() {
    let mut cuts = 0;
    for seed in seeds(1..3) {
        let (whole, clock) = machine(seed);
        run(&whole, &clock);
        for first in (0..whole.calls()).step_by(23) {
            let (disk, clock) = machine(seed);
            disk.set_fault(Fault::PowerCut(first));
            let record = run(&disk, &clock);
            for call in 0.. {
                let _context =
                    Context(format!("seed {seed}, power cuts at {first} and then at {call}"));
                let disk = disk.crash(seed ^ first);
                disk.set_fault(Fault::PowerCut(call));
                let opened = try_open(&disk, &clock, 1);
                if !disk.is_off() {
                    assert!(opened.is_ok());
                    break;
                }
                drop(opened);
                cuts += 1;
                reopen_and_check(&disk.crash(seed ^ call), &clock, &record);
            }
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
}

#[test]
fn a_failure_of_any_call_stops_the_store_and_loses_nothing_acknowledged() {
    let files = ["log-", "sst-", "manifest", "catalog", "FORMAT", "LOCK", ".:"];
    let (mut stopped, mut failures) = (0, 0);
    for seed in seeds(1..3) {
        for call in 0.. {
            let _context = Context(format!("seed {seed}, failure of call {call}"));
            let (disk, clock) = machine(seed);
            disk.set_fault(Fault::Failure(call));
            let record = run(&disk, &clock);
            if disk.calls() <= call {
                break;
            }
            failures += 1;
            stopped += u32::from(record.ended.is_some());
            if let Some(ended) = &record.ended {
                let is_file = |word: &str| files.iter().any(|file| word.starts_with(file));
                assert!(ended.split(' ').any(is_file), "it does not say which file: {ended}");
            }
            // A crash drops what a failed sync has lost.
            disk.set_fault(Fault::None);
            reopen_and_check(&disk.crash(seed ^ call), &clock, &record);
        }
    }
    // Only removing and closing files may fail without a word.
    assert!(stopped * 10 > failures * 7, "{stopped} of {failures} stopped it");
}

#[test]
fn a_compaction_that_reads_something_else_changes_nothing() {
    for fault in [ReadFault::Failed, ReadFault::Stale, ReadFault::Misdirected] {
        let mut failed = 0;
        for seed in seeds(1..5) {
            let _context = Context(format!("seed {seed}, {fault:?}"));
            let (disk, clock) = machine(seed);
            disk.set_read_faults(Some(ReadFaults { fault, percent: 30, prefix: "sst-" }));
            let record = run(&disk, &clock);
            disk.set_read_faults(None);
            assert_eq!((record.ended.as_ref(), record.acknowledged.len()), (None, WRITES as usize));
            failed += record.compactions.1;
            reopen_and_check(&disk.crash(seed), &clock, &record);
        }
        assert!(failed > 0, "{fault:?}");
    }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_acknowledged() {
    for seed in seeds(1..3) {
        for call in (0..400).step_by(3) {
            let _context = Context(format!("seed {seed}, no space from call {call} on"));
            let (disk, clock) = machine(seed);
            let mut stores = try_open(&disk, &clock, 1).expect("there is space");
            let mut record = Record::default();
            disk.set_fault(Fault::NoSpace(disk.calls() + call));
            let store = &mut stores[0];
            simulated::write_until_refused(store, &clock, &mut record);
            let (now_us, seen) = (clock.now_us(), record.acknowledged.len());
            let is_over = record.sent_us.len() == WRITES as usize;
            check(std::slice::from_mut(store), &record, now_us);

            disk.set_fault(Fault::None);
            clock.advance(5_000_000);
            simulated::write_rest(&disk, store, &clock, &mut record);
            assert!(record.acknowledged.len() > seen || is_over);
            assert_eq!(record.acknowledged.len() + record.refused.len(), WRITES as usize);
            drop(stores);
            reopen_and_check(&disk.crash(seed ^ call), &clock, &record);
        }
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_prolong_the_pause_after_a_full_disk() {
    let (mut flushes, mut segments) = (0, 0);
    for call in (0..400).step_by(23) {
        let (disk, clock) = machine(1);
        let mut store = try_open(&disk, &clock, 1).expect("it opens").pop().expect("a shard");
        disk.set_fault(Fault::NoSpace(disk.calls() + call));
        simulated::write_until_refused(&mut store, &clock, &mut Record::default());
        flushes += store.metrics().flushes_no_space;
        segments += store.metrics().writes_no_space;

        disk.set_fault(Fault::None);
        clock.set(clock.now_us() - 3_600_000_000);
        clock.advance(1_000_000);
        for _ in 0..500 {
            store.turn_end();
            store.poll(&mut Vec::new()).expect("there is space");
        }
        assert_eq!(store.metrics().no_space, 0, "no space from call {call} on");
    }
    assert!(flushes > 0 && segments > 0, "{flushes} flushes, {segments} segments without space");
}

/// Segments of the log become full and needless at any moment of a flush.
#[test]
fn a_power_cut_after_any_turn_of_flushes_leaves_no_gap_in_the_log() {
    let mut cuts = 0;
    for seed in seeds(1..5) {
        let (disk, clock) = machine(seed);
        let mut random = Random(seed);
        let mut store = try_open(&disk, &clock, 1).expect("it opens").pop().expect("a shard");
        let (mut sent, mut written) = (0, 0);
        while written < 40 {
            if sent == written && random.percent(8) {
                let taken = store.take_write(Tag(1), &mut large_row(sent, clock.now_us()));
                sent += u32::from(taken.is_ok());
            }
            store.turn_end();
            let mut done = Vec::new();
            store.poll(&mut done).expect("nothing fails");
            written += u32::try_from(done.len()).expect("one at a time");
            let _context = Context(format!("seed {seed}, power cut after {written} writes"));
            let mut stores = try_open(&disk.crash(seed ^ cuts), &clock, 1).expect("it opens");
            let request = ReadRequest::scan(KEPT, i64::MIN, i64::MAX, 0);
            let found = u32::try_from(read(&mut stores[0], &request).len()).expect("few");
            assert!((written..=sent).contains(&found), "{found} rows");
            cuts += 1;
        }
        assert!(uses_a_file_again(&disk), "seed {seed}");
    }
    assert!(cuts > 300, "{cuts} cuts");
}

#[test]
fn a_log_that_was_cut_short_or_lost_a_segment_is_refused_and_left_alone() {
    for seed in seeds(1..5) {
        let (disk, clock) = machine(seed);
        let large = StoreConfig { memtable_bytes_max: 1 << 20, ..config(1) };
        let open = |disk: &SimDisk| try_open_with(disk, &clock, &large, &tables(0));
        let mut store = open(&disk).expect("it opens").pop().expect("a shard");
        for number in 0..8 {
            store.take_write(Tag(1), &mut large_row(number, clock.now_us())).expect("it is taken");
            let mut done = Vec::new();
            while done.is_empty() {
                store.turn_end();
                store.poll(&mut done).expect("nothing fails");
            }
        }
        drop(store);
        let files = disk.contents();
        let segments: Vec<_> =
            files.keys().filter(|name| SegmentId::of_name(name).is_some()).collect();
        assert!(segments.len() > 2, "{segments:?}");
        let unused = |name: &String| **segments.last().expect("some") == *name;
        for name in &segments {
            let whole = &files[*name];
            let mut others = vec![None];
            let lengths = (0..whole.len()).step_by(4096 - 512);
            others.extend(lengths.map(|length| Some(whole[..length].to_vec())));
            let swapped = segments.iter().filter(|other| other != &name);
            others.extend(swapped.map(|other| Some(files[*other].clone())));
            for other in others {
                let _context = Context(format!("seed {seed}, {name}"));
                let mut files = files.clone();
                let is_gone = other.is_none();
                match other {
                    Some(bytes) => drop(files.insert((*name).clone(), bytes)),
                    None => drop(files.remove(*name)),
                }
                let disk = SimDisk::with(seed, files.clone());
                match open(&disk) {
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("log-") && text.contains("backup"), "{text}");
                        assert!(disk.contents() == files, "the directory is as it was");
                    }
                    Ok(mut stores) => {
                        assert!(is_gone && unused(name), "it opens");
                        let request = ReadRequest::scan(KEPT, i64::MIN, i64::MAX, 0);
                        assert_eq!(read(&mut stores[0], &request).len(), 8);
                    }
                }
            }
        }
    }
}

/// A quarter of a segment of the log.
fn large_row(number: u32, now_us: i64) -> Vec<u8> {
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let (key, mut bytes) = (key(number), Vec::new());
    let mut builder = Builder::new(&mut bytes, KEPT, token::token(&key), &key);
    builder.row(b"", &write, true).cell(3, &[7; 7_000]);
    builder.finish().expect("it is short");
    bytes
}
