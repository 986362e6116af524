//! A write of megabytes is taken in bit by bit, on its way from the socket to the memtable, and
//! others are served meanwhile.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::types::collection::list;
use whole::crowd::Crowd;
use wire::client::{Answer, batch, execute, op, string};

/// Bytes of the value that is written: forty-eight pieces of those in which memory is touched.
const VALUE_BYTES: usize = 3 << 20;

/// A look at the clock takes a tenth of a turn's time for requests, so that pieces are counted.
const LOOK_US: u64 = 100;

/// Clients: who writes, who asks for little meanwhile, and who asks before and after.
const WRITER: usize = 0;
const OTHER: usize = 1;

fn crowd(shards: u16) -> Crowd {
    let mut crowd = Crowd::looking(shards, 3, LOOK_US);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text, s set<int>)");
    crowd
}

fn ask(crowd: &mut Crowd, client: usize, opcode: u8, body: &[u8]) -> Answer {
    crowd.clients[client].ask(opcode, body, ());
    crowd.send(client);
    crowd.wait(client, 1).0.remove(0)
}

fn prepare(crowd: &mut Crowd, text: &str) -> Vec<u8> {
    let answer = ask(crowd, 2, op::PREPARE, &wire::client::long_string(text));
    let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
    answer.body[6..6 + usize::from(length)].to_vec()
}

fn value(seed: usize) -> Vec<u8> {
    (0..VALUE_BYTES).map(|place| b'a' + u8::try_from((place * seed / 7) % 26).unwrap()).collect()
}

/// How many turns a write takes: to be received and bound, to be written to the log, and to be in
/// the memtable.
#[derive(Debug, Default)]
struct Turns {
    received: u32,
    logged: u32,
    applied: u32,
}

/// Takes turns until the writer has its answer. In each of them, or the one after, another client
/// is answered.
fn write(crowd: &mut Crowd) -> (Answer, Turns) {
    let frames = |crowd: &Crowd| crowd.engine.metrics(0).frames.get();
    let blocks = |crowd: &Crowd| crowd.engine.metrics(0).log_blocks.get();
    let (frames_before, blocks_before) = (frames(crowd), blocks(crowd));
    let mut turns = Turns::default();
    let (answer, _, longest) = crowd.answer_beside(WRITER, OTHER, |crowd, asked| {
        match (frames(crowd) - frames_before > asked, blocks(crowd) > blocks_before) {
            (false, _) => turns.received += 1,
            (true, false) => turns.logged += 1,
            (true, true) => turns.applied += 1,
        }
    });
    assert!(longest < 2, "another client waits for {longest} turns, {turns:?}");
    (answer, turns)
}

#[test]
fn each_step_of_a_large_write_takes_many_turns() {
    for compressed in [false, true] {
        let mut crowd = crowd(1);
        if compressed {
            let mut startup = wire::client::startup();
            startup[1] += 1;
            for text in ["COMPRESSION", "lz4"] {
                string(&mut startup, text);
            }
            ask(&mut crowd, WRITER, op::STARTUP, &startup);
        }
        let insert = prepare(&mut crowd, "INSERT INTO ks.t (k, v) VALUES (1, ?)");
        // The second one is in the place of the first.
        for value in [value(5), value(9)] {
            let body = execute(&insert, &[&value]);
            if compressed {
                crowd.clients[WRITER].ask_compressed(op::EXECUTE, &body, ());
            } else {
                crowd.clients[WRITER].ask(op::EXECUTE, &body, ());
            }
            let (answer, turns) = write(&mut crowd);
            println!("compressed: {compressed}, {turns:?}");
            assert_eq!(answer.kind(), 1);
            // Half of them if memory is filled at once that was or was not touched before.
            let Turns { received, logged, applied } = turns;
            assert!(received >= 7 && logged >= 7 && applied >= 7, "{turns:?}");
            let rows = crowd.run("SELECT v FROM ks.t WHERE k = 1").rows().0;
            assert!(rows == [[Some(value)]], "what was written is read");
        }
    }
}

#[test]
fn a_large_set_is_merged_with_the_one_that_is_there_in_many_turns() {
    const ELEMENTS: i32 = 20_000;
    let mut crowd = crowd(1);
    let insert = prepare(&mut crowd, "INSERT INTO ks.t (k, s) VALUES (1, ?)");
    for first in [0, 7, ELEMENTS / 2] {
        let numbers: Vec<_> = (first..first + ELEMENTS).map(i32::to_be_bytes).collect();
        let set = list(&numbers);
        crowd.clients[WRITER].ask(op::EXECUTE, &execute(&insert, &[&set]), ());
        let (answer, turns) = write(&mut crowd);
        assert_eq!(answer.kind(), 1);
        // Into new memory it is copied; with what is there it is merged element by element.
        assert!(first == 0 || turns.applied >= 100, "{turns:?}");
        let rows = crowd.run("SELECT s FROM ks.t WHERE k = 1").rows().0;
        assert!(rows == [[Some(set)]], "what was written is read");
    }
}

#[test]
fn a_long_text_is_parsed_in_one_turn_and_bound_in_another() {
    // A look at the clock takes all of a turn's time for requests.
    let mut crowd = Crowd::looking(1, 1, 1_000);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    let long = format!("INSERT INTO ks.t (k, v) VALUES (1, '{}')", "a".repeat(100_000));
    crowd.ask(WRITER, &long);
    crowd.send(WRITER);
    let (mut parsed, mut bound) = (Vec::new(), Vec::new());
    let before = (crowd.engine.metrics(0).unprepared.get(), crowd.engine.metrics(0).writes.get());
    for turn in 0..100 {
        crowd.turn();
        let metrics = crowd.engine.metrics(0);
        parsed.extend((metrics.unprepared.get() > before.0).then_some(turn));
        bound.extend((metrics.writes.get() > before.1).then_some(turn));
        if !crowd.answers(WRITER).is_empty() {
            assert!(parsed[0] < bound[0], "parsed in turn {}, bound in {}", parsed[0], bound[0]);
            return;
        }
    }
    panic!("not answered");
}

#[test]
fn large_parts_of_a_batch_reach_their_shards_whole() {
    for kind in [0, 1] {
        let mut crowd = crowd(2);
        let insert = prepare(&mut crowd, "INSERT INTO ks.t (k, v) VALUES (?, ?)");
        let key = |key: i32| key.to_be_bytes().to_vec();
        // Together they are as large as the parts of two shards may be.
        let rows: Vec<_> = (0..8).map(|number| vec![key(number), part(number)]).collect();
        let answer = ask(&mut crowd, WRITER, op::BATCH, &batch(kind, &insert, &rows));
        assert_eq!(answer.kind(), 1);
        for number in 8..12 {
            let body = execute(&insert, &[&key(number), &part(number)]);
            assert_eq!(ask(&mut crowd, WRITER, op::EXECUTE, &body).kind(), 1);
        }
        for number in 0..12 {
            let text = format!("SELECT v FROM ks.t WHERE k = {number}");
            assert!(crowd.run(&text).rows().0 == [[Some(part(number))]], "{number}, {kind}");
        }
    }
}

fn part(number: i32) -> Vec<u8> {
    value(usize::try_from(number).unwrap() + 3)[..400_000].to_vec()
}
