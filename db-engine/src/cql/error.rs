//! Refusals of statements: a code of the protocol and a sentence, worded as Cassandra words it.

use crate::{schema::SchemaError, types::TypeError};
use std::fmt;

/// What kind of refusal it is; the number is that of an `ERROR` message (CQL v4 §9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorCode {
    /// The request does not follow the protocol, such as a broken paging state.
    Protocol,
    /// There is no memory for it.
    Overloaded,
    /// The text is not CQL.
    Syntax,
    /// It is CQL, but makes no sense with the schema, or is not supported.
    Invalid,
    /// It is about something that nobody may change.
    Unauthorized,
    /// An option of a keyspace or table is wrong.
    Config,
    /// The keyspace (then `table` is empty) or table exists.
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table, or empty.
        table: String,
    },
}

impl ErrorCode {
    /// Its number on the wire.
    #[must_use]
    pub fn number(&self) -> i32 {
        match self {
            ErrorCode::Protocol => 0x000A,
            ErrorCode::Overloaded => 0x1001,
            ErrorCode::Syntax => 0x2000,
            ErrorCode::Unauthorized => 0x2100,
            ErrorCode::Invalid => 0x2200,
            ErrorCode::Config => 0x2300,
            ErrorCode::AlreadyExists { .. } => 0x2400,
        }
    }
}

/// Why a statement was refused. It did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CqlError {
    /// The kind of refusal.
    pub code: ErrorCode,
    /// For whoever wrote the statement.
    pub message: String,
}

impl CqlError {
    /// The statement makes no sense with the schema as it is.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        CqlError { code: ErrorCode::Invalid, message: message.into() }
    }

    /// The text is not CQL.
    #[must_use]
    pub fn syntax(message: impl Into<String>) -> Self {
        CqlError { code: ErrorCode::Syntax, message: message.into() }
    }

    /// The request does not follow the protocol.
    #[must_use]
    pub fn protocol(message: impl Into<String>) -> Self {
        CqlError { code: ErrorCode::Protocol, message: message.into() }
    }

    /// `what` ("Counters are") is part of CQL that is not there yet.
    #[must_use]
    pub fn unsupported(what: &str) -> Self {
        Self::invalid(format!("{what} not supported yet by Sandglass"))
    }

    /// There is no memory for all of a result.
    pub(super) fn result_too_large() -> Self {
        let message =
            "the result takes more memory than there is: ask for it in pages, or for fewer columns";
        CqlError { code: ErrorCode::Overloaded, message: message.into() }
    }

    /// A stored value cannot be compared: a row that might have to be in the result is not left
    /// out silently.
    pub(super) fn incomparable(TypeError(why): TypeError) -> Self {
        Self::invalid(format!(
            "A value of a row that was read cannot be compared: {why}. Ask for rows without it"
        ))
    }
}

/// Refuses a statement that makes no sense with the schema as it is.
pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T, CqlError> {
    Err(CqlError::invalid(message))
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CqlError {}

impl From<TypeError> for CqlError {
    fn from(error: TypeError) -> Self {
        CqlError::invalid(error.0)
    }
}

impl From<SchemaError> for CqlError {
    fn from(error: SchemaError) -> Self {
        let message = error.to_string();
        let code = match error {
            SchemaError::Invalid(_) => ErrorCode::Invalid,
            SchemaError::Unauthorized(_) => ErrorCode::Unauthorized,
            SchemaError::Config(_) => ErrorCode::Config,
            SchemaError::Syntax(_) => ErrorCode::Syntax,
            SchemaError::AlreadyExists { keyspace, table } => {
                ErrorCode::AlreadyExists { keyspace, table }
            }
        };
        CqlError { code, message }
    }
}
