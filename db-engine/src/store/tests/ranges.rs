//! Deleted ranges and static rows: whatever is flushed, split into blocks and read page by page, a
//! read gives what a naive model of the partition does.

use super::*;
use crate::{
    budget::{Budget, Share},
    io::{Buffer, Random},
    memtable::Pool,
    mutation::{MutationView, RowView, Token},
    store::{
        Partitions, Position,
        background::{Encoder, FileNumbers},
        table::TableData,
    },
};

/// A clustering key or a bound.
type Key = Vec<u8>;

/// What was written to a partition, in the fewest words.
#[derive(Default)]
struct PartitionModel {
    /// When each row was written last, and the static one, which has an empty key.
    rows: BTreeMap<Key, i64>,
    /// From where to where rows were deleted, and when. The static row is not among them.
    ranges: Vec<(Key, Key, i64)>,
    /// When rows and the partition were deleted.
    deleted_rows: Vec<(Key, i64)>,
    deleted: Option<i64>,
}

impl PartitionModel {
    fn is_live(&self, ck: &Key, written: i64) -> bool {
        let in_range = |(from, to, _): &&(Key, Key, i64)| from <= ck && ck < to;
        let ranges = self.ranges.iter().filter(in_range).map(|range| range.2);
        let rows = self.deleted_rows.iter().filter(|row| row.0 == *ck).map(|row| row.1);
        ranges.chain(rows).chain(self.deleted).all(|deleted| deleted < written)
    }

    fn live(&self) -> impl Iterator<Item = (&Key, i64)> {
        let rows = self.rows.iter().map(|(ck, written)| (ck, *written));
        rows.filter(|(ck, written)| self.is_live(ck, *written))
    }
}

/// A store and the models of its partitions.
struct ModelRun {
    machine: Machine,
    store: Option<Store>,
    models: BTreeMap<(Token, Key), PartitionModel>,
    random: Random,
    /// How many pages went on with what was kept of the one before.
    resumed: u64,
}

/// Whether a row comes behind a position in the order of reading.
fn is_behind(request: &ReadRequest, row: &(Token, Key, Key, i64), at: &Position) -> bool {
    let order = (row.0, &row.1, &row.2).cmp(&(at.token, &at.key, &at.ck));
    if request.reverse { order.is_lt() } else { order.is_gt() }
}

const PARTITIONS: u64 = 4;

fn partition_key(number: u64) -> (Token, Key) {
    let key = format!("p{number}").into_bytes();
    (token::token(&key), key)
}

impl ModelRun {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new();
        let mut random = Random(seed);
        machine.config.block_bytes = [1, 100, 400, 32 << 10][usize::try_from(seed % 4).unwrap()];
        machine.config.cache_bytes_max = if random.below(2) == 0 { 0 } else { 256 << 10 };
        machine.config.read_us = random.below(2);
        machine.config.data_lifetime_us = 1_000_000;
        // Some runs split what is flushed by its timestamp.
        let window_us = (random.below(2) == 0).then_some(20);
        machine.tables.insert(
            TABLE,
            TableSettings { window_us, gc_grace_s: 1_000_000, ..TableSettings::default() },
        );
        let store = Some(machine.open());
        Self { machine, store, models: BTreeMap::new(), random, resumed: 0 }
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    fn index(&mut self, count: u64) -> usize {
        usize::try_from(self.random.below(count)).unwrap()
    }

    /// A key of up to three small bytes.
    fn ck(&mut self) -> Key {
        let length = 1 + self.random.below(3);
        (0..length).map(|_| u8::try_from(1 + self.random.below(3)).unwrap()).collect()
    }

    /// A key, or what is before or behind all keys that begin with it.
    fn bound(&mut self) -> Key {
        let mut bound = self.ck();
        match self.random.below(3) {
            0 => bound.push(0xFF),
            1 => bound.push(0),
            _ => {}
        }
        bound
    }

    fn write(&mut self) {
        let bytes = self.mutation();
        let mut store = self.store.take().unwrap();
        self.machine.put(&mut store, &bytes);
        self.store = Some(store);
    }

    /// Changes a model; gives the same change for the store.
    fn mutation(&mut self) -> Vec<u8> {
        let partition = self.random.below(PARTITIONS);
        let (token, key) = partition_key(partition);
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token, &key);
        let mut model = self.models.remove(&(token, key.clone())).unwrap_or_default();
        for _ in 0..=self.random.below(5) {
            let timestamp = START_US + i64::try_from(self.random.below(100)).unwrap();
            let write = Write { timestamp, ttl_s: 0, now_s: START_US / 1_000_000 };
            match self.random.below(20) {
                0 if self.random.below(5) == 0 => {
                    builder.delete_partition(&write);
                    model.deleted = model.deleted.max(Some(timestamp));
                }
                0..6 => {
                    let (from, to) = (self.bound(), self.bound());
                    let (from, to) = (from.clone().min(to.clone()), from.max(to));
                    if from < to {
                        builder.delete_range(&from, &to, &write);
                        model.ranges.push((from, to, timestamp));
                    }
                }
                6 => {
                    let ck = self.ck();
                    builder.delete_row(&ck, &write);
                    model.deleted_rows.push((ck, timestamp));
                }
                kind => {
                    // One partition has no other rows.
                    let is_static = kind < 9 || partition == 0;
                    let ck = if is_static { Key::new() } else { self.ck() };
                    let mut value = timestamp.to_be_bytes().to_vec();
                    value.resize(8 + usize::try_from(timestamp % 60).unwrap(), b'.');
                    let has_marker = !is_static && timestamp % 2 == 0;
                    builder.row(&ck, &write, has_marker).cell(1, &value);
                    let written = model.rows.entry(ck).or_insert(timestamp);
                    *written = timestamp.max(*written);
                }
            }
        }
        builder.finish().unwrap();
        self.models.insert((token, key), model);
        bytes
    }

    /// Nothing, a flush, or another run after a stop or a crash.
    fn disturb(&mut self) {
        match self.random.below(12) {
            0 => flush_and_close(self.store.take().unwrap()),
            1 => self.store = None,
            2 => {
                self.machine.clock.advance(2_000_000);
                for _ in 0..self.random.below(12) {
                    self.store().turn_end();
                    self.store().poll(&mut Vec::new()).unwrap();
                }
            }
            _ => {}
        }
        let machine = &self.machine;
        self.store.get_or_insert_with(|| machine.open());
    }

    /// One page. What is in memory may be flushed while it is read.
    fn page(&mut self, request: &ReadRequest) -> Page {
        let (mut page, mut done) = (Page::default(), Vec::new());
        let clock = Arc::clone(&self.machine.clock);
        let read_us = self.machine.config.read_us;
        let mut time = TimeSlice::new(&*clock, read_us);
        let resumed = self.store().metrics().reads_resumed;
        let is_read = self.store().read(Tag(0), request, &mut page, &mut time).unwrap();
        self.resumed += self.store().metrics().reads_resumed - resumed;
        if is_read {
            return page;
        }
        let flush_at = self.random.below(40);
        for number in 0..10_000 {
            if number == flush_at {
                clock.advance(2_000_000);
            }
            self.store().turn_end();
            self.store().poll(&mut done).unwrap();
            match done.pop() {
                Some(Done::Read(_, page)) => return *page,
                None => {}
                other => panic!("{other:?}"),
            }
        }
        panic!("a read without end");
    }

    /// Any part of a partition or of the table, in either direction.
    fn request(&mut self) -> ReadRequest {
        let rows_max = usize::try_from(1 + self.random.below(100)).unwrap();
        let rows_max = if self.random.below(2) == 0 { rows_max } else { rows_max % 4 + 1 };
        let bytes_max = [1, 100, usize::MAX, usize::MAX][self.index(4)];
        let static_rows = self.random.below(4) != 0;
        let goes_on = self.random.below(4) != 0;
        let common = ReadRequest { rows_max, bytes_max, static_rows, goes_on, ..everything() };
        if self.random.below(3) == 0 {
            return common;
        }
        let (token, key) = partition_key(self.random.below(PARTITIONS));
        let partitions = Partitions::One { token, key };
        let mut end = || {
            let bound = self.bound();
            match self.random.below(4) {
                0 => Bound::Included(bound),
                1 => Bound::Excluded(bound),
                _ => Bound::Unbounded,
            }
        };
        let (from, mut to) = (end(), end());
        if self.random.below(5) == 0 {
            to.clone_from(&from);
        }
        let reverse = self.random.below(2) == 0;
        let columns = (self.random.below(2) == 0).then(|| Arc::from([1]));
        ReadRequest { partitions, from, to, reverse, columns, ..common }
    }

    /// The rows that a request ought to find behind its position, without static ones, in the order
    /// of reading.
    fn expected(&self, request: &ReadRequest) -> Vec<(Token, Key, Key, i64)> {
        let is_asked = |token: Token, key: &Key| match &request.partitions {
            Partitions::One { key: only, .. } => key == only,
            Partitions::Range { from, to } => (*from..=*to).contains(&token.0),
        };
        let mut rows = Vec::new();
        for ((token, key), model) in &self.models {
            for (ck, written) in model.live().filter(|_| is_asked(*token, key)) {
                let is_static = ck.is_empty() && request.static_rows;
                if !is_static && (request.from.clone(), request.to.clone()).contains(ck) {
                    rows.push((*token, key.clone(), ck.clone(), written));
                }
            }
        }
        if request.reverse {
            rows.reverse();
        }
        rows.retain(|row| request.after.as_ref().is_none_or(|at| is_behind(request, row, at)));
        rows
    }

    /// When the static row was written, if it is live and wanted.
    fn static_row(&self, request: &ReadRequest, token: Token, key: &[u8]) -> Option<i64> {
        let model = self.models.get(&(token, key.to_vec())).filter(|_| request.static_rows)?;
        model.live().find(|(ck, _)| ck.is_empty()).map(|(_, written)| written)
    }

    /// Reads all pages, between which there may be writes, and compares them to the model.
    fn check(&mut self) {
        let mut request = self.request();
        let what = format!("{request:?}");
        let (mut seen_static, mut is_changed) = (std::collections::BTreeSet::new(), false);
        loop {
            let page = self.page(&request);
            let mut rows: Vec<_> = page
                .rows()
                .map(|row| {
                    let cell = RowView::parse(row.row).unwrap().cell(1, 0).unwrap();
                    let written = i64::from_be_bytes(*cell.value.first_chunk().unwrap());
                    (row.token, row.key.to_vec(), row.ck.to_vec(), written)
                })
                .collect();
            if request.static_rows {
                self.check_statics(&request, &rows, &what);
                let statics = rows.extract_if(.., |row| row.2.is_empty());
                seen_static.extend(statics.map(|(token, key, ..)| (token, key)));
            }
            let is_full = rows.len() == request.rows_max;
            let is_cut_by_rows = page.more() && request.bytes_max == usize::MAX;
            assert!(is_full || rows.len() < request.rows_max && !is_cut_by_rows, "{what}");
            let mut expected = self.expected(&request);
            if let Some(end) = page.position() {
                expected.retain(|row| !is_behind(&request, row, end));
            }
            assert_eq!(rows, expected, "{what}, behind {:?}", request.after);
            let Some(Position { token, key, ck }) = page.position().cloned() else { break };
            assert!(!ck.is_empty() || !request.static_rows, "{what}: cut behind a static row");
            request.after = Some(Position { token, key, ck });
            self.disturb();
            if self.random.below(4) == 0 {
                self.write();
                self.disturb();
                is_changed = true;
            }
        }
        for (token, key) in self.models.keys().filter(|_| !is_changed) {
            let is_asked = match &request.partitions {
                Partitions::One { key: only, .. } => key == only,
                Partitions::Range { .. } => true,
            };
            let has_static = is_asked && self.static_row(&request, *token, key).is_some();
            assert_eq!(seen_static.contains(&(*token, key.clone())), has_static, "{what}: {key:?}");
        }
    }

    /// Every partition of a page begins with its static row, if that is live.
    fn check_statics(&self, request: &ReadRequest, rows: &[(Token, Key, Key, i64)], what: &str) {
        for partition in rows.chunk_by(|a, b| a.1 == b.1) {
            let (token, key, ..) = &partition[0];
            let statics: Vec<_> =
                partition.iter().map(|row| row.2.is_empty().then_some(row.3)).collect();
            let expected = self.static_row(request, *token, key);
            assert_eq!(statics[0], expected, "{what}: the static row of {key:?} is first");
            assert!(statics[1..].iter().all(Option::is_none), "{what}: and is there once");
        }
        let over = request.after.as_ref().filter(|after| after.ck == [0xFF]);
        assert!(over.is_none_or(|over| rows.iter().all(|row| row.1 != over.key)), "{what}");
        let first = match (&request.partitions, &request.after) {
            (Partitions::One { token, key }, _) => Some((*token, key)),
            (_, Some(after)) if after.ck != [0xFF] => Some((after.token, &after.key)),
            _ => None,
        };
        let is_first = |(token, key)| self.static_row(request, token, key).is_some();
        if let Some((_, key)) = first.filter(|(token, key)| is_first((*token, key.as_slice()))) {
            assert_eq!(rows.first().map(|row| &row.1), Some(key), "{what}: it begins each page");
        }
    }
}

/// `SANDGLASS_SEED=n` chooses one run.
#[test]
fn pages_of_any_size_are_what_the_model_says() {
    let seed = std::env::var("SANDGLASS_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut resumed, is_all) = (0, seed.is_none());
    for seed in seed.map_or(0..60, |seed: u64| seed..seed + 1) {
        println!("SANDGLASS_SEED={seed}");
        let mut run = ModelRun::new(seed);
        for _ in 0..60 {
            run.write();
            run.disturb();
            if run.random.below(3) == 0 {
                run.check();
            }
        }
        for _ in 0..20 {
            run.check();
        }
        resumed += run.resumed;
    }
    assert!(resumed > 1_000 || !is_all, "{resumed} pages were resumed");
}

/// After every entry the time is over, or never.
#[test]
fn a_flush_that_is_cut_by_time_writes_the_same() {
    for seed in 0..20 {
        let mut run = ModelRun::new(seed);
        let mut pool = Pool::new(1 << 20);
        let (mut table, mut mutations) = (TableData::default(), Vec::new());
        table.settings.window_us = (seed % 2 == 0).then_some(20);
        for _ in 0..60 {
            mutations.push(run.mutation());
        }
        for bytes in &mutations {
            table.active.apply(&MutationView::parse(bytes).unwrap(), &mut pool);
        }
        table.flushing = Some(std::mem::take(&mut table.active).freeze());
        let tables = BTreeMap::from([(TABLE, table)]);
        let written = |time: fn(&ManualClock) -> TimeSlice<'_>| {
            let mut encoder = Encoder::new(
                (1, 0),
                FileNumbers::default(),
                &tables,
                &run.machine.config,
                Vec::new(),
            );
            for steps in 0.. {
                if let Some(encoded) = encoder.step(&mut time(&run.machine.clock)).unwrap() {
                    let outputs = encoded.outputs.into_iter();
                    let bytes = |piece: &Buffer| piece.as_slice().to_vec();
                    let files = outputs.map(|one| one.pieces.iter().flat_map(bytes).collect());
                    return (steps, files.collect::<Vec<Vec<u8>>>());
                }
            }
            unreachable!("it ends")
        };
        let (at_once, whole) = written(|_| TimeSlice::endless());
        let (steps, cut) = written(|clock| TimeSlice::new(clock, 0));
        assert!(at_once == 0 && steps > 20, "{steps} steps");
        assert!(cut == whole, "seed {seed}");
    }
}

/// Deletes rows with these numbers, from the first to before the second.
fn delete_range(machine: &mut Machine, store: &mut Store, from: u32, to: u32) {
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
    builder.delete_range(&from.to_be_bytes(), &to.to_be_bytes(), &write);
    builder.finish().unwrap();
    machine.put(store, &bytes);
}

#[test]
fn a_file_of_deleted_ranges_stays_as_long_as_it_hides_something() {
    for ttl_s in [0, 5_000] {
        let mut machine = Machine::new();
        let mut store = machine.open();
        for ck in 0..10 {
            machine.write(&mut store, b"boiler", ck, b"value", ttl_s);
        }
        flush_and_close(store);
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        delete_range(&mut machine, &mut store, 3, 8);
        flush_and_close(store);
        let left: Vec<u32> = if ttl_s == 0 { vec![0, 1, 2, 8, 9] } else { Vec::new() };
        let files = if ttl_s == 0 { 2 } else { 0 };
        let mut store = machine.open();
        assert_eq!(store.tables[&TABLE].sstables.len(), 2, "it hides rows that are there");
        machine.clock.advance(10_000_000_000);
        for _ in 0..2 {
            for _ in 0..100 {
                store.turn_end();
                store.poll(&mut Vec::new()).unwrap();
            }
            let rows = machine.pages(&mut store, partition(b"boiler"));
            assert_eq!(rows.into_iter().map(|row| row.1).collect::<Vec<_>>(), left);
            assert_eq!(store.tables[&TABLE].sstables.len(), files, "{ttl_s}");
            flush_and_close(store);
            store = machine.open();
        }
    }
}

/// Of very many ranges each is a step of its own, and a read of one row does not take any.
#[test]
fn reads_are_cut_by_time_among_deleted_ranges() {
    const RANGES: u32 = 5_000;
    let mut machine = Machine::new();
    machine.config.block_bytes = 1_000;
    machine.config.read_us = 0;
    machine
        .tables
        .insert(TABLE, TableSettings { gc_grace_s: 1_000_000, ..TableSettings::default() });
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 7, b"old", 0);
    machine.write(&mut store, b"boiler", 2 * RANGES + 2, b"old", 0);
    machine.clock.advance(1);
    for number in 0..RANGES {
        delete_range(&mut machine, &mut store, 2 * number, 2 * number + 1);
    }
    for is_in_memory in [true, false] {
        for (reverse, from) in [(false, 0), (true, 0), (false, 2 * RANGES)] {
            let from = Bound::Included(u32::to_be_bytes(from).to_vec());
            let request = ReadRequest { from: from.clone(), reverse, ..partition(b"boiler") };
            let request = ReadRequest { now_s: START_US / 1_000_000, ..request };
            let (mut page, mut turns) = (Page::default(), 0);
            let budget = Arc::new(Budget::default());
            store.charge_reads_to(&budget);
            let mut time = TimeSlice::new(&*machine.clock, 0);
            let mut is_read = store.read(Tag(0), &request, &mut page, &mut time).unwrap();
            while !is_read {
                turns += 1;
                let held = budget.taken(Share::Answers);
                assert!(held < 20_000, "those that it has passed are forgotten: {held} bytes");
                let mut done = Vec::new();
                store.turn_end();
                store.poll(&mut done).unwrap();
                for done in done {
                    let Done::Read(_, found) = done else { panic!("{done:?}") };
                    (page, is_read) = (*found, true);
                }
            }
            let is_short = is_in_memory || from != Bound::Included(vec![0; 4]);
            assert_eq!(page.len(), if from == Bound::Included(vec![0; 4]) { 2 } else { 1 });
            assert_eq!(turns < 20, is_short, "{turns} turns");
            assert!(is_short || turns >= RANGES, "{turns} turns");
            assert_eq!(page.dead(), 0, "ranges are no rows");
        }
        flush_and_close(store);
        store = machine.open();
    }
}
