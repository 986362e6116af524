mod block_sizes;
mod caching;
mod compactions;
mod forgotten;
mod large_rows;
mod many_ranges;
mod newest;
mod on_demand;
mod openings;
mod passed_ranges;
mod ranges;
mod reads;
mod refusals;
mod resumed;
mod skipped;
mod static_rows;

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds as _},
    sync::Arc,
};

use super::{Done, Page, ReadRequest, Store, StoreConfig, TableNumber, TableSettings, Tag, open};
use crate::{
    io::{Clock, ManualClock, TimeSlice, sim::SimDisk},
    mutation::{Builder, Write, token},
    schema::Catalog,
};

const TABLE: TableNumber = TableNumber(7);
const START_US: i64 = 1_800_000_000_000_000;

struct Machine {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    tables: BTreeMap<TableNumber, TableSettings>,
    tags: u128,
}

impl Machine {
    fn new() -> Self {
        let config = StoreConfig {
            memtable_bytes_max: 4 << 20,
            cache_bytes_max: 256 << 10,
            log_segment_bytes: 256 << 10,
            ..StoreConfig::default()
        };
        let settings = TableSettings {
            window_us: Some(3_600_000_000),
            gc_grace_s: 0,
            ..TableSettings::default()
        };
        Self {
            disk: SimDisk::new(11),
            clock: Arc::new(ManualClock::at(START_US)),
            config,
            tables: BTreeMap::from([(TABLE, settings)]),
            tags: 0,
        }
    }

    fn open(&self) -> Store {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let files = vec![self.disk.files()];
        let tables = |_: &Catalog| self.tables.clone();
        let opened = open(&self.config, files, self.disk.files(), &clock, tables);
        opened.unwrap().stores.pop().unwrap()
    }

    /// Writes one cell of a row and waits until it is durable.
    fn write(&mut self, store: &mut Store, key: &[u8], ck: u32, value: &[u8], ttl_s: u32) {
        let bytes = self.mutation(key, ck, value, ttl_s);
        self.put(store, &bytes);
    }

    fn mutation(&self, key: &[u8], ck: u32, value: &[u8], ttl_s: u32) -> Vec<u8> {
        let now_us = self.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s, now_s: now_us / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(key), key);
        builder.row(&ck.to_be_bytes(), &write, true).cell(1, value);
        builder.finish().unwrap();
        bytes
    }

    fn put(&mut self, store: &mut Store, bytes: &[u8]) {
        self.tags += 1;
        store.write(Tag(self.tags), bytes).unwrap();
        wait(store, |done| matches!(done, Done::Write(tag) if tag.0 == self.tags));
    }

    fn read(&self, store: &mut Store, request: &ReadRequest) -> Page {
        let mut page = Page::default();
        let request = ReadRequest { now_s: self.clock.now_us() / 1_000_000, ..request.clone() };
        if store.read(Tag(0), &request, &mut page, &mut TimeSlice::endless()).unwrap() {
            return page;
        }
        match wait(store, |done| matches!(done, Done::Read(..) | Done::ReadFailed(..))) {
            Done::Read(_, page) => *page,
            other => panic!("{other:?}"),
        }
    }

    /// All rows of a request as (key, ck), read page by page.
    fn pages(&self, store: &mut Store, mut request: ReadRequest) -> Vec<(Vec<u8>, u32)> {
        let mut rows = Vec::new();
        for _ in 0..10_000 {
            let page = self.read(store, &request);
            rows.extend(
                page.rows()
                    .map(|row| (row.key.to_vec(), u32::from_be_bytes(row.ck.try_into().unwrap()))),
            );
            match page.position() {
                Some(position) => request.after = Some(position.clone()),
                None => return rows,
            }
        }
        panic!("pages without end");
    }
}

fn wait(store: &mut Store, is_it: impl Fn(&Done) -> bool) -> Done {
    let mut done = Vec::new();
    for _ in 0..10_000 {
        store.turn_end();
        store.poll(&mut done).unwrap();
        if let Some(place) = done.iter().position(&is_it) {
            return done.swap_remove(place);
        }
    }
    panic!("nothing came");
}

fn flush_and_close(mut store: Store) {
    store.begin_shutdown();
    for _ in 0..10_000 {
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
        if store.is_idle() {
            return;
        }
    }
    panic!("it does not become idle");
}

fn everything() -> ReadRequest {
    ReadRequest::scan(TABLE, i64::MIN, i64::MAX, 0)
}

fn partition(key: &[u8]) -> ReadRequest {
    ReadRequest::partition(TABLE, token::token(key), key, 0)
}

#[test]
fn what_is_written_is_read_before_and_after_a_restart() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 1, b"old", 0);
    machine.clock.advance(10);
    machine.write(&mut store, b"boiler", 1, b"new", 0);
    drop(store);
    for _ in 0..3 {
        let mut store = machine.open();
        let page = machine.read(&mut store, &partition(b"boiler"));
        let row = page.rows().next().unwrap().row;
        let row = crate::mutation::RowView::parse(row).unwrap();
        assert_eq!(row.cell(1, 0).unwrap().value, b"new");
        assert_eq!(page.len(), 1);
        flush_and_close(store);
    }
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 1, b"value", 0);
    flush_and_close(store);
    let store = machine.open();
    assert_eq!(store.tables[&TABLE].sstables.len(), 1);
    flush_and_close(store);
    assert_eq!(machine.open().tables[&TABLE].sstables.len(), 1);
}

/// Rows lie in memory, in several sstables, and in both; every page size and both directions give
/// the same.
#[test]
fn pages_of_any_size_are_the_whole_in_either_direction() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    for round in 0..4 {
        for ck in 0..40 {
            let key = keys[ck as usize % 3];
            if (ck + round) % 4 != 0 {
                machine.write(&mut store, key, ck, &[7; 900], 0);
            }
        }
        machine.clock.advance(3_600_000_000);
        if round < 3 {
            flush_and_close(store);
            store = machine.open();
        }
    }
    let whole =
        |key: &[u8]| -> Vec<u32> { (0..40).filter(|ck| keys[*ck as usize % 3] == key).collect() };
    for rows_max in [1, 2, 3, 7, 1000] {
        for key in keys {
            for reverse in [false, true] {
                let request = ReadRequest { reverse, rows_max, ..partition(key) };
                let rows: Vec<u32> =
                    machine.pages(&mut store, request).into_iter().map(|(_, ck)| ck).collect();
                let mut expected = whole(key);
                if reverse {
                    expected.reverse();
                }
                assert_eq!(rows, expected, "{rows_max} {reverse}");
                let request = ReadRequest {
                    from: Bound::Excluded(9_u32.to_be_bytes().to_vec()),
                    to: Bound::Included(30_u32.to_be_bytes().to_vec()),
                    reverse,
                    rows_max,
                    ..partition(key)
                };
                let rows = machine.pages(&mut store, request);
                expected.retain(|ck| *ck > 9 && *ck <= 30);
                assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), expected);
            }
        }
        let scan = ReadRequest { rows_max, ..everything() };
        let rows = machine.pages(&mut store, scan);
        let mut order = keys;
        order.sort_by_key(|key| token::token(key));
        let expected: Vec<_> = order
            .iter()
            .flat_map(|key| whole(key).into_iter().map(|ck| (key.to_vec(), ck)))
            .collect();
        assert!(rows == expected, "pages of {rows_max}");
    }
}

/// Every range of partitions that begin and end anywhere in blocks, and span up to three of them.
#[test]
fn a_range_is_the_same_in_either_direction_wherever_blocks_begin() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    let sizes = [1, 4, 9, 2, 13, 3, 6, 1, 11, 5];
    let keys: Vec<Vec<u8>> = (0..sizes.len()).map(|n| format!("p{n}").into_bytes()).collect();
    for (key, rows) in keys.iter().zip(sizes) {
        for ck in 0..rows {
            let bytes = 5_000 + 700 * usize::try_from(ck).unwrap();
            machine.write(&mut store, key, 2 * ck, &vec![7; bytes], 0);
        }
    }
    for deleted in [&keys[3], &keys[4]] {
        let write = Write { timestamp: 1, ttl_s: 0, now_s: START_US / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(deleted), deleted);
        builder.delete_partition(&write);
        builder.finish().unwrap();
        machine.put(&mut store, &bytes);
    }
    flush_and_close(store);
    let mut store = machine.open();
    let bounds = |end: u32| {
        (0..=end).flat_map(|ck| {
            let ck = ck.to_be_bytes().to_vec();
            [Bound::Included(ck.clone()), Bound::Excluded(ck)]
        })
    };
    for (key, rows) in keys.iter().zip(sizes) {
        for from in bounds(2 * rows).chain([Bound::Unbounded]) {
            for to in bounds(2 * rows).chain([Bound::Unbounded]) {
                let range = (from.clone(), to.clone());
                let inside = |ck: &u32| range.contains(&ck.to_be_bytes().to_vec());
                let mut expected: Vec<u32> = (0..rows).map(|row| 2 * row).filter(inside).collect();
                for reverse in [false, true] {
                    let (from, to) = range.clone();
                    let request = ReadRequest { from, to, reverse, ..partition(key) };
                    let found = machine.pages(&mut store, request);
                    assert!(found.iter().all(|row| row.0 == *key));
                    let found: Vec<u32> = found.into_iter().map(|row| row.1).collect();
                    assert_eq!(found, expected, "{rows} rows, {range:?}, {reverse}");
                    expected.reverse();
                }
            }
        }
    }
}

#[test]
fn a_deleted_partition_hides_what_is_older_wherever_it_lies() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    for ck in 0..200 {
        machine.write(&mut store, b"boiler", ck, &[1; 900], 0);
    }
    flush_and_close(store);
    let mut store = machine.open();
    machine.clock.advance(1_000_000);
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    builder.delete_partition(&write);
    builder.finish().unwrap();
    machine.put(&mut store, &bytes);
    machine.clock.advance(1_000_000);
    machine.write(&mut store, b"boiler", 150, b"after", 0);
    for _ in 0..2 {
        for rows_max in [1, 1000] {
            for reverse in [false, true] {
                let request = ReadRequest { reverse, rows_max, ..partition(b"boiler") };
                assert_eq!(machine.pages(&mut store, request), [(b"boiler".to_vec(), 150)]);
            }
            let scan = ReadRequest { rows_max, ..everything() };
            assert_eq!(machine.pages(&mut store, scan), [(b"boiler".to_vec(), 150)]);
        }
        flush_and_close(store);
        store = machine.open();
    }
}

/// More rows that are deleted than a page looks at, before, between and after those that are not.
#[test]
fn a_page_that_is_cut_among_deleted_rows_goes_on_behind_them() {
    const ROWS: u32 = 30_000;
    let mut machine = Machine::new();
    machine.tables.insert(TABLE, TableSettings { gc_grace_s: 1_000, ..TableSettings::default() });
    machine.config.memtable_bytes_max = 16 << 20;
    let mut store = machine.open();
    let live = [12_000, 12_001, 25_000];
    let write = Write { timestamp: START_US, ttl_s: 0, now_s: START_US / 1_000_000 };
    for first in (0..ROWS).step_by(500) {
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        for ck in (first..first + 500).filter(|ck| !live.contains(ck)) {
            builder.delete_row(&ck.to_be_bytes(), &write);
        }
        builder.finish().unwrap();
        machine.put(&mut store, &bytes);
    }
    for ck in live {
        machine.write(&mut store, b"boiler", ck, b"live", 0);
    }
    for is_in_memory in [true, false] {
        for rows_max in [1, 2, 1000] {
            for (reverse, mut expected) in [(false, live), (true, live)] {
                if reverse {
                    expected.reverse();
                }
                let request = ReadRequest { reverse, rows_max, ..partition(b"boiler") };
                let first = machine.read(&mut store, &request);
                // A read that waits for blocks is many short ones anyway.
                assert!(!is_in_memory || first.more() && first.len() < 2, "it is cut");
                let rows = machine.pages(&mut store, request);
                assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), expected);
            }
            let rows = machine.pages(&mut store, ReadRequest { rows_max, ..everything() });
            assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), live);
        }
        flush_and_close(store);
        store = machine.open();
    }
}

#[test]
fn windows_expire_as_whole_files() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 1, b"short", 60);
    machine.clock.advance(3_600_000_000);
    machine.write(&mut store, b"boiler", 2, b"long", 100_000);
    flush_and_close(store);
    let mut store = machine.open();
    assert_eq!(store.tables[&TABLE].sstables.len(), 1, "one had expired before the start");
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 1);
    machine.clock.advance(100_000_000_000);
    assert!(store.deadline_us().is_some_and(|due_us| due_us <= machine.clock.elapsed_us()));
    for _ in 0..100 {
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
    }
    assert_eq!(store.metrics().sstables_expired, 1);
    assert!(machine.disk.contents().keys().all(|name| !name.starts_with("sst-")));
    assert_eq!(store.deadline_us(), None, "an idle store wants no turn");
}

#[test]
fn the_files_of_a_table_that_is_dropped_go_even_if_it_is_being_flushed() {
    for turns in 0..40 {
        let mut machine = Machine::new();
        let mut store = machine.open();
        machine.write(&mut store, b"boiler", 1, b"flushed", 0);
        flush_and_close(store);
        let mut store = machine.open();
        machine.write(&mut store, b"boiler", 2, b"being flushed", 0);
        machine.clock.advance(25 * 3_600_000_000);
        for _ in 0..turns {
            store.turn_end();
            store.poll(&mut Vec::new()).unwrap();
        }
        store.drop_table(TABLE);
        for _ in 0..200 {
            store.turn_end();
            store.poll(&mut Vec::new()).unwrap();
        }
        let is_gone = |disk: &SimDisk| disk.contents().keys().all(|name| !name.starts_with("sst-"));
        assert!(is_gone(&machine.disk), "dropped after {turns} turns of a flush");
        assert_eq!(store.deadline_us(), None, "an idle store wants no turn");
        drop(store);
        machine.disk = machine.disk.crash(turns);
        machine.tables.clear();
        drop(machine.open());
        assert!(is_gone(&machine.disk), "after a crash, dropped after {turns} turns of a flush");
    }
}

#[test]
fn a_directory_in_use_or_of_another_kind_is_refused_with_the_remedy() {
    let machine = Machine::new();
    let clock: Arc<dyn Clock> = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let try_open = |disk: &SimDisk| {
        let tables = |_: &Catalog| machine.tables.clone();
        open(&machine.config, vec![disk.files()], disk.files(), &clock, tables)
            .map(|opened| opened.stores)
    };
    let store = machine.open();
    let error = try_open(&machine.disk).unwrap_err().to_string();
    assert!(error.contains("another engine is using this directory"), "{error}");
    drop(store);

    let foreign = BTreeMap::from([("holiday.jpg".to_string(), vec![1])]);
    let error = try_open(&SimDisk::with(1, foreign)).unwrap_err().to_string();
    assert!(error.contains("--data-dir"), "{error}");

    let mut newer = machine.disk.contents();
    newer.get_mut("FORMAT").unwrap()[8] = 3;
    let error = try_open(&SimDisk::with(1, newer)).unwrap_err().to_string();
    assert!(error.contains("has format 3"), "{error}");

    let mut damaged = machine.disk.contents();
    damaged.get_mut("FORMAT").unwrap()[13] ^= 1;
    let error = try_open(&SimDisk::with(1, damaged)).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn a_row_that_is_known_is_not_looked_for_in_older_sstables() {
    let mut machine = Machine::new();
    for _ in 0..5 {
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        machine.write(&mut store, b"boiler", 7, b"latest", 0);
        flush_and_close(store);
    }
    let mut store = machine.open();
    let ck = 7_u32.to_be_bytes().to_vec();
    let one = ReadRequest {
        from: Bound::Included(ck.clone()),
        to: Bound::Included(ck),
        ..partition(b"boiler")
    };
    for (columns, sstables) in
        [(None, 5), (Some(vec![1]), 1), (Some(vec![]), 1), (Some(vec![2]), 5)]
    {
        let before = store.metrics().rows_scanned;
        let request = ReadRequest { columns: columns.clone().map(Into::into), ..one.clone() };
        let page = machine.read(&mut store, &request);
        let scanned = store.metrics().rows_scanned - before;
        assert_eq!((page.len(), scanned, page.cost.sstables), (1, sstables, sstables));
    }
}
