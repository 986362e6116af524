//! Reads whose page is complete, kept for the next page: it goes on with the blocks at hand.
//!
//! No answer depends on them. A read that is resumed looks at memtables anew, and at what was
//! flushed meanwhile; one that was forgotten begins behind its position.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use super::{
    super::{Page, Partitions, Position, ReadRequest},
    merge::Merge,
};
use crate::mutation::TableNumber;

/// Microseconds that a read waits for its next page.
const LIFE_US: u64 = 10_000_000;

/// Reads of a shard that wait to be asked for their next page, bounded in bytes.
#[derive(Default)]
pub(in crate::store) struct SuspendedReads {
    /// In the order in which they were suspended.
    reads: BTreeMap<u64, SuspendedRead>,
    /// Their numbers, by the request that goes on with them.
    numbers: HashMap<Arc<ReadIdentity>, u64>,
    suspended: u64,
    bytes: usize,
    bytes_max: usize,
}

struct SuspendedRead {
    next: Arc<ReadIdentity>,
    merge: Box<Merge>,
    bytes: usize,
    /// When it is forgotten, by what has elapsed.
    until_us: u64,
}

impl SuspendedReads {
    /// Bytes that they hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a read for the page behind this one, if it is worth it and there is room. Those that
    /// wait for longest make room. Gives the read back if it is not kept.
    pub(super) fn put(
        &mut self,
        mut merge: Box<Merge>,
        request: &ReadRequest,
        page: &Page,
        now_us: u64,
    ) -> Option<Box<Merge>> {
        let Some(position) = page.position().filter(|_| request.goes_on) else {
            return Some(merge);
        };
        if !merge.suspend(position) {
            return Some(merge);
        }
        let next = Arc::new(ReadIdentity::of(request, position));
        let bytes = size_of::<SuspendedRead>() + merge.bytes() + next.bytes();
        if bytes > self.bytes_max {
            return Some(merge);
        }
        self.take_out(&next);
        self.suspended += 1;
        self.bytes += bytes;
        self.numbers.insert(Arc::clone(&next), self.suspended);
        let until_us = now_us.saturating_add(LIFE_US);
        self.reads.insert(self.suspended, SuspendedRead { next, merge, bytes, until_us });
        self.limit(self.bytes_max);
        None
    }

    /// The read that goes on where this request begins, if it is still there.
    pub(super) fn take(&mut self, request: &ReadRequest, now_us: u64) -> Option<Box<Merge>> {
        let position = request.after.as_ref().filter(|_| !self.reads.is_empty())?;
        let read = self.take_out(&ReadIdentity::of(request, position))?;
        (now_us < read.until_us).then_some(read.merge)
    }

    /// Changes how many bytes they may have.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes > bytes_max {
            self.forget_first();
        }
    }

    /// Forgets those whose time is over.
    pub fn expire(&mut self, now_us: u64) {
        while self.reads.first_key_value().is_some_and(|(_, read)| read.until_us <= now_us) {
            self.forget_first();
        }
    }

    /// Forgets those of a table, some of whose sstables do not count any more.
    pub fn forget(&mut self, table: TableNumber) {
        for (_, read) in self.reads.extract_if(.., |_, read| read.next.table == table) {
            self.numbers.remove(&read.next);
            self.bytes -= read.bytes;
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, read)) = self.reads.pop_first() {
            self.numbers.remove(&read.next);
            self.bytes -= read.bytes;
        }
    }

    fn take_out(&mut self, next: &ReadIdentity) -> Option<SuspendedRead> {
        let number = self.numbers.remove(next)?;
        let read = self.reads.remove(&number)?;
        self.bytes -= read.bytes;
        Some(read)
    }
}

/// What two requests have in common if one read can answer them: all but how large the page is,
/// which rows count, and when it is read.
#[derive(PartialEq, Eq, Hash)]
struct ReadIdentity {
    table: TableNumber,
    partitions: Partitions,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    reverse: bool,
    after: Position,
    columns: Option<Arc<[u16]>>,
    static_rows: bool,
    bypass_cache: bool,
}

impl ReadIdentity {
    fn of(request: &ReadRequest, after: &Position) -> Self {
        let partitions = match &request.partitions {
            // Where it began does not matter behind the position.
            Partitions::Range { to, .. } => Partitions::Range { from: after.token.0, to: *to },
            one @ Partitions::One { .. } => one.clone(),
        };
        Self {
            table: request.table,
            partitions,
            from: request.from.clone(),
            to: request.to.clone(),
            reverse: request.reverse,
            after: after.clone(),
            columns: request.columns.clone(),
            static_rows: request.static_rows,
            bypass_cache: request.bypass_cache,
        }
    }

    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        let key = match &self.partitions {
            Partitions::One { key, .. } => key.len(),
            Partitions::Range { .. } => 0,
        };
        let bound = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(ck) | Bound::Excluded(ck) => ck.len(),
            Bound::Unbounded => 0,
        };
        let after = self.after.key.len() + self.after.ck.len();
        size_of::<Self>() + key + bound(&self.from) + bound(&self.to) + after
    }
}
