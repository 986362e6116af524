//! Whatever is done to one file of a directory: it opens whole, or it is refused as it was.
//!
//! A small directory has lived through runs with one and two shards, flushes, deletions, changes of
//! the schema and a crash. Then every byte of its files is flipped, every file is removed, cut at
//! every byte, and put back to what it was earlier. Afterwards every row is there and right, or the
//! engine says which file it refuses and what to do, and has not touched the directory. Blocks of
//! sstables are judged when they are read: then the read is refused. Files of the log are not put
//! back here: a power cut at that earlier moment leaves the same bytes.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use sandglass_db::{
    directory::{CatalogFile, Replacement},
    error::Error,
    io::{
        Clock, Descriptors, Files, ManualClock, Random, TimeSlice,
        disk::{DiskFiles, Ring},
        sim::{Fault, SimDisk},
    },
    mutation::{Builder, RowView, Write, token},
    schema::{Catalog, Ddl, ddl::Property},
    store::{Done, OpenDirectory, Page, ReadRequest, Store, StoreConfig, Tag, open},
};
use simulated::{KEPT, START_US, key, tables, value};

type Contents = BTreeMap<String, Vec<u8>>;

/// What a refusal tells the operator to do.
const REMEDIES: &[&str] = &["Restore ", "restore ", "Move it ", "Make sure ", "Choose ", "Use "];

fn config(shards: u16) -> StoreConfig {
    StoreConfig { memtable_bytes_max: 12 << 10, ..simulated::config(shards) }
}

/// A directory, all that must be in it, and what it was at earlier moments.
struct Life {
    clock: Arc<ManualClock>,
    disk: SimDisk,
    rows: BTreeSet<u32>,
    catalog: Catalog,
    earlier: Vec<Contents>,
}

impl Life {
    fn new() -> Self {
        let mut life = Self {
            clock: Arc::new(ManualClock::at(START_US)),
            disk: SimDisk::new(7),
            rows: BTreeSet::new(),
            catalog: Catalog::default(),
            earlier: Vec::new(),
        };
        for (run, shards) in [(0, 1), (1, 2), (2, 2)] {
            let disk = &life.disk;
            let mut opened = open_on(|| disk.files(), &life.clock, shards).unwrap();
            for batch in 0..3 {
                let first = run * 100 + batch * 10;
                (first..first + 7).for_each(|number| life.put(&mut opened.stores, number, true));
                life.put(&mut opened.stores, first + 2, false);
                life.change_schema(&mut opened.catalog_file);
                life.earlier.push(life.disk.contents());
            }
            for store in opened.stores.iter_mut().take(usize::from(run == 0)) {
                store.begin_shutdown();
                while !store.is_idle() {
                    turn(store);
                }
            }
            life.earlier.push(life.disk.contents());
        }
        life
    }

    /// Writes a row, or deletes it, and waits until that is durable.
    fn put(&mut self, stores: &mut [Store], number: u32, is_there: bool) {
        self.clock.advance(1_000);
        let now_us = self.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let (key, mut bytes) = (key(number), Vec::new());
        let mut builder = Builder::new(&mut bytes, KEPT, token::token(&key), &key);
        if is_there {
            builder.row(b"", &write, true).cell(3, &value(number));
            self.rows.insert(number);
        } else {
            builder.delete_row(b"", &write);
            self.rows.remove(&number);
        }
        builder.finish().unwrap();
        let shards = u16::try_from(stores.len()).unwrap();
        let store = &mut stores[usize::from(token::shard_of(token::token(&key), shards))];
        while store.write(Tag(1), &bytes).is_err() {
            turn(store);
        }
        while !turn(store).iter().any(|done| matches!(done, Done::Write(_))) {}
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
    fn between_two_checkpoints(&self) -> Contents {
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

    /// Opens the directory. It must be whole, or be refused as it was; whether it opened.
    fn judge(&self, contents: &Contents, what: &str) -> bool {
        let disk = SimDisk::with(1, contents.clone());
        let opened = open_on(|| disk.files(), &self.clock, 2);
        self.judge_opened(opened, what, || assert!(disk.contents() == *contents, "{what}: changed"))
    }

    fn judge_opened(
        &self,
        opened: Result<OpenDirectory, Error>,
        what: &str,
        check_unchanged: impl FnOnce(),
    ) -> bool {
        match opened {
            Ok(mut opened) => {
                assert!(opened.catalog == self.catalog, "{what}: another schema");
                match found(&mut opened.stores) {
                    Ok(found) => assert_eq!(found, self.rows, "{what}"),
                    Err(error) => assert!(error.to_string().starts_with("sst-"), "{what}: {error}"),
                }
                true
            }
            Err(error) => {
                let said = error.to_string();
                let remedy = REMEDIES.iter().find(|remedy| said.contains(*remedy));
                assert!(remedy.is_some(), "{what}: no remedy: {said}");
                check_unchanged();
                false
            }
        }
    }
}

fn open_on(
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

/// The rows that are found, or why they cannot be read.
fn found(stores: &mut [Store]) -> Result<BTreeSet<u32>, Arc<Error>> {
    let mut rows = BTreeSet::new();
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
            let cells = RowView::parse(row.row).unwrap();
            assert_eq!(cells.cell(3, 0).unwrap().value, value(number));
            assert!(rows.insert(number), "a row is found once");
        }
    }
    Ok(rows)
}

/// The bytes of a file that are worth damaging: of zeros, one in so many.
fn places(bytes: &[u8], step: usize) -> impl Iterator<Item = usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (0..used).step_by(step).chain((used..bytes.len()).step_by(509))
}

fn is_log(name: &str) -> bool {
    name.starts_with("log-")
}

fn damage_everything(life: &Life, whole: &Contents, step: usize) {
    assert!(life.judge(whole, "nothing"), "it opens if nothing is done to it");
    let (mut opened, mut refused) = (0, 0);
    let mut count = |is_open| if is_open { opened += 1 } else { refused += 1 };
    for (name, bytes) in whole {
        let mut damaged = whole.clone();
        damaged.remove(name);
        count(life.judge(&damaged, &format!("{name} removed")));
        for at in places(bytes, step) {
            let mut random = Random(at as u64);
            let mut damaged = whole.clone();
            damaged.get_mut(name).unwrap()[at] ^= 1 << random.below(8);
            count(life.judge(&damaged, &format!("{name}: byte {at} flipped")));
            let mut damaged = whole.clone();
            damaged.get_mut(name).unwrap().truncate(at);
            count(life.judge(&damaged, &format!("{name}: cut at {at}")));
        }
        if is_log(name) {
            continue;
        }
        let earlier: BTreeSet<&Vec<u8>> =
            life.earlier.iter().filter_map(|earlier| earlier.get(name)).collect();
        for (number, earlier) in earlier.into_iter().enumerate().filter(|(_, old)| *old != bytes) {
            let damaged = Contents::from_iter([(name.clone(), earlier.clone())]);
            let damaged = whole.clone().into_iter().chain(damaged).collect();
            count(life.judge(&damaged, &format!("{name}: put back to {number}")));
        }
    }
    assert!(refused > 100 && opened > 10, "{refused} refused, {opened} opened");
}

#[test]
fn one_damaged_file_of_a_run_never_costs_or_revives_a_row() {
    let life = Life::new();
    let whole = life.disk.contents();
    let count = |prefix: &str| whole.keys().filter(|name| name.starts_with(prefix)).count();
    assert!(count("sst-") > 3 && count("log-") > 1, "{:?}", whole.keys());
    assert_eq!(count("manifest-"), 4, "a checkpoint and three journals");
    damage_everything(&life, &whole, 1);
}

#[test]
fn one_damaged_file_between_two_runs_never_costs_or_revives_a_row() {
    let life = Life::new();
    damage_everything(&life, &life.between_two_checkpoints(), 7);
}

#[test]
fn a_directory_that_was_just_made_is_not_taken_for_another() {
    let life = Life::new();
    for call in 0..60 {
        let disk = SimDisk::new(call);
        disk.set_fault(Fault::PowerCut(call));
        drop(open_on(|| disk.files(), &life.clock, 1));
        let disk = disk.crash(call);
        let opened = open_on(|| disk.files(), &life.clock, 1);
        assert!(opened.is_ok(), "power cut at call {call}: {:?}", opened.err());
    }
}

#[test]
fn a_refused_directory_of_a_real_disk_stays_as_it_was() {
    let life = Life::new();
    let whole = life.disk.contents();
    for (name, bytes) in &whole {
        for change in ["removed", "flipped", "cut"] {
            let folder = tempfile::tempdir().unwrap();
            let mut damaged = whole.clone();
            match change {
                "removed" => drop(damaged.remove(name)),
                "flipped" => {
                    let bytes = damaged.get_mut(name).unwrap();
                    bytes.iter_mut().take(20).for_each(|byte| *byte ^= 4);
                }
                _ => damaged.get_mut(name).unwrap().truncate(bytes.len() / 3),
            }
            for (name, bytes) in &damaged {
                fs::write(folder.path().join(name), bytes).unwrap();
            }
            let ring: Ring = Arc::new(|| ());
            let descriptors = Arc::new(Descriptors::new(100, Arc::default()));
            let disk = || DiskFiles::open(folder.path(), &descriptors, &ring).unwrap();
            let files = || Box::new(disk()) as Box<_>;
            let opened = open_on(files, &life.clock, 2);
            let what = format!("{name} {change}");
            let check = || assert!(contents_of(folder.path()) == damaged, "{what}: changed");
            life.judge_opened(opened, &what, check);
        }
    }
}

fn contents_of(folder: &Path) -> Contents {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (named(&path), fs::read(&path).unwrap())).collect()
}

/// A directory that an engine of the first version left when it was killed.
fn first_version() -> Contents {
    let mut contents = contents_of(Path::new("tests/first_version"));
    for (_, bytes) in contents.iter_mut().filter(|(name, _)| is_log(name)) {
        // Its segments are filled with zeros, which are not kept here.
        bytes.resize(16 << 20, 0);
    }
    contents
}

#[test]
fn a_directory_of_the_first_version_opens_whole() {
    let clock = Arc::new(ManualClock::at(START_US + 1_000_000));
    let disk = SimDisk::with(1, first_version());
    for _ in 0..2 {
        let mut opened = open_on(|| disk.files(), &clock, 2).unwrap();
        let rows = simulated::rows(&mut opened.stores, KEPT, clock.now_us() / 1_000_000);
        let written = (0..140).filter(|number| !simulated::expires(*number));
        let expected: BTreeSet<Vec<u8>> = written.map(|number| key(number).to_vec()).collect();
        let found = rows.into_keys().filter(|key| key != simulated::SHARED_KEY).collect();
        assert_eq!(expected, found);
    }
    assert_eq!(disk.contents()["FORMAT"][8], 2);
}

#[test]
fn a_directory_of_the_first_version_without_its_schema_or_manifest_is_refused_as_it_was() {
    let clock = Arc::new(ManualClock::at(START_US + 1_000_000));
    for name in ["catalog", "manifest-00000002", "sst-00000001-0000-00000000", "FORMAT", "LOCK"] {
        let mut contents = first_version();
        contents.remove(name).unwrap();
        let disk = SimDisk::with(1, contents.clone());
        let error = open_on(|| disk.files(), &clock, 2).err().expect(name).to_string();
        assert!(REMEDIES.iter().any(|remedy| error.contains(remedy)), "{error}");
        assert!(disk.contents() == contents, "{name}");
    }
}

/// Files of another kind are left alone, and those that look like ours but cannot be explained
/// make the directory one to be looked at.
#[test]
fn a_file_that_cannot_be_explained_is_kept_or_refused() {
    let life = Life::new();
    let with = |name: &str| {
        let mut contents = life.disk.contents();
        contents.insert(name.to_owned(), vec![7; 40]);
        contents
    };
    for name in ["notes.txt", "sst-1-2-3", "manifest-7.bak", "log-1-0", "catalog.old"] {
        let disk = SimDisk::with(1, with(name));
        assert!(open_on(|| disk.files(), &life.clock, 2).is_ok(), "{name}");
        assert_eq!(disk.contents()[name], [7; 40], "{name}");
    }
    let unexplained = ["sst-00000001-0000-00000099", "sst-00000009-0000-00000000", "log-9-0-0"];
    for name in unexplained {
        assert!(!life.judge(&with(name), name), "{name} is refused");
    }
}

#[test]
fn ids_of_sstables_do_not_repeat_after_an_opening_that_did_not_end() {
    let life = Life::new();
    let is_new = |name: &String| name.starts_with("sst-") && name.contains("-65535-");
    let old: BTreeSet<String> = life.disk.contents().into_keys().collect();
    let mut openings = 0;
    for call in 0.. {
        let disk = SimDisk::with(call, life.disk.contents());
        disk.set_fault(Fault::PowerCut(call));
        drop(open_on(|| disk.files(), &life.clock, 2));
        if !disk.is_off() {
            break;
        }
        let names = disk.contents().into_keys().filter(|name| is_new(name));
        let first: BTreeSet<String> = names.filter(|name| !old.contains(name)).collect();
        let is_uncommitted = disk
            .contents()
            .keys()
            .filter(|name| name.starts_with("manifest-"))
            .all(|name| name.len() != 17 || old.contains(name));
        if first.is_empty() || !is_uncommitted {
            continue;
        }
        openings += 1;
        let disk = disk.crash(call);
        let _stores = open_on(|| disk.files(), &life.clock, 2).unwrap();
        let again = disk.contents().into_keys().find(|name| first.contains(name));
        assert_eq!(again, None, "power cut at call {call}");
    }
    assert!(openings > 3, "{openings} openings");
}
