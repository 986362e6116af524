//! Clients that take as much of an engine as they get: its memory, its open files, its turns.

use super::{
    client::{Client, batch, execute, execute_page, frame, long_string, op, startup, text_batch},
    engine::{Engine, limited},
    honest::{Honest, MEMORY, megabyte, with_large_rows},
};
use std::{
    io,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// So few open files that idle sockets take all that connections may have.
const FEW_FILES: &str = "--nofile=300";

/// Rows of a table that is counted.
const COUNTED: i32 = 5_000;

/// One round of an attack. An error is that the engine has closed the connection, as it may.
type Round = fn(&Attack, u64) -> io::Result<()>;

/// All of them. The first [`OF_BYTES_AND_TURNS`] are against memory, open files and turns alone.
const ROUNDS: [(&str, Round); 12] = [
    ("idle sockets", idle_sockets),
    ("small updates of a large row", small_updates),
    ("results that are not paged", unpaged),
    ("pages that nobody takes", untaken_pages),
    ("large statements", large_statements),
    ("frames that do not end", half_frames),
    ("pipelined counts", counts),
    ("a number with a million digits", long_number),
    ("a byte a second", byte_a_second),
    ("logged batches over shards", logged_batches),
    ("large writes", large_writes),
    ("changes of the schema", schema_changes),
];

pub const OF_BYTES_AND_TURNS: usize = 9;

pub const ALL: usize = ROUNDS.len();

/// Several attacks at once on one engine.
pub struct Attack {
    port: u16,
    over: AtomicBool,
    /// Times that each was carried through, however it was answered.
    rounds: Vec<AtomicU64>,
}

/// The engine that is attacked, with little memory and few open files: its binary, and the
/// arguments besides.
pub fn attacked(engine: &Command) -> Command {
    let mut command = limited(&[FEW_FILES], engine);
    command.args(["--shards", "2", "--memory", MEMORY]);
    command
}

impl Attack {
    /// So many attacks, the first of [`ROUNDS`].
    pub fn new(port: u16, count: usize) -> Self {
        let rounds = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { port, over: AtomicBool::new(false), rounds }
    }

    /// Attacks while `during` goes on.
    pub fn run<T>(&self, during: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for ((_, round), count) in ROUNDS.iter().zip(&self.rounds) {
                scope.spawn(move || {
                    while !self.is_over() {
                        let _ = round(self, count.fetch_add(1, Relaxed));
                        self.pause(Duration::from_millis(5));
                    }
                });
            }
            let result = during();
            self.over.store(true, Relaxed);
            result
        })
    }

    /// Says how often each attack was carried through; panics if one has not begun.
    pub fn check_rounds(&self) {
        for ((name, _), rounds) in ROUNDS.iter().zip(&self.rounds) {
            println!("{name}: {} rounds", rounds.load(Relaxed));
            assert!(rounds.load(Relaxed) > 0, "{name} did not begin");
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.is_over() && Instant::now() < until {
            sleep(Duration::from_millis(10));
        }
    }

    fn connect(&self) -> io::Result<Client> {
        let mut client = Client::raw(self.port)?;
        client.set_patience(Duration::from_secs(2));
        client.ask(op::STARTUP, &startup())?;
        Ok(client)
    }

    fn connect_all(&self, count: usize) -> io::Result<Vec<Client>> {
        (0..count).map(|_| self.connect()).collect()
    }
}

/// The id of a statement, if the engine has memory for it.
fn prepare(client: &mut Client, text: &str) -> io::Result<Vec<u8>> {
    let answer = client.ask(op::PREPARE, &long_string(text))?;
    if answer.opcode == op::ERROR {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let length = usize::from(u16::from_be_bytes([answer.body[4], answer.body[5]]));
    Ok(answer.body[6..6 + length].to_vec())
}

fn query(text: &str) -> Vec<u8> {
    let mut body = long_string(text);
    body.extend_from_slice(&[0, 1, 0]);
    body
}

fn idle_sockets(attack: &Attack, _: u64) -> io::Result<()> {
    let sockets: io::Result<Vec<Client>> = (0..400).map(|_| Client::raw(attack.port)).collect();
    attack.pause(Duration::from_secs(1));
    sockets.map(drop)
}

fn small_updates(attack: &Attack, round: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    let insert = prepare(&mut client, "INSERT INTO ks.updated (k, v) VALUES (?, ?)")?;
    let key = [0, 0, 0, round.to_le_bytes()[0] % 4];
    client.ask(op::EXECUTE, &execute(&insert, &[&key, &megabyte(1)]))?;
    let update = |n| format!("UPDATE ks.updated SET c{n} = {round} WHERE k = {}", key[3]);
    let updates: Vec<String> = (0..1000).map(update).collect();
    client.ask(op::BATCH, &text_batch(&updates))?;
    Ok(())
}

fn unpaged(attack: &Attack, _: u64) -> io::Result<()> {
    let mut clients = attack.connect_all(20)?;
    for client in &mut clients {
        client.send(&frame(1, op::QUERY, &query("SELECT v FROM ks.large WHERE k = 0")))?;
    }
    clients.iter_mut().try_for_each(|client| client.receive().map(drop))
}

fn untaken_pages(attack: &Attack, _: u64) -> io::Result<()> {
    let mut clients = attack.connect_all(3)?;
    for client in &mut clients {
        let select = prepare(client, "SELECT v FROM ks.large WHERE k = ? AND c >= ?")?;
        let pages = (0..1000_i16).flat_map(|stream| {
            let from = i32::from(stream % 24).to_be_bytes();
            frame(stream, op::EXECUTE, &execute_page(&select, &[&[0; 4], &from], 100, None))
        });
        client.send(&pages.collect::<Vec<u8>>())?;
    }
    attack.pause(Duration::from_secs(2));
    Ok(())
}

fn large_statements(attack: &Attack, round: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    let filler = "x".repeat(400_000);
    for number in 0..20 {
        let text = format!("INSERT INTO ks.text (k, v) VALUES (?, '{round} {number} {filler}')");
        if let Ok(id) = prepare(&mut client, &text) {
            client.ask(op::EXECUTE, &execute(&id, &[&[0; 4]]))?;
        }
    }
    Ok(())
}

fn half_frames(attack: &Attack, _: u64) -> io::Result<()> {
    let mut part = frame(1, op::OPTIONS, &vec![b'x'; 1 << 20]);
    part.pop();
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut client = Client::raw(attack.port)?;
        let _ = client.send(&part);
        silent.push(client);
    }
    attack.pause(Duration::from_millis(200));
    Ok(())
}

fn counts(attack: &Attack, _: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    let count = prepare(&mut client, "SELECT count(*) FROM ks.counted")?;
    let frames = (0..1000).flat_map(|stream| frame(stream, op::EXECUTE, &execute(&count, &[])));
    client.send(&frames.collect::<Vec<u8>>())?;
    for _ in 0..1000 {
        if attack.is_over() {
            break;
        }
        client.receive()?;
    }
    Ok(())
}

fn long_number(attack: &Attack, _: u64) -> io::Result<()> {
    let digits = "7".repeat(1_000_000);
    let body = query(&format!("INSERT INTO ks.numbers (k, v) VALUES (1, {digits})"));
    attack.connect()?.ask(op::QUERY, &body)?;
    attack.pause(Duration::from_millis(50));
    Ok(())
}

fn byte_a_second(attack: &Attack, _: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    for byte in frame(1, op::QUERY, &query("SELECT key FROM system.local")) {
        client.send(&[byte])?;
        attack.pause(Duration::from_secs(1));
    }
    Ok(())
}

fn logged_batches(attack: &Attack, round: u64) -> io::Result<()> {
    let mut clients = attack.connect_all(4)?;
    let insert = prepare(&mut clients[0], "INSERT INTO ks.batched (k, v) VALUES (?, ?)")?;
    let rows: Vec<Vec<Vec<u8>>> = (0..6_u8)
        .map(|key| vec![vec![0, 0, round.to_le_bytes()[0], key], vec![key; 300_000]])
        .collect();
    for client in &mut clients {
        client.send(&frame(1, op::BATCH, &batch(0, &insert, &rows)))?;
    }
    clients.iter_mut().try_for_each(|client| client.receive().map(drop))
}

fn large_writes(attack: &Attack, round: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    let insert = prepare(&mut client, "INSERT INTO ks.batched (k, v) VALUES (?, ?)")?;
    for key in 0..8 {
        let value = megabyte(key).repeat(2);
        let key = [1, 0, round.to_le_bytes()[0], key];
        client.ask(op::EXECUTE, &execute(&insert, &[&key, &value]))?;
    }
    Ok(())
}

fn schema_changes(attack: &Attack, round: u64) -> io::Result<()> {
    let mut client = attack.connect()?;
    let comment = "c".repeat(200_000);
    let text = format!("ALTER TABLE ks.commented WITH comment = '{comment} {round}'");
    let id = prepare(&mut client, &text)?;
    let frames = (0..30).flat_map(|stream| frame(stream, op::EXECUTE, &execute(&id, &[])));
    client.send(&frames.collect::<Vec<u8>>())?;
    (0..30).try_for_each(|_| client.receive().map(drop))
}

/// An engine with the tables that are attacked, what is read of them on disk, and another client.
pub fn prepared(start: impl Fn() -> Engine) -> (Engine, Honest) {
    let engine = start();
    let mut honest = Honest::connect(&engine);
    with_tables(&mut honest.client);
    honest.write(20);
    assert_eq!(engine.stop("-TERM"), Some(0), "what is read is on disk");
    let engine = start();
    let honest = honest.again(&engine);
    (engine, honest)
}

/// Tables that are attacked, and rows in them.
fn with_tables(client: &mut Client) {
    let columns: Vec<String> = (0..1000).map(|number| format!("c{number} int, ")).collect();
    let columns = columns.concat();
    client.run(&format!("CREATE TABLE ks.updated (k int, v blob, {columns}PRIMARY KEY (k))"));
    for (table, ty) in [("text", "text"), ("numbers", "varint"), ("batched", "blob")] {
        client.run(&format!("CREATE TABLE ks.{table} (k int PRIMARY KEY, v {ty})"));
    }
    client.run("CREATE TABLE ks.commented (k int PRIMARY KEY)");
    with_large_rows(client, 24);
    client.run("CREATE TABLE ks.counted (k int, c int, PRIMARY KEY (k, c))");
    let insert = client.prepare("INSERT INTO ks.counted (k, c) VALUES (?, ?)");
    for row in 0..COUNTED {
        let bound: [&[u8]; 2] = [&(row % 4).to_be_bytes(), &row.to_be_bytes()];
        client.send(&frame(1, op::EXECUTE, &execute(&insert, &bound))).expect("it reads");
    }
    for _ in 0..COUNTED {
        client.receive().expect("an answer").kind();
    }
}
