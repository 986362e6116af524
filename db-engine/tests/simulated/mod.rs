//! A store on a simulated disk, and a script of writes that knows what was acknowledged.

#![allow(dead_code, missing_docs, clippy::unwrap_used)] // Each test uses a part of it.

pub mod every_kind;
pub mod life;
pub mod seed;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use every_kind::EVERY_KIND_KEY;

use sandglass_db::{
    error::Error,
    io::{Clock, ManualClock, TimeSlice, sim::SimDisk},
    mutation::{Builder, RowView, TableNumber, Write, token},
    schema::{SizeTiers, TableSettings},
    store::{Done, Fatal, Page, ReadRequest, Refused, Store, StoreConfig, Tag, open},
};

pub const KEPT: TableNumber = TableNumber(1);
pub const EXPIRING: TableNumber = TableNumber(2);
pub const START_US: i64 = 1_800_000_000_000_000;

/// Seconds that rows of [`EXPIRING`] live.
pub const TTL_S: u32 = 60;

/// How many writes a script has.
pub const WRITES: u32 = 90;

/// Most writes that wait for their acknowledgement at a time.
const IN_FLIGHT: usize = 5;

/// The partition that every write of [`KEPT`] changes, too.
pub const SHARED_KEY: &[u8] = b"shared";

/// More turns than any script needs: a store that hangs fails its test.
const TURNS_MAX: usize = 100_000;

pub fn config(shards: u16) -> StoreConfig {
    StoreConfig {
        shards,
        memtable_bytes_max: 24 << 10,
        cache_bytes_max: 16 << 10,
        log_segment_bytes: 32 << 10,
        log_bytes_max: 160 << 10,
        flush_write_bytes: 4 << 10,
        expiry_check_us: 1_000_000,
        // Some writes are large, and so are blocks.
        large_write_bytes: 2 << 10,
        log_encoding_us: 0,
        ..StoreConfig::default()
    }
}

/// The tables, of which files stay for so long after the last of them was deleted or expired.
pub fn tables(gc_grace_s: u32) -> BTreeMap<TableNumber, TableSettings> {
    // Whatever a test is about, compactions go on beside it.
    let tiers = Some(SizeTiers { min_threshold: 2, ..SizeTiers::default() });
    BTreeMap::from([
        (KEPT, TableSettings { gc_grace_s, tiers, ..TableSettings::default() }),
        (
            EXPIRING,
            TableSettings {
                window_us: Some(20_000_000),
                gc_grace_s,
                tiers,
                ..TableSettings::default()
            },
        ),
    ])
}

pub fn try_open(
    disk: &SimDisk,
    clock: &Arc<ManualClock>,
    shards: u16,
) -> Result<Vec<Store>, Error> {
    try_open_with(disk, clock, &config(shards), &tables(0))
}

pub fn try_open_with(
    disk: &SimDisk,
    clock: &Arc<ManualClock>,
    config: &StoreConfig,
    tables: &BTreeMap<TableNumber, TableSettings>,
) -> Result<Vec<Store>, Error> {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    let files = (0..config.shards).map(|_| disk.files()).collect();
    Ok(open(config, files, disk.files(), &clock, |_| tables.clone())?.stores)
}

/// The key of the row that write `number` alone has.
pub fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

pub fn value(number: u32) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(300, b'.');
    value
}

/// Every third write expires; the others change three partitions at once.
pub fn expires(number: u32) -> bool {
    number.is_multiple_of(3)
}

fn put(out: &mut Vec<u8>, table: TableNumber, key: &[u8], number: u32, now_us: i64) {
    let ttl_s = if table == EXPIRING { TTL_S } else { 0 };
    let write = Write { timestamp: now_us, ttl_s, now_s: now_us / 1_000_000 };
    let mut builder = Builder::new(out, table, token::token(key), key);
    builder.row(b"", &write, true).cell(3, &value(number));
    builder.finish().unwrap();
}

/// What write `number` writes at this time.
pub fn mutations(number: u32, now_us: i64) -> Vec<u8> {
    let mut out = Vec::new();
    if expires(number) {
        put(&mut out, EXPIRING, &key(number), number, now_us);
    } else {
        put(&mut out, KEPT, &key(number), number, now_us);
        put(&mut out, KEPT, SHARED_KEY, number, now_us);
        every_kind::put(&mut out, number, now_us);
    }
    out
}

/// What the client of a script saw.
#[derive(Default, Debug)]
pub struct Record {
    /// When each write was sent.
    pub sent_us: BTreeMap<u32, i64>,
    pub acknowledged: BTreeSet<u32>,
    pub refused: BTreeSet<u32>,
    /// How many compactions were done, and how many failed.
    pub compactions: (u64, u64),
    /// Why it ended early.
    pub ended: Option<String>,
}

/// Runs the script on a store of one shard until its end, or until the store cannot go on.
pub fn run(disk: &SimDisk, clock: &Arc<ManualClock>) -> Record {
    let mut record = Record::default();
    let mut store = match try_open(disk, clock, 1) {
        Ok(mut stores) => stores.pop().unwrap(),
        Err(error) => {
            record.ended = Some(error.to_string());
            return record;
        }
    };
    let written = write_all(disk, &mut store, clock, &mut record);
    record.compactions = (store.metrics().compactions, store.metrics().compactions_failed);
    if let Err(fatal) = written {
        record.ended = Some(fatal.clone());
        // Whatever is still in flight must not be acknowledged any more.
        let before = record.acknowledged.len();
        for _ in 0..10 {
            let _ = note(&mut store, &mut record);
        }
        assert_eq!(record.acknowledged.len(), before, "acknowledged after {fatal}");
    }
    record
}

/// Sends the next write if there is one and not too many wait.
fn send(store: &mut Store, clock: &ManualClock, record: &mut Record) -> Result<(), Refused> {
    let next = u32::try_from(record.sent_us.len()).unwrap();
    if next == WRITES || waiting(record) >= IN_FLIGHT {
        return Ok(());
    }
    clock.advance(1_500_000);
    let now_us = clock.now_us();
    store.take_write(Tag(u128::from(next)), &mut mutations(next, now_us))?;
    record.sent_us.insert(next, now_us);
    Ok(())
}

fn waiting(record: &Record) -> usize {
    record.sent_us.len() - record.acknowledged.len() - record.refused.len()
}

fn write_all(
    disk: &SimDisk,
    store: &mut Store,
    clock: &ManualClock,
    record: &mut Record,
) -> Result<(), String> {
    for _ in 0..TURNS_MAX {
        match send(store, clock, record) {
            Ok(()) | Err(Refused::Overloaded | Refused::NoSpace) => {}
            Err(refused) => panic!("{refused}"),
        }
        if record.sent_us.len() == WRITES as usize {
            store.begin_shutdown();
            if store.is_idle() {
                return Ok(());
            }
        }
        if record.sent_us.len() == WRITES as usize / 2 {
            // The operator wants all windows merged.
            store.compact_tables(&[KEPT, EXPIRING]);
        }
        store.turn_end();
        note(store, record).map_err(|fatal| fatal.to_string())?;
        if disk.is_off() {
            return Err("the power is off".into());
        }
    }
    panic!("the script does not end: {:?}", store.metrics());
}

/// Writes until the disk is full, or to the end of the script.
pub fn write_until_refused(store: &mut Store, clock: &ManualClock, record: &mut Record) {
    for _ in 0..TURNS_MAX {
        if send(store, clock, record) == Err(Refused::NoSpace) {
            break;
        }
        if record.sent_us.len() == WRITES as usize && waiting(record) == 0 {
            break;
        }
        store.turn_end();
        note(store, record).expect("a full disk stops nobody");
    }
    for _ in 0..TURNS_MAX {
        if waiting(record) == 0 {
            return;
        }
        store.turn_end();
        note(store, record).expect("a full disk stops nobody");
    }
    panic!("a write is neither acknowledged nor refused: {:?}", store.metrics());
}

/// Writes the rest of the script: there is space again.
pub fn write_rest(disk: &SimDisk, store: &mut Store, clock: &ManualClock, record: &mut Record) {
    write_all(disk, store, clock, record).expect("there is space again");
}

fn note(store: &mut Store, record: &mut Record) -> Result<(), Fatal> {
    let mut done = Vec::new();
    let polled = store.poll(&mut done);
    for done in done {
        match done {
            Done::Write(Tag(tag)) => drop(record.acknowledged.insert(u32::try_from(tag).unwrap())),
            Done::WriteFailed(Tag(tag), _) => {
                record.refused.insert(u32::try_from(tag).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    polled
}

/// All rows of a table, by key: what they hold, as the number of the write. Without the partition
/// that has rows of every kind.
pub fn rows(stores: &mut [Store], table: TableNumber, now_s: i64) -> BTreeMap<Vec<u8>, u32> {
    let mut found = BTreeMap::new();
    for store in stores {
        let mut request =
            ReadRequest { rows_max: 7, ..ReadRequest::scan(table, i64::MIN, i64::MAX, now_s) };
        loop {
            let page = read(store, &request);
            for row in page.rows().filter(|row| row.key != EVERY_KIND_KEY) {
                let cells = RowView::parse(row.row).unwrap();
                let cell = cells.cell(3, now_s).expect("no row is written by half");
                let number = u32::from_be_bytes(*cell.value.first_chunk().unwrap());
                assert_eq!(cell.value, value(number), "no value is written by half");
                let twice = found.insert(row.key.to_vec(), number);
                assert_eq!(twice, None, "a row is found once");
            }
            match page.position() {
                Some(position) => request.after = Some(position.clone()),
                None => break,
            }
        }
    }
    found
}

pub fn read(store: &mut Store, request: &ReadRequest) -> Page {
    let mut page = Page::default();
    if store.read(Tag(u128::MAX), request, &mut page, &mut TimeSlice::endless()).unwrap() {
        return page;
    }
    for _ in 0..TURNS_MAX {
        let mut done = Vec::new();
        store.turn_end();
        store.poll(&mut done).unwrap();
        for done in done {
            match done {
                Done::Read(_, page) => return *page,
                Done::ReadFailed(_, error) => panic!("{error}"),
                _ => {}
            }
        }
    }
    panic!("the read does not end");
}

/// Every acknowledged write is there as a whole, every other as a whole or not at all, and nothing
/// that was not written.
pub fn check(stores: &mut [Store], record: &Record, at_us: i64) {
    let now_s = at_us / 1_000_000;
    let kept = rows(stores, KEPT, now_s);
    let expiring = rows(stores, EXPIRING, now_s);
    let (mut newest, mut happened) = (None, BTreeMap::new());
    for number in 0..WRITES {
        let (table, is_due) = if expires(number) {
            let expires_s = record.sent_us.get(&number).map(|us| us / 1_000_000 + i64::from(TTL_S));
            (&expiring, expires_s.is_some_and(|expires_s| expires_s > now_s))
        } else {
            (&kept, true)
        };
        let found = table.get(&key(number)[..]);
        if record.acknowledged.contains(&number) {
            assert_eq!(found.is_some(), is_due, "write {number} was acknowledged");
        }
        if record.refused.contains(&number) || !record.sent_us.contains_key(&number) {
            assert_eq!(found, None, "write {number} did not happen");
        }
        if let Some(found) = found {
            assert_eq!((*found, is_due), (number, true));
            if !expires(number) {
                newest = Some(number);
                happened.insert(number, record.sent_us[&number]);
            }
        }
    }
    let shared = kept.get(SHARED_KEY).copied();
    assert_eq!(shared, newest, "all rows of a write, or none");
    every_kind::check(stores, &happened, now_s);
    let known = |(key, _): (&Vec<u8>, &u32)| key == SHARED_KEY || key.len() == 4;
    assert!(kept.iter().all(known) && expiring.iter().all(known));
}
