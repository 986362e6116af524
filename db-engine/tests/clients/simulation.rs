//! Several clients and their requests, several shards, and a machine that breaks.

use super::{
    counters::CounterAsked,
    expiring::{self, Expiring, ExpiringRead},
    history::{History, Place},
    kinds::{KindAsked, Kinds},
    reshape::{Existence, Table},
    tally::Tally,
};
use crate::{
    simulated,
    whole::{
        Engine, LIMITS,
        client::{Client, query},
    },
    wire::client::op,
};
use sandglass_db::{
    directory::manifest::parse_name,
    io::{
        Clock, ManualClock, Random,
        sim::{Fault, ReadFault, ReadFaults, SimDisk},
    },
    sstable::SstableId,
    store::StoreConfig,
};
use std::sync::Arc;

const STEPS: usize = 900;
const CLIENTS: usize = 4;
pub const PARTITIONS: u64 = 8;
pub const ROWS: u64 = 5;

/// Turns without an answer after which nobody's requests are left: each client that has left sends
/// a few, and has its turn at least in each second one.
const QUIET_TURNS: u32 = 30;

/// More turns than anything needs.
const TURNS_MAX: usize = 200_000;

/// Longest that a stop takes, in microseconds.
const STOP_US_MAX: u64 = 6_000_000;

/// Bytes of rows that may be in memory above the limit: those of one request.
const REQUEST_BYTES: u64 = 8 << 10;

const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS k WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// The engine has ended by itself: storage has failed.
#[derive(Debug)]
pub struct Ended;

/// What a client waits for.
#[derive(Debug)]
pub enum Asked {
    Hello,
    Keyspace,
    Write { writes: Vec<usize>, tables: Vec<usize>, is_atomic: bool, depends: bool },
    Read(Read),
    Create(usize),
    Drop(usize),
    Prepare(usize, usize),
    Probe(usize),
    Reshape(usize),
    ProbeExtra(usize),
    TableExpiring,
    PrepareExpiring,
    WriteExpiring(usize),
    ReadExpiring(ExpiringRead),
    Kinds(KindAsked),
    Counters(CounterAsked),
}

#[derive(Debug)]
pub struct Read {
    pub text: String,
    pub began: u64,
    pub alone: bool,
    pub table: usize,
    /// Those it looks at.
    pub partitions: Vec<i32>,
    pub clusterings: Vec<i32>,
    pub columns: Vec<u8>,
    pub found: Vec<(Place, Vec<Option<i32>>)>,
}

pub struct Simulation {
    pub random: Random,
    pub disk: SimDisk,
    pub clock: Arc<ManualClock>,
    pub config: StoreConfig,
    pub engine: Option<Engine>,
    pub clients: Vec<Client<Asked>>,
    pub history: History,
    pub tables: Vec<Table>,
    /// The table that is to be changed once nobody uses it any more.
    pub to_reshape: Option<usize>,
    pub expiring: Expiring,
    pub insert_expiring: Option<Vec<u8>>,
    pub kinds: Kinds,
    pub moment: u64,
    /// How many there have been in this life.
    pub connections: u64,
    pub favoured: usize,
    /// Reads may fail, and storage may.
    pub is_broken: bool,
    pub tally: Tally,
}

impl Simulation {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let disk = SimDisk::new(random.next_u64());
        // Where looking at the clock takes time, work is cut by it.
        let look_us = random.one_of(&[0, 1, 50, 400]);
        let clock = Arc::new(ManualClock::ticking(simulated::START_US, look_us));
        let mut config = simulated::config(1);
        config.data_lifetime_us = 40_000_000;
        config.read_us = random.one_of(&[0, 100, 500]);
        config.log_encoding_us = random.one_of(&[0, 500]);
        config.large_write_bytes = random.one_of(&[60, 2_000]);
        Self {
            random,
            disk,
            clock,
            config,
            engine: None,
            clients: Vec::new(),
            history: History::default(),
            tables: Vec::new(),
            to_reshape: None,
            expiring: Expiring::default(),
            insert_expiring: None,
            kinds: Kinds::new(),
            moment: 0,
            connections: 0,
            favoured: 0,
            is_broken: false,
            tally: Tally::default(),
        }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.below(limit as u64)).unwrap()
    }

    pub fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it runs")
    }

    /// One run of the engine, from its opening to its end.
    pub fn live(&mut self) {
        self.config.shards = self.random.one_of(&[1, 2, 2, 3, 3]);
        self.open();
        let ended = self.greet().and_then(|()| self.check_all()).and_then(|()| self.serve());
        if ended.is_ok() && self.random.percent(40) {
            self.disk.set_fault(Fault::None);
            self.disk.set_read_faults(None);
            if self.stop().is_ok() {
                self.tally.stops += 1;
            }
        }
        self.end();
    }

    /// Everything that runs is gone from one moment to the next.
    pub fn end(&mut self) {
        self.tally.spoilt += self.disk.reads_spoilt();
        self.disk.set_read_faults(None);
        self.is_broken = false;
        self.clients.clear();
        self.kinds.end();
        if self.disk.is_off() || self.random.percent(60) {
            self.tally.crashes += 1;
            let seed = self.random.next_u64();
            let disk = self.disk.crash(seed);
            self.engine = None;
            self.disk = disk;
        } else {
            self.engine = None;
            self.disk.set_fault(Fault::None);
        }
        (self.insert_expiring, self.to_reshape) = (None, None);
        for table in &mut self.tables {
            table.ids = Default::default();
        }
    }

    /// Opens the directory. Reads that go wrong may make it refuse, and nothing else. Those of
    /// the log fail or are right: nothing tells the zeros behind its end from zeros that are read
    /// by mistake.
    pub fn open(&mut self) {
        let seed = self.random.next_u64();
        if self.random.percent(30) {
            let (fault, prefix) = self.random.one_of(&[
                (ReadFault::Failed, ""),
                (ReadFault::Misdirected, "manifest"),
                (ReadFault::Misdirected, "catalog"),
                (ReadFault::Misdirected, "sst-"),
                (ReadFault::Stale, "sst-"),
            ]);
            let percent = self.random.one_of(&[5, 20]);
            self.disk.set_read_faults(Some(ReadFaults { fault, percent, prefix }));
            let before = self.disk.reads_spoilt();
            let opened = self.try_open(seed);
            self.disk.set_read_faults(None);
            match opened {
                Ok(engine) => return self.engine = Some(engine),
                Err(refused) => {
                    let spoilt = self.disk.reads_spoilt() - before;
                    assert!(spoilt > 0, "refused for nothing: {refused}");
                    self.tally.refused_openings += 1;
                }
            }
        }
        if self.random.percent(20) {
            let call = self.disk.calls() + self.random.below(80);
            self.disk.set_fault(Fault::PowerCut(call));
            let opened = self.try_open(seed);
            if let Ok(engine) = opened {
                self.disk.set_fault(Fault::None);
                return self.engine = Some(engine);
            }
            assert!(self.disk.is_off(), "refused without a reason");
            self.disk = self.disk.crash(self.random.next_u64());
            self.tally.crashes += 1;
        }
        let opened = self.try_open(seed);
        self.engine = Some(opened.unwrap_or_else(|refused| panic!("it does not open: {refused}")));
    }

    /// Opens the directory. The new run has a number that no file has, whichever openings failed.
    fn try_open(&mut self, seed: u64) -> Result<Engine, String> {
        let before = self.newest_epoch();
        let engine = Engine::open(&self.disk, &self.clock, &self.config, seed)?;
        assert!(self.newest_epoch() > before, "run {before} is there twice");
        Ok(engine)
    }

    /// The highest number of a run that is in the name of a file.
    fn newest_epoch(&self) -> u32 {
        let of_sstable = |name: &str| SstableId::from_file_name(name).map(|id| id.epoch);
        let epoch = |name: String| of_sstable(&name).or(parse_name(&name).map(|(epoch, _)| epoch));
        self.disk.contents().into_keys().filter_map(epoch).max().unwrap_or(0)
    }

    pub fn greet(&mut self) -> Result<(), Ended> {
        self.connections = CLIENTS as u64;
        for _ in 0..CLIENTS {
            let client = self.connect();
            self.clients.push(client);
        }
        self.clients[0].ask(op::QUERY, &query(KEYSPACE), Asked::Keyspace);
        self.settle()?;
        self.clients[0].ask(op::QUERY, &query(expiring::TABLE), Asked::TableExpiring);
        self.settle()?;
        self.make_kinds()?;
        for table in 0..self.tables.len() {
            self.probe(table);
        }
        self.settle()?;
        if !self.tables.iter().any(|table| table.existence == Existence::There) {
            self.create();
            self.settle()?;
        }
        Ok(())
    }

    fn connect(&mut self) -> Client<Asked> {
        let shards = self.engine().shards();
        let shard = self.below(shards);
        Client::connect(self.engine(), shard, Asked::Hello)
    }

    /// A client leaves without waiting for its answers, and another comes.
    fn replace_client(&mut self) {
        self.connections += 1;
        let index = self.below(self.clients.len());
        let client = self.connect();
        let mut gone = std::mem::replace(&mut self.clients[index], client);
        gone.leave(self.engine());
        self.tally.left_behind += gone.waiting.len() as u64;
        for asked in gone.waiting.values() {
            match asked {
                Asked::WriteExpiring(number) => self.expiring.leave(*number),
                Asked::Kinds(KindAsked::Read(read)) => self.kinds.leave(read),
                _ => {}
            }
        }
    }

    pub fn anyone(&mut self) -> &mut Client<Asked> {
        let index = self.below(self.clients.len());
        &mut self.clients[index]
    }

    /// Asks whether a table is there, unless that is known not to be.
    fn probe(&mut self, table: usize) {
        if self.tables[table].existence != Existence::Gone {
            let text = format!("SELECT p FROM {} LIMIT 1", self.tables[table].name);
            self.anyone().ask(op::QUERY, &query(&text), Asked::Probe(table));
        }
    }

    /// With nothing else in flight, every row is as it must be.
    pub fn check_all(&mut self) -> Result<(), Ended> {
        self.check_kinds()?;
        for table in 0..self.tables.len() {
            if self.tables[table].existence == Existence::There {
                self.read_expiring(0);
                let read = self.read_of(table, None, None, true);
                self.ask_read(read);
                self.settle()?;
            }
        }
        Ok(())
    }

    fn serve(&mut self) -> Result<(), Ended> {
        let calls = self.disk.calls() + self.random.below(600);
        match self.random.below(10) {
            0 | 1 => self.disk.set_fault(Fault::PowerCut(calls)),
            2 => {
                // The operation that fails may be a read.
                self.is_broken = true;
                self.disk.set_fault(Fault::Failure(calls));
            }
            3 => self.disk.set_fault(Fault::NoSpace(calls)),
            4..7 => {
                self.is_broken = true;
                let fault = self.random.one_of(&[
                    ReadFault::Failed,
                    ReadFault::Stale,
                    ReadFault::Misdirected,
                ]);
                let percent = self.random.one_of(&[3, 30]);
                let prefix = "sst-";
                self.disk.set_read_faults(Some(ReadFaults { fault, percent, prefix }));
            }
            _ => {}
        }
        for _ in 0..STEPS {
            self.step()?;
        }
        self.disk.set_fault(Fault::None);
        if self.random.percent(50) {
            self.settle()?;
            self.disk.set_read_faults(None);
            self.is_broken = false;
            self.check_all()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Ended> {
        match self.random.below(100) {
            0..55 => self.turn_one()?,
            55..75 => self.act(),
            75..85 => self.push_one(),
            85..97 => self.take_one(),
            97 if self.random.percent(30) => self.replace_client(),
            97 => {
                let shards = self.engine().shards();
                self.favoured = self.below(shards);
            }
            98 => {
                let us = self.random.below(20_000_000).cast_signed();
                self.move_clock(us);
            }
            _ => {
                let us = self.random.below(30_000_000).cast_signed();
                self.move_clock(-us);
            }
        }
        Ok(())
    }

    /// A turn of one shard; one of them gets most.
    fn turn_one(&mut self) -> Result<(), Ended> {
        let shards = self.engine().shards();
        let any = self.below(shards);
        let shard = if self.random.percent(70) { self.favoured.min(shards - 1) } else { any };
        self.turn(shard)
    }

    pub fn turn(&mut self, shard: usize) -> Result<(), Ended> {
        let engine = self.engine.as_mut().unwrap();
        if !engine.is_awake(shard) {
            return Ok(());
        }
        engine.turn(shard).map_err(|_| Ended)?;
        let metrics = engine.metrics(shard);
        let in_flight = metrics.serving.get();
        let most = u64::from(LIMITS.in_flight_max) * self.connections;
        assert!(in_flight <= most, "{in_flight} requests in flight of {most}");
        let bytes = metrics.memtable_bytes.get();
        let most = self.config.memtable_bytes_max as u64 + REQUEST_BYTES;
        assert!(bytes <= most, "{bytes} bytes of rows in memory of {most}");
        if self.disk.is_off() { Err(Ended) } else { Ok(()) }
    }

    pub fn push_one(&mut self) {
        let index = self.below(self.clients.len());
        self.clients[index].push(self.engine.as_mut().unwrap(), &mut self.random);
    }

    fn take_one(&mut self) {
        let index = self.below(self.clients.len());
        let room = self.random.one_of(&[100, 1_000, 20_000]);
        self.take(index, room);
    }

    pub fn take(&mut self, index: usize, room: usize) {
        let engine = self.engine.as_mut().unwrap();
        for (asked, answer) in self.clients[index].take(engine, room) {
            self.moment += 1;
            self.answered(index, asked, &answer);
        }
    }

    /// Runs until nobody waits for anything.
    pub fn settle(&mut self) -> Result<(), Ended> {
        let mut quiet_turns = 0;
        for _ in 0..TURNS_MAX {
            for index in 0..self.clients.len() {
                self.clients[index].push(self.engine.as_mut().unwrap(), &mut self.random);
                self.take(index, 1 << 20);
            }
            // Requests of clients that have left are still carried out, and some have not begun.
            let engine = self.engine.as_ref().unwrap();
            let mut shards = 0..engine.shards();
            let is_serving = shards.any(|shard| engine.metrics(shard).serving.get() > 0);
            let is_quiet = self.clients.iter().all(|client| client.waiting.is_empty());
            quiet_turns = if is_quiet && !is_serving { quiet_turns + 1 } else { 0 };
            let is_asleep = (0..engine.shards()).all(|shard| !engine.is_awake(shard));
            if quiet_turns > QUIET_TURNS || (quiet_turns > 0 && is_asleep) {
                self.kinds.settle();
                return Ok(());
            }
            self.turn_or_wait()?;
        }
        panic!("requests are not answered: {}", self.state());
    }

    fn state(&self) -> String {
        let waiting: Vec<_> = self.clients.iter().map(|client| &client.waiting).collect();
        let engine = self.engine.as_ref().unwrap();
        let shards = (0..engine.shards()).map(|shard| {
            let serving = engine.metrics(shard).serving.get();
            format!("shard {shard} awake {} serving {serving}", engine.is_awake(shard))
        });
        format!("{waiting:?}, {:?}", shards.collect::<Vec<_>>())
    }

    /// Turns all shards that have a reason to, or lets time go by until one has.
    pub fn turn_or_wait(&mut self) -> Result<(), Ended> {
        let shards = self.engine().shards();
        let first = self.below(shards);
        let awake: Vec<usize> = (0..shards)
            .map(|shard| (first + shard) % shards)
            .filter(|shard| self.engine.as_ref().unwrap().is_awake(*shard))
            .collect();
        if awake.is_empty() {
            let alarm = self.engine().first_alarm_us();
            self.move_clock(alarm.expect("all sleep, and somebody waits for an answer"));
        }
        self.move_clock(2_000);
        awake.into_iter().try_for_each(|shard| self.turn(shard))
    }

    /// Stops in order: what the engine has read is answered, and not with a refusal. It does not
    /// wait for long for clients that take no answers.
    pub fn stop(&mut self) -> Result<(), Ended> {
        let begun_us = self.clock.elapsed_us();
        let takers = if self.random.percent(70) { self.clients.len() } else { 1 };
        self.engine().stop.request();
        for _ in 0..TURNS_MAX {
            for index in 0..takers {
                self.take(index, 1 << 20);
            }
            if self.engine().is_over() {
                let took_us = self.clock.elapsed_us() - begun_us;
                assert!(took_us < STOP_US_MAX, "a stop took {took_us} microseconds");
                let engine = self.engine.as_ref().unwrap();
                let serving = (0..engine.shards()).map(|shard| engine.metrics(shard).serving.get());
                assert!(takers < self.clients.len() || serving.sum::<u64>() == 0, "not answered");
                return Ok(());
            }
            self.turn_or_wait()?;
        }
        panic!("it does not stop: {}", self.state());
    }
}
