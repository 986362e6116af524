//! From text to mutations, and from rows back to results, without storage in between.

mod answering;
mod elements;
mod large_elements;
mod many_rows;
mod pages;
mod rules;
mod statics;
mod udts;

use super::*;
use crate::{
    io::{ManualClock, Random, TimeSlice},
    mutation::{Item, Token, merge, mutations, shadow},
    schema::{
        Catalog,
        system::{NodeInfo, shape},
    },
    store::Page,
    types::{CqlType, Value, collection::Elements},
};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

const NOW_US: i64 = 1_700_000_000_000_000;
const CONTEXT: BindContext = BindContext { timestamp_us: NOW_US, now_us: NOW_US, random: 1 };

/// The rows of a result.
type ResultRows = Vec<Vec<Option<Vec<u8>>>>;

/// Where a storage that is asked for many rows stops all the same.
type Cuts = std::cell::RefCell<Random>;

/// A schema, and rows by (token, key, clustering key) as storage would keep them.
struct Database {
    catalog: Catalog,
    rows: BTreeMap<(Token, Vec<u8>, Vec<u8>), Vec<u8>>,
    /// Makes pages end before they must.
    cuts: Option<Cuts>,
    scratch: BindScratch,
}

fn prepared(catalog: &Catalog, text: &str) -> Result<Prepared, CqlError> {
    prepare(catalog, Some("ks"), parse(text)?)
}

impl Database {
    fn new(tables: &[&str]) -> Self {
        let mut database = Database {
            catalog: Catalog::default(),
            rows: BTreeMap::new(),
            cuts: None,
            scratch: BindScratch::default(),
        };
        database.define(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        for table in tables {
            database.define(table);
        }
        database
    }

    fn define(&mut self, text: &str) {
        let Plan::Ddl(ddl) = prepared(&self.catalog, text).unwrap().plan else { panic!("{text}") };
        let now_us = CONTEXT.timestamp_us;
        self.catalog = self.catalog.apply(&ddl, Uuid::nil(), now_us).unwrap().catalog.unwrap();
    }

    fn refused(&self, text: &str) -> String {
        match prepared(&self.catalog, text).map(|prepared| prepared.plan) {
            Err(error) => error.message,
            Ok(Plan::Ddl(ddl)) => self.catalog.apply(&ddl, Uuid::nil(), 0).unwrap_err().to_string(),
            Ok(Plan::Write(plan)) => {
                let mut out = Vec::new();
                let bound = plan.bind(&[], &CONTEXT, &mut BindScratch::default(), &mut out);
                bound.unwrap_err().message
            }
            Ok(Plan::Select(plan)) => {
                let options = ReadOptions { page_size: None, paging_state: None };
                plan.bind(&[], &options, &CONTEXT).unwrap_err().message
            }
            Ok(_) => panic!("taken: {text}"),
        }
    }

    fn write(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), CqlError> {
        let mut out = Vec::new();
        match prepared(&self.catalog, text)?.plan {
            Plan::Write(plan) => {
                plan.bind(values, &CONTEXT, &mut self.scratch, &mut out)?;
            }
            Plan::Batch(plan) => {
                plan.bind(values, &CONTEXT, &mut self.scratch, &mut out)?;
            }
            _ => panic!("no write: {text}"),
        }
        for mutation in mutations(&out) {
            let mutation = mutation.unwrap();
            mutation.check().unwrap();
            for item in mutation.items() {
                self.apply(mutation.token(), mutation.key(), item);
            }
        }
        Ok(())
    }

    fn apply(&mut self, token: Token, key: &[u8], item: Item<'_>) {
        let (from, to, deletion) = match item {
            Item::Row { ck, row } => {
                let merged = self.rows.entry((token, key.to_vec(), ck.to_vec())).or_default();
                if merged.is_empty() {
                    merged.extend_from_slice(row);
                    return;
                }
                let before = std::mem::take(merged);
                merge(&before, row, merged);
                return;
            }
            Item::PartitionDeletion(deletion) => (&[][..], &[0xFF][..], deletion),
            Item::RangeDeletion(range) => (range.from, range.to, range.deletion),
        };
        for ((_, other, ck), row) in &mut self.rows {
            if other == key && (from..to).contains(&ck.as_slice()) {
                let before = std::mem::take(row);
                shadow(&before, deletion.timestamp, row);
            }
        }
    }

    /// The values of all rows, and the paging state.
    fn read(&self, text: &str, options: &ReadOptions<'_>) -> (ResultRows, Option<Vec<u8>>) {
        self.try_read(text, options).unwrap()
    }

    fn try_read(
        &self,
        text: &str,
        options: &ReadOptions<'_>,
    ) -> Result<(ResultRows, Option<Vec<u8>>), CqlError> {
        let prepared = prepared(&self.catalog, text).unwrap();
        let Plan::Select(plan) = &prepared.plan else { panic!("no read: {text}") };
        let mut read = plan.bind(&[], options, &CONTEXT).unwrap();
        let mut out = Vec::new();
        // A row is taken in bit by bit if that is much work.
        let clock = ManualClock::ticking(0, 1);
        while let Some((_, request)) = read.next(plan, 3) {
            let mut time = TimeSlice::new(&clock, 0);
            read.accept(plan, &mut self.page(&request), 3, &mut out, &mut time)?;
            while !read.go_on(plan, 3, &mut out, &mut TimeSlice::new(&clock, 0))? {}
        }
        let (count, state) = read.finish(&mut out);
        let mut items = Elements(&out);
        let mut value = || items.item().unwrap().map(<[u8]>::to_vec);
        let row = |_| prepared.result.iter().map(|_| value()).collect();
        let rows = (0..count).map(row).collect();
        assert!(items.is_empty());
        Ok((rows, state))
    }

    /// The first column of each row, an int.
    fn ints(&self, text: &str) -> Vec<i32> {
        let options = ReadOptions { page_size: None, paging_state: None };
        let (rows, _) = self.read(text, &options);
        rows.iter().map(|row| int(row[0].as_deref().unwrap())).collect()
    }
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().unwrap())
}

fn measurements() -> Database {
    let mut database = Database::new(&[
        "CREATE TABLE m (id int, bucket int, metric text, ts int, v double, n int, \
         PRIMARY KEY ((id, bucket), metric, ts)) \
         WITH CLUSTERING ORDER BY (metric ASC, ts DESC)",
    ]);
    for id in 0..3 {
        for metric in ["a", "b"] {
            for ts in 0..5 {
                let text = format!(
                    "INSERT INTO m (id, bucket, metric, ts, n) \
                     VALUES ({id}, 0, '{metric}', {ts}, {ts})"
                );
                database.write(&text, &[]).unwrap();
            }
        }
    }
    database
}

#[test]
fn rows_come_back_in_clustering_order() {
    let database = measurements();
    let of = "SELECT ts FROM m WHERE id = 1 AND bucket = 0 AND metric = 'a'";
    assert_eq!(database.ints(of), [4, 3, 2, 1, 0]);
    assert_eq!(database.ints(&format!("{of} AND ts > 1 AND ts <= 3")), [3, 2]);
    assert_eq!(database.ints(&format!("{of} AND ts >= 3")), [4, 3]);
    assert_eq!(database.ints(&format!("{of} AND ts IN (0, 4, 2)")), [4, 2, 0]);
    assert_eq!(database.ints(&format!("{of} AND ts < 2 ORDER BY ts ASC")), [0, 1]);
    assert_eq!(database.ints(&format!("{of} LIMIT 2")), [4, 3]);
    let of = "SELECT ts FROM m WHERE id = 1 AND bucket = 0";
    assert_eq!(database.ints(of), [4, 3, 2, 1, 0, 4, 3, 2, 1, 0]);
    assert_eq!(database.ints(&format!("{of} AND metric > 'a' LIMIT 1")), [4]);
    assert_eq!(database.ints(&format!("{of} PER PARTITION LIMIT 3")), [4, 3, 2]);
    assert_eq!(database.ints(&format!("{of} AND n = 2 ALLOW FILTERING")), [2, 2]);
}

#[test]
fn every_page_size_gives_every_row_once() {
    let database = measurements();
    for text in [
        "SELECT id, ts FROM m",
        "SELECT id, ts FROM m LIMIT 7",
        "SELECT id, ts FROM m PER PARTITION LIMIT 4",
        "SELECT DISTINCT id, bucket FROM m",
        "SELECT id, ts FROM m WHERE id = 2 AND bucket = 0 AND metric IN ('a', 'b') AND ts > 1",
        "SELECT id, ts FROM m WHERE id IN (0, 2) AND bucket = 0 AND metric = 'b'",
        "SELECT id, ts FROM m WHERE id = 2 AND bucket = 0 ORDER BY metric DESC, ts ASC",
        "SELECT id, ts FROM m WHERE n > 2 ALLOW FILTERING",
    ] {
        let (all, state) =
            database.read(text, &ReadOptions { page_size: None, paging_state: None });
        assert!(state.is_none() && !all.is_empty(), "{text}");
        for size in 1..8 {
            let (mut rows, mut state) = (Vec::new(), None);
            loop {
                let options = ReadOptions { page_size: Some(size), paging_state: state.as_deref() };
                let (page, next) = database.read(text, &options);
                assert!(page.len() <= size as usize);
                rows.extend(page);
                state = next;
                if state.is_none() {
                    break;
                }
            }
            assert_eq!(rows, all, "{text} in pages of {size}");
        }
    }
}

#[test]
fn markers_are_named_and_routed_as_cassandra_does() {
    let database = measurements();
    let spec = |text: &str| {
        let prepared = prepared(&database.catalog, text).unwrap();
        let names: Vec<String> = prepared.bind.into_iter().map(|spec| spec.name).collect();
        (names.join(" "), prepared.pk_indexes)
    };
    let insert = "INSERT INTO m (bucket, id, metric, ts, v) VALUES (?, ?, ?, ?, ?) \
                  USING TTL ? AND TIMESTAMP ?";
    assert_eq!(spec(insert), ("bucket id metric ts v [ttl] [timestamp]".into(), vec![1, 0]));
    let select = "SELECT v FROM m WHERE id = :i AND bucket IN ? AND metric = ? LIMIT ?";
    assert_eq!(spec(select), ("i in(bucket) metric [limit]".into(), vec![]));
    let select = "SELECT v FROM m WHERE id = ? AND bucket IN (?, ?)";
    assert_eq!(spec(select), ("id bucket bucket".into(), vec![0, 2]));
    let select = "SELECT v FROM m WHERE token(id, bucket) > token(?, :b)";
    assert_eq!(spec(select), ("arg0(system.token) b".into(), vec![]));
    let select = "SELECT v FROM m WHERE token(id, bucket) > ?";
    assert_eq!(spec(select), ("partition key token".into(), vec![]));
}

#[test]
fn null_deletes_and_unset_leaves_alone() {
    let mut database = measurements();
    let key = [7i32.to_be_bytes(), 1i32.to_be_bytes()];
    let text = "INSERT INTO m (id, bucket, metric, ts, n) VALUES (?, 0, 'x', ?, ?)";
    let mut write = |value| {
        let values = [Value::Bytes(&key[0]), Value::Bytes(&key[1]), value];
        database.write(text, &values).unwrap();
        let of = "SELECT n FROM m WHERE id = 7 AND bucket = 0";
        let options = ReadOptions { page_size: None, paging_state: None };
        database.read(of, &options).0[0][0].as_deref().map(int)
    };
    assert_eq!(write(Value::Bytes(&key[1])), Some(1));
    assert_eq!(write(Value::Unset), Some(1));
    assert_eq!(write(Value::Null), None);
    let values = [Value::Null, Value::Bytes(&key[1]), Value::Unset];
    let refused = database.write(text, &values).unwrap_err();
    assert_eq!(refused.message, "Invalid null value in condition for column id");
}

#[test]
fn what_makes_no_sense_is_refused_in_cassandras_words() {
    let database = measurements();
    for (text, message) in [
        ("SELECT x FROM m", "Undefined column name x in table ks.m"),
        ("SELECT \"X y\" FROM m", "Undefined column name \"X y\" in table ks.m"),
        ("SELECT v FROM nope", "table nope does not exist"),
        ("INSERT INTO m (id) VALUES (1)", "Some partition key parts are missing: bucket"),
        ("INSERT INTO m (id, bucket) VALUES (1)", "Unmatched column names/values"),
        ("UPDATE m SET id = 1 WHERE bucket = 1", "PRIMARY KEY part id found in SET part"),
        (
            "UPDATE m SET v = 1 WHERE id = 1 AND bucket = 1",
            "Some clustering keys are missing: metric, ts",
        ),
        (
            "SELECT v FROM m WHERE id = 1 AND bucket = 1 AND ts = 1",
            "PRIMARY KEY column \"ts\" cannot be restricted as preceding column \"metric\" is \
             not restricted",
        ),
        ("SELECT v FROM m LIMIT 0", "LIMIT must be strictly positive"),
        (
            "UPDATE m SET n = n + 1 WHERE id = 1",
            "Invalid operation (n = n + 1) for non counter column n",
        ),
        (
            "INSERT INTO m (id, bucket, metric, ts) VALUES (1, 1, 'a', 1) USING TTL -1",
            "A TTL must be greater or equal to 0, but was -1",
        ),
        (
            "INSERT INTO m (id, bucket, metric, ts) VALUES (1, 1, 'a', 1) USING TTL 630720001",
            "ttl is too large. requested (630720001) maximum (630720000)",
        ),
        ("SELEC", "line 1:0 no viable alternative at input 'SELEC'"),
        ("SELECT v\nFROM m WHERE", "line 2:12 no viable alternative at input '<EOF>'"),
    ] {
        assert_eq!(database.refused(text), message, "{text}");
    }
}

#[test]
fn a_statement_planned_before_a_change_of_its_table_is_not_current() {
    let mut database = measurements();
    let select = prepared(&database.catalog, "SELECT * FROM m").unwrap();
    let local = prepared(&database.catalog, "SELECT * FROM system.local").unwrap();
    assert!(select.is_current(&database.catalog));
    database.define("ALTER TABLE m ADD extra text");
    assert!(!select.is_current(&database.catalog));
    assert!(local.is_current(&database.catalog));
    let restored = Catalog::from_json(&database.catalog.to_json()).unwrap();
    assert_eq!(restored, database.catalog);
}

#[test]
fn system_tables_answer_prepared_questions() {
    let database = measurements();
    let node = NodeInfo {
        address: [127, 0, 0, 1].into(),
        port: 9042,
        host_id: Uuid::nil(),
        cluster_name: "test".into(),
        version: "1.0".into(),
        tokens: vec![0],
        traces: Arc::default(),
    };
    let ask = |text: &str, values: &[Value<'_>]| {
        let prepared = prepared(&database.catalog, text).unwrap();
        let catalog = Arc::new(database.catalog.clone());
        let options = ReadOptions { page_size: None, paging_state: None };
        let begin = || Listing::begin(&prepared.plan, &catalog, values, &options, &CONTEXT);
        let (mut whole, mut out) = (begin().unwrap(), Vec::new());
        assert_eq!(
            whole.go_on(&prepared.plan, &node, &mut TimeSlice::endless(), &mut out),
            Ok(true)
        );
        // A keyspace, a table or a type at a time it is the same.
        let (mut listing, mut piecewise, clock) = (begin().unwrap(), vec![], ManualClock::at(0));
        let mut go_on =
            || listing.go_on(&prepared.plan, &node, &mut TimeSlice::new(&clock, 0), &mut piecewise);
        while !go_on().unwrap() {}
        assert_eq!(piecewise, out, "{text}");
        let rows = whole.finish().0;
        assert_eq!(listing.finish().0, rows, "{text}");
        (rows, out)
    };
    let text = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND \
                table_name = 'm' USING TIMEOUT 2000ms";
    assert_eq!(ask(text, &[Value::Bytes(b"ks")]).0, 6);
    assert_eq!(ask("SELECT * FROM system_schema.keyspaces LIMIT 2", &[]).0, 2);
    let all = ask("SELECT * FROM system_schema.columns", &[]).0;
    let counted = ask("SELECT count(*) FROM system_schema.columns", &[]);
    let expected = [&8i32.to_be_bytes()[..], &i64::from(all).to_be_bytes()].concat();
    assert_eq!(counted, (1, expected));
    assert_eq!(ask("DESCRIBE KEYSPACE ks", &[]).0, 2);
    let (rows, out) = ask("SELECT key, engine FROM system.local WHERE key = 'local'", &[]);
    let expected = [&5i32.to_be_bytes()[..], b"local", &16i32.to_be_bytes(), b"sandglass-db 1.0"];
    assert_eq!((rows, out), (1, expected.concat()));
    assert_eq!(ask("SELECT * FROM system.peers", &[]).0, 0);
    assert_eq!(
        shape("system", "local").unwrap().column("tokens").unwrap().type_name(),
        "set<text>"
    );
    assert!(prepared(&database.catalog, "SELECT * FROM system_schema.scylla_tables").is_err());
}

#[test]
fn rows_are_counted_and_summed_up() {
    let database = measurements();
    let options = ReadOptions { page_size: Some(2), paging_state: None };
    let (rows, state) = database.read("SELECT count(*), max(n), sum(n), avg(n) FROM m", &options);
    let value = |i: usize| rows[0][i].clone().unwrap();
    assert!(state.is_none());
    assert_eq!(value(0), 30i64.to_be_bytes());
    assert_eq!([int(&value(1)), int(&value(2)), int(&value(3))], [4, 60, 2]);
    assert_eq!(CqlType::Bigint.to_string(), "bigint");
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,80}", at in 0usize..400, cut in 0usize..400) {
        let _ = parse(&text);
        let whole = "SELECT a, count(*), token(b) AS t FROM ks.t WHERE a = ? AND (b, c) > (1, 'x') \
            AND d IN (0xFF, {1: [2]}) ORDER BY b DESC LIMIT 5 ALLOW FILTERING; CREATE TABLE \
            t (a int, b frozen<map<text, int>>, PRIMARY KEY ((a), b)) WITH x = {'a': 'b'}";
        let (at, cut) = (at.min(whole.len()), cut.min(whole.len()));
        let _ = parse(&format!("{}{text}{}", &whole[..at], &whole[cut..]));
    }
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    for open in ["(", "[", "{", "f(", "{1:"] {
        let text = format!("INSERT INTO t (a) VALUES ({}", open.repeat(100_000));
        assert!(parse(&text).is_err());
    }
    let text = format!("CREATE TABLE t (a {}", "list<".repeat(100_000));
    assert!(parse(&text).is_err());
    let text = format!("SELECT {}", "f(".repeat(100_000));
    assert!(parse(&text).is_err());
}

#[test]
fn rows_of_one_partition_that_follow_each_other_in_a_batch_are_one_mutation() {
    let database = Database::new(&[
        "CREATE TABLE m (id int, ts int, n int, PRIMARY KEY (id, ts))",
        "CREATE TABLE other (id int, ts int, n int, PRIMARY KEY (id, ts))",
    ]);
    let insert =
        |table: &str, id, ts| format!("INSERT INTO {table} (id, ts, n) VALUES ({id}, {ts}, 1);");
    let text = [
        "BEGIN BATCH".to_owned(),
        [insert("m", 1, 1), insert("m", 1, 2), insert("m", 2, 3), insert("m", 1, 4)].concat(),
        "DELETE FROM m WHERE id = 1;".to_owned(),
        [insert("m", 1, 5), insert("other", 1, 6)].concat(),
        "APPLY BATCH".to_owned(),
    ];
    let Plan::Batch(plan) = prepared(&database.catalog, &text.join(" ")).unwrap().plan else {
        panic!("it is a batch")
    };
    let mut out = Vec::new();
    plan.bind(&[], &CONTEXT, &mut BindScratch::default(), &mut out).unwrap();
    let found: Vec<_> = mutations(&out)
        .map(|mutation| {
            let mutation = mutation.unwrap();
            mutation.check().unwrap();
            (int(mutation.key()), mutation.items().count())
        })
        .collect();
    assert_eq!(found, [(1, 2), (2, 1), (1, 3), (1, 1)]);
}
