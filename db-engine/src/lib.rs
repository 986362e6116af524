//! A CQL database for sensor data.
//!
//! A request travels down this list and an answer travels back up. A module may use those below
//! it, never those above; `tests/tidy.rs` checks that.

pub mod ctl;
pub mod server;
pub mod shard;
pub mod protocol;
pub mod cql;
pub mod store;
pub mod directory;
pub mod sstable;
pub mod commitlog;
pub mod memtable;
pub mod compaction;
pub mod schema;
pub mod mutation;
pub mod types;
pub mod trace;
pub mod io;
pub mod metrics;
pub mod budget;
pub mod config;
pub mod error;
