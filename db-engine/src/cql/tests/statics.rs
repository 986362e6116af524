//! Static columns: one value for all rows of a partition, and a row of its own if there is none.

use super::{CONTEXT, Database, Page, Plan, ReadOptions, ResultRows, int, prepared};
use crate::{
    io::{Random, TimeSlice},
    mutation::token::token,
};
use std::{cell::RefCell, collections::BTreeMap};

const TABLE: &str = "CREATE TABLE t (p int, c int, s int STATIC, u int STATIC, v int, x int, \
     PRIMARY KEY (p, c))";

fn number(value: Option<&Vec<u8>>) -> Option<i32> {
    value.map(|bytes| int(bytes))
}

fn numbers(rows: &ResultRows) -> Vec<Vec<Option<i32>>> {
    rows.iter().map(|row| row.iter().map(|value| number(value.as_ref())).collect()).collect()
}

/// What is in a partition.
#[derive(Debug, Default, Clone)]
struct TestPartition {
    s: Option<i32>,
    u: Option<i32>,
    /// By clustering key.
    rows: BTreeMap<i32, Option<i32>>,
}

fn some(random: &mut Random, below: u64) -> i32 {
    i32::try_from(random.below(below)).unwrap()
}

/// Partitions with and without static columns, rows, and rows that are there no more.
fn filled(random: &mut Random) -> (Database, BTreeMap<(i64, i32), TestPartition>) {
    let mut database = Database::new(&[TABLE]);
    let mut contents = BTreeMap::new();
    for p in 0..9 {
        let mut content = TestPartition::default();
        let mut write = |text: &str| database.write(text, &[]).unwrap();
        if p % 3 != 0 {
            content.s = Some(some(random, 3));
            write(&format!("INSERT INTO t (p, s) VALUES ({p}, {})", content.s.unwrap()));
        }
        if random.percent(40) {
            content.u = Some(p);
            write(&format!("UPDATE t SET u = {p} WHERE p = {p}"));
        }
        for c in 0..some(random, 5) {
            let v = random.percent(70).then_some(c);
            match random.below(3) {
                0 => write(&format!("UPDATE t SET x = 1 WHERE p = {p} AND c = {c}")),
                1 => {
                    write(&format!("INSERT INTO t (p, c, v) VALUES ({p}, {c}, 1)"));
                    write(&format!("DELETE FROM t WHERE p = {p} AND c = {c}"));
                }
                _ => {
                    let v_text = v.map_or("null".to_string(), |v| v.to_string());
                    write(&format!("INSERT INTO t (p, c, v) VALUES ({p}, {c}, {v_text})"));
                    content.rows.insert(c, v);
                }
            }
        }
        contents.insert((token(&p.to_be_bytes()).0, p), content);
    }
    // Rows that are there by `x` alone are not there, then.
    database.define("ALTER TABLE t DROP x");
    (database, contents)
}

/// The rows of a partition: p, c, s, u and v.
fn expected(p: i32, content: &TestPartition) -> Vec<Vec<Option<i32>>> {
    let row = |c, v| vec![Some(p), c, content.s, content.u, v];
    if content.rows.is_empty() && (content.s.is_some() || content.u.is_some()) {
        return vec![row(None, None)];
    }
    content.rows.iter().map(|(c, v)| row(Some(*c), *v)).collect()
}

#[test]
fn every_page_size_gives_static_columns_with_every_row_and_alone_once() {
    let seed = std::env::var("PAGES_SEED").ok().map_or(3, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    for round in 0..20 {
        let (mut database, contents) = filled(&mut random);
        let of = |wanted: &dyn Fn(i32) -> bool, by_key: bool| {
            let mut partitions: Vec<_> = contents.iter().collect();
            if by_key {
                partitions.sort_by_key(|((_, p), _)| *p);
            }
            let partitions = partitions.into_iter().filter(|((_, p), _)| wanted(*p));
            partitions.map(|((_, p), content)| expected(*p, content)).collect::<Vec<_>>()
        };
        let first = |rows: Vec<Vec<Vec<Option<i32>>>>, most: usize| {
            rows.into_iter().flat_map(|rows| rows.into_iter().take(most)).collect::<Vec<_>>()
        };
        let all = usize::MAX;
        let with_s: Vec<_> = of(&|_| true, false);
        let filtered = with_s.iter().flatten().filter(|row| row[2] == Some(1)).cloned();
        let is_regular = |row: &&Vec<Option<i32>>| row[1].is_some_and(|c| c >= 1);
        let mut backwards = of(&|p| p == 4, true).concat();
        backwards.reverse();
        let questions = [
            (String::new(), first(with_s.clone(), all)),
            (" PER PARTITION LIMIT 1".into(), first(with_s.clone(), 1)),
            (" PER PARTITION LIMIT 2".into(), first(with_s.clone(), 2)),
            (" LIMIT 4".into(), with_s.concat().into_iter().take(4).collect()),
            (
                " WHERE p IN (7, 1, 2, 3)".into(),
                first(of(&|p| [1, 2, 3, 7].contains(&p), true), all),
            ),
            (" WHERE p = 4".into(), of(&|p| p == 4, true).concat()),
            (" WHERE p = 4 ORDER BY c DESC".into(), backwards),
            (" WHERE s = 1 ALLOW FILTERING".into(), filtered.collect()),
            (
                " WHERE c >= 1 ALLOW FILTERING".into(),
                with_s.iter().flatten().filter(is_regular).cloned().collect(),
            ),
            (
                " WHERE v >= 0 ALLOW FILTERING".into(),
                with_s.iter().flatten().filter(|row| row[4].is_some()).cloned().collect(),
            ),
            (
                " WHERE p IN (1, 2, 4) AND c >= 1".into(),
                of(&|p| [1, 2, 4].contains(&p), true)
                    .iter()
                    .flatten()
                    .filter(is_regular)
                    .cloned()
                    .collect(),
            ),
        ];
        database.cuts = Some(RefCell::new(Random(seed ^ round)));
        for (words, wanted) in questions {
            let text = format!("SELECT p, c, s, u, v FROM t{words}");
            for page_size in (1..=10).map(Some).chain([None]) {
                assert_eq!(
                    in_pages(&database, &text, page_size),
                    wanted,
                    "seed {seed}, round {round}: {text} in pages of {page_size:?}"
                );
            }
        }
    }
}

fn in_pages(database: &Database, text: &str, page_size: Option<u32>) -> Vec<Vec<Option<i32>>> {
    let (mut got, mut state) = (Vec::new(), None);
    for _ in 0..200 {
        let options = ReadOptions { page_size, paging_state: state.as_deref() };
        let (page, next) = database.read(text, &options);
        assert!(page_size.is_none_or(|size| page.len() <= size as usize));
        got.extend(numbers(&page));
        state = next;
        if state.is_none() {
            return got;
        }
    }
    panic!("{text} does not end");
}

/// A page ends behind so many rows that are not there. What was read of their partition is not read
/// again.
#[test]
fn static_columns_alone_are_given_where_a_page_ends_behind_dead_rows() {
    let mut database = Database::new(&[TABLE]);
    database.write("INSERT INTO t (p, s) VALUES (1, 2)", &[]).unwrap();
    let statement = prepared(&database.catalog, "SELECT p, c, s FROM t").unwrap();
    let Plan::Select(plan) = &statement.plan else { panic!("it is a read") };
    let ((token, key, _), row) = database.rows.first_key_value().unwrap();
    let mut page = Page::default();
    page.push(*token, key, &[], row);
    (0..10_000).for_each(|_| page.add_dead());
    page.cut(*token, key, &[0xFF]);
    let read_page = |page: &mut Page, paging_state: Option<&[u8]>| {
        let options = ReadOptions { page_size: Some(5), paging_state };
        let (mut read, mut out) = (plan.bind(&[], &options, &CONTEXT).unwrap(), Vec::new());
        assert!(read.next(plan, 1).is_some());
        read.accept(plan, page, 1, &mut out, &mut TimeSlice::endless()).unwrap();
        assert!(read.next(plan, 1).is_none());
        read.finish(&mut out)
    };
    let (count, state) = read_page(&mut page, None);
    assert_eq!(count, 1);
    assert_eq!(read_page(&mut Page::default(), Some(&state.unwrap())), (0, None));
}

/// Rows that are judged by their keys alone are no work, and each is judged all the same.
#[test]
fn static_rows_given_alone_are_judged_by_their_keys_one_by_one() {
    let mut database = Database::new(&["CREATE TABLE t (a int, b int, c int, s int STATIC, \
         PRIMARY KEY ((a, b), c))"]);
    for number in 0..20 {
        let text = format!("UPDATE t SET s = {number} WHERE a = {number} AND b = {}", number % 2);
        database.write(&text, &[]).unwrap();
    }
    let mut odd = database.ints("SELECT s FROM t WHERE b = 1 ALLOW FILTERING");
    odd.sort_unstable();
    assert_eq!(odd, (0..20).filter(|number| number % 2 == 1).collect::<Vec<_>>());
}
