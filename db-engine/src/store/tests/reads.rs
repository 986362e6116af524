//! Reads that wait own their place, hold the blocks that they stand on, and see the same whatever
//! is flushed or expires meanwhile.

use super::*;
use crate::{
    budget::{Budget, Share},
    mutation::RowView,
    sstable::BLOCK_BYTES,
};

impl Machine {
    /// A store with this many sstables, of which each has row 7 and some of its own.
    fn with_sstables(&mut self, count: u32) -> Store {
        for number in 0..count {
            let mut store = self.open();
            self.clock.advance(1_000_000);
            self.write(&mut store, b"boiler", 7, &number.to_be_bytes(), 0);
            self.write(&mut store, b"boiler", 100 + number, b"own", 0);
            flush_and_close(store);
        }
        self.open()
    }

    /// Begins a read that cannot be answered at once.
    pub(super) fn begin(&self, store: &mut Store, request: &ReadRequest) {
        let request = ReadRequest { now_s: self.clock.now_us() / 1_000_000, ..request.clone() };
        let mut time = TimeSlice::new(&*self.clock, 0);
        let answered = store.read(Tag(0), &request, &mut Page::default(), &mut time).unwrap();
        assert!(!answered, "it waits");
    }
}

/// One turn; the page if it has come.
pub(super) fn turn(store: &mut Store) -> Option<Page> {
    let mut done = Vec::new();
    store.turn_end();
    store.poll(&mut done).unwrap();
    done.into_iter().find_map(|done| match done {
        Done::Read(_, page) => Some(*page),
        Done::ReadFailed(_, error) => panic!("{error}"),
        _ => None,
    })
}

pub(super) fn row(ck: u32) -> ReadRequest {
    let ck = Bound::Included(ck.to_be_bytes().to_vec());
    ReadRequest { from: ck.clone(), to: ck, ..partition(b"boiler") }
}

fn cks(page: &Page) -> Vec<u32> {
    page.rows().map(|row| u32::from_be_bytes(row.ck.try_into().unwrap())).collect()
}

#[test]
fn a_cold_read_of_many_sstables_is_one_round_of_device_reads() {
    let mut machine = Machine::new();
    machine.with_sstables(40);
    for request in [row(7), partition(b"boiler"), everything()] {
        for columns in [None, Some(Arc::from([1]))] {
            for reverse in [false, request.from != Bound::Unbounded] {
                let mut store = machine.open();
                let before = machine.disk.read_rounds();
                let request = ReadRequest { columns: columns.clone(), reverse, ..request.clone() };
                let page = machine.read(&mut store, &request);
                assert_eq!(machine.disk.read_rounds() - before, 1, "{request:?}");
                assert_eq!(page.cost.blocks_read, 40);
                let first = page.rows().next().unwrap().row;
                let value = RowView::parse(first).unwrap().cell(1, 0).unwrap().value;
                assert_eq!(value, 39_u32.to_be_bytes());
            }
        }
    }
}

#[test]
fn blocks_that_come_together_are_decoded_in_several_turns() {
    let mut machine = Machine::new();
    for _ in 0..30 {
        let mut store = machine.open();
        machine.clock.advance(1_000_000);
        machine.write(&mut store, b"boiler", 7, &[7; 12 << 10], 0);
        flush_and_close(store);
    }
    // A few looks are all the time that there is in a turn, but for finding what must be read.
    machine.clock = Arc::new(ManualClock::ticking(machine.clock.now_us(), 400));
    let mut store = machine.open();
    let request = ReadRequest { now_s: machine.clock.now_us() / 1_000_000, ..row(7) };
    let mut endless = TimeSlice::endless();
    let answered = store.read(Tag(0), &request, &mut Page::default(), &mut endless).unwrap();
    assert!(!answered, "it waits for blocks");
    let mut turns = 0;
    let page = (0..1_000).find_map(|_| {
        turns += u32::from(machine.disk.pending() == 0);
        assert!(store.deadline_us() == Some(0) || machine.disk.pending() > 0, "it goes on");
        turn(&mut store)
    });
    assert_eq!(page.expect("it comes").rows().count(), 1);
    assert!(turns >= 4, "{turns} turns after all have come");
}

/// Of a thousand blocks in two sstables, which have every other row.
#[test]
fn a_scan_holds_the_blocks_that_it_stands_on_and_no_others() {
    const BLOCKS: u32 = 1_000;
    let mut machine = Machine::new();
    machine.config.memtable_bytes_max = 64 << 20;
    machine.config.log_segment_bytes = 8 << 20;
    machine.config.read_us = 0;
    // There is no room for the index of small blocks.
    machine.config.cache_bytes_max = 0;
    for half in 0..2 {
        let mut store = machine.open();
        for first in (0..BLOCKS).step_by(50) {
            let mut bytes = Vec::new();
            for ck in first..first + 50 {
                bytes.extend(machine.mutation(b"boiler", 2 * ck + half, &[7; BLOCK_BYTES / 2], 0));
                machine.clock.advance(1);
            }
            machine.put(&mut store, &bytes);
        }
        flush_and_close(store);
    }
    for (cache_bytes_max, reverse) in [(0, false), (0, true), (1 << 20, false), (256 << 20, true)] {
        machine.config.cache_bytes_max = cache_bytes_max;
        let mut store = machine.open();
        let budget = Arc::new(Budget::of(u64::MAX));
        store.charge_reads_to(&budget);
        for _ in 0..2 {
            machine.begin(&mut store, &ReadRequest { reverse, ..partition(b"boiler") });
            let (mut held, mut turns) = (Vec::new(), 0);
            let page = (0..20 * BLOCKS).find_map(|_| {
                held.push(budget.taken(Share::Answers));
                turns += 1;
                turn(&mut store)
            });
            let page = page.expect("it ends");
            // In the last turn it holds the page, too.
            *held.last_mut().unwrap() -= page.bytes() as u64;
            let held = held.into_iter().max().unwrap();
            assert!(turns >= 2 * BLOCKS, "it waits after each row: {turns}");
            assert_eq!(page.len(), 2 * BLOCKS as usize);
            // Of each sstable the block at hand, which is a row and a half, and the next one.
            assert!(held >= 2 * BLOCK_BYTES as u64, "{held} bytes");
            assert!(held < 8 * BLOCK_BYTES as u64, "{held} bytes");
            assert_eq!(budget.taken(Share::Answers), 0, "what it held is given back");
        }
    }
}

#[test]
fn the_first_look_at_many_sstables_is_cut_by_time_and_is_the_only_one() {
    let mut machine = Machine::new();
    machine.config.read_us = 0;
    drop(machine.with_sstables(60));
    machine.config.cache_bytes_max = 4 << 20;
    let mut store = machine.open();
    for is_cold in [true, false] {
        let found = store.metrics().cache_hits;
        machine.begin(&mut store, &partition(b"boiler"));
        let mut turns = 0;
        let page = (0..10_000).find_map(|_| {
            turns += 1;
            turn(&mut store)
        });
        let page = page.expect("it ends");
        assert_eq!(page.len(), 61);
        assert!(turns >= 59 + 61, "a moment for each sstable and each row: {turns}");
        // Cold they are looked for and asked for, then they come; warm each is found once.
        let found = store.metrics().cache_hits - found;
        assert_eq!((page.cost.sstables, found), (60, if is_cold { 0 } else { 60 }));
    }
}

/// What is in the memtable when the read begins is flushed while it waits, after any number of
/// turns, and the next memtable, too.
/// A machine that cuts reads after each row and flushes after a second, and its store of 20 rows.
fn flushing_soon() -> (Machine, Store) {
    let mut machine = Machine::new();
    machine.config.read_us = 0;
    machine.config.data_lifetime_us = 1_000_000;
    machine.tables.insert(TABLE, TableSettings { gc_grace_s: 1_000, ..TableSettings::default() });
    let mut store = machine.open();
    for ck in 0..20 {
        machine.write(&mut store, b"boiler", ck, b"value", 0);
    }
    (machine, store)
}

#[test]
fn a_flush_while_a_read_waits_changes_nothing_that_it_returns() {
    for turns in 0..40 {
        for (request, reverse) in [(partition(b"boiler"), false), (partition(b"boiler"), true)]
            .into_iter()
            .chain([(everything(), false)])
        {
            let (machine, mut store) = flushing_soon();
            machine.begin(&mut store, &ReadRequest { reverse, ..request });
            let mut page = None;
            for number in 0..1_000 {
                if number == turns || number == turns + 25 {
                    machine.clock.advance(2_000_000);
                }
                page = page.or(turn(&mut store));
                if page.is_some() && number > turns + 60 {
                    break;
                }
            }
            let mut expected: Vec<u32> = (0..20).collect();
            if reverse {
                expected.reverse();
            }
            assert_eq!(cks(&page.unwrap()), expected, "flushed after {turns} turns");
            assert_eq!(store.tables[&TABLE].sstables.len(), 1, "it was flushed");
        }
    }
}

/// A partition is deleted, and the deletion flushed, while a read of older rows waits in it: all
/// rows that it returns were looked at before.
#[test]
fn a_deletion_that_is_flushed_while_a_read_waits_hides_what_comes_after() {
    let mut waited_for_flush = false;
    for turns in 0..30 {
        let (machine, store) = flushing_soon();
        flush_and_close(store);
        let mut store = machine.open();
        let request = if turns % 2 == 0 { everything() } else { partition(b"boiler") };
        machine.begin(&mut store, &request);
        let mut page = None;
        for _ in 0..turns {
            page = page.or(turn(&mut store));
        }
        machine.clock.advance(1_000);
        let now_us = machine.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        builder.delete_partition(&write);
        builder.finish().unwrap();
        store.write(Tag(9), &bytes).unwrap();
        // How many rows were looked at when the deletion became visible.
        let mut before = None;
        for _ in 0..1_000 {
            if page.is_some() {
                break;
            }
            let scanned = store.metrics().rows_scanned;
            let mut done = Vec::new();
            store.turn_end();
            store.poll(&mut done).unwrap();
            for done in done {
                match done {
                    Done::Read(_, read) => page = Some(*read),
                    Done::Write(_) => {
                        before = Some(scanned);
                        // From now on it is flushed, while the read goes on.
                        machine.clock.advance(2_000_000);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let rows = page.unwrap().len() as u64;
        assert_eq!(rows, before.unwrap_or(20), "after {turns} turns");
        waited_for_flush |= store.tables[&TABLE].sstables.len() == 2;
    }
    assert!(waited_for_flush, "some of them wait for longer than the flush takes");
}

#[test]
fn a_file_that_expires_while_a_read_waits_is_kept_until_it_ends() {
    let mut machine = Machine::new();
    machine.config.read_us = 0;
    machine.config.cache_bytes_max = 16 << 10;
    machine.tables.insert(
        TABLE,
        TableSettings { window_us: Some(3_600_000_000), gc_grace_s: 0, ..TableSettings::default() },
    );
    let mut store = machine.open();
    for ck in 0..50 {
        machine.write(&mut store, b"boiler", ck, &[7; 5_000], 60);
    }
    flush_and_close(store);
    let mut store = machine.open();
    let is_there = |disk: &SimDisk| disk.contents().keys().any(|name| name.starts_with("sst-"));
    machine.begin(&mut store, &partition(b"boiler"));
    (0..10).for_each(|_| assert!(turn(&mut store).is_none()));
    machine.clock.advance(3_600_000_000);
    let page = (0..1_000).find_map(|_| {
        assert!(is_there(&machine.disk), "its blocks are still needed");
        turn(&mut store)
    });
    let page = page.expect("it ends");
    assert_eq!(cks(&page), (0..50).collect::<Vec<_>>());
    assert_eq!(store.metrics().sstables_expired, 1, "it expired meanwhile");
    (0..50).for_each(|_| assert!(turn(&mut store).is_none()));
    assert!(!is_there(&machine.disk), "nobody needs it any more");
    assert!(store.is_idle());
}

/// What is written to a large row lies beside it in memory until a reader merges it.
#[test]
fn a_large_row_is_read_with_all_that_was_written_to_it() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    machine.write(&mut store, b"boiler", 7, &[7; 4_000], 0);
    for column in 2..10 {
        machine.clock.advance(1);
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        let write = Write { timestamp: machine.clock.now_us(), ttl_s: 0, now_s: 0 };
        builder.row(&7_u32.to_be_bytes(), &write, false).cell(column, b"small");
        builder.finish().unwrap();
        machine.put(&mut store, &bytes);
        let backwards = ReadRequest { reverse: true, ..partition(b"boiler") };
        for request in [row(7), backwards, everything()] {
            let page = machine.read(&mut store, &request);
            let row = RowView::parse(page.rows().next().unwrap().row).unwrap();
            assert!((2..=column).all(|column| row.cell(column, 0).is_some()), "{column}");
            assert_eq!(row.cell(1, 0).unwrap().value.len(), 4_000);
        }
    }
}

#[test]
fn a_shard_does_not_write_its_log_itself_while_a_read_waits_for_the_device() {
    let mut machine = Machine::new();
    let mut store = machine.with_sstables(40);
    let mut seconds_beside_a_read = 0;
    for _ in 0..50 {
        machine.begin(&mut store, &row(7));
        for number in 0.. {
            let own = store.metrics().own_log_writes;
            machine.write(&mut store, b"other", 1, b"beside", 0);
            if store.reads.is_empty() {
                break;
            }
            assert_eq!(store.metrics().own_log_writes, own, "block {number} beside a read");
            seconds_beside_a_read += u32::from(number == 1);
        }
        // What was read is forgotten.
        flush_and_close(store);
        store = machine.open();
    }
    assert!(seconds_beside_a_read >= 3, "{seconds_beside_a_read} rounds");
}
