//! What clients send, to an engine that is whole but for its sockets. Whatever one sends, others
//! are still served.

use crate::{
    whole::{
        Engine,
        client::{Client, int, page, query, write},
    },
    wire::client::{Answer, frame, long_string, op, startup},
};
use sandglass_db::io::{ManualClock, Random, sim::SimDisk};
use std::{cell::RefCell, sync::Arc};

/// More turns than any request needs.
const TURNS_MAX: usize = 20_000;

/// Inputs after which the engine is a new one.
const INPUTS_MAX: usize = 300;

const SETUP: &[&str] = &[
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int, c int, a int, b text, PRIMARY KEY (p, c))",
    "CREATE TABLE k.u (p text, q int, c timestamp, d varint, l frozen<list<int>>, \
     m frozen<map<text, frozen<set<int>>>>, t frozen<tuple<int, text>>, \
     PRIMARY KEY ((p, q), c, d))",
    "CREATE TYPE k.place (x int, y text)",
    "CREATE TABLE k.s (p int, c int, s int STATIC, e map<int, text> STATIC, a int, l list<int>, \
     m map<text, int>, z set<int>, u place, f frozen<place>, PRIMARY KEY (p, c))",
    "CREATE TABLE k.n (p int, c int, v counter, PRIMARY KEY (p, c))",
];

/// The partitions of the table with columns of every kind.
const PARTITIONS_OF_EVERY_KIND: std::ops::Range<i32> = 0..4;

struct Served {
    engine: Engine,
    honest: Client<()>,
    insert: Vec<u8>,
    random: Random,
    inputs: usize,
    /// Only the rows of the beginning are there.
    is_clean: bool,
}

thread_local! {
    static SERVED: RefCell<Option<Served>> = const { RefCell::new(None) };
}

impl Served {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(crate::simulated::START_US));
        let config = crate::simulated::config(2);
        let mut engine = Engine::open(&SimDisk::new(1), &clock, &config, 1).unwrap();
        let honest = Client::connect(&mut engine, 0, ());
        let insert = Vec::new();
        let mut served =
            Self { engine, honest, insert, random: Random(1), inputs: 0, is_clean: true };
        served.answer();
        for text in SETUP {
            served.ask(op::QUERY, &query(text)).kind();
        }
        for p in PARTITIONS_OF_EVERY_KIND {
            for text in every_kind(p) {
                served.ask(op::QUERY, &query(&text)).kind();
            }
        }
        let insert = "INSERT INTO k.t (p, c, a, b) VALUES (?, ?, ?, ?)";
        let prepared = served.ask(op::PREPARE, &long_string(insert));
        let length = u16::from_be_bytes([prepared.body[4], prepared.body[5]]);
        served.insert = prepared.body[6..6 + usize::from(length)].to_vec();
        for row in 0..20 {
            let values = [int(row % 4), int(row), int(row), b"text".to_vec()];
            let body = write(&served.insert, &values, i64::from(row));
            served.ask(op::EXECUTE, &body).kind();
        }
        served
    }

    fn turn(&mut self) {
        for shard in 0..self.engine.shards() {
            if self.engine.is_awake(shard) {
                self.engine.turn(shard).unwrap();
            }
        }
        self.engine.clock.advance(1_000);
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Answer {
        self.honest.ask(opcode, body, ());
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        for _ in 0..TURNS_MAX {
            self.honest.push(&mut self.engine, &mut self.random);
            self.turn();
            if let Some(((), answer)) = self.honest.take(&mut self.engine, 1 << 20).pop() {
                return answer;
            }
        }
        panic!("a request is not answered");
    }

    /// Sends bytes on a connection of their own, and says what is answered.
    fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (index, pipe) = self.engine.connect(1);
        pipe.send(bytes);
        self.engine.readable(1, index);
        let mut answers = Vec::new();
        for quiet in 0.. {
            self.turn();
            answers.extend_from_slice(&pipe.take(1 << 20));
            self.engine.writable(1, index);
            if quiet > 20 {
                break;
            }
        }
        pipe.leave();
        self.engine.readable(1, index);
        self.turn();
        answers
    }
}

/// Fills a partition of the table with columns of every kind.
fn every_kind(p: i32) -> Vec<String> {
    let row = |c: i32| {
        format!(
            "INSERT INTO k.s (p, c, a, l, m, z, u) VALUES ({p}, {c}, {c}, [{c}], {{'k': {c}}}, \
             {{{c}}}, {{x: {c}}}) USING TIMESTAMP 5"
        )
    };
    let mut texts: Vec<String> = (0..8).map(row).collect();
    texts.push(format!("UPDATE k.s USING TIMESTAMP 5 SET s = {p}, e[{p}] = 'x' WHERE p = {p}"));
    texts.push(format!("DELETE FROM k.s USING TIMESTAMP 6 WHERE p = {p} AND c > 2 AND c <= 5"));
    texts
}

/// Runs something with an engine that may have served before.
fn with(run: impl FnOnce(&mut Served)) {
    SERVED.with(|place| {
        let mut served = place.borrow_mut().take().unwrap_or_else(Served::new);
        run(&mut served);
        served.inputs += 1;
        let rows = served.ask(op::QUERY, &query("SELECT a FROM k.t WHERE p = 1 AND c = 1"));
        // Whoever may drop tables may also drop this one.
        if rows.opcode == op::RESULT && served.inputs < INPUTS_MAX {
            *place.borrow_mut() = Some(served);
        }
    });
}

/// Whether these are whole answers, one after the other.
fn check_answers(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        assert_eq!(bytes[0], 0x84, "an answer of version 4");
        let length = u32::from_be_bytes(bytes[5..9].try_into().unwrap()) as usize;
        bytes = &bytes[9 + length..];
    }
}

/// Any bytes on a connection.
pub fn frames(bytes: &[u8]) {
    with(|served| {
        served.is_clean = false;
        check_answers(&served.send(bytes));
    });
}

pub fn frame_inputs() -> Vec<Vec<u8>> {
    let mut hello = frame(1, op::STARTUP, &startup());
    let texts = statement_inputs().into_iter().map(|text| String::from_utf8(text).unwrap());
    let mut inputs = vec![hello.clone(), frame(0, op::OPTIONS, &[])];
    for text in texts.take(30) {
        let mut input = hello.clone();
        input.extend_from_slice(&frame(2, op::QUERY, &page(&text, 3, None)));
        inputs.push(input);
        let mut input = hello.clone();
        input.extend_from_slice(&frame(2, op::PREPARE, &long_string(&text)));
        inputs.push(input);
    }
    with(|served| {
        let values = [int(1), int(2), int(3), b"x".to_vec()];
        hello.extend_from_slice(&frame(5, op::EXECUTE, &write(&served.insert, &values, 7)));
        let two =
            [(served.insert.clone(), values.to_vec()), (served.insert.clone(), values.to_vec())];
        hello.extend_from_slice(&frame(6, op::BATCH, &crate::whole::client::batch(0, &two, 7)));
    });
    inputs.push(hello);
    inputs
}

/// Any text as a statement: prepared, and run.
pub fn statement(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    with(|served| {
        served.is_clean = false;
        served.ask(op::PREPARE, &long_string(&text));
        served.ask(op::QUERY, &page(&text, 3, None));
    });
}

pub fn statement_inputs() -> Vec<Vec<u8>> {
    let texts = [
        "SELECT * FROM k.t WHERE p = 1 AND c > 3 AND c <= 9 ORDER BY c DESC LIMIT 5",
        "SELECT a, b AS x, count(*), min(c), ttl(a), writetime(b) FROM k.t WHERE p IN (1, 2, 3)",
        "SELECT DISTINCT p FROM k.t PER PARTITION LIMIT 2 ALLOW FILTERING",
        "SELECT p, c FROM k.t WHERE a = 4 AND b >= 'x' ALLOW FILTERING",
        "SELECT token(p), cast(a AS text) FROM k.t WHERE token(p) > -9223372036854775808",
        "SELECT JSON * FROM k.t",
        "SELECT l, m, t FROM k.u WHERE p = 'a' AND q = 1 AND (c, d) > ('2020-01-01', 5)",
        "SELECT * FROM k.u WHERE m CONTAINS KEY 'x' ALLOW FILTERING",
        "INSERT INTO k.t (p, c, a, b) VALUES (1, 2, 0x00, 'it''s') USING TTL 30 AND TIMESTAMP 5",
        "INSERT INTO k.t (p, c) VALUES (-1, 2147483647) IF NOT EXISTS",
        "INSERT INTO k.u (p, q, c, d, l, m, t) VALUES ('x', 1, '2020-02-29T23:59:59.999Z', \
         123456789012345678901234567890, [1, 2, 3], {'a': {3, 1, 2}, 'b': {}}, (1, 'y'))",
        "UPDATE k.t USING TTL ? SET a = ?, b = $$dollar$$ WHERE p = ? AND c IN (1, 2)",
        "UPDATE k.u SET l = l + [4], m['x'] = {1}, m -= {'y'} WHERE p = '' AND q = 0 AND c = 0",
        "DELETE a, b FROM k.t USING TIMESTAMP 9 WHERE p = 1 AND c = 2",
        "DELETE FROM k.t WHERE p = 1 AND c > 2 AND c < 4",
        "BEGIN BATCH INSERT INTO k.t (p, c) VALUES (1, 2); UPDATE k.t SET a = 1 WHERE p = 2 AND \
         c = 3; DELETE FROM k.t WHERE p = 4 APPLY BATCH",
        "BEGIN UNLOGGED BATCH USING TIMESTAMP 4 DELETE b FROM k.t WHERE p = 1 AND c = 1 \
         APPLY BATCH",
        "CREATE TABLE IF NOT EXISTS k.v (a uuid, b inet, c decimal, d duration, e frozen<list<\
         frozen<tuple<int, blob>>>>, f double STATIC, PRIMARY KEY ((a, b), c)) WITH CLUSTERING \
         ORDER BY (c DESC) AND compaction = {'class': 'TimeWindowCompactionStrategy', \
         'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'} AND \
         default_time_to_live = 100 AND comment = 'x'",
        "ALTER TABLE k.v ADD g smallint",
        "ALTER TABLE k.v DROP g",
        "DROP TABLE IF EXISTS k.v",
        "TRUNCATE k.u",
        "USE k",
        "SELECT * FROM system.local WHERE key = 'local'",
        "SELECT * FROM system_schema.columns WHERE keyspace_name = 'k'",
        "SELECT now(), uuid(), totimestamp(now()), blobAsInt(0x00000001), fromJson('1') FROM k.t",
        "SELECT * FROM k.t WHERE p = 1e3 -- comment\n AND c = 08 /* another */ ;",
        "SELECT * FROM k.u WHERE p = :name AND q = :q",
        "INSERT INTO k.t JSON '{\"p\": 1, \"c\": 2, \"b\": \"\\u00e4\"}'",
        "SELECT * FROM k.t WHERE p = 1 AND c = 2 AND a = 1y2mo3w4d5h6m7s8ms9us10ns",
        "UPDATE k.s USING TTL 9 AND TIMESTAMP 7 SET l = [1] + l, l += [2], m['a'] = 1, m = m - \
         {'b'}, z = z + {1, 2}, u.x = 3, u.y = null, s = 4, e[5] = 'v' WHERE p = 1 AND c = 2",
        "INSERT INTO k.s (p, c, l, m, z, u, f) VALUES (1, 2, [1, 2], {'a': 1}, {3}, {x: 1}, \
         {y: 'z'}) IF NOT EXISTS",
        "SELECT s, e[1], m['a'], m['a'..'c'], z[3..], u.x, writetime(m), ttl(z), f.y FROM k.s",
        "DELETE m['a'], u.x, l, e[3] FROM k.s WHERE p IN (1, 2) AND c IN (1, 2, 3)",
        "DELETE FROM k.s USING TIMESTAMP 8 WHERE p = 1 AND c >= 2 AND c < 5",
        "UPDATE k.s SET a = 1 WHERE p = 1 AND c = 2 IF a = 3 AND a IN (1, 2) AND s != 4",
        "DELETE FROM k.s WHERE p = 1 AND c = 2 IF EXISTS",
        "BEGIN BATCH INSERT INTO k.s (p, c, a) VALUES (1, 9, 1) IF NOT EXISTS; UPDATE k.s SET \
         a = 2 WHERE p = 1 AND c = 8 APPLY BATCH",
        "UPDATE k.n SET v = v + 1 WHERE p = 1 AND c = 2",
        "BEGIN COUNTER BATCH UPDATE k.n SET v += 5 WHERE p = 1 AND c = 2; UPDATE k.n SET v = v - \
         7 WHERE p = 2 AND c = 2 APPLY BATCH",
        "CREATE TYPE k.other (a int, b frozen<list<frozen<place>>>)",
        "ALTER TYPE k.place ADD w bigint",
        "ALTER TYPE k.place RENAME x TO xx",
        "DROP TYPE IF EXISTS k.other",
        "ALTER TABLE k.s DROP m USING TIMESTAMP 5",
        "ALTER TABLE k.s ADD m map<text, int>",
        "SELECT DISTINCT p, s FROM k.s WHERE token(p) >= token(2) PER PARTITION LIMIT 1",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

const EVERY_KIND: &str = "SELECT p, c, a, s, m, u FROM k.s";

/// Any bytes as the place at which a page begins.
pub fn paging(bytes: &[u8]) {
    let Some((choice, state)) = bytes.split_first() else { return };
    let selects = [
        "SELECT p, c, a, b FROM k.t",
        "SELECT p, c, a, b FROM k.t WHERE p IN (0, 1, 2) AND c > 2",
        "SELECT p, c, a, b FROM k.t WHERE p = 1 ORDER BY c DESC",
        "SELECT p, c, a, b FROM k.t WHERE a = 3 ALLOW FILTERING",
        EVERY_KIND,
        "SELECT p, c, a, s, m, u FROM k.s WHERE p = 2 AND c > 1",
        "SELECT p, c, a, s, m, u FROM k.s WHERE p = 1 ORDER BY c DESC",
        "SELECT p, c, a, s, m, u FROM k.s WHERE p IN (1, 3) PER PARTITION LIMIT 4",
    ];
    let text = selects[usize::from(choice % 8)];
    with(|served| {
        if !served.is_clean {
            *served = Served::new();
        }
        let answer = served.ask(op::QUERY, &page(text, 3, Some(state)));
        if answer.opcode == op::RESULT {
            let (rows, _) = answer.rows();
            assert!(rows.len() <= 3, "{} rows in a page", rows.len());
            for row in rows {
                assert_eq!(row[1], row[2], "no such row was written");
                let is_deleted = text.contains("k.s") && (3..=5).any(|c| row[1] == Some(int(c)));
                assert!(!is_deleted, "a row of a deleted range");
                assert!(!text.contains("k.s") || row[3] == row[0], "its static row");
            }
        }
    });
}

pub fn paging_inputs() -> Vec<Vec<u8>> {
    let mut inputs = vec![vec![0]];
    with(|served| {
        *served = Served::new();
        let selects =
            [(0, "SELECT p, c FROM k.t"), (2, "SELECT p, c FROM k.t WHERE p = 1"), (4, EVERY_KIND)];
        for (choice, text) in selects {
            let answer = served.ask(op::QUERY, &page(text, 3, None));
            if let Some(state) = answer.rows().1 {
                inputs.push([vec![choice], state].concat());
            }
        }
    });
    inputs
}
