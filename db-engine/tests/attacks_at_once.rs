//! All attacks at once, on two shards with little memory and few open files: memory stays within
//! one and a half times `--memory`, another client is served, and what it wrote is there.

mod wire;

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::tempdir;
use wire::{
    client::{Client, batch, execute, execute_page, frame, long_string, op, startup, text_batch},
    engine::Engine,
    honest::{Honest, MEMORY, MIB, check_resident, megabyte, with_large_rows},
};

/// How long they attack.
const ATTACK: Duration = Duration::from_secs(10);

/// So few open files that idle sockets take all that connections may have.
const FEW_FILES: &str = "--nofile=300";

/// Rows of a table that is counted.
const COUNTED: i32 = 5_000;

fn start(directory: &Path) -> Engine {
    let arguments = ["--shards", "2", "--memory", MEMORY];
    Engine::start_limited(directory, &[FEW_FILES], &arguments)
}

/// What attackers want of each other: the port, and whether it is over.
struct Attack {
    port: u16,
    over: AtomicBool,
    /// Times that an attack was carried through, however it was answered.
    rounds: [AtomicU64; ATTACKS.len()],
}

type Round = fn(&Attack, u64) -> io::Result<()>;

/// One round of each. An error is that the engine has closed the connection, as it may.
const ATTACKS: [(&str, Round); 12] = [
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

impl Attack {
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

/// Writes and reads rows until the time is over; how long each request took, ascending.
fn serve(honest: &mut Honest, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut timed = |request: &mut dyn FnMut()| {
        let asked = Instant::now();
        request();
        took.push(asked.elapsed());
    };
    while Instant::now() < until {
        timed(&mut || honest.write(1));
        let known = honest.acknowledged.len();
        if known > 0 {
            let key = honest.acknowledged[one_of(known)];
            timed(&mut || honest.read(key));
        }
        sleep(Duration::from_millis(1));
    }
    took.sort_unstable();
    took
}

/// One of so many, by turns near the end and near the beginning.
fn one_of(known: usize) -> usize {
    if known.is_multiple_of(2) { known - 1 } else { known / 2 }
}

#[test]
fn all_attacks_at_once_are_withstood() {
    let directory = tempdir().expect("a directory");
    let engine = start(directory.path());
    let mut honest = Honest::connect(&engine);
    with_tables(&mut honest.client);
    honest.write(20);
    assert_eq!(engine.stop("-TERM"), Some(0), "what is read is on disk");

    let engine = start(directory.path());
    let mut honest = honest.again(&engine);
    let (port, over, rounds) = (engine.cql, AtomicBool::new(false), Default::default());
    let attack = Attack { port, over, rounds };
    let took = std::thread::scope(|scope| {
        for ((_, round), count) in ATTACKS.iter().zip(&attack.rounds) {
            let attack = &attack;
            scope.spawn(move || {
                while !attack.is_over() {
                    let _ = round(attack, count.fetch_add(1, Relaxed));
                    attack.pause(Duration::from_millis(5));
                }
            });
        }
        let took = serve(&mut honest, Instant::now() + ATTACK);
        attack.over.store(true, Relaxed);
        took
    });
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{} requests, p50 {:?}, p99 {:?}, longest {:?}; {} MiB were resident, now {}",
        took.len(),
        at(50),
        at(99),
        at(100),
        engine.status_bytes("VmHWM:") / MIB,
        engine.status_bytes("VmRSS:") / MIB,
    );
    for ((name, _), rounds) in ATTACKS.iter().zip(&attack.rounds) {
        println!("{name}: {} rounds", rounds.load(Relaxed));
        assert!(rounds.load(Relaxed) > 0, "{name} did not begin");
    }
    assert!(honest.acknowledged.len() > 40, "{} writes", honest.acknowledged.len());
    check_resident(&engine);
    honest.check();

    engine.kill();
    let engine = start(directory.path());
    honest.again(&engine).check();
    assert_eq!(engine.stop("-TERM"), Some(0));
}
