//! Rules of CQL that a column, a type or a clause brings with it.

use super::{Database, ReadOptions, Value, measurements, prepared};
use crate::types::collection::{list, map, put_item};

const ALL: ReadOptions<'_> = ReadOptions { page_size: None, paging_state: None };

#[test]
fn a_row_is_not_there_by_the_cells_of_a_dropped_column() {
    let mut database = Database::new(&["CREATE TABLE t (p int, c int, x int, y int, \
         PRIMARY KEY (p, c))"]);
    let write = |database: &mut Database, text| database.write(text, &[]).unwrap();
    write(&mut database, "UPDATE t SET x = 1 WHERE p = 1 AND c = 1");
    write(&mut database, "UPDATE t SET x = 1, y = 1 WHERE p = 1 AND c = 2");
    write(&mut database, "INSERT INTO t (p, c, x) VALUES (1, 3, 1)");
    write(&mut database, "UPDATE t SET y = 1 WHERE p = 1 AND c = 4");
    database.define("ALTER TABLE t DROP x");
    let expected = [2, 3, 4];
    for text in ["SELECT c FROM t WHERE p = 1", "SELECT c FROM t", "SELECT c, y FROM t"] {
        assert_eq!(database.ints(text), expected, "{text}");
    }
    assert_eq!(database.ints("SELECT c FROM t PER PARTITION LIMIT 1"), [2]);
    assert_eq!(database.ints("SELECT c FROM t WHERE p = 1 AND c = 1"), [0; 0]);
    assert_eq!(database.ints("SELECT c FROM t WHERE p = 1 ORDER BY c DESC"), [4, 3, 2]);
    assert_eq!(database.read("SELECT count(*) FROM t", &ALL).0[0][0].as_deref().unwrap()[7], 3);
    database.define("ALTER TABLE t ADD x int");
    assert_eq!(database.ints("SELECT c FROM t"), expected);
    let (rows, _) = database.read("SELECT x FROM t", &ALL);
    assert!(rows.iter().all(|row| row[0].is_none()));
    let refused = database.refused("ALTER TABLE t ADD y int");
    assert_eq!(refused, "Column with name 'y' already exists");
}

#[test]
fn cells_that_were_written_after_their_column_was_dropped_come_back_with_it() {
    let mut database = Database::new(&["CREATE TABLE t (p int, c int, x int, y int, \
         PRIMARY KEY (p, c))"]);
    for (c, timestamp) in [(1, 10), (2, 20), (3, 30)] {
        let text =
            format!("UPDATE t USING TIMESTAMP {timestamp} SET x = 1 WHERE p = 1 AND c = {c}");
        database.write(&text, &[]).unwrap();
    }
    database.define("ALTER TABLE t DROP x USING TIMESTAMP 20");
    assert_eq!(database.ints("SELECT c FROM t"), [0; 0]);
    database.define("ALTER TABLE t ADD x int");
    for text in [
        "SELECT c FROM t",
        "SELECT c FROM t WHERE p = 1 AND c >= 1",
        "SELECT c FROM t WHERE x = 1 ALLOW FILTERING",
        "SELECT max(c) FROM t",
        "SELECT c FROM t PER PARTITION LIMIT 1",
    ] {
        assert_eq!(database.ints(text), [3], "{text}");
    }
    assert_eq!(database.ints("SELECT c FROM t WHERE p = 1 AND c = 2"), [0; 0]);
    // A row that is there by its marker has no cell that was dropped.
    let insert = "INSERT INTO t (p, c, x, y) VALUES (1, 4, 1, 1) USING TIMESTAMP 20";
    database.write(insert, &[]).unwrap();
    let (rows, _) = database.read("SELECT x, writetime(x), y FROM t WHERE p = 1 AND c = 4", &ALL);
    let one = Some(vec![0, 0, 0, 1]);
    assert_eq!(rows, [[None, None, one.clone()]]);
    // What was dropped once does not come back.
    database.define("ALTER TABLE t DROP x USING TIMESTAMP 19");
    database.define("ALTER TABLE t ADD x int");
    let (rows, _) = database.read("SELECT x FROM t", &ALL);
    assert_eq!(rows, [[one], [None]]);
    database.define("ALTER TABLE t DROP x");
    database.define("ALTER TABLE t ADD x int");
    assert_eq!(database.ints("SELECT c FROM t"), [4]);
}

#[test]
fn a_value_that_cannot_be_compared_is_not_left_out_silently() {
    let mut database = Database::new(&["CREATE TABLE t (p int PRIMARY KEY, v decimal)"]);
    let one = 1_i32.to_be_bytes();
    let mut long = vec![0, 0, 0, 0, 1];
    long.resize(4 + 513, 0);
    let values = [Value::Bytes(&one), Value::Bytes(&long)];
    database.write("INSERT INTO t (p, v) VALUES (?, ?)", &values).unwrap();
    let texts = [
        "SELECT p FROM t WHERE v = 1 ALLOW FILTERING",
        "SELECT p FROM t WHERE v > 1 ALLOW FILTERING",
        "SELECT max(v) FROM t",
        "SELECT min(v) FROM t",
    ];
    let words = "A value of a row that was read cannot be compared: Comparing a decimal of more \
                 than 512 bytes is not supported yet by Sandglass. Ask for rows without it";
    for text in texts {
        assert_eq!(database.try_read(text, &ALL).unwrap_err().message, words, "{text}");
    }
    assert_eq!(database.ints("SELECT p FROM t"), [1]);
    long.truncate(4 + 512);
    let values = [Value::Bytes(&one), Value::Bytes(&long)];
    let later = format!("INSERT INTO t (p, v) VALUES (?, ?) USING TIMESTAMP {}", i64::MAX);
    database.write(&later, &values).unwrap();
    assert_eq!(database.ints(texts[1]), [1]);
}

#[test]
fn a_bound_value_has_one_form_however_deep_its_sets_lie() {
    let mut database = Database::new(&["CREATE TABLE t (p frozen<list<frozen<set<int>>>>, \
         c frozen<tuple<int, frozen<map<text, frozen<set<int>>>>>>, v int, PRIMARY KEY (p, c))"]);
    let number = |n: i32| n.to_be_bytes().to_vec();
    let (one, two) = (number(1), number(2));
    let sets = [vec![&one, &two], vec![&two, &one], vec![&two, &one, &two, &one]];
    for set in sets {
        let set = list(&set);
        let mut tuple = Vec::new();
        put_item(&mut tuple, Some(&one));
        put_item(&mut tuple, Some(&map(&[("k", &set)])));
        let values = [Value::Bytes(&list(&[&set])), Value::Bytes(&tuple), Value::Bytes(&one)];
        database.write("INSERT INTO t (p, c, v) VALUES (?, ?, ?)", &values).unwrap();
    }
    assert_eq!(database.rows.len(), 1);
    assert_eq!(database.ints("SELECT v FROM t WHERE p = [{2, 1}] AND c = (1, {'k': {1, 2}})"), [1]);
}

#[test]
fn distinct_tells_partitions_apart_and_nothing_else() {
    let database = measurements();
    let by_key = "SELECT DISTINCT with WHERE clause only supports restriction by partition key \
                  and/or static columns.";
    let missing = "SELECT DISTINCT queries must request all the partition key columns (missing ";
    let only = "SELECT DISTINCT queries must only request partition key columns and/or static \
                columns (not ";
    for (text, message) in [
        ("SELECT DISTINCT id FROM m", format!("{missing}bucket)")),
        ("SELECT DISTINCT bucket FROM m WHERE id = 1 ALLOW FILTERING", format!("{missing}id)")),
        ("SELECT DISTINCT count(*) FROM m", format!("{missing}id)")),
        ("SELECT DISTINCT id, bucket, ts FROM m", format!("{only}ts)")),
        ("SELECT DISTINCT writetime(v) FROM m", format!("{only}v)")),
        ("SELECT DISTINCT * FROM m", format!("{only}metric)")),
        ("SELECT DISTINCT id, bucket FROM m WHERE metric = 'a'", by_key.into()),
        ("SELECT DISTINCT id FROM m WHERE id = 1 AND bucket = 0 AND metric = 'a'", by_key.into()),
        ("SELECT DISTINCT id, bucket FROM m WHERE n = 1 ALLOW FILTERING", by_key.into()),
        (
            "SELECT DISTINCT id, bucket FROM m PER PARTITION LIMIT 0",
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries".into(),
        ),
    ] {
        assert_eq!(database.refused(text), message, "{text}");
    }
    let some = "SELECT DISTINCT id FROM m WHERE id IN (0, 2) AND bucket IN (0, 1)";
    assert_eq!(database.ints(some), [0, 2]);
    assert_eq!(database.read("SELECT DISTINCT token(id, bucket) FROM m", &ALL).0.len(), 3);
    let count = database.read("SELECT DISTINCT count(id), bucket FROM m", &ALL).0;
    assert_eq!(count[0][0].as_deref().unwrap()[7], 3);
}

#[test]
fn commas_may_follow_the_columns_of_a_table() {
    let database = Database::new(&["CREATE TABLE a (p int PRIMARY KEY, v int,)"]);
    for text in
        ["CREATE TABLE b (p int,, v int, PRIMARY KEY (p),)", "CREATE TABLE b (p int PRIMARY KEY,,)"]
    {
        assert!(prepared(&database.catalog, text).is_ok(), "{text}");
    }
    for text in ["CREATE TABLE b (, p int PRIMARY KEY)", "CREATE TABLE b (p int, PRIMARY KEY (p,))"]
    {
        assert!(prepared(&database.catalog, text).is_err(), "{text}");
    }
}

#[test]
fn the_entries_of_a_map_by_which_rows_descend_are_no_entries() {
    let table = |direction| {
        format!(
            "CREATE TABLE t (k int, c frozen<map<int, int>>, PRIMARY KEY (k, c)) \
             WITH CLUSTERING ORDER BY (c {direction})"
        )
    };
    for (direction, refused) in [
        ("ASC", "Map-entry equality predicates on frozen map column c are not supported"),
        ("DESC", "Column c cannot be used as a map"),
    ] {
        let database = Database::new(&[&table(direction)]);
        let text = "SELECT k FROM t WHERE c[1] = 1 ALLOW FILTERING";
        assert_eq!(database.refused(text), refused);
    }
}

#[test]
fn a_filter_by_in_takes_values_in_any_order() {
    let mut database =
        Database::new(&["CREATE TABLE t (p int, c int, d int, PRIMARY KEY (p, c, d))"]);
    for number in 0..8 {
        let text = format!("INSERT INTO t (p, c, d) VALUES (1, {number}, {})", 7 - number);
        database.write(&text, &[]).unwrap();
    }
    let found = database.ints("SELECT d FROM t WHERE d IN (5, -1, 0, 6, 3, 5) ALLOW FILTERING");
    assert_eq!(found, [6, 5, 3, 0]);
}
