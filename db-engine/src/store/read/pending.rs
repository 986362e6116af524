//! Reads that wait: for blocks of sstables, or for their next share of time.

use std::{collections::VecDeque, sync::Arc};

use hashbrown::HashMap;

use super::{
    super::{Done, Page, Partitions, ReadRequest, Refused, Store, Tag, turn::InFlight},
    Progress,
    cache::BlockId,
    read,
};
use crate::{
    error::Error,
    io::{Buffer, Completion, Operation, Ticket, TimeSlice},
    mutation::token::range_of,
    sstable::Block,
};

/// Microseconds that reads which have waited take in one turn, all together.
const TURN_US: u64 = 1_000;

/// Microseconds after which one of them lets the next one go on.
const READ_US: u64 = 100;

/// All reads that wait, by number.
#[derive(Default)]
pub(in crate::store) struct Reads {
    all: HashMap<u64, PendingRead>,
    begun: u64,
    /// Reads whose blocks have come. They are first: most need only a moment.
    fresh: VecDeque<u64>,
    /// Reads that have used up a share of time and have more to do.
    long: VecDeque<u64>,
    /// Blocks that are being read from disk.
    fetching: HashMap<BlockId, Ticket>,
}

/// A read that waits.
struct PendingRead {
    tag: Tag,
    request: ReadRequest,
    page: Page,
    /// Blocks that were read for it and may not be in the cache any more.
    pinned: HashMap<BlockId, Arc<Block>>,
    /// How many blocks must come before it can go on.
    waiting: usize,
    /// Since when it waits, in microseconds.
    since_us: u64,
}

impl Reads {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them can go on.
    pub fn is_ready(&self) -> bool {
        !self.fresh.is_empty() || !self.long.is_empty()
    }
}

impl Store {
    /// Reads rows: fills `page` at once (true), or answers later with [`Done::Read`] (false), if
    /// blocks must be read from disk or the time is over before the page is complete.
    ///
    /// # Errors
    ///
    /// If the table is not known: it was dropped.
    pub fn read(
        &mut self,
        tag: Tag,
        request: &ReadRequest,
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> std::result::Result<bool, Refused> {
        page.clear();
        self.metrics.reads += 1;
        let mut request = request.clone();
        if let Partitions::Range { from, to } = &mut request.partitions {
            // Sstables of another number of shards may hold rows that are not ours.
            let own = range_of(self.shard, self.config.shards);
            (*from, *to) = ((*from).max(*own.start()), (*to).min(*own.end()));
        }
        let progress = self.read_on(&mut request, page, &HashMap::new(), time)?;
        if progress == Progress::Complete {
            self.metrics.rows_returned += page.len() as u64;
            return Ok(true);
        }
        if matches!(progress, Progress::Missing(_)) {
            self.metrics.reads_from_disk += 1;
            let is_scan = matches!(request.partitions, Partitions::Range { .. });
            self.metrics.scans_filling_cache += u64::from(is_scan && !request.bypass_cache);
        }
        self.reads.begun += 1;
        let (page, pinned) = (std::mem::take(page), HashMap::new());
        let since_us = self.clock.elapsed_us();
        let pending = PendingRead { tag, request, page, pinned, waiting: 0, since_us };
        self.wait(self.reads.begun, pending, progress);
        Ok(false)
    }

    /// Reads as far as blocks are in memory and time allows.
    fn read_on(
        &mut self,
        request: &mut ReadRequest,
        page: &mut Page,
        pinned: &HashMap<BlockId, Arc<Block>>,
        time: &mut TimeSlice<'_>,
    ) -> Result<Progress, Refused> {
        let table = self.tables.get(&request.table).ok_or(Refused::UnknownTable)?;
        let mut cost = page.cost;
        let scanned_before = cost.rows_scanned;
        let (cache, metrics) = (&mut self.cache, &mut self.metrics);
        let (mut hits, mut blocks_found) = (0, 0);
        let mut find = |id: BlockId| {
            if let Some(block) = pinned.get(&id) {
                hits += 1;
                return Some(Arc::clone(block));
            }
            let found = cache.get(id);
            blocks_found += u64::from(found.is_some());
            found
        };
        let progress = read(table, request, page, &mut find, &mut cost, time);
        metrics.cache_hits += hits + blocks_found;
        metrics.rows_scanned += cost.rows_scanned - scanned_before;
        cost.blocks_found += blocks_found;
        if let Progress::Missing(missing) = &progress {
            cost.blocks_read += missing.len() as u64;
        }
        page.cost = cost;
        Ok(progress)
    }

    /// Keeps a read until it can go on.
    fn wait(&mut self, number: u64, pending: PendingRead, progress: Progress) {
        self.reads.all.insert(number, pending);
        match progress {
            Progress::Missing(missing) => self.fetch(number, &missing),
            Progress::Complete | Progress::TimeIsOver => self.reads.long.push_back(number),
        }
    }

    /// Goes on with reads whose blocks have come, and then with long ones: each for a moment, and
    /// as many of them as there is time for in a turn.
    pub(in crate::store) fn read_ready(&mut self) {
        if !self.reads.is_ready() {
            return;
        }
        let clock = Arc::clone(&self.clock);
        let mut turn = TimeSlice::new(&*clock, TURN_US);
        turn.look();
        // Those that come back in this turn have had their moment.
        let mut long_left = self.reads.long.len().max(1);
        while !turn.is_over() {
            let Some(number) = self.reads.fresh.pop_front() else { break };
            self.resume(number, &mut TimeSlice::new(&*clock, READ_US));
            turn.look();
        }
        // One of the long ones goes on however many fresh ones there are.
        while long_left > 0 {
            let Some(number) = self.reads.long.pop_front() else { return };
            self.resume(number, &mut TimeSlice::new(&*clock, READ_US));
            turn.look();
            long_left = if turn.is_over() { 0 } else { long_left - 1 };
        }
    }

    /// Asks for blocks that a read waits for.
    fn fetch(&mut self, number: u64, missing: &[BlockId]) {
        let Some(pending) = self.reads.all.get_mut(&number) else { return };
        pending.waiting += missing.len();
        let table = self.tables.get(&pending.request.table);
        let sstables = table.map_or(&[][..], |table| &table.sstables);
        let mut operations = Vec::new();
        for id in missing {
            let ticket = self.reads.fetching.get(id);
            if let Some(InFlight::Block { reads, .. }) =
                ticket.and_then(|job| self.jobs.get_mut(job))
            {
                reads.push(number);
                continue;
            }
            let sstable = sstables.iter().find(|sstable| sstable.summary.id == id.0);
            let sstable = sstable.expect("a missing block is one of an sstable of the table");
            let location = sstable.index.location(id.1).expect("it is one of its blocks");
            let (offset, bytes) = (location.offset, location.bytes as usize);
            let buffer = Buffer::with_capacity(bytes);
            let operation = Operation::Read { file: sstable.file, offset, bytes, buffer };
            operations.push((*id, offset, operation));
        }
        for (id, offset, operation) in operations {
            self.metrics.cache_misses += 1;
            let job = InFlight::Block { id, offset, reads: vec![number] };
            let ticket = self.submit(operation, job);
            self.reads.fetching.insert(id, ticket);
        }
    }

    /// A block was read, for these reads.
    pub(in crate::store) fn block_read(
        &mut self,
        id: BlockId,
        offset: u64,
        reads: &[u64],
        over: Completion,
    ) {
        self.reads.fetching.remove(&id);
        let bytes = over.buffer.unwrap_or_default();
        let decoded = match over.result {
            Ok(_) => Block::decode(id.0, offset, bytes.as_slice())
                .map_err(|error| Error::corrupt(id.0.file_name(), offset, error.to_string())),
            Err(error) => Err(Error::io(id.0.file_name(), error)),
        };
        match decoded.map(Arc::new).map_err(Arc::new) {
            Ok(block) => {
                let is_kept = |read: &u64| {
                    self.reads.all.get(read).is_none_or(|pending| !pending.request.bypass_cache)
                };
                if reads.iter().any(is_kept) {
                    self.cache.put(id, Arc::clone(&block));
                }
                for number in reads {
                    let Some(pending) = self.reads.all.get_mut(number) else { continue };
                    pending.pinned.insert(id, Arc::clone(&block));
                    pending.waiting -= 1;
                    if pending.waiting == 0 {
                        self.reads.fresh.push_back(*number);
                    }
                }
            }
            Err(error) => {
                for number in reads {
                    if let Some(pending) = self.reads.all.remove(number) {
                        self.metrics.reads_failed += 1;
                        self.done.push(Done::ReadFailed(pending.tag, Arc::clone(&error)));
                    }
                }
            }
        }
    }

    /// Goes on with a read that does not wait any more.
    fn resume(&mut self, number: u64, time: &mut TimeSlice<'_>) {
        let Some(mut pending) = self.reads.all.remove(&number) else { return };
        let pinned = std::mem::take(&mut pending.pinned);
        let now_us = self.clock.elapsed_us();
        pending.page.cost.waited_us += now_us - pending.since_us;
        pending.since_us = now_us;
        let PendingRead { tag, request, page, .. } = &mut pending;
        match self.read_on(request, page, &pinned, time) {
            Ok(Progress::Complete) => {
                self.metrics.rows_returned += page.len() as u64;
                self.done.push(Done::Read(*tag, Box::new(std::mem::take(page))));
            }
            Ok(progress) => {
                // Blocks that it may need again stay with it, however small the cache is.
                pending.pinned = pinned;
                self.wait(number, pending, progress);
            }
            // The table was dropped while it was read: it has no rows.
            Err(_) => self.done.push(Done::Read(*tag, Box::default())),
        }
    }
}
