//! The whole engine but its sockets, in one thread: shards, mailboxes, catalog and connections on
//! a simulated disk. Whatever a machine leaves to chance is decided by a seed.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // Each test uses a part of it.

pub mod client;
pub mod crowd;
pub mod dialogue;
pub mod pipe;

use pipe::Pipe;
use sandglass_db::{
    io::{Clock, ManualClock, Random, sim::SimDisk},
    metrics::ShardMetrics,
    schema::{Catalog, system::NodeInfo},
    server::{Limits, Reactor, Stop},
    shard::{
        self, Shard,
        mailbox::{Bell, Mailbox},
        peers::Peers,
        shared::Shared,
    },
    store::{self, StoreConfig},
};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// What connections may use: little, so that limits are met.
pub const LIMITS: Limits = Limits {
    frame_bytes_max: 1 << 20,
    connections_max: 64,
    in_flight_max: 6,
    output_bytes_max: 4 << 10,
};

/// What a connection has to tell.
#[derive(Clone, Copy)]
enum Ready {
    Read(u32),
    Write(u32),
}

/// Until when a shard sleeps.
#[derive(Clone, Copy)]
enum Sleep {
    Awake,
    Until(Option<u64>),
    Over,
}

struct Seat {
    reactor: Reactor,
    ready: Vec<Ready>,
    sleep: Sleep,
    woken: Arc<AtomicBool>,
    metrics: Arc<ShardMetrics>,
}

/// A running engine.
pub struct Engine {
    pub disk: SimDisk,
    pub clock: Arc<ManualClock>,
    pub stop: Arc<Stop>,
    seats: Vec<Seat>,
}

impl Engine {
    /// Opens the directory and begins to serve, as the server does, with [`LIMITS`].
    pub fn open(
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        config: &StoreConfig,
        seed: u64,
    ) -> Result<Self, String> {
        Self::open_with(disk, clock, config, seed, LIMITS)
    }

    /// The same with other limits.
    pub fn open_with(
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        config: &StoreConfig,
        seed: u64,
        limits: Limits,
    ) -> Result<Self, String> {
        Self::open_counting(disk, clock, config, seed, limits, ShardMetrics::default)
    }

    /// As [`Engine::open_with`], where shards count in these metrics and have the memory that they
    /// say.
    pub fn open_counting(
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        config: &StoreConfig,
        seed: u64,
        limits: Limits,
        metrics: impl Fn() -> ShardMetrics,
    ) -> Result<Self, String> {
        let count = config.shards;
        let times: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
        let files = (0..count).map(|_| disk.files()).collect();
        let opened = store::open(config, files, disk.files(), &times, Catalog::stored)
            .map_err(|error| error.to_string())?;
        let schema = Arc::new(Shared::new(opened.catalog, 1 << 20));
        let woken: Vec<_> = (0..count).map(|_| Arc::new(AtomicBool::new(false))).collect();
        let bell = |woken: &Arc<AtomicBool>| {
            let woken = Arc::clone(woken);
            Arc::new(Mailbox::new(Bell::new(move || woken.store(true, SeqCst))))
        };
        let boxes: Vec<_> = woken.iter().map(bell).collect();
        let rung = boxes.clone();
        let stop = Arc::new(Stop::new(count, move || {
            for letterbox in &rung {
                letterbox.bell().ring();
            }
        }));
        let mut random = Random(seed);
        let mut catalog_file = Some(opened.catalog_file);
        let mut seats = Vec::new();
        for ((store, number), woken) in opened.stores.into_iter().zip(0..).zip(woken) {
            let metrics = Arc::new(metrics());
            let shard = Shard::new(shard::ShardParts {
                shard: number,
                shards: count,
                store,
                peers: Peers::new(number, boxes.clone(), Arc::clone(&metrics)),
                shared: Arc::clone(&schema),
                node: Arc::new(node()),
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(&times),
                frame_bytes_max: limits.frame_bytes_max,
                catalog_file: catalog_file.take(),
                guardrails_strict: false,
                seed: random.next_u64(),
            });
            let reactor = Reactor::new(shard, limits, Arc::clone(&stop));
            seats.push(Seat { reactor, ready: Vec::new(), sleep: Sleep::Awake, woken, metrics });
        }
        Ok(Self { disk: disk.clone(), clock: Arc::clone(clock), stop, seats })
    }

    pub fn shards(&self) -> usize {
        self.seats.len()
    }

    /// The number of a new connection and its client's end.
    pub fn connect(&mut self, shard: usize) -> (u32, Pipe) {
        let pipe = Pipe::default();
        let mut number = None;
        self.seats[shard].reactor.accept(pipe.engine_end(), |_, index| {
            number = Some(index);
            Ok(())
        });
        (number.expect("the connection is accepted"), pipe)
    }

    /// Bytes have come on this connection, or it was closed.
    pub fn readable(&mut self, shard: usize, index: u32) {
        self.seats[shard].ready.push(Ready::Read(index));
    }

    /// Its client has taken bytes.
    pub fn writable(&mut self, shard: usize, index: u32) {
        self.seats[shard].ready.push(Ready::Write(index));
    }

    /// Whether a shard has a reason to take a turn.
    pub fn is_awake(&self, shard: usize) -> bool {
        let seat = &self.seats[shard];
        match seat.sleep {
            Sleep::Awake => true,
            Sleep::Over => false,
            Sleep::Until(until) => {
                let is_due = until.is_some_and(|until| until <= self.clock.elapsed_us());
                let is_called = seat.woken.load(SeqCst) || !seat.ready.is_empty();
                is_called || is_due || self.disk.pending() > 0
            }
        }
    }

    /// Microseconds until the first sleeper looks up by itself.
    pub fn first_alarm_us(&self) -> Option<i64> {
        let alarms = self.seats.iter().filter_map(|seat| match seat.sleep {
            Sleep::Until(until) => until,
            _ => None,
        });
        alarms.min().map(|until| until.saturating_sub(self.clock.elapsed_us()).cast_signed())
    }

    /// One turn of a shard, as the event loop has it do.
    pub fn turn(&mut self, shard: usize) -> Result<(), String> {
        let seat = &mut self.seats[shard];
        seat.woken.store(false, SeqCst);
        seat.reactor.get_up();
        for ready in std::mem::take(&mut seat.ready) {
            match ready {
                Ready::Read(index) => seat.reactor.readable(index),
                Ready::Write(index) => seat.reactor.writable(index),
            }
        }
        seat.reactor.turn().map_err(|fatal| fatal.to_string())?;
        if seat.reactor.is_over() {
            seat.sleep = Sleep::Over;
            return Ok(());
        }
        let now_us = self.clock.elapsed_us();
        seat.sleep = match seat.reactor.lie_down() {
            Some(wait) if wait.is_zero() => Sleep::Awake,
            wait => {
                Sleep::Until(wait.map(|wait| now_us + u64::try_from(wait.as_micros()).unwrap()))
            }
        };
        Ok(())
    }

    /// Whether every shard has stopped.
    pub fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| matches!(seat.sleep, Sleep::Over))
    }

    pub fn metrics(&self, shard: usize) -> &ShardMetrics {
        &self.seats[shard].metrics
    }
}

fn node() -> NodeInfo {
    NodeInfo {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 9042,
        host_id: uuid::Uuid::from_u128(1),
        cluster_name: "simulated".into(),
        version: "0".into(),
        tokens: vec![0],
        traces: Arc::default(),
    }
}
