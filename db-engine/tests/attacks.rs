//! Clients that make the real binary hold as much as they can, and another one that must not
//! notice: memory stays within one and a half times `--memory`, and what it wrote is there.

mod wire;

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::tempdir;
use wire::{
    client::{Client, execute, execute_page, frame, long_string, op, text_batch},
    engine::Engine,
    honest::{
        Honest, MEMORY, MIB, OVERLOADED, PATIENCE, check_resident, megabyte, with_large_rows,
    },
};

fn start(directory: &Path) -> Engine {
    Engine::start(directory, &["--shards", "1", "--memory", MEMORY])
}

#[test]
fn small_updates_of_a_large_row_do_not_multiply_it() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let mut client = Client::connect(engine.cql).expect("it listens");
    let columns: Vec<String> = (0..1000).map(|number| format!("c{number} int, ")).collect();
    let columns = columns.concat();
    client.run(&format!("CREATE TABLE ks.t (k int, c int, v blob, {columns}PRIMARY KEY (k, c))"));
    let insert = client.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)");
    for row in 0..2_i32 {
        let bound: [&[u8]; 3] = [&[0; 4], &row.to_be_bytes(), &megabyte(1)];
        client.ask(op::EXECUTE, &execute(&insert, &bound)).expect("an answer").kind();
    }
    // Of one row a thousand times, and of two rows by turns.
    for rows in [1, 2] {
        let update = |n| format!("UPDATE ks.t SET c{n} = {rows} WHERE k = 0 AND c = {}", n % rows);
        let statements: Vec<String> = (0..1000).map(update).collect();
        client.ask(op::BATCH, &text_batch(&statements)).expect("an answer").kind();
        honest.write(20);
    }
    let held = engine.metric("sandglass_db_memtables_bytes");
    assert!(held < 8 * MIB, "two rows take {held} bytes");
    let answer = client.run("SELECT c0, c1, c998, c999, v FROM ks.t WHERE k = 0 AND c = 0");
    let two = Some(2_i32.to_be_bytes().to_vec());
    let one = Some(1_i32.to_be_bytes().to_vec());
    let expected = [two.clone(), one.clone(), two, one, Some(megabyte(1))];
    assert!(answer.rows().0 == [expected], "the row is all that was written to it");
    check_resident(&engine);
    honest.check();
}

#[test]
fn results_that_are_not_paged_are_refused_where_there_is_no_room() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    with_large_rows(&mut honest.client, 24);
    let mut body = long_string("SELECT v FROM ks.large WHERE k = 0");
    body.extend_from_slice(&[0, 1, 0]);
    let mut clients: Vec<Client> =
        (0..20).map(|_| Client::connect(engine.cql).expect("it listens")).collect();
    for client in &mut clients {
        client.send(&frame(1, op::QUERY, &body)).expect("it reads");
    }
    for client in &mut clients {
        honest.write(5);
        assert_eq!(client.receive().expect("an answer").code(), OVERLOADED);
    }
    check_resident(&engine);
    honest.check();
    // A page of it is had, and what fits into half of the share.
    let few = honest.client.run("SELECT v FROM ks.large WHERE k = 0 LIMIT 4");
    assert_eq!(few.rows().0.len(), 4);
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_others_are_answered() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    with_large_rows(&mut honest.client, 24);
    honest.write(20);
    assert_eq!(engine.stop("-TERM"), Some(0));

    let engine = start(directory.path());
    let mut honest = honest.again(&engine);
    // Each asks a thousand times for a page of other rows, and takes none.
    let mut silent = Vec::new();
    for _ in 0..6 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        let select = client.prepare("SELECT v FROM ks.large WHERE k = ? AND c >= ?");
        let mut frames = Vec::new();
        for number in 0..1000_i16 {
            let from = i32::from(number % 24).to_be_bytes();
            let body = execute_page(&select, &[&[0; 4], &from], 100, None);
            frames.extend_from_slice(&frame(number, op::EXECUTE, &body));
        }
        client.send(&frames).expect("it reads");
        silent.push(client);
        honest.write(5);
        honest.check();
    }
    let until = Instant::now() + PATIENCE;
    while engine.metric("sandglass_db_transport_connections_stalled_total") == 0 {
        assert!(Instant::now() < until, "nobody who takes nothing is closed");
        honest.write(1);
        sleep(Duration::from_millis(50));
    }
    let held = engine.metric("sandglass_db_transport_output_bytes");
    assert!((1..=16 * MIB).contains(&held), "{held} bytes of answers");
    check_resident(&engine);
    honest.check();
    drop(silent);
    let until = Instant::now() + PATIENCE;
    while engine.metric("sandglass_db_transport_output_bytes") > MIB {
        assert!(Instant::now() < until, "what is held for nobody is given back");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn reads_that_may_not_wait_leave_nothing_behind() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    with_large_rows(&mut honest.client, 24);
    honest.write(20);
    assert_eq!(engine.stop("-TERM"), Some(0), "what is read is on disk");

    let engine = start(directory.path());
    let mut honest = honest.again(&engine);
    let select = honest.client.prepare("SELECT v FROM ks.large WHERE k = ? AND c >= ?");
    // Requests that have not arrived whole leave little room for others to wait.
    let part = &frame(1, op::OPTIONS, &vec![b'x'; 520_000])[..519_000];
    let silent: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = Client::connect(engine.cql).expect("it listens");
            client.send(part).expect("it reads");
            client
        })
        .collect();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        let page = |number: i16| {
            let from = i32::from(number % 24).to_be_bytes();
            let body = execute_page(&select, &[&[0; 4], &from], 100, None);
            frame(number, op::EXECUTE, &body)
        };
        client.send(&(0..500).flat_map(page).collect::<Vec<u8>>()).expect("it reads");
        clients.push(client);
    }
    honest.write(5);
    let (mut pages, mut refused) = (0, 0);
    for _ in 0..500 {
        for client in &mut clients {
            let answer = client.receive().expect("an answer");
            if answer.opcode == op::ERROR {
                assert_eq!(answer.code(), OVERLOADED, "{}", answer.message());
                refused += 1;
            } else {
                pages += 1;
            }
        }
    }
    assert!(refused > 0, "all had room to wait");
    let begun = engine.metric("sandglass_db_database_disk_reads_total");
    assert!(begun <= pages + 40, "{begun} reads were begun on disk for {pages} pages");
    check_resident(&engine);
    honest.check();
    drop(silent);
}

#[test]
fn prepared_statements_are_limited_by_their_bytes() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run("CREATE TABLE ks.text (k int PRIMARY KEY, v text)");
    let filler = "x".repeat(1_000_000);
    for number in 0..120 {
        let text = format!("INSERT INTO ks.text (k, v) VALUES (?, '{number} {filler}')");
        let id = client.prepare(&text);
        // Whoever runs it makes the shard remember it, too.
        let answer = client.ask(op::EXECUTE, &execute(&id, &[&[0; 4]])).expect("an answer");
        assert!(answer.opcode == op::RESULT || answer.code() == OVERLOADED, "{answer:?}");
        honest.write(1);
    }
    let large = format!("INSERT INTO ks.text (k, v) VALUES (1, '{}')", filler.repeat(3));
    let refused = client.ask(op::PREPARE, &long_string(&large)).expect("an answer");
    assert_eq!(refused.code(), OVERLOADED, "one that leaves no room for others");
    let values = "1,".repeat(500_000);
    let many = format!("SELECT v FROM ks.text WHERE k IN ({values}1)");
    let refused = client.query(&many).expect("an answer");
    assert_eq!(refused.code(), OVERLOADED, "small values are a large plan");
    assert!(engine.metric("sandglass_db_query_processor_prepared_statements") < 5);
    check_resident(&engine);
    honest.check();
}

#[test]
fn what_a_connection_holds_is_given_back_however_it_ends() {
    let directory = tempdir().expect("a directory");
    let arguments = ["--shards", "1", "--memory", MEMORY, "--connections-max", "8"];
    let engine = Engine::start(directory.path(), &arguments);
    let mut honest = Honest::connect(&engine);
    let held = || engine.metric("sandglass_db_transport_request_bytes");
    let part = {
        let mut part = frame(1, op::OPTIONS, &vec![b'x'; 1 << 20]);
        part.pop();
        part
    };
    // Seven at a time have a place. Half of them are evicted, silent as they are; others leave.
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut client = Client::raw(engine.cql).expect("it listens");
        let _ = client.send(&part);
        if number % 4 == 0 {
            client.finish();
        }
        silent.push(client);
        honest.write(1);
        assert!(held() <= 8 * MIB, "{} bytes are held", held());
    }
    assert!(engine.metric("sandglass_db_transport_connections_refused_total") >= 20);
    drop(silent);
    let until = Instant::now() + PATIENCE;
    while held() > 0 {
        assert!(Instant::now() < until, "{} bytes are held for nobody", held());
        sleep(Duration::from_millis(20));
    }
    honest.check();
}

#[test]
fn many_small_parts_of_requests_are_bounded_together() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    let part = &frame(1, op::QUERY, &vec![b'x'; 60_000])[..59_000];
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        client.send(part).expect("it reads");
        slow.push(client);
        honest.write(1);
    }
    let held = engine.metric("sandglass_db_transport_request_bytes");
    assert!((4 * MIB..=8 * MIB).contains(&held), "{held} bytes are held");
    assert!(engine.metric("sandglass_db_transport_requests_shed_total") > 100);
    honest.check();
}

#[test]
fn a_connection_has_no_more_in_flight_than_it_may() {
    let directory = tempdir().expect("a directory");
    let engine = Engine::start(directory.path(), &["--shards", "1", "--in-flight-max", "8"]);
    let mut honest = Honest::connect(&engine);
    honest.write(1);
    let mut client = Client::connect(engine.cql).expect("it listens");
    let insert = client.prepare("INSERT INTO ks.honest (k, v) VALUES (?, ?)");
    let requests: Vec<Vec<u8>> = (0..400_i16)
        .map(|number| {
            let key = (i32::from(number) + 1000).to_be_bytes();
            frame(number, op::EXECUTE, &execute(&insert, &[&key, b"v"]))
        })
        .collect();
    let before = engine.metric("sandglass_db_commitlog_blocks_total");
    client.send(&requests.concat()).expect("it reads");
    for _ in 0..400 {
        client.receive().expect("an answer").kind();
    }
    // Eight writes at most are made durable together: it takes fifty blocks at least.
    let blocks = engine.metric("sandglass_db_commitlog_blocks_total") - before;
    assert!(blocks >= 50, "{blocks} blocks");
    assert!(engine.metric("sandglass_db_transport_requests_blocked_total") >= 49);
    honest.check();
}
