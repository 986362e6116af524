//! Which sstables to rewrite or remove: decisions only, carried out by the store.

pub mod choice;
pub mod expiry;
pub mod together;
pub mod tombstones;
