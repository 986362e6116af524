//! What the operator wants of a shard: asked through its letterbox, answered through a channel.

use super::Core;
use crate::{mutation::TableNumber, store::TableReport};
use std::sync::mpsc::Sender;

/// See the module.
pub enum Errand {
    /// Tell what there is of these tables.
    Report(Vec<TableNumber>, Sender<Vec<TableReport>>),
}

impl Core {
    /// Does what the operator wants, or begins it. Whoever does not wait for the answer any more
    /// is not told.
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::Report(tables, to) => drop(to.send(self.store.report(&tables))),
        }
    }
}
