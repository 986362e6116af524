//! What is on its way between two shards, or to clients that take nothing, is counted: it does not
//! grow beyond its share however slow the other side is.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    budget::Share,
    io::{ManualClock, Random, sim::SimDisk},
    metrics::ShardMetrics,
    mutation::token::{shard_of, token},
    store::StoreConfig,
};
use std::sync::Arc;
use whole::{
    Engine, LIMITS,
    client::{Client, batch, int, page, query, write},
    dialogue::Dialogue,
};
use wire::client::{Answer, op, string};

const OVERLOADED: i32 = 0x1001;

/// Memory of a shard.
const MEMORY: u64 = 32 << 20;

/// Bytes of a row that is written.
const ROW_BYTES: usize = 100_000;

/// More turns than anything takes.
const TURNS_MAX: usize = 20_000;

fn serving(memory: u64) -> Dialogue {
    let config = StoreConfig { shards: 2, ..StoreConfig::default() };
    let clock = Arc::new(ManualClock::at(simulated::START_US));
    let metrics = || ShardMetrics::with_memory(memory);
    let disk = SimDisk::new(1);
    let engine = Engine::open_counting(&disk, &clock, &config, 1, LIMITS, metrics).unwrap();
    let mut dialogue = Dialogue::new(engine);
    dialogue.run(
        0,
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    dialogue.run(0, "CREATE TABLE k.t (p int PRIMARY KEY, v blob)");
    dialogue
}

fn partitions_of(shard: u16) -> impl Iterator<Item = i32> {
    (0..).filter(move |p: &i32| shard_of(token(&p.to_be_bytes()), 2) == shard)
}

/// Clients of the first shard, and what they have written.
struct Crowd {
    clients: Vec<Client<Vec<i32>>>,
    written: Vec<i32>,
    refused: usize,
}

impl Crowd {
    fn connect(engine: &mut Engine, count: usize) -> Self {
        let clients = (0..count).map(|_| Client::connect(engine, 0, Vec::new())).collect();
        Self { clients, written: Vec::new(), refused: 0 }
    }

    /// Each asks for this, of partitions that are named in it.
    fn ask(&mut self, opcode: u8, mut body: impl FnMut() -> (Vec<u8>, Vec<i32>)) {
        for client in &mut self.clients {
            let (body, partitions) = body();
            client.ask(opcode, &body, partitions);
        }
    }

    /// Gives the engine all that they say, and takes its answers; only these shards have turns.
    fn turns(&mut self, engine: &mut Engine, shards: &[usize], count: usize) {
        let mut random = Random(1);
        for _ in 0..count {
            for client in &mut self.clients {
                while !client.is_sent() {
                    client.push(engine, &mut random);
                }
            }
            for shard in shards {
                if engine.is_awake(*shard) {
                    engine.turn(*shard).unwrap();
                }
            }
            engine.clock.advance(1_000);
            for client in &mut self.clients {
                for (partitions, answer) in client.take(engine, 1 << 20) {
                    if answer.opcode == op::ERROR {
                        assert_eq!(answer.code(), OVERLOADED);
                        self.refused += 1;
                    }
                    if answer.opcode == op::RESULT {
                        self.written.extend(partitions);
                    }
                }
            }
        }
    }

    fn is_answered(&self) -> bool {
        self.clients.iter().all(|client| client.waiting.is_empty())
    }
}

/// Has clients of the first shard write while the second one stands still, and then go on: memory
/// for what is on its way is bounded, and what was acknowledged is there.
fn write_while_the_other_stands_still(
    mut dialogue: Dialogue,
    body: impl FnMut() -> (Vec<u8>, Vec<i32>),
    opcode: u8,
) {
    let mut body = body;
    let mut crowd = Crowd::connect(&mut dialogue.engine, 10);
    for _ in 0..6 {
        crowd.ask(opcode, &mut body);
        crowd.turns(&mut dialogue.engine, &[0], 10);
        let taken = dialogue.engine.metrics(0).memory.taken(Share::Transit);
        let most = Share::Transit.of(MEMORY);
        assert!((most / 2..=most).contains(&taken), "{taken} bytes of {most} are on their way");
    }
    assert!(crowd.refused > 20, "{} were refused", crowd.refused);
    for _ in 0..TURNS_MAX {
        if crowd.is_answered() {
            break;
        }
        crowd.turns(&mut dialogue.engine, &[0, 1], 1);
    }
    assert!(crowd.is_answered());
    assert_eq!(dialogue.engine.metrics(0).memory.taken(Share::Transit), 0, "all is given back");
    assert!(!crowd.written.is_empty());
    for p in crowd.written {
        let (rows, _) = dialogue.page(0, &format!("SELECT v FROM k.t WHERE p = {p}"), 10);
        assert_eq!(rows, [[Some(vec![7; ROW_BYTES])]]);
    }
}

#[test]
fn writes_of_another_shard_are_counted_until_it_takes_them() {
    let mut dialogue = serving(MEMORY);
    let insert = dialogue.prepare(0, "INSERT INTO k.t (p, v) VALUES (?, ?)");
    let mut partitions = partitions_of(1);
    let body = || {
        let p = partitions.next().unwrap();
        (write(&insert, &[int(p), vec![7; ROW_BYTES]], 1), vec![p])
    };
    write_while_the_other_stands_still(dialogue, body, op::EXECUTE);
}

#[test]
fn logged_batches_are_counted_until_all_shards_have_their_part() {
    let mut dialogue = serving(MEMORY);
    let insert = dialogue.prepare(0, "INSERT INTO k.t (p, v) VALUES (?, ?)");
    let (mut ours, mut theirs) = (partitions_of(0), partitions_of(1));
    let body = || {
        let all = vec![ours.next().unwrap(), theirs.next().unwrap()];
        let rows: Vec<_> =
            all.iter().map(|p| (insert.clone(), vec![int(*p), vec![7; ROW_BYTES]])).collect();
        (batch(0, &rows, 1), all)
    };
    write_while_the_other_stands_still(dialogue, body, op::BATCH);
}

#[test]
fn a_write_that_is_larger_than_the_share_goes_alone() {
    let mut dialogue = serving(1 << 20);
    let insert = dialogue.prepare(0, "INSERT INTO k.t (p, v) VALUES (?, ?)");
    let p = partitions_of(1).next().unwrap();
    let row = |p| (insert.clone(), vec![int(p), vec![7; 60_000]]);
    let ours = partitions_of(0).next().unwrap();
    for body in [batch(1, &[row(p)], 1), batch(0, &[row(p), row(ours)], 2)] {
        let answer = dialogue.ask(0, op::BATCH, &body);
        assert_eq!(answer.kind(), 1, "void");
    }
    assert_eq!(dialogue.engine.metrics(0).memory.taken(Share::Transit), 0);
}

#[test]
fn a_row_is_read_while_others_take_no_pages() {
    let mut dialogue = serving(MEMORY);
    dialogue.run(0, "CREATE TABLE k.pages (p int, c int, v blob, PRIMARY KEY (p, c))");
    let insert = dialogue.prepare(0, "INSERT INTO k.pages (p, c, v) VALUES (?, ?, ?)");
    for c in 0..3 {
        let body = write(&insert, &[int(0), int(c), vec![7; 900_000]], 1);
        assert_eq!(dialogue.ask(0, op::EXECUTE, &body).kind(), 1);
    }
    let mut silent = Crowd::connect(&mut dialogue.engine, 20);
    silent.turns(&mut dialogue.engine, &[0, 1], 10);
    for client in &mut silent.clients {
        client.take(&mut dialogue.engine, 0);
    }
    silent.ask(op::QUERY, || (page("SELECT v FROM k.pages WHERE p = 0", 100, None), Vec::new()));
    for client in &mut silent.clients {
        while !client.is_sent() {
            client.push(&mut dialogue.engine, &mut Random(1));
        }
    }
    (0..100).for_each(|_| dialogue.turn());
    let taken = dialogue.engine.metrics(0).memory.taken(Share::Answers);
    let most = Share::Answers.of(MEMORY);
    assert!((most / 2..=most).contains(&taken), "{taken} bytes of answers, of {most}");
    let row = query("SELECT c FROM k.pages WHERE p = 0 AND c = 1");
    dialogue.clients[0].ask(op::QUERY, &row, ());
    dialogue.push(0);
    // Long before anybody is closed for taking nothing.
    (0..20).for_each(|_| dialogue.turn());
    let answers = dialogue.take(0);
    assert_eq!(answers.len(), 1, "it waits for the others");
    assert_eq!(answers[0].rows().0, [[Some(int(1))]]);
    assert!(silent.clients.iter().all(|client| !client.is_closed()));
}

#[test]
fn answers_of_system_tables_are_refused_where_there_is_no_room() {
    let memory = 1 << 20;
    let mut dialogue = serving(memory);
    let columns: Vec<String> = (0..150).map(|n| format!("{}{n} int", "c".repeat(40))).collect();
    dialogue.run(0, &format!("CREATE TABLE k.wide (p int PRIMARY KEY, {})", columns.join(", ")));
    let mut silent = Crowd::connect(&mut dialogue.engine, 50);
    silent.turns(&mut dialogue.engine, &[0, 1], 10);
    for client in &mut silent.clients {
        client.take(&mut dialogue.engine, 0);
    }
    silent.ask(op::QUERY, || (query("SELECT * FROM system_schema.columns"), Vec::new()));
    for client in &mut silent.clients {
        while !client.is_sent() {
            client.push(&mut dialogue.engine, &mut Random(1));
        }
    }
    // A list takes several turns.
    (0..200).for_each(|_| dialogue.turn());
    let (most, taken) =
        (Share::Answers.of(memory), dialogue.engine.metrics(0).memory.taken(Share::Answers));
    assert!((most / 2..=most + (32 << 10)).contains(&taken), "{taken} bytes of {most}");
    silent.turns(&mut dialogue.engine, &[0, 1], 100);
    assert!((20..50).contains(&silent.refused), "{} were refused", silent.refused);
}

#[test]
fn changes_of_the_schema_are_not_kept_for_clients_that_take_nothing() {
    let memory = 1 << 20;
    let mut dialogue = serving(memory);
    let mut register = vec![0, 1];
    string(&mut register, "SCHEMA_CHANGE");
    let mut silent = Crowd::connect(&mut dialogue.engine, 50);
    silent.ask(op::REGISTER, || (register.clone(), Vec::new()));
    silent.turns(&mut dialogue.engine, &[0, 1], 20);
    assert!(silent.is_answered());
    for client in &mut silent.clients {
        client.take(&mut dialogue.engine, 0);
    }
    let ready = dialogue.ask(0, op::REGISTER, &register);
    assert_eq!(ready.opcode, op::READY);

    let mut heard = 0;
    let most = Share::Answers.of(memory);
    for number in 0..400 {
        let create = query(&format!("CREATE TABLE k.t{number} (p int PRIMARY KEY)"));
        let drop = query(&format!("DROP TABLE k.t{number}"));
        for change in [create, drop] {
            dialogue.clients[1].ask(op::QUERY, &change, ());
            let is_result = |answer: &Answer| answer.opcode == op::RESULT;
            let mut is_answered = false;
            while !is_answered {
                dialogue.push(1);
                dialogue.turn();
                is_answered = dialogue.take(1).iter().any(is_result);
                let frames = dialogue.clients[0].frames(&mut dialogue.engine, 1 << 20);
                heard += frames.iter().filter(|frame| frame.opcode == op::EVENT).count();
                let taken = dialogue.engine.metrics(0).memory.taken(Share::Answers);
                assert!(taken <= most + 64 * 1024, "{taken} bytes of answers, of {most}");
            }
        }
    }
    assert!(silent.clients.iter().any(Client::is_closed), "some are closed");
    assert_eq!(heard, 800, "who listens hears of every change");
}
