//! What lies on disk, changed in any way: it is refused, or read without a wrong row.

use crate::simulated::{
    EXPIRING, KEPT, START_US, config, key, mutations as written, read, tables, value,
};
use sandglass_db::{
    error::Error,
    io::{Clock, ManualClock, TimeSlice, sim::SimDisk},
    mutation::RowView,
    sstable::{Block, SstableId},
    store::{Done, Page, ReadRequest, Store, Tag, open},
};
use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

/// Writes of the directory that is changed.
const WRITES: u32 = 24;

/// How many of them are in sstables.
const FLUSHED: u32 = 12;

/// Bytes from which an edit is made: where, in a file of less than 64 KiB, and what is put there.
const EDIT_BYTES: usize = 3;

type Directory = BTreeMap<String, Vec<u8>>;

thread_local! {
    static DIRECTORY: OnceCell<Directory> = const { OnceCell::new() };
}

fn try_open(disk: &SimDisk) -> Result<Store, Error> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(START_US));
    let mut config = config(1);
    config.log_segment_bytes = 16 << 10;
    let opened = open(&config, vec![disk.files()], disk.files(), &clock, |_| tables(0))?;
    Ok(opened.stores.into_iter().next().expect("one"))
}

fn turn(store: &mut Store) -> Vec<Done> {
    let mut done = Vec::new();
    store.turn_end();
    store.poll(&mut done).expect("the disk works");
    done
}

/// A small directory: some writes in sstables, some in the log.
fn directory() -> Directory {
    DIRECTORY.with(|place| place.get_or_init(make).clone())
}

fn make() -> Directory {
    let disk = SimDisk::new(3);
    let mut store = try_open(&disk).expect("an empty directory opens");
    for number in 0..WRITES {
        if number == FLUSHED {
            store.begin_shutdown();
            while !store.is_idle() {
                turn(&mut store);
            }
            drop(store);
            store = try_open(&disk).expect("it opens again");
        }
        store.write(Tag(0), &written(number, START_US)).expect("there is room");
        while !turn(&mut store).iter().any(|done| matches!(done, Done::Write(_))) {}
    }
    disk.contents()
}

/// Opens a directory in which one of the files that begin so was changed.
fn with_changed(prefix: &str, bytes: &[u8]) {
    let [choice, kind, edits @ ..] = bytes else { return };
    let mut files = directory();
    let names: Vec<String> =
        files.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
    let name = &names[usize::from(*choice) % names.len()];
    let file = files.get_mut(name).expect("it is one of them");
    match kind % 4 {
        0 => drop(files.remove(name)),
        1 => {
            let length = edits.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
            file.truncate(usize::from(length) % (file.len() + 1));
        }
        _ if file.is_empty() => return,
        _ => {
            for edit in edits.chunks_exact(EDIT_BYTES) {
                let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % file.len();
                file[at] ^= edit[2];
            }
        }
    }
    if let Ok(mut store) = try_open(&SimDisk::with(4, files)) {
        check(&mut store);
    }
}

/// Every row is one that was written.
fn check(store: &mut Store) {
    for table in [KEPT, EXPIRING] {
        let now_s = START_US / 1_000_000;
        let mut request = ReadRequest::scan(table, i64::MIN, i64::MAX, now_s);
        request.rows_max = 5;
        while let Some(page) = try_read(store, &request) {
            for row in page.rows() {
                let cell = RowView::parse(row.row).unwrap().cell(3, now_s);
                let cell = cell.expect("no row is written by half");
                let number = u32::from_be_bytes(*cell.value.first_chunk().unwrap());
                assert!(number < WRITES && cell.value == value(number), "a wrong value");
                let own = row.key == key(number) || row.key == crate::simulated::SHARED_KEY;
                assert!(own, "a wrong key");
            }
            match page.position() {
                Some(position) => request.after = Some(position.clone()),
                None => break,
            }
        }
    }
}

fn try_read(store: &mut Store, request: &ReadRequest) -> Option<Page> {
    let mut page = Page::default();
    if store.read(Tag(1), request, &mut page, &mut TimeSlice::endless()).ok()? {
        return Some(page);
    }
    loop {
        for done in turn(store) {
            match done {
                Done::Read(_, page) => return Some(*page),
                Done::ReadFailed(..) => return None,
                _ => {}
            }
        }
    }
}

/// A change of a checkpoint or a journal.
pub fn journal(bytes: &[u8]) {
    with_changed("manifest", bytes);
}

/// A change of a segment of the log.
pub fn log(bytes: &[u8]) {
    with_changed("log", bytes);
}

/// A change of an sstable.
pub fn sstable(bytes: &[u8]) {
    with_changed("sst", bytes);
}

pub fn inputs() -> Vec<Vec<u8>> {
    (0..8).map(|choice| vec![choice, choice / 2, 10, 0, 1, 200, 0, 255]).collect()
}

/// Any bytes as what a client's request became: those that are well formed are taken or refused
/// by a store, and can be read back.
pub fn mutations(bytes: &[u8]) {
    let mut views = sandglass_db::mutation::mutations(bytes);
    if !views.all(|view| view.is_ok_and(|view| view.check().is_ok())) {
        return;
    }
    let disk = SimDisk::new(5);
    let mut store = try_open(&disk).expect("an empty directory opens");
    let taken = store.write(Tag(0), bytes).is_ok();
    for _ in 0..200 {
        turn(&mut store);
    }
    // What has expired may be gone when it is read back.
    let scan = ReadRequest::scan(KEPT, i64::MIN, i64::MAX, START_US / 1_000_000);
    let before = read(&mut store, &scan).rows().count();
    assert!(taken || before == 0, "what is refused is not there");
    drop(store);
    let mut store = try_open(&disk).expect("what was taken can be read back");
    assert_eq!(read(&mut store, &scan).rows().count(), before, "a row is lost or new");
}

pub fn mutation_inputs() -> Vec<Vec<u8>> {
    (0..6).map(|number| written(number, START_US)).collect()
}

/// Any bytes as the rows of a block, with the checksum that they ought to have.
pub fn block(rows: &[u8]) {
    let id = SstableId { epoch: 1, shard: 0, sequence: 0 };
    let length = u32::try_from(rows.len()).unwrap().to_le_bytes();
    let body = [&length[..], &length, rows].concat();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    hasher.update(&0_u64.to_le_bytes());
    hasher.update(&body);
    let stored = [&hasher.finalize().to_le_bytes()[..], &body].concat();
    let Ok(block) = Block::decode(id, 0, &stored) else { return };
    for number in 0..block.len() {
        let row = block.row(number).expect("it has so many");
        let Some((ck, cells)) = row.row else { continue };
        let cells = RowView::parse(cells).expect("it was checked");
        assert!(cells.timestamps().count() <= cells.cells().count() + 2);
        assert!(cells.cell(3, 0).is_none_or(|cell| cell.value.len() <= rows.len()));
        assert!(cells.expires_s().is_some() || !cells.is_empty(), "nothing is not there for ever");
        assert!(block.lower_bound(row.token, row.key, ck) <= block.len());
    }
}

pub fn block_inputs() -> Vec<Vec<u8>> {
    let directory = directory();
    let sstables = directory.iter().filter(|(name, _)| name.starts_with("sst-"));
    sstables.map(|(_, bytes)| bytes[12..bytes.len().min(900)].to_vec()).collect()
}
