//! What a connection remembers between requests, and the answers that it has not sent yet.

use super::unbound::Unbound;
use std::{net::IpAddr, sync::Arc};

/// Which connection, of all that have ever been in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    /// Its place in the shard's table of connections.
    pub index: u32,
    /// Tells it from those that were there before.
    pub generation: u32,
}

/// A request that is to be answered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The connection.
    pub place: ConnectionId,
    /// The stream to answer on.
    pub stream: i16,
    /// When it arrived, in microseconds of the shard's own clock, of which the low 24 bits count.
    pub arrived_us: u32,
}

/// What the protocol remembers of one connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // four things that can each be so or not
pub struct Session {
    /// Which connection it is.
    pub place: ConnectionId,
    /// Where the client is, if that is known.
    pub client: Option<IpAddr>,
    /// Answers that have not been sent, whole frames one after the other.
    pub out: Vec<u8>,
    /// Requests that are to be answered later.
    pub in_flight: u32,
    /// Reads of it that were begun and are not answered.
    pub reads: u32,
    /// The request that is being bound.
    pub unbound: Option<Box<Unbound>>,
    /// The keyspace of names that do not say theirs.
    pub keyspace: Option<Arc<str>>,
    /// STARTUP was said.
    pub started: bool,
    /// Changes of the schema are to be told.
    pub registered: bool,
    /// Long answers are to be compressed.
    pub compressed: bool,
    /// The connection is to be closed once `out` is sent: what it says cannot be trusted.
    pub broken: bool,
}

impl Session {
    /// A connection that has said nothing yet.
    #[must_use]
    pub fn new(place: ConnectionId) -> Self {
        Self {
            place,
            client: None,
            out: Vec::new(),
            in_flight: 0,
            reads: 0,
            unbound: None,
            keyspace: None,
            started: false,
            registered: false,
            compressed: false,
            broken: false,
        }
    }
}

/// The connections of a shard, as those see them who have something to answer.
pub trait Sessions {
    /// The session, to be looked at, if its connection is still there.
    fn look(&self, place: ConnectionId) -> Option<&Session>;

    /// The session that is to get an answer, if its connection is still there. Its output will be
    /// sent at the end of the turn.
    fn answer(&mut self, place: ConnectionId) -> Option<&mut Session>;

    /// Calls `f` with each session that wants to be told of changes of the schema.
    fn each_registered(&mut self, f: &mut dyn FnMut(&mut Session));
}
