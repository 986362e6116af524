//! Which sstables to rewrite or remove: decisions only, carried out by the store.

pub mod expiry;
