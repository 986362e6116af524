//! Raw bytes to the real binary: frames cut anywhere, broken frames, and who else notices.

mod wire;

use std::{io::ErrorKind, thread::sleep, time::Duration};
use tempfile::tempdir;
use wire::{
    client::{Client, batch, execute, frame, long_string, op, startup, string},
    engine::{Engine, refusal},
};

const TABLE: &str = "CREATE TABLE ks.t (k text PRIMARY KEY, v int)";

fn with_table(engine: &Engine) -> Client {
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run(TABLE);
    client
}

/// One of everything that a client says, each on its own stream.
fn conversation(insert: &[u8], select: &[u8]) -> Vec<u8> {
    let mut query = long_string("SELECT v FROM ks.t WHERE k = 'a'");
    query.extend_from_slice(&[0, 1, 0]);
    let mut register = vec![0, 1];
    string(&mut register, "SCHEMA_CHANGE");
    [
        frame(0, op::OPTIONS, &[]),
        frame(1, op::STARTUP, &startup()),
        frame(2, op::REGISTER, &register),
        frame(3, op::PREPARE, &long_string("SELECT v FROM ks.t WHERE k = ?")),
        frame(4, op::EXECUTE, &execute(insert, &[b"a", &7i32.to_be_bytes()])),
        frame(5, op::EXECUTE, &execute(select, &[b"nothing"])),
        frame(6, op::QUERY, &query),
        frame(7, op::QUERY, b"\0\0\0\x05SELEC\0\x01\0"),
    ]
    .concat()
}

#[test]
fn a_conversation_cut_anywhere_is_understood() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = with_table(&engine);
    let insert = client.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let select = client.prepare("SELECT v FROM ks.t WHERE k = ?");
    client.run("INSERT INTO ks.t (k, v) VALUES ('a', 7)");
    let bytes = conversation(&insert, &select);

    let check = |pieces: &[&[u8]], what: &str| {
        let mut client = Client::raw(engine.cql).expect("it listens");
        for (place, piece) in pieces.iter().enumerate() {
            if place > 0 {
                // Long enough that the engine sees the piece before by itself.
                sleep(Duration::from_micros(300));
            }
            client.send(piece).expect("it reads");
        }
        let mut answers: Vec<_> = (0..8).map(|_| client.receive().expect(what)).collect();
        answers.sort_by_key(|answer| answer.stream);
        let opcodes: Vec<u8> = answers.iter().map(|answer| answer.opcode).collect();
        let expected = [
            op::SUPPORTED,
            op::READY,
            op::READY,
            op::RESULT,
            op::RESULT,
            op::RESULT,
            op::RESULT,
            0,
        ];
        assert_eq!(opcodes, expected, "{what}");
        assert_eq!((answers[3].kind(), answers[4].kind()), (4, 1), "{what}");
        assert_eq!(answers[5].rows().0.len(), 0, "{what}");
        assert_eq!(answers[6].rows().0, [[Some(vec![0, 0, 0, 7])]], "{what}");
        assert_eq!(answers[7].code(), 0x2000, "{what}");
    };
    for at in 1..bytes.len() {
        check(&[&bytes[..at], &bytes[at..]], &format!("cut at byte {at}"));
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    check(&single, "byte by byte");
    let sevens: Vec<&[u8]> = bytes.chunks(7).collect();
    check(&sevens, "seven bytes at a time");
}

/// What a client may say that costs it its connection.
fn broken_frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut cut_query = frame(1, op::QUERY, b"\0\0\0\x7fSELECT");
    cut_query[1] = 0;
    let mut compressed = frame(1, op::OPTIONS, &[0, 0, 0, 0, 0]);
    compressed[1] = 1;
    let mut payload = frame(1, op::OPTIONS, &[0xFF]);
    payload[1] = 4;
    vec![
        ("a response", vec![0x84, 0, 0, 1, op::OPTIONS, 0, 0, 0, 0]),
        ("no protocol at all", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("a body of 4 GiB", vec![4, 0, 0, 1, op::QUERY, 0xFF, 0xFF, 0xFF, 0xFF]),
        ("a body over the limit", vec![4, 0, 0, 1, op::QUERY, 0x01, 0, 0, 1]),
        ("an unknown opcode", frame(1, 0x77, &[])),
        ("a string that is cut", cut_query),
        ("compression nobody agreed on", compressed),
        ("a payload that is cut", payload),
        ("a batch of no kind", frame(1, op::BATCH, &[9, 0, 0, 0, 1, 0])),
        ("a value of length -3", frame(1, op::EXECUTE, b"\0\x01x\0\x01\x01\0\x01\xFF\xFF\xFF\xFD")),
        ("a consistency of no name", frame(1, op::QUERY, b"\0\0\0\x01x\0\x77\0")),
        ("an event of no name", frame(1, op::REGISTER, b"\0\x01\0\x01x")),
        ("text that is not UTF-8", frame(1, op::PREPARE, b"\0\0\0\x02\xC3\x28")),
        ("an answer to no challenge", frame(1, 0x0F, &[0, 0, 0, 0])),
    ]
}

#[test]
fn a_broken_frame_costs_its_own_connection_and_nothing_else() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut other = with_table(&engine);
    for (what, bytes) in broken_frames() {
        let mut client = Client::connect(engine.cql).expect("it listens");
        client.send(&bytes).expect("it reads");
        assert_eq!(client.receive().expect(what).code(), 0x0A, "{what}");
        // What follows is not listened to.
        let _ = client.send(&frame(2, op::OPTIONS, &[]));
        let end = client.receive().expect_err(what).kind();
        assert_eq!(end, ErrorKind::UnexpectedEof, "{what}");
        other.run("INSERT INTO ks.t (k, v) VALUES ('b', 1)");
        assert_eq!(other.run("SELECT v FROM ks.t WHERE k = 'b'").rows().0.len(), 1, "{what}");
    }
}

#[test]
fn other_versions_are_told_ours_so_that_drivers_fall_back() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    for version in [1u8, 2, 3, 5, 6, 65, 66] {
        let mut client = Client::raw(engine.cql).expect("it listens");
        let mut bytes = frame(9, op::OPTIONS, &[]);
        bytes[0] = version;
        client.send(&bytes).expect("it reads");
        let answer = client.receive().expect("an answer");
        assert_eq!((answer.stream, answer.code()), (0, 0x0A));
        let expected = format!(
            "Invalid or unsupported protocol version ({version}); supported versions are (4/v4)"
        );
        assert_eq!(answer.message(), expected);
    }
    let mut client = Client::raw(engine.cql).expect("it listens");
    let early = client.ask(op::QUERY, b"\0\0\0\x01x\0\x01\0").expect("an answer");
    assert_eq!(early.code(), 0x0A, "STARTUP comes first");
}

#[test]
fn random_bytes_never_end_the_engine() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut other = with_table(&engine);
    let seed = std::process::id() | 1;
    println!("seed {seed}");
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let opcodes = [op::STARTUP, op::QUERY, op::PREPARE, op::EXECUTE, op::REGISTER, op::BATCH];
    for round in 0..400 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        let body: Vec<u8> = (0..random() % 200).map(|_| random().to_be_bytes()[0]).collect();
        let opcode = opcodes[random() as usize % opcodes.len()];
        client.send(&frame(1, opcode, &body)).expect("it reads");
        let answered = client.receive();
        assert!(answered.is_ok(), "round {round}: {body:?} to {opcode} is answered");
    }
    other.run("INSERT INTO ks.t (k, v) VALUES ('c', 1)");
    assert_eq!(engine.stop("-TERM"), Some(0));
}

#[test]
fn unfinished_requests_are_limited_in_bytes_and_not_in_time() {
    let directory = tempdir().expect("a directory");
    let limits = ["--shards", "1", "--memory", "32MiB", "--frame-bytes-max", "1MiB"];
    let engine = Engine::start(directory.path(), &limits);
    let mut other = with_table(&engine);
    // Each promises a MiB and sends all of it but the last byte.
    let mut part = vec![4, 0, 0, 1, op::QUERY, 0, 0x10, 0, 0];
    part.resize(9 + (1 << 20) - 1, b'x');
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        let _ = client.send(&part);
        slow.push(client);
        other.run("INSERT INTO ks.t (k, v) VALUES ('d', 1)");
    }
    let shed = engine.metric("sandglass_db_transport_requests_shed_total");
    assert!(shed >= 1, "those over the limit are refused");
    let held = engine.metric("sandglass_db_transport_request_bytes");
    assert!(held <= 6 << 20, "{held} bytes are held");
}

#[test]
fn a_client_that_takes_no_answers_is_not_read_until_it_does() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1", "--output-bytes-max", "64KiB"]);
    let mut other = with_table(&engine);
    let mut client = Client::connect(engine.cql).expect("it listens");
    // The body of OPTIONS means nothing, but has to be read.
    let options = frame(3, op::OPTIONS, &[0; 1000]);
    let sender = std::thread::spawn({
        let mut writer = Client::connect(engine.cql).expect("it listens");
        move || {
            let burst = options.repeat(100);
            // Far more than the kernel keeps for both sides.
            for _ in 0..2000 {
                if writer.send(&burst).is_err() {
                    return;
                }
            }
        }
    });
    sleep(Duration::from_millis(300));
    other.run("INSERT INTO ks.t (k, v) VALUES ('e', 1)");
    let held = engine.metric("sandglass_db_transport_requests_blocked_total");
    assert!(!sender.is_finished() && held >= 1, "the sender is held back");
    assert_eq!(client.ask(op::OPTIONS, &[]).expect("an answer").opcode, op::SUPPORTED);
    drop(engine);
    let _ = sender.join();
}

#[test]
fn changes_of_the_schema_are_told_before_they_are_answered() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "3"]);
    let mut clients: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = Client::connect(engine.cql).expect("it listens");
            let mut body = vec![0, 1];
            string(&mut body, "SCHEMA_CHANGE");
            assert_eq!(client.ask(op::REGISTER, &body).expect("an answer").opcode, op::READY);
            client
        })
        .collect();
    let statement = "CREATE KEYSPACE e WITH replication = \
                     {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let mut query = long_string(statement);
    query.extend_from_slice(&[0, 1, 0]);
    clients[0].send(&frame(5, op::QUERY, &query)).expect("it reads");
    let first = clients[0].receive().expect("the event");
    assert_eq!((first.opcode, first.stream), (op::EVENT, -1));
    let second = clients[0].receive().expect("the answer");
    assert_eq!((second.stream, second.kind()), (5, 5));
    for client in &mut clients[1..] {
        assert_eq!(client.receive().expect("the event").body, first.body);
    }
    // Whoever has the answer can use the table, wherever its connection is.
    let mut query = long_string("CREATE TABLE e.t (k int PRIMARY KEY, v int)");
    query.extend_from_slice(&[0, 1, 0]);
    clients[0].send(&frame(6, op::QUERY, &query)).expect("it reads");
    let opcodes = [(); 2].map(|()| clients[0].receive().expect("a frame").opcode);
    assert_eq!(opcodes, [op::EVENT, op::RESULT]);
    for (place, client) in clients.iter_mut().enumerate() {
        if place == 0 {
            continue;
        }
        assert_eq!(client.receive().expect("the event").opcode, op::EVENT);
        client.run(&format!("INSERT INTO e.t (k, v) VALUES ({place}, 1)"));
    }
}

#[test]
fn a_statement_whose_table_has_changed_must_be_prepared_again() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_table(&engine);
    let select = client.prepare("SELECT * FROM ks.t WHERE k = ?");
    let other = client.prepare("SELECT key FROM system.local");
    let body = execute(&select, &[b"a"]);
    assert_eq!(client.ask(op::EXECUTE, &body).expect("an answer").kind(), 2);
    client.run("ALTER TABLE ks.t ADD w int");
    let answer = client.ask(op::EXECUTE, &body).expect("an answer");
    assert_eq!(answer.code(), 0x2500);
    assert_eq!(answer.body[answer.body.len() - 16..], select[..]);
    assert_eq!(client.prepare("SELECT * FROM ks.t WHERE k = ?"), select, "the same id");
    assert_eq!(client.ask(op::EXECUTE, &body).expect("an answer").kind(), 2);
    assert_eq!(client.ask(op::EXECUTE, &execute(&other, &[])).expect("an answer").kind(), 2);
    let unknown = client.ask(op::EXECUTE, &execute(b"nobody knows", &[])).expect("an answer");
    assert_eq!(unknown.code(), 0x2500);
}

#[test]
fn what_cannot_be_served_is_refused_in_one_line() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    assert!(engine.line.starts_with("sandglass-db "), "{}", engine.line);
    assert!(engine.line.contains(", 1 shard, data in "), "{}", engine.line);
    let elsewhere = tempdir().expect("a directory");
    let port = format!("127.0.0.1:{}", engine.cql);
    let cases: [(&std::path::Path, &[&str], i32, &str); 4] = [
        (directory.path(), &["--shards", "1"], 1, ""),
        (elsewhere.path(), &["--listen", &port], 1, "it is in use"),
        (elsewhere.path(), &["--http", &port], 1, "--http"),
        (elsewhere.path(), &["--memory", "1"], 2, "--memory 1 is too little"),
    ];
    for (directory, arguments, code, phrase) in cases {
        let output = refusal(directory, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(said.len(), 1, "{arguments:?}: {text}");
        assert!(said[0].contains(phrase), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn metrics_and_health_are_told_over_http() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_table(&engine);
    client.run("INSERT INTO ks.t (k, v) VALUES ('f', 1)");
    client.run("SELECT v FROM ks.t WHERE k = 'f'");
    assert_eq!(engine.metric("sandglass_db_cql_writes_total"), 1);
    assert!(engine.metric("sandglass_db_cql_reads_total") >= 1);
    assert_eq!(engine.metric("sandglass_db_transport_current_connections"), 1);
    let health = engine.get("/health");
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
    assert!(health.contains("\"status\":\"ok\""), "{health}");
    assert!(engine.get("/elsewhere").starts_with("HTTP/1.1 404 "));
    let long = format!("/{}", "x".repeat(100_000));
    assert!(engine.get(&long).starts_with("HTTP/1.1 431 "));
}

#[test]
fn what_clients_could_ask_for_at_less_cost_is_counted() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1"]);
    let mut client = with_table(&engine);
    client.run("CREATE TABLE ks.wide (k text, c int, v int, PRIMARY KEY (k, c))");
    let insert = client.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let one = client.prepare("SELECT v FROM ks.t WHERE k = ?");
    let wide = client.prepare("SELECT v FROM ks.wide WHERE k = ?");
    let kinds = [
        "unprepared_queries_total",
        "unpaged_select_queries_total",
        "filtered_read_requests_total",
        "select_partition_range_scan_total",
        "select_partition_range_scan_no_bypass_cache_total",
        "misrouted_queries_total",
    ];
    let counts = || kinds.map(|kind| engine.metric(&format!("sandglass_db_cql_{kind}")));
    let cost = |do_it: &mut dyn FnMut()| {
        let before = counts();
        do_it();
        let mut cost = counts();
        cost.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        cost
    };
    assert_eq!(engine.metric("sandglass_db_query_processor_prepared_statements"), 3);
    let bound: &[&[u8]] = &[b"k", &[0, 0, 0, 1]];
    let rows = [vec![b"k".to_vec(), vec![0, 0, 0, 1]]];
    let mut ask = |opcode, body: &[u8]| {
        let answer = client.ask(opcode, body).expect("an answer");
        answer.kind();
    };
    let mut text = |text: &str| {
        let mut body = long_string(text);
        body.extend_from_slice(&[0, 1, 0]);
        cost(&mut || ask(op::QUERY, &body))
    };
    assert_eq!(text("INSERT INTO ks.t (k, v) VALUES ('k', 1)"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(text("SELECT v FROM ks.t WHERE k = 'k'"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(text("SELECT v FROM ks.wide WHERE k = 'k'"), [1, 1, 0, 0, 0, 0]);
    assert_eq!(text("SELECT v FROM ks.t"), [1, 1, 0, 1, 1, 0]);
    assert_eq!(text("SELECT v FROM ks.t BYPASS CACHE"), [1, 1, 0, 1, 0, 0]);
    let filtering = "SELECT v FROM ks.wide WHERE k = 'k' AND v = 1 ALLOW FILTERING";
    assert_eq!(text(filtering), [1, 1, 1, 0, 0, 0]);
    assert_eq!(text("SELECT key FROM system.local"), [0; 6], "drivers ask that as text");
    assert_eq!(cost(&mut || ask(op::EXECUTE, &execute(&insert, bound))), [0; 6]);
    assert_eq!(cost(&mut || ask(op::BATCH, &batch(1, &insert, &rows))), [0; 6]);
    assert_eq!(cost(&mut || ask(op::EXECUTE, &execute(&one, &[b"k"]))), [0; 6]);
    assert_eq!(cost(&mut || ask(op::EXECUTE, &execute(&wide, &[b"k"]))), [0, 1, 0, 0, 0, 0]);
    let level = |level: &str| {
        let name = "sandglass_db_query_processor_queries_total{shard=\"0\",consistency_level=";
        let line = format!("{name}\"{level}\"}} ");
        let text = engine.get("/metrics");
        let count = text.lines().find_map(|text| text.strip_prefix(line.as_str()));
        count.expect("a line for each level").to_owned()
    };
    assert_eq!((level("ONE"), level("QUORUM")), ("10".to_owned(), "0".to_owned()));
}

#[test]
fn a_request_that_another_shard_must_answer_is_counted() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_table(&engine);
    let insert = client.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let select = client.prepare("SELECT v FROM ks.t WHERE k = ?");
    for number in 0..100_u8 {
        let key: &[u8] = &[b'a' + number / 10, b'0' + number % 10];
        for body in [execute(&insert, &[key, &[0, 0, 0, 1]]), execute(&select, &[key])] {
            client.ask(op::EXECUTE, &body).expect("an answer").kind();
        }
    }
    let misrouted = engine.metric("sandglass_db_cql_misrouted_queries_total");
    assert_eq!(misrouted % 2, 0, "each key was written and read");
    assert!((40..160).contains(&misrouted), "half of the keys are elsewhere: {misrouted}");
}

#[test]
fn an_idle_engine_does_not_wake_up() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "2"]);
    let mut client = with_table(&engine);
    client.run("INSERT INTO ks.t (k, v) VALUES ('g', 1)");
    sleep(Duration::from_millis(500));
    let before = engine.metric("sandglass_db_reactor_turns_total");
    sleep(Duration::from_secs(2));
    let after = engine.metric("sandglass_db_reactor_turns_total");
    assert_eq!(before, after, "nothing was asked in between");
}
