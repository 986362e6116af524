//! The real binary, on ports of its own and a directory of the test's.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// How long the engine may take to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine that serves. Killed when it is dropped.
pub struct Engine {
    child: Child,
    pub cql: u16,
    pub http: u16,
    /// The one line that it prints.
    pub line: String,
}

/// The binary with these arguments beside those that every test needs.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let Some(tested) = option_env!("CARGO_BIN_EXE_sandglass-db") else {
        panic!("Cargo names the binary for tests alone: examples use `command_of`");
    };
    command_of(Path::new(tested), directory, arguments)
}

/// The same with this binary.
pub fn command_of(binary: &Path, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DB_")) {
        command.env_remove(name);
    }
    command
        .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-level", "warn"])
        .args(["--memory", "128MiB", "--data-dir"])
        .arg(directory)
        .args(arguments);
    command
}

/// A command with limits of the operating system, in the words of `prlimit`.
pub fn limited(limits: &[&str], command: &Command) -> Command {
    let mut limited = Command::new("prlimit");
    limited.args(limits).arg("--").arg(command.get_program()).args(command.get_args());
    for (name, _) in command.get_envs() {
        limited.env_remove(name);
    }
    limited
}

/// Runs it where it is expected to refuse to serve.
pub fn refusal(directory: &Path, arguments: &[&str]) -> Output {
    refused(command(directory, arguments), arguments)
}

/// Runs a command that is expected to end.
pub fn refused(mut command: Command, arguments: &[&str]) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let until = Instant::now() + PATIENCE;
    while child.try_wait().expect("it can be asked").is_none() {
        if Instant::now() > until {
            child.kill().expect("it can be killed");
            panic!("{arguments:?} was not refused");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it has ended")
}

impl Engine {
    /// Starts it and waits until it serves.
    pub fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::spawn(command(directory, arguments))
    }

    /// Starts it with limits of the operating system, in the words of `prlimit`.
    pub fn start_limited(directory: &Path, limits: &[&str], arguments: &[&str]) -> Self {
        Self::spawn(limited(limits, &command(directory, arguments)))
    }

    /// Starts this command and waits until it serves.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port_after = |text: &str| {
            let at = line.find(text).unwrap_or_else(|| panic!("\"{line}\" has no \"{text}\""));
            let digits = line[at + text.len()..].chars().take_while(char::is_ascii_digit);
            digits.collect::<String>().parse().expect("a port")
        };
        let cql = port_after("CQL on 127.0.0.1:");
        let http = port_after("http://127.0.0.1:");
        Self { child, cql, http, line }
    }

    /// Changes a limit of the operating system while it runs, in the words of `prlimit`.
    pub fn limit(&self, limit: &str) {
        let pid = format!("--pid={}", self.child.id());
        let set = Command::new("prlimit").args([&pid, limit]).status().expect("prlimit runs");
        assert!(set.success(), "{limit}");
    }

    /// A number of `/proc/PID/status` that is in KiB, in bytes.
    pub fn status_bytes(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number") << 10
    }

    /// As the out-of-memory killer does it.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Asks it to stop, and returns its exit code.
    pub fn stop(mut self, signal: &str) -> Option<i32> {
        self.end_by(signal)
    }

    /// The same, for those who want to know what it has said.
    pub fn end_by(&mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("kill runs");
        assert!(sent.success());
        self.ended()
    }

    /// Waits until it has ended, and returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it did not stop within {PATIENCE:?}");
    }

    /// What it has written to its standard error, if that is piped. It has ended.
    pub fn errors(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().expect("piped");
        stderr.read_to_string(&mut text).expect("text");
        text
    }

    /// What it answers to a GET, head and body.
    pub fn get(&self, path: &str) -> String {
        let mut socket =
            std::net::TcpStream::connect(("127.0.0.1", self.http)).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        std::io::Write::write_all(&mut socket, request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// The sum of a metric over all shards.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' '])
        });
        let number = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        lines.map(|line| number(line).expect("a whole number")).sum()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
