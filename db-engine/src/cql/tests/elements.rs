//! Collections that are not frozen: from statements to cells, and back to values.

use super::*;
use crate::{
    mutation::{Content, RowView},
    types::collection::{list, map},
};

const TABLE: &str =
    "CREATE TABLE t (k int PRIMARY KEY, l list<int>, m map<text, int>, s set<int>, v int)";

fn database() -> Database {
    Database::new(&[TABLE])
}

impl Database {
    /// The first column of the one row of a result.
    fn one(&self, text: &str) -> Option<Vec<u8>> {
        let options = ReadOptions { page_size: None, paging_state: None };
        let (rows, _) = self.read(text, &options);
        assert_eq!(rows.len(), 1, "{text}");
        rows[0][0].clone()
    }

    fn run(&mut self, texts: &[&str]) {
        for text in texts {
            self.write(text, &[]).unwrap();
        }
    }
}

#[allow(clippy::unnecessary_wraps)] // As what is selected, which may be null.
fn ints(items: &[i32]) -> Option<Vec<u8>> {
    Some(list(&items.iter().map(|item| item.to_be_bytes()).collect::<Vec<_>>()))
}

#[allow(clippy::unnecessary_wraps)]
fn longs(items: &[i64]) -> Option<Vec<u8>> {
    Some(list(&items.iter().map(|item| item.to_be_bytes()).collect::<Vec<_>>()))
}

#[allow(clippy::unnecessary_wraps)]
fn pairs(items: &[(&str, i32)]) -> Option<Vec<u8>> {
    let items: Vec<_> = items.iter().map(|(key, value)| (*key, value.to_be_bytes())).collect();
    Some(map(&items))
}

#[test]
fn elements_are_added_and_go_one_by_one() {
    let mut database = database();
    database.run(&["INSERT INTO t (k, l, m, s) VALUES (1, [2, 1], {'b': 2, 'a': 1}, {3, 1})"]);
    assert_eq!(database.one("SELECT l FROM t"), ints(&[2, 1]));
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("a", 1), ("b", 2)]));
    assert_eq!(database.one("SELECT s FROM t"), ints(&[1, 3]));
    database.run(&[
        "UPDATE t SET l = l + [5, 6], m = m + {'c': 3}, s = s + {2} WHERE k = 1",
        "UPDATE t SET l = [8, 9] + l, m['d'] = 4, s = s - {1, 7} WHERE k = 1",
        "UPDATE t SET l += [7], m -= {'a', 'x'}, s += {0} WHERE k = 1",
        "UPDATE t SET l = [3] + l, m['b'] = null WHERE k = 1",
    ]);
    assert_eq!(database.one("SELECT l FROM t"), ints(&[3, 8, 9, 2, 1, 5, 6, 7]));
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("c", 3), ("d", 4)]));
    assert_eq!(database.one("SELECT s FROM t"), ints(&[0, 2, 3]));
    database.run(&["DELETE m['d'], s[3], l FROM t WHERE k = 1"]);
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("c", 3)]));
    assert_eq!(database.one("SELECT s FROM t"), ints(&[0, 2]));
    assert_eq!(database.one("SELECT l FROM t"), None);
    // What was there goes, and what comes stays although both have one timestamp.
    let later = NOW_US + 1;
    database.run(&[&format!(
        "UPDATE t USING TIMESTAMP {later} SET m = {{'z': 1}}, s = {{}}, l = null WHERE k = 1"
    )]);
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("z", 1)]));
    assert_eq!(database.one("SELECT s FROM t"), None);
}

#[test]
fn a_whole_value_deletes_what_is_older_by_a_microsecond() {
    let mut database = database();
    database.run(&[
        "UPDATE t USING TIMESTAMP 9 SET s = {1}, m = {'a': 1} WHERE k = 1",
        "UPDATE t USING TIMESTAMP 10 SET s = s + {2}, m['b'] = 2 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 10 SET s = {3}, m = null WHERE k = 1",
    ]);
    assert_eq!(database.one("SELECT s FROM t"), ints(&[2, 3]));
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("b", 2)]));
    database.run(&["DELETE m FROM t USING TIMESTAMP 10 WHERE k = 1"]);
    assert_eq!(database.one("SELECT m FROM t"), None);
}

#[test]
fn of_two_writes_to_an_element_in_one_statement_the_greater_value_stays() {
    let mut database = database();
    database.run(&["UPDATE t SET m['a'] = 2, m['a'] = 1, m['b'] = 1, m['b'] = null WHERE k = 1"]);
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("a", 2)]));
}

#[test]
fn each_element_has_its_timestamp_and_its_time_to_live() {
    let mut database = database();
    database.run(&[
        "UPDATE t USING TIMESTAMP 5 SET m = {'a': 1}, v = 1 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 7 AND TTL 100 SET m['b'] = 2 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 6 SET m['c'] = 3 WHERE k = 1",
    ]);
    assert_eq!(database.one("SELECT writetime(m) FROM t"), longs(&[5, 7, 6]));
    assert_eq!(database.one("SELECT maxwritetime(m) FROM t"), Some(7i64.to_be_bytes().to_vec()));
    assert_eq!(database.one("SELECT writetime(m['c']) FROM t"), Some(6i64.to_be_bytes().to_vec()));
    assert_eq!(database.one("SELECT writetime(m['b'..]) FROM t"), longs(&[7, 6]));
    assert_eq!(database.one("SELECT ttl(m['b']) FROM t"), Some(100i32.to_be_bytes().to_vec()));
    assert_eq!(database.one("SELECT ttl(m['a']) FROM t"), None);
    let ttls = [&3i32.to_be_bytes()[..], &[255; 4], &4i32.to_be_bytes(), &100i32.to_be_bytes()];
    let ttls = [ttls.concat(), vec![255; 4]].concat();
    assert_eq!(database.one("SELECT ttl(m) FROM t"), Some(ttls));
}

#[test]
fn parts_of_collections_are_selected() {
    let mut database = Database::new(&[
        TABLE,
        "CREATE TABLE f (k int PRIMARY KEY, \
        m frozen<map<text, int>>, s frozen<set<int>>)",
    ]);
    for table in ["t", "f"] {
        database.run(&[&format!(
            "INSERT INTO {table} (k, m, s) VALUES (1, {{'a': 1, 'b': 2, 'c': 3}}, {{1, 2, 3}})"
        )]);
        let one = |what: &str| database.one(&format!("SELECT {what} FROM {table}"));
        assert_eq!(one("m['b']"), Some(2i32.to_be_bytes().to_vec()));
        assert_eq!(one("m['x']"), None);
        assert_eq!(one("m['b'..'x']"), pairs(&[("b", 2), ("c", 3)]));
        assert_eq!(one("m[..'b']"), pairs(&[("a", 1), ("b", 2)]));
        assert_eq!(one("s[2]"), Some(2i32.to_be_bytes().to_vec()));
        assert_eq!(one("s[4]"), None);
        assert_eq!(one("s[2..]"), ints(&[2, 3]));
        let of = |condition: &str| {
            database.ints(&format!("SELECT k FROM {table} WHERE {condition} ALLOW FILTERING"))
        };
        assert_eq!(of("m CONTAINS 3 AND m CONTAINS KEY 'a' AND s CONTAINS 1"), [1]);
        assert!(of("m CONTAINS 4").is_empty());
        assert!(of("m CONTAINS KEY '1'").is_empty());
        if table == "t" {
            assert_eq!(of("m['b'] = 2"), [1]);
            assert!(of("m['b'] = 1").is_empty());
        }
        database.rows.clear();
    }
}

#[test]
fn appends_of_one_batch_keep_their_order() {
    let mut database = database();
    let appends: Vec<_> =
        (0..50).map(|n| format!("UPDATE t SET l = l + [{n}] WHERE k = 1;")).collect();
    database.run(&[&format!("BEGIN BATCH {} APPLY BATCH", appends.concat())]);
    assert_eq!(database.one("SELECT l FROM t"), ints(&(0..50).collect::<Vec<_>>()));
}

#[test]
fn markers_of_elements_have_cassandras_names_and_types() {
    let database = database();
    let specs = |text: &str| {
        let prepared = prepared(&database.catalog, text).unwrap();
        let spec = |spec: ColumnSpec| format!("{} {}", spec.name, spec.ty.unfrozen_name());
        prepared.bind.into_iter().map(spec).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        specs("UPDATE t SET m[?] = ?, l = ? + l, s = s - ? WHERE k = ?"),
        "key(m) text, value(m) int, l list<int>, s set<int>, k int"
    );
    assert_eq!(
        specs("UPDATE t SET m = m - ?, m += ? WHERE k = 1"),
        "m set<text>, m map<text, int>"
    );
    assert_eq!(specs("DELETE m[?], s[?] FROM t WHERE k = 1"), "key(m) text, value(s) int");
    assert_eq!(
        specs(
            "SELECT m[?], s[?..?] FROM t WHERE m[?] = ? AND l CONTAINS ? AND m CONTAINS KEY ? \
               ALLOW FILTERING"
        ),
        "key(m) text, value(s) int, value(s) int, key(m) text, value(m) int, value(l) int, \
         key(m) text"
    );
}

#[test]
fn bound_elements_may_be_null_or_unset() {
    let mut database = database();
    database.run(&["UPDATE t USING TIMESTAMP 1 SET m = {'a': 1, 'b': 2}, s = {1} WHERE k = 1"]);
    let text = "UPDATE t SET m[?] = ?, m[?] = ?, s = ? WHERE k = 1";
    let one = 1i32.to_be_bytes();
    let (a, b, one) = (Value::Bytes(b"a"), Value::Bytes(b"b"), Value::Bytes(&one));
    database.write(text, &[a, Value::Null, b, Value::Unset, Value::Unset]).unwrap();
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("b", 2)]));
    assert_eq!(database.one("SELECT s FROM t"), ints(&[1]));
    let refused = |database: &mut Database, values: [Value<'_>; 5]| {
        database.write(text, &values).unwrap_err().message
    };
    let values = [Value::Null, one, b, one, Value::Null];
    assert_eq!(refused(&mut database, values), "Invalid null map key");
    let values = [Value::Unset, one, b, one, Value::Null];
    assert_eq!(refused(&mut database, values), "Invalid unset map key");
    database.write(text, &[a, one, b, one, Value::Null]).unwrap();
    assert_eq!(database.one("SELECT s FROM t"), None);
}

#[test]
fn what_was_bound_in_any_order_is_stored_once_and_in_order() {
    let mut database = database();
    let items = [3i32, 1, 3, 2].map(i32::to_be_bytes);
    database.write("UPDATE t SET s = ? WHERE k = 1", &[Value::Bytes(&list(&items))]).unwrap();
    assert_eq!(database.one("SELECT s FROM t"), ints(&[1, 2, 3]));
}

#[test]
fn cells_of_elements_and_of_values_are_in_one_order() {
    let mut database = Database::new(&[
        "CREATE TABLE o (k int PRIMARY KEY, a int, b set<int>, c int, d map<int, int>, e int)",
    ]);
    database.run(&["INSERT INTO o (k, e, d, c, b, a) VALUES (1, 1, {2: 3}, 4, {5}, 6)"]);
    let row = database.rows.values().next().unwrap();
    let places: Vec<_> = RowView::parse(row)
        .unwrap()
        .cells()
        .map(|cell| (cell.column, cell.path.is_some(), matches!(cell.content, Content::Live(_))))
        .collect();
    let expected = [
        (0, false, true),
        (1, false, false),
        (1, true, true),
        (2, false, true),
        (3, false, false),
        (3, true, true),
        (4, false, true),
    ];
    assert_eq!(places, expected);
}

#[test]
fn many_elements_are_limited_by_their_bytes() {
    let mut database = database();
    let many: Vec<_> = (0..100_000i32).map(|n| (n.to_string(), n.to_be_bytes())).collect();
    let text = "UPDATE t SET m = ? WHERE k = 1";
    database.write(text, &[Value::Bytes(&map(&many))]).unwrap();
    assert_eq!(database.one("SELECT count(m) FROM t"), Some(1i64.to_be_bytes().to_vec()));
    assert_eq!(database.one("SELECT m['77777'] FROM t"), Some(77_777i32.to_be_bytes().to_vec()));
    let most: Vec<_> = (0..400_000i32).map(i32::to_be_bytes).collect();
    for text in ["UPDATE t SET s = ? WHERE k = 1", "UPDATE t SET l = ? + l WHERE k = 1"] {
        let refused = database.write(text, &[Value::Bytes(&list(&most))]).unwrap_err().message;
        assert!(refused.starts_with("Mutation is larger than"), "{refused}");
    }
    // A large collection that is looked at many times.
    let options = ReadOptions { page_size: None, paging_state: None };
    for what in ["m['99999']", "count(m)", "ttl(m)"] {
        let text = format!("SELECT {} FROM t", vec![what; 2_000].join(", "));
        let read = database.try_read(&text, &options).map(|_| ());
        let refused = read.unwrap_err().message;
        assert!(refused.contains("too long to be read"), "{what}: {refused}");
    }
}

#[test]
fn what_it_takes_to_compare_a_large_value_counts() {
    let mut database = Database::new(&["CREATE TABLE t (k int PRIMARY KEY, f frozen<set<blob>>)"]);
    // The last element is found behind a large one.
    let value = list(&[vec![7; 1 << 20], vec![255]]);
    database.write("INSERT INTO t (k, f) VALUES (1, ?)", &[Value::Bytes(&value)]).unwrap();
    let options = ReadOptions { page_size: None, paging_state: None };
    let read = |conditions: usize| {
        let conditions = vec!["f CONTAINS 0xff"; conditions].join(" AND ");
        let text = format!("SELECT k FROM t WHERE {conditions} ALLOW FILTERING");
        database.try_read(&text, &options).map(|(rows, _)| rows.len())
    };
    assert_eq!(read(100).unwrap(), 1);
    let refused = read(200).unwrap_err().message;
    assert!(refused.contains("too long to be read"), "{refused}");
}

#[test]
fn elements_of_a_dropped_column_do_not_count() {
    let mut database = database();
    database.run(&["UPDATE t SET m = {'a': 1} WHERE k = 1"]);
    database.define("ALTER TABLE t DROP m");
    let none = ReadOptions { page_size: None, paging_state: None };
    assert!(database.read("SELECT * FROM t", &none).0.is_empty());
    database.define("ALTER TABLE t ADD m map<text, int>");
    let later = NOW_US + 1;
    database.run(&[&format!("UPDATE t USING TIMESTAMP {later} SET m['b'] = 2 WHERE k = 1")]);
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("b", 2)]));
    assert_eq!(database.one("SELECT writetime(m) FROM t"), longs(&[later]));
}

#[test]
fn collections_inside_collections_are_frozen() {
    let database = database();
    for (ty, name) in [
        ("list<list<int>>", "list<list<int>>"),
        ("map<int, frozen<set<int>>>", ""),
        ("frozen<list<set<int>>>", ""),
        ("map<int, list<set<int>>>", "map<int, list<set<int>>>"),
        ("list<tuple<int, list<int>>>", ""),
    ] {
        let text = format!("CREATE TABLE u (k int PRIMARY KEY, v {ty})");
        let Plan::Ddl(ddl) = prepared(&database.catalog, &text).unwrap().plan else { panic!() };
        let applied = database.catalog.apply(&ddl, Uuid::nil(), 0).map(|_| ());
        let refused = applied.err().map_or(String::new(), |error| error.to_string());
        let wanted = format!("Non-frozen collections are not allowed inside collections: {name}");
        assert_eq!(refused, if name.is_empty() { String::new() } else { wanted });
    }
}

#[test]
fn what_is_added_leaves_older_elements_there() {
    let mut database = database();
    database.run(&["UPDATE t USING TIMESTAMP 1 SET l = [1], m = {'a': 1}, s = {1} WHERE k = 1"]);
    database.run(&["UPDATE t USING TIMESTAMP 9 SET l = l + [2], m = m + {'b': 2}, s += {2}, \
                    l = [0] + l WHERE k = 1"]);
    assert_eq!(database.one("SELECT l FROM t"), ints(&[0, 1, 2]));
    assert_eq!(database.one("SELECT m FROM t"), pairs(&[("a", 1), ("b", 2)]));
    assert_eq!(database.one("SELECT s FROM t"), ints(&[1, 2]));
}

#[test]
fn a_write_is_not_placed_by_an_element() {
    let database = database();
    for text in
        ["UPDATE t SET v = 1 WHERE k = 1 AND m['a'] = 1", "DELETE FROM t WHERE k = 1 AND v = 1"]
    {
        let refused = database.refused(text);
        assert!(refused.starts_with("Non PRIMARY KEY columns found"), "{text}: {refused}");
    }
}
