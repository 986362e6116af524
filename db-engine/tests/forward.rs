//! Requests that reach a shard which does not own their partitions: every connection of every
//! number of shards gives the same answers.

mod wire;

use std::collections::BTreeMap;
use tempfile::tempdir;
use wire::{
    client::{Answer, Client, batch, frame, long_string, op},
    engine::Engine,
};

const PARTITIONS: i32 = 300;
const ROWS: i32 = 3;

/// A statement as text with a page size and where the page begins.
fn page(client: &mut Client, text: &str, rows: i32, state: Option<&[u8]>) -> Answer {
    let mut body = long_string(text);
    body.extend_from_slice(&[0, 1, if state.is_some() { 0x0C } else { 0x04 }]);
    body.extend_from_slice(&rows.to_be_bytes());
    if let Some(state) = state {
        body.extend_from_slice(&u32::try_from(state.len()).expect("short").to_be_bytes());
        body.extend_from_slice(state);
    }
    client.ask(op::QUERY, &body).expect("an answer")
}

fn int(cell: Option<&Vec<u8>>) -> i32 {
    i32::from_be_bytes(cell.expect("a value").as_slice().try_into().expect("four bytes"))
}

/// Key, clustering key and value of each row, in the order given, page by page.
fn rows(client: &mut Client, text: &str, page_rows: i32) -> Vec<(i32, i32, i32)> {
    let (mut all, mut state) = (Vec::new(), None);
    loop {
        let (rows, next) = page(client, text, page_rows, state.as_deref()).rows();
        let most = usize::try_from(page_rows).expect("positive");
        assert!(rows.len() <= most, "a page of {} rows", rows.len());
        for row in &rows {
            let [k, c, v] = [0, 1, 2].map(|place| int(row[place].as_ref()));
            all.push((k, c, v));
        }
        state = next;
        if state.is_none() {
            return all;
        }
    }
}

fn count(client: &mut Client, text: &str) -> i64 {
    let rows = client.run(text).rows().0;
    let bytes = rows[0][0].as_ref().expect("a count");
    i64::from_be_bytes(bytes.as_slice().try_into().expect("eight bytes"))
}

fn fill(engine: &Engine) -> BTreeMap<(i32, i32), i32> {
    let mut clients: Vec<Client> =
        (0..6).map(|_| Client::connect(engine.cql).expect("it serves")).collect();
    clients[0].run(
        "CREATE KEYSPACE f WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    clients[0].run("CREATE TABLE f.t (k int, c int, v int, PRIMARY KEY (k, c))");
    let mut written = BTreeMap::new();
    for k in 0..PARTITIONS {
        let number = usize::try_from(k).expect("positive") % clients.len();
        let client = &mut clients[number];
        if k % 3 == 0 {
            for c in 0..ROWS {
                client.run(&format!("INSERT INTO f.t (k, c, v) VALUES ({k}, {c}, {})", k + c));
            }
        } else {
            // A batch over this partition and the two next, logged or not.
            let insert = client.prepare("INSERT INTO f.t (k, c, v) VALUES (?, ?, ?)");
            let cell = |n: i32| n.to_be_bytes().to_vec();
            let triples = (k..k + 3).flat_map(|k| (0..ROWS).map(move |c| (k, c)));
            let values: Vec<_> =
                triples.map(|(k, c)| vec![cell(k), cell(c), cell(k + c)]).collect();
            let kind = u8::from(k % 3 == 1);
            let answer = client.ask(op::BATCH, &batch(kind, &insert, &values));
            assert_eq!(answer.expect("an answer").kind(), 1);
        }
        for (k, c) in (k..k + if k % 3 == 0 { 1 } else { 3 }).flat_map(|k| [(k, 0), (k, 1), (k, 2)])
        {
            written.insert((k, c), k + c);
        }
    }
    written
}

fn check(engine: &Engine, written: &BTreeMap<(i32, i32), i32>) {
    for _ in 0..3 {
        let mut client = Client::connect(engine.cql).expect("it serves");
        let all = rows(&mut client, "SELECT k, c, v FROM f.t", 10_000);
        assert_eq!(all.len(), written.len());
        for page_rows in [1, 7, 100] {
            let paged = rows(&mut client, "SELECT k, c, v FROM f.t", page_rows);
            assert_eq!(paged, all, "pages of {page_rows}");
        }
        let read: BTreeMap<_, _> = all.iter().map(|(k, c, v)| ((*k, *c), *v)).collect();
        assert_eq!(&read, written);
        let expected = i64::try_from(written.len()).expect("few");
        assert_eq!(count(&mut client, "SELECT count(*) FROM f.t"), expected);
        let halves = ["token(k) < 0", "token(k) >= 0"]
            .map(|half| rows(&mut client, &format!("SELECT k, c, v FROM f.t WHERE {half}"), 50));
        assert_eq!(halves.concat(), all, "in the order of tokens");
        let some = rows(&mut client, "SELECT k, c, v FROM f.t WHERE k IN (5, 150, 299, 7)", 2);
        let expected: Vec<_> = [5, 7, 150, 299]
            .into_iter()
            .flat_map(|k| (0..ROWS).map(move |c| (k, c, k + c)))
            .collect();
        assert_eq!(some, expected);
        for k in (0..PARTITIONS).step_by(17) {
            let text = format!("SELECT k, c, v FROM f.t WHERE k = {k} ORDER BY c DESC");
            let row = rows(&mut client, &text, 100);
            assert_eq!(row, [(k, 2, k + 2), (k, 1, k + 1), (k, 0, k)]);
        }
    }
}

#[test]
fn every_connection_answers_for_every_shard() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "3"]);
    let written = fill(&engine);
    check(&engine, &written);
    assert!(engine.metric("sandglass_db_reactor_hops_total") > 0, "some were forwarded");
    assert_eq!(engine.stop("-TERM"), Some(0));
    for shards in ["1", "2", "3", "1"] {
        let engine = Engine::start(directory.path(), &["--shards", shards]);
        check(&engine, &written);
        assert_eq!(engine.stop("-TERM"), Some(0), "{shards} shards");
    }
}

#[test]
fn a_broken_paging_state_is_an_error_of_its_request_alone() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    fill(&engine);
    let mut client = Client::connect(engine.cql).expect("it serves");
    let text = "SELECT k, c, v FROM f.t";
    let state = page(&mut client, text, 5, None).rows().1.expect("there is more");
    for place in 0..state.len() {
        let mut broken = state.clone();
        broken[place] ^= 1;
        assert_eq!(page(&mut client, text, 5, Some(&broken)).code(), 0x0A, "byte {place}");
    }
    assert_eq!(page(&mut client, text, 5, Some(&state)).rows().0.len(), 5);
}

#[test]
fn a_long_scan_does_not_keep_others_waiting() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("it serves");
    client.run(
        "CREATE KEYSPACE f WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run("CREATE TABLE f.t (k int, c int, v int, PRIMARY KEY (k, c))");
    let insert = client.prepare("INSERT INTO f.t (k, c, v) VALUES (?, ?, ?)");
    let cell = |n: i32| n.to_be_bytes().to_vec();
    for start in (0..60_000).step_by(1000) {
        let values: Vec<_> =
            (start..start + 1000).map(|n| vec![cell(n % 100), cell(n), cell(n)]).collect();
        let answer = client.ask(op::BATCH, &batch(1, &insert, &values));
        assert_eq!(answer.expect("an answer").kind(), 1);
    }
    // A count of all rows, then something short on the same connection: it is answered first.
    let mut body = long_string("SELECT count(*) FROM f.t");
    body.extend_from_slice(&[0, 1, 0]);
    let mut both = frame(1, op::QUERY, &body);
    both.extend(frame(2, op::OPTIONS, &[]));
    client.send(&both).expect("it reads");
    let streams = [(); 2].map(|()| client.receive().expect("an answer").stream);
    assert_eq!(streams, [2, 1]);
    assert_eq!(count(&mut client, "SELECT count(*) FROM f.t"), 60_000);
}
