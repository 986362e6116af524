//! Deleted ranges and static rows: whatever is flushed, split into blocks and read page by page, a
//! read gives what a naive model of the partition does.

use super::*;
use crate::{
    io::{Buffer, Random},
    memtable::Pool,
    mutation::{MutationView, RowView, Token},
    store::{
        JudgedPlace, Judgement, PageRow, Partitions, Position, RowFilter,
        background::{Encoder, FileNumbers},
        table::TableData,
    },
};

/// A clustering key or a bound.
type Key = Vec<u8>;

/// When a row or a static one was written, which its cell says.
fn written_at(row: &[u8]) -> i64 {
    let cell = RowView::parse(row).unwrap().cell(1, 0).unwrap();
    i64::from_be_bytes(*cell.value.first_chunk().unwrap())
}

/// Whether a row counts for [`EveryThird`]: it depends on the static row, if there is one.
fn is_third(written: i64, static_row: Option<i64>) -> bool {
    (written + static_row.unwrap_or_default()) % 3 == 0
}

#[derive(Debug)]
struct EveryThird;

impl RowFilter for EveryThird {
    fn judge(
        &self,
        row: PageRow<'_>,
        static_row: Option<PageRow<'_>>,
        place: &mut JudgedPlace,
        _: &mut Vec<u8>,
        _: &mut TimeSlice<'_>,
    ) -> Judgement {
        let written = written_at(row.row);
        // Some rows take it more than one turn.
        if place.met < usize::try_from(written % 4).unwrap() {
            place.met += 1;
            return Judgement::TimeIsOver;
        }
        Judgement::Counts(is_third(written, static_row.map(|row| written_at(row.row))))
    }
}

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
        let filters = self.random.below(2) == 0;
        let filter = filters.then(|| Arc::new(EveryThird) as Arc<dyn RowFilter>);
        let common =
            ReadRequest { rows_max, filter, bytes_max, static_rows, goes_on, ..everything() };
        if self.random.below(2) == 0 {
            let partition_rows_max = [1, 2, 5, usize::MAX][self.index(4)];
            return ReadRequest { partition_rows_max, ..common };
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
        rows.retain(|(token, key, _, written)| {
            let of_static = self.static_row(request, *token, key);
            request.filter.is_none() || is_third(*written, of_static)
        });
        let partitions = rows.chunk_by(|a, b| a.1 == b.1);
        let first = |rows: &[(Token, Key, Key, i64)]| {
            let goes_on = request.after.as_ref().is_some_and(|after| after.key == rows[0].1);
            let left = request.partition_rows_left;
            let most = if goes_on { left } else { request.partition_rows_max };
            rows[..rows.len().min(most)].to_vec()
        };
        partitions.flat_map(first).collect()
    }

    /// What is asked for behind a page that ended here.
    fn next_page(request: &mut ReadRequest, position: &Position, rows: &[(Token, Key, Key, i64)]) {
        let goes_on = request.after.as_ref().is_some_and(|after| after.key == position.key);
        let left = request.partition_rows_left;
        let most = if goes_on { left } else { request.partition_rows_max };
        let given = rows.iter().filter(|row| row.1 == position.key).count();
        if most != usize::MAX {
            request.partition_rows_left = most - given;
            let is_left = position.ck == [0xFF];
            assert!(is_left || most > given, "it is not behind the partition: {position:?}");
        }
        request.after = Some(position.clone());
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
                .map(|row| (row.token, row.key.to_vec(), row.ck.to_vec(), written_at(row.row)))
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
            let Some(position) = page.position() else { break };
            let is_static = position.ck.is_empty() && request.static_rows;
            assert!(!is_static, "{what}: cut behind a static row");
            Self::next_page(&mut request, position, &rows);
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
        let (steps, is_same) = flush_by_steps(&run.machine, &tables);
        assert!(is_same && steps > 20, "seed {seed}: {steps} steps");
    }
}

/// Has memtables flushed by one unit of work each step. Gives how many steps that takes, and
/// whether what is written is the same as at once.
pub(super) fn flush_by_steps(
    machine: &Machine,
    tables: &BTreeMap<TableNumber, TableData>,
) -> (u32, bool) {
    let written = |time: fn(&ManualClock) -> TimeSlice<'_>| {
        let files = FileNumbers::default();
        let mut encoder = Encoder::new((1, 0), files, tables, (&machine.config, 0), Vec::new());
        for steps in 0.. {
            if let Some(encoded) = encoder.step(&mut time(&machine.clock)).unwrap() {
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
    assert_eq!(at_once, 0);
    (steps, cut == whole)
}
