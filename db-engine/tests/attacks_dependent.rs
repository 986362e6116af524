//! Clients with many writes that depend on what is there: what they hold is bounded, others are
//! answered, and each write happens once or, refused, not at all.

mod wire;

use std::{collections::BTreeMap, path::Path};
use tempfile::tempdir;
use wire::{
    client::{Client, execute, frame, op, text_batch},
    engine::Engine,
    honest::{Honest, MEMORY, OVERLOADED, check_resident, megabyte, with_large_rows},
};

const PIPELINED: i16 = 1_000;

fn start(directory: &Path) -> Engine {
    Engine::start(directory, &["--shards", "2", "--memory", MEMORY])
}

/// A client that has sent this request a thousand times.
fn pipelined(engine: &Engine, opcode: u8, body: &[u8]) -> Client {
    let mut client = Client::connect(engine.cql).expect("it listens");
    let frames: Vec<Vec<u8>> = (0..PIPELINED).map(|stream| frame(stream, opcode, body)).collect();
    client.send(&frames.concat()).expect("it reads");
    client
}

/// How many of its requests were done; the others were refused as OVERLOADED.
fn done(client: &mut Client) -> i64 {
    let mut count = 0;
    for _ in 0..PIPELINED {
        let answer = client.receive().expect("an answer");
        if answer.opcode == op::RESULT {
            count += 1;
        } else {
            assert_eq!(answer.code(), OVERLOADED, "{}", answer.message());
        }
    }
    count
}

#[test]
fn a_thousand_increments_of_one_key_are_each_counted_once() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.client.run("CREATE TABLE ks.n (k int PRIMARY KEY, v counter)");
    let id = honest.client.prepare("UPDATE ks.n SET v = v + 1 WHERE k = ?");
    let mut clients: Vec<Client> =
        (0..3).map(|_| pipelined(&engine, op::EXECUTE, &execute(&id, &[&[0; 4]]))).collect();
    honest.write(20);
    let counted: i64 = clients.iter_mut().map(done).sum();
    assert!(counted > 0, "all were refused");
    let rows = honest.client.run("SELECT v FROM ks.n WHERE k = 0").rows().0;
    assert_eq!(rows, [[Some(counted.to_be_bytes().to_vec())]]);
    assert_eq!(engine.metric("sandglass_db_latch_waiting"), 0);
    check_resident(&engine);
    honest.check();
}

#[test]
fn batches_with_many_latches_are_bounded_and_end() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.client.run("CREATE TABLE ks.n (k int PRIMARY KEY, v counter)");
    let add = |key: i32| format!("UPDATE ks.n SET v = v + 1 WHERE k = {key}");
    let batch = text_batch(&(0..50).map(add).collect::<Vec<_>>());
    let mut clients: Vec<Client> = (0..4).map(|_| pipelined(&engine, op::BATCH, &batch)).collect();
    honest.write(20);
    let counted: i64 = clients.iter_mut().map(done).sum();
    assert!(counted > 0, "all were refused");
    for key in 0..50 {
        let text = format!("SELECT v FROM ks.n WHERE k = {key}");
        let rows = honest.client.run(&text).rows().0;
        assert_eq!(rows, [[Some(counted.to_be_bytes().to_vec())]], "key {key}");
    }
    assert_eq!(engine.metric("sandglass_db_latch_waiting"), 0);
    check_resident(&engine);
    honest.check();
}

#[test]
fn of_many_that_insert_the_same_rows_one_does_each() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    honest.client.run("CREATE TABLE ks.once (k int, c int, v int, PRIMARY KEY (k, c))");
    let text = "INSERT INTO ks.once (k, c, v) VALUES (0, ?, ?) IF NOT EXISTS";
    let id = honest.client.prepare(text);
    let connect = |_| Client::connect(engine.cql).expect("it listens");
    let mut clients: Vec<Client> = (0..3).map(connect).collect();
    // By turns, so that they want the same rows at the same time.
    for row in 0..PIPELINED {
        for (number, client) in (0_i32..).zip(&mut clients) {
            let bound: [&[u8]; 2] = [&i32::from(row).to_be_bytes(), &number.to_be_bytes()];
            let insert = frame(row, op::EXECUTE, &execute(&id, &bound));
            client.send(&insert).expect("it reads");
        }
    }
    honest.write(20);
    let mut winners = BTreeMap::new();
    for (number, client) in (0_i32..).zip(&mut clients) {
        for _ in 0..PIPELINED {
            let answer = client.receive().expect("an answer");
            if answer.opcode == op::ERROR {
                assert_eq!(answer.code(), OVERLOADED, "{}", answer.message());
            } else if answer.rows().0[0][0] == Some(vec![1]) {
                let other = winners.insert(i32::from(answer.stream), number);
                assert_eq!(other, None, "row {} was inserted twice", answer.stream);
            }
        }
    }
    assert!(!winners.is_empty(), "all were refused");
    let rows = honest.client.run("SELECT c, v FROM ks.once WHERE k = 0").rows().0;
    let bytes = |number: i32| Some(number.to_be_bytes().to_vec());
    let expected = winners.into_iter().map(|(row, number)| vec![bytes(row), bytes(number)]);
    assert_eq!(rows, expected.collect::<Vec<_>>());
    assert_eq!(engine.metric("sandglass_db_latch_waiting"), 0);
    check_resident(&engine);
    honest.check();
}

#[test]
fn large_rows_that_conditions_are_answered_with_are_bounded() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    with_large_rows(&mut honest.client, 4);
    let text = "UPDATE ks.large SET v = ? WHERE k = 0 AND c = ? IF v = 0x00";
    let id = honest.client.prepare(text);
    let mut clients: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::connect(engine.cql).expect("it listens");
            let update = |stream: i16| {
                let row = i32::from(stream % 4).to_be_bytes();
                frame(stream, op::EXECUTE, &execute(&id, &[b"lost", &row]))
            };
            client.send(&(0..100).flat_map(update).collect::<Vec<_>>()).expect("it reads");
            client
        })
        .collect();
    honest.write(20);
    let mut told = 0;
    for client in &mut clients {
        for _ in 0..100 {
            // One that takes no answers for a second may be closed while others wait for room.
            let Ok(answer) = client.receive() else { break };
            if answer.opcode == op::ERROR {
                assert_eq!(answer.code(), OVERLOADED, "{}", answer.message());
                continue;
            }
            let row = i32::from(answer.stream % 4).to_le_bytes()[0];
            assert!(answer.rows().0 == [[Some(vec![0]), Some(megabyte(row))]], "the row as it is");
            told += 1;
        }
    }
    assert!(told > 0, "all were refused");
    check_resident(&engine);
    honest.check();
}
