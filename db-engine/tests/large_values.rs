//! A large value is checked and put in order bit by bit, and others are served meanwhile.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::budget::Share;
use whole::crowd::Crowd;
use wire::client::{Answer, batch, execute, long_string, op, values};

/// Numbers of the set that is written: half a megabyte with their lengths.
const COUNT: u32 = 60_000;

/// A look at the clock takes a tenth of a turn's time for requests, so that pieces are counted.
const LOOK_US: u64 = 100;

/// Turns that it takes at least: ten pieces each, of a few hundred numbers that are checked,
/// ordered and merged.
const TURNS_MIN: u32 = 30;

const WRITER: usize = 0;
const OTHER: usize = 1;

const INSERT: &str = "INSERT INTO ks.t (k, s) VALUES (1, ?)";

fn crowd() -> Crowd {
    crowd_looking(LOOK_US)
}

fn crowd_looking(look_us: u64) -> Crowd {
    let mut crowd = Crowd::looking(1, 3, look_us);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, s frozen<set<int>>, e set<int>)");
    crowd
}

fn set(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut out = COUNT.to_be_bytes().to_vec();
    for number in numbers {
        out.extend(item(number).concat());
    }
    out
}

/// A number with its length.
fn item(number: u32) -> [[u8; 4]; 2] {
    [4u32.to_be_bytes(), number.to_be_bytes()]
}

/// Each number once, and nearly none behind a smaller one.
fn disorder() -> Vec<u8> {
    set((0..COUNT).map(|number| number * 7_919 % COUNT))
}

fn prepare(crowd: &mut Crowd, text: &str) -> Vec<u8> {
    crowd.clients[2].ask(op::PREPARE, &long_string(text), ());
    crowd.send(2);
    let answer = crowd.wait(2, 1).0.remove(0);
    let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
    answer.body[6..6 + usize::from(length)].to_vec()
}

/// The body of a QUERY with a value.
fn query(text: &str, value: &[u8]) -> Vec<u8> {
    [long_string(text), vec![0, 1, 1], values(&[value])].concat()
}

/// Takes turns until the writer has its answer; in each of them, or the one after, another client
/// is answered.
fn write(crowd: &mut Crowd) -> (Answer, u32) {
    let (answer, turns, longest) = crowd.answer_beside(WRITER, OTHER, |_, _| {});
    assert!(longest < 2, "another client waits for {longest} turns, of {turns}");
    (answer, turns)
}

fn requests_bytes(crowd: &Crowd) -> u64 {
    crowd.engine.metrics(0).memory.taken(Share::Requests)
}

#[test]
fn others_are_served_whatever_request_a_large_value_comes_in() {
    let mut crowd = crowd();
    crowd.clients[WRITER].ask(op::STARTUP, &wire::client::compressed_startup(), ());
    crowd.send(WRITER);
    crowd.wait(WRITER, 1);
    let insert = prepare(&mut crowd, INSERT);
    let conditional = prepare(&mut crowd, &format!("{INSERT} IF NOT EXISTS"));
    let wanted = set(0..COUNT);
    for (name, opcode, body) in [
        ("execute", op::EXECUTE, execute(&insert, &[&disorder()])),
        ("query", op::QUERY, query(INSERT, &disorder())),
        ("batch", op::BATCH, batch(1, &insert, &[vec![disorder()], vec![disorder()]])),
        ("condition", op::EXECUTE, execute(&conditional, &[&disorder()])),
    ] {
        for compressed in [false, true] {
            crowd.run("DELETE FROM ks.t WHERE k = 1");
            if compressed {
                crowd.clients[WRITER].ask_compressed(opcode, &body, ());
            } else {
                crowd.clients[WRITER].ask(opcode, &body, ());
            }
            let (answer, turns) = write(&mut crowd);
            println!("{name}, compressed: {compressed}: {turns} turns");
            answer.kind();
            assert!(turns >= TURNS_MIN, "{name}: {turns}");
            let rows = crowd.run("SELECT s FROM ks.t WHERE k = 1").rows().0;
            assert!(rows == [[Some(wanted.clone())]], "{name}");
            assert_eq!(requests_bytes(&crowd), 0, "{name}");
        }
    }
}

#[test]
fn others_are_served_while_elements_are_written_and_batches_kept() {
    let mut crowd = crowd();
    let elements = prepare(&mut crowd, "INSERT INTO ks.t (k, e) VALUES (1, ?)");
    let more = prepare(&mut crowd, "UPDATE ks.t SET e = e + ? WHERE k = 1");
    let conditional = prepare(&mut crowd, &format!("{INSERT} IF NOT EXISTS"));
    let counted = prepare(&mut crowd, "UPDATE ks.t SET s = ? WHERE k = 1 IF EXISTS");
    for (name, opcode, column, body) in [
        ("elements", op::EXECUTE, "e", execute(&elements, &[&disorder()])),
        ("more elements", op::EXECUTE, "e", execute(&more, &[&disorder()])),
        ("a batch", op::BATCH, "s", batch(1, &conditional, &[vec![disorder()], vec![disorder()]])),
        ("an update", op::BATCH, "s", batch(1, &counted, &[vec![disorder()], vec![disorder()]])),
    ] {
        let keeps = name == "an update";
        if !keeps {
            crowd.run("DELETE FROM ks.t WHERE k = 1");
        }
        crowd.clients[WRITER].ask(opcode, &body, ());
        let (answer, turns) = write(&mut crowd);
        println!("{name}: {turns} turns");
        answer.kind();
        assert!(turns >= TURNS_MIN, "{name}: {turns}");
        let text = format!("SELECT {column} FROM ks.t WHERE k = 1");
        let rows = crowd.run(&text).rows().0;
        assert!(rows == [[Some(set(0..COUNT))]], "{name}");
        assert_eq!(requests_bytes(&crowd), 0, "{name}");
    }
}

#[test]
fn others_are_served_while_the_id_of_a_long_statement_is_made() {
    let mut crowd = crowd_looking(5 * LOOK_US);
    let text = |number: usize| {
        format!("INSERT INTO ks.t (k, s) VALUES ({number}, ?) -- {}", "a".repeat(200_000))
    };
    let mut ids = Vec::new();
    for number in [1, 2, 1] {
        crowd.clients[WRITER].ask(op::PREPARE, &long_string(&text(number)), ());
        let (answer, turns) = write(&mut crowd);
        answer.kind();
        assert!(turns >= 2, "{turns} turns");
        let length = usize::from(u16::from_be_bytes([answer.body[4], answer.body[5]]));
        ids.push(answer.body[6..6 + length].to_vec());
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[2]);
    crowd.clients[WRITER].ask(op::EXECUTE, &execute(&ids[1], &[&disorder()]), ());
    write(&mut crowd).0.kind();
    assert_eq!(crowd.run("SELECT k FROM ks.t").rows().0, [[Some(2i32.to_be_bytes().to_vec())]]);
}

#[test]
fn a_large_value_that_is_wrong_at_its_end_is_refused_and_nothing_is_written() {
    let mut crowd = crowd();
    let insert = prepare(&mut crowd, INSERT);
    let mut wrong = disorder();
    wrong.pop();
    for (opcode, body) in [
        (op::EXECUTE, execute(&insert, &[&wrong])),
        (op::BATCH, batch(1, &insert, &[vec![disorder()], vec![wrong.clone()]])),
    ] {
        crowd.clients[WRITER].ask(opcode, &body, ());
        let (answer, _) = write(&mut crowd);
        assert_eq!(answer.code(), 0x2200);
        assert_eq!(answer.message(), "Not enough bytes to read a set");
        assert!(crowd.run("SELECT s FROM ks.t").rows().0.is_empty());
    }
}

/// A small one is written before a large one, in one request.
#[test]
fn elements_of_a_list_are_behind_those_that_come_before_them() {
    let mut crowd = crowd();
    crowd.run("CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>, n int)");
    let append = "UPDATE ks.lists SET l = l + ? WHERE k = 1";
    let small = "UPDATE ks.lists SET l = l + [0] WHERE k = 1";
    let ids = [append, small, &format!("{small} IF n = 1")].map(|text| prepare(&mut crowd, text));
    let [append_id, small_id, conditional] = &ids;
    let numbers: Vec<u8> = (1..COUNT).flat_map(|number| item(number).concat()).collect();
    let large = [(COUNT - 1).to_be_bytes().to_vec(), numbers.clone()].concat();
    let wanted = [COUNT.to_be_bytes().to_vec(), item(0).concat(), numbers].concat();
    let of_two = |first: &[u8]| {
        let statement = |id: &[u8], given: &[&[u8]]| {
            let length = u16::try_from(id.len()).unwrap().to_be_bytes();
            [&[1], &length[..], id, &values(given)].concat()
        };
        let both = [statement(first, &[]), statement(append_id, &[&large])].concat();
        [&[1, 0, 2], &both[..], &[0, 1, 0]].concat()
    };
    for (name, opcode, body) in [
        ("text", op::QUERY, query(&format!("BEGIN BATCH {small}; {append} APPLY BATCH"), &large)),
        ("batch", op::BATCH, of_two(small_id)),
        ("condition", op::BATCH, of_two(conditional)),
    ] {
        crowd.run("DELETE FROM ks.lists WHERE k = 1");
        crowd.run("INSERT INTO ks.lists (k, n) VALUES (1, 1)");
        crowd.clients[WRITER].ask(opcode, &body, ());
        write(&mut crowd).0.kind();
        let rows = crowd.run("SELECT l FROM ks.lists WHERE k = 1").rows().0;
        assert!(rows == [[Some(wanted.clone())]], "{name}");
    }
}

/// Each statement fits, all of them together do not: what others send is not refused for it.
#[test]
fn statements_of_a_kept_batch_take_no_more_memory_than_requests_have() {
    let mut crowd = Crowd::with_memory(64 << 20, 3, LOOK_US);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>)");
    let numbers = vec!["1"; 9_000].join(",");
    let long = format!("UPDATE ks.lists SET l = [{numbers}] WHERE k = 1 IF EXISTS");
    crowd.clients[WRITER].ask(op::BATCH, &wire::client::text_batch(&vec![long; 40]), ());
    let most = crowd.engine.metrics(0).memory.most(Share::Requests);
    crowd.send(WRITER);
    let refused = loop {
        crowd.turn();
        let taken = requests_bytes(&crowd);
        assert!(taken <= most, "{taken} of {most} bytes");
        if let Some(answer) = crowd.answers(WRITER).pop() {
            break answer;
        }
    };
    assert_eq!(refused.code(), 0x1001, "{}", refused.message());
}

#[test]
fn a_large_argument_that_is_wrong_is_refused() {
    let mut crowd = crowd();
    crowd.run("CREATE TABLE ks.moments (k int PRIMARY KEY, u timeuuid)");
    crowd.run("INSERT INTO ks.moments (k, u) VALUES (1, now())");
    let update = "UPDATE ks.moments SET u = minTimeuuid(?) WHERE k = 1 IF EXISTS";
    let body = query(update, &vec![7; 40_000]);
    crowd.clients[WRITER].ask(op::QUERY, &body, ());
    assert_eq!(write(&mut crowd).0.code(), 0x2200);
    assert!(crowd.run("SELECT u FROM ks.moments").rows().0[0][0].is_some());
}

#[test]
fn what_comes_behind_a_large_value_waits_for_it() {
    let mut crowd = crowd();
    let insert = prepare(&mut crowd, INSERT);
    crowd.clients[WRITER].ask(op::EXECUTE, &execute(&insert, &[&disorder()]), ());
    crowd.ask(WRITER, "SELECT cluster_name FROM system.local");
    crowd.send(WRITER);
    let mut turns = 0;
    while crowd.answers(WRITER).is_empty() {
        crowd.turn();
        turns += 1;
    }
    assert!(turns >= TURNS_MIN / 2, "the second is answered after {turns} turns");
}

#[test]
fn what_a_large_value_takes_is_counted_and_given_back_when_its_client_leaves() {
    let mut crowd = crowd();
    let insert = prepare(&mut crowd, INSERT);
    let value = disorder();
    crowd.clients[WRITER].ask(op::EXECUTE, &execute(&insert, &[&value]), ());
    crowd.send(WRITER);
    for _ in 0..TURNS_MIN / 2 {
        crowd.turn();
    }
    let taken = requests_bytes(&crowd);
    assert!(taken >= 3 * value.len() as u64, "the request and two copies: {taken}");
    let Crowd { engine, clients, .. } = &mut crowd;
    clients[WRITER].leave(engine);
    for _ in 0..2 * TURNS_MIN {
        crowd.turn();
    }
    assert_eq!(requests_bytes(&crowd), 0);
}

#[test]
fn a_value_is_not_written_to_another_table_of_the_same_name() {
    let mut crowd = crowd();
    let insert = prepare(&mut crowd, INSERT);
    // Enough for all that follows.
    let numbers = 8 * COUNT;
    let mut value = numbers.to_be_bytes().to_vec();
    for number in (0..numbers).rev() {
        value.extend([4u32.to_be_bytes(), number.to_be_bytes()].concat());
    }
    let rows = [vec![value]];
    crowd.clients[WRITER].ask(op::BATCH, &batch(1, &insert, &rows), ());
    crowd.send(WRITER);
    for _ in 0..5 {
        crowd.turn();
    }
    crowd.run("DROP TABLE ks.t");
    crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, s text)");
    prepare(&mut crowd, INSERT);
    assert!(requests_bytes(&crowd) > 0, "it is not bound yet");
    let (answer, _) = write(&mut crowd);
    assert_eq!(answer.opcode, op::ERROR, "it was for the table that is gone");
    assert!(crowd.run("SELECT s FROM ks.t").rows().0.is_empty());
}
