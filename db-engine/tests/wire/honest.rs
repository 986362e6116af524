//! A client that does nothing wrong while others attack, and must not notice them.

use super::{
    client::{Answer, Client, execute, op},
    engine::Engine,
};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

pub const MIB: u64 = 1 << 20;

/// What an engine under attack is given, and what it may have resident with all that it does not
/// count.
pub const MEMORY: &str = "64MiB";
pub const MEMORY_BYTES: u64 = 64 * MIB;
pub const RESIDENT_MAX: u64 = MEMORY_BYTES * 3 / 2;

pub const OVERLOADED: i32 = 0x1001;

/// How long something may take that takes a moment.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A client that writes a few rows all the time and remembers those that were acknowledged.
pub struct Honest {
    pub client: Client,
    insert: Vec<u8>,
    select: Vec<u8>,
    pub acknowledged: Vec<i32>,
    pub next: i32,
}

impl Honest {
    pub fn connect(engine: &Engine) -> Self {
        let mut client = Client::connect(engine.cql).expect("it listens");
        client.run(
            "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        client.run("CREATE TABLE IF NOT EXISTS ks.honest (k int PRIMARY KEY, v blob)");
        let insert = client.prepare("INSERT INTO ks.honest (k, v) VALUES (?, ?)");
        let select = client.prepare("SELECT v FROM ks.honest WHERE k = ?");
        Self { client, insert, select, acknowledged: Vec::new(), next: 0 }
    }

    /// The same one with another engine on the same directory.
    pub fn again(self, engine: &Engine) -> Self {
        Self { acknowledged: self.acknowledged, next: self.next, ..Self::connect(engine) }
    }

    fn value(key: i32) -> Vec<u8> {
        key.to_be_bytes().repeat(25)
    }

    /// Writes some rows. One that is refused as OVERLOADED is not there, and no harm is done.
    pub fn write(&mut self, rows: i32) {
        for key in self.next..self.next + rows {
            let body = execute(&self.insert, &[&key.to_be_bytes(), &Self::value(key)]);
            let answer = self.client.ask(op::EXECUTE, &body).expect("an answer");
            if answer.opcode == op::RESULT {
                self.acknowledged.push(key);
            } else {
                assert_eq!(answer.code(), OVERLOADED, "{answer:?}");
            }
        }
        self.next += rows;
    }

    /// Reads a row that was acknowledged.
    pub fn read(&mut self, key: i32) {
        assert!(self.finds(key), "row {key} is lost");
    }

    /// Whether a row is there as it was written.
    fn finds(&mut self, key: i32) -> bool {
        let body = execute(&self.select, &[&key.to_be_bytes()]);
        let answer = self.client.ask(op::EXECUTE, &body).expect("an answer");
        answer.rows().0 == [[Some(Self::value(key))]]
    }

    /// Rows that were acknowledged, of which there must be some, and are not there.
    pub fn lost(&mut self) -> Vec<i32> {
        assert!(!self.acknowledged.is_empty(), "nothing was acknowledged");
        let mut acknowledged = self.acknowledged.clone();
        acknowledged.retain(|key| !self.finds(*key));
        acknowledged
    }

    /// Reads all that was acknowledged.
    pub fn check(&mut self) {
        assert_eq!(self.lost(), [0; 0], "rows are lost");
    }

    /// Writes and reads rows until then, one after the other.
    pub fn serve(&mut self, until: Instant) -> Waits {
        let mut waits = Waits::default();
        while Instant::now() < until {
            let asked = Instant::now();
            self.write(1);
            waits.writes.push(asked.elapsed());
            let known = self.acknowledged.len();
            if known > 0 {
                // By turns near the end and near the beginning.
                let nth = if known.is_multiple_of(2) { known - 1 } else { known / 2 };
                let asked = Instant::now();
                self.read(self.acknowledged[nth]);
                waits.reads.push(asked.elapsed());
            }
            sleep(Duration::from_millis(1));
        }
        waits
    }
}

/// How long requests took, in their order.
#[derive(Default)]
pub struct Waits {
    pub writes: Vec<Duration>,
    pub reads: Vec<Duration>,
}

impl Waits {
    pub fn all(&self) -> Vec<Duration> {
        [self.writes.as_slice(), self.reads.as_slice()].concat()
    }
}

/// The longest wait of this share of requests, in milliseconds.
pub fn ms_at(percent: usize, waits: &[Duration]) -> f64 {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    let last = waits.len().saturating_sub(1);
    waits.get(last * percent / 100).map_or(0.0, Duration::as_secs_f64) * 1000.0
}

pub fn check_resident(engine: &Engine) {
    let most = engine.status_bytes("VmHWM:");
    assert!(most <= RESIDENT_MAX, "{} MiB were resident", most / MIB);
}

/// Repeats a request that is refused for want of room until it is not.
pub fn insist(mut ask: impl FnMut() -> Answer) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if answer.opcode != op::ERROR || answer.code() != OVERLOADED {
            return answer;
        }
        assert!(Instant::now() < until, "{}", answer.message());
        sleep(Duration::from_millis(20));
    }
}

pub fn megabyte(number: u8) -> Vec<u8> {
    (0..MIB / 4).flat_map(|at| (at * 7 + u64::from(number)).to_le_bytes()[..4].to_vec()).collect()
}

/// A partition of `rows` rows with a megabyte each.
pub fn with_large_rows(client: &mut Client, rows: u8) {
    client.run("CREATE TABLE ks.large (k int, c int, v blob, PRIMARY KEY (k, c))");
    let insert = client.prepare("INSERT INTO ks.large (k, c, v) VALUES (?, ?, ?)");
    for row in 0..rows {
        let bound: [&[u8]; 3] = [&[0; 4], &i32::from(row).to_be_bytes(), &megabyte(row)];
        let body = execute(&insert, &bound);
        insist(|| client.ask(op::EXECUTE, &body).expect("an answer")).kind();
    }
}
