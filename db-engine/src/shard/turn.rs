//! What a shard does in a turn once its clients' requests have been run: it hears the others and
//! its store, answers whom it can, hands the turn's writes to the log, and tells the others.

use super::{
    Core, Shard,
    ddl::{self, SchemaAction},
    dependent::latch::Claim,
    failure::Failure,
    peers::{Message, Parcel},
    read::ASKED_US,
    session::{Address, Session, Sessions},
    tag::{Origin, Waiter},
};
use crate::{
    budget::Share,
    io::TimeSlice,
    protocol::{code, result},
    schema::SchemaChange,
    store::{Done, Fatal, Page, Tag},
};
use std::{sync::Arc, time::Duration};

/// When to try again what the store, or a peer, had no room for.
const RETRY: Duration = Duration::from_millis(10);

/// When to look again for room for answers, if nothing happens: connections that take none of
/// theirs are closed by then.
const RELIEF: Duration = Duration::from_millis(100);

impl Shard {
    /// Everything but the sockets.
    ///
    /// # Errors
    /// Storage has failed: nothing more may be acknowledged.
    pub fn turn(&mut self, sessions: &mut dyn Sessions) -> Result<(), Fatal> {
        let core = &mut self.core;
        core.again = false;
        core.hear_peers(sessions);
        core.retry();
        core.go_on(sessions);
        core.go_on_with_dependents(sessions);
        core.look_at_clock();
        core.hear_store(sessions)?;
        core.go_on_with_errands();
        core.change_schema(sessions)?;
        core.store.turn_end();
        core.peers.deliver();
        core.publish();
        let evictions = core.shared.evictions();
        if core.learn_schema() || evictions != core.evictions {
            core.evictions = evictions;
            self.plans.sweep();
            self.core.count_prepared();
        }
        Ok(())
    }
}

impl Core {
    pub(super) fn timeout(&self) -> Option<Duration> {
        let can_go_on = !self.round_robin.is_empty() || self.dependents.can_go_on();
        if self.again || can_go_on || self.may_begin_held_back() {
            return Some(Duration::ZERO);
        }
        let retry = if !self.retries.is_empty() {
            Some(RETRY)
        } else if self.is_any_held_back() || self.is_short_of_answers() {
            Some(RELIEF)
        } else {
            None
        };
        let deadlines = [self.store.deadline_us(), self.dependents.due_us()];
        let deadline = deadlines.into_iter().flatten().min().map(|deadline_us| {
            Duration::from_micros(deadline_us.saturating_sub(self.clock.elapsed_us()))
        });
        match (retry, deadline) {
            (Some(retry), Some(deadline)) => Some(retry.min(deadline)),
            (retry, deadline) => retry.or(deadline),
        }
    }

    fn hear_peers(&mut self, sessions: &mut dyn Sessions) {
        let mut parcels = std::mem::take(&mut self.parcels);
        self.peers.own().collect(&mut parcels);
        if parcels.is_empty() {
            self.parcels = parcels;
            return;
        }
        // Whoever sends a write of a new table has published the table before.
        self.learn_schema();
        let clock = Arc::clone(&self.clock);
        let mut time = TimeSlice::new(&*clock, ASKED_US);
        for parcel in parcels.drain(..) {
            self.open(sessions, parcel, &mut time);
        }
        self.parcels = parcels;
    }

    fn open(&mut self, sessions: &mut dyn Sessions, parcel: Parcel, time: &mut TimeSlice<'_>) {
        let from = parcel.from;
        let mut bytes = parcel.bytes.as_slice();
        for message in parcel.messages {
            match message {
                Message::Write { tag, bytes: length } => {
                    let (mutations, rest) = bytes.split_at(length as usize);
                    bytes = rest;
                    if let Err(refused) = self.store.write(tag, mutations) {
                        let refused = Some(refused);
                        self.peers.tell(from, Message::Wrote { tag, refused });
                    }
                }
                Message::LargeWrite { tag, mut mutations } => {
                    if let Err(refused) = self.store.take_write(tag, &mut mutations) {
                        let refused = Some(refused);
                        self.peers.tell(from, Message::Wrote { tag, refused });
                    }
                }
                Message::Wrote { tag, refused } => {
                    let waiter = Origin::unpack(tag).waiter;
                    self.wrote(sessions, waiter, from, refused);
                }
                Message::Read { tag, request } => self.read_for(from, tag, &request, time),
                Message::Page { tag, page } => {
                    self.page_came(sessions, Origin::unpack(tag).waiter, page);
                }
                Message::Claim { slot, name } => self.latch(name, Claim { shard: from, slot }),
                Message::Latched { slot } => self.latched(slot),
                Message::Release { slot, name } => self.unlatch(name, Claim { shard: from, slot }),
                Message::Change(request) => {
                    let next = self.changes.as_mut().and_then(|all| all.request(*request));
                    self.next(sessions, next);
                }
                Message::Changed(answer) => self.changed(sessions, *answer),
                Message::Learn { change } => {
                    tell_clients(sessions, change.as_ref());
                    self.peers.tell(from, Message::Learnt);
                }
                Message::Learnt => self.learnt(sessions, from),
                Message::Split(split) => self.store.take_over(*split),
                Message::Errand(errand) => self.run_errand(errand),
            }
        }
    }

    fn hear_store(&mut self, sessions: &mut dyn Sessions) -> Result<(), Fatal> {
        let mut done = std::mem::take(&mut self.done);
        self.store.poll(&mut done)?;
        for done in done.drain(..) {
            match done {
                Done::Write(tag) => {
                    let origin = Origin::unpack(tag);
                    if origin.shard == self.shard {
                        self.wrote(sessions, origin.waiter, self.shard, None);
                    } else {
                        self.peers.tell(origin.shard, Message::Wrote { tag, refused: None });
                    }
                }
                Done::WriteFailed(tag, refused) => {
                    let origin = Origin::unpack(tag);
                    if origin.shard == self.shard {
                        self.wrote(sessions, origin.waiter, self.shard, Some(refused));
                    } else {
                        let refused = Some(refused);
                        self.peers.tell(origin.shard, Message::Wrote { tag, refused });
                    }
                }
                Done::Intent(tag) => {
                    if let Waiter::Parts(slot) = Origin::unpack(tag).waiter {
                        self.intended(slot);
                    }
                }
                Done::IntentFailed(tag, refused) => {
                    if let Waiter::Parts(slot) = Origin::unpack(tag).waiter {
                        self.not_intended(sessions, slot, refused);
                    }
                }
                Done::Split(shard, split) => self.peers.tell(shard, Message::Split(split)),
                Done::Read(tag, page) => self.hand_over(sessions, tag, Ok(page)),
                Done::ReadFailed(tag, error) => {
                    log::error!(error:% = error; "a read has failed");
                    self.hand_over(sessions, tag, Err(error.to_string()));
                }
            }
        }
        self.done = done;
        Ok(())
    }

    /// Gives a page to the shard that has asked for it.
    fn hand_over(
        &mut self,
        sessions: &mut dyn Sessions,
        tag: Tag,
        page: Result<Box<Page>, String>,
    ) {
        let origin = Origin::unpack(tag);
        if origin.shard == self.shard {
            self.page_came(sessions, origin.waiter, page);
        } else {
            self.peers.tell(origin.shard, Message::Page { tag, page });
        }
    }

    /// A page has come that somebody here waits for.
    fn page_came(
        &mut self,
        sessions: &mut dyn Sessions,
        waiter: Waiter,
        mut page: Result<Box<Page>, String>,
    ) {
        match waiter {
            Waiter::Read(slot) => {
                self.read_done(sessions, slot, page.as_deref_mut().map_err(|error| error.as_str()));
            }
            Waiter::Dependent(slot) => self.dependent_read(sessions, slot, page),
            Waiter::Client(_) | Waiter::Parts(_) => {}
        }
    }

    /// Takes over the schema if it has changed; returns whether it had.
    pub(super) fn learn_schema(&mut self) -> bool {
        if self.shared.version() == self.schema_version {
            return false;
        }
        let (version, catalog) = self.shared.schema();
        let (new, gone) = catalog.tables_since(&self.catalog);
        for (table, settings) in new {
            self.store.define(table, settings);
        }
        for table in gone {
            self.store.drop_table(table);
        }
        (self.schema_version, self.catalog) = (version, catalog);
        true
    }

    /// On shard 0: goes on with changing the schema.
    fn change_schema(&mut self, sessions: &mut dyn Sessions) -> Result<(), Fatal> {
        loop {
            let Some(changes) = &mut self.changes else { return Ok(()) };
            let now_us = self.clock.now_us();
            let begun = changes.begin(&self.catalog, self.shared.schema_bytes_max(), now_us);
            let polled = changes.poll()?;
            if begun.is_none() && polled.is_none() {
                return Ok(());
            }
            self.next(sessions, begun);
            self.next(sessions, polled);
        }
    }

    fn next(&mut self, sessions: &mut dyn Sessions, next: Option<SchemaAction>) {
        match next {
            None => {}
            Some(SchemaAction::Answer(shard, answer)) if shard == self.shard => {
                self.changed(sessions, answer);
            }
            Some(SchemaAction::Answer(shard, answer)) => {
                self.peers.tell(shard, Message::Changed(Box::new(answer)));
            }
            Some(SchemaAction::Publish(catalog, change)) => {
                self.shared.publish(&catalog);
                self.metrics.schema_changes.add(1);
                self.learn_schema();
                for shard in 1..self.shards {
                    self.peers.tell(shard, Message::Learn { change: change.clone() });
                }
                tell_clients(sessions, change.as_ref());
                self.learnt(sessions, self.shard);
            }
        }
    }

    fn learnt(&mut self, sessions: &mut dyn Sessions, shard: u16) {
        let next = self.changes.as_mut().and_then(|changes| changes.learnt(shard));
        if next.is_some() {
            // The next change may begin.
            self.again = true;
        }
        self.next(sessions, next);
    }

    fn changed(&mut self, sessions: &mut dyn Sessions, answer: ddl::Answer) {
        let address = answer.address;
        let warning = answer.warning.as_slice();
        match answer.result {
            Ok(None) => self.answer(sessions, address, |out| result::void(out, address.stream)),
            Ok(Some(change)) => self.answer(sessions, address, |out| {
                result::schema_change(out, address.stream, &change, warning);
            }),
            Err(failure) => self.answer_failure(sessions, address, &failure),
        }
    }

    /// Notes that a request will be answered later, and gives the name to answer it by.
    pub(super) fn defer(&mut self, session: &mut Session, stream: i16) -> Address {
        session.in_flight += 1;
        self.serving += 1;
        self.address(session, stream)
    }

    /// Answers a request that was deferred, if its client is still there.
    #[inline]
    pub(super) fn answer(
        &mut self,
        sessions: &mut dyn Sessions,
        address: Address,
        put: impl FnOnce(&mut Vec<u8>),
    ) {
        self.serving -= 1;
        self.metrics.served.add(1);
        let Some(session) = sessions.answer(address.place) else {
            self.close_trace(address);
            return;
        };
        session.in_flight -= 1;
        let at = session.out.len();
        put(&mut session.out);
        self.end_trace(address, &mut session.out, at);
    }

    pub(super) fn answer_failure(
        &mut self,
        sessions: &mut dyn Sessions,
        address: Address,
        failure: &Failure,
    ) {
        self.metrics.error(failure.code);
        if failure.code == code::OVERLOADED {
            self.metrics.shed.add(1);
        }
        self.trace(address, |_| format!("Failed: {}", failure.message));
        self.answer(sessions, address, |out| failure.put(out, address.stream));
    }

    /// Shows what the store has counted, if it has counted anything since the last time.
    fn publish(&mut self) {
        let metrics = &self.metrics;
        metrics.serving.set(self.serving);
        if self.shard == 0 {
            metrics.trace_bytes.set(self.node.traces.bytes());
        }
        let stored = self.store.metrics();
        if *stored == self.stored {
            return;
        }
        metrics.memory.set_taken(Share::Memtables, stored.memtable_memory);
        let blocks = stored.cache_bytes
            + stored.index_bytes
            + stored.suspended_bytes
            + stored.compaction_memory;
        metrics.memory.set_taken(Share::Blocks, blocks);
        metrics.log_blocks.set(stored.log_blocks);
        metrics.own_log_blocks.set(stored.own_log_writes);
        metrics.log_bytes.set(stored.log_block_bytes);
        if stored.log_blocks > self.stored.log_blocks {
            // One block at most is written in a turn.
            metrics.log_write.record(stored.log_block_us - self.stored.log_block_us);
        }
        metrics.log_disk_bytes.set(stored.log_bytes);
        metrics.log_segments.set(stored.log_segments);
        metrics.memtable_bytes.set(stored.memtable_bytes);
        metrics.memtable_rows.set(stored.memtable_rows);
        metrics.memtable_flushes.set(stored.flushes);
        metrics.flush_bytes.set(stored.flush_bytes);
        metrics.failed_flushes.set(stored.flushes_no_space);
        metrics.sstables.set(stored.sstables);
        metrics.sstable_bytes.set(stored.sstable_bytes);
        metrics.sstables_expired.set(stored.sstables_expired);
        metrics.compactions.set(stored.compactions_running);
        metrics.compaction_backlog.set(stored.compaction_backlog_bytes);
        metrics.completed_compactions.set(stored.compactions);
        metrics.failed_compactions.set(stored.compactions_failed);
        metrics.compaction_no_space.set(stored.compactions_no_space);
        metrics.compaction_no_memory.set(stored.compactions_no_memory);
        metrics.compaction_read_bytes.set(stored.compaction_read_bytes);
        metrics.compaction_written_bytes.set(stored.compaction_written_bytes);
        metrics.cache_hits.set(stored.cache_hits);
        metrics.cache_misses.set(stored.cache_misses);
        metrics.reads_at_once.set(stored.file_reads_at_once);
        metrics.cache_bytes.set(stored.cache_bytes);
        metrics.total_writes.set(stored.writes);
        metrics.total_reads.set(stored.reads);
        metrics.disk_reads.set(stored.reads_from_disk);
        metrics.resumed_reads.set(stored.reads_resumed);
        metrics.unresumed_reads.set(stored.reads_not_resumed);
        metrics.suspended_bytes.set(stored.suspended_bytes);
        metrics.scan_fills.set(stored.scans_filling_cache);
        metrics.failed_reads.set(stored.reads_failed);
        metrics.rows_scanned.set(stored.rows_scanned);
        metrics.no_space.set(stored.writes_no_space);
        metrics.out_of_space.set(stored.no_space);
        self.stored.clone_from(stored);
    }
}

/// Tells the clients that asked to be told.
fn tell_clients(sessions: &mut dyn Sessions, change: Option<&SchemaChange>) {
    if let Some(change) = change {
        sessions.each_registered(&mut |session| result::schema_event(&mut session.out, change));
    }
}
