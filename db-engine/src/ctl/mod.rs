//! `sandglass-db ctl`: what an operator does with an engine that runs, over the socket in its data
//! directory, or with a directory that no engine uses.
//!
//! Exit codes: 0 done, 1 it could not be done or something is wrong with the data, 2 the arguments
//! make no sense, 3 no engine runs in the directory.

mod asking;
mod stopped;
mod text;

use crate::server::{
    accounts::{
        CompactAccount, FlushAccount, SnapshotAccount, SstableAccount, Status, TableAccount,
    },
    errands::Request,
};
use asking::{EngineAnswer, ask};
use clap::{Parser, Subcommand};
use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Looks after an engine: how it is, what it stores, backups.
///
/// An engine that runs is asked over the socket ctl.sock in its data directory, which the user of
/// the engine and root may use. Exit codes: 0 done; 1 it could not be done, or something is wrong
/// with the data; 2 the arguments make no sense; 3 no engine runs in the directory.
#[derive(Debug, Parser)]
#[command(name = "sandglass-db ctl", version, max_term_width = 100)]
struct Arguments {
    /// Directory of the data.
    #[arg(long, env = "DB_DATA_DIR", value_name = "DIR", default_value = "./data", global = true)]
    data_dir: PathBuf,

    /// Answer with one line of JSON.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// How the engine is: version, memory by kind, log, sstables, compaction, free disk.
    Status,
    /// What there is of tables: sstables, bytes, rows, and reads and writes since the start.
    Tablestats {
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given.
        tables: Vec<String>,
    },
    /// The snapshots; or the sstables of tables, with bytes, rows, window, and spans of timestamps
    /// and tokens.
    List {
        /// KEYSPACE or KEYSPACE.TABLE.
        tables: Vec<String>,
    },
    /// Write what is in memory to sstables; returns when it is durable there.
    Flush {
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given.
        tables: Vec<String>,
    },
    /// Flush, and then make the sstables of each window of a table one, or all of them where it
    /// has no windows; returns when it is done. What was deleted or overwritten is then in no
    /// file, in whichever window. It goes on if this program is ended.
    Compact {
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given.
        tables: Vec<String>,
    },
    /// Flush, and then keep what is stored now: hard links in a directory of their own, which is
    /// removed when it is not needed any more.
    Snapshot {
        /// Letters, digits, '.', '_' and '-'.
        name: String,
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given. The schema is kept as a whole.
        tables: Vec<String>,
        /// The directory to put it in, on the file system of the data [default: snapshots in the
        /// data directory]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Verify a snapshot, and make a new data directory of it. No engine is needed.
    Restore {
        /// The name of a snapshot in the data directory, or the path of any.
        snapshot: PathBuf,
        /// The data directory to make, which must be new or empty.
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
    /// Read every block of every sstable, and, while no engine runs, manifests, schema and commit
    /// log. Says what is damaged and where, with exit code 1. Changes nothing.
    Verify {
        /// A snapshot instead: its name in the data directory, or its path.
        #[arg(long, value_name = "SNAPSHOT")]
        snapshot: Option<PathBuf>,
    },
}

/// How a command ended that was not done.
#[derive(Debug)]
enum CtlFailure {
    /// It could not be done.
    Failed(String),
    /// No engine runs in the directory.
    NotRunning(String),
    /// One runs there.
    Running,
    /// Something is wrong with the data: what is to be printed.
    Damaged(String),
}

/// Runs a command; `arguments` begins with the name of the program.
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // It knows where to print, and with which code to end.
        Err(error) => error.exit(),
    };
    match run(&arguments) {
        Ok(text) => print(&text, ExitCode::SUCCESS),
        Err(CtlFailure::Damaged(text)) => print(&text, ExitCode::FAILURE),
        Err(CtlFailure::Failed(what)) => failed(&what, 1),
        Err(CtlFailure::NotRunning(what)) => failed(&what, 3),
        Err(CtlFailure::Running) => failed("an engine uses the directory. Stop it", 1),
    }
}

fn print(text: &str, code: ExitCode) -> ExitCode {
    // Whoever asked may have stopped to listen.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    code
}

fn failed(what: &str, code: u8) -> ExitCode {
    eprintln!("sandglass-db ctl: {what}");
    ExitCode::from(code)
}

fn run(arguments: &Arguments) -> Result<String, CtlFailure> {
    match &arguments.command {
        Command::Status => {
            let asked = ask(&arguments.data_dir, &Request::Status)?;
            shown::<Status>(arguments, &asked, text::status)
        }
        Command::Tablestats { tables } => {
            let request = Request::Tablestats { tables: tables.clone() };
            let asked = ask(&arguments.data_dir, &request)?;
            shown::<Vec<TableAccount>>(arguments, &asked, |all| text::tables(&all))
        }
        Command::List { tables } if tables.is_empty() => {
            let snapshots = stopped::snapshots(&arguments.data_dir)?;
            told(arguments, &snapshots, |all| text::snapshots(all))
        }
        Command::List { tables } => {
            let request = Request::List { tables: tables.clone() };
            match ask(&arguments.data_dir, &request) {
                Err(CtlFailure::NotRunning(_)) if arguments.data_dir.is_dir() => {
                    let sstables = stopped::sstables(&arguments.data_dir, tables)?;
                    told(arguments, &sstables, |all| text::sstables(all))
                }
                asked => {
                    shown::<Vec<SstableAccount>>(arguments, &asked?, |all| text::sstables(&all))
                }
            }
        }
        Command::Snapshot { name, tables, to } => {
            let to = to.as_ref().map(std::path::absolute).transpose();
            let to = to.map_err(|error| CtlFailure::Failed(format!("--to: {error}")))?;
            let request = Request::Snapshot { name: name.clone(), tables: tables.clone(), to };
            let asked = ask(&arguments.data_dir, &request)?;
            shown::<SnapshotAccount>(arguments, &asked, |taken| text::taken(&taken))
        }
        Command::Restore { snapshot, into } => {
            let snapshot = stopped::snapshot_at(&arguments.data_dir, snapshot);
            told(arguments, &stopped::restore_into(&snapshot, into)?, text::restored)
        }
        Command::Verify { snapshot } => verify(arguments, snapshot.as_deref()),
        Command::Flush { tables } => {
            let asked = ask(&arguments.data_dir, &Request::Flush { tables: tables.clone() })?;
            shown::<FlushAccount>(arguments, &asked, |done| text::flushed(&done))
        }
        Command::Compact { tables } => {
            let asked = ask(&arguments.data_dir, &Request::Compact { tables: tables.clone() })?;
            shown::<CompactAccount>(arguments, &asked, |done| text::compacted(&done))
        }
    }
}

/// An answer as it was asked for: the JSON of the engine, or text.
fn shown<T: serde::de::DeserializeOwned>(
    arguments: &Arguments,
    asked: &EngineAnswer,
    as_text: impl FnOnce(T) -> String,
) -> Result<String, CtlFailure> {
    if arguments.json {
        return Ok(format!("{}\n", asked.0));
    }
    let answer = serde_json::from_str(&asked.0).map_err(|error| {
        let what = "the engine answers in a way that this program does not know. Use the program \
                    of the same version";
        CtlFailure::Failed(format!("{what} ({error})"))
    })?;
    Ok(as_text(answer))
}

/// What this program has found out by itself, as it was asked for.
fn told<T: serde::Serialize>(
    arguments: &Arguments,
    answer: &T,
    as_text: impl FnOnce(&T) -> String,
) -> Result<String, CtlFailure> {
    if arguments.json {
        let line = serde_json::to_string(answer);
        return line.map(|line| line + "\n").map_err(|error| CtlFailure::Failed(error.to_string()));
    }
    Ok(as_text(answer))
}

fn verify(arguments: &Arguments, snapshot: Option<&Path>) -> Result<String, CtlFailure> {
    let directory = match snapshot {
        Some(snapshot) => stopped::snapshot_at(&arguments.data_dir, snapshot),
        None => arguments.data_dir.clone(),
    };
    let verified = match stopped::verify(&directory) {
        Err(CtlFailure::Running) => {
            let EngineAnswer(json) = ask(&directory, &Request::Verify { tables: Vec::new() })?;
            serde_json::from_str(&json).map_err(|error| CtlFailure::Failed(error.to_string()))?
        }
        verified => verified?,
    };
    let text = told(arguments, &verified, text::verified)?;
    if verified.problems.is_empty() {
        return Ok(text);
    }
    Err(CtlFailure::Damaged(text))
}
