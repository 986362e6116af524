//! One table of one shard: its memtables and its sstables.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering::AcqRel},
    },
};

use crate::{
    compaction::expiry::{Extent, droppable},
    io::FileId,
    memtable::Memtable,
    mutation::Token,
    schema::TableSettings,
    sstable::{Index, SstableId, Summary},
};

/// An sstable that is open.
#[derive(Debug)]
pub(super) struct Sstable {
    pub summary: Summary,
    /// Shared by the shards that have rows of it.
    pub index: Arc<Index>,
    pub file: FileId,
    /// How many sstables the table had had when this one was taken in, itself included; or when the
    /// last of those was that were compacted into it.
    pub added: u64,
    /// How many shards still use the file, if it has rows of several.
    pub holders: Option<Arc<AtomicU16>>,
}

impl Sstable {
    /// Notes that this shard does not use it any more; returns whether nobody does.
    pub fn let_go(&self) -> bool {
        self.holders.as_ref().is_none_or(|holders| holders.fetch_sub(1, AcqRel) == 1)
    }

    /// Whether it can have partitions with these tokens.
    pub fn overlaps(&self, from: i64, to: i64) -> bool {
        self.summary.token_first.0 <= to && from <= self.summary.token_last.0
    }
}

/// The oldest row of an active memtable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unflushed {
    /// The segment of the log that has it.
    pub segment: u32,
    /// When it was written, by what had elapsed.
    pub since_us: u64,
}

/// The data of one table of one shard.
#[derive(Debug, Default)]
pub(super) struct TableData {
    pub settings: TableSettings,
    /// What was written since the last flush began.
    pub active: Memtable,
    /// `None` if that is nothing.
    pub unflushed: Option<Unflushed>,
    /// The operator wants it flushed.
    pub is_flush_wanted: bool,
    /// What is being flushed.
    pub flushing: Option<Arc<Memtable>>,
    /// Those with the newest write first. Reads under way share the list as it was when they began.
    pub sstables: Arc<Vec<Arc<Sstable>>>,
    /// How many sstables were ever taken in, since the start.
    pub added: u64,
    /// What was counted of it, since the start.
    pub counts: TableCounts,
}

/// What is counted of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Mutations of it that were applied.
    pub writes: u64,
    /// Reads of it, a page each.
    pub reads: u64,
    /// Bytes of its sstables that flushes wrote.
    pub flush_bytes: u64,
    /// Bytes of its sstables that compactions wrote.
    pub compaction_bytes: u64,
}

impl TableData {
    /// Takes an sstable in.
    pub fn add(
        &mut self,
        (summary, index, file): (Summary, Arc<Index>, FileId),
        holders: Option<Arc<AtomicU16>>,
    ) {
        self.added += 1;
        self.insert(Sstable { summary, index, file, added: self.added, holders });
    }

    /// Puts an sstable in its place.
    pub fn insert(&mut self, sstable: Sstable) {
        let newest = sstable.summary.timestamp_max;
        let place = self.sstables.partition_point(|other| other.summary.timestamp_max > newest);
        Arc::make_mut(&mut self.sstables).insert(place, Arc::new(sstable));
    }

    /// Takes these sstables out, those of them that are its own.
    pub fn take(&mut self, removed: &BTreeSet<SstableId>) -> Vec<Arc<Sstable>> {
        let is_removed = |sstable: &Arc<Sstable>| removed.contains(&sstable.summary.id);
        if !self.sstables.iter().any(is_removed) {
            return Vec::new();
        }
        Arc::make_mut(&mut self.sstables).extract_if(.., |one| is_removed(one)).collect()
    }

    /// The one that is written to, and the one that is being flushed.
    pub fn memtables(&self) -> [Option<&Memtable>; 2] {
        [Some(&self.active), self.flushing.as_deref()]
    }

    /// No row of a partition with this token is newer. It may be older than rows of others.
    pub fn newest_us(&self, token: Token) -> Option<i64> {
        let in_memory = self.memtables().into_iter().flatten().filter_map(Memtable::timestamp_max);
        // The first one is the newest.
        let mut own = self.sstables.iter().filter(|one| one.overlaps(token.0, token.0));
        in_memory.chain(own.next().map(|one| one.summary.timestamp_max)).max()
    }

    /// The first second at which one of the sstables of this shard alone may be of no use any more.
    pub fn expires_s(&self, is_own: impl Fn(Token) -> bool) -> Option<i64> {
        let summaries = self.sstables.iter().map(|sstable| &sstable.summary);
        let own = summaries.filter(|summary| summary.is_of(&is_own));
        let expiring = own.map(|summary| extent(summary, &self.settings).expires_s);
        expiring.filter(|expires_s| *expires_s != i64::MAX).min()
    }

    /// The sstables of this shard alone that are of no use any more.
    ///
    /// One that has rows of other shards, too, is left for the next start: what it hides there
    /// cannot be seen from here.
    pub fn expired(&self, now_s: i64, is_own: impl Fn(Token) -> bool) -> Vec<SstableId> {
        let extents: Vec<_> =
            self.sstables.iter().map(|one| extent(&one.summary, &self.settings)).collect();
        let flushing = self.flushing.as_ref().and_then(|memtable| memtable.timestamp_min());
        let unflushed = self.active.timestamp_min().into_iter().chain(flushing).min();
        droppable(&extents, unflushed, now_s)
            .into_iter()
            .filter_map(|place| self.sstables.get(place).map(|sstable| &sstable.summary))
            .filter(|summary| summary.is_of(&is_own))
            .map(|summary| summary.id)
            .collect()
    }
}

/// What decides whether an sstable of a table with these settings may go.
pub(super) fn extent(summary: &Summary, settings: &TableSettings) -> Extent {
    Extent {
        timestamp_min: summary.timestamp_min,
        timestamp_max: summary.timestamp_max,
        expires_s: summary.expires_s.saturating_add(i64::from(settings.gc_grace_s)),
    }
}
