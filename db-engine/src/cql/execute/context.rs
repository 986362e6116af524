//! The moment in which a statement is executed.

use crate::{cql::execute::timeuuid::ListPlaces, types::Value};

/// What a statement must know of the moment in which it is executed.
#[derive(Debug, Clone, Copy)]
pub struct BindContext {
    /// The timestamp of writes that say none, in microseconds since the Unix epoch: the one that
    /// came with the request, else now.
    pub timestamp_us: i64,
    /// Now, in microseconds since the Unix epoch.
    pub now_us: i64,
    /// Any number that was not given before: `uuid()` and `now()` are made of it.
    pub random: u64,
}

impl BindContext {
    /// Now, in seconds since the Unix epoch.
    #[must_use]
    pub fn now_s(&self) -> i64 {
        self.now_us.div_euclid(1_000_000)
    }
}

/// Memory for binding values, used again and again.
#[derive(Debug, Default)]
pub struct BindScratch {
    /// The serialized partition key.
    pub key: Vec<u8>,
    /// The encoded clustering key.
    pub ck: Vec<u8>,
    pub(super) places: ListPlaces,
}

/// The values of a statement, the moment in which it is executed, and the places in lists that
/// follow.
pub(super) type Given<'a> = (&'a [Value<'a>], &'a BindContext, &'a ListPlaces);
