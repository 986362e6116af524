//! Random statements about a partition of a table with columns of every kind, and what they do.

use super::worlds::{Condition, Deed, ROWS_OF_EVERY_KIND};
use crate::oracle::{
    MARKER,
    places::{NO_CK, ck_bytes},
};
use sandglass_db::{io::Random, types::comparable::ABOVE};
use std::{collections::BTreeSet, fmt::Write as _};

/// A column: how the model knows it, its name, its type, and whether it is static.
pub struct KindColumn {
    pub number: u16,
    pub name: &'static str,
    pub ty: &'static str,
    pub is_static: bool,
}

const fn column(number: u16, name: &'static str, ty: &'static str, is_static: bool) -> KindColumn {
    KindColumn { number, name, ty, is_static }
}

pub const NUMBER: u16 = 3;
const TEXT: u16 = 4;
pub const LIST: u16 = 5;
pub const SET: u16 = 7;
pub const USER_TYPE: u16 = 8;

pub const COLUMNS: [KindColumn; 8] = [
    column(1, "s", "int", true),
    column(2, "e", "map<int, int>", true),
    column(NUMBER, "a", "int", false),
    column(TEXT, "b", "text", false),
    column(LIST, "l", "list<int>", false),
    column(6, "m", "map<int, int>", false),
    column(SET, "z", "set<int>", false),
    column(USER_TYPE, "u", "k.pair", false),
];

/// A table whose columns are of every kind.
pub struct KindTable {
    pub name: &'static str,
    /// One with static columns has no conditions.
    pub has_static: bool,
    /// Columns that it has not at present.
    pub gone: BTreeSet<u16>,
}

impl KindTable {
    pub fn columns(&self) -> impl Iterator<Item = &'static KindColumn> {
        let has_static = self.has_static;
        let is_there = move |column: &&KindColumn| has_static || !column.is_static;
        COLUMNS.iter().filter(is_there).filter(|column| !self.gone.contains(&column.number))
    }
}

/// A write to one partition.
pub struct KindWrite {
    pub text: String,
    pub deeds: Vec<Deed>,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
}

/// The numbers of writes are so far apart: parts of a batch have those between.
pub const NUMBERS: i32 = 4;

/// Makes statements. The number of the write is in all that it writes.
pub struct Statements<'a> {
    pub random: &'a mut Random,
    pub table: &'a KindTable,
    pub p: u64,
    pub number: i32,
}

fn using(timestamp: Option<i64>, ttl_s: u32) -> String {
    let mut all = Vec::new();
    all.extend(timestamp.map(|timestamp| format!("TIMESTAMP {timestamp}")));
    all.extend((ttl_s > 0).then(|| format!("TTL {ttl_s}")));
    if all.is_empty() { String::new() } else { format!(" USING {}", all.join(" AND ")) }
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

impl Statements<'_> {
    fn ck(&mut self) -> u64 {
        ROWS_OF_EVERY_KIND.start + self.random.below(ROWS_OF_EVERY_KIND.end - 1)
    }

    fn ttl_s(&mut self) -> u32 {
        self.random.one_of(&[0, 0, 0, 0, 0, 4, 40, 1_000_000])
    }

    fn some_columns(&mut self) -> Vec<&'static KindColumn> {
        let all: Vec<_> = self.table.columns().collect();
        let first = self.random.one_of(&all);
        let others = all.into_iter().filter(|column| column.number != first.number);
        let others: Vec<_> = others.filter(|_| self.random.percent(25)).collect();
        others.into_iter().chain([first]).collect()
    }

    /// Any write at this timestamp.
    pub fn write(&mut self, timestamp: i64) -> KindWrite {
        let (text, deeds) = if self.random.percent(15) {
            // Each part has a number of its own: values of lists tell their elements apart.
            let parts = (0..2 + self.random.below(2)).map(|_| {
                self.number += 1;
                self.one(None)
            });
            let parts: Vec<_> = parts.collect();
            let kind = self.random.one_of(&["", "UNLOGGED "]);
            let texts: Vec<_> = parts.iter().map(|(text, _)| text.as_str()).collect();
            let deeds = parts.iter().flat_map(|(_, deeds)| deeds.clone()).collect();
            let all = texts.join("; ");
            (format!("BEGIN {kind}BATCH USING TIMESTAMP {timestamp} {all} APPLY BATCH"), deeds)
        } else {
            self.one(Some(timestamp))
        };
        KindWrite { text, deeds, conditions: Vec::new() }
    }

    fn one(&mut self, timestamp: Option<i64>) -> (String, Vec<Deed>) {
        match self.random.below(20) {
            0..7 => self.insert(timestamp),
            7..15 => self.update(timestamp),
            15..17 => self.delete_columns(timestamp),
            _ => self.delete_rows(timestamp),
        }
    }

    fn insert(&mut self, timestamp: Option<i64>) -> (String, Vec<Deed>) {
        let (ck, ttl_s) = (self.ck(), self.ttl_s());
        let columns = self.some_columns();
        self.insert_of(ck, &columns, (timestamp, ttl_s), "")
    }

    fn insert_of(
        &mut self,
        ck: u64,
        columns: &[&'static KindColumn],
        (timestamp, ttl_s): (Option<i64>, u32),
        condition: &str,
    ) -> (String, Vec<Deed>) {
        let place = (MARKER, None);
        let mut deeds = vec![Deed::Put { ck, place, value: Vec::new(), ttl_s }];
        let (mut names, mut values) = (String::new(), String::new());
        for column in columns {
            let ck = if column.is_static { NO_CK } else { ck };
            let (value, of_column) = self.whole(column, ck, ttl_s);
            let _ = write!(names, ", {}", column.name);
            let _ = write!(values, ", {value}");
            deeds.extend(of_column);
        }
        let (table, p, using) = (self.table.name, self.p, using(timestamp, ttl_s));
        let text = format!(
            "INSERT INTO {table} (p, c{names}) VALUES ({p}, {ck}{values}){condition}{using}"
        );
        (text, deeds)
    }

    /// A literal for all of a column, and what it does there.
    fn whole(&mut self, column: &KindColumn, ck: u64, ttl_s: u32) -> (String, Vec<Deed>) {
        let (n, number) = (self.number, column.number);
        let put = |path: Option<Vec<u8>>, value: Vec<u8>| {
            let place = (number, path);
            Deed::Put { ck, place, value, ttl_s }
        };
        let k = i32::try_from(self.random.below(3)).unwrap();
        if self.random.percent(10) {
            let deed = match column.ty {
                "int" | "text" => Deed::Remove { ck, place: (number, None) },
                _ => Deed::Clear { ck, column: number, only_older: true },
            };
            return ("null".into(), vec![deed]);
        }
        let older = Deed::Clear { ck, column: number, only_older: true };
        match column.ty {
            "int" => (n.to_string(), vec![put(None, int(n))]),
            "text" => {
                let width = self.random.one_of(&[10, 200, 900]);
                let text = format!("{n:0width$}");
                (format!("'{text}'"), vec![put(None, text.into_bytes())])
            }
            "list<int>" => (format!("[{n}]"), vec![older, put(Some(int(n)), int(n))]),
            "set<int>" => (format!("{{{k}}}"), vec![older, put(Some(int(k)), Vec::new())]),
            "k.pair" => {
                let fields = [put(Some(vec![0, 0]), int(n)), put(Some(vec![0, 1]), int(k))];
                let some = self.random.one_of(&[1, 2]);
                let text =
                    if some == 1 { format!("{{x: {n}}}") } else { format!("{{x: {n}, y: {k}}}") };
                (text, [older].into_iter().chain(fields.into_iter().take(some)).collect())
            }
            _ => (format!("{{{k}: {n}}}"), vec![older, put(Some(int(k)), int(n))]),
        }
    }

    fn update(&mut self, timestamp: Option<i64>) -> (String, Vec<Deed>) {
        let ttl_s = self.ttl_s();
        let columns = self.some_columns();
        let only_static = columns.iter().all(|column| column.is_static);
        let cks = match self.random.below(5) {
            _ if only_static => Vec::new(),
            0 => vec![self.ck(), self.ck()],
            _ => vec![self.ck()],
        };
        let (mut sets, mut deeds) = (Vec::new(), Vec::new());
        for column in columns {
            let own = if column.is_static { vec![NO_CK] } else { cks.clone() };
            let (set, of_column) = self.assignment(column, &own, ttl_s);
            sets.push(set);
            deeds.extend(of_column);
        }
        let (table, using, place) = (self.table.name, using(timestamp, ttl_s), self.place(&cks));
        (format!("UPDATE {table}{using} SET {} WHERE {place}", sets.join(", ")), deeds)
    }

    fn place(&self, cks: &[u64]) -> String {
        let p = self.p;
        match cks {
            [] => format!("p = {p}"),
            [ck] => format!("p = {p} AND c = {ck}"),
            [ck, other, ..] => format!("p = {p} AND c IN ({ck}, {other})"),
        }
    }

    /// An item of SET, and what it does in each of these rows.
    fn assignment(&mut self, column: &KindColumn, cks: &[u64], ttl_s: u32) -> (String, Vec<Deed>) {
        let (n, name, number) = (self.number, column.name, column.number);
        let k = i32::try_from(self.random.below(3)).unwrap();
        let put = |path: Vec<u8>, value: Vec<u8>| {
            let of = |ck: &u64| {
                let place = (number, Some(path.clone()));
                Deed::Put { ck: *ck, place, value: value.clone(), ttl_s }
            };
            cks.iter().map(of).collect::<Vec<_>>()
        };
        let remove = |path: Vec<u8>| {
            let place = (number, Some(path));
            cks.iter().map(|ck| Deed::Remove { ck: *ck, place: place.clone() }).collect::<Vec<_>>()
        };
        match (column.ty, self.random.below(5)) {
            ("list<int>", 0 | 1) => (format!("{name} = {name} + [{n}]"), put(int(n), int(n))),
            ("list<int>", 2) => (format!("{name} = [{n}] + {name}"), put(int(n), int(n))),
            ("set<int>", 0 | 1) => {
                let other = (k + 1) % 3;
                let both = [put(int(k), Vec::new()), put(int(other), Vec::new())].concat();
                (format!("{name} = {name} + {{{k}, {other}}}"), both)
            }
            ("set<int>", 2 | 3) | ("map<int, int>", 2) => {
                (format!("{name} = {name} - {{{k}}}"), remove(int(k)))
            }
            ("k.pair", 0 | 1) => (format!("{name}.x = {n}"), put(vec![0, 0], int(n))),
            ("k.pair", 2) => (format!("{name}.y = {n}"), put(vec![0, 1], int(n))),
            ("k.pair", 3) => (format!("{name}.x = null"), remove(vec![0, 0])),
            ("map<int, int>", 0) => (format!("{name}[{k}] = {n}"), put(int(k), int(n))),
            ("map<int, int>", 1) => {
                (format!("{name} = {name} + {{{k}: {n}}}"), put(int(k), int(n)))
            }
            ("map<int, int>", 3) => (format!("{name}[{k}] = null"), remove(int(k))),
            _ => self.whole_of_each(column, cks, ttl_s),
        }
    }

    /// All of a column is set in each of these rows, to the same.
    fn whole_of_each(
        &mut self,
        column: &KindColumn,
        cks: &[u64],
        ttl_s: u32,
    ) -> (String, Vec<Deed>) {
        let (value, deeds) = self.whole(column, NO_CK, ttl_s);
        let text = format!("{} = {value}", column.name);
        let at = |ck: u64| {
            deeds.clone().into_iter().map(move |deed| match deed {
                Deed::Put { place, value, ttl_s, .. } => Deed::Put { ck, place, value, ttl_s },
                Deed::Remove { place, .. } => Deed::Remove { ck, place },
                Deed::Clear { column, only_older, .. } => Deed::Clear { ck, column, only_older },
                other => other,
            })
        };
        (text, cks.iter().flat_map(|ck| at(*ck)).collect())
    }

    fn delete_columns(&mut self, timestamp: Option<i64>) -> (String, Vec<Deed>) {
        let columns = self.some_columns();
        let only_static = columns.iter().all(|column| column.is_static);
        let cks = if only_static { Vec::new() } else { vec![self.ck()] };
        let (mut names, mut deeds) = (Vec::new(), Vec::new());
        for column in columns {
            let (name, number) = (column.name, column.number);
            let ck = if column.is_static { NO_CK } else { cks[0] };
            let k = i32::try_from(self.random.below(3)).unwrap();
            let remove = |path: Option<Vec<u8>>| Deed::Remove { ck, place: (number, path) };
            let (name, deed) = match (column.ty, self.random.percent(60)) {
                ("int" | "text", _) => (name.into(), remove(None)),
                ("map<int, int>" | "set<int>", true) => {
                    (format!("{name}[{k}]"), remove(Some(int(k))))
                }
                ("k.pair", true) => (format!("{name}.y"), remove(Some(vec![0, 1]))),
                _ => (name.into(), Deed::Clear { ck, column: number, only_older: false }),
            };
            names.push(name);
            deeds.push(deed);
        }
        let (table, using, place) = (self.table.name, using(timestamp, 0), self.place(&cks));
        (format!("DELETE {} FROM {table}{using} WHERE {place}", names.join(", ")), deeds)
    }

    fn delete_rows(&mut self, timestamp: Option<i64>) -> (String, Vec<Deed>) {
        let (table, p, using) = (self.table.name, self.p, using(timestamp, 0));
        let [first, second] = [self.ck(), self.ck()];
        let (place, deeds) = match self.random.below(9) {
            0 => (format!("p = {p}"), vec![Deed::DeletePartition]),
            1..4 => (self.place(&[first]), vec![Deed::DeleteRow(first)]),
            4 => {
                let both = vec![Deed::DeleteRow(first), Deed::DeleteRow(second)];
                (self.place(&[first, second]), both)
            }
            kind => {
                let behind = |ck: u64| [ck_bytes(ck), vec![ABOVE]].concat();
                let (from, to) = (first.min(second), first.max(second) + 1);
                let range = match kind {
                    5 => (format!("c >= {from} AND c < {to}"), ck_bytes(from), ck_bytes(to)),
                    6 => (format!("c > {from} AND c <= {to}"), behind(from), behind(to)),
                    7 => (format!("c > {from}"), behind(from), vec![ABOVE]),
                    _ => (format!("c <= {to}"), vec![0], behind(to)),
                };
                let (bounds, from, to) = range;
                (format!("p = {p} AND {bounds}"), vec![Deed::DeleteRange(from, to)])
            }
        };
        (format!("DELETE FROM {table}{using} WHERE {place}"), deeds)
    }

    /// A write with conditions, which sets the column a of a row to its number: by the timestamp
    /// of that it is known when it has happened. `guess` tells what a row has there, perhaps.
    pub fn conditional(&mut self, guess: impl Fn(u64) -> Option<i32>) -> (KindWrite, u64) {
        let ck = self.ck();
        let (table, p, n) = (self.table.name, self.p, self.number);
        let put = |ck: u64, column, value| {
            let place = (column, None);
            Deed::Put { ck, place, value, ttl_s: 0 }
        };
        let (text, deeds, conditions, told) = match self.random.below(6) {
            0 | 1 => {
                let deeds = vec![put(ck, MARKER, Vec::new()), put(ck, NUMBER, int(n))];
                let values = format!("(p, c, a) VALUES ({p}, {ck}, {n})");
                let text = format!("INSERT INTO {table} {values} IF NOT EXISTS");
                (text, deeds, vec![Condition::NotExists(ck)], ck)
            }
            2 => {
                let told = ROWS_OF_EVERY_KIND.start + ck % (ROWS_OF_EVERY_KIND.end - 1);
                let value = guess(told);
                let text = format!(
                    "BEGIN BATCH DELETE FROM {table} WHERE p = {p} AND c = {ck} IF EXISTS; UPDATE \
                     {table} SET a = {n} WHERE p = {p} AND c = {told} IF a = {} APPLY BATCH",
                    literal(value)
                );
                let conditions = vec![Condition::Exists(ck), Condition::Is(told, NUMBER, value)];
                (text, vec![Deed::DeleteRow(ck), put(told, NUMBER, int(n))], conditions, told)
            }
            kind => {
                let (mut sets, mut deeds) = (format!("a = {n}"), vec![put(ck, NUMBER, int(n))]);
                for column in self.some_columns() {
                    if column.number != NUMBER {
                        let (set, of_column) = self.assignment(column, &[ck], 0);
                        let _ = write!(sets, ", {set}");
                        deeds.extend(of_column);
                    }
                }
                let value = guess(ck).filter(|_| self.random.percent(80));
                let (condition, text) = match kind {
                    3 => (Condition::Exists(ck), "EXISTS".to_string()),
                    _ => (Condition::Is(ck, NUMBER, value), format!("a = {}", literal(value))),
                };
                let text =
                    format!("UPDATE {table} SET {sets} WHERE {} IF {text}", self.place(&[ck]));
                (text, deeds, vec![condition], ck)
            }
        };
        (KindWrite { text, deeds, conditions }, told)
    }
}

fn literal(value: Option<i32>) -> String {
    value.map_or("null".into(), |value| value.to_string())
}
