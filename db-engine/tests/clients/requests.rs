//! What the clients of a simulation ask for, and what they make of the answers.

use super::{
    expiring,
    history::{EXTRA, Place, Reading},
    reshape::{Existence, Table},
    simulation::{Asked, PARTITIONS, ROWS, Read, Simulation},
};
use crate::{
    simulated,
    whole::client::{Bound, Client, batch, int, page, query, write},
    wire::client::{Answer, long_string, op},
};
use std::collections::BTreeMap;

const TABLES_MAX: usize = 6;

/// Most requests that one client has in flight: more than the engine reads.
const WAITING_MAX: usize = 10;

const OVERLOADED: i32 = 0x1001;
pub const INVALID: i32 = 0x2200;
pub const SERVER: i32 = 0;

/// The last one needs the column `x`.
const STATEMENTS: [&str; 6] = [
    "INSERT INTO % (p, c, a, b) VALUES (?, ?, ?, ?)",
    "UPDATE % SET a = ? WHERE p = ? AND c = ?",
    "DELETE FROM % WHERE p = ? AND c = ?",
    "DELETE FROM % WHERE p = ?",
    "UPDATE % SET l = l - ? WHERE p = ? AND c = ?",
    "UPDATE % SET x = ? WHERE p = ? AND c = ?",
];

fn prepared_id(answer: &Answer) -> Vec<u8> {
    assert_eq!(answer.kind(), 4, "prepared");
    let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
    answer.body[6..6 + usize::from(length)].to_vec()
}

/// How many of [`STATEMENTS`] a table can have.
fn statements(table: &Table) -> usize {
    STATEMENTS.len() - usize::from(!table.has_extra)
}

/// Whether a client may wait for an answer about this table.
fn is_used(clients: &[Client<Asked>], table: usize) -> bool {
    let mut asked = clients.iter().flat_map(|client| client.waiting.values());
    asked.any(|asked| match asked {
        Asked::Write { tables, .. } => tables.contains(&table),
        Asked::Read(read) => read.table == table,
        _ => false,
    })
}

impl Simulation {
    /// Some client asks for something.
    pub fn act(&mut self) {
        if let Some(table) = self.to_reshape.take_if(|table| !is_used(&self.clients, *table)) {
            self.reshape(table);
        }
        let index = self.below(self.clients.len());
        if self.clients[index].waiting.len() >= WAITING_MAX {
            return;
        }
        if self.random.percent(40) {
            return self.act_on_kinds(index);
        }
        let usable: Vec<usize> = (0..self.tables.len())
            .filter(|number| {
                let table = &self.tables[*number];
                let ids = &table.ids[..statements(table)];
                let is_free = self.to_reshape != Some(*number);
                is_free && table.existence == Existence::There && ids.iter().all(Option::is_some)
            })
            .collect();
        let what = self.random.below(100);
        if what < 2 || usable.is_empty() {
            let open = |table: &&Table| table.existence != Existence::Gone;
            if self.tables.iter().filter(open).count() < TABLES_MAX {
                self.create();
            }
            return;
        }
        let table = self.random.one_of(&usable);
        match what {
            2 if usable.len() > 1 => self.drop_table(table),
            3..5 => self.to_reshape = self.to_reshape.or(Some(table)),
            2..40 => self.write_one(index, table),
            40..48 => self.write_expiring(index),
            48..50 => self.read_expiring(index),
            50..67 => self.write_batch(index, &usable),
            _ => {
                let (p, c) = self.key();
                let read = match self.random.below(4) {
                    0 => self.read_of(table, None, None, false),
                    1 => self.read_of(table, Some(p), Some(c), false),
                    _ => self.read_of(table, Some(p), None, false),
                };
                self.ask_read(read);
            }
        }
    }

    fn key(&mut self) -> (i32, i32) {
        let p = i32::try_from(self.random.below(PARTITIONS)).unwrap();
        (p, i32::try_from(self.random.below(ROWS)).unwrap())
    }

    /// A time that no other write has: sometimes earlier than that of a write before.
    fn timestamp(&mut self, write: usize) -> i64 {
        let write = i64::try_from(write).unwrap();
        simulated::START_US
            + (write + self.random.below(30).cast_signed()) * 100_000
            + write % 100_000
    }

    /// A statement that changes a row, which the history knows, too.
    fn change(&mut self, write: usize, place: Place, at: i64) -> (Vec<u8>, Vec<Bound>) {
        let (table, p, c) = place;
        let value = i32::try_from(write).unwrap();
        let has_extra = self.tables[table].has_extra;
        let (statement, values) = match (self.random.below(10), has_extra) {
            (0, _) => {
                self.history.delete(write, place, at);
                (2, vec![int(p), int(c)])
            }
            (1..4, true) if self.random.percent(50) => {
                self.history.put(write, place, &[EXTRA], at);
                (5, vec![int(value), int(p), int(c)])
            }
            (1..4, _) => {
                self.history.put(write, place, &[1], at);
                (1, vec![int(value), int(p), int(c)])
            }
            _ => {
                let width = self.random.one_of(&[10, 200, 900]);
                self.history.insert(write, place, at);
                (0, vec![int(p), int(c), int(value), format!("{value:0width$}").into_bytes()])
            }
        };
        (self.tables[table].ids[statement].clone().unwrap(), values)
    }

    fn write_one(&mut self, index: usize, table: usize) {
        let number = self.history.begin();
        let at = self.timestamp(number);
        let (p, c) = self.key();
        let (id, values) = if self.random.percent(3) {
            for c in 0..i32::try_from(ROWS).unwrap() {
                self.history.delete(number, (table, p, c), at);
            }
            (self.tables[table].ids[3].clone().unwrap(), vec![int(p)])
        } else {
            self.change(number, (table, p, c), at)
        };
        let asked = Asked::Write {
            writes: vec![number],
            tables: vec![table],
            is_atomic: true,
            depends: false,
        };
        self.clients[index].ask(op::EXECUTE, &write(&id, &values, at), asked);
    }

    /// A logged batch is one write; of one that is not each partition is.
    fn write_batch(&mut self, index: usize, usable: &[usize]) {
        let is_logged = self.random.percent(70);
        let mut places: Vec<Place> = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            let (p, c) = self.key();
            places.push((self.random.one_of(usable), p, c));
        }
        places.sort_unstable();
        places.dedup();
        let mut tables: Vec<usize> = places.iter().map(|place| place.0).collect();
        let (mut writes, mut statements) = (vec![self.history.begin()], Vec::new());
        let at = self.timestamp(writes[0]);
        let mut last = None;
        for place in places {
            let partition = (place.0, place.1);
            if !is_logged && last.is_some_and(|last| last != partition) {
                writes.push(self.history.begin());
            }
            last = Some(partition);
            statements.push(self.change(*writes.last().unwrap(), place, at));
        }
        let mut is_atomic = is_logged || writes.len() == 1;
        let depends = self.random.percent(30);
        if depends {
            // The batch then depends on what is there, and changes no more than before.
            let (p, c) = self.key();
            let (table, no_items) = (self.random.one_of(usable), vec![0; 4]);
            let id = self.tables[table].ids[4].clone().unwrap();
            statements.push((id, vec![no_items, int(p), int(c)]));
            // Its shard may take it although another one refuses the rest.
            is_atomic &= is_logged || last == Some((table, p));
            tables.push(table);
        }
        let asked = Asked::Write { writes, tables, is_atomic, depends };
        let body = batch(u8::from(!is_logged), &statements, at);
        self.clients[index].ask(op::BATCH, &body, asked);
    }

    /// A read of a table, of one of its partitions, or of a row.
    pub fn read_of(&mut self, table: usize, p: Option<i32>, c: Option<i32>, alone: bool) -> Read {
        let Table { name, has_extra, .. } = &self.tables[table];
        let x = if *has_extra { ", x" } else { "" };
        let select = format!("SELECT p, c, a, b{x} FROM {name}");
        let text = match (p, c) {
            (Some(p), Some(c)) => format!("{select} WHERE p = {p} AND c = {c}"),
            (Some(p), None) => format!("{select} WHERE p = {p}"),
            _ => select,
        };
        let all = |limit: u64| (0..i32::try_from(limit).unwrap()).collect::<Vec<_>>();
        Read {
            text,
            began: self.moment,
            alone,
            table,
            columns: [1, 2].into_iter().chain(has_extra.then_some(EXTRA)).collect(),
            partitions: p.map_or(all(PARTITIONS), |p| vec![p]),
            clusterings: c.map_or(all(ROWS), |c| vec![c]),
            found: Vec::new(),
        }
    }

    pub fn ask_read(&mut self, read: Read) {
        let rows = self.random.one_of(&[1, 3, 100]);
        let body = page(&read.text, rows, None);
        self.anyone().ask(op::QUERY, &body, Asked::Read(read));
    }

    pub fn create(&mut self) {
        let number = self.tables.len();
        let name = format!("k.t{number}");
        let windows = self.random.percent(50);
        let options = if windows {
            " WITH compaction = {'class': 'TimeWindowCompactionStrategy', \
             'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1}"
        } else {
            ""
        };
        let text = format!(
            "CREATE TABLE {name} (p int, c int, a int, b text, l list<int>, \
             PRIMARY KEY (p, c)){options}"
        );
        self.tables.push(Table::new(name));
        self.anyone().ask(op::QUERY, &query(&text), Asked::Create(number));
    }

    /// Drops a table that nobody is using.
    fn drop_table(&mut self, table: usize) {
        if !is_used(&self.clients, table) {
            self.tables[table].existence = Existence::Leaving;
            let text = format!("DROP TABLE {}", self.tables[table].name);
            self.anyone().ask(op::QUERY, &query(&text), Asked::Drop(table));
        }
    }

    pub fn prepare(&mut self, index: usize, table: usize) {
        self.tables[table].ids = Default::default();
        let count = statements(&self.tables[table]);
        for (number, statement) in STATEMENTS.iter().enumerate().take(count) {
            let text = statement.replace('%', &self.tables[table].name);
            let asked = Asked::Prepare(table, number);
            self.clients[index].ask(op::PREPARE, &long_string(&text), asked);
        }
    }

    /// Whether a request was refused because there is no room for it, or no space.
    pub fn is_refused(&mut self, answer: &Answer) -> bool {
        if answer.opcode != op::ERROR {
            return false;
        }
        let (code, message) = (answer.code(), answer.message());
        let is_full = code == OVERLOADED && !message.contains("shutting down");
        assert!(is_full, "refused with {code:#06x}: {message}");
        self.tally.refused += 1;
        true
    }

    /// Whether a request that reads before it writes has got no further than that.
    fn is_not_begun(&mut self, answer: &Answer) -> bool {
        let is_error = answer.opcode == op::ERROR;
        let is_over = is_error && answer.message().contains("shutting down");
        let is_unread = is_error && answer.code() == SERVER && self.is_broken;
        self.tally.refused += u64::from(is_over || is_unread);
        is_over || is_unread
    }

    pub fn answered(&mut self, index: usize, asked: Asked, answer: &Answer) {
        match asked {
            Asked::Hello => assert_eq!(answer.opcode, op::READY),
            Asked::Keyspace => drop(answer.kind()),
            Asked::Write { writes, is_atomic, depends, .. } => {
                if (depends && self.is_not_begun(answer)) || self.is_refused(answer) {
                    // Of one that was refused in part nothing is known.
                    let refused = if is_atomic { writes } else { Vec::new() };
                    for write in refused {
                        self.history.never(write);
                    }
                    return;
                }
                assert_eq!(answer.kind(), 1, "void");
                self.tally.acknowledged += 1;
                for write in writes {
                    self.history.happened(write, self.moment);
                }
            }
            Asked::Read(read) => self.answered_read(index, read, answer),
            Asked::Create(table) => {
                if answer.opcode == op::ERROR {
                    // There was no space for the schema: whether it is there shows later.
                    assert_eq!(answer.code(), SERVER, "{}", answer.message());
                    return;
                }
                self.tally.created += 1;
                self.tables[table].existence = Existence::There;
                self.prepare(index, table);
            }
            Asked::Drop(table) => {
                if answer.opcode != op::ERROR {
                    self.tables[table].existence = Existence::Gone;
                }
            }
            Asked::Prepare(table, number) => {
                self.tables[table].ids[number] = Some(prepared_id(answer));
            }
            Asked::TableExpiring => {
                if answer.opcode == op::ERROR {
                    assert_eq!(answer.code(), SERVER, "{}", answer.message());
                } else {
                    let body = long_string(expiring::INSERT);
                    self.clients[index].ask(op::PREPARE, &body, Asked::PrepareExpiring);
                }
            }
            Asked::PrepareExpiring => self.insert_expiring = Some(prepared_id(answer)),
            Asked::WriteExpiring(number) => self.wrote_expiring(number, answer),
            Asked::ReadExpiring(read) => self.have_read_expiring(index, read, answer),
            Asked::Kinds(asked) => self.answered_kinds(asked, answer),
            Asked::Counters(asked) => self.answered_counters(asked, answer),
            Asked::Probe(table) => self.probed(index, table, answer),
            Asked::Reshape(table) => self.reshaped(index, table, answer),
            Asked::ProbeExtra(table) => self.probed_extra(index, table, answer),
        }
    }

    fn probed(&mut self, index: usize, table: usize, answer: &Answer) {
        let Table { name, existence, .. } = &mut self.tables[table];
        if answer.opcode == op::ERROR {
            let (code, message) = (answer.code(), answer.message());
            let may_be_gone = matches!(existence, Existence::Unknown | Existence::Leaving);
            assert!(code == INVALID && may_be_gone, "{name} is lost: {message}");
            *existence = Existence::Gone;
            return;
        }
        assert_ne!(*existence, Existence::Gone, "{name} is back");
        if !matches!(existence, Existence::Reshaping(_)) {
            *existence = Existence::There;
        }
        self.probe_extra(index, table);
    }

    fn answered_read(&mut self, index: usize, mut read: Read, answer: &Answer) {
        if answer.opcode == op::ERROR {
            let message = answer.message();
            assert!(self.is_broken, "a read has failed with {:#06x}: {message}", answer.code());
            self.tally.failed_reads += 1;
            return;
        }
        let (rows, state) = answer.rows();
        for row in rows {
            let number = |place: usize| -> Option<i32> {
                let bytes = row[place].as_deref()?;
                Some(i32::from_be_bytes(bytes.try_into().expect("four bytes")))
            };
            let text = row[3].as_deref().map(|text| std::str::from_utf8(text).unwrap());
            let place = (read.table, number(0).unwrap(), number(1).unwrap());
            assert!(read.found.last().is_none_or(|(last, _)| last.1 != place.1 || *last < place));
            let mut values = vec![number(2), text.map(|text| text.parse().unwrap())];
            values.extend((4..row.len()).map(number));
            read.found.push((place, values));
        }
        if let Some(state) = state {
            let body = page(&read.text, self.random.one_of(&[1, 3, 100]), Some(&state));
            // A page is asked for wherever the client likes.
            let other =
                if self.random.percent(50) { index } else { self.below(self.clients.len()) };
            self.clients[other].ask(op::QUERY, &body, Asked::Read(read));
            return;
        }
        self.tally.reads += 1;
        self.tally.rows += read.found.len() as u64;
        let times = Reading { began: read.began, ended: self.moment, alone: read.alone };
        let mut found = BTreeMap::new();
        for (place, values) in read.found {
            assert!(found.insert(place, values).is_none(), "{place:?} twice in {}", read.text);
        }
        let is_whole = read.alone && read.partitions.len() > 1;
        if is_whole && std::mem::take(&mut self.tables[read.table].is_doubtful) {
            // It was to be emptied: all is gone, or nothing.
            let mut rows = found.iter();
            let was_there = |(place, values): (&_, &Vec<_>)| {
                self.history.was_there(*place, &read.columns, values)
            };
            if !rows.any(was_there) {
                self.history.empty(read.table);
            }
        }
        for p in &read.partitions {
            for c in &read.clusterings {
                let place = (read.table, *p, *c);
                let row = found.remove(&place);
                self.history.check(place, &read.columns, row, times);
            }
        }
        assert!(found.is_empty(), "{found:?} is not of {}", read.text);
    }
}
