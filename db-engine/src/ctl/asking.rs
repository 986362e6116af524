//! Asking an engine that runs.

use super::CtlFailure;
use crate::server::errands::{Request, SOCKET};
use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

/// What takes longer than this tells how far it is.
const SILENT_TIME_MAX: Duration = Duration::from_secs(2);

/// What the engine has answered: JSON.
pub(super) struct EngineAnswer(pub String);

/// Asks the engine that uses this directory, and waits for its answer, however long it takes.
pub(super) fn ask(directory: &Path, request: &Request) -> Result<EngineAnswer, CtlFailure> {
    let path = directory.join(SOCKET);
    let shown = path.display();
    let failed = |what: String| CtlFailure::Failed(format!("{shown}: {what}"));
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => CtlFailure::NotRunning(format!(
            "no engine runs in {}. Start it, or name the directory of one that runs with \
             --data-dir (DB_DATA_DIR)",
            directory.display()
        )),
        ErrorKind::PermissionDenied => {
            failed("you may not use it. Be the user of the engine, or root".to_owned())
        }
        ErrorKind::InvalidInput => failed(
            "the path of a socket has 107 bytes at most. Give a shorter --data-dir, such as a \
             relative one, to the engine and here"
                .to_owned(),
        ),
        _ => failed(error.to_string()),
    })?;
    let line = serde_json::to_string(request).map_err(|error| failed(error.to_string()))?;
    // An engine that refuses at once may not take the request any more: its answer tells.
    let sent = writeln!(stream, "{line}");
    let since = Instant::now();
    for line in BufReader::new(&stream).lines() {
        let line = line.map_err(|error| failed(error.to_string()))?;
        match line.split_once(' ') {
            Some(("answer", json)) => return Ok(EngineAnswer(json.to_owned())),
            Some(("error", what)) => return Err(CtlFailure::Failed(what.to_owned())),
            Some(("progress", what)) if since.elapsed() >= SILENT_TIME_MAX => eprintln!("{what}"),
            _ => {}
        }
    }
    let why = sent.err().map_or(String::new(), |error| format!(" ({error})"));
    Err(failed(format!("the engine ended before it had answered{why}. Look into its log")))
}
