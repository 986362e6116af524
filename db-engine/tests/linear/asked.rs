//! What clients ask of partitions: a statement, and what it means.

use super::rows::{OfRow, STATIC, Values};
use sandglass_db::io::Random;

pub const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE IF NOT EXISTS k WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS k.r \
     (p int, c int, s int static, v int, l list<int>, PRIMARY KEY (p, c))",
    "CREATE TABLE IF NOT EXISTS k.n \
     (p int, c int, s counter static, v counter, PRIMARY KEY (p, c))",
];

/// Something of the row of a partition, or of its static column. Conditions are about what was
/// there lately, as far as is known, and write what was never there before.
pub fn of_row(random: &mut Random, key: i32, known: [Option<i32>; 2], to: i32) -> (String, OfRow) {
    let place = format!("p = {key} AND c = 0");
    let swap = |asked, set| OfRow::Swap { asked, from: known[asked], set, to, answer: None };
    let [row, shared] = known.map(|value| value.map_or("null".to_owned(), |v| v.to_string()));
    match random.below(14) {
        0..3 => (format!("SELECT s, c, v, l FROM k.r WHERE p = {key}"), OfRow::Read([None; 3])),
        3 => (format!("DELETE FROM k.r WHERE {place} IF EXISTS"), OfRow::Delete { answer: None }),
        4 | 5 => (
            format!("INSERT INTO k.r (p, c, v, l) VALUES ({key}, 0, {to}, [{to}]) IF NOT EXISTS"),
            OfRow::Insert { to, answer: None },
        ),
        6 | 7 => (
            format!("UPDATE k.r SET v = {to}, l[0] = {to} WHERE {place}"),
            OfRow::Put { to, answer: None },
        ),
        8 | 9 => (
            format!("UPDATE k.r SET s = {to} WHERE p = {key} IF s = {shared}"),
            swap(STATIC, [false, true, false]),
        ),
        10 => (
            format!("UPDATE k.r SET v = {to}, l = [{to}] WHERE {place} IF s = {shared}"),
            swap(STATIC, [true, false, false]),
        ),
        11 => (
            format!(
                "BEGIN BATCH UPDATE k.r SET s = {to} WHERE p = {key} IF s = {shared}; \
                 UPDATE k.r SET v = {to}, l = [{to}] WHERE {place} APPLY BATCH"
            ),
            swap(STATIC, [true, true, false]),
        ),
        12 if known[0].is_some() => (
            format!("UPDATE k.r SET s = {to}, v = {to}, l = [{to}] WHERE {place} IF v = {row}"),
            swap(0, [true, true, false]),
        ),
        _ => {
            let from = known[0].unwrap_or(0);
            let text = format!("UPDATE k.r SET v = {to}, l[0] = {to} WHERE {place} IF v = {from}");
            let set = [true, false, false];
            (text, OfRow::Swap { asked: 0, from: Some(from), set, to, answer: None })
        }
    }
}

/// Something of the counters of one partition, or of two.
pub fn of_counters(random: &mut Random, keys: &[i32]) -> (String, OfRow) {
    let names: Vec<String> = keys.iter().map(i32::to_string).collect();
    let place = match names.as_slice() {
        [one] => format!("p = {one}"),
        several => format!("p IN ({})", several.join(", ")),
    };
    let by = i32::try_from(random.below(1_000)).unwrap() - 300;
    let add = |by: Values| OfRow::Add(by);
    if keys.len() == 1 && random.percent(35) {
        return (format!("SELECT s, c, v FROM k.n WHERE {place}"), OfRow::Read([None; 3]));
    }
    match random.below(20) {
        0..6 => (
            format!("UPDATE k.n SET v = v + {by} WHERE {place} AND c = 0"),
            add([Some(by), None, None]),
        ),
        6..8 => {
            let rest = by - 7;
            let text = format!(
                "BEGIN COUNTER BATCH UPDATE k.n SET v = v + 7 WHERE {place} AND c = 0; \
                 UPDATE k.n SET v = v + {rest}, s = s + 1 WHERE {place} AND c = 0 APPLY BATCH"
            );
            (text, add([Some(by), None, Some(1)]))
        }
        8..10 => (
            format!("UPDATE k.n SET v = v + {by} WHERE {place} AND c IN (1, 0)"),
            add([Some(by), Some(by), None]),
        ),
        10..12 => (
            format!("UPDATE k.n SET v = v - {by}, s = s + 3 WHERE {place} AND c IN (0, 1)"),
            add([Some(-by), Some(-by), Some(6)]),
        ),
        12 | 13 => {
            (format!("UPDATE k.n SET s = s + {by} WHERE {place}"), add([None, None, Some(by)]))
        }
        14 => (format!("DELETE FROM k.n WHERE {place}"), OfRow::Reset([true; 3])),
        15 => {
            (format!("DELETE FROM k.n WHERE {place} AND c >= 0"), OfRow::Reset([true, true, false]))
        }
        16 => (
            format!("DELETE v FROM k.n WHERE {place} AND c IN (0, 1)"),
            OfRow::Reset([true, true, false]),
        ),
        17 => (format!("DELETE s FROM k.n WHERE {place}"), OfRow::Reset([false, false, true])),
        _ => (
            format!("UPDATE k.n SET v = v + {by} WHERE {place} AND c = 1"),
            add([None, Some(by), None]),
        ),
    }
}
