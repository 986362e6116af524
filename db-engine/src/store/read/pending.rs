//! Reads that wait: for blocks of sstables, or for their next share of time.

use std::{collections::VecDeque, ops::RangeInclusive, sync::Arc};

use hashbrown::HashMap;

use super::{
    super::{
        Done, Page, Partitions, ReadRequest, Refused, Store, Tag, table::TableData, turn::InFlight,
    },
    MissingBlock, Progress,
    cache::{BlockId, CacheUse},
    idle::IdleMemory,
    merge::Merge,
    suspended::SuspendedReads,
};
use crate::{
    budget::{Budget, Charge, Share},
    error::Error,
    io::{Completion, Operation, Ticket, TimeSlice},
    mutation::TableNumber,
};

/// Microseconds that reads which have waited take in one turn, all together.
const TURN_US: u64 = 500;

/// All reads of a shard.
pub(in crate::store) struct Reads {
    /// The tokens of the shard.
    own: RangeInclusive<i64>,
    /// Where the bytes that reads hold while they wait are counted.
    budget: Arc<Budget>,
    idle: IdleMemory,
    /// Reads that wait to be asked for their next page.
    pub suspended: SuspendedReads,
    /// Reads that wait, by number.
    waiting: HashMap<u64, PendingRead>,
    begun: u64,
    /// Whether one has begun since the last block of the log.
    since_log_block: bool,
    /// Reads whose blocks have come. They are first: most need only a moment.
    fresh: VecDeque<u64>,
    /// Reads that have used up a share of time and have more to do.
    long: VecDeque<u64>,
    /// Reads that have made a large page in this turn: it is for the next one.
    made: Vec<u64>,
    /// Blocks that are being read from disk.
    fetching: HashMap<BlockId, Ticket>,
    /// Blocks that have come and are not decoded yet.
    arrived: HashMap<BlockId, ArrivedBlock>,
    /// Which of them came first.
    arrivals: VecDeque<BlockId>,
}

/// A block that was read from disk, for these reads.
pub(in crate::store) struct ArrivedBlock {
    pub block: MissingBlock,
    pub offset: u64,
    pub reads: Vec<u64>,
    pub over: Completion,
    /// The memory that it was read into.
    pub held: Charge,
}

/// How a read uses blocks.
fn cache_use(request: &ReadRequest) -> CacheUse {
    match request.partitions {
        Partitions::One { .. } => CacheUse::Again,
        Partitions::Range { .. } => CacheUse::Scan,
    }
}

/// Whether a page is to be taken in another turn than it was made.
fn is_for_later(page: &Page, time: &TimeSlice<'_>) -> bool {
    page.is_large() && time.is_over()
}

/// A read that waits.
struct PendingRead {
    tag: Tag,
    request: ReadRequest,
    page: Page,
    merge: Box<Merge>,
    /// What it holds, its page not counted before that is complete.
    held: Charge,
    held_bytes: usize,
    /// How many blocks must come before it can go on.
    missing: usize,
    /// The page is complete.
    is_made: bool,
    /// Since when it waits, in microseconds.
    since_us: u64,
}

impl Reads {
    /// No reads yet, of a shard with these tokens.
    pub fn new(own: RangeInclusive<i64>) -> Self {
        Self {
            own,
            budget: Arc::default(),
            idle: IdleMemory::default(),
            suspended: SuspendedReads::default(),
            waiting: HashMap::new(),
            begun: 0,
            since_log_block: false,
            fresh: VecDeque::new(),
            long: VecDeque::new(),
            made: Vec::new(),
            fetching: HashMap::new(),
            arrived: HashMap::new(),
            arrivals: VecDeque::new(),
        }
    }

    /// Counts what reads hold from now on there.
    pub fn charge_to(&mut self, budget: &Arc<Budget>) {
        self.budget = Arc::clone(budget);
    }

    /// Keeps no reads of a table, some of whose sstables do not count any more, for their next
    /// pages: neither those that are kept nor those that are under way.
    pub fn keep_none_of(&mut self, table: TableNumber) {
        self.suspended.forget(table);
        for read in self.waiting.values_mut().filter(|read| read.request.table == table) {
            read.request.goes_on = false;
        }
    }

    /// Has reads under way take note of what was flushed of a table: it may be compacted, and
    /// deletions in it forgotten, before they go on, still with the older sstables that hold what
    /// was deleted.
    pub fn look_at(&mut self, number: TableNumber, table: &TableData) {
        for read in self.waiting.values_mut().filter(|read| read.request.table == number) {
            read.merge.look_at(table);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A block of the log is begun. Returns whether reads have been rare: none waits, and none has
    /// begun since the block before.
    pub fn log_block(&mut self) -> bool {
        !std::mem::take(&mut self.since_log_block) && self.is_empty()
    }

    /// A turn is over: pages that were made in it may be taken.
    pub fn turn_end(&mut self) {
        self.long.extend(self.made.drain(..));
    }

    /// Whether one of them can go on.
    pub fn is_ready(&self) -> bool {
        !self.fresh.is_empty() || !self.long.is_empty() || !self.arrived.is_empty()
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
        let (merge, progress) = self.try_read(request, page, time)?;
        if matches!(progress, Progress::Complete) && !is_for_later(page, time) {
            self.read_over(merge, request, page);
            return Ok(true);
        }
        if matches!(progress, Progress::Missing(_)) {
            self.metrics.reads_from_disk += 1;
            let is_scan = matches!(request.partitions, Partitions::Range { .. });
            self.metrics.scans_filling_cache += u64::from(is_scan && !request.bypass_cache);
        }
        self.reads.begun += 1;
        let (request, page) = (request.clone(), std::mem::take(page));
        let held = Charge::new(&self.reads.budget, Share::Answers);
        let since_us = self.clock.elapsed_us();
        let (held_bytes, missing, is_made) = (0, 0, false);
        let pending =
            PendingRead { tag, request, page, merge, held, held_bytes, missing, is_made, since_us };
        self.wait(self.reads.begun, pending, progress);
        Ok(false)
    }

    /// Fills `page` if all that it needs is in memory and there is time enough (true). Else
    /// nothing is begun (false).
    ///
    /// # Errors
    ///
    /// As [`Store::read`].
    pub fn read_at_once(
        &mut self,
        request: &ReadRequest,
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> std::result::Result<bool, Refused> {
        let (merge, progress) = self.try_read(request, page, time)?;
        let is_complete = matches!(progress, Progress::Complete);
        if is_complete {
            self.read_over(merge, request, page);
        } else {
            self.reads.idle.keep_merge(merge);
        }
        Ok(is_complete)
    }

    /// Reads as far as it goes at once.
    #[inline]
    fn try_read(
        &mut self,
        request: &ReadRequest,
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> std::result::Result<(Box<Merge>, Progress), Refused> {
        page.clear();
        self.metrics.reads += 1;
        self.reads.since_log_block = true;
        if let Some(table) = self.tables.get_mut(&request.table) {
            table.counts.reads += 1;
        }
        let mut merge = self.merge_for(request);
        let progress = self.run(&mut merge, request, page, time)?;
        Ok((merge, progress))
    }

    /// What reads this: where it has got to for the page before, or from its beginning.
    fn merge_for(&mut self, request: &ReadRequest) -> Box<Merge> {
        if request.after.is_some() {
            let suspended = self.reads.suspended.take(request, self.clock.elapsed_us());
            self.metrics.reads_resumed += u64::from(suspended.is_some());
            self.metrics.reads_not_resumed += u64::from(suspended.is_none());
            if let Some(merge) = suspended {
                return merge;
            }
        }
        self.reads.idle.merge()
    }

    /// A page is complete. What read it is kept for the next one, or its memory for another read.
    fn read_over(&mut self, merge: Box<Merge>, request: &ReadRequest, page: &Page) {
        self.metrics.rows_returned += page.len() as u64;
        let now_us = if page.more() { self.clock.elapsed_us() } else { 0 };
        if let Some(merge) = self.reads.suspended.put(merge, request, page, now_us) {
            self.reads.idle.keep_merge(merge);
        }
    }

    /// Reads as far as blocks are in memory and time allows.
    fn run(
        &mut self,
        merge: &mut Merge,
        request: &ReadRequest,
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> Result<Progress, Refused> {
        let table = self.tables.get(&request.table).ok_or(Refused::UnknownTable)?;
        if self.applying.as_ref().is_some_and(|applying| applying.is_half_seen_by(request)) {
            return Ok(Progress::TimeIsOver);
        }
        if let Partitions::One { token, .. } = request.partitions
            && request.newest_of_all
            && let Some(newest_us) = table.newest_us(token)
        {
            page.note_timestamp(newest_us);
        }
        let before = page.cost.rows_scanned;
        let (cache, mut found, by) = (&mut self.cache, 0, cache_use(request));
        let mut find = |id: BlockId| {
            let block = cache.get(id, by);
            found += u64::from(block.is_some());
            block
        };
        let progress = merge.run((table, request), &self.reads.own, page, &mut find, time);
        self.metrics.cache_hits += found;
        self.metrics.rows_scanned += page.cost.rows_scanned - before;
        page.cost.blocks_found += found;
        if let Progress::Missing(missing) = &progress {
            page.cost.blocks_read += missing.len() as u64;
        }
        Ok(progress)
    }

    /// Keeps a read until it can go on.
    fn wait(&mut self, number: u64, mut pending: PendingRead, progress: Progress) {
        pending.is_made = matches!(progress, Progress::Complete);
        let page_bytes = if pending.is_made { pending.page.bytes() } else { 0 };
        pending.held_bytes = size_of::<PendingRead>() + pending.merge.bytes() + page_bytes;
        pending.held.set(pending.held_bytes);
        match progress {
            Progress::Missing(missing) => {
                pending.missing = missing.len();
                self.reads.waiting.insert(number, pending);
                self.fetch(number, missing);
            }
            Progress::TimeIsOver => {
                self.reads.waiting.insert(number, pending);
                self.reads.long.push_back(number);
            }
            Progress::Complete => {
                self.reads.waiting.insert(number, pending);
                self.reads.made.push(number);
            }
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
        let read_us = self.config.read_us;
        // Those that come back in this turn have had their moment.
        let mut long_left = self.reads.long.len().max(1);
        while !turn.is_over() {
            let Some(number) = self.reads.fresh.pop_front() else { break };
            if self.resume(number, &mut TimeSlice::new(&*clock, read_us)) {
                break;
            }
            turn.look();
        }
        // One of the long ones goes on however many fresh ones there are.
        while long_left > 0 {
            let Some(number) = self.reads.long.pop_front() else { return };
            if self.resume(number, &mut TimeSlice::new(&*clock, read_us)) {
                return;
            }
            turn.look();
            long_left = if turn.is_over() { 0 } else { long_left - 1 };
        }
    }

    /// Asks for all blocks that a read waits for, at once.
    fn fetch(&mut self, number: u64, missing: Vec<MissingBlock>) {
        for (sstable, block) in missing {
            let id = (sstable.summary.id, block);
            let ticket = self.reads.fetching.get(&id);
            if let Some(InFlight::Block { reads, .. }) =
                ticket.and_then(|job| self.jobs.get_mut(job))
            {
                reads.push(number);
                continue;
            }
            if let Some(arrived) = self.reads.arrived.get_mut(&id) {
                arrived.reads.push(number);
                continue;
            }
            let location = sstable.index.location(block).expect("it is one of its blocks");
            let (offset, bytes) = (location.offset, location.bytes as usize);
            let mut held = Charge::new(&self.reads.budget, Share::Answers);
            held.set(bytes);
            let buffer = self.reads.idle.buffer(bytes);
            let operation = Operation::Read { file: sstable.file, offset, bytes, buffer };
            self.metrics.cache_misses += 1;
            let block = (sstable, block);
            let job = InFlight::Block { block, offset, reads: vec![number], held };
            let ticket = self.submit(operation, job);
            self.reads.fetching.insert(id, ticket);
        }
    }

    /// A block was read.
    pub(in crate::store) fn block_read(&mut self, arrived: ArrivedBlock) {
        let id = (arrived.block.0.summary.id, arrived.block.1);
        self.reads.fetching.remove(&id);
        self.reads.arrivals.push_back(id);
        self.reads.arrived.insert(id, arrived);
    }

    /// Decodes blocks that have come, as many as there is time for: one of large rows takes
    /// milliseconds.
    pub(in crate::store) fn decode_arrived(&mut self) {
        if self.reads.arrived.is_empty() {
            return;
        }
        let clock = Arc::clone(&self.clock);
        let mut time = TimeSlice::new(&*clock, TURN_US);
        while !time.is_over()
            && let Some(id) = self.reads.arrivals.pop_front()
            && let Some(arrived) = self.reads.arrived.remove(&id)
        {
            time.count(self.decode(arrived));
        }
    }

    /// Gives a block to those who wait for it; says how many bytes it has.
    fn decode(&mut self, arrived: ArrivedBlock) -> usize {
        let ArrivedBlock { block, offset, reads, over, held } = arrived;
        let id = (block.0.summary.id, block.1);
        let bytes = over.buffer.unwrap_or_default();
        let decoded = match over.result {
            Ok(_) => (self.cache.spare())
                .decode_next(id.0, offset, bytes.as_slice())
                .map_err(|error| Error::corrupt(id.0.file_name(), offset, error.to_string())),
            Err(error) => Err(Error::io(id.0.file_name(), error)),
        };
        self.reads.idle.keep_buffer(bytes);
        drop(held);
        match decoded.map(Arc::new).map_err(Arc::new) {
            Ok(block) => {
                let uses = reads.iter().filter_map(|read| match self.reads.waiting.get(read) {
                    Some(pending) if pending.request.bypass_cache => None,
                    Some(pending) => Some(cache_use(&pending.request)),
                    None => Some(CacheUse::Again),
                });
                if let Some(by) = uses.min() {
                    self.cache.put(id, Arc::clone(&block), by);
                }
                for number in &reads {
                    let Some(pending) = self.reads.waiting.get_mut(number) else { continue };
                    pending.held_bytes += block.memory_bytes();
                    pending.held.set(pending.held_bytes);
                    pending.merge.take_block(id, &block);
                    pending.missing -= 1;
                    if pending.missing == 0 {
                        self.reads.fresh.push_back(*number);
                    }
                }
                block.memory_bytes()
            }
            Err(error) => {
                for number in &reads {
                    if let Some(pending) = self.reads.waiting.remove(number) {
                        self.metrics.reads_failed += 1;
                        self.done.push(Done::ReadFailed(pending.tag, Arc::clone(&error)));
                    }
                }
                0
            }
        }
    }

    /// Goes on with a read that does not wait any more. Gives whether its page is there and large:
    /// then taking it in is enough for a turn.
    fn resume(&mut self, number: u64, time: &mut TimeSlice<'_>) -> bool {
        let Some(mut pending) = self.reads.waiting.remove(&number) else { return false };
        let now_us = self.clock.elapsed_us();
        pending.page.cost.waited_us += now_us - pending.since_us;
        pending.since_us = now_us;
        let PendingRead { tag, request, page, merge, is_made, .. } = &mut pending;
        let was_made = *is_made;
        let progress =
            if was_made { Ok(Progress::Complete) } else { self.run(merge, request, page, time) };
        match progress {
            Ok(Progress::Complete) if was_made || !is_for_later(page, time) => {
                let PendingRead { tag, request, page, merge, .. } = pending;
                self.read_over(merge, &request, &page);
                let is_large = page.is_large();
                self.done.push(Done::Read(tag, Box::new(page)));
                return is_large;
            }
            Ok(progress) => self.wait(number, pending, progress),
            // The table was dropped while it was read: it has no rows.
            Err(_) => self.done.push(Done::Read(*tag, Box::default())),
        }
        false
    }
}
