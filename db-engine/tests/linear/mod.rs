//! Histories of writes that depend on what is there, and whether they are linearizable.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // Each test uses a part of it.

pub mod asked;
pub mod checker;
pub mod rows;
