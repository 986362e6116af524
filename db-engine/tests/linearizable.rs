//! Writes that depend on what is there are linearizable: whatever several clients of several shards
//! are answered, it is as if all had happened one after the other, each between its call and its
//! answer. Through crashes, stops, clients that leave, full disks and clocks that step.
//!
//! A seed decides all of it. Prints the seed when it fails; `SANDGLASS_SEED=n` repeats it,
//! `SANDGLASS_SEED=n..m` tries all of these.
#![allow(clippy::unwrap_used)]

mod linear;
mod simulated;
mod whole;
mod wire;

use linear::{
    asked::{SCHEMA, of_counters, of_row},
    checker::{Call, is_linearizable},
    rows::{OfRow, OnePartition, STATIC, Values},
};
use sandglass_db::{
    io::{
        ManualClock, Random,
        sim::{Fault, SimDisk},
    },
    store::StoreConfig,
};
use simulated::seed::{SeedOfRun, seeds};
use std::{collections::BTreeMap, sync::Arc};
use whole::{
    Engine,
    client::{Client, query},
};
use wire::client::{Answer, Row, op};

/// How often the engine is opened, in one run.
const LIVES: u64 = 4;
const STEPS: usize = 500;
const CLIENTS: usize = 4;
const KEYS: i32 = 3;
/// Unanswered requests of a client.
const IN_FLIGHT: usize = 3;
/// More turns than anything needs.
const TURNS_MAX: usize = 100_000;

/// What is before the element of a list of one `int`: how many there are, and its length.
const ONE_OF_FOUR: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 4];
/// What is said of a list without elements.
const NO_LIST: &str = "Attempted to set an element on a list which is null";

/// What a client waits for.
#[derive(Debug, Clone)]
enum Wait {
    Hello,
    Schema,
    /// The operation of this number, on so many partitions: the next numbers are the others.
    Operation(usize, usize),
}

/// An operation of the history, on the partition of a key.
#[derive(Debug)]
struct Entry {
    key: i32,
    call: Call<OfRow>,
    /// It was refused: nothing of it has happened.
    is_refused: bool,
}

/// What has happened in all, so that a test can tell that it has tested something.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    applied: u64,
    not_applied: u64,
    unanswered: u64,
    refused: u64,
    reads: u64,
    added: u64,
    reset: u64,
    about_static: u64,
    put: u64,
    not_put: u64,
    crashes: u64,
    waited: u64,
}

/// The engine has ended by itself: storage has failed.
#[derive(Debug)]
struct Ended;

struct Run {
    random: Random,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    config: StoreConfig,
    clients: Vec<Client<Wait>>,
    history: Vec<Entry>,
    moment: u64,
    /// Values that were written: each once.
    written: i32,
    /// How often the engine was opened.
    lives: i32,
    counts: Counts,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let disk = SimDisk::new(random.next_u64());
        let look_us = random.one_of(&[0, 1, 50]);
        Self {
            disk,
            clock: Arc::new(ManualClock::ticking(simulated::START_US, look_us)),
            config: simulated::config(1),
            clients: Vec::new(),
            history: Vec::new(),
            moment: 0,
            written: 0,
            lives: 0,
            counts: Counts::default(),
            random,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap()
    }

    fn below_i32(&mut self, limit: i32) -> i32 {
        i32::try_from(self.random.below(limit.cast_unsigned().into())).unwrap()
    }

    fn connect(&mut self, engine: &mut Engine) -> Client<Wait> {
        let shard = self.below(engine.shards());
        Client::connect(engine, shard, Wait::Hello)
    }

    /// One run of the engine, from its opening to its end.
    fn live(&mut self) {
        self.config.shards = self.random.one_of(&[1, 2, 2, 3, 3]);
        let seed = self.random.next_u64();
        let mut engine = Engine::open(&self.disk, &self.clock, &self.config, seed).unwrap();
        self.lives += 1;
        let ended = self.serve(&mut engine);
        let mut waited = 0;
        for shard in 0..engine.shards() {
            waited += engine.metrics(shard).latch_wait.count();
        }
        self.counts.waited += waited;
        self.clients.clear();
        drop(engine);
        if ended.is_err() || self.random.percent(60) {
            self.counts.crashes += 1;
            self.disk = self.disk.crash(self.random.next_u64());
        }
        self.disk.set_fault(Fault::None);
        // The clock of the next run may be behind.
        let us = self.random.below(40_000_000).cast_signed() - 30_000_000;
        self.move_clock(us);
    }

    fn move_clock(&self, us: i64) {
        if us >= 0 {
            self.clock.advance(us);
        } else {
            use sandglass_db::io::Clock;
            self.clock.set(self.clock.now_us() + us);
        }
    }

    fn serve(&mut self, engine: &mut Engine) -> Result<(), Ended> {
        for _ in 0..CLIENTS {
            let client = self.connect(engine);
            self.clients.push(client);
        }
        for text in SCHEMA {
            self.clients[0].ask(op::QUERY, &query(text), Wait::Schema);
            self.settle(engine)?;
        }
        let calls = self.disk.calls() + self.random.below(300);
        match self.random.below(10) {
            0..3 => self.disk.set_fault(Fault::PowerCut(calls)),
            3 => self.disk.set_fault(Fault::NoSpace(calls)),
            _ => {}
        }
        for _ in 0..STEPS {
            self.step(engine)?;
        }
        self.disk.set_fault(Fault::None);
        if self.random.percent(50) {
            self.settle(engine)?;
            if self.random.percent(50) {
                return self.stop(engine);
            }
        }
        Ok(())
    }

    fn step(&mut self, engine: &mut Engine) -> Result<(), Ended> {
        match self.random.below(100) {
            0..45 => {
                let shard = self.below(engine.shards());
                self.turn(engine, shard)?;
            }
            45..65 => self.ask(),
            65..80 => {
                let index = self.below(CLIENTS);
                self.clients[index].push(engine, &mut self.random);
            }
            80..97 => {
                let index = self.below(CLIENTS);
                self.take(engine, index);
            }
            97 => {
                let index = self.below(CLIENTS);
                let client = self.connect(engine);
                std::mem::replace(&mut self.clients[index], client).leave(engine);
            }
            98 => {
                let us = self.random.below(3_000_000).cast_signed();
                self.move_clock(us);
            }
            _ => {
                let us = self.random.below(30_000_000).cast_signed();
                self.move_clock(-us);
            }
        }
        Ok(())
    }

    fn turn(&mut self, engine: &mut Engine, shard: usize) -> Result<(), Ended> {
        if engine.is_awake(shard) {
            engine.turn(shard).map_err(|_| Ended)?;
        }
        if self.disk.is_off() { Err(Ended) } else { Ok(()) }
    }

    /// A client asks something of a partition, or of the counters of one or two.
    fn ask(&mut self) {
        let index = self.below(CLIENTS);
        if self.clients[index].waiting.len() >= IN_FLIGHT {
            return;
        }
        let key = self.below_i32(KEYS);
        if self.random.percent(40) {
            // Each is there for two lives: what is not answered is not known for ever.
            let first = KEYS + KEYS * (self.lives + self.below_i32(2));
            let mut keys = vec![first + key];
            if self.random.percent(15) {
                keys.push(first + (key + 1) % KEYS);
            }
            let (text, operation) = of_counters(&mut self.random, &keys);
            return self.send(index, &keys, &text, &operation);
        }
        self.written += 1;
        // Most know what is there, or was a moment ago.
        let known = [0, STATIC].map(|place| self.guess(key, place));
        let (text, operation) = of_row(&mut self.random, key, known, self.written);
        self.send(index, &[key], &text, &operation);
    }

    fn send(&mut self, index: usize, keys: &[i32], text: &str, operation: &OfRow) {
        self.moment += 1;
        let wait = Wait::Operation(self.history.len(), keys.len());
        for key in keys {
            let call = Call { operation: operation.clone(), called: self.moment, returned: None };
            self.history.push(Entry { key: *key, call, is_refused: false });
        }
        self.clients[index].ask(op::QUERY, &query(text), wait);
    }

    /// A value that the row of a key, or its static column, had lately, as far as clients have been
    /// told.
    fn guess(&mut self, key: i32, place: usize) -> Option<i32> {
        let known = |entry: &Entry| match &entry.call.operation {
            _ if entry.key != key || entry.call.returned.is_none() => None,
            OfRow::Swap { set, to, answer: Some(Ok(())), .. } if set[place] => Some(Some(*to)),
            OfRow::Swap { asked, answer: Some(Err(found)), .. } if *asked == place => Some(*found),
            OfRow::Read(values) => Some(values[place]),
            OfRow::Put { to, answer: Some(Ok(())) }
            | OfRow::Insert { to, answer: Some(Ok(())) }
                if place == 0 =>
            {
                Some(Some(*to))
            }
            OfRow::Insert { answer: Some(Err(found)), .. } if place == 0 => Some(*found),
            _ => None,
        };
        let back = self.random.one_of(&[0, 0, 0, 1, 2]);
        self.history.iter().rev().filter_map(known).nth(back).flatten()
    }

    fn take(&mut self, engine: &mut Engine, index: usize) {
        for (wait, answer) in self.clients[index].take(engine, 1 << 20) {
            if let Wait::Operation(first, count) = wait {
                self.moment += 1;
                (first..first + count).for_each(|number| self.answered(number, &answer));
            }
        }
    }

    fn answered(&mut self, number: usize, answer: &Answer) {
        let entry = &mut self.history[number];
        if let OfRow::Put { answer: told, .. } = &mut entry.call.operation
            && !(answer.opcode == op::ERROR && answer.code() == 0x1001)
        {
            entry.call.returned = Some(self.moment);
            *told = Some(if answer.opcode == op::ERROR {
                assert_eq!(answer.message(), NO_LIST);
                self.counts.not_put += 1;
                Err(None)
            } else {
                assert_eq!(answer.kind(), 1, "void");
                self.counts.put += 1;
                Ok(())
            });
            return;
        }
        if answer.opcode == op::ERROR {
            assert_eq!(answer.code(), 0x1001, "{}", answer.message());
            entry.is_refused = true;
            self.counts.refused += 1;
            return;
        }
        entry.call.returned = Some(self.moment);
        if let OfRow::Add(_) | OfRow::Reset(_) = entry.call.operation {
            assert_eq!(answer.kind(), 1, "void");
            let is_sum = matches!(entry.call.operation, OfRow::Add(_));
            *(if is_sum { &mut self.counts.added } else { &mut self.counts.reset }) += 1;
            return;
        }
        let rows = answer.rows().0;
        if let OfRow::Read(found) = &mut entry.call.operation {
            *found = values(&rows);
            self.counts.reads += 1;
            return;
        }
        let [row] = rows.as_slice() else { panic!("one row: {rows:?}") };
        if let OfRow::Swap { asked: STATIC, .. } = entry.call.operation {
            self.counts.about_static += 1;
        }
        let told = if row[0].as_deref() == Some(&[1]) {
            self.counts.applied += 1;
            Ok(())
        } else {
            self.counts.not_applied += 1;
            // All columns of the row, or the one that the condition is about.
            Err(if row.len() > 1 { int(row, row.len() - 1) } else { None })
        };
        match &mut entry.call.operation {
            OfRow::Swap { answer, .. }
            | OfRow::Insert { answer, .. }
            | OfRow::Delete { answer } => {
                *answer = Some(told);
            }
            OfRow::Read(_) | OfRow::Add(_) | OfRow::Reset(_) | OfRow::Put { .. } => {}
        }
    }

    /// Runs until nobody waits for anything.
    fn settle(&mut self, engine: &mut Engine) -> Result<(), Ended> {
        for _ in 0..TURNS_MAX {
            for index in 0..CLIENTS {
                self.clients[index].push(engine, &mut self.random);
                self.take(engine, index);
            }
            let is_quiet =
                (0..engine.shards()).all(|shard| engine.metrics(shard).serving.get() == 0);
            if is_quiet && self.clients.iter().all(|client| client.waiting.is_empty()) {
                let waiting = (0..engine.shards()).map(|at| engine.metrics(at).latch_waiting.get());
                assert_eq!(waiting.sum::<u64>(), 0, "nobody waits for a latch");
                return Ok(());
            }
            self.turn_or_wait(engine)?;
        }
        panic!("requests are not answered");
    }

    fn turn_or_wait(&mut self, engine: &mut Engine) -> Result<(), Ended> {
        let awake: Vec<usize> =
            (0..engine.shards()).filter(|shard| engine.is_awake(*shard)).collect();
        if awake.is_empty() {
            let alarm = engine.first_alarm_us();
            self.move_clock(alarm.expect("all sleep, and somebody waits for an answer"));
        }
        self.move_clock(2_000);
        awake.into_iter().try_for_each(|shard| self.turn(engine, shard))
    }

    fn stop(&mut self, engine: &mut Engine) -> Result<(), Ended> {
        engine.stop.request();
        for _ in 0..TURNS_MAX {
            for index in 0..CLIENTS {
                self.take(engine, index);
            }
            if engine.is_over() {
                return Ok(());
            }
            self.turn_or_wait(engine)?;
        }
        panic!("it does not stop");
    }

    /// Every key by itself: they have nothing to do with each other.
    fn check(mut self) -> Counts {
        let mut by_key: BTreeMap<i32, Vec<Call<OfRow>>> = BTreeMap::new();
        for entry in self.history.drain(..).filter(|entry| !entry.is_refused) {
            let is_read = matches!(entry.call.operation, OfRow::Read(_));
            if entry.call.returned.is_none() {
                self.counts.unanswered += u64::from(!is_read);
                if is_read {
                    continue;
                }
            }
            by_key.entry(entry.key).or_default().push(entry.call);
        }
        for (key, calls) in by_key {
            let holds = is_linearizable::<OnePartition>([None; 3], &calls);
            assert!(holds, "the history of partition {key} is not linearizable:\n{calls:#?}");
        }
        self.counts
    }
}

/// What a partition has, of rows of its static column, the key of the row, its value, and its list.
fn values(rows: &[Row]) -> Values {
    let mut values = [None; 3];
    for row in rows {
        let is_counter = row.len() == 3;
        values[if is_counter { 2 } else { STATIC }] = int(row, 0);
        if let Some(place) = int(row, 1) {
            values[usize::try_from(place).unwrap()] = int(row, 2);
        }
        if let [_, _, value, list] = row.as_slice() {
            let element = list.as_ref().and_then(|list| list.strip_prefix(&ONE_OF_FOUR));
            assert_eq!(value.as_deref(), element, "the list has the value of the row");
        }
    }
    values
}

fn int(row: &Row, column: usize) -> Option<i32> {
    let counter = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
    let value = |bytes: &[u8]| match bytes.len() {
        4 => i32::from_be_bytes(bytes.try_into().unwrap()),
        _ => i32::try_from(counter(bytes)).unwrap(),
    };
    row[column].as_deref().map(value)
}

fn run(seed: u64) -> Counts {
    let _context = SeedOfRun(seed);
    let mut run = Run::new(seed);
    for _ in 0..LIVES {
        run.live();
    }
    run.check()
}

#[test]
fn writes_that_depend_on_what_is_there_are_linearizable() {
    let all: Vec<Counts> = seeds(1..101).map(run).collect();
    if std::env::var("SANDGLASS_SEED").is_ok() {
        return eprintln!("{all:#?}");
    }
    let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
    let figures = [
        ("applied", sum(|c| c.applied), 1_000),
        ("not applied", sum(|c| c.not_applied), 1_000),
        ("unanswered", sum(|c| c.unanswered), 100),
        ("refused", sum(|c| c.refused), 1),
        ("reads", sum(|c| c.reads), 500),
        ("added", sum(|c| c.added), 500),
        ("counters deleted", sum(|c| c.reset), 100),
        ("conditions on static columns", sum(|c| c.about_static), 500),
        ("put into a list", sum(|c| c.put), 300),
        ("not put into a list", sum(|c| c.not_put), 100),
        ("crashes", sum(|c| c.crashes), 50),
        ("latches", sum(|c| c.waited), 1_000),
    ];
    for (what, count, least) in figures {
        assert!(count >= least, "{count} {what}: {figures:?}");
    }
}
