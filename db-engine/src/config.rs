//! What the engine is told when it starts: flags, environment variables and their defaults.
//!
//! Each setting has a flag and a variable of the same meaning (`--listen`, `DB_LISTEN`); the flag
//! wins. [`Config::check`] refuses what makes no sense together and names the option and the
//! remedy, so that nothing is found out later.

use clap::Parser;
use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    str::FromStr,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Least memory of one shard: two memtables, the buffers of the log and some requests.
const SHARD_BYTES_MIN: u64 = 32 * MIB;

/// Most shards. More than any machine has cores; tags and messages count shards in 16 bits.
const SHARDS_MAX: u16 = 256;

/// Bounds of `--frame-bytes-max`: a batch of the services must fit, and the specification says
/// that no body is longer than 256 MiB.
const FRAME_BYTES: (u64, u64) = (64 * KIB, 256 * MIB);

/// Streams of a connection: what the protocol allows in flight.
const STREAMS: u32 = 32_768;

/// A CQL database for sensor data, in one process: one thread for each shard of the data.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "sandglass-db",
    version,
    max_term_width = 100,
    args_override_self = true,
    after_help = "An engine is looked after with: sandglass-db ctl --help"
)]
pub struct Config {
    /// Directory of the data; created if absent. One engine at a time may use it.
    #[arg(long, env = "DB_DATA_DIR", value_name = "DIR", default_value = "./data")]
    pub data_dir: PathBuf,

    /// Address for CQL clients. Port 0 takes a free one, which the first line of output tells.
    #[arg(long, env = "DB_LISTEN", value_name = "HOST:PORT", default_value = "127.0.0.1:9042")]
    pub listen: ListenAddress,

    /// Address for `/metrics` and `/health` over HTTP.
    #[arg(long, env = "DB_HTTP", value_name = "HOST:PORT", default_value = "127.0.0.1:9180")]
    pub http: ListenAddress,

    /// Threads that share the data; a directory opens with any number.
    /// [default: half of the cores, at least one]
    #[arg(long, env = "DB_SHARDS", value_name = "N")]
    pub shards: Option<u16>,

    /// All that clients can make it hold, of all shards together, e.g. 268435456 or 256MiB.
    #[arg(long, env = "DB_MEMORY", value_name = "BYTES", default_value = "256MiB")]
    pub memory: Bytes,

    /// Disk for the commit logs of all shards together, at least 64 MiB a shard. When they reach
    /// it, the tables are flushed that hold back the oldest part.
    #[arg(long, env = "DB_LOG_BYTES_MAX", value_name = "BYTES", default_value = "1GiB")]
    pub log_bytes_max: Bytes,

    /// Accept addresses other than loopback, although nothing asks clients who they are yet.
    #[arg(long, env = "DB_ALLOW_REMOTE", value_parser = clap::builder::FalseyValueParser::new())]
    pub allow_remote: bool,

    /// Longest body of a request. A longer one costs the client its connection.
    #[arg(long, env = "DB_FRAME_BYTES_MAX", value_name = "BYTES", default_value = "16MiB")]
    pub frame_bytes_max: Bytes,

    /// Connections of one shard. Above, one that never said STARTUP is closed, or the new one.
    #[arg(long, env = "DB_CONNECTIONS_MAX", value_name = "N", default_value_t = 4096)]
    pub connections_max: u32,

    /// Unanswered requests of one connection, above which it is not read until some are answered.
    #[arg(long, env = "DB_IN_FLIGHT_MAX", value_name = "N", default_value_t = 4096)]
    pub in_flight_max: u32,

    /// Answers that one connection has not taken yet, above which it is not read until it takes
    /// them.
    #[arg(long, env = "DB_OUTPUT_BYTES_MAX", value_name = "BYTES", default_value = "4MiB")]
    pub output_bytes_max: Bytes,

    /// What to do with a schema that is legal and costs more than one might think, such as a time
    /// to live of more than 50 compaction windows: warn the client, or refuse (strict).
    #[arg(long, env = "DB_GUARDRAILS", value_name = "warn|strict", default_value = "warn")]
    pub guardrails: Guardrails,

    /// Least severe messages of the log on standard error.
    #[arg(
        long,
        env = "DB_LOG_LEVEL",
        value_name = "error|warn|info|debug",
        default_value = "info"
    )]
    pub log_level: log::LevelFilter,
}

/// What is done with what deserves a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Guardrails {
    /// The client is warned.
    Warn,
    /// It is refused.
    Strict,
}

impl Config {
    /// Threads that share the data.
    #[must_use]
    pub fn shard_count(&self) -> u16 {
        self.shards.unwrap_or_else(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            u16::try_from(cores / 2).unwrap_or(SHARDS_MAX).clamp(1, SHARDS_MAX)
        })
    }

    /// Memory of one shard, in bytes.
    #[must_use]
    pub fn shard_bytes(&self) -> u64 {
        self.memory.0 / u64::from(self.shard_count())
    }

    /// Whether these settings make sense together.
    ///
    /// # Errors
    /// A sentence that names the option, what is wrong with it and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let shards = self.shard_count();
        if shards == 0 || shards > SHARDS_MAX {
            return Err(format!("--shards {shards} must be from 1 to {SHARDS_MAX} (DB_SHARDS)"));
        }
        let least = Bytes(SHARD_BYTES_MIN * u64::from(shards));
        if self.memory.0 < least.0 {
            return Err(format!(
                "--memory {} is too little for {shards} {}: give --memory {least} or more \
                 (DB_MEMORY){}",
                self.memory,
                if shards == 1 { "shard" } else { "shards" },
                if shards == 1 { "" } else { ", or fewer --shards" },
            ));
        }
        let (least, most) = FRAME_BYTES;
        if !(least..=most).contains(&self.frame_bytes_max.0) {
            return Err(format!(
                "--frame-bytes-max {} must be from {} to {} (DB_FRAME_BYTES_MAX)",
                self.frame_bytes_max,
                Bytes(least),
                Bytes(most)
            ));
        }
        let counts = [
            ("--connections-max", self.connections_max, 1_000_000, "DB_CONNECTIONS_MAX"),
            ("--in-flight-max", self.in_flight_max, STREAMS, "DB_IN_FLIGHT_MAX"),
        ];
        for (option, count, most, variable) in counts {
            if count == 0 || count > most {
                return Err(format!("{option} {count} must be from 1 to {most} ({variable})"));
            }
        }
        if !(64 * KIB..=GIB).contains(&self.output_bytes_max.0) {
            return Err(format!(
                "--output-bytes-max {} must be from 64KiB to 1GiB (DB_OUTPUT_BYTES_MAX)",
                self.output_bytes_max
            ));
        }
        self.check_addresses()
    }

    fn check_addresses(&self) -> Result<(), String> {
        if self.listen.0 == self.http.0 && self.listen.0.port() != 0 {
            return Err(format!(
                "--listen and --http are both {}: give them different ports (DB_LISTEN, DB_HTTP)",
                self.listen
            ));
        }
        for (option, address) in [("--listen", self.listen), ("--http", self.http)] {
            if !address.0.ip().is_loopback() && !self.allow_remote {
                return Err(format!(
                    "{option} {address} can be reached from other machines, and nothing asks \
                     clients who they are yet: use a loopback address, or add --allow-remote \
                     (DB_ALLOW_REMOTE=1) if the network is trusted"
                ));
            }
        }
        Ok(())
    }
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = text
            .to_socket_addrs()
            .map_err(|error| format!("{error}; expected HOST:PORT, e.g. 127.0.0.1:9042"))?;
        found.next().map(ListenAddress).ok_or_else(|| "the host has no address".to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of bytes: `1048576`, `1024KiB` or `1MiB`. `K`, `KB` and so on mean the same powers
/// of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// As a length of memory.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => KIB,
            "m" | "mb" | "mib" => MIB,
            "g" | "gb" | "gib" => GIB,
            _ => return Err("expected a number of bytes, e.g. 268435456 or 256MiB".to_owned()),
        };
        let number: u64 =
            digits.parse().map_err(|_| "expected a number of bytes, e.g. 256MiB".to_owned())?;
        number.checked_mul(factor).map(Bytes).ok_or_else(|| "more bytes than there are".to_owned())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
        match units.iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(arguments: &[&str]) -> Config {
        Config::parse_from([&["sandglass-db"], arguments].concat())
    }

    fn refusal(arguments: &[&str]) -> String {
        config(arguments).check().expect_err("must be refused")
    }

    #[test]
    fn the_defaults_make_sense() {
        let config = config(&[]);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.listen.to_string(), "127.0.0.1:9042");
        assert_eq!(config.http.to_string(), "127.0.0.1:9180");
        assert!(config.shard_count() >= 1);
    }

    #[test]
    fn nonsense_is_refused_with_the_option_and_the_remedy() {
        let memory = refusal(&["--memory", "1", "--shards", "1"]);
        assert_eq!(
            memory,
            "--memory 1 is too little for 1 shard: give --memory 32MiB or more (DB_MEMORY)"
        );
        assert!(refusal(&["--memory", "64MiB", "--shards", "3"]).contains("--memory 96MiB"));
        assert!(refusal(&["--shards", "0"]).contains("--shards 0 must be from 1"));
        assert!(refusal(&["--frame-bytes-max", "1"]).contains("from 64KiB to 256MiB"));
        assert!(refusal(&["--in-flight-max", "40000"]).contains("from 1 to 32768"));
        assert!(refusal(&["--connections-max", "0"]).contains("DB_CONNECTIONS_MAX"));
        assert!(refusal(&["--output-bytes-max", "0"]).contains("64KiB"));
        let same = ["--listen", "127.0.0.1:1", "--http", "127.0.0.1:1"];
        assert!(refusal(&same).contains("different ports"));
    }

    #[test]
    fn other_machines_are_let_in_only_when_asked() {
        let open = ["--listen", "0.0.0.0:9042", "--shards", "1"];
        assert!(refusal(&open).contains("--allow-remote"));
        assert_eq!(config(&[&open[..], &["--allow-remote"]].concat()).check(), Ok(()));
        assert!(refusal(&["--http", "0.0.0.0:0"]).contains("--http 0.0.0.0:0"));
    }

    #[test]
    fn bytes_have_units() {
        let parse = |text: &str| text.parse::<Bytes>();
        assert_eq!(parse("4096"), Ok(Bytes(4096)));
        assert_eq!(parse("2 KiB"), Ok(Bytes(2048)));
        assert_eq!(parse("1g"), Ok(Bytes(GIB)));
        for wrong in ["", "MiB", "-1", "1.5M", "5 parsecs", "99999999999999999999", "1e9"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Bytes(3 * MIB).to_string(), "3MiB");
        assert_eq!(Bytes(1025).to_string(), "1025");
    }
}
