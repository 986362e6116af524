//! What `system_traces` tells of requests that ask to be traced, over the wire.

mod wire;

use std::{thread::sleep, time::Duration};
use tempfile::tempdir;
use wire::{
    client::{Answer, Client, Row, batch, execute, frame, long_string, op, startup},
    engine::Engine,
};

const VOID: i32 = 1;
const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// What is told of one request.
#[derive(Debug)]
struct Told {
    request: String,
    parameters: String,
    duration_us: i32,
    /// Microseconds since the request came, and what was done.
    events: Vec<(i32, String)>,
}

impl Told {
    fn says(&self, what: &str) -> bool {
        self.events.iter().any(|(_, activity)| activity.contains(what))
    }
}

fn text(row: &Row, column: usize) -> String {
    String::from_utf8_lossy(row[column].as_ref().expect("a value")).into_owned()
}

fn int(row: &Row, column: usize) -> i32 {
    let bytes = row[column].as_ref().expect("a value").as_slice();
    i32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Reads the trace of an answer as a driver does.
fn told(client: &mut Client, answer: &Answer) -> Told {
    let id = answer.trace.as_ref().unwrap_or_else(|| panic!("no trace: {answer:?}"));
    assert_eq!(id[6] >> 4, 1, "a UUID of version 1");
    let id = uuid::Uuid::from_slice(id).expect("sixteen bytes");
    let columns = "request, parameters, duration, client, coordinator, started_at";
    let query = format!("SELECT {columns} FROM system_traces.sessions WHERE session_id = {id}");
    let (rows, _) = client.run(&query).rows();
    let [session] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(session[3].as_deref(), Some(&[127, 0, 0, 1][..]), "the client");
    assert_eq!(session[4].as_deref(), Some(&[127, 0, 0, 1][..]), "the coordinator");
    assert_eq!(session[5].as_ref().map(Vec::len), Some(8), "when it began");
    let columns = "source_elapsed, activity, event_id, thread";
    let query = format!("SELECT {columns} FROM system_traces.events WHERE session_id = {id}");
    let (rows, _) = client.run(&query).rows();
    let mut ids: Vec<_> = rows.iter().map(|row| row[2].clone()).collect();
    ids.dedup();
    assert_eq!(ids.len(), rows.len(), "each event has its own identifier");
    assert!(rows.iter().all(|row| text(row, 3).starts_with("shard-")));
    let told = Told {
        request: text(session, 0),
        parameters: text(session, 1),
        duration_us: int(session, 2),
        events: rows.iter().map(|row| (int(row, 0), text(row, 1))).collect(),
    };
    let mut times: Vec<_> = told.events.iter().map(|(us, _)| *us).collect();
    times.push(told.duration_us);
    assert!(times.is_sorted(), "{told:?}");
    told
}

/// The body of a QUERY at consistency ONE.
fn query(text: &str) -> Vec<u8> {
    let mut body = long_string(text);
    body.extend_from_slice(&[0, 1, 0]);
    body
}

fn with_table(engine: &Engine) -> Client {
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run(KEYSPACE);
    client.run("CREATE TABLE ks.t (k text PRIMARY KEY, v int)");
    client
}

#[test]
fn every_kind_of_request_can_be_traced() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = with_table(&engine);
    let untraced = client.run("INSERT INTO ks.t (k, v) VALUES ('z', 1)");
    assert_eq!(untraced.trace, None);
    let insert_text = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
    let (insert, select) =
        (client.prepare(insert_text), client.prepare("SELECT v FROM ks.t WHERE k = ?"));
    let row = vec![b"b".to_vec(), 7i32.to_be_bytes().to_vec()];
    let written = "in the commit log";
    for (opcode, body, request, parameter, activity) in [
        (
            op::QUERY,
            query("INSERT INTO ks.t (k, v) VALUES ('a', 1)"),
            "Execute CQL3 query",
            "INSERT INTO ks.t (k, v) VALUES ('a', 1)",
            written,
        ),
        (op::PREPARE, long_string(insert_text), "Preparing CQL3 query", insert_text, "Preparing"),
        (
            op::EXECUTE,
            execute(&insert, &[b"hidden", &7i32.to_be_bytes()]),
            "Execute CQL3 prepared query",
            insert_text,
            written,
        ),
        (
            op::EXECUTE,
            execute(&select, &[b"hidden"]),
            "Execute CQL3 prepared query",
            "SELECT v FROM ks.t WHERE k = ?",
            "Read 1 live rows, merged from 1 in 1 memtables and 0 sstables",
        ),
        (
            op::BATCH,
            batch(0, &insert, &[row.clone(), row]),
            "Execute batch of CQL3 queries",
            "ONE",
            written,
        ),
        (
            op::QUERY,
            query("SELECT release_version FROM system.local"),
            "Execute CQL3 query",
            "system.local",
            "system table",
        ),
        (
            op::QUERY,
            query("CREATE TABLE ks.u (k text PRIMARY KEY)"),
            "Execute CQL3 query",
            "CREATE TABLE",
            "Changing the schema",
        ),
    ] {
        let answer = client.ask_traced(opcode, &body).expect("an answer");
        assert!(answer.kind() >= VOID);
        let told = told(&mut client, &answer);
        assert_eq!(told.request, request);
        assert!(told.parameters.contains(parameter), "{told:?}");
        assert!(told.says(activity), "{told:?}");
        assert!(!told.says("hidden") && !told.parameters.contains("hidden"), "{told:?}");
    }
    assert_eq!(engine.metric("sandglass_db_tracing_sessions_total"), 7);
    assert!(engine.metric("sandglass_db_tracing_bytes") > 0);
}

#[test]
fn a_refusal_has_a_trace_too() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = with_table(&engine);
    let unknown = execute(&[7; 16], &[b"a"]);
    for (opcode, body, code, message) in [
        (op::QUERY, query("SELEC"), 0x2000, "no viable alternative"),
        (op::QUERY, query("SELECT nope FROM ks.t"), 0x2200, "Undefined column name nope"),
        (op::EXECUTE, unknown, 0x2500, "not prepared"),
    ] {
        let answer = client.ask_traced(opcode, &body).expect("an answer");
        assert_eq!(answer.code(), code);
        let told = told(&mut client, &answer);
        assert!(told.says(message), "{told:?}");
    }
    // OPTIONS does nothing that could be told, as in Cassandra.
    assert_eq!(client.ask_traced(op::OPTIONS, &[]).expect("an answer").trace, None);
}

#[test]
fn blocks_that_are_read_from_disk_are_told() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    with_table(&engine).run("INSERT INTO ks.t (k, v) VALUES ('a', 1)");
    engine.stop("-TERM");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = Client::connect(engine.cql).expect("it listens");
    let select = query("SELECT v FROM ks.t WHERE k = 'a'");
    for read in ["the cache had 0 blocks, 1 were read from disk", "0 were read from disk"] {
        let answer = client.ask_traced(op::QUERY, &select).expect("an answer");
        assert_eq!(answer.rows().0, [[Some(vec![0, 0, 0, 1])]]);
        let told = told(&mut client, &answer);
        assert!(told.says(read) && told.says("0 memtables and 1 sstables"), "{told:?}");
    }
}

#[test]
fn what_other_shards_do_is_told() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_table(&engine);
    let insert = client.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let rows: Vec<_> = (0..20u8).map(|k| vec![vec![b'a' + k], vec![0, 0, 0, k]]).collect();
    for (kind, activity) in [(0, "The intent is durable"), (1, "each of several shards")] {
        let answer = client.ask_traced(op::BATCH, &batch(kind, &insert, &rows)).expect("an answer");
        assert_eq!(answer.kind(), VOID);
        let told = told(&mut client, &answer);
        assert!(told.says(activity), "{told:?}");
        assert!(told.says("Shard 0 has") && told.says("Shard 1 has"), "{told:?}");
    }
    let answer = client.ask_traced(op::QUERY, &query("SELECT * FROM ks.t")).expect("an answer");
    assert_eq!(answer.rows().0.len(), 20);
    let told = told(&mut client, &answer);
    assert!(told.says("for a page"), "{told:?}");
    let pages: Vec<_> = told.events.iter().filter(|(_, text)| text.contains("live rows")).collect();
    assert_eq!(pages.len(), 2, "{told:?}");
}

#[test]
fn a_compressed_answer_carries_its_trace_as_well() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut plain = with_table(&engine);
    plain.run("INSERT INTO ks.t (k, v) VALUES ('a', 1)");
    let mut client = Client::raw(engine.cql).expect("it listens");
    let mut options = vec![0, 2];
    options.extend_from_slice(&startup()[2..]);
    wire::client::string(&mut options, "COMPRESSION");
    wire::client::string(&mut options, "lz4");
    assert_eq!(client.ask(op::STARTUP, &options).expect("an answer").opcode, op::READY);
    let select = format!("SELECT {} FROM ks.t", ["v"; 200].join(", "));
    let answer = client.ask_traced(op::QUERY, &query(&select)).expect("an answer");
    assert_eq!(answer.rows().0[0].len(), 200);
    assert!(told(&mut plain, &answer).says("Read 1 live rows"));
}

#[test]
fn a_client_that_leaves_takes_its_trace_with_it() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = with_table(&engine);
    // More than may be open at a time: if they stayed open, later ones would not be traced.
    for number in 0..40 {
        let mut leaving = Client::connect(engine.cql).expect("it listens");
        let mut bytes = Vec::new();
        for stream in 0..50 {
            // The first waits for the disk, and the others for the first.
            let text = format!("CREATE TABLE IF NOT EXISTS ks.t{number} (k text PRIMARY KEY)");
            let mut request = frame(stream, op::QUERY, &query(&text));
            request[1] |= 2;
            bytes.extend(request);
        }
        leaving.send(&bytes).expect("it reads");
        // The engine has read them when it hears that the client has left.
        sleep(Duration::from_micros(200));
    }
    // One change of the schema after the other: those of the others are over then.
    let mut last = || client.query("CREATE TABLE ks.last (k text PRIMARY KEY)").expect("an answer");
    while last().opcode == op::ERROR {
        sleep(Duration::from_millis(10));
    }
    let answer = client.ask_traced(op::QUERY, &query("SELECT * FROM ks.t")).expect("an answer");
    told(&mut client, &answer);
}
