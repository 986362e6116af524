//! `sandglass-db`: reads the configuration, serves, and says how it ended.
//!
//! Exit codes: 0 stopped by SIGTERM or SIGINT with everything written, 1 it could not start, 2 the
//! configuration makes no sense, 70 a bug, 74 storage has failed. `sandglass-db ctl` is [`ctl`].

use clap::Parser;
use sandglass_db::{
    config::Config,
    ctl,
    io::{SystemClock, limits},
    server::{Server, logger},
};
use std::{
    io::Write,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Exit code of a bug (`EX_SOFTWARE`).
const EXIT_BUG: i32 = 70;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "ctl").is_some() {
        return ctl::main(program.into_iter().chain(arguments));
    }
    limits::return_large_memory();
    limits::run_soon_when_woken();
    let config = Config::parse();
    if let Err(refusal) = config.check() {
        eprintln!("sandglass-db: {refusal}");
        return ExitCode::from(2);
    }
    logger::install(config.log_level, Arc::new(SystemClock));
    // A shard that has panicked may hold half a change in memory: nothing more is acknowledged.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        log::error!("a bug has ended the process: {panic}");
        std::process::exit(EXIT_BUG);
    }));
    // A file that grows over the limit (ulimit -f) is an error of the write, as a full disk is;
    // the signal would end the process without a word.
    let ignored = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored) {
        log::warn!(error:% = error; "files over the limit of their size will end the process");
    }
    let server = match Server::start(&config) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("sandglass-db: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shards = if server.shards == 1 { "shard" } else { "shards" };
    let line = format!(
        "sandglass-db {} serves CQL on {}, metrics on http://{}/metrics, {} {shards}, data in {}\n",
        env!("CARGO_PKG_VERSION"),
        server.cql,
        server.http,
        server.shards,
        config.data_dir.display(),
    );
    let mut out = std::io::stdout().lock();
    // Whoever started us may not listen; we serve all the same.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    drop(out);
    server.join();
    log::info!("stopped: everything is written");
    ExitCode::SUCCESS
}
