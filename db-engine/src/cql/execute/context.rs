//! The moment in which a statement is executed.

use crate::{
    cql::execute::{known_lists::KnownLists, timeuuid::ListPlaces},
    types::Value,
};

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

/// The values of a statement, and the rows that were read for it, if it depends on such.
pub(super) type Supplied<'a> = (&'a [Value<'a>], Option<&'a KnownLists<'a>>);

/// All that a write is bound with.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub values: &'a [Value<'a>],
    pub context: &'a BindContext,
    /// The places in lists that follow.
    pub places: &'a ListPlaces,
    /// The rows that were read for it, if it depends on such.
    pub lists: Option<&'a KnownLists<'a>>,
}
