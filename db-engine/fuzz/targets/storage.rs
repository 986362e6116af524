//! What lies on disk, changed in any way: it is refused, or read without a wrong row.

use crate::simulated::{
    EXPIRING, KEPT, START_US, config, every_kind::EVERY_KIND_KEY, key, mutations as written, read,
    tables, value,
};
use sandglass_db::{
    error::Error,
    io::{Clock, ManualClock, SECTOR_BYTES, TimeSlice, sim::SimDisk},
    mutation::{
        Builder, Deletion, Item, MutationView, RangeDeletion, RowView, Token, Write, merge,
        token::token,
    },
    sstable::{Block, FOOTER_BYTES, Location, SstableId, Writer, read_footer, read_index},
    store::{Done, Page, ReadRequest, Store, Tag, open},
};
use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

/// Writes of the directory that is changed.
const WRITES: u32 = 24;

/// How many of them are in sstables.
const FLUSHED: u32 = 12;

/// Bytes from which an edit is made: where, in a file of less than 64 KiB, and what is put there.
const EDIT_BYTES: usize = 3;

/// The kind of change after which checksums are mended.
const MENDED: u8 = 3;

/// Most pages of what was mended.
const MENDED_PAGES_MAX: usize = 100;

/// Where the checksum of the index lies in the footer of an sstable.
const INDEX_CHECKSUM_AT: usize = 102;

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

/// Opens a directory in which one of the files that begin so was changed. Of half the edits the
/// checksums that they break are mended, so that what lies behind those is reached.
fn with_changed(prefix: &str, bytes: &[u8], mend: fn(&str, &[u8], &mut [u8])) {
    let [choice, kind, edits @ ..] = bytes else { return };
    let mut files = directory();
    let names: Vec<String> =
        files.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
    let name = &names[usize::from(*choice) % names.len()];
    let file = files.get_mut(name).expect("it is one of them");
    let kind = kind % 4;
    match kind {
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
            if kind == MENDED {
                mend(name, &directory()[name], file);
            }
        }
    }
    if let Ok(mut store) = try_open(&SimDisk::with(4, files)) {
        check(&mut store, kind == MENDED);
    }
}

/// Puts the checksum of these parts into the file.
fn put_checksum(file: &mut [u8], at: usize, parts: &[&[u8]]) {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    file[at..at + 4].copy_from_slice(&hasher.finalize().to_le_bytes());
}

/// The numbers in the name of a file: of an epoch, a shard, a segment.
fn numbers(name: &str) -> Vec<u32> {
    name.split('-').skip(1).map(|part| part.parse().expect("a number")).collect()
}

/// Mends a checkpoint as a whole, a journal record by record.
fn mend_manifest(name: &str, _: &[u8], file: &mut [u8]) {
    let [epoch, shard] = numbers(name)[..] else {
        let Some(end) = file.len().checked_sub(4) else { return };
        let body = file[..end].to_vec();
        return put_checksum(file, end, &[&body]);
    };
    let (epoch, shard) = (epoch.to_le_bytes(), u16::try_from(shard).unwrap().to_le_bytes());
    let mut at = 0;
    while let Some(length) = file.get(at..).and_then(<[u8]>::first_chunk) {
        let Some(end) = (at + 8).checked_add(u32::from_le_bytes(*length) as usize) else { return };
        let Some(body) = file.get(at + 8..end).map(<[u8]>::to_vec) else { return };
        put_checksum(file, at + 4, &[&epoch, &shard, &(at as u64).to_le_bytes(), &body]);
        at = end;
    }
}

/// Mends every sector that was changed.
fn mend_log(name: &str, before: &[u8], file: &mut [u8]) {
    let numbers = numbers(name);
    let (epoch, shard) = (numbers[0].to_le_bytes(), u16::try_from(numbers[1]).unwrap());
    for (at, old) in (0..).step_by(SECTOR_BYTES).zip(before.chunks(SECTOR_BYTES)) {
        let sector = file[at..at + SECTOR_BYTES].to_vec();
        if sector != old {
            put_checksum(file, at, &[&epoch, &shard.to_le_bytes(), &sector[4..]]);
        }
    }
}

/// Mends blocks, index and footer, which lie where they lay before.
fn mend_sstable(name: &str, before: &[u8], file: &mut [u8]) {
    let id = SstableId::from_file_name(name).expect("it is an sstable");
    let id_bytes =
        [&id.epoch.to_le_bytes()[..], &id.shard.to_le_bytes(), &id.sequence.to_le_bytes()];
    let id_bytes = id_bytes.concat();
    let footer_at = before.len() - FOOTER_BYTES;
    let footer = read_footer(id, before.len() as u64, &before[footer_at..]).expect("it is whole");
    let place = |location: Location| {
        let start = usize::try_from(location.offset).unwrap();
        (location.offset.to_le_bytes(), start, start + location.bytes as usize)
    };
    let (index_offset, index_at, index_end) = place(footer.index);
    let index = read_index(&footer, &before[index_at..index_end]).expect("it is whole");
    for number in 0..index.len() {
        let (offset, start, end) = place(index.location(number).expect("it has so many"));
        let block = file[start + 4..end].to_vec();
        put_checksum(file, start, &[&id_bytes, &offset, &block]);
    }
    let index = file[index_at..index_end].to_vec();
    put_checksum(file, footer_at + INDEX_CHECKSUM_AT, &[&id_bytes, &index_offset, &index]);
    let (footer, end) = (file[footer_at..before.len() - 4].to_vec(), before.len() - 4);
    put_checksum(file, end, &[&id_bytes, &(footer_at as u64).to_le_bytes(), &footer]);
}

/// Every row is one that was written, unless damage was made to look like writing.
fn check(store: &mut Store, is_mended: bool) {
    for table in [KEPT, EXPIRING] {
        let now_s = START_US / 1_000_000;
        let mut request = ReadRequest::scan(table, i64::MIN, i64::MAX, now_s);
        request.rows_max = 5;
        // Blocks that contradict the index, with checksums that do not, are nothing that a device
        // leaves: they need not be told from others, and may give pages without end.
        let mut pages = if is_mended { MENDED_PAGES_MAX } else { usize::MAX };
        while let Some(page) = try_read(store, &request).filter(|_| pages > 0) {
            pages -= 1;
            for row in page.rows() {
                let cell = RowView::parse(row.row).unwrap().cell(3, now_s);
                if is_mended || row.key == EVERY_KIND_KEY {
                    continue;
                }
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
    with_changed("manifest", bytes, mend_manifest);
}

/// A change of a segment of the log.
pub fn log(bytes: &[u8]) {
    with_changed("log", bytes, mend_log);
}

/// A change of an sstable.
pub fn sstable(bytes: &[u8]) {
    with_changed("sst", bytes, mend_sstable);
}

pub fn inputs() -> Vec<Vec<u8>> {
    let of = |kind: u8| move |choice| vec![choice, kind, 10, 0, 1, 200, 0, 255];
    (0..4).flat_map(|kind| (0..8).map(of(kind))).collect()
}

/// Any bytes as what a client's request became: those that are well formed are taken or refused
/// by a store, and can be read back.
pub fn mutations(bytes: &[u8]) {
    let mut views = sandglass_db::mutation::mutations(bytes);
    if !views.all(|view| view.is_ok_and(|view| view.check().is_ok())) {
        return;
    }
    merge_all(bytes);
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

/// Versions of a row are one row, which is well formed, in whatever order they are merged.
fn merge_all(bytes: &[u8]) {
    let items = sandglass_db::mutation::mutations(bytes).flatten().flat_map(|view| view.items());
    let rows = items.filter_map(|item| match item {
        Item::Row { row, .. } => Some(row.to_vec()),
        Item::PartitionDeletion(_) | Item::RangeDeletion(_) => None,
    });
    let rows: Vec<Vec<u8>> = rows.collect();
    let both = |a: &[u8], b: &[u8]| {
        let mut merged = Vec::new();
        merge(a, b, &mut merged);
        merged
    };
    let forwards = rows.iter().cloned().reduce(|a, b| both(&a, &b));
    let backwards = rows.iter().cloned().rev().reduce(|a, b| both(&a, &b));
    assert_eq!(forwards, backwards, "the order of merging matters");
    if let Some(row) = forwards {
        RowView::parse(&row).unwrap().check().expect("it is well formed");
        let twice = both(&row, &row);
        assert!(rows.len() == 1 || twice == row, "merging a row with itself changes it");
    }
}

pub fn mutation_inputs() -> Vec<Vec<u8>> {
    let plain = (0..6).map(|number| written(number, START_US));
    plain.chain([elements(1, 2), elements(2, 1), many_cells()]).collect()
}

/// Elements of a collection with a tombstone of it, all of this time, in several rows, one of them
/// static, and a deleted range.
fn elements(timestamp: i64, ttl_s: u32) -> Vec<u8> {
    let (key, mut bytes) = (key(1), Vec::new());
    let mut builder = Builder::new(&mut bytes, KEPT, token(&key), &key);
    let write = Write { timestamp, ttl_s, now_s: START_US / 1_000_000 };
    for ck in [&b""[..], b"a", b"a", b"c"] {
        let mut row = builder.row(ck, &write, timestamp == 1);
        row.cell(1, b"v").delete_elements(3, timestamp - 1).element(3, b"", b"first");
        row.element_tombstone(3, b"a").element(3, b"ab", b"").delete_elements(4, 1);
    }
    let forever = Write { timestamp: timestamp + 1, ttl_s: 0, ..write };
    builder.delete_range(b"a", b"b", &forever);
    builder.row(b"c", &forever, false).element(3, b"ab", b"forever").tombstone(5);
    builder.finish().unwrap();
    bytes
}

/// A row whose cells are counted by four bytes, as if there were very many.
fn many_cells() -> Vec<u8> {
    const FLAGS_AT: usize = 30;
    let (key, mut bytes) = (key(1), Vec::new());
    let mut builder = Builder::new(&mut bytes, KEPT, token(&key), &key);
    let write = Write { timestamp: 1, ttl_s: 0, now_s: 1 };
    builder.row(b"a", &write, true).element(3, b"a", b"v");
    builder.finish().unwrap();
    bytes[FLAGS_AT] |= 8;
    bytes.splice(FLAGS_AT + 11..FLAGS_AT + 11, [0, 0]);
    for length_at in [0, FLAGS_AT - 4] {
        bytes[length_at] += 2;
    }
    let view = MutationView::parse(&bytes).unwrap();
    view.check().expect("it is well formed");
    bytes
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
        if let Some(range) = row.range {
            assert!(!range.from.is_empty() && range.from < range.to, "a range has rows in it");
            let own = block.range_before(number + 1, row.token, row.key);
            assert_eq!(own, Some(range), "it is the last one before the row behind it");
        }
        let Some((ck, cells)) = row.row else { continue };
        let cells = RowView::parse(cells).expect("it was checked");
        assert_eq!(cells.timestamp_span().is_none(), cells.is_empty(), "all else has a time");
        assert!(cells.cell(3, 0).is_none_or(|cell| cell.value.len() <= rows.len()));
        let mut parts = 0;
        cells.each_time(|_, _| parts += 1);
        assert_eq!(parts == 0, cells.is_empty(), "of nothing there is no time");
        assert!(block.lower_bound(row.token, row.key, ck) <= block.len());
    }
}

pub fn block_inputs() -> Vec<Vec<u8>> {
    let directory = directory();
    let sstables = directory.iter().filter(|(name, _)| name.starts_with("sst-"));
    let rows = sstables.map(|(_, bytes)| bytes[12..bytes.len().min(900)].to_vec());
    rows.chain([ranges()]).collect()
}

/// The rows of a block with deleted ranges.
fn ranges() -> Vec<u8> {
    let id = SstableId { epoch: 1, shard: 0, sequence: 0 };
    let mut writer = Writer::new(id, KEPT, 0);
    writer.partition(Token(1), b"key", None);
    for (from, to, timestamp) in [(b"b", b"d", 1), (b"d", b"f", 2)] {
        let deletion = Deletion { timestamp, deleted_s: 3 };
        writer.range(RangeDeletion { from, to, deletion });
    }
    let (_, bytes) = writer.finish();
    let length = u32::from_le_bytes(*bytes[8..].first_chunk().expect("it has a block"));
    bytes[12..12 + length as usize].to_vec()
}
