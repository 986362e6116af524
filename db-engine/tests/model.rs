//! Random writes, deletions, times to live, flushes, compactions, crashes, shard counts and reads,
//! against an oracle that keeps every cell in a map. Prints its seed when it fails;
//! `SANDGLASS_SEED=n` repeats it, `SANDGLASS_SEED=n..m` tries all of these.
#![allow(clippy::unwrap_used)]

mod oracle;
mod simulated;

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use oracle::{
    Cells, Oracle, Row, live_cells,
    places::{
        FIRST_CK, FIRST_LONG_CK, KEYS, NO_CK, bound, ck_bytes, ck_number, is_partitions_end,
        key_bytes, number, places, read_until, wanted_keys,
    },
    random_writes::{RandomWrites, TableShape},
    sizes::{Size, any_tables},
    wanted,
};
use sandglass_db::{
    io::{Clock, ManualClock, Random, TimeSlice, sim::SimDisk},
    mutation::{
        TableNumber, Write,
        token::{range_of, shard_of, token},
    },
    schema::TableSettings,
    store::{Done, Page, Partitions, ReadRequest, Refused, Store, Tag},
};
use simulated::{
    EXPIRING, KEPT, START_US,
    seed::{SeedOfRun, seeds},
    try_open_with,
};

const STEPS: usize = 250;

const READ: Tag = Tag(1);
const WRITE: Tag = Tag(2);
const INTENT: Tag = Tag(3);

/// More turns than any request needs.
const TURNS_MAX: usize = 10_000;

/// What stores that ran have done.
#[derive(Default)]
struct Counts {
    expired: u64,
    compactions: u64,
    /// Compactions that have left something out.
    forgetting: u64,
    /// What one shard has told another of an sstable that it has split.
    splits: u64,
}

struct Test {
    random: Random,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    size: Size,
    stores: Vec<Store>,
    /// Of [`KEPT`] and of [`EXPIRING`].
    shapes: [TableShape; 2],
    oracle: Oracle,
    /// How many writes were acknowledged.
    written: usize,
    tables: BTreeMap<TableNumber, TableSettings>,
    counts: Counts,
    /// The page that came last.
    page: Option<Page>,
}

impl Test {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let clock = Arc::new(ManualClock::at(START_US));
        let mut random = Random(seed);
        let size = Size::of(&mut random);
        let tables = any_tables(&mut random);
        let stores = try_open_with(&disk, &clock, &size.config, &tables).unwrap();
        let shapes = [(); 2].map(|()| TableShape::any(&mut random, size.cks));
        let oracle = Oracle::default();
        let (written, counts, page) = (0, Counts::default(), None);
        Self { random, disk, clock, size, stores, shapes, oracle, written, tables, counts, page }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..50 => {
                let request = self.request();
                let is_disturbed = self.random.percent(30);
                self.compare(request, is_disturbed);
            }
            _ => self.change(),
        }
    }

    fn change(&mut self) {
        match self.random.below(100) {
            0..5 => self.reopen(false),
            5..10 => self.reopen(true),
            10..20 => self.write_several(),
            20..23 => {
                self.tables = any_tables(&mut self.random);
                for store in &mut self.stores {
                    self.tables.iter().for_each(|(table, own)| store.define(*table, own.clone()));
                }
            }
            23..26 => {
                let table = self.table();
                self.stores.iter_mut().for_each(|store| store.compact_tables(&[table]));
            }
            26..40 => self.clock.advance(self.random.below(30_000_000).cast_signed()),
            _ => {
                let key = self.random.below(KEYS);
                let first = self.random.below(self.size.cks);
                for ck in first..first + 1 + self.random.below(self.size.rows_max) {
                    let table = self.table();
                    self.write(table, key, ck);
                }
            }
        }
    }

    fn now_s(&self) -> i64 {
        self.clock.now_us() / 1_000_000
    }

    fn table(&mut self) -> TableNumber {
        self.random.one_of(&[KEPT, EXPIRING])
    }

    fn shape(&self, table: TableNumber) -> &TableShape {
        &self.shapes[usize::from(table == EXPIRING)]
    }

    fn shards(&self) -> u16 {
        self.size.config.shards
    }

    fn owner(&self, key: u64) -> usize {
        usize::from(shard_of(token(&key_bytes(key)), self.shards()))
    }

    fn write(&mut self, table: TableNumber, key: u64, ck: u64) {
        let bytes = self.mutation(table, key, ck);
        self.wait_for(self.owner(key), |store| store.take_write(WRITE, &mut bytes.clone()));
    }

    /// Writes to partitions of several shards, all or none: once the intent is durable a power cut
    /// leaves it to the next start.
    fn write_several(&mut self) {
        let table = self.table();
        let mut parts = Vec::new();
        for _ in 0..2 + self.random.below(2) {
            // Long ones of several shards would fill the log, which keeps them until all are there.
            let cks = self.size.cks.min(FIRST_LONG_CK);
            let (key, ck) = (self.random.below(KEYS), self.random.below(cks));
            parts.push((key, self.mutation(table, key, ck)));
        }
        let all: Vec<u8> = parts.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let keeper = self.owner(parts[0].0);
        self.wait_for(keeper, |store| store.take_intent(INTENT, &mut all.clone()));
        for (key, bytes) in parts {
            if self.random.percent(10) {
                return self.reopen(true);
            }
            self.wait_for(self.owner(key), |store| store.write(WRITE, &bytes));
        }
        self.stores[keeper].intent_done(INTENT);
    }

    /// Has a store take something, and waits until that is acknowledged.
    fn wait_for(&mut self, owner: usize, take: impl Fn(&mut Store) -> Result<(), Refused>) {
        let written = self.written;
        for _ in 0..TURNS_MAX {
            match take(&mut self.stores[owner]) {
                Ok(()) => break,
                Err(Refused::Overloaded) => self.turn(),
                Err(refused) => panic!("{refused}"),
            }
        }
        for _ in 0..TURNS_MAX {
            if self.written > written {
                return;
            }
            self.turn();
        }
        panic!("the write is not acknowledged: {:?}", self.stores[owner].metrics());
    }

    /// Some change of this row or its partition, which the oracle knows, too.
    fn mutation(&mut self, table: TableNumber, key: u64, ck: u64) -> Vec<u8> {
        let now_us = self.clock.now_us();
        let spread = self.random.below(4).cast_signed();
        let write = Write {
            // Often the same timestamp twice, sometimes an old one.
            timestamp: now_us - now_us % 10_000_000 - spread * 10_000_000,
            ttl_s: self.random.one_of(if table == KEPT { &[0, 0, 20, 90] } else { &[15, 40] }),
            now_s: now_us / 1_000_000,
        };
        let Self { random, oracle, shapes, size, .. } = self;
        let shape = &shapes[usize::from(table == EXPIRING)];
        RandomWrites { random, oracle, shape, values: &size.values, write }.mutation(table, key, ck)
    }

    /// One turn of all shards.
    fn turn(&mut self) {
        let mut all = Vec::new();
        for store in &mut self.stores {
            store.turn_end();
            store.poll(&mut all).unwrap();
        }
        for done in all {
            match done {
                Done::Write(WRITE) | Done::Intent(INTENT) => self.written += 1,
                Done::Read(READ, page) => self.page = Some(*page),
                Done::Split(shard, split) => {
                    self.stores[usize::from(shard)].take_over(*split);
                    self.counts.splits += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Stops the stores, in order or by a power cut, and opens the directory again.
    fn reopen(&mut self, crash: bool) {
        if crash {
            self.disk = self.disk.crash(self.random.next_u64());
        } else {
            for store in &mut self.stores {
                store.begin_shutdown();
            }
            for _ in 0..TURNS_MAX {
                self.turn();
                if self.stores.iter().all(Store::is_idle) {
                    break;
                }
            }
            assert!(self.stores.iter().all(Store::is_idle), "it stops");
        }
        for store in self.stores.drain(..) {
            self.counts.expired += store.metrics().sstables_expired;
            self.counts.compactions += store.metrics().compactions;
            self.counts.forgetting += store.metrics().compactions_forgetting;
        }
        self.size.config.shards = self.random.one_of(&[1, 2, 3, 5]);
        let config = &self.size.config;
        self.stores = try_open_with(&self.disk, &self.clock, config, &self.tables).unwrap();
    }

    /// Any read.
    fn request(&mut self) -> ReadRequest {
        let (key, key_of) = (self.random.below(KEYS), key_bytes(self.random.below(KEYS)));
        let (table, one) = (self.table(), token(&key_of));
        let [low, high] = [self.random.next_u64(), self.random.next_u64()];
        let static_rows = self.shape(table).has_static_rows() && self.random.percent(70);
        // No bound of rows is at the static row.
        let first = if static_rows { FIRST_CK } else { NO_CK };
        let [low, high] = [low, high].map(|number| self.shape(table).ck(number).max(first));
        let columns: Vec<u16> = self.shape(table).columns.iter().map(|one| one.number).collect();
        let columns: Vec<u16> = columns.into_iter().filter(|_| self.random.percent(40)).collect();
        let any = ReadRequest {
            rows_max: self.random.one_of(&[1, 2, 3, 5, 17, usize::MAX]),
            bytes_max: self.random.one_of(&[1, 3_000, 20_000, usize::MAX, usize::MAX]),
            bypass_cache: self.random.percent(30),
            columns: self.random.percent(40).then(|| columns.into()),
            static_rows,
            goes_on: self.random.percent(80),
            ..ReadRequest::partition(table, one, &key_of, 0)
        };
        match self.random.below(4) {
            0 => {
                let ck = Bound::Included(ck_bytes(low));
                let reverse = self.random.percent(50);
                ReadRequest { from: ck.clone(), to: ck, reverse, ..any }
            }
            1 => {
                let other = token(&key_bytes(key)).0;
                let from = self.random.one_of(&[i64::MIN, one.0, one.0 + 1]);
                let to = self.random.one_of(&[i64::MAX, other, other - 1]);
                ReadRequest { partitions: Partitions::Range { from, to }, ..any }
            }
            _ => ReadRequest {
                from: bound(low.min(high), self.random.next_u64()),
                to: bound(if self.random.percent(95) { low.max(high) } else { 0 }, high),
                reverse: self.random.percent(50),
                ..any
            },
        }
    }

    /// Reads all pages, between which there may be changes.
    fn compare(&mut self, mut request: ReadRequest, is_disturbed: bool) {
        // A range of tokens is read shard by shard: from where it is to be read yet.
        let mut begin = match &request.partitions {
            Partitions::One { token, .. } => token.0,
            Partitions::Range { from, .. } => *from,
        };
        loop {
            request.now_s = self.now_s();
            let shard = shard_of(sandglass_db::mutation::Token(begin), self.shards());
            let own = range_of(shard, self.shards());
            let mut part = request.clone();
            if let Partitions::Range { to, .. } = request.partitions {
                part.partitions = Partitions::Range { from: begin, to: to.min(*own.end()) };
                // With other shards than before, what was read is not to be read again.
                if is_disturbed {
                    request.partitions = Partitions::Range { from: begin, to };
                }
            }
            let before = self.read(shard, &request, &part, is_disturbed);
            let page = self.page.take().unwrap();
            self.check(&part, &page, &before);
            let is_last = match request.partitions {
                Partitions::One { .. } => true,
                Partitions::Range { to, .. } => to <= *own.end(),
            };
            request.after = page.position().cloned();
            match &request.after {
                Some(after) => begin = after.token.0,
                None if is_last => return,
                None => begin = own.end() + 1,
            }
            if is_disturbed && self.random.percent(30) {
                self.change();
            }
        }
    }

    /// Reads a page. Gives the rows of partitions that changed meanwhile, as they were.
    fn read(
        &mut self,
        shard: u16,
        request: &ReadRequest,
        part: &ReadRequest,
        is_disturbed: bool,
    ) -> Vec<Row> {
        let mut page = Page::default();
        let mut before = Vec::new();
        let clock = Arc::clone(&self.clock);
        let mut time = match self.size.config.read_us {
            0 => TimeSlice::new(&*clock, 0),
            _ => TimeSlice::endless(),
        };
        if self.stores[usize::from(shard)].read(READ, request, &mut page, &mut time).unwrap() {
            self.page = Some(page);
            return before;
        }
        let mut among = places(part);
        among.retain(|(_, ck)| self.shape(part.table).cks.contains(ck));
        for turn in 0..TURNS_MAX {
            if self.page.is_some() {
                return before;
            }
            // Not for ever: each flush is one more sstable to look at.
            if is_disturbed && turn < 100 && (turn == 0 || self.random.percent(15)) {
                self.disturb(part, &among, &mut before);
            }
            self.turn();
        }
        panic!("the read does not end");
    }

    /// Writes to, or deletes, a row or partition that is being read, and lets time go by: rows are
    /// flushed, and expire with their files. Adds the rows as they were.
    fn disturb(&mut self, part: &ReadRequest, among: &[(u64, u64)], before: &mut Vec<Row>) {
        if self.random.percent(20) {
            self.clock.advance(self.random.below(30_000_000).cast_signed());
        }
        if !among.is_empty() {
            let (key, ck) = self.random.one_of(among);
            let rows = among.iter().copied().filter(|place| place.0 == key).chain([(key, NO_CK)]);
            before.extend(rows.map(|place| (place, self.row(part, place))));
            self.write(part.table, key, ck);
        }
    }

    /// The cells of a row that a request is for, by the oracle.
    fn row(&self, request: &ReadRequest, place: (u64, u64)) -> Option<Cells> {
        let cells = self.oracle.row((request.table.0, place.0, place.1), request.now_s)?;
        Some(wanted(request, cells))
    }

    /// Every row up to the end of the page is as it is, or as it was `before`.
    fn check(&self, request: &ReadRequest, page: &Page, before: &[Row]) {
        let found = page.rows().map(|row| {
            let cells = wanted(request, live_cells(row.row, request.now_s));
            ((number(row.key), ck_number(row.ck)), cells)
        });
        let mut found: Vec<((u64, u64), Cells)> = found.collect();
        if request.static_rows {
            self.check_static_rows(request, page, &mut found, before);
        }
        let mut places = places(request);
        if let Some(end) = page.position() {
            let is_full = found.len() == request.rows_max || page.bytes() >= request.bytes_max;
            assert!(is_full, "cut after {} rows", found.len());
            places.truncate(read_until(&places, end));
            if !is_partitions_end(end) {
                let end = (number(&end.key), ck_number(&end.ck));
                let last = found.iter().rfind(|row| row.0.0 == end.0).map(|row| row.0);
                // A static row may fill a page, which ends at the next row then, there or not.
                assert!(last == Some(end) || (request.static_rows && last.is_none()), "{end:?}");
            }
        }
        let mut rows = found.into_iter().peekable();
        for place in places {
            let found = rows.next_if(|row| row.0 == place).map(|row| row.1);
            self.check_row(request, &(place, found), before);
        }
        assert_eq!(rows.next(), None, "a row that is not there, or out of order");
    }

    fn check_row(&self, request: &ReadRequest, found: &Row, before: &[Row]) {
        let is = self.row(request, found.0);
        assert!(found.1 == is || before.contains(found), "{:?} of {request:?}", found.0);
    }

    /// Takes the static rows out of what was found: each partition of the page begins with its own.
    fn check_static_rows(
        &self,
        request: &ReadRequest,
        page: &Page,
        found: &mut Vec<((u64, u64), Cells)>,
        before: &[Row],
    ) {
        let is_static = |row: &((u64, u64), Cells)| row.0.1 == NO_CK;
        for pair in found.windows(2) {
            assert!(!is_static(&pair[1]) || pair[0].0.0 != pair[1].0.0, "it comes first");
        }
        let mut keys = wanted_keys(request);
        if let (Some(after), Partitions::Range { .. }) = (&request.after, &request.partitions) {
            let begins = keys.iter().position(|key| *key == number(&after.key));
            keys.drain(..begins.map_or(0, |at| at + usize::from(is_partitions_end(after))));
        }
        if let Some(end) = page.position() {
            let ends = keys.iter().position(|key| *key == number(&end.key));
            keys.truncate(1 + ends.expect("a page ends in a partition of the request"));
        }
        let mut rows = found.extract_if(.., |row| is_static(row)).peekable();
        for key in keys {
            let found = rows.next_if(|row| row.0.0 == key).map(|row| row.1);
            self.check_row(request, &((key, NO_CK), found), before);
        }
        assert!(rows.next().is_none(), "a static row that is not there, or out of order");
    }
}

#[test]
fn the_store_is_the_model() {
    let mut all = Counts::default();
    for seed in seeds(1..61) {
        let _context = SeedOfRun(seed);
        let mut test = Test::new(seed);
        for _ in 0..STEPS {
            test.step();
        }
        for table in [KEPT, EXPIRING] {
            test.compare(ReadRequest::scan(table, i64::MIN, i64::MAX, 0), false);
        }
        all.expired += test.counts.expired;
        all.compactions += test.counts.compactions;
        all.forgetting += test.counts.forgetting;
        all.splits += test.counts.splits;
    }
    assert!(all.expired > 0 && all.compactions > 0 && all.forgetting > 0);
    assert!(all.splits > 0);
}
