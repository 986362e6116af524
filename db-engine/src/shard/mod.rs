//! One shard: the requests of its clients, its part of the data, and what it tells the others.
//!
//! Everything a shard owns is used by its own thread alone. A request for a partition of another
//! shard is forwarded to it in the parcel of the turn; whatever cannot be answered at once is
//! remembered by a tag or a slot and answered in the turn in which its end is heard of.

mod admission;
mod batch;
mod ddl;
mod dependent;
pub mod errand;
mod execute;
mod failure;
mod kept_batch;
mod large_values;
mod list;
pub mod mailbox;
pub mod peers;
mod prepare;
mod read;
mod reading;
mod room;
mod round_robin;
mod rows_answer;
pub mod session;
pub mod shared;
mod slab;
mod statement;
mod statement_id;
mod tag;
mod tracing;
mod turn;
pub mod unbound;
mod write;

use crate::{
    cql::BindScratch,
    directory::CatalogFile,
    io::{Clock, Random, TimeSlice},
    metrics::ShardMetrics,
    protocol::{
        MalformedBody, code,
        compression::decompress,
        frame::{Frame, flag},
        notation::BodyReader,
        response,
    },
    schema::{Catalog, system::NodeInfo},
    store::{Done, Page, Store, StoreMetrics},
};
use ddl::Changes;
use dependent::Dependents;
use errand::OpenErrand;
use peers::{Parcel, Peers};
use reading::Reading;
use room::Room;
use round_robin::RoundRobin;
use session::{Address, Session};
use shared::Shared;
use slab::Slab;
use statement::Plans;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tag::SlabKey;
use tracing::TracedRequests;
use write::{Retry, SplitWrite};

/// What a shard is made of.
pub struct ShardParts {
    /// Its number, from 0.
    pub shard: u16,
    /// How many there are.
    pub shards: u16,
    /// Its data.
    pub store: Store,
    /// The way to the others.
    pub peers: Peers,
    /// What all share.
    pub shared: Arc<Shared>,
    /// What clients are told of the node.
    pub node: Arc<NodeInfo>,
    /// Where it counts.
    pub metrics: Arc<ShardMetrics>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Longest body of a request, once it is decompressed.
    pub frame_bytes_max: usize,
    /// For shard 0: where the schema is kept.
    pub catalog_file: Option<CatalogFile>,
    /// Whether a schema that deserves a warning is refused.
    pub guardrails_strict: bool,
    /// Where its own random numbers begin.
    pub seed: u64,
}

/// One shard.
pub struct Shard {
    plans: Plans,
    core: Core,
    frame_bytes_max: usize,
    inflated: Vec<u8>,
    room: Room,
}

/// All of a shard but the plans, so that a plan can be borrowed while the rest is used.
struct Core {
    shard: u16,
    shards: u16,
    store: Store,
    peers: Peers,
    shared: Arc<Shared>,
    catalog: Arc<Catalog>,
    schema_version: u64,
    node: Arc<NodeInfo>,
    metrics: Arc<ShardMetrics>,
    clock: Arc<dyn Clock>,
    /// What the clock calls elapsed, as of the turn.
    turn_us: u64,
    /// What `uuid()` and `now()` are made of.
    random: Random,
    serving: u64,
    writes: Slab<SplitWrite>,
    reads: Slab<Option<Box<Reading>>>,
    /// Whose read goes on next.
    round_robin: RoundRobin,
    /// Reads that wait until there is room for what they read.
    held_back: VecDeque<SlabKey>,
    /// Bytes that answers held when reads were last held back.
    held_back_at_bytes: u64,
    /// Answers that one connection may leave untaken, in bytes.
    output_bytes_max: usize,
    /// Bytes of the request that is being run.
    request_bytes: usize,
    /// Those of the shared statements that this shard has heard of.
    evictions: u64,
    retries: Vec<Retry>,
    /// Writes that depend on what is there.
    dependents: Dependents,
    changes: Option<Changes>,
    /// Another turn is wanted although nothing will ring.
    again: bool,
    done: Vec<Done>,
    parcels: Vec<Parcel>,
    mutations: Vec<u8>,
    split: Vec<Vec<u8>>,
    scratch: BindScratch,
    page: Page,
    cells: Vec<u8>,
    lz4: Vec<u8>,
    traced: TracedRequests,
    /// What the operator wants, as far as it is not done.
    errands: Vec<OpenErrand>,
    stored: StoreMetrics,
}

impl Shard {
    /// A shard that serves nobody yet.
    #[must_use]
    pub fn new(parameters: ShardParts) -> Self {
        let (schema_version, catalog) = parameters.shared.schema();
        let shards = parameters.shards;
        let mut store = parameters.store;
        store.charge_reads_to(&parameters.metrics.memory);
        let core = Core {
            shard: parameters.shard,
            shards,
            store,
            peers: parameters.peers,
            shared: parameters.shared,
            catalog,
            schema_version,
            node: parameters.node,
            metrics: parameters.metrics,
            clock: parameters.clock,
            turn_us: 0,
            random: Random(parameters.seed),
            serving: 0,
            writes: Slab::default(),
            reads: Slab::default(),
            round_robin: RoundRobin::default(),
            held_back: VecDeque::new(),
            held_back_at_bytes: 0,
            output_bytes_max: usize::MAX,
            request_bytes: 0,
            evictions: 0,
            retries: Vec::new(),
            dependents: Dependents::default(),
            changes: parameters
                .catalog_file
                .map(|file| Changes::new(file, shards, parameters.guardrails_strict)),
            again: true,
            done: Vec::new(),
            parcels: Vec::new(),
            mutations: Vec::new(),
            split: vec![Vec::new(); usize::from(shards)],
            scratch: BindScratch::default(),
            page: Page::default(),
            cells: Vec::new(),
            lz4: Vec::new(),
            traced: TracedRequests::default(),
            errands: Vec::new(),
            stored: StoreMetrics::default(),
        };
        let frame_bytes_max = parameters.frame_bytes_max;
        Self {
            plans: Plans::default(),
            core,
            frame_bytes_max,
            inflated: Vec::new(),
            room: Room::default(),
        }
    }

    /// Where the shard counts.
    #[inline]
    #[must_use]
    pub fn metrics(&self) -> &ShardMetrics {
        &self.core.metrics
    }

    /// The same, to be kept.
    #[must_use]
    pub fn metrics_handle(&self) -> Arc<ShardMetrics> {
        Arc::clone(&self.core.metrics)
    }

    /// Limits what one connection may leave untaken of its answers.
    pub fn limit_output(&mut self, bytes: usize) {
        self.core.output_bytes_max = bytes;
    }

    /// The time of the turn, in microseconds.
    #[must_use]
    pub fn turn_us(&self) -> u64 {
        self.core.turn_us
    }

    /// Whether reads or connections wait because answers have no room.
    #[must_use]
    pub fn is_short_of_answers(&self) -> bool {
        self.core.is_short_of_answers()
    }

    /// Looks at the clock. Called first in every turn.
    pub fn begin_turn(&mut self) {
        self.core.metrics.turns.add(1);
        self.core.look_at_clock();
    }

    /// The time.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.core.clock)
    }

    /// How long the shard may wait if nothing rings; `None` for ever.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.core.timeout()
    }

    /// Said at the end of a turn: whether the shard would wait now. Returns whether the time was
    /// used instead, and there is something to do.
    pub fn rest(&mut self, would_wait: bool) -> bool {
        self.core.store.rest(would_wait)
    }

    /// Said before waiting; `false` if there is something to do.
    #[must_use]
    pub fn lie_down(&self) -> bool {
        self.core.peers.own().bell().lie_down()
    }

    /// Said after waiting.
    pub fn get_up(&self) {
        self.core.peers.own().bell().get_up();
    }

    /// Whether requests have begun that have not ended, whoever waits for them.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.core.serving > 0
    }

    /// Refuses what waits for others. No more requests come from now on, but what has begun ends.
    pub fn stop_waiting(&mut self) {
        self.core.dependents.stop();
        self.core.again = true;
    }

    /// Begins to write what is in memory; nothing new is taken from now on.
    pub fn begin_shutdown(&mut self) {
        self.core.store.begin_shutdown();
        self.core.again = true;
    }

    /// Whether everything is written, once that has begun.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.core.store.is_idle() && self.core.changes.as_ref().is_none_or(Changes::is_idle)
    }

    /// Runs one request, as far as its client has time. It is answered in the session's output,
    /// now or in a later turn. Returns whether that was all of it: if not, the same frame is to be
    /// given once more when the client has time again.
    pub fn frame(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        self.core.request_bytes = frame.body.len();
        let at = session.out.len();
        let ran = if let Some(unbound) = session.unbound.take() {
            self.go_on_with(session, frame, *unbound, time)
        } else {
            self.core.metrics.frames.add(1);
            if frame.flags & flag::COMPRESSED == 0 {
                self.body(session, frame, time)
            } else {
                self.compressed_body(session, frame, time)
            }
        };
        if let Err(malformed) = ran {
            self.core.metrics.error(code::PROTOCOL);
            self.core.metrics.broken.add(1);
            response::error(&mut session.out, frame.stream, code::PROTOCOL, &malformed.0);
            session.broken = true;
        }
        if frame.flags & flag::TRACING != 0 && session.out.len() > at {
            let address = self.core.address(session, frame.stream);
            self.core.end_trace(address, &mut session.out, at);
        }
        match &mut session.unbound {
            None => true,
            Some(unbound) => {
                unbound.settle(&self.core.metrics.memory);
                false
            }
        }
    }

    fn compressed_body(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        if !session.compressed {
            let what = "a compressed body, but no compression was agreed on";
            return Err(MalformedBody::new(what));
        }
        let mut inflated = std::mem::take(&mut self.inflated);
        let ran = decompress(frame.body, self.frame_bytes_max, &mut inflated);
        let ran = ran.and_then(|()| self.body(session, Frame { body: &inflated, ..frame }, time));
        if let Some(unbound) = &mut session.unbound {
            unbound.inflated = inflated;
        } else if inflated.capacity() <= 1 << 20 {
            self.inflated = inflated;
        }
        ran
    }

    fn body(
        &mut self,
        session: &mut Session,
        frame: Frame<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let mut reader = BodyReader::new(frame.body);
        if frame.flags & flag::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map()?;
        }
        if frame.flags & flag::TRACING != 0 {
            self.begin_trace(session, frame, reader);
        }
        self.request(session, frame, reader, time)
    }
}

impl Core {
    fn look_at_clock(&mut self) {
        self.turn_us = self.clock.elapsed_us();
    }

    /// Seconds since the start.
    fn second(&self) -> u64 {
        self.turn_us / 1_000_000
    }

    /// The name of a request that came in this turn.
    fn address(&self, session: &Session, stream: i16) -> Address {
        let arrived_us = u32::try_from(self.turn_us & 0xFF_FFFF).unwrap_or_default();
        Address { place: session.place, stream, arrived_us }
    }

    /// Microseconds since a request came: less than 2^24, after which they begin anew.
    fn age_us(&self, address: Address) -> u64 {
        self.turn_us.wrapping_sub(u64::from(address.arrived_us)) & 0xFF_FFFF
    }
}
