//! The server: opens the data, listens, gives each shard its thread, and stops in order.

pub mod accounts;
mod backups;
mod connection;
mod connections;
mod descriptors;
pub mod errands;
mod event_loop;
mod http;
pub mod logger;
mod reactor;
mod requests;
pub mod snapshots;
mod socket;
mod stop;

use crate::{
    budget::Share,
    config::{Config, Guardrails},
    directory::CatalogFile,
    io::{
        Clock, Descriptors, Files, SystemClock,
        disk::{DiskFiles, Ring},
        limits,
    },
    metrics::{ProcessMetrics, ShardMetrics},
    mutation::token::range_of,
    schema::{Catalog, system::NodeInfo},
    shard::{
        self, Shard,
        mailbox::{Bell, Mailbox},
        peers::{Letterbox, Peers},
        shared::Shared,
    },
    store::{self, Fatal, Store, StoreConfig},
    trace::Traces,
};
pub use connection::Stream;
use descriptors::{DescriptorShares, share_out};
use errands::{Errands, try_listen};
use event_loop::{BELL, EventLoop};
use http::{Control, Seen, Watched};
use log::{error, info, warn};
use md5::{Digest, Md5};
use mio::{Poll, Waker};
pub use reactor::{Limits, Reactor};
use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, AtomicUsize, Ordering::SeqCst},
    },
    thread::JoinHandle,
};
pub use stop::Stop;
use uuid::Uuid;

/// Exit code when storage fails while we serve (`EX_IOERR`).
const EXIT_STORAGE: i32 = 74;

/// Why the server did not start, as a line for whoever started it.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A server that serves.
pub struct Server {
    /// Where it answers CQL.
    pub cql: SocketAddr,
    /// Where it answers HTTP.
    pub http: SocketAddr,
    /// How many shards it has.
    pub shards: u16,
    threads: Vec<JoinHandle<()>>,
    control: JoinHandle<()>,
}

impl Server {
    /// Opens the data directory and begins to serve.
    ///
    /// # Errors
    /// A port is taken, the directory is in use or unusable, or the operating system refuses.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let shards = config.shard_count();
        let descriptors = descriptor_shares(config)?;
        let process = Arc::new(ProcessMetrics::default());
        let listeners = socket::listen(config.listen.0, shards)
            .map_err(|error| taken("--listen", config.listen.0, &error))?;
        let http = socket::listen(config.http.0, 1)
            .map_err(|error| taken("--http", config.http.0, &error))?
            .remove(0);
        let cql_address = listeners[0].local_addr().map_err(unexpected)?;
        let http_address = http.local_addr().map_err(unexpected)?;
        for (name, address) in [("CQL", cql_address), ("HTTP", http_address)] {
            if !address.ip().is_loopback() {
                warn!(address:% = address; "{name} can be reached from other machines, without a \
                      password and without encryption");
            }
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (polls, boxes) = bells(shards).map_err(unexpected)?;
        let files = Arc::new(Descriptors::new(descriptors.files, Arc::clone(&process)));
        let data = Data::open(config, &files, &boxes, &clock)?;
        let limits = limits_of(config, descriptors);
        let parts = ServerParts {
            config,
            clock,
            polls,
            boxes,
            listeners,
            data,
            cql_address,
            limits,
            process,
        };
        parts.serve(http, http_address)
    }

    /// Waits until it was told to stop and everything is written.
    pub fn join(self) {
        for thread in self.threads {
            // A thread that panicked has ended the process: see `main`.
            let _ = thread.join();
        }
        let _ = self.control.join();
    }
}

fn taken(option: &str, address: SocketAddr, error: &io::Error) -> StartError {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => "it is in use; stop who has it or choose another port",
        io::ErrorKind::PermissionDenied => "it is not allowed; choose a port above 1023",
        io::ErrorKind::AddrNotAvailable => "it is not an address of this machine",
        _ => return StartError(format!("cannot listen on {address} ({option}): {error}")),
    };
    StartError(format!("cannot listen on {address} ({option}): {remedy}"))
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` gives it
fn unexpected(error: io::Error) -> StartError {
    StartError(format!("the operating system refuses: {error}"))
}

/// A poll for each shard, and a letterbox whose bell wakes it.
fn bells(shards: u16) -> io::Result<(Vec<Poll>, Vec<Arc<Letterbox>>)> {
    let (mut polls, mut boxes) = (Vec::new(), Vec::new());
    for _ in 0..shards {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), BELL)?;
        let wake = move || waker.wake().expect("an event descriptor takes a one");
        boxes.push(Arc::new(Mailbox::new(Bell::new(wake))));
        polls.push(poll);
    }
    Ok((polls, boxes))
}

/// What lies in the data directory, opened.
struct Data {
    stores: Vec<Store>,
    shared: Arc<Shared>,
    catalog_file: CatalogFile,
}

impl Data {
    fn open(
        config: &Config,
        descriptors: &Arc<Descriptors>,
        boxes: &[Arc<Letterbox>],
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let open = |ring: &Ring| -> Result<Box<dyn Files>, StartError> {
            let files = DiskFiles::open(&config.data_dir, descriptors, ring);
            let files = files.map_err(|error| {
                let directory = config.data_dir.display();
                StartError(format!("cannot use the directory {directory} (--data-dir): {error}"))
            })?;
            Ok(Box::new(files))
        };
        let silent: Ring = Arc::new(|| ());
        let ring = |letterbox: &Arc<Letterbox>| -> Ring {
            let letterbox = Arc::clone(letterbox);
            Arc::new(move || {
                letterbox.bell().ring();
            })
        };
        let mut files = Vec::new();
        for letterbox in boxes {
            files.push(open(&ring(letterbox))?);
        }
        // Changes of the schema are made by the first shard, so they ring for it.
        let schema = open(&boxes.first().map_or(silent, ring))?;
        let opened = store::open(&store_config(config), files, schema, clock, Catalog::stored);
        let opened =
            opened.map_err(|error| StartError(format!("{}/{error}", config.data_dir.display())))?;
        let statements = part(Share::Statements, config.memory.0);
        let shared = Arc::new(Shared::new(opened.catalog, statements));
        Ok(Self { stores: opened.stores, shared, catalog_file: opened.catalog_file })
    }
}

/// Fewer segments of a shard's log are no use: one is being written, one is ready, and a flush
/// takes its time.
const LOG_SEGMENTS_MIN: u64 = 4;

/// The store's shares of a shard's memory.
fn store_config(config: &Config) -> StoreConfig {
    let memory = config.shard_bytes();
    let usual = StoreConfig::default();
    let log_bytes_max = config.log_bytes_max.0 / u64::from(config.shard_count());
    StoreConfig {
        shards: config.shard_count(),
        memtable_bytes_max: part(Share::Memtables, memory),
        cache_bytes_max: part(Share::Blocks, memory),
        log_bytes_max: log_bytes_max.max(LOG_SEGMENTS_MIN * usual.log_segment_bytes),
        ..usual
    }
}

/// Everything that is needed to serve.
struct ServerParts<'a> {
    config: &'a Config,
    clock: Arc<dyn Clock>,
    polls: Vec<Poll>,
    boxes: Vec<Arc<Letterbox>>,
    listeners: Vec<TcpListener>,
    data: Data,
    cql_address: SocketAddr,
    limits: Limits,
    process: Arc<ProcessMetrics>,
}

impl ServerParts<'_> {
    fn serve(self, http: TcpListener, http_address: SocketAddr) -> Result<Server, StartError> {
        let shards = self.config.shard_count();
        let (told, signals) = UnixStream::pair().map_err(unexpected)?;
        let signal = |number| {
            let told = told.try_clone()?;
            signal_hook::low_level::pipe::register(number, told)
        };
        signal(signal_hook::consts::SIGTERM).map_err(unexpected)?;
        signal(signal_hook::consts::SIGINT).map_err(unexpected)?;

        let rung = self.boxes.clone();
        let stop = Arc::new(Stop::new(shards, move || {
            for letterbox in &rung {
                letterbox.bell().ring();
            }
        }));
        let memory = self.config.shard_bytes();
        let metrics: Vec<Arc<ShardMetrics>> =
            (0..shards).map(|_| Arc::new(ShardMetrics::with_memory(memory))).collect();
        let watched = metrics
            .iter()
            .zip(&self.boxes)
            .map(|(metrics, letterbox)| {
                let letterbox = Arc::clone(letterbox);
                Watched::new(Arc::clone(metrics), move || letterbox.bell().is_asleep())
            })
            .collect();
        let running = Arc::new(AtomicU16::new(shards));
        let ended = Arc::clone(&running);
        let ended = Arc::new(move || ended.load(SeqCst) == 0);
        let seen = Seen { process: Arc::clone(&self.process), shards: watched };
        let mut control =
            Control::new(http, signals, seen, Arc::clone(&stop), ended).map_err(unexpected)?;
        if let Some(listener) = try_listen(&self.config.data_dir) {
            let errands = self.errands(http_address, &metrics, &stop);
            control.admit_operator(listener, errands).map_err(unexpected)?;
        }
        let control = spawn("control", move || control.run())?;

        let cql = self.cql_address;
        let event_loops = self.event_loops(&metrics, &stop)?;
        let mut threads = Vec::new();
        for (number, event_loop) in event_loops.into_iter().enumerate() {
            let running = Arc::clone(&running);
            let told = told.try_clone().map_err(unexpected)?;
            threads.push(spawn(&format!("shard-{number}"), move || {
                if let Err(fatal) = event_loop.run() {
                    die(&fatal);
                }
                running.fetch_sub(1, SeqCst);
                // The control thread looks up and sees that there is one less.
                let _ = io::Write::write_all(&mut &told, &[0]);
            })?);
        }
        info!(shards, address:% = cql; "serving");
        Ok(Server { cql, http: http_address, shards, threads, control })
    }

    fn errands(
        &self,
        http: SocketAddr,
        metrics: &[Arc<ShardMetrics>],
        stop: &Arc<Stop>,
    ) -> Arc<Errands> {
        Arc::new(Errands {
            directory: self.config.data_dir.clone(),
            cql: self.cql_address.to_string(),
            http: http.to_string(),
            shared: Arc::clone(&self.data.shared),
            boxes: self.boxes.clone(),
            metrics: metrics.to_vec(),
            clock: Arc::clone(&self.clock),
            started_us: self.clock.elapsed_us(),
            stop: Arc::clone(stop),
            under_way: AtomicUsize::new(0),
            snapshot_at_hand: Mutex::new(()),
        })
    }

    fn event_loops(
        self,
        metrics: &[Arc<ShardMetrics>],
        stop: &Arc<Stop>,
    ) -> Result<Vec<EventLoop>, StartError> {
        let config = self.config;
        let node = Arc::new(node(config, self.cql_address));
        let limits = self.limits;
        let mut catalog_file = Some(self.data.catalog_file);
        let mut event_loops = Vec::new();
        let sockets = self.polls.into_iter().zip(self.listeners);
        let stores = self.data.stores.into_iter().zip(0..);
        for (((store, number), (poll, listener)), metrics) in stores.zip(sockets).zip(metrics) {
            let metrics = Arc::clone(metrics);
            let shard = Shard::new(shard::ShardParts {
                shard: number,
                shards: config.shard_count(),
                store,
                peers: Peers::new(number, self.boxes.clone(), Arc::clone(&metrics)),
                shared: Arc::clone(&self.data.shared),
                node: Arc::clone(&node),
                metrics,
                clock: Arc::clone(&self.clock),
                frame_bytes_max: limits.frame_bytes_max,
                catalog_file: catalog_file.take(),
                guardrails_strict: config.guardrails == Guardrails::Strict,
                seed: Uuid::new_v4().as_u64_pair().0,
            });
            let reactor = Reactor::new(shard, limits, Arc::clone(stop));
            event_loops.push(EventLoop::new(poll, listener, reactor).map_err(unexpected)?);
        }
        Ok(event_loops)
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(unexpected)
}

/// Storage has failed: whatever is in flight stays unanswered, and the next start brings back
/// everything that was acknowledged.
fn die(fatal: &Fatal) -> ! {
    error!(error:% = fatal; "storage has failed; nothing more is acknowledged");
    eprintln!("sandglass-db: {fatal}");
    std::process::exit(EXIT_STORAGE);
}

/// Raises the limit of descriptors, and shares them out.
fn descriptor_shares(config: &Config) -> Result<DescriptorShares, StartError> {
    let limit = limits::raise_open_files().map_err(unexpected)?;
    let asked = config.connections_max;
    let shares = share_out(limit, config.shard_count(), asked).map_err(StartError)?;
    if shares.connections_of_shard < asked {
        warn!(limit, asked, connections = shares.connections_of_shard;
              "a shard has fewer connections than --connections-max, because the process may not \
               open more files");
    }
    Ok(shares)
}

fn limits_of(config: &Config, shares: DescriptorShares) -> Limits {
    let memory = config.shard_bytes();
    Limits {
        // A request must fit into the share of all requests.
        frame_bytes_max: config.frame_bytes_max.as_usize().min(part(Share::Requests, memory)),
        connections_max: shares.connections_of_shard,
        in_flight_max: config.in_flight_max,
        output_bytes_max: config.output_bytes_max.as_usize(),
    }
}

/// A share of this much memory, as a length.
fn part(share: Share, memory: u64) -> usize {
    usize::try_from(share.of(memory)).unwrap_or(usize::MAX)
}

/// Traces have this part of the memory at most.
const TRACES_PART: usize = 64;

/// Who we are, as system tables tell. The identity belongs to the place of the data, so that it
/// is the same after a restart.
fn node(config: &Config, address: SocketAddr) -> NodeInfo {
    let place = config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone());
    let digest = Md5::digest(place.as_os_str().as_encoded_bytes());
    let shards = config.shard_count();
    let owned = (0..shards).map(|shard| *range_of(shard, shards).end());
    NodeInfo {
        address: address.ip(),
        port: address.port(),
        host_id: uuid::Builder::from_md5_bytes(digest.into()).into_uuid(),
        cluster_name: "Sandglass".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tokens: owned.collect(),
        traces: Arc::new(Traces::with_room(config.memory.as_usize() / TRACES_PART)),
    }
}
