//! What the operator wants of a shard: asked through its letterbox, answered through a channel.

use super::Core;
use crate::{
    mutation::TableNumber,
    store::{CompactionLeft, PinnedSstable, TableReport},
};
use std::sync::mpsc::Sender;

/// See the module. Tables that are not there any more are passed over.
pub enum Errand {
    /// Tell what there is of these tables.
    Report(Vec<TableNumber>, Sender<Vec<TableReport>>),
    /// Have the files of these tables stay where they are while what is answered is there.
    Pin(Vec<TableNumber>, Sender<Vec<PinnedSstable>>),
    /// Have all that is in memory of these tables in sstables, and say when.
    Flush(Vec<TableNumber>, Sender<()>),
    /// Compact these tables as far as it goes, and tell how much is left whenever that changes.
    Compact(Vec<TableNumber>, Sender<CompactionTold>),
}

/// How far a shard is with a compaction.
#[derive(Debug, Clone, Copy)]
pub struct CompactionTold {
    /// The shard.
    pub shard: u16,
    /// What is left. Nothing more is told once it is over.
    pub left: CompactionLeft,
}

/// An errand that takes its time.
pub(super) enum OpenErrand {
    Flush(Vec<TableNumber>, Sender<()>),
    Compact(Vec<TableNumber>, Sender<CompactionTold>, Option<CompactionLeft>),
}

impl Core {
    /// Does what the operator wants, or begins it. Whoever does not wait for the answer any more
    /// is not told.
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::Report(tables, to) => drop(to.send(self.store.report(&tables))),
            Errand::Pin(tables, to) => drop(to.send(self.store.pin(&tables))),
            Errand::Flush(tables, to) => {
                self.store.flush_tables(&tables);
                self.errands.push(OpenErrand::Flush(tables, to));
            }
            Errand::Compact(tables, to) => {
                self.store.compact_tables(&tables);
                self.errands.push(OpenErrand::Compact(tables, to, None));
            }
        }
    }

    /// Tells how far errands are. Called when the store has been heard, before it begins anything.
    pub(super) fn go_on_with_errands(&mut self) {
        let (shard, store) = (self.shard, &self.store);
        self.errands.retain_mut(|errand| match errand {
            OpenErrand::Flush(tables, to) => {
                let is_over = store.has_flushed(tables);
                if is_over {
                    let _ = to.send(());
                }
                !is_over
            }
            OpenErrand::Compact(tables, to, told) => {
                let left = store.compaction_left(tables);
                if told.replace(left) != Some(left)
                    && to.send(CompactionTold { shard, left }).is_err()
                {
                    return false;
                }
                !left.is_over()
            }
        });
    }
}
