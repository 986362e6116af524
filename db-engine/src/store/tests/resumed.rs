//! What is kept of a read for its next page: it saves looking for sstables and reading blocks, is
//! bounded in bytes and time, and never stands for what does not count any more.

use super::*;
use crate::store::{JudgedPlace, Judgement, PageRow, ReadCost, RowFilter};

/// A store with this many sstables, of which each has rows 7 and `100 + number`.
fn with_sstables(machine: &mut Machine, count: u32) -> Store {
    for number in 0..count {
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        machine.write(&mut store, b"boiler", 7, b"value", 0);
        machine.write(&mut store, b"boiler", 100 + number, b"own", 0);
        flush_and_close(store);
    }
    machine.open()
}

/// The first page of a read, of one row; and the request of its next page.
fn first_page(machine: &Machine, store: &mut Store, request: &ReadRequest) -> ReadRequest {
    let request = ReadRequest { rows_max: 1, goes_on: true, ..request.clone() };
    let page = machine.read(store, &request);
    ReadRequest { after: Some(page.position().unwrap().clone()), ..request }
}

/// Whether the next page goes on with what was kept.
fn is_resumed(machine: &Machine, store: &mut Store, next: &ReadRequest) -> bool {
    let before = store.metrics().clone();
    machine.read(store, next);
    let resumed = store.metrics().reads_resumed - before.reads_resumed;
    let others = store.metrics().reads_not_resumed - before.reads_not_resumed;
    assert_eq!(resumed + others, 1, "it is counted");
    resumed == 1
}

fn turns(store: &mut Store, count: u32) {
    for _ in 0..count {
        store.turn_end();
        store.poll(&mut Vec::new()).unwrap();
    }
}

#[test]
fn the_next_page_goes_on_with_the_blocks_at_hand() {
    let mut machine = Machine::new();
    machine.config.cache_bytes_max = 4 << 20;
    with_sstables(&mut machine, 40);
    let reversed = ReadRequest { reverse: true, ..partition(b"boiler") };
    for request in [partition(b"boiler"), reversed, everything()] {
        for goes_on in [true, false] {
            let mut store = machine.open();
            let mut request =
                ReadRequest { goes_on, rows_max: 5, bypass_cache: true, ..request.clone() };
            let before = machine.disk.read_rounds();
            let (mut rows, mut pages) = (0, 0);
            loop {
                let page = machine.read(&mut store, &request);
                (rows, pages) = (rows + page.len(), pages + 1);
                let Some(position) = page.position() else { break };
                request.after = Some(position.clone());
                turns(&mut store, 1);
                assert_eq!(store.metrics().suspended_bytes > 0, goes_on);
            }
            assert_eq!((rows, pages), (41, 9));
            let rounds = machine.disk.read_rounds() - before;
            let metrics = store.metrics();
            let counted = (metrics.reads_resumed, metrics.reads_not_resumed);
            // Backwards each sstable begins before the next one, and with each wait come more.
            let expected = match (goes_on, request.reverse) {
                (true, reverse) => (if reverse { 7 } else { 1 }, (8, 0)),
                (false, reverse) => (if reverse { 25 } else { 9 }, (0, 8)),
            };
            assert_eq!((rounds, counted), expected);
            turns(&mut store, 1);
            assert_eq!(store.metrics().suspended_bytes, 0, "the last page leaves nothing");
        }
    }
}

/// Any client with the same statement goes on there, and no other statement does.
#[test]
fn what_is_kept_answers_its_own_statement_alone() {
    let mut machine = Machine::new();
    let mut store = with_sstables(&mut machine, 3);
    let next = first_page(&machine, &mut store, &partition(b"boiler"));
    let others = [
        ReadRequest { reverse: true, ..next.clone() },
        ReadRequest { to: Bound::Excluded(vec![0xFF]), ..next.clone() },
        ReadRequest { columns: Some(Arc::from([1])), ..next.clone() },
        ReadRequest { static_rows: true, ..next.clone() },
        ReadRequest { bypass_cache: true, ..next.clone() },
        ReadRequest { goes_on: false, after: None, ..everything() },
    ];
    for other in others {
        let before = store.metrics().reads_resumed;
        machine.read(&mut store, &ReadRequest { goes_on: false, ..other });
        assert_eq!(store.metrics().reads_resumed, before);
    }
    assert!(is_resumed(&machine, &mut store, &ReadRequest { rows_max: 3, ..next.clone() }));
    // It is taken by the one that goes on.
    assert!(!is_resumed(&machine, &mut store, &ReadRequest { goes_on: false, ..next }));

    // Which rows count is asked anew.
    let few = ReadRequest { partition_rows_max: 2, ..everything() };
    for (left, rows) in [(1, 1), (3, 3)] {
        let next = first_page(&machine, &mut store, &few);
        let next = ReadRequest { partition_rows_left: left, rows_max: 9, ..next };
        let resumed = store.metrics().reads_resumed;
        assert_eq!(machine.read(&mut store, &next).len(), rows);
        assert_eq!(store.metrics().reads_resumed, resumed + 1);
    }
}

#[test]
fn what_is_kept_is_bounded_in_bytes_and_time() {
    let mut machine = Machine::new();
    machine.config.cache_bytes_max = 4 << 20;
    let mut store = with_sstables(&mut machine, 3);
    let next = first_page(&machine, &mut store, &partition(b"boiler"));
    turns(&mut store, 1);
    let bytes = usize::try_from(store.metrics().suspended_bytes).unwrap();
    machine.clock.advance(9_999_999);
    turns(&mut store, 1);
    assert!(is_resumed(&machine, &mut store, &next));
    machine.clock.advance(10_000_000);
    turns(&mut store, 1);
    assert_eq!(store.metrics().suspended_bytes, 0, "its time is over");
    let next = first_page(&machine, &mut store, &partition(b"boiler"));
    machine.clock.advance(10_000_000);
    assert!(!is_resumed(&machine, &mut store, &next), "over before the next turn");

    // There is room for one, after what indexes take: the one before makes room.
    let index_bytes = usize::try_from(store.metrics().index_bytes).unwrap();
    drop(store);
    for (room, is_kept) in [(bytes * 3 / 2, true), (bytes / 2, false)] {
        machine.config.cache_bytes_max = index_bytes + room * 8;
        let mut store = machine.open();
        turns(&mut store, 1);
        let first = first_page(&machine, &mut store, &partition(b"boiler"));
        let second = first_page(&machine, &mut store, &everything());
        turns(&mut store, 1);
        let metrics = store.metrics();
        assert!(metrics.suspended_bytes <= room as u64);
        let all = metrics.suspended_bytes + metrics.cache_bytes + metrics.index_bytes;
        assert!(all <= machine.config.cache_bytes_max as u64, "one budget");
        assert!(!is_resumed(&machine, &mut store, &ReadRequest { goes_on: false, ..first }));
        assert_eq!(is_resumed(&machine, &mut store, &second), is_kept);
    }
}

#[test]
fn nothing_is_kept_of_a_file_that_expires_or_of_a_table_that_is_dropped() {
    for is_dropped in [true, false] {
        let mut machine = Machine::new();
        machine.config.expiry_check_us = 1_000_000;
        let mut store = machine.open();
        for ck in 0..50 {
            machine.write(&mut store, b"boiler", ck, b"value", 60);
        }
        flush_and_close(store);
        machine.clock.advance(58_000_000);
        let mut store = machine.open();
        let next = first_page(&machine, &mut store, &partition(b"boiler"));
        turns(&mut store, 10);
        assert!(store.metrics().suspended_bytes > 0);
        machine.clock.advance(5_000_000);
        if is_dropped {
            store.drop_table(TABLE);
        }
        turns(&mut store, 20);
        assert_eq!(store.metrics().suspended_bytes, 0);
        assert!(!machine.disk.contents().keys().any(|name| name.starts_with("sst-")));
        assert!(store.unused.is_empty(), "nothing is held open");
        if !is_dropped {
            assert!(machine.read(&mut store, &next).is_empty());
        }
    }
}

/// A page of deleted partitions ends behind one of them when the next one was looked at already.
/// What is written between the two meanwhile is not skipped.
#[test]
fn a_partition_that_is_written_in_front_of_what_was_looked_at_is_there() {
    let mut machine = Machine::new();
    machine.tables.insert(TABLE, TableSettings { gc_grace_s: 1_000, ..TableSettings::default() });
    machine.config.cache_bytes_max = 4 << 20;
    let mut keys: Vec<_> = (0..20_100_u32).map(u32::to_be_bytes).map(Vec::from).collect();
    keys.sort_by_key(|key| token::token(key));
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut store = machine.open();
    for some in keys.chunks(1_000) {
        let mut bytes = Vec::new();
        for key in some.iter().step_by(2) {
            let mut builder = Builder::new(&mut bytes, TABLE, token::token(key), key);
            builder.delete_partition(&write);
            builder.finish().unwrap();
        }
        machine.put(&mut store, &bytes);
    }
    flush_and_close(store);
    let mut store = machine.open();
    let request = ReadRequest { goes_on: true, ..everything() };
    let page = machine.read(&mut store, &request);
    assert!(page.is_empty());
    let position = page.position().unwrap().clone();
    let last = keys.iter().position(|key| *key == position.key).unwrap();
    machine.write(&mut store, &keys[last + 1], 1, b"value", 0);
    let page = machine.read(&mut store, &ReadRequest { after: Some(position), ..request });
    assert_eq!(page.rows().map(|row| row.key).collect::<Vec<_>>(), [&keys[last + 1]]);
}

/// Every fifth row.
#[derive(Debug)]
struct EveryFifth;

impl RowFilter for EveryFifth {
    fn judge(
        &self,
        row: PageRow<'_>,
        _: Option<PageRow<'_>>,
        place: &mut JudgedPlace,
        _: &mut Vec<u8>,
        _: &mut TimeSlice<'_>,
    ) -> Judgement {
        // Each row takes it two turns.
        if place.met == 0 {
            place.met = 1;
            return Judgement::TimeIsOver;
        }
        Judgement::Counts(row.ck.last().is_some_and(|last| last % 5 == 0))
    }
}

/// Reads all pages. Gives how many rows there were, how many pages, what all of them cost, and how
/// many were resumed.
fn all_pages(
    machine: &Machine,
    store: &mut Store,
    request: &ReadRequest,
) -> (usize, u64, ReadCost, u64) {
    let (mut request, before) = (request.clone(), store.metrics().clone());
    let (mut rows, mut pages, mut cost) = (0, 0, ReadCost::default());
    loop {
        let page = machine.read(store, &request);
        rows += page.len();
        pages += 1;
        cost.rows_scanned += page.cost.rows_scanned;
        cost.blocks_read += page.cost.blocks_read;
        cost.blocks_found += page.cost.blocks_found;
        let Some(position) = page.position() else { break };
        assert_eq!(page.len(), request.rows_max, "a page ends with the row that fills it");
        request.after = Some(position.clone());
    }
    (rows, pages, cost, store.metrics().reads_resumed - before.reads_resumed)
}

/// Nothing was read behind the last row of a page that counts, so each block is read once.
#[test]
fn a_page_of_rows_that_count_goes_on_with_the_blocks_at_hand() {
    let mut machine = Machine::new();
    machine.config.cache_bytes_max = 4 << 20;
    with_sstables(&mut machine, 40);
    for request in [partition(b"boiler"), everything()] {
        for goes_on in [true, false] {
            let mut store = machine.open();
            let filter = Some(Arc::new(EveryFifth) as Arc<dyn RowFilter>);
            let request =
                ReadRequest { goes_on, filter, rows_max: 2, bypass_cache: true, ..request.clone() };
            let (rows, pages, cost, resumed) = all_pages(&machine, &mut store, &request);
            // 100, 105 and so on; and each sstable has row 7 and one of its own.
            assert_eq!((rows, pages, cost.rows_scanned), (8, 5, 80));
            let once = 40;
            assert_eq!(resumed, if goes_on { pages - 1 } else { 0 });
            assert_eq!(cost.blocks_read == once, goes_on, "{} blocks", cost.blocks_read);
        }
    }
}

#[test]
fn a_scan_reads_nothing_of_the_rest_of_a_partition() {
    const PARTITIONS: u32 = 20;
    const ROWS: u32 = 200;
    const SSTABLES: u32 = 4;
    let mut machine = Machine::new();
    machine.config.block_bytes = 300;
    machine.config.cache_bytes_max = 4 << 20;
    for number in 0..SSTABLES {
        let mut store = machine.open();
        for partition in 0..PARTITIONS {
            let mut bytes = Vec::new();
            for ck in (number..ROWS).step_by(SSTABLES as usize) {
                bytes.extend(machine.mutation(&partition.to_be_bytes(), ck, b"value", 0));
            }
            machine.put(&mut store, &bytes);
        }
        flush_and_close(store);
    }
    let whole = {
        let mut store = machine.open();
        let request = ReadRequest { rows_max: 1 << 20, bypass_cache: true, ..everything() };
        all_pages(&machine, &mut store, &request).2.blocks_read
    };
    for goes_on in [true, false] {
        let mut store = machine.open();
        let request = ReadRequest {
            goes_on,
            partition_rows_max: 2,
            rows_max: 4,
            bypass_cache: true,
            ..everything()
        };
        let (rows, pages, cost, resumed) = all_pages(&machine, &mut store, &request);
        assert_eq!((rows, cost.rows_scanned), (40, 40), "no other row is merged");
        assert_eq!(resumed, if goes_on { pages - 1 } else { 0 });
        // Of each sstable, where a partition begins, and maybe where the one before ends.
        let begins = u64::from(2 * PARTITIONS * SSTABLES);
        let read = cost.blocks_read;
        assert!(!goes_on || read <= begins && 4 * read < whole, "{read} blocks of {whole}");
    }
}
