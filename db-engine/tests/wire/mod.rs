//! The real binary and a client that says exactly what it is told. Each test uses its own part.
#![allow(dead_code)]

pub mod attackers;
pub mod client;
pub mod engine;
pub mod honest;
