//! One client: bytes in, bytes out, and the limits of both.
//!
//! What arrives lies in a buffer that all connections of a shard share; only the beginning of a
//! frame whose end has not come, or frames that must wait, are kept by the connection itself.

use crate::{
    budget::{Budget, Charge, Share},
    protocol::frame::HEADER_BYTES,
    shard::session::{ConnectionId, Session},
};
use mio::net::TcpStream;
use std::{
    fmt::Debug,
    io::{self, ErrorKind, Read, Write},
    net::IpAddr,
    sync::Arc,
};

/// Output memory that a connection keeps when everything is sent. A large page gives its memory
/// back.
const OUTPUT_BYTES_KEPT: usize = 128 << 10;

/// Bytes that a closing connection may still send before it is cut off.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// The bytes of one client: its socket, or a pipe in memory. Never waits.
pub trait Stream: Read + Write + Debug + Send {
    /// Tells the client that nothing more will be sent.
    ///
    /// # Errors
    /// The client has gone.
    fn close_output(&mut self) -> io::Result<()>;

    /// Where the client is, if it is on a network.
    fn client(&self) -> Option<IpAddr> {
        None
    }
}

impl Stream for TcpStream {
    fn close_output(&mut self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }

    fn client(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|address| address.ip())
    }
}

/// How far a connection is in being closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is in use.
    Open,
    /// Our last answer is sent and our side closed. We read on until the client closes its side:
    /// closing while bytes of its are unread would take the answer from it.
    Lingering,
    /// It is over.
    Closed,
}

/// What one read from a socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This many bytes lie in the shared buffer. `drained`: the socket has no more for now.
    Shared {
        /// Bytes from the beginning of the buffer, those that were kept included.
        length: usize,
        /// A short read: an edge-triggered poll will tell of what comes later.
        drained: bool,
    },
    /// The bytes were added to those kept in [`Connection::kept`].
    Kept {
        /// As above.
        drained: bool,
    },
    /// Nothing has come.
    Nothing,
    /// The client has gone.
    Closed,
}

/// A client's connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // four things that can each be so or not
pub struct Connection {
    /// The protocol's side of it.
    pub session: Session,
    /// Bytes that were received and not used yet.
    pub kept: Vec<u8>,
    /// How far it is in being closed.
    pub life: Life,
    /// It is in the list of those with something to send.
    pub dirty: bool,
    /// It is in a line of those to be read.
    pub is_queued: bool,
    /// It is not read until it has taken or been given some of its answers.
    pub blocked: bool,
    /// The client has closed its side: what it has sent is to be read to the end.
    pub ended: bool,
    /// Bytes that its next frame needs in all, header included.
    pub needed: usize,
    /// The turn's time, in microseconds, since which it takes nothing of its answers.
    pub stalled_since_us: Option<u64>,
    requests: Charge,
    answers: Charge,
    stream: Box<dyn Stream>,
    sent: usize,
    lingered: usize,
}

impl Connection {
    /// A connection just accepted.
    pub fn new(stream: Box<dyn Stream>, place: ConnectionId, budget: &Arc<Budget>) -> Self {
        Self {
            stalled_since_us: None,
            requests: Charge::new(budget, Share::Requests),
            answers: Charge::new(budget, Share::Answers),
            session: Session { client: stream.client(), ..Session::new(place) },
            kept: Vec::new(),
            life: Life::Open,
            dirty: false,
            is_queued: false,
            blocked: false,
            ended: false,
            needed: HEADER_BYTES,
            stream,
            sent: 0,
            lingered: 0,
        }
    }

    /// Tells the budget what the connection holds now. When it is dropped, all is given back.
    #[inline]
    pub fn settle(&mut self) {
        self.requests.set(self.kept.capacity());
        self.answers.set(self.session.out.capacity());
    }

    /// What its request takes that has not arrived whole, or is not bound yet, in bytes.
    pub fn request_bytes(&self) -> usize {
        self.kept.capacity() + self.session.unbound.as_ref().map_or(0, |unbound| unbound.bytes())
    }

    /// Gives memory back that holds no answers now.
    pub fn give_back(&mut self) {
        if self.session.out.is_empty() {
            self.session.out = Vec::new();
            self.settle();
        }
    }

    /// Answers that are not sent yet, in bytes.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.session.out.len() - self.sent
    }

    /// Reads once. A short frame is read into the shared buffer, behind what was kept of it; a
    /// long one is collected where it is kept, which grows as its bytes arrive and not before.
    pub fn receive(&mut self, shared: &mut [u8]) -> Received {
        let kept = self.kept.len();
        if self.needed <= shared.len() && kept < shared.len() {
            let (front, rest) = shared.split_at_mut(kept);
            front.copy_from_slice(&self.kept);
            let room = rest.len();
            return match self.stream.read(rest) {
                Ok(0) => Received::Closed,
                Ok(n) => {
                    self.forget();
                    Received::Shared { length: kept + n, drained: n < room }
                }
                Err(error) => failed(&error),
            };
        }
        let room = (self.needed.max(kept) - kept).clamp(HEADER_BYTES, shared.len());
        if kept + room > self.kept.capacity() {
            // Twice as much each time, but no more than the frame needs.
            let wanted = (2 * kept).min(self.needed).max(kept + room);
            self.kept.reserve_exact(wanted - kept);
        }
        self.kept.resize(kept + room, 0);
        let read = self.stream.read(&mut self.kept[kept..]);
        self.kept.truncate(kept + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Received::Closed,
            Ok(n) => Received::Kept { drained: n < room },
            Err(error) => failed(&error),
        }
    }

    /// Keeps bytes for the next turn, in place of what was kept.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.kept.clear();
        self.kept.extend_from_slice(bytes);
    }

    /// Drops the first `used` bytes of what is kept.
    pub fn used(&mut self, used: usize) {
        if used == self.kept.len() {
            self.forget();
        } else {
            self.kept.drain(..used);
        }
    }

    /// Drops what is kept, and its memory unless the next piece will need as much.
    fn forget(&mut self) {
        self.kept.clear();
        if self.kept.capacity() > 1 << 10 {
            self.kept = Vec::new();
        }
    }

    /// Sends what there is to send, so many bytes at most, with one call. Returns how many it sent;
    /// if they are fewer, what is left waits until the socket is writable again.
    pub fn send(&mut self, bytes_max: usize) -> usize {
        let end = self.session.out.len().min(self.sent.saturating_add(bytes_max));
        let sent = loop {
            match self.stream.write(&self.session.out[self.sent..end]) {
                Ok(sent) => break sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
                Err(_) => {
                    self.life = Life::Closed;
                    return 0;
                }
            }
        };
        self.sent += sent;
        if self.sent == self.session.out.len() {
            self.sent = 0;
            self.session.out.clear();
            if self.session.out.capacity() > OUTPUT_BYTES_KEPT {
                self.session.out = Vec::new();
            }
        } else if self.sent > self.session.out.len() / 2 {
            // A client that always leaves something behind must not make the buffer grow for ever.
            self.session.out.drain(..self.sent);
            self.sent = 0;
        }
        sent
    }

    /// Closes our side once the last answer is sent.
    pub fn linger(&mut self) {
        let closed = self.stream.close_output();
        self.life = if closed.is_ok() { Life::Lingering } else { Life::Closed };
        self.kept = Vec::new();
    }

    /// Reads away what a lingering connection still sends.
    pub fn drain(&mut self, shared: &mut [u8]) {
        loop {
            match self.stream.read(shared) {
                Ok(n) if n > 0 && self.lingered < LINGER_BYTES_MAX => self.lingered += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.life = Life::Closed;
                    return;
                }
            }
        }
    }
}

fn failed(error: &io::Error) -> Received {
    match error.kind() {
        ErrorKind::WouldBlock => Received::Nothing,
        ErrorKind::Interrupted => Received::Kept { drained: false },
        _ => Received::Closed,
    }
}
