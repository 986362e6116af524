//! A CQL database for sensor data.
//!
//! A request travels down this list and an answer travels back up. A module may use those below
//! it, never those above; `tests/tidy.rs` checks that.

pub mod store;
pub mod sstable;
pub mod compaction;
pub mod mutation;
pub mod io;
pub mod error;
pub mod cql;
pub mod schema;
pub mod types;
