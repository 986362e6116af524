//! What the engine counts, and how Prometheus is told.
//!
//! Each shard has its own [`ShardMetrics`] and is the only one that writes them: an increment is a
//! plain load and store, without a lock and without a cache line shared with another shard. The
//! thread that answers `/metrics` reads them whenever it is asked. Names follow ScyllaDB's groups
//! (transport, cql, commitlog, …) with the prefix `sandglass_db_`.

mod histogram;

pub use histogram::Histogram;

use crate::budget::{Budget, Share};
use std::{
    fmt::Write as _,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it. Only the owning thread may.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces it. Only the owning thread may.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Its latest value, or one shortly before.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Error codes that are counted apart; all others count as the last.
const ERROR_CODES: [i32; 11] =
    [0x0000, 0x000A, 0x1001, 0x1100, 0x1200, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400, 0x2500];

/// The consistency levels, by the protocol's number.
pub const LEVELS: [&str; 11] = [
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
];

macro_rules! shard_metrics {
    ($($field:ident $kind:ident $name:literal $help:literal;)*) => {
        /// What one shard counts. Only its own thread writes here.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct ShardMetrics {
            $(#[doc = $help] pub $field: Counter,)*
            /// From the turn that received a read to the turn that answered it.
            pub read_latency: Histogram,
            /// From the turn that received a write to the turn that acknowledged it.
            pub write_latency: Histogram,
            /// From the submission of a block of the log to its being durable.
            pub log_write: Histogram,
            /// From the arrival of a write that depends on what is there to its having the latches
            /// of its partitions.
            pub latch_wait: Histogram,
            /// What clients make the shard hold.
            pub memory: Arc<Budget>,
            errors: [Counter; ERROR_CODES.len() + 1],
            queries: [Counter; LEVELS.len()],
        }

        /// Name, type, help and value of each plain number.
        const NUMBERS: &[MetricColumn] = &[
            $(MetricColumn {
                name: concat!("sandglass_db_", $name),
                kind: stringify!($kind),
                help: $help,
                value: |metrics| metrics.$field.get(),
            },)*
        ];
    };
}

type HistogramOf = fn(&ShardMetrics) -> &Histogram;

struct MetricColumn {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&ShardMetrics) -> u64,
}

shard_metrics! {
    turns counter "reactor_turns_total" "Turns of the event loop.";
    sleeps counter "reactor_sleeps_total" "Turns that began with a wait of unknown length.";
    hops counter "reactor_hops_total" "Messages sent to other shards.";
    rings counter "reactor_rings_total" "Times that another shard had to be woken.";
    receives counter "transport_receives_total" "Calls that read from a socket.";
    sends counter "transport_sends_total" "Calls that wrote to a socket.";
    received_bytes counter "transport_received_bytes_total" "Bytes read from sockets.";
    sent_bytes counter "transport_sent_bytes_total" "Bytes written to sockets.";
    frames counter "transport_requests_total" "Requests received.";
    served counter "transport_requests_served_total" "Requests answered.";
    shed counter "transport_requests_shed_total" "Requests refused because too much was asked.";
    blocked counter "transport_requests_blocked_total"
        "Times that a connection was not read because of its own limits.";
    serving gauge "transport_requests_serving" "Requests received and not answered yet.";
    request_bytes gauge "transport_request_bytes"
        "Bytes of requests that have not arrived whole, or wait for another shard.";
    output_bytes gauge "transport_output_bytes" "Bytes of answers that clients have not taken yet.";
    accepted counter "transport_connections_total" "Connections accepted.";
    refused counter "transport_connections_refused_total"
        "Times that there was no place for a connection: it was closed, or a silent one was.";
    connections gauge "transport_current_connections" "Open connections.";
    stalled counter "transport_connections_stalled_total"
        "Connections closed because they took no answers while others had no room for theirs.";
    broken counter "transport_protocol_errors_total" "Connections closed for a broken frame.";
    other_versions counter "transport_other_versions_total"
        "Connections that were asked to use another version of the protocol.";
    reads counter "cql_reads_total" "SELECT statements run.";
    writes counter "cql_writes_total" "INSERT, UPDATE, DELETE run, in batches or not.";
    batches counter "cql_batches_total" "Batches run.";
    conditional counter "cql_conditional_writes_total"
        "Conditional writes run; a batch with conditions is one.";
    not_applied counter "cql_conditional_writes_not_applied_total"
        "Those of them whose conditions did not hold.";
    counters counter "cql_counter_updates_total" "Writes to counters run, in batches or not.";
    latch_waiting gauge "latch_waiting"
        "Writes of all shards that wait for a latch of a partition of this one.";
    rows_read counter "cql_rows_read_total" "Rows returned by SELECT statements.";
    prepared gauge "query_processor_prepared_statements"
        "Prepared statements remembered by all shards, when this one last had to do with them.";
    prepares counter "query_processor_statements_prepared_total" "PREPARE requests.";
    unprepared counter "cql_unprepared_queries_total"
        "Requests for rows, or batches, that came with a statement as text.";
    unpaged counter "cql_unpaged_select_queries_total"
        "SELECT statements run that may find several rows and asked for no pages.";
    filtering counter "cql_filtered_read_requests_total"
        "SELECT statements run that look at rows which they do not want (ALLOW FILTERING).";
    scans counter "cql_select_partition_range_scan_total"
        "SELECT statements run that name no partition.";
    cache_filling counter "cql_select_partition_range_scan_no_bypass_cache_total"
        "Those of them that did not say BYPASS CACHE.";
    misrouted counter "cql_misrouted_queries_total"
        "Requests of one shard that came on a connection of another.";
    schema_changes counter "cql_schema_changes_total" "Changes of the schema.";
    traces counter "tracing_sessions_total" "Requests that were traced.";
    trace_bytes gauge "tracing_bytes" "Bytes of traces of all shards, as the first tells.";
    log_blocks counter "commitlog_blocks_total" "Blocks of writes made durable together.";
    own_log_blocks counter "commitlog_own_blocks_total" "Those that shards wrote without a helper.";
    log_bytes counter "commitlog_written_bytes_total" "Bytes written to the log.";
    log_disk_bytes gauge "commitlog_disk_total_bytes" "Bytes of log segments on disk.";
    log_segments gauge "commitlog_segments" "Log segments on disk.";
    memtable_bytes gauge "memtables_bytes" "Bytes of rows that no sstable has yet.";
    memtable_rows gauge "memtables_rows" "Rows that no sstable has yet.";
    memtable_flushes counter "memtables_flushes_total" "Memtables written to sstables.";
    flush_bytes counter "memtables_flushed_bytes_total" "Bytes of sstables written by these.";
    failed_flushes counter "memtables_failed_flushes_total" "Flushes without space, tried again.";
    sstables gauge "sstables_count" "Sstables that are read from.";
    sstable_bytes gauge "sstables_disk_bytes" "Bytes of sstables on disk.";
    sstables_expired counter "sstables_expired_total" "Sstables removed because all had expired.";
    compactions gauge "compaction_manager_compactions" "Compactions that are being done.";
    compaction_backlog gauge "compaction_manager_backlog" "Bytes left to compact, about.";
    completed_compactions counter "compaction_manager_completed_compactions_total"
        "Compactions that were done.";
    failed_compactions counter "compaction_manager_failed_compactions_total"
        "Compactions that found an sstable damaged, which stays as it is.";
    compaction_no_space counter "compaction_manager_no_space_total" "Compactions without space.";
    compaction_no_memory counter "compaction_manager_no_memory_total" "Compactions without memory.";
    compaction_read_bytes counter "compaction_manager_read_bytes_total" "Bytes compactions read.";
    compaction_written_bytes counter "compaction_manager_written_bytes_total"
        "Bytes of sstables written by compactions.";
    cache_hits counter "cache_block_hits_total" "Blocks of sstables found in memory.";
    cache_misses counter "cache_block_misses_total" "Blocks of sstables read from disk.";
    reads_at_once counter "file_reads_at_once_total" "Reads that the page cache has answered.";
    cache_bytes gauge "cache_bytes_used" "Bytes of cached blocks.";
    total_writes counter "database_total_writes_total" "Writes that storage has taken.";
    total_reads counter "database_total_reads_total" "Reads that storage has begun.";
    disk_reads counter "database_disk_reads_total" "Reads that waited for the disk.";
    resumed_reads counter "suspended_reads_hits_total"
        "Pages read on from where the one before had ended, with what was kept of it.";
    unresumed_reads counter "suspended_reads_misses_total"
        "Pages for which nothing was kept: they began behind their position.";
    suspended_bytes gauge "suspended_reads_bytes" "Bytes kept for the next pages of reads.";
    scan_fills counter "cache_scan_fills_total"
        "Reads that named no partition and put blocks into the cache, in the place of other scans.";
    failed_reads counter "database_failed_reads_total" "Reads that failed.";
    rows_scanned counter "database_rows_scanned_total" "Rows looked at by reads.";
    out_of_space gauge "database_out_of_space" "1 while the disk is full, else 0.";
    no_space counter "database_total_writes_rejected_due_to_out_of_space_prevention"
        "Writes refused because the disk is full.";
}

/// What all shards count together. Whoever counts holds a lock.
#[derive(Debug, Default)]
pub struct ProcessMetrics {
    /// Sstables and other files that have a descriptor.
    pub files_open: Counter,
    /// Files opened, those included that had given their descriptor to another.
    pub files_opened: Counter,
    /// Bytes of removed files whose space was not given back yet.
    pub removed_bytes: Counter,
}

impl ShardMetrics {
    /// Nothing counted yet, by a shard with so much memory.
    #[must_use]
    pub fn with_memory(bytes: u64) -> Self {
        Self { memory: Arc::new(Budget::of(bytes)), ..Self::default() }
    }

    /// Counts an error that is sent to a client. Only the owning thread may.
    pub fn error(&self, code: i32) {
        let place = ERROR_CODES.iter().position(|known| *known == code);
        if let Some(counter) = self.errors.get(place.unwrap_or(ERROR_CODES.len())) {
            counter.add(1);
        }
    }

    /// Counts a request for rows by its consistency level. Only the owning thread may.
    #[inline]
    pub fn query(&self, level: u16) {
        if let Some(counter) = self.queries.get(usize::from(level)) {
            counter.add(1);
        }
    }

    /// Errors of this code that were sent.
    #[must_use]
    pub fn errors(&self, code: i32) -> u64 {
        let place = ERROR_CODES.iter().position(|known| *known == code);
        self.errors.get(place.unwrap_or(ERROR_CODES.len())).map_or(0, Counter::get)
    }
}

/// All metrics in Prometheus' text format.
#[must_use]
pub fn render(shards: &[&ShardMetrics], process: &ProcessMetrics) -> String {
    let mut out = String::with_capacity(16 << 10);
    for number in NUMBERS {
        header(&mut out, number.name, number.kind, number.help);
        for (shard, metrics) in shards.iter().enumerate() {
            let _ =
                writeln!(out, "{}{{shard=\"{shard}\"}} {}", number.name, (number.value)(metrics));
        }
    }
    render_memory(&mut out, shards);
    render_errors(&mut out, shards);
    render_queries(&mut out, shards);
    let histograms: [(&str, &str, HistogramOf); 4] = [
        (
            "sandglass_db_storage_proxy_coordinator_read_latency_seconds",
            "From a read's arrival to its answer.",
            |metrics| &metrics.read_latency,
        ),
        (
            "sandglass_db_storage_proxy_coordinator_write_latency_seconds",
            "From a write's arrival to its acknowledgement.",
            |metrics| &metrics.write_latency,
        ),
        (
            "sandglass_db_commitlog_write_seconds",
            "From the submission of a block of the log to its being durable.",
            |metrics| &metrics.log_write,
        ),
        (
            "sandglass_db_latch_wait_seconds",
            "From the arrival of a write that depends on what is there to its having its latches.",
            |metrics| &metrics.latch_wait,
        ),
    ];
    for (name, help, histogram) in histograms {
        header(&mut out, name, "histogram", help);
        for (shard, metrics) in shards.iter().enumerate() {
            histogram(metrics).render(&mut out, name, shard);
        }
    }
    render_files(&mut out, process);
    render_process(&mut out);
    out
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn render_memory(out: &mut String, shards: &[&ShardMetrics]) {
    type MetricColumn = fn(&Budget, Share) -> u64;
    let numbers: [(&str, &str, MetricColumn); 2] = [
        ("sandglass_db_memory_bytes", "Memory that clients make it hold, by share.", Budget::taken),
        ("sandglass_db_memory_limit_bytes", "The most of each share.", Budget::most),
    ];
    for (name, help, number) in numbers {
        header(out, name, "gauge", help);
        for (shard, metrics) in shards.iter().enumerate() {
            for share in Share::ALL {
                let (value, share) = (number(&metrics.memory, share), share.name());
                let _ = writeln!(out, "{name}{{shard=\"{shard}\",share=\"{share}\"}} {value}");
            }
        }
    }
}

fn render_errors(out: &mut String, shards: &[&ShardMetrics]) {
    let name = "sandglass_db_transport_cql_errors_total";
    header(out, name, "counter", "Errors sent to clients, by the protocol's code.");
    for (shard, metrics) in shards.iter().enumerate() {
        for (place, counter) in metrics.errors.iter().enumerate() {
            let code = ERROR_CODES.get(place).map_or("other".to_owned(), |c| format!("0x{c:04x}"));
            let count = counter.get();
            let _ = writeln!(out, "{name}{{shard=\"{shard}\",code=\"{code}\"}} {count}");
        }
    }
}

fn render_queries(out: &mut String, shards: &[&ShardMetrics]) {
    let name = "sandglass_db_query_processor_queries_total";
    header(out, name, "counter", "Requests for rows, and batches, by consistency level.");
    for (shard, metrics) in shards.iter().enumerate() {
        for (level, counter) in LEVELS.iter().zip(&metrics.queries) {
            let count = counter.get();
            let _ =
                writeln!(out, "{name}{{shard=\"{shard}\",consistency_level=\"{level}\"}} {count}");
        }
    }
}

fn render_files(out: &mut String, process: &ProcessMetrics) {
    let numbers = [
        (
            "sandglass_db_files_open",
            "gauge",
            "Sstables and other files that have a descriptor, of all shards.",
            &process.files_open,
        ),
        (
            "sandglass_db_files_opened_total",
            "counter",
            "Files opened, those included that had given their descriptor to another file.",
            &process.files_opened,
        ),
        (
            "sandglass_db_removed_files_bytes",
            "gauge",
            "Bytes of removed files whose space was not given back to the disk yet.",
            &process.removed_bytes,
        ),
    ];
    for (name, kind, help, number) in numbers {
        header(out, name, kind, help);
        let _ = writeln!(out, "{name} {}", number.get());
    }
}

/// What the operating system knows of this process, by the names of the Prometheus clients.
fn render_process(out: &mut String) {
    let Some(process) = Process::read() else { return };
    let cpu = "process_cpu_seconds_total";
    header(out, cpu, "counter", "User and system time of the process, in seconds.");
    let ticks = process.cpu_ticks;
    let _ = writeln!(out, "{cpu} {}.{:02}", ticks / TICKS_PER_S, ticks % TICKS_PER_S);
    let memory = "process_resident_memory_bytes";
    header(out, memory, "gauge", "Memory of the process that is in RAM, in bytes.");
    let _ = writeln!(out, "{memory} {}", process.resident_bytes);
    let files = "process_open_fds";
    header(out, files, "gauge", "Open file descriptors.");
    let _ = writeln!(out, "{files} {}", process.open_files);
    let files = "process_max_fds";
    header(out, files, "gauge", "Most open file descriptors.");
    let _ = writeln!(out, "{files} {}", process.most_files);
    let build = "sandglass_db_build_info";
    header(out, build, "gauge", "The version that runs.");
    let _ = writeln!(out, "{build}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
}

/// Units of the times in `/proc/self/stat`: Linux has shown hundredths of a second for ever.
const TICKS_PER_S: u64 = 100;

struct Process {
    cpu_ticks: u64,
    resident_bytes: u64,
    open_files: usize,
    most_files: u64,
}

impl Process {
    /// Reads `/proc/self`; `None` where there is none.
    fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in parentheses, may hold spaces: fields are counted from behind it.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = resident.trim().trim_end_matches("kB").trim().parse().ok()?;
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let most_files = limit.split_whitespace().next()?.parse().ok()?;
        let (cpu_ticks, resident_bytes) = (field(14)? + field(15)?, kib * 1024);
        Some(Self { cpu_ticks, resident_bytes, open_files, most_files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_all() {
        let histogram = Histogram::default();
        for us in [0, 50, 51, 100, 30_000_000] {
            histogram.record(us);
        }
        let mut out = String::new();
        histogram.render(&mut out, "x", 3);
        let line = |le: &str, n: u64| format!("x_bucket{{shard=\"3\",le=\"{le}\"}} {n}\n");
        assert!(out.contains(&line("0.00005", 2)), "{out}");
        assert!(out.contains(&line("0.0001", 4)));
        assert!(out.contains(&line("20", 4)));
        assert!(out.contains(&line("+Inf", 5)));
        assert!(out.contains("x_sum{shard=\"3\"} 30.000201\n"));
        assert!(out.contains("x_count{shard=\"3\"} 5\n"));
        assert_eq!(histogram.count(), 5);
    }

    #[test]
    fn every_line_is_one_that_prometheus_reads() {
        let shards = [ShardMetrics::default(), ShardMetrics::default()];
        shards[1].error(0x2200);
        shards[1].error(0x7777);
        shards[1].query(0x06);
        let text = render(&[&shards[0], &shards[1]], &ProcessMetrics::default());
        let mut announced = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                announced = rest.split(' ').next().expect("a name");
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').expect("name and value");
                assert!(name.starts_with(announced), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(text.contains("cql_errors_total{shard=\"1\",code=\"0x2200\"} 1\n"));
        assert!(text.contains("cql_errors_total{shard=\"1\",code=\"other\"} 1\n"));
        assert!(text.contains("{shard=\"1\",consistency_level=\"LOCAL_QUORUM\"} 1\n"));
        assert!(text.contains("{shard=\"0\",consistency_level=\"LOCAL_QUORUM\"} 0\n"));
        assert!(text.contains("\nprocess_resident_memory_bytes "));
    }
}
