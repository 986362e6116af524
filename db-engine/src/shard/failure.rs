//! Why a request is answered with an ERROR.

use crate::{
    cql::{CqlError, ErrorCode},
    protocol::{code, response},
    store::{Refused, WRITE_BYTES_MAX},
};

/// A code, a message, and what else the code wants said.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The protocol's code.
    pub code: i32,
    /// For whoever made the request.
    pub message: String,
    /// The keyspace and table that exist already.
    existing: Option<(String, String)>,
}

impl Failure {
    /// An error with no more to say than this.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), existing: None }
    }

    /// The statement makes no sense here.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID, message)
    }

    /// Appends the ERROR.
    pub fn put(&self, out: &mut Vec<u8>, stream: i16) {
        match &self.existing {
            Some((keyspace, table)) => {
                response::already_exists(out, stream, self.code, &self.message, keyspace, table);
            }
            None => response::error(out, stream, self.code, &self.message),
        }
    }
}

impl From<CqlError> for Failure {
    fn from(error: CqlError) -> Self {
        let code = error.code.number();
        let existing = match error.code {
            ErrorCode::AlreadyExists { keyspace, table } => Some((keyspace, table)),
            _ => None,
        };
        Self { code, message: error.message, existing }
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Overloaded => Self::new(
                code::OVERLOADED,
                "more writes are waiting than may wait, try again later",
            ),
            // Drivers know no code for it; this one makes them keep the statement.
            Refused::NoSpace => Self::new(
                code::OVERLOADED,
                "the disk is full: writes are refused until there is space, reads go on",
            ),
            Refused::TooLarge => Self::invalid(format!(
                "Mutation is larger than the maximum size of {WRITE_BYTES_MAX} bytes"
            )),
            Refused::UnknownTable => Self::invalid("unconfigured table: it was dropped"),
            Refused::Malformed => Self::new(code::SERVER, "a mutation was malformed"),
            Refused::Closing => Self::new(code::OVERLOADED, "the server is shutting down"),
        }
    }
}
