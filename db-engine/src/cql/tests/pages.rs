//! Any read in any pages gives what sorting and filtering all rows by hand would.

use super::{Database, ReadOptions, Value, int};
use crate::{io::Random, mutation::token::token};
use std::{cell::RefCell, collections::BTreeMap};

const CASES: u64 = 600;
/// Two values of this length and a page is full by its bytes.
const LARGE: usize = 600_000;

/// A row of `t`: partition, clustering key and a number to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestRow {
    p: i32,
    c: i32,
    d: i32,
    n: i32,
}

type Keep = Box<dyn Fn(&TestRow) -> bool>;

/// A read as text and as what it means.
struct Question {
    text: String,
    partitions: Option<Vec<i32>>,
    keeps: Vec<Keep>,
    reverse: bool,
    per_partition: usize,
    limit: usize,
}

fn some(random: &mut Random, below: u64) -> i32 {
    i32::try_from(random.below(below)).unwrap()
}

/// Some different numbers.
fn several(random: &mut Random, below: i32) -> Vec<i32> {
    (0..below).filter(|_| random.percent(60)).collect()
}

fn joined(numbers: &[i32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Question {
    fn say(&mut self, words: &str) {
        self.text.push_str(words);
    }

    fn column(&mut self, random: &mut Random, name: &str, value: fn(&TestRow) -> i32) -> bool {
        let x = some(random, 5);
        match random.below(5) {
            0 => {
                self.say(&format!(" AND {name} = {x}"));
                self.keeps.push(Box::new(move |row| value(row) == x));
                true
            }
            1 => {
                let mut wanted = several(random, 5);
                wanted.reverse();
                self.say(&format!(" AND {name} IN ({})", joined(&wanted)));
                self.keeps.push(Box::new(move |row| wanted.contains(&value(row))));
                true
            }
            2 => {
                self.say(&format!(" AND {name} > {x}"));
                self.keeps.push(Box::new(move |row| value(row) > x));
                false
            }
            3 => {
                self.say(&format!(" AND {name} <= {x} AND {name} >= 1"));
                self.keeps.push(Box::new(move |row| (1..=x).contains(&value(row))));
                false
            }
            _ => false,
        }
    }

    fn ask(random: &mut Random) -> Self {
        let mut question = Question {
            text: "SELECT p, c, d, n, v FROM t".into(),
            partitions: None,
            keeps: Vec::new(),
            reverse: false,
            per_partition: usize::MAX,
            limit: usize::MAX,
        };
        let mut order = "";
        if random.percent(80) {
            let mut wanted = several(random, 4);
            if random.percent(40) || wanted.is_empty() {
                wanted = vec![some(random, 4)];
                question.say(&format!(" WHERE p = {}", wanted[0]));
                question.reverse = random.percent(50);
                order = if question.reverse { " ORDER BY c DESC, d ASC" } else { "" };
            } else {
                wanted.reverse();
                question.say(&format!(" WHERE p IN ({})", joined(&wanted)));
                wanted.sort_unstable();
            }
            question.partitions = Some(wanted);
            if question.column(random, "c", |row| row.c) {
                question.column(random, "d", |row| row.d);
            }
        } else {
            question.say(" WHERE n >= 0");
        }
        let filters = question.partitions.is_none() || random.percent(30);
        if filters {
            let x = some(random, 3);
            question.say(&format!(" AND n < {x}"));
            question.keeps.push(Box::new(move |row| row.n < x));
        }
        question.say(order);
        if random.percent(50) {
            let most = some(random, 3) + 1;
            question.say(&format!(" PER PARTITION LIMIT {most}"));
            question.per_partition = usize::try_from(most).unwrap();
        }
        if random.percent(40) {
            let most = some(random, 9) + 1;
            question.say(&format!(" LIMIT {most}"));
            question.limit = usize::try_from(most).unwrap();
        }
        if filters {
            question.say(" ALLOW FILTERING");
        }
        question
    }

    /// The answer, from rows that are sorted by partition (in the order of tokens), c and d.
    fn answer(&self, rows: &BTreeMap<(i64, i32, i32, i32), TestRow>) -> Vec<TestRow> {
        let mut ordered: Vec<TestRow> = rows.values().copied().collect();
        if self.reverse {
            ordered.reverse();
        }
        if let Some(partitions) = &self.partitions {
            ordered.retain(|row| partitions.contains(&row.p));
            ordered.sort_by_key(|row| row.p);
        }
        let mut taken: BTreeMap<i32, usize> = BTreeMap::new();
        ordered.retain(|row| {
            self.keeps.iter().all(|keeps| keeps(row)) && {
                let taken = taken.entry(row.p).or_default();
                *taken += 1;
                *taken <= self.per_partition
            }
        });
        ordered.truncate(self.limit);
        ordered
    }
}

#[test]
fn every_read_in_every_kind_of_pages_gives_what_its_words_say() {
    let seed = std::env::var("PAGES_SEED").ok().map_or(7, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let mut database = Database::new(&["CREATE TABLE t (p int, c int, d int, n int, v blob, \
         PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC)"]);
    let mut rows = BTreeMap::new();
    for _ in 0..60 {
        let [p, c, d, n] = [4, 5, 5, 3].map(|below| some(&mut random, below));
        if rows.values().any(|row: &TestRow| (row.p, row.c, row.d) == (p, c, d)) {
            continue;
        }
        let value = vec![0; if random.percent(50) { LARGE } else { 1 }];
        let key = [p, c, d, n].map(i32::to_be_bytes);
        let mut values: Vec<Value<'_>> = key.iter().map(|part| Value::Bytes(part)).collect();
        values.push(Value::Bytes(&value));
        database.write("INSERT INTO t (p, c, d, n, v) VALUES (?, ?, ?, ?, ?)", &values).unwrap();
        rows.insert((token(&key[0]).0, c, -d, p), TestRow { p, c, d, n });
    }
    database.cuts = Some(RefCell::new(Random(seed ^ 1)));
    for case in 0..CASES {
        let question = Question::ask(&mut random);
        let wanted = question.answer(&rows);
        let page_size = random.one_of(&[None, Some(1), Some(2), Some(3), Some(100)]);
        let (mut got, mut state, mut pages) = (Vec::new(), None, 0);
        loop {
            let options = ReadOptions { page_size, paging_state: state.as_deref() };
            let (page, next) = database.read(&question.text, &options);
            assert!(page_size.is_none_or(|size| page.len() <= size as usize));
            got.extend(page.iter().map(|row| {
                let value = |at: usize| int(row[at].as_deref().unwrap());
                TestRow { p: value(0), c: value(1), d: value(2), n: value(3) }
            }));
            state = next;
            pages += 1;
            assert!(pages <= 200, "seed {seed}, case {case}: {} does not end", question.text);
            if state.is_none() {
                break;
            }
        }
        assert_eq!(
            got, wanted,
            "seed {seed}, case {case}: {} in pages of {page_size:?}",
            question.text
        );
    }
}

/// Of each partition more rows are wanted than are asked of the store at a time, and fewer than
/// two such pages have: where the first one ended is a place in its partition, not in the next.
#[test]
fn a_partition_that_gave_enough_leaves_no_place_behind_for_the_next() {
    const ROWS: i32 = 2_100;
    let mut database = Database::new(&["CREATE TABLE wide (p int, c int, PRIMARY KEY (p, c))"]);
    for (p, c) in (0..3).flat_map(|p| (0..ROWS).map(move |c| (p, c))) {
        let key = [p, c].map(i32::to_be_bytes);
        let values: Vec<Value<'_>> = key.iter().map(|part| Value::Bytes(part)).collect();
        database.write("INSERT INTO wide (p, c) VALUES (?, ?)", &values).unwrap();
    }
    let text = "SELECT c FROM wide WHERE p IN (0, 1, 2) PER PARTITION LIMIT 1500";
    let expected: Vec<i32> = (0..3).flat_map(|_| 0..1_500).collect();
    assert_eq!(database.ints(text), expected);
}
