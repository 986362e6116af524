//! Tables whose columns are of every kind, written and read through CQL: static columns, elements,
//! times to live, ranges, conditions, counters, and columns that come and go. A partition is
//! written by one request at a time, which is read afterwards; counters are by many.

use super::{
    counters::Counting,
    seen_cells::cells_of,
    simulation::{Asked, Ended, Simulation},
    statements::{COLUMNS, KindTable, KindWrite, NUMBER, NUMBERS, Statements, USER_TYPE},
    worlds::{Condition, Deed, SeenCell, SeenRows, Worlds, text_of},
};
use crate::{
    simulated,
    whole::client::{page, query},
    wire::client::{Answer, Row, op},
};
use sandglass_db::io::Clock;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// Partitions of each table.
const PARTITIONS: u64 = 4;

/// The timestamps of writes are so far apart, or the same.
const STEP_US: i64 = 40_000;

const SCHEMA: [&str; 4] = [
    "CREATE TYPE IF NOT EXISTS k.pair (x int, y int)",
    "CREATE TABLE IF NOT EXISTS k.w (p int, c int, s int STATIC, e map<int, int> STATIC, a int, \
     b text, l list<int>, m map<int, int>, z set<int>, u pair, PRIMARY KEY (p, c))",
    "CREATE TABLE IF NOT EXISTS k.v (p int, c int, a int, b text, l list<int>, m map<int, int>, \
     z set<int>, u pair, PRIMARY KEY (p, c)) WITH compaction = {'class': \
     'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', \
     'compaction_window_size': 1}",
    "CREATE TABLE IF NOT EXISTS k.n (p int, c int, v counter, PRIMARY KEY (p, c))",
];

/// The seconds that the clock showed while something was in flight, in spans without a gap.
#[derive(Clone, Debug)]
pub struct Shown(Vec<(i64, i64)>);

impl Shown {
    pub fn now(now_s: i64) -> Self {
        Self(vec![(now_s, now_s)])
    }

    pub fn widen(&mut self, now_s: i64) {
        let last = self.0.last_mut().unwrap();
        last.1 = last.1.max(now_s);
    }

    pub fn jump(&mut self, now_s: i64) {
        self.0.push((now_s, now_s));
    }

    fn all(&self) -> Vec<i64> {
        let all: BTreeSet<i64> = self.0.iter().flat_map(|(first, last)| *first..=*last).collect();
        all.into_iter().collect()
    }
}

/// A write that is not answered yet, or never will be.
#[derive(Debug)]
struct Unsettled {
    partition: (usize, u64),
    deeds: Vec<Deed>,
    timestamp: i64,
    conditions: Vec<Condition>,
    shown: Shown,
    /// The row whose column a has the number of the write, if it depends on something.
    told: u64,
    number: i32,
}

/// A read of some partitions of a table, of which nobody writes to any.
#[derive(Debug)]
pub struct KindRead {
    table: usize,
    partitions: Vec<u64>,
    columns: Vec<u16>,
    text: String,
    shown: Shown,
    found: BTreeMap<u64, SeenRows>,
    is_reversed: bool,
    last: Option<(u64, u64)>,
}

struct KindPartition {
    worlds: Worlds,
    is_written: bool,
    readers: u32,
    /// What has happened if its timestamp is found, or has to be found.
    to_find: Option<(Unsettled, bool)>,
}

#[derive(Debug)]
pub enum KindAsked {
    Schema,
    Write(usize),
    Read(KindRead),
}

pub struct Kinds {
    pub tables: [KindTable; 2],
    partitions: BTreeMap<(usize, u64), KindPartition>,
    unsettled: BTreeMap<usize, Unsettled>,
    pub counting: Counting,
    writes: usize,
    is_ready: bool,
    /// What was compared, and the most worlds that a partition had.
    pub rows: u64,
    pub worlds_max: usize,
}

impl Kinds {
    pub fn new() -> Self {
        let table = |name, has_static| KindTable { name, has_static, gone: BTreeSet::new() };
        let tables = [table("k.w", true), table("k.v", false)];
        let places = (0..2).flat_map(|table| (0..PARTITIONS).map(move |p| (table, p)));
        let partition = |(table, p): (usize, u64)| {
            let worlds = Worlds::new(u32::try_from(table).unwrap(), p);
            let (is_written, readers, to_find) = (false, 0, None);
            ((table, p), KindPartition { worlds, is_written, readers, to_find })
        };
        Self {
            tables,
            partitions: places.map(partition).collect(),
            unsettled: BTreeMap::new(),
            counting: Counting::default(),
            writes: 0,
            is_ready: false,
            rows: 0,
            worlds_max: 0,
        }
    }

    /// Nothing is in flight any more: what was not answered has happened, or not.
    pub fn settle(&mut self) {
        for (_, write) in std::mem::take(&mut self.unsettled) {
            self.partitions.get_mut(&write.partition).unwrap().is_written = false;
            self.happen(write, false);
        }
        self.counting.settle();
    }

    /// The engine is gone.
    pub fn end(&mut self) {
        self.settle();
        self.is_ready = false;
        self.partitions.values_mut().for_each(|partition| partition.readers = 0);
    }

    fn happen(&mut self, write: Unsettled, is_certain: bool) {
        let partition = self.partitions.get_mut(&write.partition).unwrap();
        if !write.conditions.is_empty() {
            partition.to_find = Some((write, is_certain));
            return;
        }
        let seconds = write.shown.all();
        partition.worlds.write(&write.deeds, write.timestamp, &seconds, is_certain);
        self.worlds_max = self.worlds_max.max(partition.worlds.count());
    }
}

impl KindPartition {
    fn is_free(&self) -> bool {
        !self.is_written && self.readers == 0 && self.to_find.is_none()
    }

    /// What was seen agrees with what has happened, and tells what else has.
    fn see(&mut self, seen: &SeenRows, seconds: &[i64]) {
        if let Some((write, is_certain)) = self.to_find.take() {
            let own = seen.get(&Some(write.told)).map(|(own, _)| own.as_slice());
            let is_its =
                |cell: &&SeenCell| cell.0 == (NUMBER, None) && cell.1 == write.number.to_be_bytes();
            match own.unwrap_or_default().iter().find(is_its) {
                Some((_, _, timestamp, _)) => {
                    self.worlds.decide(&write.conditions, &write.shown.all(), true);
                    self.worlds.write(&write.deeds, *timestamp, seconds, true);
                }
                None => assert!(!is_certain, "it is lost: {write:?}, {}", text_of(seen)),
            }
        }
        self.worlds.see(seen, seconds);
    }
}

impl Simulation {
    /// Makes the tables, and changes them sometimes: nothing else is in flight.
    pub fn make_kinds(&mut self) -> Result<(), Ended> {
        for text in SCHEMA {
            self.change_kinds(text)?;
        }
        self.kinds.is_ready = true;
        self.check_kinds()?;
        for table in 0..2 {
            let name = self.kinds.tables[table].name;
            if self.random.percent(10) {
                self.change_kinds(&format!("TRUNCATE {name}"))?;
                self.each_world(table, crate::oracle::Oracle::empty);
            }
            // The type of a dropped column would be another one.
            let droppable: Vec<_> = COLUMNS
                .iter()
                .filter(|column| column.number != NUMBER && column.number != USER_TYPE)
                .filter(|column| self.kinds.tables[table].has_static || !column.is_static)
                .collect();
            let column = self.random.one_of(&droppable);
            let key = (u32::try_from(table).unwrap(), column.number);
            if self.kinds.tables[table].gone.remove(&column.number) {
                let kind = if column.is_static { " STATIC" } else { "" };
                let text = format!("ALTER TABLE {name} ADD {} {}{kind}", column.name, column.ty);
                self.change_kinds(&text)?;
                self.each_world(table, |world| world.add_column(key));
            } else if self.random.percent(40) {
                let at = self.kind_timestamp();
                let text = format!("ALTER TABLE {name} DROP {} USING TIMESTAMP {at}", column.name);
                self.change_kinds(&text)?;
                self.each_world(table, |world| world.drop_column(key, at));
                self.kinds.tables[table].gone.insert(column.number);
                self.tally.dropped += 1;
            }
        }
        Ok(())
    }

    fn change_kinds(&mut self, text: &str) -> Result<(), Ended> {
        self.clients[0].ask(op::QUERY, &query(text), Asked::Kinds(KindAsked::Schema));
        self.settle()
    }

    fn each_world(&mut self, table: usize, change: impl Fn(&mut crate::oracle::Oracle)) {
        let own = self.kinds.partitions.iter_mut().filter(|(place, _)| place.0 == table);
        own.for_each(|(_, partition)| partition.worlds.change(&change));
    }

    fn kind_timestamp(&mut self) -> i64 {
        let steps = self.kinds.writes as u64 + self.random.below(30);
        simulated::START_US + steps.cast_signed() * STEP_US
    }

    /// A client writes to, or reads, a partition with columns of every kind.
    pub fn act_on_kinds(&mut self, index: usize) {
        if !self.kinds.is_ready {
            return;
        }
        if self.random.percent(25) {
            return self.act_on_counters(index);
        }
        let place = (self.below(2), self.random.below(PARTITIONS));
        let partition = &self.kinds.partitions[&place];
        if partition.worlds.is_given_up() || partition.is_written {
            return;
        }
        if !partition.is_free() || self.random.percent(25) {
            return self.read_kinds(place.0, vec![place.1]);
        }
        self.write_kinds(index, place);
    }

    fn write_kinds(&mut self, index: usize, place: (usize, u64)) {
        let is_conditional = !self.kinds.tables[place.0].has_static && self.random.percent(40);
        let timestamp = self.kind_timestamp();
        self.kinds.writes += 1;
        let number = i32::try_from(self.kinds.writes).unwrap() * NUMBERS;
        let now_s = self.clock.now_s();
        let partition = self.kinds.partitions.get_mut(&place).unwrap();
        partition.is_written = true;
        let table = &self.kinds.tables[place.0];
        let mut statements = Statements { random: &mut self.random, table, p: place.1, number };
        let (KindWrite { text, deeds, conditions }, told) = if is_conditional {
            statements.conditional(|ck| partition.worlds.guess(ck, NUMBER, now_s))
        } else {
            (statements.write(timestamp), 0)
        };
        let shown = Shown::now(now_s);
        let write =
            Unsettled { partition: place, deeds, timestamp, conditions, shown, told, number };
        self.kinds.unsettled.insert(self.kinds.writes, write);
        let asked = Asked::Kinds(KindAsked::Write(self.kinds.writes));
        self.clients[index].ask(op::QUERY, &query(&text), asked);
    }

    /// The clock shows this second, without a gap or after one.
    pub fn show_kinds(&mut self, is_jump: bool) {
        let now_s = self.clock.now_s();
        let asked = self.clients.iter_mut().flat_map(|client| client.waiting.values_mut());
        let reads = asked.filter_map(|asked| match asked {
            Asked::Kinds(KindAsked::Read(read)) => Some(&mut read.shown),
            _ => None,
        });
        let writes = self.kinds.unsettled.values_mut().map(|write| &mut write.shown);
        for shown in reads.chain(writes) {
            if is_jump {
                shown.jump(now_s);
            } else {
                shown.widen(now_s);
            }
        }
    }

    /// Reads all partitions, alone.
    pub fn check_kinds(&mut self) -> Result<(), Ended> {
        for table in 0..2 {
            if self.kinds.is_ready {
                let all = if self.random.percent(50) {
                    vec![(0..PARTITIONS).collect()]
                } else {
                    (0..PARTITIONS).map(|p| vec![p]).collect()
                };
                for partitions in all {
                    self.read_kinds(table, partitions);
                }
            }
        }
        self.read_counters();
        self.settle()
    }

    fn read_kinds(&mut self, table: usize, partitions: Vec<u64>) {
        let KindTable { name, .. } = self.kinds.tables[table];
        let mut text = "SELECT p, c".to_string();
        let mut columns = Vec::new();
        for column in self.kinds.tables[table].columns() {
            let _ = write!(text, ", {0}, writetime({0}), ttl({0})", column.name);
            columns.push(column.number);
        }
        let _ = write!(text, " FROM {name}");
        let mut is_reversed = false;
        if let [p] = partitions.as_slice() {
            is_reversed = self.random.percent(30);
            let order = if is_reversed { " ORDER BY c DESC" } else { "" };
            let _ = write!(text, " WHERE p = {p}{order}");
        }
        for p in &partitions {
            self.kinds.partitions.get_mut(&(table, *p)).unwrap().readers += 1;
        }
        let (shown, found, last) = (Shown::now(self.clock.now_s()), BTreeMap::new(), None);
        let read = KindRead { table, partitions, columns, text, shown, found, is_reversed, last };
        self.page_of_kinds(read, None);
    }

    fn page_of_kinds(&mut self, read: KindRead, state: Option<&[u8]>) {
        let body = page(&read.text, self.random.one_of(&[1, 2, 3, 100]), state);
        self.anyone().ask(op::QUERY, &body, Asked::Kinds(KindAsked::Read(read)));
    }

    pub fn answered_kinds(&mut self, asked: KindAsked, answer: &Answer) {
        let now_s = self.clock.now_s();
        match asked {
            KindAsked::Schema => drop(answer.kind()),
            KindAsked::Write(number) => {
                let mut write = self.kinds.unsettled.remove(&number).unwrap();
                write.shown.widen(now_s);
                let partition = self.kinds.partitions.get_mut(&write.partition).unwrap();
                partition.is_written = false;
                let depends = !write.conditions.is_empty();
                if self.is_refused_or_broken(answer, depends) {
                    return;
                }
                self.tally.kinds += 1;
                if depends {
                    let row = &answer.rows().0[0];
                    if row[0].as_deref() != Some(&[1]) {
                        self.tally.not_applied += 1;
                        let partition = self.kinds.partitions.get_mut(&write.partition).unwrap();
                        return partition.worlds.decide(
                            &write.conditions,
                            &write.shown.all(),
                            false,
                        );
                    }
                    self.tally.applied += 1;
                } else {
                    assert_eq!(answer.kind(), 1, "void");
                }
                self.kinds.happen(write, true);
            }
            KindAsked::Read(mut read) => {
                read.shown.widen(now_s);
                self.have_read_kinds(read, answer);
            }
        }
    }

    /// Whether it was refused, or what it depends on could not be read. Who still waits for a
    /// partition when the engine stops is refused.
    pub fn is_refused_or_broken(&mut self, answer: &Answer, depends: bool) -> bool {
        let is_error = answer.opcode == op::ERROR && depends;
        let is_left = is_error && answer.message().contains("shutting down");
        is_left || (is_error && self.is_broken) || self.is_refused(answer)
    }

    fn have_read_kinds(&mut self, mut read: KindRead, answer: &Answer) {
        if answer.opcode == op::ERROR {
            assert!(self.is_broken, "a read has failed: {}", answer.message());
            self.tally.failed_reads += 1;
            return self.kinds.leave(&read);
        }
        let (rows, state) = answer.rows();
        for row in rows {
            read.take(&row);
        }
        if let Some(state) = state {
            return self.page_of_kinds(read, Some(&state));
        }
        self.kinds.leave(&read);
        let seconds = read.shown.all();
        for p in &read.partitions {
            let partition = self.kinds.partitions.get_mut(&(read.table, *p)).unwrap();
            if !partition.worlds.is_given_up() {
                let seen = read.found.remove(p).unwrap_or_default();
                self.kinds.rows += seen.len() as u64;
                partition.see(&seen, &seconds);
            }
        }
        self.tally.reads += 1;
    }
}

impl Kinds {
    /// A read is over.
    pub fn leave(&mut self, read: &KindRead) {
        for p in &read.partitions {
            self.partitions.get_mut(&(read.table, *p)).unwrap().readers -= 1;
        }
    }
}

impl KindRead {
    fn take(&mut self, row: &Row) {
        let number = |bytes: &Option<Vec<u8>>| {
            Some(u64::from(u32::from_be_bytes(bytes.as_deref()?.try_into().unwrap())))
        };
        let (p, c) = (number(&row[0]).unwrap(), number(&row[1]));
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for (column, values) in self.columns.iter().zip(row[2..].chunks_exact(3)) {
            let is_static = COLUMNS.iter().any(|one| one.number == *column && one.is_static);
            let cells = if is_static { &mut shared } else { &mut own };
            cells.extend(cells_of(*column, values));
        }
        own.sort();
        shared.sort();
        let rows = self.found.entry(p).or_default();
        assert!(rows.insert(c, (own, shared)).is_none(), "row {c:?} of {p} is there twice");
        let place = (p, c.unwrap_or(0));
        if let Some(last) = self.last.filter(|last| last.0 == p) {
            assert!((last < place) != self.is_reversed, "{place:?} comes behind {last:?}");
        }
        self.last = Some(place);
    }
}
