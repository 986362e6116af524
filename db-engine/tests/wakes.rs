//! Whoever waits is woken by what it waits for: an engine whose shards take a turn only if they
//! have a reason to is done with everything before it sleeps. Nothing here waits for time to go by,
//! so a wake-up that is lost is not made up for by an alarm.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    io::Clock,
    mutation::token::{shard_of, token},
    store::StoreConfig,
};
use whole::crowd::Crowd;
use wire::client::{Answer, execute, long_string, op};

/// A look at the clock takes a tenth of a turn's time for requests, so that much is cut.
const LOOK_US: u64 = 100;

/// More turns than anything here needs.
const TURNS_MAX: usize = 100_000;

fn crowd(shards: u16, clients: usize) -> Crowd {
    // Little memory, so that rows are flushed and read from sstables.
    let config = StoreConfig { shards, ..simulated::config(shards) };
    let mut crowd = Crowd::of(&config, clients, LOOK_US);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run("CREATE TABLE ks.t (k int, c int, v text, s frozen<set<int>>, PRIMARY KEY (k, c))");
    crowd
}

/// Takes turns as long as any shard has a reason to.
fn until_asleep(crowd: &mut Crowd) {
    for _ in 0..TURNS_MAX {
        let awake = (0..crowd.engine.shards()).find(|shard| crowd.engine.is_awake(*shard));
        let Some(shard) = awake else { return };
        // The others, too, but none that sleeps.
        for other in shard..crowd.engine.shards() {
            if crowd.engine.is_awake(other) {
                crowd.engine.turn(other).unwrap();
            }
        }
    }
    panic!("it does not come to rest");
}

/// The answers of a client once nothing is done any more. Taking them wakes its shard: so all of
/// them are to be there by then.
fn answers_of(crowd: &mut Crowd, client: usize) -> Vec<Answer> {
    until_asleep(crowd);
    let all = crowd.answers(client);
    until_asleep(crowd);
    all
}

/// Rows for reads that take longer than a turn, most of them in sstables.
fn fill(crowd: &mut Crowd) {
    for number in 0..600 {
        let text = format!(
            "INSERT INTO ks.t (k, c, v) VALUES ({}, {number}, '{number:0>100}')",
            number % 7
        );
        crowd.ask(0, &text);
        if number % 5 == 4 {
            crowd.send(0);
            assert_eq!(answers_of(crowd, 0).len(), 5);
        }
    }
}

fn set(count: u32) -> Vec<u8> {
    let mut out = count.to_be_bytes().to_vec();
    for number in (0..count).rev() {
        out.extend([4u32.to_be_bytes(), number.to_be_bytes()].concat());
    }
    out
}

fn prepare(crowd: &mut Crowd, client: usize, text: &str) -> Vec<u8> {
    crowd.clients[client].ask(op::PREPARE, &long_string(text), ());
    crowd.send(client);
    let answer = answers_of(crowd, client).remove(0);
    let length = usize::from(u16::from_be_bytes([answer.body[4], answer.body[5]]));
    answer.body[6..6 + length].to_vec()
}

#[test]
fn a_write_that_waits_for_a_latch_goes_on_when_it_is_released() {
    const EACH: i32 = 30;
    for shards in [1, 2, 3] {
        let mut crowd = crowd(shards, 4);
        for number in 0..EACH {
            for client in 0..3 {
                let text = format!(
                    "INSERT INTO ks.t (k, c, v) VALUES ({}, {number}, 'a') IF NOT EXISTS",
                    number % 12
                );
                crowd.ask(client, &text);
            }
        }
        (0..3).for_each(|client| crowd.send(client));
        let mut answered = 0;
        for client in 0..3 {
            answered += answers_of(&mut crowd, client).iter().map(Answer::kind).count();
        }
        assert_eq!(answered, 3 * usize::try_from(EACH).unwrap(), "{shards} shards");
    }
}

#[test]
fn a_request_that_was_cut_goes_on_by_itself() {
    let mut crowd = crowd(1, 2);
    let insert = prepare(&mut crowd, 0, "INSERT INTO ks.t (k, c, s) VALUES (1, 1, ?)");
    crowd.clients[0].ask(op::EXECUTE, &execute(&insert, &[&set(500)]), ());
    for _ in 0..3 {
        // More than there is time for in a turn.
        crowd.clients[0].ask(op::EXECUTE, &execute(&insert, &[&set(5_000)]), ());
    }
    crowd.send(0);
    assert_eq!(answers_of(&mut crowd, 0).len(), 4);
}

#[test]
fn a_large_write_is_written_and_applied_to_its_end() {
    // The slower the clock is looked at, the more turns it takes.
    for (look_us, kibibytes, writes) in [(LOOK_US, 3 << 10, 2), (6 * LOOK_US, 300, 10)] {
        let mut crowd = Crowd::of(&StoreConfig::default(), 2, look_us);
        crowd.run(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        crowd.run("CREATE TABLE ks.t (k int PRIMARY KEY, v blob)");
        let insert = prepare(&mut crowd, 0, "INSERT INTO ks.t (k, v) VALUES (1, ?)");
        for _ in 0..writes {
            let value = vec![7; kibibytes << 10];
            crowd.clients[0].ask(op::EXECUTE, &execute(&insert, &[&value]), ());
            crowd.send(0);
            assert_eq!(answers_of(&mut crowd, 0).len(), 1, "{kibibytes} KiB");
        }
    }
}

#[test]
fn a_read_that_has_had_its_time_goes_on() {
    let mut crowd = crowd(1, 2);
    fill(&mut crowd);
    for text in [
        "SELECT count(*) FROM ks.t",
        "SELECT k FROM ks.t WHERE v = 'none' ALLOW FILTERING",
        "SELECT count(*) FROM ks.t WHERE k IN (0, 1, 2, 3, 4, 5, 6)",
    ] {
        crowd.ask(0, text);
        crowd.ask(0, text);
        crowd.send(0);
        assert_eq!(answers_of(&mut crowd, 0).len(), 2, "{text}");
    }
}

#[test]
fn a_conditional_write_waits_for_reads_of_its_client_and_no_longer() {
    let mut crowd = crowd(1, 2);
    fill(&mut crowd);
    // Reads under way count as megabytes that the client has not taken.
    for _ in 0..8 {
        crowd.ask(0, "SELECT count(*) FROM ks.t WHERE v = 'none' ALLOW FILTERING");
    }
    crowd.ask(0, "INSERT INTO ks.t (k, c) VALUES (1, 99) IF NOT EXISTS");
    crowd.send(0);
    let begun_us = crowd.engine.clock.elapsed_us();
    let mut answers = Vec::new();
    while answers.len() < 9 {
        answers.extend(answers_of(&mut crowd, 0));
        assert!(crowd.engine.clock.elapsed_us() - begun_us < 1_000_000, "it waits for ever");
        crowd.engine.clock.advance(10_000);
    }
    for answer in answers {
        assert_eq!(answer.kind(), 2, "rows");
    }
}

#[test]
fn an_engine_that_stops_comes_to_its_end() {
    for shards in [1, 2] {
        let mut crowd = crowd(shards, 2);
        for number in 0..20 {
            crowd.ask(0, &format!("INSERT INTO ks.t (k, c, v) VALUES ({number}, 1, 'a')"));
        }
        crowd.send(0);
        assert_eq!(answers_of(&mut crowd, 0).len(), 20);
        crowd.engine.stop.request();
        until_asleep(&mut crowd);
        assert!(crowd.engine.is_over(), "{shards} shards");
    }
}

#[test]
fn who_waits_for_a_latch_in_vain_is_told_so_in_time() {
    let mut crowd = crowd(2, 2);
    let of_second = |key: &i32| shard_of(token(&key.to_be_bytes()), 2) == 1;
    let key = (0..1_000).find(of_second).unwrap();
    until_asleep(&mut crowd);
    for number in 0..2 {
        let text = format!("INSERT INTO ks.t (k, c) VALUES ({key}, {number}) IF NOT EXISTS");
        crowd.ask(0, &text);
    }
    crowd.send(0);
    // The second shard gives its latch to one of them, and then takes no turn any more.
    crowd.engine.turn(0).unwrap();
    crowd.engine.turn(1).unwrap();
    let begun_us = crowd.engine.clock.elapsed_us();
    loop {
        for _ in 0..TURNS_MAX {
            if !crowd.engine.is_awake(0) {
                break;
            }
            crowd.engine.turn(0).unwrap();
        }
        // Who looks for an answer wakes the shard.
        if crowd.engine.metrics(0).serving.get() == 1 {
            assert_eq!(crowd.answers(0).remove(0).code(), 0x1001, "it is refused as overloaded");
            break;
        }
        assert!(crowd.engine.clock.elapsed_us() - begun_us < 6_000_000, "it waits for ever");
        crowd.engine.clock.advance(10_000);
    }
}

/// Blocks of the log since this was asked last, and how many of them the shard wrote itself.
fn blocks_since(crowd: &Crowd, before: &mut (u64, u64)) -> (u64, u64) {
    let metrics = crowd.engine.metrics(0);
    let now = (metrics.log_blocks.get(), metrics.own_log_blocks.get());
    let (blocks, own) = std::mem::replace(before, now);
    (now.0 - blocks, now.1 - own)
}

#[test]
fn a_shard_writes_its_log_itself_where_it_would_wait_and_nobody_reads() {
    const WRITES: u64 = 20;
    let mut crowd = crowd(1, 2);
    until_asleep(&mut crowd);
    let mut before = (0, 0);
    blocks_since(&crowd, &mut before);
    let write = |crowd: &mut Crowd, number: u64| {
        crowd.run(&format!("INSERT INTO ks.t (k, c, v) VALUES (1, {number}, 'a')"));
        until_asleep(crowd);
    };
    (0..WRITES).for_each(|number| write(&mut crowd, number));
    assert_eq!(blocks_since(&crowd, &mut before), (WRITES, WRITES));
    for number in 0..WRITES {
        crowd.run("SELECT v FROM ks.t WHERE k = 1 AND c = 1");
        write(&mut crowd, number);
    }
    assert_eq!(blocks_since(&crowd, &mut before), (WRITES, 0), "somebody reads");
    write(&mut crowd, 1);
    assert_eq!(blocks_since(&crowd, &mut before), (1, 1), "nobody has read since");
    // Ten looks at the clock are a turn: these take many, and few of those leave nothing to do.
    for number in 0..2_000 {
        crowd.ask(0, &format!("INSERT INTO ks.t (k, c, v) VALUES (2, {number}, 'a')"));
    }
    crowd.send(0);
    crowd.turn();
    until_asleep(&mut crowd);
    assert_eq!(crowd.answers(0).len(), 2_000);
    let (blocks, own) = blocks_since(&crowd, &mut before);
    assert!(blocks >= 12 && own * 4 <= blocks, "{own} of {blocks} while there was more to do");
}
