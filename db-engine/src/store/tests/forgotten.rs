//! What was deleted stays deleted when the deletion itself is forgotten: for a read that began
//! before, and for a batch that was done long ago.

use super::*;
use crate::{
    io::{Completion, Files, Operation, Ticket, sim::Fault},
    schema::SizeTiers,
};
use std::sync::Mutex;

const GRACE_S: u32 = 10_800;

/// A machine whose table forgets deletions after their grace, in compactions of two sstables.
fn machine() -> Machine {
    let mut machine = Machine::new();
    let settings = machine.tables.get_mut(&TABLE).unwrap();
    (settings.window_us, settings.gc_grace_s) = (None, GRACE_S);
    settings.tiers = Some(SizeTiers { min_threshold: 2, ..SizeTiers::default() });
    machine
}

fn delete_row(machine: &mut Machine, store: &mut Store, key: &[u8], ck: u32) {
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, TABLE, token::token(key), key);
    builder.delete_row(&ck.to_be_bytes(), &write);
    builder.finish().unwrap();
    machine.put(store, &bytes);
}

fn turns(store: &mut Store, count: usize, done: &mut Vec<Done>) {
    for _ in 0..count {
        store.turn_end();
        store.poll(done).unwrap();
    }
}

/// The first read of a file once it is `awaited`: it is held until it is let go of.
#[derive(Debug, Default)]
struct HeldRead {
    is_awaited: bool,
    ticket: Option<Ticket>,
    held: Option<Completion>,
    is_over: bool,
}

/// Files of which one read takes as long as a test says.
struct SlowFiles {
    inner: Box<dyn Files>,
    read: Arc<Mutex<HeldRead>>,
}

impl Files for SlowFiles {
    fn submit(&mut self, operation: Operation) -> Ticket {
        let is_read = matches!(operation, Operation::Read { .. });
        let ticket = self.inner.submit(operation);
        let mut read = self.read.lock().unwrap();
        if is_read && read.is_awaited && read.ticket.is_none() {
            read.ticket = Some(ticket);
        }
        ticket
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        let mut all = Vec::new();
        self.inner.poll(&mut all);
        let mut read = self.read.lock().unwrap();
        for one in all {
            if Some(one.ticket) == read.ticket {
                read.held = Some(one);
            } else {
                out.push(one);
            }
        }
        if read.is_over {
            out.extend(read.held.take());
        }
    }

    fn wait(&mut self, out: &mut Vec<Completion>) {
        self.inner.wait(out);
    }
}

/// It began when the deletion was in memory, and has the old sstable. Meanwhile the deletion is
/// flushed, compacted with that one, and forgotten.
#[test]
fn a_read_that_waits_for_a_block_does_not_show_what_was_deleted_before_it_began() {
    let mut machine = machine();
    let mut store = machine.open();
    for ck in 0..40 {
        machine.write(&mut store, b"boiler", ck, &[7; 100], 0);
    }
    flush_and_close(store);
    machine.clock.advance(1_000_000);
    let read = Arc::new(Mutex::new(HeldRead::default()));
    let clock: Arc<dyn Clock> = Arc::clone(&machine.clock) as Arc<dyn Clock>;
    let files: Vec<Box<dyn Files>> =
        vec![Box::new(SlowFiles { inner: machine.disk.files(), read: Arc::clone(&read) })];
    let tables = |_: &Catalog| machine.tables.clone();
    let opened = open(&machine.config, files, machine.disk.files(), &clock, tables);
    let mut store = opened.unwrap().stores.pop().unwrap();
    delete_row(&mut machine, &mut store, b"boiler", 39);
    machine.clock.advance((i64::from(GRACE_S) + 2) * 1_000_000);

    read.lock().unwrap().is_awaited = true;
    let now_s = machine.clock.now_us() / 1_000_000;
    let request = ReadRequest { now_s, ..partition(b"boiler") };
    let mut page = Page::default();
    let mut endless = TimeSlice::endless();
    assert!(!store.read(Tag(77), &request, &mut page, &mut endless).unwrap(), "it waits");
    store.flush_tables(&[TABLE]);
    let mut done = Vec::new();
    turns(&mut store, 500, &mut done);
    assert!(!done.iter().any(|one| matches!(one, Done::Read(..))), "it waits still");
    assert_eq!(store.metrics().compactions_forgetting, 1);

    read.lock().unwrap().is_over = true;
    let Done::Read(_, found) = wait(&mut store, |done| matches!(done, Done::Read(..))) else {
        panic!("it is the read")
    };
    assert_eq!(found.len(), 39);
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 39);
}

/// That a batch is done was to be logged when the disk was full. Later its row is deleted, and the
/// deletion forgotten; then the process dies.
#[test]
fn a_batch_that_ended_on_a_full_disk_is_not_carried_out_again_after_its_rows_were_deleted() {
    const HOLDS: TableNumber = TableNumber(8);
    let mut machine = machine();
    let own = machine.tables[&TABLE].clone();
    machine.tables.insert(HOLDS, own);
    let mut store = machine.open();
    // A row of a table to which little is written: the log keeps its segment for a day.
    let now_us = machine.clock.now_us();
    let write = Write { timestamp: now_us, ttl_s: 0, now_s: now_us / 1_000_000 };
    let mut bytes = Vec::new();
    let mut builder = Builder::new(&mut bytes, HOLDS, token::token(b"x"), b"x");
    builder.row(&[1], &write, true).cell(1, b"x");
    builder.finish().unwrap();
    machine.put(&mut store, &bytes);
    let batch = machine.mutation(b"boiler", 1, b"value", 0);
    store.write_intent(Tag(900), &batch).unwrap();
    wait(&mut store, |done| matches!(done, Done::Intent(Tag(900))));
    machine.put(&mut store, &batch);

    machine.disk.set_fault(Fault::NoSpace(machine.disk.calls()));
    let filler = machine.mutation(b"other", 1, &vec![7; 20_000], 0);
    let mut number = 10_000;
    let mut write = |store: &mut Store| {
        number += 1;
        let taken = store.write(Tag(number), &filler).is_ok();
        (taken, number)
    };
    let is_answer = |number: u128| {
        move |done: &Done| match done {
            Done::Write(one) | Done::WriteFailed(one, _) => one.0 == number,
            _ => false,
        }
    };
    while let (true, number) = write(&mut store) {
        wait(&mut store, is_answer(number));
    }
    // Once a second space is looked for; meanwhile a write waits, and the end of the batch with it.
    let number = (0..20)
        .find_map(|_| {
            machine.clock.advance(1_100_000);
            store.turn_end();
            let (taken, number) = write(&mut store);
            if !taken {
                turns(&mut store, 5, &mut Vec::new());
            }
            taken.then_some(number)
        })
        .expect("a write is taken while space is looked for");
    store.intent_done(Tag(900));
    let answer = wait(&mut store, is_answer(number));
    assert!(matches!(answer, Done::WriteFailed(..)), "{answer:?}");

    machine.disk.set_fault(Fault::None);
    machine.clock.advance(2_000_000);
    turns(&mut store, 200, &mut Vec::new());
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 1);
    delete_row(&mut machine, &mut store, b"boiler", 1);
    store.flush_tables(&[TABLE]);
    machine.clock.advance((i64::from(GRACE_S) + 100) * 1_000_000);
    turns(&mut store, 500, &mut Vec::new());
    store.compact_tables(&[TABLE]);
    turns(&mut store, 500, &mut Vec::new());
    assert!(store.metrics().compactions_forgetting > 0);
    drop(store);
    machine.disk = machine.disk.crash(5);
    let mut store = machine.open();
    assert_eq!(machine.pages(&mut store, partition(b"boiler")).len(), 0);
}
