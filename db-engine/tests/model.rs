//! Random writes, deletions, times to live, flushes, crashes and shard counts, against a model that
//! keeps every cell in a map. Prints its seed when it fails; `SANDGLASS_SEED=n` repeats it.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod simulated;

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use sandglass_db::{
    io::{Clock, ManualClock, Random, sim::SimDisk},
    mutation::{Builder, RowView, Write, token},
    store::{Done, Page, ReadRequest, Store, Tag},
};
use simulated::{EXPIRING, KEPT, START_US, read, try_open};

const KEYS: u64 = 5;
const CKS: u64 = 12;
const COLUMNS: u16 = 3;
const STEPS: usize = 400;

/// A cell as the rule of Cassandra orders it: the larger one wins.
///
/// By timestamp; then a tombstone beats a value; of tombstones the later deletion; of values one
/// that expires, the later expiry, the smaller time to live, the larger value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    timestamp: i64,
    is_dead: bool,
    deleted_s: i64,
    expires: bool,
    expires_s: i64,
    shorter_ttl: std::cmp::Reverse<u32>,
    value: Vec<u8>,
}

impl Cell {
    fn live(write: &Write, value: &[u8]) -> Self {
        Self {
            timestamp: write.timestamp,
            is_dead: false,
            deleted_s: 0,
            expires: write.ttl_s > 0,
            expires_s: if write.ttl_s > 0 { write.now_s + i64::from(write.ttl_s) } else { 0 },
            shorter_ttl: std::cmp::Reverse(write.ttl_s),
            value: value.to_vec(),
        }
    }

    fn dead(write: &Write) -> Self {
        let deleted_s = write.now_s;
        Self { is_dead: true, deleted_s, ..Self::live(&Write { ttl_s: 0, ..*write }, &[]) }
    }

    fn is_live(&self, now_s: i64) -> bool {
        !self.is_dead && (!self.expires || self.expires_s > now_s)
    }
}

/// Where a cell is; column [`COLUMNS`] is the row's marker.
type Place = (u32, u64, u64, u16);

#[derive(Default)]
struct Model {
    cells: BTreeMap<Place, Cell>,
    rows_deleted: BTreeMap<(u32, u64, u64), i64>,
    partitions_deleted: BTreeMap<(u32, u64), i64>,
}

impl Model {
    fn put(&mut self, place: Place, cell: Cell) {
        let slot = self.cells.entry(place).or_insert_with(|| cell.clone());
        if cell > *slot {
            *slot = cell;
        }
    }

    /// The live cells of a row, or `None` if the row is not there.
    fn row(&self, table: u32, key: u64, ck: u64, now_s: i64) -> Option<Vec<(u16, Vec<u8>, i64)>> {
        let deleted = self.rows_deleted.get(&(table, key, ck)).copied();
        let deleted = deleted.max(self.partitions_deleted.get(&(table, key)).copied());
        let mut is_there = false;
        let mut live = Vec::new();
        for column in 0..=COLUMNS {
            let Some(cell) = self.cells.get(&(table, key, ck, column)) else { continue };
            if !cell.is_live(now_s) || deleted.is_some_and(|deleted| cell.timestamp <= deleted) {
                continue;
            }
            is_there = true;
            if column < COLUMNS {
                live.push((column, cell.value.clone(), cell.timestamp));
            }
        }
        is_there.then_some(live)
    }
}

struct Test {
    random: Random,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    shards: u16,
    stores: Vec<Store>,
    model: Model,
}

fn key_bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

impl Test {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let clock = Arc::new(ManualClock::at(START_US));
        let stores = try_open(&disk, &clock, 1).unwrap();
        Self { random: Random(seed), disk, clock, shards: 1, stores, model: Model::default() }
    }

    fn owner(&mut self, key: u64) -> &mut Store {
        let owner = token::shard_of(token::token(&key_bytes(key)), self.shards);
        &mut self.stores[usize::from(owner)]
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..4 => self.reopen(false),
            4..8 => self.reopen(true),
            8..20 => self.clock.advance(self.random.below(30_000_000).cast_signed()),
            20..35 => self.compare_partition(),
            35..45 => self.compare_row(),
            45..50 => self.compare_all(),
            _ => self.write(),
        }
    }

    fn write(&mut self) {
        let now_us = self.clock.now_us();
        let spread = self.random.below(4).cast_signed();
        let write = Write {
            // Often the same timestamp twice, sometimes an old one.
            timestamp: now_us - now_us % 10_000_000 - spread * 10_000_000,
            ttl_s: *[0, 0, 20, 90].get(self.random.below(4) as usize).unwrap(),
            now_s: now_us / 1_000_000,
        };
        let table = if self.random.percent(50) { KEPT } else { EXPIRING };
        let (key, ck) = (self.random.below(KEYS), self.random.below(CKS));
        let mut bytes = Vec::new();
        let key_of = key_bytes(key);
        let mut builder = Builder::new(&mut bytes, table, token::token(&key_of), &key_of);
        match self.random.below(20) {
            0 => {
                builder.delete_partition(&write);
                let deleted =
                    self.model.partitions_deleted.entry((table.0, key)).or_insert(i64::MIN);
                *deleted = (*deleted).max(write.timestamp);
            }
            1 | 2 => {
                builder.delete_row(&ck.to_be_bytes(), &write);
                let deleted = self.model.rows_deleted.entry((table.0, key, ck)).or_insert(i64::MIN);
                *deleted = (*deleted).max(write.timestamp);
            }
            kind => {
                let marker = kind < 14;
                let mut row = builder.row(&ck.to_be_bytes(), &write, marker);
                if marker {
                    self.model.put((table.0, key, ck, COLUMNS), Cell::live(&write, &[]));
                }
                for column in 0..COLUMNS {
                    let place = (table.0, key, ck, column);
                    match self.random.below(4) {
                        0 => {
                            row.tombstone(column);
                            self.model.put(place, Cell::dead(&write));
                        }
                        1 | 2 => {
                            let mut value = vec![self.random.below(200) as u8; 60];
                            value.truncate(self.random.below(60) as usize);
                            row.cell(column, &value);
                            self.model.put(place, Cell::live(&write, &value));
                        }
                        _ => {}
                    }
                }
            }
        }
        builder.finish().unwrap();
        let store = self.owner(key);
        store.write(Tag(1), &bytes).unwrap();
        loop {
            let mut done = Vec::new();
            store.turn_end();
            store.poll(&mut done).unwrap();
            if done.iter().any(|done| matches!(done, Done::Write(_))) {
                return;
            }
        }
    }

    /// Stops the stores, in order or by a power cut, and opens the directory again.
    fn reopen(&mut self, crash: bool) {
        let mut stores = std::mem::take(&mut self.stores);
        if crash {
            self.disk = self.disk.crash(self.random.below(u64::MAX));
        } else {
            for store in &mut stores {
                store.begin_shutdown();
                while !store.is_idle() {
                    store.turn_end();
                    store.poll(&mut Vec::new()).unwrap();
                }
            }
        }
        drop(stores);
        self.shards = 1 + u16::try_from(self.random.below(3)).unwrap();
        self.stores = try_open(&self.disk, &self.clock, self.shards).unwrap();
    }

    fn compare_partition(&mut self) {
        let now_s = self.clock.now_us() / 1_000_000;
        let table = if self.random.percent(50) { KEPT } else { EXPIRING };
        let key = self.random.below(KEYS);
        let (low, high) = (self.random.below(CKS), self.random.below(CKS));
        let reverse = self.random.percent(50);
        let key_of = key_bytes(key);
        let request = ReadRequest {
            from: Bound::Included(low.to_be_bytes().to_vec()),
            to: Bound::Excluded(high.to_be_bytes().to_vec()),
            reverse,
            rows_max: 1 + self.random.below(6) as usize,
            ..ReadRequest::partition(table, token::token(&key_of), &key_of, now_s)
        };
        let mut expected: Vec<_> = (low..high)
            .filter_map(|ck| Some((key, ck, self.model.row(table.0, key, ck, now_s)?)))
            .collect();
        if reverse {
            expected.reverse();
        }
        let found = pages(self.owner(key), request, now_s);
        assert_eq!(found, expected);
    }

    /// Reads some columns of one row, for which not every version has to be looked at.
    fn compare_row(&mut self) {
        let now_s = self.clock.now_us() / 1_000_000;
        let table = if self.random.percent(50) { KEPT } else { EXPIRING };
        let (key, ck) = (self.random.below(KEYS), self.random.below(CKS));
        let columns: Vec<u16> = (0..COLUMNS).filter(|_| self.random.percent(40)).collect();
        let (key_of, ck_of) = (key_bytes(key), ck.to_be_bytes().to_vec());
        let request = ReadRequest {
            from: Bound::Included(ck_of.clone()),
            to: Bound::Included(ck_of),
            reverse: self.random.percent(50),
            columns: Some(columns.clone().into()),
            ..ReadRequest::partition(table, token::token(&key_of), &key_of, now_s)
        };
        let is_wanted = |cell: &(u16, Vec<u8>, i64)| columns.contains(&cell.0);
        let row = self.model.row(table.0, key, ck, now_s);
        let expected = row.map(|cells| cells.into_iter().filter(is_wanted).collect::<Vec<_>>());
        let found = pages(self.owner(key), request, now_s);
        let found = found.into_iter().map(|(_, _, cells)| cells);
        let found: Vec<Vec<_>> =
            found.map(|cells| cells.into_iter().filter(is_wanted).collect()).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    fn compare_all(&mut self) {
        let now_s = self.clock.now_us() / 1_000_000;
        for table in [KEPT, EXPIRING] {
            let rows_max = 1 + self.random.below(20) as usize;
            let mut found = Vec::new();
            for store in &mut self.stores {
                let scan = ReadRequest::scan(table, i64::MIN, i64::MAX, now_s);
                found.extend(pages(store, ReadRequest { rows_max, ..scan }, now_s));
            }
            let mut keys: Vec<u64> = (0..KEYS).collect();
            keys.sort_by_key(|key| token::token(&key_bytes(*key)));
            let model = &self.model;
            let expected: Vec<_> = keys
                .into_iter()
                .flat_map(|key| (0..CKS).map(move |ck| (key, ck)))
                .filter_map(|(key, ck)| Some((key, ck, model.row(table.0, key, ck, now_s)?)))
                .collect();
            assert_eq!(found, expected);
        }
    }
}

type FoundRow = (u64, u64, Vec<(u16, Vec<u8>, i64)>);

fn pages(store: &mut Store, mut request: ReadRequest, now_s: i64) -> Vec<FoundRow> {
    let mut rows = Vec::new();
    loop {
        let page: Page = read(store, &request);
        assert!(page.len() <= request.rows_max);
        for row in page.rows() {
            let view = RowView::parse(row.row).unwrap();
            let live = |column| {
                let cell = view.cell(column, now_s)?;
                Some((column, cell.value.to_vec(), cell.liveness.timestamp))
            };
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            rows.push((number(row.key), number(row.ck), (0..COLUMNS).filter_map(live).collect()));
        }
        match page.position() {
            Some(position) => request.after = Some(position.clone()),
            None => return rows,
        }
    }
}

#[test]
fn the_store_is_the_model() {
    let seeds = match std::env::var("SANDGLASS_SEED") {
        Ok(seed) => vec![seed.parse().expect("SANDGLASS_SEED is a number")],
        Err(_) => (1..=60).collect::<Vec<u64>>(),
    };
    for seed in seeds {
        let run = std::panic::catch_unwind(|| {
            let mut test = Test::new(seed);
            for _ in 0..STEPS {
                test.step();
            }
            test.compare_all();
        });
        assert!(run.is_ok(), "repeat with SANDGLASS_SEED={seed}");
    }
}
