//! The core workloads A to D of YCSB (`workloads/workloada` to `workloadd` of its repository): rows
//! of ten fields of 100 bytes, whole rows read, one field updated, keys scrambled zipfian or, in D,
//! the latest. There is five times as much data as the engine has memory.

use super::{
    client::{Answer, Client, execute, frame, op},
    engine::Engine,
    fill::write_all,
    float,
    pace::{Load, Outcome, Pace, Requests},
    random::Random,
    zipfian::{Zipfian, hash, latest, scrambled},
};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

const FIELDS: u64 = 10;
const FIELD_BYTES: usize = 100;

/// Bytes of a row's fields.
const ROW_BYTES: u64 = FIELDS * FIELD_BYTES as u64;

const CONNECTIONS: u32 = 4;
const IN_FLIGHT: usize = 16;

/// Rows of a table of its own that has room in memory, and is read from sstables alone.
const FEW_ROWS: u64 = 10_000;

/// Requests a second beside a compaction: half of them read.
const RATED: u32 = 4_000;

/// How often it is measured beside a compaction and without, by turns.
const TURNS: usize = 3;

/// A workload: of a hundred requests so many read, the others update or insert.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    reads: u64,
    keys: Keys,
}

#[derive(Clone, Copy)]
enum Keys {
    Scrambled,
    /// The others insert.
    Latest,
    /// Each as often; of the first rows.
    Uniform(u64),
}

/// Statements on one of the tables.
struct Statements {
    insert: Vec<u8>,
    update: Vec<Vec<u8>>,
    read: Vec<u8>,
}

impl Statements {
    /// Makes the table, if it is not there.
    fn prepare(port: u16, table: &str) -> Self {
        let mut client = Client::connect(port).expect("it serves");
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
        client.run(&format!(
            "CREATE TABLE IF NOT EXISTS bench.{table} (y_id text, {} text, PRIMARY KEY (y_id))",
            fields.join(" text, ")
        ));
        let insert = format!(
            "INSERT INTO bench.{table} (y_id, {}) VALUES (?{})",
            fields.join(", "),
            ", ?".repeat(fields.len())
        );
        let update = |field| format!("INSERT INTO bench.{table} (y_id, {field}) VALUES (?, ?)");
        Self {
            insert: client.prepare(&insert),
            update: fields.iter().map(|field| client.prepare(&update(field))).collect(),
            read: client.prepare(&format!("SELECT * FROM bench.{table} WHERE y_id = ?")),
        }
    }

    /// The body of the request that inserts a row.
    fn insert(&self, number: u64, random: &mut Random) -> Vec<u8> {
        let mut bound = vec![key(number)];
        bound.extend((0..FIELDS).map(|_| field(random)));
        execute(&self.insert, &bound.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("user{}", hash(number)).into_bytes()
}

/// Printable bytes, as `RandomByteIterator` makes them.
fn field(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIELD_BYTES + 8);
    while bytes.len() < FIELD_BYTES {
        let printable = random.next().to_le_bytes().map(|byte| b' ' + (byte & 63));
        bytes.extend_from_slice(&printable);
    }
    bytes.truncate(FIELD_BYTES);
    bytes
}

struct WorkloadRequests<'a> {
    workload: Workload,
    statements: &'a Statements,
    /// Rows that were inserted, or are on their way.
    rows: &'a AtomicU64,
    zipfian: Zipfian,
    random: Random,
}

impl Requests for WorkloadRequests<'_> {
    fn next(&mut self, stream: i16) -> Vec<u8> {
        let Self { workload, statements, rows, zipfian, random } = self;
        let is_read = random.below(100) < workload.reads;
        let count = rows.load(Relaxed);
        let body = match workload.keys {
            Keys::Latest if !is_read => statements.insert(rows.fetch_add(1, Relaxed), random),
            keys => {
                let number = match keys {
                    Keys::Scrambled => scrambled(count, random),
                    // Not one of those that may be on their way.
                    Keys::Latest => {
                        latest(zipfian, count - u64::from(CONNECTIONS) * IN_FLIGHT as u64, random)
                    }
                    Keys::Uniform(first) => random.below(first),
                };
                if is_read {
                    execute(&statements.read, &[&key(number)])
                } else {
                    let update =
                        &statements.update[usize::try_from(random.below(FIELDS)).expect("few")];
                    execute(update, &[&key(number), &field(random)])
                }
            }
        };
        frame(stream, op::EXECUTE, &body)
    }
}

/// An answer of a write, or one row with all its columns.
fn is_right(answer: &Answer) -> bool {
    const VOID: i32 = 1;
    answer.opcode == op::RESULT
        && (answer.kind() == VOID
            || matches!(&answer.rows().0[..], [row] if row.iter().all(Option::is_some)))
}

/// A table with its rows.
struct Filled {
    engine: Engine,
    statements: Statements,
    rows: AtomicU64,
    length: Duration,
}

pub fn run(engine: Engine, memory_mib: u64, seconds: f64) -> Value {
    let count = 5 * (memory_mib << 20) / ROW_BYTES;
    let mut client = Client::connect(engine.cql).expect("it serves");
    client.run(
        "CREATE KEYSPACE bench WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    let statements = Statements::prepare(engine.cql, "usertable");
    let (rows, length) = (AtomicU64::new(count), Duration::from_secs_f64(seconds));
    let mut filled = Filled { engine, statements, rows, length };
    eprintln!("{count} rows of {ROW_BYTES} bytes, {memory_mib} MiB of memory");
    filled.fill(count);
    let flushed = filled.engine.sample();
    eprintln!("compacting");
    filled.engine.ctl(&["compact", "bench"]);
    let compacted = filled.engine.sample();
    let mut result = json!({
        "rows": count,
        "sstables": flushed.sstables,
        "compaction_cpu_us_a_row": (compacted.cpu_us - flushed.cpu_us) / float(count),
    });
    let uniform = Keys::Uniform(count);
    let workloads = [
        Workload { name: "a", reads: 50, keys: Keys::Scrambled },
        Workload { name: "b", reads: 95, keys: Keys::Scrambled },
        Workload { name: "c", reads: 100, keys: Keys::Scrambled },
        Workload { name: "d", reads: 95, keys: Keys::Latest },
        Workload { name: "read_uniform", reads: 100, keys: uniform },
    ];
    for workload in workloads {
        result[workload.name] = filled.measure(workload);
    }
    result["compacting"] = filled.beside_compaction();
    let mut few = filled.with_table("few", FEW_ROWS);
    // Nothing is in memory after a start.
    few.engine.restart();
    few.statements = Statements::prepare(few.engine.cql, "few");
    let keys = Keys::Uniform(FEW_ROWS);
    result["read_cached"] = few.measure(Workload { name: "read_cached", reads: 100, keys });
    result
}

impl Filled {
    /// Another table, with so many rows.
    fn with_table(self, table: &str, count: u64) -> Self {
        let statements = Statements::prepare(self.engine.cql, table);
        let mut filled = Self { statements, rows: AtomicU64::new(count), ..self };
        filled.fill(count);
        filled
    }

    fn fill(&mut self, count: u64) {
        let mut random = Random(0);
        let requests =
            (0..count).map(|number| (op::EXECUTE, self.statements.insert(number, &mut random)));
        write_all(self.engine.cql, requests);
        self.engine.ctl(&["flush", "bench"]);
        self.engine.settle();
    }

    fn load(&self, connections: u32, pace: Pace, length: Duration) -> Load {
        Load { port: self.engine.cql, connections, pace, length, is_right }
    }

    fn go(&self, load: &Load, workload: Workload, seed: u64) -> Outcome {
        let zipfian = match workload.keys {
            Keys::Latest => Zipfian::of(self.rows.load(Relaxed)),
            _ => Zipfian::of(2),
        };
        load.run(|number| WorkloadRequests {
            workload,
            statements: &self.statements,
            rows: &self.rows,
            zipfian: zipfian.clone(),
            random: Random(seed << 60 | u64::from(number + 1) << 40),
        })
    }

    fn measure(&self, workload: Workload) -> Value {
        self.engine.settle();
        let full = Pace::Full { in_flight: IN_FLIGHT };
        self.go(&self.load(CONNECTIONS, full, self.length / 2), workload, 0);
        let before = self.engine.sample();
        let outcome = self.go(&self.load(CONNECTIONS, full, self.length), workload, 1);
        let after = self.engine.sample();
        let count = float(outcome.latencies_us.len() as u64);
        let cpu_us = (after.cpu_us - before.cpu_us) / count;
        eprintln!("{}: {cpu_us:.1} us", workload.name);
        json!({
            "cpu_us": cpu_us, "rate": count / outcome.seconds, "errors": outcome.errors,
            "p50_us": outcome.percentile_us(50), "p99_us": outcome.percentile_us(99),
            "cache_misses": (after.cache_misses - before.cache_misses) / count,
        })
    }

    /// Reads and writes at a rate, by turns beside a compaction of everything and without: the
    /// middle of the p99 of each.
    fn beside_compaction(&self) -> Value {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let mut compactions = 0;
        for _ in 0..TURNS {
            self.engine.settle();
            without.push(self.rated());
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let compacting = scope.spawn(|| {
                    let mut count = 0;
                    while !is_over.load(Relaxed) {
                        self.engine.ctl(&["compact", "bench"]);
                        count += 1;
                    }
                    count
                });
                with.push(self.rated());
                is_over.store(true, Relaxed);
                compactions += compacting.join().expect("it compacts");
            });
        }
        let middle = |turns: &[(u64, u64, u64)], part: fn(&(u64, u64, u64)) -> u64| {
            let mut all: Vec<u64> = turns.iter().map(part).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        let p99s = |turns: &[(u64, u64, u64)]| {
            json!({
                "read_p99_us": middle(turns, |one| one.0),
                "write_p99_us": middle(turns, |one| one.1),
            })
        };
        let errors: u64 = with.iter().chain(&without).map(|one| one.2).sum();
        json!({
            "with": p99s(&with), "without": p99s(&without),
            "compactions": compactions, "errors": errors,
        })
    }

    /// The p99 of reads and of writes, and how many were refused.
    fn rated(&self) -> (u64, u64, u64) {
        let half = Pace::Rated { a_second: RATED / 2 / 2 };
        let reads = Workload { name: "reads", reads: 100, keys: Keys::Scrambled };
        let writes = Workload { name: "writes", reads: 0, ..reads };
        let load = self.load(2, half, self.length);
        let (reads, writes) = std::thread::scope(|scope| {
            let reads = scope.spawn(|| self.go(&load, reads, 2));
            let writes = self.go(&load, writes, 3);
            (reads.join().expect("it reads"), writes)
        });
        let p99 = |outcome: &Outcome| outcome.percentile_us(99);
        (p99(&reads), p99(&writes), reads.errors + writes.errors)
    }
}
