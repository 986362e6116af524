//! Several clients of the whole engine: what they ask, and what they make of the answers.
#![allow(missing_docs, clippy::unwrap_used)]

pub mod counters;
pub mod expiring;
pub mod history;
pub mod kinds;
pub mod requests;
pub mod reshape;
pub mod seen_cells;
pub mod simulation;
pub mod statements;
pub mod tally;
pub mod worlds;
