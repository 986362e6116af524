//! `sandglass-db ctl`: what an operator does with an engine that runs, over the socket in its data
//! directory, or with a directory that no engine uses.
//!
//! Exit codes: 0 done, 1 it could not be done or something is wrong with the data, 2 the arguments
//! make no sense, 3 no engine runs in the directory.

mod asking;
mod text;

use crate::server::{
    accounts::{CompactAccount, FlushAccount, SstableAccount, Status, TableAccount},
    errands::Request,
};
use asking::{EngineAnswer, ask};
use clap::{Parser, Subcommand};
use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

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
    /// The sstables of tables: bytes, rows, window, and spans of timestamps and tokens.
    List {
        /// KEYSPACE or KEYSPACE.TABLE.
        #[arg(required = true)]
        tables: Vec<String>,
    },
    /// Write what is in memory to sstables; returns when it is durable there.
    Flush {
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given.
        tables: Vec<String>,
    },
    /// Flush, and then make the sstables of each window of a table one, or all of them where it
    /// has no windows; returns when it is done. It goes on if this program is ended.
    Compact {
        /// KEYSPACE or KEYSPACE.TABLE; all if none is given.
        tables: Vec<String>,
    },
}

/// How a command ended that was not done.
#[derive(Debug)]
enum CtlFailure {
    /// It could not be done.
    Failed(String),
    /// No engine runs in the directory.
    NotRunning(String),
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
        Ok(text) => {
            // Whoever asked may have stopped to listen.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(CtlFailure::Failed(what)) => failed(&what, 1),
        Err(CtlFailure::NotRunning(what)) => failed(&what, 3),
    }
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
        Command::List { tables } => {
            let request = Request::List { tables: tables.clone() };
            let asked = ask(&arguments.data_dir, &request)?;
            shown::<Vec<SstableAccount>>(arguments, &asked, |all| text::sstables(&all))
        }
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
