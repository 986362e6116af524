//! What the operator asks over the socket in the data directory, each on a thread of its own.
//!
//! A request is one line of JSON. Answered are lines of `progress TEXT`, and one that is `answer
//! JSON` or `error TEXT`. The permissions of the socket say who may ask. Nothing here is done by a
//! shard but what it must do itself, which it is asked for through its letterbox.

use super::{
    accounts::{CompactAccount, FlushAccount, ShareAccount, SstableAccount, Status, TableAccount},
    socket::{LOCAL_PATH_BYTES_MAX, listen_local},
    stop::Stop,
};
use crate::{
    budget::Share,
    io::{Clock, limits::free_bytes},
    metrics::{Counter, ShardMetrics},
    mutation::TableNumber,
    schema::{Catalog, Table},
    shard::{
        errand::{CompactionTold, Errand},
        peers::{Letterbox, Parcel},
        shared::Shared,
    },
    sstable::{SstableId, Summary},
    store::{CompactionLeft, TableReport},
};
use log::{info, warn};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

/// The name of the socket in the data directory.
pub const SOCKET: &str = "ctl.sock";

/// Requests at a time. More are refused.
const REQUESTS_MAX: usize = 4;

/// Bytes of a request.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// How long a client may take for its request, and for taking a piece of the answer.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);

/// How often a client is told how far its request is.
const PROGRESS_TIME: Duration = Duration::from_secs(1);

const STOPPING: &str = "the engine is stopping. Ask again when it runs";

/// What the operator wants. Tables are `keyspace` or `keyspace.table`; none are all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Request {
    /// How the engine is.
    Status,
    /// What there is of tables.
    Tablestats {
        /// Of which.
        tables: Vec<String>,
    },
    /// The sstables of tables.
    List {
        /// Of which.
        tables: Vec<String>,
    },
    /// Have what is in memory of tables in sstables.
    Flush {
        /// Of which.
        tables: Vec<String>,
    },
    /// Compact tables as far as it goes.
    Compact {
        /// Which.
        tables: Vec<String>,
    },
    /// Take a snapshot.
    Snapshot {
        /// Its name.
        name: String,
        /// Of which tables.
        tables: Vec<String>,
        /// The directory that it is to be in; `snapshots` in the data directory if none is given.
        to: Option<PathBuf>,
    },
    /// Read all blocks of all sstables of tables.
    Verify {
        /// Of which.
        tables: Vec<String>,
    },
}

/// What shards tell of one table.
type OfShards = Vec<TableReport>;

/// Why a request is not answered, as a line for the operator.
pub(super) type Refusal = String;

/// Listens in the data directory, whose lock is ours: whoever made a socket that is there is gone.
///
/// # Errors
/// The operating system refuses, as for a path that is too long.
pub(super) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let path = directory.join(SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => listen_local(&path),
    }
}

/// The same, but the engine serves without it.
pub(super) fn try_listen(directory: &Path) -> Option<UnixListener> {
    let path = directory.join(SOCKET);
    listen(directory)
        .inspect_err(|error| {
            warn!(path:% = path.display(), error:% = error;
                  "no commands are taken of `sandglass-db ctl`: the socket cannot be made; a path \
                   of at most {LOCAL_PATH_BYTES_MAX} bytes is needed, where a relative --data-dir \
                   counts as it is given");
        })
        .ok()
}

/// Answers the operator.
pub(super) struct Errands {
    pub directory: PathBuf,
    pub cql: String,
    pub http: String,
    pub shared: Arc<Shared>,
    pub boxes: Vec<Arc<Letterbox>>,
    pub metrics: Vec<Arc<ShardMetrics>>,
    pub clock: Arc<dyn Clock>,
    /// By what had elapsed.
    pub started_us: u64,
    pub stop: Arc<Stop>,
    pub under_way: AtomicUsize,
    /// One at a time is taken.
    pub snapshot_at_hand: Mutex<()>,
}

impl Errands {
    /// Begins to serve a client.
    pub fn serve(self: &Arc<Self>, stream: UnixStream) {
        let errands = Arc::clone(self);
        self.under_way.fetch_add(1, SeqCst);
        let serve = move || {
            // A client that does not listen is not told.
            let _ = errands.answer(&stream);
            errands.under_way.fetch_sub(1, SeqCst);
        };
        if let Err(error) = std::thread::Builder::new().name("ctl".to_owned()).spawn(serve) {
            warn!(error:% = error; "a command could not be begun");
            self.under_way.fetch_sub(1, SeqCst);
        }
    }

    /// Closes the socket to new clients.
    pub fn close(&self) {
        let _ = fs::remove_file(self.directory.join(SOCKET));
    }

    fn answer(&self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(CLIENT_TIME_MAX))?;
        stream.set_write_timeout(Some(CLIENT_TIME_MAX))?;
        if self.under_way.load(SeqCst) > REQUESTS_MAX {
            return writeln!(stream, "error {REQUESTS_MAX} commands are under way: wait for one");
        }
        let mut line = String::new();
        BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
        let request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                return writeln!(stream, "error the engine does not know such a command: {error}");
            }
        };
        info!(request:? = request; "a command of the operator");
        match self.run(request, &Teller(stream)) {
            Ok(answer) => writeln!(stream, "answer {answer}"),
            Err(refusal) => writeln!(stream, "error {}", refusal.replace('\n', " ")),
        }
    }

    fn run(&self, request: Request, teller: &Teller<'_>) -> Result<String, Refusal> {
        match request {
            Request::Status => json(&self.status()?),
            Request::Tablestats { tables } => json(&self.table_accounts(&tables, teller)?),
            Request::List { tables } => json(&self.sstable_accounts(&tables, teller)?),
            Request::Flush { tables } => json(&self.flush(&tables, teller)?),
            Request::Compact { tables } => json(&self.compact(&tables, teller)?),
            Request::Snapshot { name, tables, to } => {
                json(&self.snapshot(&name, &tables, to, teller)?)
            }
            Request::Verify { tables } => json(&self.verify(&tables, teller)?),
        }
    }

    fn status(&self) -> Result<Status, Refusal> {
        let sum = |of: fn(&ShardMetrics) -> &Counter| {
            self.metrics.iter().map(|metrics| of(metrics).get()).sum::<u64>()
        };
        let memory = Share::ALL.iter().map(|share| {
            let (mut taken_bytes, mut most_bytes) = (0, 0);
            for metrics in &self.metrics {
                taken_bytes += metrics.memory.taken(*share);
                most_bytes += metrics.memory.most(*share);
            }
            ShareAccount { name: share.name().to_owned(), taken_bytes, most_bytes }
        });
        let disk_free_bytes = free_bytes(&self.directory)
            .map_err(|error| format!("{}: {error}", self.directory.display()))?;
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: (self.clock.elapsed_us() - self.started_us) / 1_000_000,
            cql: self.cql.clone(),
            http: self.http.clone(),
            shards: self.boxes.len(),
            memory: memory.collect(),
            log_segments: sum(|of| &of.log_segments),
            log_bytes: sum(|of| &of.log_disk_bytes),
            tables: self.shared.schema().1.tables().count(),
            sstables: sum(|of| &of.sstables),
            sstable_bytes: sum(|of| &of.sstable_bytes),
            compactions_running: sum(|of| &of.compactions),
            compaction_backlog_bytes: sum(|of| &of.compaction_backlog),
            compactions_failed: sum(|of| &of.failed_compactions),
            disk_free_bytes,
            is_disk_full: sum(|of| &of.out_of_space) > 0,
        })
    }

    fn table_accounts(
        &self,
        names: &[String],
        teller: &Teller<'_>,
    ) -> Result<Vec<TableAccount>, Refusal> {
        let mut accounts = Vec::new();
        for (table, reports) in self.reports(names, teller)? {
            let mut account = TableAccount { table: full_name(&table), ..TableAccount::default() };
            for report in &reports {
                account.memtable_bytes += report.memtable_bytes;
                account.memtable_rows += report.memtable_rows;
                account.writes += report.counts.writes;
                account.reads += report.counts.reads;
                account.flush_bytes += report.counts.flush_bytes;
                account.compaction_bytes += report.counts.compaction_bytes;
            }
            account.tombstone_share = tombstone_share(&reports);
            let sstables = sstables_of(&reports);
            account.sstables = sstables.len();
            account.sstable_bytes = sstables.values().map(|summary| summary.bytes).sum();
            let rows: u64 = sstables.values().map(|summary| summary.rows).sum();
            account.rows_estimated = rows + account.memtable_rows;
            accounts.push(account);
        }
        Ok(accounts)
    }

    fn sstable_accounts(
        &self,
        names: &[String],
        teller: &Teller<'_>,
    ) -> Result<Vec<SstableAccount>, Refusal> {
        let mut accounts = Vec::new();
        for (table, reports) in self.reports(names, teller)? {
            let sstables = sstables_of(&reports);
            accounts.extend(sstables.values().map(|summary| sstable_account(&table, summary)));
        }
        Ok(accounts)
    }

    fn flush(&self, names: &[String], teller: &Teller<'_>) -> Result<FlushAccount, Refusal> {
        let numbers = numbers(&resolve(&self.shared.schema().1, names)?);
        self.ask_all(teller, |to| Errand::Flush(numbers.clone(), to))?;
        Ok(FlushAccount { tables: numbers.len() })
    }

    fn compact(&self, names: &[String], teller: &Teller<'_>) -> Result<CompactAccount, Refusal> {
        // What lies in memory may be older than a deletion that could be forgotten.
        self.flush(names, teller)?;
        let before = self.table_accounts(names, teller)?;
        let numbers = numbers(&resolve(&self.shared.schema().1, names)?);
        let (to, told) = channel();
        self.post(|| Errand::Compact(numbers.clone(), to.clone()));
        drop(to);
        let mut left = BTreeMap::new();
        // It ends when no shard has anything to tell any more.
        loop {
            match told.recv_timeout(PROGRESS_TIME) {
                Ok(CompactionTold { shard, left: of_shard }) => drop(left.insert(shard, of_shard)),
                Err(RecvTimeoutError::Timeout) if !self.stop.is_requested() => {
                    teller.tell(&progress(left.values()))?;
                }
                Err(RecvTimeoutError::Timeout) => return Err(STOPPING.to_owned()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if left.len() < self.boxes.len() || left.values().any(|left| !left.is_over()) {
            return Err(STOPPING.to_owned());
        }
        let after = self.table_accounts(names, teller)?;
        Ok(CompactAccount {
            tables: after.len(),
            sstables_before: before.iter().map(|table| table.sstables).sum(),
            bytes_before: before.iter().map(|table| table.sstable_bytes).sum(),
            sstables_after: after.iter().map(|table| table.sstables).sum(),
            bytes_after: after.iter().map(|table| table.sstable_bytes).sum(),
            left_alone: left.values().map(|left| left.left_alone).sum(),
            apart: left.values().map(|left| left.apart).max().unwrap_or(0),
        })
    }

    /// What each shard tells of each of these tables.
    fn reports(
        &self,
        names: &[String],
        teller: &Teller<'_>,
    ) -> Result<Vec<(Arc<Table>, OfShards)>, Refusal> {
        let catalog = self.shared.schema().1;
        let tables = resolve(&catalog, names)?;
        let numbers = numbers(&tables);
        let told = self.ask_all(teller, |to| Errand::Report(numbers.clone(), to))?;
        let mut by_table: BTreeMap<_, OfShards> = BTreeMap::new();
        for report in told.into_iter().flatten() {
            by_table.entry(report.table).or_default().push(report);
        }
        let with_reports = tables.into_iter().map(|table| {
            let reports = by_table.remove(&table.number).unwrap_or_default();
            (table, reports)
        });
        Ok(with_reports.collect())
    }

    /// Asks every shard, and waits until each has answered.
    pub(super) fn ask_all<T>(
        &self,
        teller: &Teller<'_>,
        errand: impl Fn(Sender<T>) -> Errand,
    ) -> Result<Vec<T>, Refusal> {
        let (to, answers) = channel();
        self.post(|| errand(to.clone()));
        drop(to);
        let mut answered = Vec::new();
        while answered.len() < self.boxes.len() {
            match answers.recv_timeout(PROGRESS_TIME) {
                Ok(answer) => answered.push(answer),
                Err(RecvTimeoutError::Timeout) if !self.stop.is_requested() => {
                    let (done, all) = (answered.len(), self.boxes.len());
                    teller.tell(&format!("{done} of {all} shards are done"))?;
                }
                Err(_) => return Err(STOPPING.to_owned()),
            }
        }
        Ok(answered)
    }

    /// Gives every shard an errand.
    fn post(&self, errand: impl Fn() -> Errand) {
        for letterbox in &self.boxes {
            letterbox.deliver(Parcel::of_operator(errand()));
        }
    }
}

/// How much is left of a compaction, in all shards.
fn progress<'a>(left: impl Iterator<Item = &'a CompactionLeft>) -> String {
    let (mut sstables, mut bytes, mut leaving, mut waits) = (0, 0, 0, false);
    for of_shard in left {
        sstables += of_shard.sstables;
        bytes += of_shard.bytes;
        leaving += of_shard.leaving;
        waits |= of_shard.waits_for_space && of_shard.sstables > 0;
    }
    if sstables == 0 && leaving > 0 {
        return format!("{leaving} sstables that were replaced are still to be removed");
    }
    let mib = bytes >> 20;
    let waits = if waits { "; it waits until there is room on the disk" } else { "" };
    format!("{sstables} sstables with {mib} MiB are still to be compacted{waits}")
}

pub(super) fn numbers(tables: &[Arc<Table>]) -> Vec<TableNumber> {
    tables.iter().map(|table| table.number).collect()
}

/// Tells a client how far its request is.
pub(super) struct Teller<'a>(&'a UnixStream);

impl Teller<'_> {
    /// Fails if the client has gone: nobody waits any more.
    pub fn tell(&self, progress: &str) -> Result<(), Refusal> {
        let mut stream = self.0;
        writeln!(stream, "progress {progress}").map_err(|error| error.to_string())
    }

    /// The same if it was not told for a while.
    pub fn tell_sometimes(
        &self,
        told: &mut Instant,
        progress: impl Fn() -> String,
    ) -> Result<(), Refusal> {
        if told.elapsed() < PROGRESS_TIME {
            return Ok(());
        }
        *told = Instant::now();
        self.tell(&progress())
    }
}

fn json(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|error| error.to_string())
}

/// The name of a table with its keyspace.
fn full_name(table: &Table) -> String {
    format!("{}.{}", table.keyspace, table.name)
}

/// The tables of these names, each once; all if there are no names.
pub(crate) fn resolve(catalog: &Catalog, names: &[String]) -> Result<Vec<Arc<Table>>, Refusal> {
    if names.is_empty() {
        return Ok(catalog.tables().cloned().collect());
    }
    let mut tables = BTreeMap::new();
    for name in names {
        let is_meant = |table: &&Arc<Table>| table.keyspace == *name || full_name(table) == *name;
        let meant: Vec<_> = catalog.tables().filter(is_meant).collect();
        if meant.is_empty() && catalog.keyspace(name).is_none() {
            let what = "there is no such keyspace or table. Give KEYSPACE or KEYSPACE.TABLE, as \
                        `tablestats` lists them";
            return Err(format!("{name}: {what}"));
        }
        tables.extend(meant.into_iter().map(|table| (full_name(table), Arc::clone(table))));
    }
    Ok(tables.into_values().collect())
}

/// The sstables that shards have told of: one that spans several was told of by each.
fn sstables_of(reports: &[TableReport]) -> BTreeMap<SstableId, Summary> {
    let summaries = reports.iter().flat_map(|report| &report.sstables);
    summaries.map(|summary| (summary.id, *summary)).collect()
}

/// Which part of the cells and deletions of a table was deleted or has expired.
#[allow(clippy::cast_precision_loss)] // It is an estimate.
fn tombstone_share(reports: &[TableReport]) -> Option<f64> {
    let counted: u64 = reports.iter().map(|report| report.counted).sum();
    let tombstones: u64 = reports.iter().map(|report| report.tombstones).sum();
    (counted > 0).then(|| tombstones as f64 / counted as f64)
}

/// What the operator is told of an sstable.
pub(crate) fn sstable_account(table: &Table, summary: &Summary) -> SstableAccount {
    let window_us = table.settings().window_us;
    SstableAccount {
        file: summary.id.file_name(),
        table: full_name(table),
        bytes: summary.bytes,
        rows: summary.rows,
        window_start_us: window_us.map(|window_us| summary.window.saturating_mul(window_us)),
        timestamp_min_us: summary.timestamp_min,
        timestamp_max_us: summary.timestamp_max,
        token_first: summary.token_first.0,
        token_last: summary.token_last.0,
        run: summary.id.epoch,
        expires_s: (summary.expires_s != i64::MAX).then_some(summary.expires_s),
    }
}
