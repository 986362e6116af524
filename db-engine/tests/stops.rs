//! A stop ends soon whatever clients have begun, and leaves logged batches whole.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    io::{ManualClock, Random, sim::SimDisk},
    mutation::token::{shard_of, token},
    store::StoreConfig,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::tempdir;
use whole::{
    Engine,
    client::{Client, batch, int, query},
    dialogue::Dialogue,
};
use wire::client::{self as raw, op};

const STOPS: u64 = 1_000;

/// Stops of one directory, so that it does not become large.
const STOPS_OF_DISK: u64 = 25;

/// More turns than a stop needs.
const TURNS_MAX: u64 = 20_000;

const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int, c int, v blob, PRIMARY KEY (p, c))",
    "CREATE TABLE k.dropped (p int, c int, v blob, PRIMARY KEY (p, c))",
];

/// A partition of this shard, of two.
fn partition_of(shard: u16) -> i32 {
    (0..100).find(|p: &i32| shard_of(token(&p.to_be_bytes()), 2) == shard).unwrap()
}

/// What became of the batches, by number: whether it was acknowledged.
type Batches = BTreeMap<i32, bool>;

struct Round<'a> {
    engine: Engine,
    random: &'a mut Random,
    clients: Vec<Client<Option<i32>>>,
}

impl Round<'_> {
    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            let shard = usize::from(self.random.below(2) == 0);
            if self.engine.is_awake(shard) {
                self.engine.turn(shard).unwrap();
            }
            self.engine.clock.advance(200);
        }
    }

    fn take(&mut self, batches: &mut Batches) {
        for client in &mut self.clients {
            for (number, answer) in client.take(&mut self.engine, 1 << 20) {
                if let Some(number) = number.filter(|_| answer.opcode == op::RESULT) {
                    batches.insert(number, true);
                }
            }
        }
    }

    fn push(&mut self) {
        for client in &mut self.clients {
            while !client.is_sent() {
                client.push(&mut self.engine, self.random);
            }
        }
    }
}

/// Serves, is told to stop in the midst of batches, and ends.
fn serve_and_stop(
    disk: &SimDisk,
    config: &StoreConfig,
    random: &mut Random,
    batches: &mut Batches,
) {
    let clock =
        Arc::new(ManualClock::at(simulated::START_US + i64::try_from(batches.len()).unwrap()));
    let mut dialogue = Dialogue::new(Engine::open(disk, &clock, config, 1).unwrap());
    let insert = dialogue.prepare(0, "INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)");
    let mut round = Round { engine: dialogue.engine, random, clients: Vec::new() };
    for shard in [0, 1, 0, 1] {
        let client = Client::connect(&mut round.engine, shard, None);
        round.clients.push(client);
    }
    round.push();
    round.turns(20);
    for client in 0..4 {
        for _ in 0..round.random.below(4) {
            let number = i32::try_from(batches.len()).unwrap();
            batches.insert(number, false);
            let bytes = usize::try_from(round.random.below(1_500)).unwrap();
            let row = |shard| {
                (insert.clone(), vec![int(partition_of(shard)), int(number), vec![7; bytes]])
            };
            round.clients[client].ask(op::BATCH, &batch(0, &[row(0), row(1)], 1), Some(number));
        }
    }
    round.push();
    let turns = round.random.below(40);
    round.turns(turns);
    round.take(batches);
    for client in 0..4 {
        if round.random.below(2) == 0 {
            round.clients[client].leave(&mut round.engine);
        }
    }
    let turns = round.random.below(10);
    round.turns(turns);
    round.engine.stop.request();
    let asked = Instant::now();
    for _ in 0..TURNS_MAX {
        if round.engine.is_over() {
            break;
        }
        round.turns(1);
        round.take(batches);
    }
    assert!(round.engine.is_over(), "it does not stop");
    assert!(asked.elapsed() < Duration::from_secs(3), "no request was waited for in vain");
}

/// Every batch is there as a whole or not at all, and if it was acknowledged it is there.
fn check(disk: &SimDisk, config: &StoreConfig, batches: &Batches) {
    let clock = Arc::new(ManualClock::at(simulated::START_US + 1_000_000));
    let mut dialogue = Dialogue::new(Engine::open(disk, &clock, config, 1).unwrap());
    let found = [0, 1].map(|shard| {
        let p = partition_of(shard);
        let (rows, _) = dialogue.page(0, &format!("SELECT c FROM k.t WHERE p = {p}"), 1_000);
        rows.into_iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>()
    });
    for (number, is_acknowledged) in batches {
        let there = found.each_ref().map(|rows| rows.contains(&int(*number)));
        assert_eq!(there[0], there[1], "half of batch {number}");
        assert!(there[0] || !is_acknowledged, "batch {number} is lost");
    }
    dialogue.stop();
}

#[test]
fn a_thousand_stops_under_batches_end_and_leave_them_whole() {
    let (mut whole, mut asked) = (0, 0);
    for seed in 0..STOPS / STOPS_OF_DISK {
        println!("seed {seed}");
        let mut random = Random(seed);
        let disk = SimDisk::new(seed);
        // Little memory: parts of batches are refused now and then.
        let mut config = simulated::config(2);
        config.memtable_bytes_max = 12 << 10;
        let clock = Arc::new(ManualClock::at(simulated::START_US));
        let mut dialogue = Dialogue::new(Engine::open(&disk, &clock, &config, seed).unwrap());
        for statement in SCHEMA {
            dialogue.run(0, statement);
        }
        dialogue.stop();
        drop(dialogue);
        let mut batches = Batches::new();
        for _ in 0..STOPS_OF_DISK {
            serve_and_stop(&disk, &config, &mut random, &mut batches);
        }
        check(&disk, &config, &batches);
        asked += batches.len();
        whole += batches.values().filter(|is_acknowledged| **is_acknowledged).count();
    }
    println!("{asked} batches, {whole} acknowledged");
    assert!(whole > 200 && asked > whole + 200, "some were acknowledged, some were not");
}

#[test]
fn a_batch_with_a_table_that_is_dropped_meanwhile_ends_and_keeps_the_rest() {
    for delay in 0..160 {
        let disk = SimDisk::new(delay);
        let config = simulated::config(2);
        let clock = Arc::new(ManualClock::at(simulated::START_US));
        let mut dialogue = Dialogue::new(Engine::open(&disk, &clock, &config, 1).unwrap());
        for statement in SCHEMA {
            dialogue.run(0, statement);
        }
        let kept = dialogue.prepare(0, "INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)");
        let lost = dialogue.prepare(0, "INSERT INTO k.dropped (p, c, v) VALUES (?, ?, ?)");
        let rows: Vec<_> = [0, 1]
            .into_iter()
            .flat_map(|shard| [&lost, &kept].map(|id| (id.clone(), shard)))
            .map(|(id, shard)| (id, vec![int(partition_of(shard)), int(1), vec![7]]))
            .collect();
        dialogue.clients[1].ask(op::QUERY, &query("DROP TABLE k.dropped"), ());
        dialogue.push(1);
        (0..delay / 8).for_each(|_| dialogue.turn());
        dialogue.clients[0].ask(op::BATCH, &batch(0, &rows, 1), ());
        dialogue.push(0);
        // One shard is behind the other, by as much as it takes.
        for _ in 0..delay % 8 {
            dialogue.engine.turn(usize::try_from(delay % 2).unwrap()).unwrap();
        }
        let answer = dialogue.answer(0);
        let is_written = answer.opcode == op::RESULT;
        dialogue.stop();
        drop(dialogue);
        let mut dialogue = Dialogue::new(Engine::open(&disk, &clock, &config, 1).unwrap());
        let (rows, _) = dialogue.page(0, "SELECT c FROM k.t", 10);
        assert_eq!(rows.len(), if is_written { 2 } else { 0 }, "delay {delay}");
    }
}

#[test]
fn the_binary_stops_within_five_seconds_although_clients_leave_batches_behind() {
    let directory = tempdir().unwrap();
    for stop in 0..30_u64 {
        let engine = wire::engine::Engine::start(directory.path(), &["--shards", "2"]);
        let mut client = raw::Client::connect(engine.cql).unwrap();
        if stop == 0 {
            for statement in SCHEMA {
                client.run(statement);
            }
        }
        let count = |client: &mut raw::Client, shard| {
            let text = format!("SELECT c FROM k.t WHERE p = {}", partition_of(shard));
            client.run(&text).rows().0.len()
        };
        let found = [0, 1].map(|shard| count(&mut client, shard));
        assert_eq!(found[0], found[1], "half a batch, before stop {stop}");
        let insert = client.prepare("INSERT INTO k.t (p, c, v) VALUES (?, ?, ?)");
        for connection in 0..4_i32 {
            let mut client = raw::Client::connect(engine.cql).unwrap();
            for stream in 0..8_i16 {
                let number =
                    i32::try_from(stop).unwrap() * 100 + connection * 10 + i32::from(stream);
                let rows = [0, 1].map(|s| vec![int(partition_of(s)), int(number), vec![7; 5_000]]);
                client
                    .send(&raw::frame(stream, op::BATCH, &raw::batch(0, &insert, &rows)))
                    .unwrap();
            }
        }
        sleep(Duration::from_micros(stop * 300));
        let asked = Instant::now();
        assert_eq!(engine.stop("-TERM"), Some(0));
        assert!(asked.elapsed() < Duration::from_secs(5), "stop {stop}: {:?}", asked.elapsed());
    }
}
