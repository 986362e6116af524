//! Rows of several large versions, which are merged bit by bit.

use super::{
    Machine, ReadRequest, TABLE, Tag, everything, flush_and_close,
    on_demand::compact,
    partition,
    ranges::flush_by_steps,
    reads::{row, turn},
};
use crate::{
    io::{Clock as _, ManualClock, TimeSlice},
    memtable::Pool,
    mutation::{Builder, Cell, Content, MutationView, RowView, Write, token},
    store::{Page, Store, TableData},
};

use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The clustering key of the row.
const CK: u32 = 7;

/// How many cells it has.
const COLUMNS: u16 = 60;

impl Machine {
    /// A write of the same to some columns of a row. It may delete what was there before.
    fn columns(&self, ck: u32, columns: Range<u16>, value: u8, deletes: bool) -> Vec<u8> {
        let now_us = self.clock.now_us();
        let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
        let mut bytes = Vec::new();
        let mut builder = Builder::new(&mut bytes, TABLE, token::token(b"boiler"), b"boiler");
        if deletes {
            let before = Write { timestamp: now_us - 1, ..write };
            builder.delete_range(&ck.to_be_bytes(), &(ck + 1).to_be_bytes(), &before);
        }
        let mut row = builder.row(&ck.to_be_bytes(), &write, true);
        for column in columns {
            row.cell(column, &[value; 48]);
        }
        drop(row);
        builder.finish().unwrap();
        self.clock.advance(10);
        bytes
    }

    /// Writes to the row, and to those beside it.
    fn write_columns(&mut self, store: &mut Store, columns: Range<u16>, value: u8) {
        let bytes = self.columns(CK, columns, value, false);
        self.put(store, &bytes);
        for ck in [6, 8] {
            self.write(store, b"boiler", ck, &[value], 0);
        }
    }

    /// A store with the row in two sstables, in its memtable, and in a layer of that.
    fn with_versions(&mut self, columns: u16) -> Store {
        for (number, value) in (0..).zip([b'a', b'b']) {
            let mut store = self.open();
            let from = columns / 4 * number;
            self.write_columns(&mut store, from..from + columns / 2, value);
            flush_and_close(store);
        }
        let mut store = self.open();
        self.write_columns(&mut store, columns / 2..columns, b'c');
        self.write_columns(&mut store, columns - 2..columns, b'd');
        store
    }
}

/// What the cells of these versions are together.
fn merged(columns: u16) -> Vec<u8> {
    let quarter = usize::from(columns / 4);
    [(quarter, b'a'), (quarter, b'b'), (2 * quarter - 2, b'c'), (2, b'd')]
        .map(|(count, value)| vec![value; count])
        .concat()
}

/// What the cells of the row are in a page of all rows.
fn cells(page: &Page) -> Vec<u8> {
    let value = |cell: Cell<'_>| match cell.content {
        Content::Live(value) => value[0],
        Content::Dead { .. } => 0,
    };
    let mut rows = BTreeMap::new();
    for row in page.rows() {
        rows.insert(row.ck, RowView::parse(row.row).unwrap().cells().map(value).collect());
    }
    for beside in [6_u32, 8] {
        assert_eq!(rows.remove(&beside.to_be_bytes()[..]), Some(vec![b'd']));
    }
    let row = rows.remove(&CK.to_be_bytes()[..]).unwrap();
    assert!(rows.is_empty());
    row
}

/// Whatever happens while it is merged: a write that deletes it and puts another one in its place,
/// and a flush.
#[test]
fn a_row_of_many_versions_is_read_as_it_was_at_one_moment() {
    let (before, after) = (merged(COLUMNS), vec![b'n'; usize::from(COLUMNS)]);
    for (writes, flushes) in [(true, false), (false, true), (true, true)] {
        for request in [partition(b"boiler"), everything()] {
            for reverse in [false, request.partitions != everything().partitions] {
                let mut found = [0, 0];
                for turns in (0..240).step_by(3) {
                    let mut machine = Machine::new();
                    machine.config.read_us = 0;
                    let mut store = machine.with_versions(COLUMNS);
                    machine.begin(&mut store, &ReadRequest { reverse, ..request.clone() });
                    let write = machine.columns(CK, 0..COLUMNS, b'n', true);
                    let mut took = 0;
                    let page = (0..1_000).find_map(|number| {
                        if number == turns && writes {
                            store.write(Tag(77), &write).unwrap();
                        }
                        if number == turns && flushes {
                            store.flush_tables(&[TABLE]);
                        }
                        took = number;
                        turn(&mut store)
                    });
                    let cells = cells(&page.expect("it comes"));
                    let what = format!("{writes} {flushes} {reverse} after {turns} turns");
                    assert!(took > 100, "{what}: it is read in {took} turns");
                    assert!(cells == before || writes && cells == after, "{what}: {cells:?}");
                    found[usize::from(cells == after)] += 1;
                }
                assert!(!writes || found[0] > 10 && found[1] > 0, "{found:?}");
            }
        }
    }
}

#[test]
fn a_read_that_is_given_up_while_it_merges_leaves_nothing_to_the_next_one() {
    let mut machine = Machine::new();
    let mut store = machine.open();
    for columns in [0..COLUMNS, 50..52] {
        machine.write_columns(&mut store, columns, b'a');
    }
    for columns in [3..40, 1..2] {
        let bytes = machine.columns(9, columns, b'b', false);
        machine.put(&mut store, &bytes);
    }
    let mut read = |ck, is_given_up| {
        let mut time = TimeSlice::new(&*machine.clock, 0);
        if is_given_up {
            assert!(!store.read_at_once(&row(CK), &mut Page::default(), &mut time).unwrap());
        }
        let page = machine.read(&mut store, &row(ck));
        assert_eq!(page.len(), 1);
        page.rows().map(|row| (row.ck.to_vec(), row.row.to_vec())).next().unwrap()
    };
    let mut read_all = |is_given_up| [6, CK, 8, 9].map(|ck| read(ck, is_given_up));
    assert!(read_all(false) == read_all(true));
}

#[test]
fn a_flush_that_is_cut_while_it_merges_a_row_writes_the_same() {
    let machine = Machine::new();
    let mut pool = Pool::new(1 << 20);
    let mut table = TableData::default();
    let mut apply = |bytes: &[u8]| {
        table.active.apply(&MutationView::parse(bytes).unwrap(), &mut pool);
    };
    for (ck, value) in [(7, b'a'), (9, b'b')] {
        for columns in [0..COLUMNS, 50..52, 7..9] {
            apply(&machine.columns(ck, columns, value, false));
        }
    }
    for ck in [6, 8, 10] {
        apply(&machine.mutation(b"boiler", ck, b"beside", 0));
    }
    table.flushing = Some(std::mem::take(&mut table.active).freeze());
    let (steps, is_same) = flush_by_steps(&machine, &BTreeMap::from([(TABLE, table)]));
    assert!(is_same && steps > 2 * u32::from(COLUMNS), "{steps} steps");
}

#[test]
fn a_compaction_merges_a_row_in_many_turns() {
    const MANY: u16 = 1_600;
    let mut machine = Machine::new();
    machine.config.cache_bytes_max = 8 << 20;
    let store = machine.with_versions(MANY);
    flush_and_close(store);
    machine.clock = Arc::new(ManualClock::ticking(machine.clock.now_us(), 200));
    let mut store = machine.open();
    let turns = compact(&machine, &mut store);
    assert!(turns > 45, "{turns} turns");
    assert_eq!(store.tables[&TABLE].sstables.len(), 1);
    let page = machine.read(&mut store, &partition(b"boiler"));
    assert!(cells(&page) == merged(MANY));
}

/// Time stands still but for what is decoded.
#[test]
fn a_compaction_decodes_a_large_block_of_each_of_its_sstables_in_a_turn_of_its_own() {
    const FILES: u32 = 16;
    let [small, large] = [100, 500_000].map(|bytes| {
        let mut machine = Machine::new();
        machine.config.log_segment_bytes = 4 << 20;
        machine.config.cache_bytes_max = 32 << 20;
        for ck in 0..FILES {
            let mut store = machine.open();
            machine.write(&mut store, b"boiler", ck, &vec![7; bytes], 0);
            machine.clock.advance(10);
            flush_and_close(store);
        }
        machine.clock.advance(10_000);
        let mut store = machine.open();
        let turns = compact(&machine, &mut store);
        assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), FILES as usize);
        turns
    });
    assert!(large >= small + FILES, "{small} and {large} turns");
}
