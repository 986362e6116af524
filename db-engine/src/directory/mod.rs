//! The directory's protocol: which files there are, and which of them count.

#![deny(clippy::indexing_slicing)]

pub mod catalog_file;
mod claim;
pub mod manifest;
mod run;
mod sequential;

pub(crate) use claim::claim;
pub(crate) use run::{RunManifest, read_manifest};
pub(crate) use sequential::Sequential;

#[cfg(test)]
mod tests;
