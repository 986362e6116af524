//! The CQL native protocol, version 4: frames, notations, requests and responses as bytes.
//!
//! Nothing here does input or output or knows a clock. Requests borrow from the buffer they
//! were received in, responses are appended to a buffer that is sent later, and whatever a
//! client may send is either understood or a [`MalformedBody`]: never a panic, never an
//! allocation of a size that the client names.

#![deny(clippy::indexing_slicing)]

pub mod compression;
pub mod frame;
pub mod notation;
pub mod request;
pub mod response;
pub mod result;

use std::fmt;

/// The one version we speak. Drivers that open with a newer one fall back to it.
pub const VERSION: u8 = 4;

/// What we call it in SUPPORTED and in the error that makes drivers fall back.
pub const VERSION_NAME: &str = "4/v4";

pub use crate::schema::system::CQL_VERSION;

/// Bytes of a body that do not say what the specification says they must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedBody(pub String);

impl MalformedBody {
    /// The reason, in words for the client's log.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for MalformedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MalformedBody {}

/// Opcodes (CQL v4 §2.4).
pub mod opcode {
    /// Response: an error code and a message.
    pub const ERROR: u8 = 0x00;
    /// Request: the first of a connection, with its options.
    pub const STARTUP: u8 = 0x01;
    /// Response: the connection may be used.
    pub const READY: u8 = 0x02;
    /// Request: what do you support? Also the heartbeat of idle connections.
    pub const OPTIONS: u8 = 0x05;
    /// Response: what we support.
    pub const SUPPORTED: u8 = 0x06;
    /// Request: a statement as text.
    pub const QUERY: u8 = 0x07;
    /// Response: the outcome of a statement.
    pub const RESULT: u8 = 0x08;
    /// Request: remember a statement.
    pub const PREPARE: u8 = 0x09;
    /// Request: run a remembered statement.
    pub const EXECUTE: u8 = 0x0A;
    /// Request: send me events.
    pub const REGISTER: u8 = 0x0B;
    /// Response: something happened that was not asked for.
    pub const EVENT: u8 = 0x0C;
    /// Request: several writes at once.
    pub const BATCH: u8 = 0x0D;
    /// Request: the answer to a challenge. Never expected: we do not challenge.
    pub const AUTH_RESPONSE: u8 = 0x0F;
}

/// Error codes that the layers above CQL give themselves (CQL v4 §9).
pub mod code {
    /// A bug of ours.
    pub const SERVER: i32 = 0x0000;
    /// The client broke the protocol, or speaks another version of it.
    pub const PROTOCOL: i32 = 0x000A;
    /// Too much is asked at once; the client should come back later.
    pub const OVERLOADED: i32 = 0x1001;
    /// A statement that makes no sense here.
    pub const INVALID: i32 = 0x2200;
    /// A prepared statement that we do not know, or no longer.
    pub const UNPREPARED: i32 = 0x2500;
}

/// How many replicas must agree (CQL v4 §3). There is one replica, so all levels mean the same;
/// what differs is which of them a read or a write may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consistency(u16);

impl Consistency {
    /// As read from a request.
    ///
    /// # Errors
    /// A number that no level has.
    pub fn from_wire(number: u16) -> Result<Self, MalformedBody> {
        if number <= 0x0A {
            Ok(Self(number))
        } else {
            Err(MalformedBody(format!("Unknown code {number} for a consistency level")))
        }
    }

    /// The number by which the protocol knows it, at most 0x0A.
    #[must_use]
    #[inline]
    pub fn number(self) -> u16 {
        self.0
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        crate::metrics::LEVELS.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// Why a write may not be made at this level, if it may not.
    #[must_use]
    pub fn refused_for_write(self) -> Option<&'static str> {
        let serial = matches!(self.0, 0x08 | 0x09);
        serial.then_some("You must use conditional updates for serializable writes")
    }

    /// Why counters of this table may not be changed at this level, if they may not.
    #[must_use]
    pub fn refused_for_counter(self, table: &str) -> Option<String> {
        match self.0 {
            0x00 => Some(format!(
                "Consistency level ANY is not yet supported for counter table {table}"
            )),
            0x08 | 0x09 => Some("Counter operations are inherently non-serializable".into()),
            _ => None,
        }
    }

    /// Why a write that reads a list may not be made at this level, if it may not.
    #[must_use]
    pub fn refused_for_list(self) -> Option<String> {
        self.refused_for_read().map(|_| {
            let name = self.name();
            format!(
                "Write operation require a read but consistency {name} is not supported on reads"
            )
        })
    }

    /// Why a conditional write may not be made durable at this level, if it may not.
    #[must_use]
    pub fn refused_for_commit(self) -> Option<String> {
        matches!(self.0, 0x08 | 0x09).then(|| {
            format!(
                "{} is not supported as conditional update commit consistency. Use ANY if you \
                 mean \"make sure it is accepted but I don't care how many replicas commit it for \
                 non-SERIAL reads\"",
                self.name()
            )
        })
    }

    /// Why conditions may not be looked at at this level, if they may not.
    #[must_use]
    pub fn refused_for_condition(self) -> Option<&'static str> {
        (!matches!(self.0, 0x08 | 0x09)).then_some(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        )
    }

    /// Why a read may not be made at this level, if it may not.
    #[must_use]
    pub fn refused_for_read(self) -> Option<&'static str> {
        (self.0 == 0x00).then_some("ANY ConsistencyLevel is only supported for writes")
    }
}
