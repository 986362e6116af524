//! A directory that lives through runs of the engine, and remembers all that it ever was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sandglass_db::{
    directory::{CatalogFile, Replacement},
    error::Error,
    io::{
        Clock, Files, ManualClock, TimeSlice,
        sim::{Fault, SimDisk},
    },
    mutation::{Builder, RowView, Token, Write, token, token::shard_of},
    schema::{Catalog, Ddl, ddl::Property},
    store::{Done, OpenDirectory, Page, ReadRequest, Store, StoreConfig, Tag, open},
};

use super::{KEPT, START_US, key, tables, value};

/// Columns of what is written.
const STATIC: u16 = 3;
const ELEMENTS: u16 = 5;
const COUNTER: u16 = 7;
const FIELDS: u16 = 8;

pub type Contents = BTreeMap<String, Vec<u8>>;

/// What a refusal tells the operator to do.
pub const REMEDIES: &[&str] =
    &["Restore ", "restore ", "Move it ", "Make sure ", "Choose ", "Use "];

fn config(shards: u16) -> StoreConfig {
    StoreConfig { memtable_bytes_max: 12 << 10, ..super::config(shards) }
}

/// What a file was for a while.
pub struct Version {
    pub bytes: Vec<u8>,
    /// The moment at which it was first so.
    pub since: usize,
    /// How many writes had been sent then. All but the last were acknowledged.
    pub writes: usize,
}

/// A write.
struct Sent {
    rows: Vec<u32>,
    is_there: bool,
    /// In whose log it is.
    shard: u16,
}

/// A directory, and all that must be in it.
pub struct Life {
    pub clock: Arc<ManualClock>,
    pub disk: SimDisk,
    pub catalog: Catalog,
    runs: u32,
    /// Whether the last one was stopped in order.
    pub is_stopped: bool,
    writes: Vec<Sent>,
    /// Moments are turns of a store and changes of the schema.
    moments: usize,
    /// All that each file ever was.
    pub versions: BTreeMap<String, Vec<Version>>,
}

impl Life {
    pub fn new() -> Self {
        Self {
            clock: Arc::new(ManualClock::at(START_US)),
            disk: SimDisk::new(7),
            catalog: Catalog::default(),
            runs: 0,
            is_stopped: false,
            writes: Vec::new(),
            moments: 0,
            versions: BTreeMap::new(),
        }
    }

    /// One run of the engine. As often as there are batches it writes so many rows, deletes one of
    /// them and changes the schema; then it writes rows of all shards at once. Then it stops in
    /// order, or is killed.
    pub fn run(&mut self, shards: u16, batches: u32, rows: u32, is_stopped: bool) {
        let (disk, run) = (self.disk.clone(), self.runs);
        self.runs += 1;
        self.is_stopped = is_stopped;
        let mut opened = open_on(|| disk.files(), &self.clock, shards).unwrap();
        self.note();
        for batch in 0..batches {
            let first = run * 1_000 + batch * 100;
            (first..first + rows).for_each(|number| self.put(&mut opened.stores, number, true));
            self.put(&mut opened.stores, first + 2, false);
            self.change_schema(&mut opened.catalog_file);
        }
        let first = run * 1_000 + 900;
        self.put_intent(&mut opened.stores, (first..first + 3).collect());
        for store in opened.stores.iter_mut().filter(|_| is_stopped) {
            store.begin_shutdown();
            while !store.is_idle() {
                self.turn(store);
            }
        }
        // What was begun is still carried out.
        drop(opened);
        self.note();
    }

    fn turn(&mut self, store: &mut Store) -> Vec<Done> {
        let done = turn(store);
        self.note();
        done
    }

    /// Takes note of what the files are now.
    fn note(&mut self) {
        self.moments += 1;
        for (name, bytes) in self.disk.contents() {
            let versions = self.versions.entry(name).or_default();
            if versions.last().is_none_or(|last| last.bytes != bytes) {
                let (since, writes) = (self.moments, self.writes.len());
                versions.push(Version { bytes, since, writes });
            }
        }
    }

    pub fn all_rows(&self) -> BTreeSet<u32> {
        self.rows_without(|_, _| false)
    }

    /// The rows that are there without certain writes, by their place and the shard of their log.
    pub fn rows_without(&self, is_missing: impl Fn(usize, u16) -> bool) -> BTreeSet<u32> {
        let mut rows = BTreeSet::new();
        for (place, sent) in self.writes.iter().enumerate() {
            if is_missing(place, sent.shard) {
                continue;
            }
            if sent.is_there {
                rows.extend(&sent.rows);
            } else {
                rows.retain(|row| !sent.rows.contains(row));
            }
        }
        rows
    }

    /// Writes a row, or deletes it, and waits until that is durable.
    fn put(&mut self, stores: &mut [Store], number: u32, is_there: bool) {
        let bytes = self.mutation(number, is_there);
        let shard = shard_of(token(number), u16::try_from(stores.len()).unwrap());
        self.writes.push(Sent { rows: vec![number], is_there, shard });
        let store = &mut stores[usize::from(shard)];
        while store.take_write(Tag(1), &mut bytes.clone()).is_err() {
            self.turn(store);
        }
        while !self.turn(store).iter().any(|done| matches!(done, Done::Write(_))) {}
    }

    /// Writes rows of all shards at once, of which each has its part only after the next start.
    fn put_intent(&mut self, stores: &mut [Store], rows: Vec<u32>) {
        let bytes: Vec<u8> = rows.iter().flat_map(|row| self.mutation(*row, true)).collect();
        self.writes.push(Sent { rows, is_there: true, shard: 0 });
        while stores[0].write_intent(Tag(2), &bytes).is_err() {
            self.turn(&mut stores[0]);
        }
        while !self.turn(&mut stores[0]).iter().any(|done| matches!(done, Done::Intent(_))) {}
    }

    fn mutation(&self, number: u32, is_there: bool) -> Vec<u8> {
        self.clock.advance(1_000);
        let now_us = self.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let (key, mut bytes) = (key(number), Vec::new());
        let mut builder = Builder::new(&mut bytes, KEPT, token(number), &key);
        if is_there {
            put_every_kind(&mut builder, number, &write);
        } else {
            delete_in_some_way(&mut builder, number, &write);
        }
        builder.finish().unwrap();
        bytes
    }

    fn change_schema(&mut self, file: &mut CatalogFile) {
        let name = format!("k{}", self.catalog.keyspaces.len());
        let class = ("class".to_owned(), "SimpleStrategy".to_owned());
        let copies = ("replication_factor".to_owned(), "1".to_owned());
        let replication = Property::Map(BTreeMap::from([class, copies]));
        let properties = vec![("replication".to_owned(), replication)];
        let ddl = Ddl::CreateKeyspace { name, if_not_exists: false, properties };
        let changed = self.catalog.apply(&ddl, uuid::Uuid::nil(), 0).unwrap();
        self.catalog = changed.catalog.unwrap();
        let mut replacement = Replacement::begin(file, &self.catalog);
        for _ in 0..10_000 {
            let mut completions = Vec::new();
            file.poll(&mut completions);
            self.note();
            for completion in completions {
                if replacement.proceed(file, completion).unwrap() {
                    return;
                }
            }
        }
        panic!("the schema is not stored");
    }

    /// The directory as a crash leaves it when the checkpoint of a new run is durable and the last
    /// run's is still there.
    pub fn between_two_checkpoints(&self) -> Contents {
        let is_checkpoint = |name: &&String| name.starts_with("manifest-") && name.len() == 17;
        for call in 0.. {
            let disk = SimDisk::with(1, self.disk.contents());
            disk.set_fault(Fault::PowerCut(call));
            let opened = open_on(|| disk.files(), &self.clock, 2);
            assert!(opened.is_err(), "there is such a moment");
            let contents = disk.contents();
            if contents.keys().filter(is_checkpoint).count() == 2 {
                return contents;
            }
        }
        unreachable!("calls are counted")
    }

    /// Opens the directory. It must have the rows of one of these sets, or be refused as it was.
    /// Which one; `None` if it was refused.
    pub fn judge(
        &self,
        contents: &Contents,
        may_be: &[BTreeSet<u32>],
        what: &str,
    ) -> Option<usize> {
        let disk = SimDisk::with(1, contents.clone());
        let opened = open_on(|| disk.files(), &self.clock, 2);
        let unchanged = || assert!(disk.contents() == *contents, "{what}: changed");
        self.judge_opened(opened, may_be, what, unchanged)
    }

    pub fn judge_opened(
        &self,
        opened: Result<OpenDirectory, Error>,
        may_be: &[BTreeSet<u32>],
        what: &str,
        check_unchanged: impl FnOnce(),
    ) -> Option<usize> {
        match opened {
            Ok(mut opened) => {
                assert!(opened.catalog == self.catalog, "{what}: another schema");
                match found(&mut opened.stores) {
                    Ok(found) => {
                        let which = may_be.iter().position(|rows| *rows == found);
                        let whole = &may_be[0];
                        let (lost, back) = (whole - &found, &found - whole);
                        assert!(which.is_some(), "{what}: without {lost:?}, with {back:?}");
                        which
                    }
                    Err(error) => {
                        assert!(error.to_string().starts_with("sst-"), "{what}: {error}");
                        Some(0)
                    }
                }
            }
            Err(error) => {
                let said = error.to_string();
                let remedy = REMEDIES.iter().find(|remedy| said.contains(*remedy));
                assert!(remedy.is_some(), "{what}: no remedy: {said}");
                check_unchanged();
                None
            }
        }
    }
}

/// Of the partition of a row.
pub fn token(number: u32) -> Token {
    token::token(&key(number))
}

pub fn open_on(
    files: impl Fn() -> Box<dyn Files>,
    clock: &Arc<ManualClock>,
    shards: u16,
) -> Result<OpenDirectory, Error> {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    let of_shards = (0..shards).map(|_| files()).collect();
    open(&config(shards), of_shards, files(), &clock, |_| tables(1_000_000))
}

fn turn(store: &mut Store) -> Vec<Done> {
    let mut done = Vec::new();
    store.turn_end();
    store.poll(&mut done).unwrap();
    done
}

/// The cells of a partition: the clustering key, the column, the element, and the value.
type PartitionCells = BTreeSet<(Vec<u8>, u16, Option<Vec<u8>>, Vec<u8>)>;

/// A static row, elements, a counter and fields of a user-defined type, one of which is null, and
/// rows of which a deleted range hides one.
fn put_every_kind(builder: &mut Builder<'_>, number: u32, write: &Write) {
    let value = value(number);
    let mut row = builder.row(b"", write, false);
    row.cell(STATIC, &value[..100]).element(ELEMENTS, &[1], &value[..20]);
    drop(row);
    let counter = u64::from(number).to_be_bytes();
    let mut row = builder.row(b"a", write, true);
    row.cell(COUNTER, &counter).delete_elements(FIELDS, write.timestamp - 1);
    row.element(FIELDS, &[0, 0], &value[..20]).element_tombstone(FIELDS, &[0, 1]);
    drop(row);
    let before = Write { timestamp: write.timestamp - 1, ..*write };
    builder.row(b"b", &before, true).cell(STATIC, b"hidden");
    builder.delete_range(b"b", b"c", &before);
    builder.row(b"c", write, true).cell(STATIC, &value[..40]);
}

fn delete_in_some_way(builder: &mut Builder<'_>, number: u32, write: &Write) {
    match number % 3 {
        0 => drop(builder.delete_partition(write)),
        1 => {
            for ck in [&b""[..], b"a", b"c"] {
                builder.delete_row(ck, write);
            }
        }
        _ => {
            let mut row = builder.row(b"", write, false);
            row.tombstone(STATIC).delete_elements(ELEMENTS, write.timestamp);
            drop(row);
            builder.delete_range(b"a", b"d", write);
        }
    }
}

/// What a partition has that is there.
fn cells_of(number: u32) -> PartitionCells {
    let (value, counter) = (value(number), u64::from(number).to_be_bytes());
    let cell = |ck: &[u8], column, path: Option<&[u8]>, value: &[u8]| {
        (ck.to_vec(), column, path.map(<[u8]>::to_vec), value.to_vec())
    };
    BTreeSet::from([
        cell(b"", STATIC, None, &value[..100]),
        cell(b"", ELEMENTS, Some(&[1]), &value[..20]),
        cell(b"a", COUNTER, None, &counter),
        cell(b"a", FIELDS, Some(&[0, 0]), &value[..20]),
        cell(b"c", STATIC, None, &value[..40]),
    ])
}

/// The partitions that are found, each whole, or why they cannot be read.
fn found(stores: &mut [Store]) -> Result<BTreeSet<u32>, Arc<Error>> {
    let mut found: BTreeMap<u32, PartitionCells> = BTreeMap::new();
    for store in stores {
        let mut page = Page::default();
        let request = ReadRequest::scan(KEPT, i64::MIN, i64::MAX, 0);
        let mut is_read =
            store.read(Tag(0), &request, &mut page, &mut TimeSlice::endless()).unwrap();
        while !is_read {
            for done in turn(store) {
                match done {
                    Done::Read(_, read) => (page, is_read) = (*read, true),
                    Done::ReadFailed(_, error) => return Err(error),
                    _ => {}
                }
            }
        }
        assert_eq!(page.position(), None, "one page has all");
        for row in page.rows() {
            let number = u32::from_be_bytes(row.key.try_into().unwrap());
            let cells = found.entry(number).or_default();
            for cell in RowView::parse(row.row).unwrap().cells() {
                let Some(view) = cell.view(0) else { continue };
                let path = cell.path.map(<[u8]>::to_vec);
                let is_new =
                    cells.insert((row.ck.to_vec(), cell.column, path, view.value.to_vec()));
                assert!(is_new, "a row is found once");
            }
        }
    }
    for (number, cells) in &found {
        assert_eq!(*cells, cells_of(*number), "partition {number} is as it was written");
    }
    Ok(found.into_keys().collect())
}
