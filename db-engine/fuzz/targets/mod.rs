//! What is fuzzed: functions that must end well, whatever bytes they are given.
//!
//! `run.sh` runs one of them under libFuzzer; `cargo test` runs all, with the inputs that were
//! once a problem and with some random ones.
#![allow(clippy::unwrap_used)]

mod requests;
mod storage;
mod values;

/// A function under test, and inputs from which others are made.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub inputs: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: &[Target] = &[
    Target { name: "frames", run: requests::frames, inputs: requests::frame_inputs },
    Target { name: "statements", run: requests::statement, inputs: requests::statement_inputs },
    Target { name: "paging", run: requests::paging, inputs: requests::paging_inputs },
    Target { name: "values", run: values::value, inputs: values::inputs },
    Target { name: "journals", run: storage::journal, inputs: storage::inputs },
    Target { name: "log", run: storage::log, inputs: storage::inputs },
    Target { name: "mutations", run: storage::mutations, inputs: storage::mutation_inputs },
    Target { name: "sstables", run: storage::sstable, inputs: storage::inputs },
    Target { name: "blocks", run: storage::block, inputs: storage::block_inputs },
];
