//! `/metrics` and `/health` over HTTP/1.1, on a thread of its own, and the signals that end us.
//!
//! The thread reads the shards' counters and never asks a shard for anything, so that whoever
//! scrapes, however often and however slowly, cannot disturb them. A connection carries one
//! request, of few bytes and little time.

use super::{errands::Errands, stop::Stop};
use crate::metrics::{self, ProcessMetrics, ShardMetrics};
use log::{info, warn};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream, UnixStream},
    unix::SourceFd,
};
use std::{
    fmt::Write as _,
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Shutdown, SocketAddr},
    os::{fd::AsRawFd, unix::net::UnixListener},
    sync::Arc,
    time::{Duration, Instant},
};

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const OPERATOR: Token = Token(2);
const FIRST_CLIENT: usize = 3;

/// Clients served at a time; others wait in the kernel's queue.
const CLIENTS_MAX: usize = 8;

/// Bytes of a request's head.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// From the first byte of a request to the last of its answer.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);

/// How long to wait when no connection can be accepted, as without a free descriptor.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// A shard that is busy with one turn for longer than this is not healthy.
const TURN_TIME_MAX: Duration = Duration::from_secs(5);

/// A shard, as this thread sees it.
pub struct Watched {
    /// Its counters.
    pub metrics: Arc<ShardMetrics>,
    /// Tells whether it waits.
    pub asleep: Box<dyn Fn() -> bool + Send>,
    seen_turns: u64,
    seen_at: Instant,
}

impl Watched {
    /// A shard that counts here.
    pub fn new(metrics: Arc<ShardMetrics>, asleep: impl Fn() -> bool + Send + 'static) -> Self {
        Self { metrics, asleep: Box::new(asleep), seen_turns: 0, seen_at: Instant::now() }
    }

    /// How long it has been in the turn in which it was seen first.
    fn stuck_for(&mut self, now: Instant) -> Duration {
        let turns = self.metrics.turns.get();
        if (self.asleep)() || turns != self.seen_turns {
            self.seen_turns = turns;
            self.seen_at = now;
        }
        now.saturating_duration_since(self.seen_at)
    }
}

/// What this thread tells of.
pub struct Seen {
    /// What all shards count together.
    pub process: Arc<ProcessMetrics>,
    /// Each shard.
    pub shards: Vec<Watched>,
}

struct HttpClient {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    /// The answer is sent and our side closed; what the client still sends is read away, because
    /// closing while bytes of its are unread would take the answer from it.
    lingering: bool,
    until: Instant,
}

/// The control thread.
pub struct Control {
    poll: Poll,
    listener: TcpListener,
    signals: UnixStream,
    clients: Vec<Option<HttpClient>>,
    accept_again: bool,
    seen: Seen,
    stop: Arc<Stop>,
    ended: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Where the operator asks, and who answers.
    operator: Option<(UnixListener, Arc<Errands>)>,
}

impl Control {
    /// Answers on `listener`, and asks the shards to stop when a byte comes from `signals`.
    /// `ended` tells when there is nothing left to tell about.
    ///
    /// # Errors
    /// The operating system has no room for another descriptor.
    pub fn new(
        listener: std::net::TcpListener,
        signals: std::os::unix::net::UnixStream,
        seen: Seen,
        stop: Arc<Stop>,
        ended: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::from_std(listener);
        signals.set_nonblocking(true)?;
        let mut signals = UnixStream::from_std(signals);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut signals, SIGNALS, Interest::READABLE)?;
        let clients = std::iter::repeat_with(|| None).take(CLIENTS_MAX).collect();
        let accept_again = false;
        let operator = None;
        Ok(Self { poll, listener, signals, clients, accept_again, seen, stop, ended, operator })
    }

    /// Lets the operator in, too.
    ///
    /// # Errors
    /// The operating system has no room for another descriptor.
    pub fn admit_operator(
        &mut self,
        listener: UnixListener,
        errands: Arc<Errands>,
    ) -> io::Result<()> {
        let descriptor = listener.as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&descriptor), OPERATOR, Interest::READABLE)?;
        self.operator = Some((listener, errands));
        Ok(())
    }

    /// Serves until the last shard has ended.
    ///
    /// # Panics
    /// The operating system refuses to wait.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(64);
        while !(self.ended)() {
            let now = Instant::now();
            let times = self.clients.iter().flatten().map(|client| client.until);
            let again = self.accept_again.then_some(now + ACCEPT_RETRY);
            let timeout =
                times.chain(again).min().map(|until| until.saturating_duration_since(now));
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.expect("epoll waits"),
            }
            for event in &events {
                match event.token() {
                    LISTENER | OPERATOR => {} // looked at below: a place may be free only then
                    SIGNALS => self.signalled(),
                    Token(token) => self.serve(token - FIRST_CLIENT),
                }
            }
            let now = Instant::now();
            for client in &mut self.clients {
                client.take_if(|client| client.until <= now);
            }
            self.accept(now);
            self.accept_operator();
        }
    }

    fn accept_operator(&mut self) {
        while let Some((listener, errands)) = &self.operator {
            match listener.accept() {
                Ok((stream, _)) => errands.serve(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    /// A byte has come: from a signal, or from a shard that has ended.
    fn signalled(&mut self) {
        let mut bytes = [0; 16];
        while matches!(self.signals.read(&mut bytes), Ok(n) if n > 0) {}
        if !self.stop.is_requested() {
            info!("stopping: answering what has begun, then writing what is in memory");
        }
        self.stop.request();
        // While the directory is ours: the next engine makes a socket of its own there.
        if let Some((_, errands)) = self.operator.take() {
            errands.close();
        }
    }

    fn accept(&mut self, now: Instant) {
        let waited = std::mem::take(&mut self.accept_again);
        while let Some(place) = self.clients.iter().position(Option::is_none) {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    if !waited {
                        warn!(error:% = error; "an HTTP connection could not be accepted");
                    }
                    self.accept_again = true;
                    return;
                }
            };
            let (token, both) =
                (Token(FIRST_CLIENT + place), Interest::READABLE | Interest::WRITABLE);
            if self.poll.registry().register(&mut stream, token, both).is_err() {
                return;
            }
            let until = now + CLIENT_TIME_MAX;
            let (request, answer) = (Vec::new(), Vec::new());
            self.clients[place] =
                Some(HttpClient { stream, request, answer, sent: 0, lingering: false, until });
        }
    }

    fn serve(&mut self, place: usize) {
        let Some(Some(client)) = self.clients.get_mut(place) else { return };
        if client.answer.is_empty() {
            let Some(answer) = client.receive(&mut self.seen, &self.stop) else {
                if client.until <= Instant::now() {
                    self.clients[place] = None;
                }
                return;
            };
            client.answer = answer;
        }
        if client.is_over() {
            self.clients[place] = None;
        }
    }
}

impl HttpClient {
    /// Reads what there is of the request; returns the answer once it is whole.
    fn receive(&mut self, seen: &mut Seen, stop: &Stop) -> Option<Vec<u8>> {
        let mut bytes = [0; 2048];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    self.until = Instant::now();
                    return None;
                }
                Ok(n) => self.request.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => {
                    self.until = Instant::now();
                    return None;
                }
            }
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&self.request) {
                Ok(httparse::Status::Complete(_)) if !self.is_meant(request.headers) => {
                    let text = "the Host header must be localhost or a loopback address\n";
                    return Some(response(421, PLAIN, text, false));
                }
                Ok(httparse::Status::Complete(_)) => {
                    return Some(answer(
                        request.method.unwrap_or_default(),
                        request.path.unwrap_or_default(),
                        seen,
                        stop,
                    ));
                }
                Ok(httparse::Status::Partial) if self.request.len() <= REQUEST_BYTES_MAX => {}
                Ok(httparse::Status::Partial) => {
                    return Some(response(431, PLAIN, "the request is too long\n", false));
                }
                Err(error) => {
                    return Some(response(400, PLAIN, &format!("{error}\n"), false));
                }
            }
        }
    }

    /// Whether a request was made to this machine by one of its own names: a foreign page that
    /// reaches a loopback address by a name of its own is not to read what is there.
    fn is_meant(&self, headers: &[httparse::Header]) -> bool {
        let is_local = self.stream.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let host = headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
        !is_local || host.is_some_and(|host| is_loopback_host(host.value))
    }

    /// Sends what the socket takes, then waits for the client to close; returns whether it is over.
    fn is_over(&mut self) -> bool {
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        if !self.lingering {
            self.lingering = true;
            if self.stream.shutdown(Shutdown::Write).is_err() {
                return true;
            }
        }
        let mut bytes = [0; 2048];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
    }
}

/// Whether a `Host` header, with a port or without, names this machine itself.
fn is_loopback_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match text.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => text,
    };
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn answer(method: &str, path: &str, seen: &mut Seen, stop: &Stop) -> Vec<u8> {
    let bodiless = method == "HEAD";
    if method != "GET" && !bodiless {
        return response(405, PLAIN, "only GET and HEAD\n", false);
    }
    match path.split('?').next().unwrap_or_default() {
        "/metrics" => {
            let shards = seen.shards.iter().map(|shard| &*shard.metrics);
            let text = metrics::render(&shards.collect::<Vec<_>>(), &seen.process);
            response(200, "text/plain; version=0.0.4; charset=utf-8", &text, bodiless)
        }
        "/health" => {
            let (status, text) = health(&mut seen.shards, stop);
            response(status, "application/json", &text, bodiless)
        }
        _ => response(404, PLAIN, "/metrics and /health are here\n", bodiless),
    }
}

/// 200 while all shards take their turns; 503 while one does not, or when we are stopping.
fn health(shards: &mut [Watched], stop: &Stop) -> (u16, String) {
    let now = Instant::now();
    let stuck = shards.iter_mut().position(|shard| shard.stuck_for(now) > TURN_TIME_MAX);
    let (status, text, detail) = match stuck {
        _ if stop.is_requested() => (503, "stopping", String::new()),
        Some(shard) => {
            let seconds = TURN_TIME_MAX.as_secs();
            (503, "stuck", format!(",\"detail\":\"shard {shard} is busy for over {seconds} s\""))
        }
        None => (200, "ok", String::new()),
    };
    let version = env!("CARGO_PKG_VERSION");
    let count = shards.len();
    let text =
        format!("{{\"status\":\"{text}\",\"version\":\"{version}\",\"shards\":{count}{detail}}}\n");
    (status, text)
}

fn response(status: u16, kind: &str, body: &str, bodiless: bool) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let mut out = String::with_capacity(body.len() + 256);
    let length = body.len();
    let _ = write!(
        out,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n"
    );
    if status == 405 {
        out.push_str("Allow: GET, HEAD\r\n");
    }
    out.push_str("\r\n");
    if !bodiless {
        out.push_str(body);
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::is_loopback_host;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let own = ["localhost", "LocalHost:9180", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:80"];
        let foreign =
            ["", "evil.example", "evil.example:9180", "localhost.evil.example", "10.0.0.1"];
        let odd = ["127.0.0.1.evil.example", "0.0.0.0", "[::]:80", "localhost:x", "::1:"];
        assert!(own.iter().all(|host| is_loopback_host(host.as_bytes())));
        for host in foreign.iter().chain(&odd) {
            assert!(!is_loopback_host(host.as_bytes()), "{host}");
        }
        assert!(!is_loopback_host(b"\xff"));
    }
}
