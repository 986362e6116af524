//! The real binary: keys of 65,535 bytes, most of them zeros, which take two bytes each where they
//! are put in order. They must survive a replay, a flush and a restart.

mod wire;

use std::path::Path;
use tempfile::tempdir;
use wire::{
    client::{Answer, Client, Row, execute, execute_page, op},
    engine::Engine,
};

/// The most bytes of a partition key, and of all values of a clustering key together.
const KEY_BYTES_MAX: usize = 65_535;

const PARTITION: [u8; 4] = 1_i32.to_be_bytes();

/// A partition key and the values of a clustering key.
type Key = (Vec<u8>, Vec<u8>);

/// Keys around the limit of one value, of the first and of the second of two.
fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    for length in [0, 1, 32_767, KEY_BYTES_MAX - 1, KEY_BYTES_MAX] {
        for byte in [0x00, 0x41, 0xFF] {
            let long = vec![byte; length];
            keys.push((long.clone(), Vec::new()));
            keys.push((Vec::new(), long.clone()));
            keys.push((long, vec![0; KEY_BYTES_MAX - length]));
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

struct Statements {
    insert: Vec<u8>,
    delete: Vec<u8>,
    one: Vec<u8>,
    all: Vec<u8>,
    reversed: Vec<u8>,
    beyond: Vec<u8>,
    below: Vec<u8>,
}

fn serve(directory: &Path, table: &str) -> (Engine, Client, Statements) {
    // Little is cached, so that blocks are read again.
    let arguments = ["--shards", "1", "--memory", "64MiB"];
    let engine = Engine::start(directory, &arguments);
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run(
        "CREATE KEYSPACE IF NOT EXISTS k WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let columns = "(p int, c blob, d blob, v int, PRIMARY KEY (p, c, d))";
    for (name, order) in [("up", "c ASC, d ASC"), ("down", "c DESC, d DESC")] {
        client.run(&format!(
            "CREATE TABLE IF NOT EXISTS k.{name} {columns} WITH CLUSTERING ORDER BY ({order})"
        ));
    }
    client.run("CREATE TABLE IF NOT EXISTS k.by_key (p blob PRIMARY KEY, v int)");
    let mut prepare = |text: &str| client.prepare(&text.replace("TABLE", table));
    let statements = Statements {
        insert: prepare("INSERT INTO k.TABLE (p, c, d, v) VALUES (?, ?, ?, ?)"),
        delete: prepare("DELETE FROM k.TABLE WHERE p = ? AND c = ? AND d = ?"),
        one: prepare("SELECT v FROM k.TABLE WHERE p = ? AND c = ? AND d = ?"),
        all: prepare("SELECT c, d, v FROM k.TABLE WHERE p = ?"),
        reversed: prepare("SELECT c, d, v FROM k.TABLE WHERE p = ? ORDER BY c DESC, d DESC"),
        beyond: prepare("SELECT c, d, v FROM k.TABLE WHERE p = ? AND (c, d) > (?, ?)"),
        below: prepare("SELECT c, d, v FROM k.TABLE WHERE p = ? AND c <= ?"),
    };
    (engine, client, statements)
}

fn run(client: &mut Client, id: &[u8], values: &[&[u8]]) -> Answer {
    client.ask(op::EXECUTE, &execute(id, values)).expect("an answer")
}

/// All rows, in pages of so many.
fn pages(client: &mut Client, id: &[u8], values: &[&[u8]], rows: i32) -> Vec<Row> {
    let (mut all, mut state) = (Vec::new(), None);
    loop {
        let body = execute_page(id, values, rows, state.as_deref());
        let (rows, next) = client.ask(op::EXECUTE, &body).expect("an answer").rows();
        all.extend(rows);
        state = next;
        if state.is_none() {
            return all;
        }
    }
}

fn row((number, (c, d)): &(usize, Key)) -> Row {
    let value = u32::try_from(*number).expect("few").to_be_bytes().to_vec();
    vec![Some(c.clone()), Some(d.clone()), Some(value)]
}

/// What is read is what is there: all of these rows, ascending, and none else.
fn check(client: &mut Client, statements: &Statements, table: &str, rows: &[(usize, Key)]) {
    let ascending: Vec<Row> = rows.iter().map(row).collect();
    let descending: Vec<Row> = ascending.iter().rev().cloned().collect();
    let is_up = table == "up";
    for page in [1, 7, 1_000] {
        let all = pages(client, &statements.all, &[&PARTITION], page);
        assert!(all == if is_up { &ascending[..] } else { &descending }, "pages of {page}");
        let reversed = pages(client, &statements.reversed, &[&PARTITION], page);
        assert!(reversed == descending, "reversed, pages of {page}");
    }
    for (number, (c, d)) in rows {
        let found = run(client, &statements.one, &[&PARTITION, c, d]).rows().0;
        assert_eq!(found, [row(&(*number, (c.clone(), d.clone())))[2..].to_vec()]);
    }
    for (c, d) in keys().iter().step_by(5) {
        let in_order = |mut rows: Vec<Row>| {
            if !is_up {
                rows.reverse();
            }
            rows
        };
        let beyond = pages(client, &statements.beyond, &[&PARTITION, c, d], 3);
        let wanted = rows.iter().filter(|(_, key)| key > &(c.clone(), d.clone())).map(row);
        assert!(in_order(beyond) == wanted.collect::<Vec<_>>(), "beyond {} bytes", c.len());
        let below = pages(client, &statements.below, &[&PARTITION, c], 3);
        let wanted = rows.iter().filter(|(_, key)| key.0 <= *c).map(row);
        assert!(in_order(below) == wanted.collect::<Vec<_>>(), "up to {} bytes", c.len());
    }
}

fn check_table(table: &str) {
    let directory = tempdir().expect("a directory");
    let (engine, mut client, statements) = serve(directory.path(), table);
    let mut rows: Vec<(usize, Key)> = keys().into_iter().enumerate().collect();
    for (number, (c, d)) in rows.iter().rev() {
        let value = u32::try_from(*number).expect("few").to_be_bytes();
        run(&mut client, &statements.insert, &[&PARTITION, c, d, &value]).kind();
    }
    check(&mut client, &statements, table, &rows);
    engine.kill();
    let (engine, mut client, statements) = serve(directory.path(), table);
    check(&mut client, &statements, table, &rows);
    assert_eq!(engine.stop("-TERM"), Some(0));
    let (engine, mut client, statements) = serve(directory.path(), table);
    check(&mut client, &statements, table, &rows);
    // What is deleted is gone, in the memtable and, later, in the sstable.
    let mut number = 0;
    rows.retain(|(_, (c, d))| {
        number += 1;
        if number % 3 == 0 {
            run(&mut client, &statements.delete, &[&PARTITION, c, d]).kind();
        }
        number % 3 != 0
    });
    check(&mut client, &statements, table, &rows);
    assert_eq!(engine.stop("-TERM"), Some(0));
    let (_engine, mut client, statements) = serve(directory.path(), table);
    check(&mut client, &statements, table, &rows);
}

#[test]
fn clustering_keys_of_the_longest_length_are_kept() {
    check_table("up");
}

#[test]
fn descending_clustering_keys_of_the_longest_length_are_kept() {
    check_table("down");
}

#[test]
fn longer_keys_are_refused_as_cassandra_does() {
    let directory = tempdir().expect("a directory");
    let (_engine, mut client, statements) = serve(directory.path(), "up");
    let zero = 0_i32.to_be_bytes();
    for (c, d) in [(KEY_BYTES_MAX + 1, 0), (0, KEY_BYTES_MAX + 1), (40_000, 25_536)] {
        let (c, d) = (vec![0; c], vec![0xFF; d]);
        let refused = [
            run(&mut client, &statements.insert, &[&PARTITION, &c, &d, &zero]),
            run(&mut client, &statements.delete, &[&PARTITION, &c, &d]),
        ];
        for refused in refused {
            assert_eq!(refused.code(), 0x2200);
            assert_eq!(refused.message(), "Key length of 65536 is longer than maximum of 65535");
        }
        // No row can be there, which is no mistake.
        let found = run(&mut client, &statements.one, &[&PARTITION, &c, &d]).rows().0;
        assert_eq!(found, Vec::<Row>::new());
    }
    let insert = client.prepare("INSERT INTO k.by_key (p, v) VALUES (?, 1)");
    let select = client.prepare("SELECT v FROM k.by_key WHERE p = ?");
    let mut key = vec![0; KEY_BYTES_MAX];
    run(&mut client, &insert, &[&key]).kind();
    assert_eq!(run(&mut client, &select, &[&key]).rows().0.len(), 1);
    key.push(0);
    for id in [insert, select] {
        let refused = run(&mut client, &id, &[&key]);
        assert_eq!(refused.message(), "Key length of 65536 is longer than maximum of 65535");
    }
}

#[test]
fn values_that_are_far_longer_in_order_are_refused_plainly() {
    let directory = tempdir().expect("a directory");
    let (_engine, mut client, _) = serve(directory.path(), "up");
    let fields = vec!["int"; 40].join(", ");
    client.run(&format!(
        "CREATE TABLE k.wide (p int, c frozen<list<frozen<tuple<{fields}>>>>, PRIMARY KEY (p, c))"
    ));
    let insert = client.prepare("INSERT INTO k.wide (p, c) VALUES (1, ?)");
    let tuples = |count: u32| {
        // Each has one field, which is null; those that are not there are null, too.
        let tuple = [4_i32.to_be_bytes(), (-1_i32).to_be_bytes()].concat();
        [&count.to_be_bytes()[..], &tuple.repeat(count as usize)].concat()
    };
    run(&mut client, &insert, &[&tuples(6_000)]).kind();
    let refused = run(&mut client, &insert, &[&tuples(7_000)]);
    assert_eq!(refused.code(), 0x2200);
    let message = refused.message();
    assert!(message.starts_with("A clustering key of 56004 bytes takes 287002"), "{message}");
}
