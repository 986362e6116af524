//! Clients with many writes that depend on what is there: what they hold is bounded, others are
//! answered, and each write happens once or, refused, not at all.

mod wire;

use std::path::Path;
use tempfile::tempdir;
use wire::{
    client::{Client, execute, frame, op, text_batch},
    engine::Engine,
    honest::{Honest, MEMORY, OVERLOADED, check_resident},
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
    for key in [0, 25, 49] {
        let text = format!("SELECT v FROM ks.n WHERE k = {key}");
        let rows = honest.client.run(&text).rows().0;
        assert_eq!(rows, [[Some(counted.to_be_bytes().to_vec())]], "key {key}");
    }
    assert_eq!(engine.metric("sandglass_db_latch_waiting"), 0);
    check_resident(&engine);
    honest.check();
}
