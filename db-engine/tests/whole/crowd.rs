//! The whole engine with a number of clients, on a clock on which time goes by as it is looked
//! at, so that what takes turns can be counted.

use super::{
    Engine,
    client::{Client, query},
};
use crate::{
    simulated::START_US,
    wire::client::{Answer, op},
};
use sandglass_db::{
    io::{Clock, ManualClock, Random, sim::SimDisk},
    metrics::ShardMetrics,
    server::Limits,
    store::StoreConfig,
};
use std::sync::Arc;

/// An engine in one thread and its clients, on a clock on which time goes by as it is looked at.
pub struct Crowd {
    pub engine: Engine,
    random: Random,
    pub clients: Vec<Client<()>>,
}

impl Crowd {
    pub fn new(shards: u16, count: usize) -> Self {
        Self::looking(shards, count, 20)
    }

    /// As [`Crowd::new`], where a look at the clock takes so many microseconds.
    pub fn looking(shards: u16, count: usize, look_us: u64) -> Self {
        Self::of(&StoreConfig { shards, ..StoreConfig::default() }, count, look_us)
    }

    /// As [`Crowd::looking`], with stores like this.
    pub fn of(config: &StoreConfig, count: usize, look_us: u64) -> Self {
        Self::counting(config, count, look_us, ShardMetrics::default)
    }

    /// As [`Crowd::looking`], of one shard that has so many bytes of memory.
    pub fn with_memory(bytes: u64, count: usize, look_us: u64) -> Self {
        let config = StoreConfig { shards: 1, ..StoreConfig::default() };
        Self::counting(&config, count, look_us, || ShardMetrics::with_memory(bytes))
    }

    fn counting(
        config: &StoreConfig,
        count: usize,
        look_us: u64,
        metrics: impl Fn() -> ShardMetrics,
    ) -> Self {
        let clock = Arc::new(ManualClock::ticking(START_US, look_us));
        let limits = Limits {
            frame_bytes_max: 16 << 20,
            connections_max: 1_000,
            in_flight_max: 4_096,
            output_bytes_max: 4 << 20,
        };
        let disk = SimDisk::new(3);
        let mut engine = Engine::open_counting(&disk, &clock, config, 1, limits, metrics).unwrap();
        let connect = |_| Client::connect(&mut engine, 0, ());
        let clients = (0..count).map(connect).collect();
        let mut crowd = Self { engine, random: Random(1), clients };
        for client in 0..count {
            crowd.send(client);
            crowd.wait(client, 1);
        }
        crowd
    }

    pub fn ask(&mut self, client: usize, text: &str) {
        self.clients[client].ask(op::QUERY, &query(text), ());
    }

    /// Gives the engine all that a client wants to send.
    pub fn send(&mut self, client: usize) {
        while !self.clients[client].is_sent() {
            self.clients[client].push(&mut self.engine, &mut self.random);
        }
    }

    pub fn turn(&mut self) {
        for shard in 0..self.engine.shards() {
            self.engine.turn(shard).unwrap();
        }
    }

    pub fn answers(&mut self, client: usize) -> Vec<Answer> {
        let answers = self.clients[client].take(&mut self.engine, usize::MAX);
        answers.into_iter().map(|((), answer)| answer).collect()
    }

    /// Takes turns until a client has so many answers; gives them, and the time that it took.
    pub fn wait(&mut self, client: usize, count: usize) -> (Vec<Answer>, u64) {
        let begun_us = self.engine.clock.elapsed_us();
        let mut all = Vec::new();
        while all.len() < count {
            self.turn();
            all.extend(self.answers(client));
        }
        (all, self.engine.clock.elapsed_us() - begun_us)
    }

    /// A statement that must succeed, of the last client.
    pub fn run(&mut self, text: &str) -> Answer {
        let last = self.clients.len() - 1;
        self.ask(last, text);
        self.send(last);
        let answer = self.wait(last, 1).0.remove(0);
        answer.kind();
        answer
    }

    /// Takes turns until a client has an answer, while another one asks for little again and again.
    /// After each turn it tells how often that one has asked. Gives the answer, how many turns it
    /// took, and for how many in a row at most the other one had none.
    pub fn answer_beside(
        &mut self,
        client: usize,
        other: usize,
        mut turned: impl FnMut(&Self, u64),
    ) -> (Answer, u32, u32) {
        self.send(client);
        let (mut turns, mut asked, mut waiting, mut longest) = (0, 0, 0, 0);
        loop {
            if waiting == 0 {
                self.ask(other, "SELECT cluster_name FROM system.local");
                self.send(other);
                asked += 1;
            }
            self.turn();
            turns += 1;
            waiting = if self.answers(other).is_empty() { waiting + 1 } else { 0 };
            longest = longest.max(waiting);
            turned(self, asked);
            if let Some(answer) = self.answers(client).pop() {
                return (answer, turns, longest);
            }
        }
    }

    /// Takes turns until a client has an answer; gives it, how many turns that took, and the
    /// longest of them in time.
    pub fn turns_until_answer(&mut self, client: usize) -> (Answer, u32, u64) {
        self.send(client);
        let (mut turns, mut longest_us) = (0, 0);
        loop {
            let before_us = self.engine.clock.elapsed_us();
            self.turn();
            longest_us = longest_us.max(self.engine.clock.elapsed_us() - before_us);
            turns += 1;
            if let Some(answer) = self.answers(client).pop() {
                return (answer, turns, longest_us);
            }
        }
    }
}
