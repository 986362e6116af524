//! What several tests need. Each uses its own part of it.
#![allow(dead_code)]

pub mod client;
pub mod engine;
