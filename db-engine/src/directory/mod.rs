//! The directory's protocol: which files there are, and which of them count.
//!
//! A directory is locked, read and judged as a whole before anything in it is changed. What a crash
//! can leave is known of each kind of file and written down in `docs/format/manifest.md`; whatever
//! else is found is refused, and the directory stays as it is. Only when the checkpoint of the new
//! run is durable are files of earlier runs removed.

#![deny(clippy::indexing_slicing)]

mod catalog_file;
mod claim;
mod found;
mod journal;
pub mod manifest;
mod run;
mod sequential;
mod snapshot_files;

pub use catalog_file::{CatalogFile, Replacement};
pub(crate) use found::{FoundDirectory, NewRun};
pub(crate) use journal::Journal;
pub(crate) use run::RunManifest;
pub(crate) use sequential::Sequential;
pub(crate) use snapshot_files::{Survey, complete_restored, complete_snapshot};

#[cfg(test)]
mod tests;
