//! The engine under load, and what it has used so far.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// How often it is looked whether something is compacted, how often in a row nothing must be, and
/// how long that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const QUIET_LOOKS: u32 = 10;
const SETTLED_BY: Duration = Duration::from_mins(1);

/// How an engine is started.
#[derive(Clone)]
pub struct Setup {
    /// The one built beside this program, if none is given.
    pub binary: Option<PathBuf>,
    /// A temporary one, if none is given.
    pub directory: Option<PathBuf>,
    pub shards: u16,
    pub memory_mib: u64,
    /// How many files it may have open, if not as many as this program.
    pub files_max: Option<u32>,
}

/// An engine on a directory that goes with it.
pub struct Engine {
    child: Child,
    pub cql: u16,
    http: u16,
    setup: Setup,
    binary: PathBuf,
    directory: PathBuf,
}

/// What the engine has used and done since it started.
#[allow(dead_code)] // no example needs all of it
pub struct Sample {
    pub cpu_us: f64,
    pub turns: f64,
    pub receives: f64,
    pub sends: f64,
    pub blocks: f64,
    pub log_bytes: f64,
    pub sstables: f64,
    pub cache_hits: f64,
    pub cache_misses: f64,
}

impl Engine {
    /// Starts it and waits until it serves.
    pub fn start(setup: Setup) -> Self {
        let binary = setup.binary.clone().unwrap_or_else(|| {
            let own = std::env::current_exe().expect("we have a path");
            let folder = own.parent().and_then(|examples| examples.parent());
            folder.expect("examples lie in a folder").join("sandglass-db")
        });
        let directory = setup.directory.clone().unwrap_or_else(|| {
            std::env::temp_dir().join(format!("sandglass-load-{}", std::process::id()))
        });
        let (child, cql, http) = start(&binary, &directory, &setup);
        Self { child, cql, http, setup, binary, directory }
    }

    /// Stops it in order, so that all rows are in sstables, and starts it again.
    pub fn restart(&mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        assert!(sent.success(), "it can be stopped");
        assert!(self.child.wait().expect("it ends").success(), "it ends in order");
        (self.child, self.cql, self.http) = start(&self.binary, &self.directory, &self.setup);
    }

    /// Runs a command of `ctl`, and waits until it is done.
    #[allow(dead_code)] // the example `load` needs none
    pub fn ctl(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.binary);
        command.arg("ctl").arg("--data-dir").arg(&self.directory).args(arguments);
        let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(done.expect("it runs").success(), "{arguments:?}");
    }

    /// Bytes of its sstables.
    #[allow(dead_code)] // as above
    pub fn sstable_bytes(&self) -> u64 {
        let files = std::fs::read_dir(&self.directory).expect("it has a directory").flatten();
        let is_sstable =
            |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("sst-");
        files.filter(is_sstable).filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }

    /// How often its threads have gone to sleep by themselves.
    #[allow(dead_code)] // as above
    pub fn sleeps(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("Linux");
        let counts = tasks.flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line?.trim().parse::<u64>().ok()
        });
        counts.sum()
    }

    /// How many files it has open, sockets among them.
    #[allow(dead_code)] // as above
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("Linux").count()
    }

    /// Waits until nothing is compacted, and no space given back, for a while: what one step has left
    /// is no cost of the next.
    pub fn settle(&self) {
        let until = Instant::now() + SETTLED_BY;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS && Instant::now() < until {
            let metrics = self.get("/metrics");
            let compactions = sum_of(&metrics, "sandglass_db_compaction_manager_compactions");
            let removed = sum_of(&metrics, "sandglass_db_removed_files_bytes");
            quiet = if compactions + removed > 0.0 { 0 } else { quiet + 1 };
            sleep(LOOK_EVERY);
        }
    }

    /// What it has used and done so far.
    pub fn sample(&self) -> Sample {
        let metrics = self.get("/metrics");
        let sum = |name| sum_of(&metrics, name);
        Sample {
            cpu_us: self.cpu_us(),
            turns: sum("sandglass_db_reactor_turns_total"),
            receives: sum("sandglass_db_transport_receives_total"),
            sends: sum("sandglass_db_transport_sends_total"),
            blocks: sum("sandglass_db_commitlog_blocks_total"),
            log_bytes: sum("sandglass_db_commitlog_written_bytes_total"),
            sstables: sum("sandglass_db_sstables_count"),
            cache_hits: sum("sandglass_db_cache_block_hits_total"),
            cache_misses: sum("sandglass_db_cache_block_misses_total"),
        }
    }

    /// Time on a processor of all its threads, in microseconds.
    fn cpu_us(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("Linux");
        let times = tasks.flatten().filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        });
        times.sum::<f64>() / 1000.0
    }

    fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.http)).expect("it listens");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

/// What a metric is in all shards together.
fn sum_of(metrics: &str, name: &str) -> f64 {
    let lines = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// A process and its ports.
fn start(binary: &Path, directory: &Path, setup: &Setup) -> (Child, u16, u16) {
    let mut command = match setup.files_max {
        // It becomes the engine: the process stays the same.
        Some(files) => {
            let mut limited = Command::new("prlimit");
            limited.arg(format!("--nofile={files}:{files}")).arg("--").arg(binary);
            limited
        }
        None => Command::new(binary),
    };
    let memory = format!("{}MiB", setup.memory_mib);
    let mut child = command
        .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn"])
        .args(["--memory", &memory, "--shards", &setup.shards.to_string(), "--data-dir"])
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; build it first", binary.display()));
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let port_after = |text: &str| {
        let at = line.find(text).unwrap_or_else(|| panic!("the engine said: {line}"));
        let digits = line[at + text.len()..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().expect("a port")
    };
    let (cql, http) = (port_after("CQL on 127.0.0.1:"), port_after("http://127.0.0.1:"));
    (child, cql, http)
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
