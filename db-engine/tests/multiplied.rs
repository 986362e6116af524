//! Requests of a few kilobytes that would make the engine hold as many megabytes. They are refused,
//! or what they take is counted: memory stays within one and a half times `--memory`.

mod wire;

use std::path::Path;
use tempfile::tempdir;
use wire::{
    client::{Client, batch, execute, execute_page, frame, long_string, op},
    engine::Engine,
    honest::{Honest, MEMORY, MIB, OVERLOADED, check_resident, with_large_rows},
};

const INVALID: i32 = 0x2200;

fn start(directory: &Path) -> Engine {
    Engine::start(directory, &["--shards", "2", "--memory", MEMORY])
}

#[test]
fn a_batch_that_repeats_a_long_constant_is_refused() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let mut client = Client::connect(engine.cql).expect("it listens");
    client.run("CREATE TABLE ks.text (k int PRIMARY KEY, v text)");
    let constant = "x".repeat(500_000);
    let id = client.prepare(&format!("INSERT INTO ks.text (k, v) VALUES (?, '{constant}')"));
    let rows: Vec<Vec<Vec<u8>>> = (0..500_i32).map(|k| vec![k.to_be_bytes().to_vec()]).collect();
    let refused = client.ask(op::BATCH, &batch(1, &id, &rows)).expect("an answer");
    // It is longer than a write may be, or what is bound of it takes too much memory before that.
    assert!([INVALID, OVERLOADED].contains(&refused.code()), "{refused:?}");
    check_resident(&engine);
    honest.check();
}

#[test]
fn a_row_that_selects_a_long_value_many_times_is_refused() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let client = &mut honest.client;
    with_large_rows(client, 4);
    let values = "v,".repeat(300);
    let id = client.prepare(&format!("SELECT {values}v FROM ks.large WHERE k = 0"));
    // On both shards at the same time.
    let mut others: Vec<Client> =
        (0..8).map(|_| Client::connect(engine.cql).expect("it listens")).collect();
    for body in [execute(&id, &[]), execute_page(&id, &[], 10, None)] {
        for other in &mut others {
            let requests = (0..5).flat_map(|stream| frame(stream, op::EXECUTE, &body));
            other.send(&requests.collect::<Vec<u8>>()).expect("it reads");
        }
        for other in &mut others {
            for _ in 0..5 {
                assert_eq!(other.receive().expect("an answer").code(), OVERLOADED);
            }
        }
    }
    // A page that repeats values has as many bytes as any, and the next one goes on behind it.
    client.run("CREATE TABLE ks.middling (k int, c int, v blob, PRIMARY KEY (k, c))");
    let insert = client.prepare("INSERT INTO ks.middling (k, c, v) VALUES (?, ?, ?)");
    for c in 0..8_i32 {
        let bound: [&[u8]; 3] = [&[0; 4], &c.to_be_bytes(), &vec![7; 100_000]];
        client.ask(op::EXECUTE, &execute(&insert, &bound)).expect("an answer").kind();
    }
    let values = "v,".repeat(9);
    let id = client.prepare(&format!("SELECT c, {values}v FROM ks.middling WHERE k = 0"));
    let (mut state, mut read) = (None, Vec::new());
    loop {
        let body = execute_page(&id, &[], 10, state.as_deref());
        let (rows, next) = client.ask(op::EXECUTE, &body).expect("an answer").rows();
        assert!(rows.len() <= 2, "{} rows in a page", rows.len());
        read.extend(rows.into_iter().map(|mut row| row.swap_remove(0)));
        state = next;
        if state.is_none() {
            break;
        }
    }
    let all = (0..8_i32).map(|c| Some(c.to_be_bytes().to_vec()));
    assert!(read.into_iter().eq(all), "each row once");
    check_resident(&engine);
    honest.check();
}

#[test]
fn one_value_for_many_columns_is_refused() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let client = &mut honest.client;
    let all = |text: fn(u32) -> String| (0..300).map(text).collect::<Vec<_>>().join(", ");
    let (columns, names) = (all(|n| format!("c{n} blob")), all(|n| format!("c{n}")));
    client.run(&format!("CREATE TABLE ks.many (k int PRIMARY KEY, {columns})"));
    let mut body = long_string(&format!(
        "INSERT INTO ks.many (k, {names}) VALUES (1, {})",
        all(|_| ":v".to_owned())
    ));
    // One value, which has a name.
    body.extend_from_slice(&[0, 1, 0x41, 0, 1, 0, 1, b'v']);
    body.extend_from_slice(&1_000_000_u32.to_be_bytes());
    body.extend_from_slice(&vec![7; 1_000_000]);
    assert_eq!(client.ask(op::QUERY, &body).expect("an answer").code(), INVALID);
    check_resident(&engine);
    honest.check();
}

#[test]
fn combinations_of_long_keys_are_counted() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    honest.client.run("CREATE TABLE ks.keys (a text, b int, c int, PRIMARY KEY ((a, b), c))");
    let many: Vec<String> = (0..1000).map(|b| b.to_string()).collect();
    let many = many.join(",");
    honest.client.run("CREATE TABLE ks.ranges (k int, a text, b int, PRIMARY KEY (k, a, b))");
    let texts = [
        format!("SELECT c FROM ks.keys WHERE a = ? AND b IN ({many})"),
        format!("SELECT b FROM ks.ranges WHERE k = 1 AND a = ? AND b IN ({many})"),
    ];
    let mut client = Client::connect(engine.cql).expect("it listens");
    for text in texts {
        let mut answered = 0;
        let id = client.prepare(&text);
        for (length, code) in [(60_000, Some(INVALID)), (200, None)] {
            let key = vec![b'k'; length];
            let frames: Vec<Vec<u8>> =
                (0..50).map(|stream| frame(stream, op::EXECUTE, &execute(&id, &[&key]))).collect();
            client.send(&frames.concat()).expect("it reads");
            for _ in 0..50 {
                let answer = client.receive().expect("an answer");
                match code {
                    Some(code) => assert_eq!(answer.code(), code),
                    None if answer.opcode == op::ERROR => assert_eq!(answer.code(), OVERLOADED),
                    None => answered += 1,
                }
            }
        }
        assert!(answered > 0, "what is in proportion is read");
    }
    check_resident(&engine);
    honest.check();
}

#[test]
fn statements_of_a_wide_table_count_with_their_columns() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let columns: Vec<String> =
        (0..3000).map(|n| format!("a_column_with_a_long_name_{n} int, ")).collect();
    let columns = columns.concat();
    honest.client.run(&format!("CREATE TABLE ks.wide (k int PRIMARY KEY, {columns}v int)"));
    let mut client = Client::connect(engine.cql).expect("it listens");
    for number in 1..=400 {
        client.prepare(&format!("SELECT * FROM ks.wide LIMIT {number}"));
    }
    let kept = engine.metric("sandglass_db_query_processor_prepared_statements");
    assert!((2..20).contains(&kept), "{kept} statements");
    check_resident(&engine);
    honest.check();
}

#[test]
fn the_schema_has_a_limit() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let comment = "c".repeat(900_000);
    let mut client = Client::connect(engine.cql).expect("it listens");
    let mut made = 0;
    for number in 0..30 {
        let table = format!("CREATE TABLE ks.t{number} (k int PRIMARY KEY)");
        let answer = client.query(&format!("{table} WITH comment = '{comment}'"));
        let answer = answer.expect("an answer");
        if answer.opcode == op::ERROR {
            assert!(answer.message().contains("there is memory for"), "{answer:?}");
        } else {
            made += 1;
        }
    }
    assert_eq!(made, 1, "one of them fits");
    client.run("DROP TABLE ks.t0");
    client.run("CREATE TABLE ks.t31 (k int PRIMARY KEY)");
    check_resident(&engine);
    honest.check();
}

#[test]
fn changes_of_the_schema_that_wait_are_counted() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    honest.client.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    // Frames of 30 bytes, each of which stands for a comment of 400 KB.
    let mut client = Client::connect(engine.cql).expect("it listens");
    let comment = "c".repeat(400_000);
    let id = client.prepare(&format!("ALTER TABLE ks.t WITH comment = '{comment}'"));
    let frames: Vec<Vec<u8>> =
        (0..1000).map(|stream| frame(stream, op::EXECUTE, &execute(&id, &[]))).collect();
    client.send(&frames.concat()).expect("it reads");
    let mut refused = 0;
    for _ in 0..1000 {
        let answer = client.receive().expect("an answer");
        if answer.opcode == op::ERROR {
            assert_eq!(answer.code(), OVERLOADED);
            refused += 1;
        }
    }
    println!("refused {refused} of 1000, {} MiB", engine.status_bytes("VmHWM:") / MIB);
    assert!((1..1000).contains(&refused), "{refused} were refused");
    check_resident(&engine);
    honest.check();
}

#[test]
fn answers_of_system_tables_that_nobody_takes_are_bounded() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.write(20);
    let columns: Vec<String> = (0..3000).map(|n| format!("a_column_{n} int, ")).collect();
    honest
        .client
        .run(&format!("CREATE TABLE ks.wide (k int PRIMARY KEY, {}v int)", columns.concat()));
    let mut body = long_string("SELECT * FROM system_schema.columns");
    body.extend_from_slice(&[0, 1, 0]);
    let mut silent = Vec::new();
    for _ in 0..60 {
        let mut client = Client::connect(engine.cql).expect("it listens");
        let frames: Vec<Vec<u8>> = (0..40).map(|stream| frame(stream, op::QUERY, &body)).collect();
        client.send(&frames.concat()).expect("it reads");
        silent.push(client);
        honest.write(1);
    }
    println!("{} MiB", engine.status_bytes("VmHWM:") / MIB);
    check_resident(&engine);
    drop(silent);
    honest.check();
}

#[test]
fn large_writes_leave_nothing_behind_in_the_log() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.client.run("CREATE TABLE ks.blobs (k int PRIMARY KEY, v blob)");
    honest.write(20);
    let insert = honest.client.prepare("INSERT INTO ks.blobs (k, v) VALUES (?, ?)");
    let random = |at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes();
    let value: Vec<u8> = (0..2_900_000 / 4).flat_map(random).collect();
    let mut taken = 0;
    for round in 0..20_i32 {
        let mut clients: Vec<Client> =
            (0..6).map(|_| Client::connect(engine.cql).expect("it listens")).collect();
        for (client, key) in clients.iter_mut().zip(round * 6..) {
            let body = execute(&insert, &[&key.to_be_bytes(), &value]);
            // One of several that are under way at once may be refused, with its connection.
            let _ = client.send(&frame(1, op::EXECUTE, &body));
        }
        for client in &mut clients {
            taken += i32::from(client.receive().is_ok_and(|answer| answer.opcode == op::RESULT));
        }
    }
    println!("taken {taken}, {} MiB", engine.status_bytes("VmHWM:") / MIB);
    assert!(taken > 20, "{taken} writes");
    check_resident(&engine);
    honest.check();
}
