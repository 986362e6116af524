//! The steps of a write that depends on what is there, each as far as it goes at once.

use super::{
    kept::{DependentStage, DependentWrite, with_writes},
    latch::Claim,
};
use crate::{
    budget::Share,
    cql::{self, BindContext, KnownRows, NotApplied, RowName},
    io::TimeSlice,
    mutation::token::shard_of,
    protocol::code,
    shard::{
        Core,
        admission::ROW_READ_BYTES,
        failure::Failure,
        peers::Message,
        read::failed,
        session::Session,
        tag::{Origin, SlabKey, Waiter},
        tracing::page_activity,
        write::Owner,
    },
    store::{Page, Partitions, ReadRequest},
};
use std::{ops::Bound, sync::Arc};

/// What became of going on with a write.
pub(super) enum DependentStep {
    /// It waits for something that will be heard of.
    Waits,
    /// It waits for memory.
    HeldBack,
    /// It has had its share of the turn.
    Paused,
    /// What it asks for is not so.
    NotApplied(NotApplied),
}

impl Core {
    /// Goes on until something must be waited for.
    pub(super) fn step_of_dependent(
        &mut self,
        session: &Session,
        slot: SlabKey,
        write: &mut DependentWrite,
        time: &mut TimeSlice<'_>,
    ) -> Result<DependentStep, Failure> {
        // Who does not take its answers holds no latch.
        if write.claimed == 0 && !self.has_room_for(session, ROW_READ_BYTES) {
            return Ok(DependentStep::HeldBack);
        }
        while let Some((owner, name)) = write.latches.get(write.latched) {
            let (owner, name) = (*owner, name.clone());
            write.claimed = write.latched + 1;
            if owner != self.shard {
                self.trace(write.address, |_| format!("Asking shard {owner} for the latch"));
                self.peers.tell(owner, Message::Claim { slot, name });
                return Ok(DependentStep::Waits);
            }
            if !self.claim(name, Claim { shard: self.shard, slot }) {
                self.trace(write.address, |_| "Waiting for the latch".to_owned());
                return Ok(DependentStep::Waits);
            }
            write.latched += 1;
        }
        if write.stage == DependentStage::Waiting {
            if self.metrics.memory.is_over(Share::Answers) {
                return Ok(DependentStep::HeldBack);
            }
            self.metrics.latch_wait.record(self.turn_us - write.since_us);
            self.trace(write.address, |_| "Holding the latch of the partition".to_owned());
            write.stage = DependentStage::Reading;
            write.read_s = self.clock.now_us().div_euclid(1_000_000);
            write.answers.set(ROW_READ_BYTES);
        }
        while let Some(row) = write.rows.get(write.pages.len()) {
            if time.is_over() {
                return Ok(DependentStep::Paused);
            }
            let (owner, request) =
                (shard_of(row.token, self.shards), request_of(row, write.read_s));
            let tag = Origin { shard: self.shard, waiter: Waiter::Dependent(slot) }.pack();
            if owner != self.shard {
                self.peers.tell(owner, Message::Read { tag, request: Box::new(request) });
                return Ok(DependentStep::Waits);
            }
            match self.store.read(tag, &request, &mut self.page, time) {
                Ok(true) => {
                    let page = std::mem::take(&mut self.page);
                    self.take_in(write, page)?;
                }
                Ok(false) => return Ok(DependentStep::Waits),
                Err(error) => return Err(failed(&error.to_string())),
            }
        }
        self.decide(slot, write)
    }

    /// Takes note of what was found of the next row.
    pub(super) fn take_in(&self, write: &mut DependentWrite, page: Page) -> Result<(), Failure> {
        self.trace(write.address, |_| page_activity(&page));
        write.pages.push(page);
        let bytes = write.pages.iter().map(Page::bytes).sum::<usize>();
        // Once as they are, and once as an answer.
        write.answers.set(ROW_READ_BYTES + 2 * bytes);
        if bytes as u64 > self.metrics.memory.most(Share::Answers) / 4 {
            let what = "the rows that the write depends on take more memory than there is";
            return Err(Failure::new(code::OVERLOADED, what));
        }
        Ok(())
    }

    /// Writes, if what the write asks for is so.
    fn decide(
        &mut self,
        slot: SlabKey,
        write: &mut DependentWrite,
    ) -> Result<DependentStep, Failure> {
        let context = match write.timestamp_us {
            Some(given_us) => self.context(Some(given_us)),
            None => self.context_after(write.newest_us())?,
        };
        let known = KnownRows { rows: &write.rows, pages: &write.pages, now_s: write.read_s };
        let (scratch, out) = (&mut self.scratch, &mut self.mutations);
        out.clear();
        let told = with_writes(&write.statements, |writes| {
            if cql::are_met(writes, known, &context, scratch)? {
                return cql::bind_all(writes, known, context, scratch, out).map(|()| None);
            }
            Ok(Some(cql::not_applied(writes, write.is_batch, known)))
        })?;
        if let Some(told) = told {
            self.metrics.not_applied.add(1);
            self.trace(write.address, |_| "The conditions do not hold".to_owned());
            return Ok(DependentStep::NotApplied(told));
        }
        self.trace(write.address, |core| {
            format!("Writing {} bytes, as what it depends on is so", core.mutations.len())
        });
        write.stage = DependentStage::Writing;
        write.pages = Vec::new();
        write.answers.set(0);
        self.write_dependent(slot, write)?;
        Ok(DependentStep::Waits)
    }

    /// Writes all of `self.mutations`, to each shard its part.
    fn write_dependent(
        &mut self,
        slot: SlabKey,
        write: &mut DependentWrite,
    ) -> Result<(), Failure> {
        let tag = Origin { shard: self.shard, waiter: Waiter::Dependent(slot) }.pack();
        let mut mutations = std::mem::take(&mut self.mutations);
        let written = match self.cut(&mutations) {
            Err(failure) => Err(failure),
            Ok(Owner::One(owner)) => {
                write.parts_left = 1;
                self.write_part(owner, tag, &mut mutations).map_err(Failure::from)
            }
            Ok(Owner::Nobody) => {
                // Answered like one that was written, in the next turn.
                write.parts_left = 1;
                self.peers.tell(self.shard, Message::Wrote { tag, refused: None });
                Ok(())
            }
            Ok(Owner::Several) if write.is_whole => {
                write.parts_left = 1;
                let bytes = mutations.len();
                self.mutations = mutations;
                return self.write_logged(write.address, Some(slot), bytes);
            }
            Ok(Owner::Several) => {
                let mut split = std::mem::take(&mut self.split);
                let parts = (0..self.shards).zip(&mut split);
                for (owner, part) in parts.filter(|(_, part)| !part.is_empty()) {
                    write.parts_left += 1;
                    if let Err(refused) = self.write_part(owner, tag, part) {
                        let refused = Some(refused);
                        self.peers.tell(self.shard, Message::Wrote { tag, refused });
                    }
                }
                self.split = split;
                Ok(())
            }
        };
        self.mutations = mutations;
        written
    }

    /// This moment, for a write that is to be newer than something, whatever the clock does.
    fn context_after(&mut self, newest_us: Option<i64>) -> Result<BindContext, Failure> {
        let mut context = self.context(None);
        if let Some(newest_us) = newest_us {
            let Some(next_us) = newest_us.checked_add(1) else {
                let what = "no write can be newer than a value of this row, whose timestamp is the \
                            greatest that there is";
                return Err(Failure::invalid(what));
            };
            context.timestamp_us = context.timestamp_us.max(next_us);
        }
        Ok(context)
    }
}

/// Everything of a row, of the static row with it, and when that was written.
fn request_of(row: &RowName, now_s: i64) -> ReadRequest {
    let partitions = Partitions::One { token: row.token, key: row.key.to_vec() };
    let one = || Bound::Included(row.ck.clone());
    let (from, to) = match row.is_static() {
        true if row.with_first => (Bound::Unbounded, Bound::Unbounded),
        // No row lies between these.
        true => (Bound::Excluded(Vec::new()), Bound::Excluded(vec![0])),
        false => (one(), one()),
    };
    ReadRequest {
        partitions,
        from,
        to,
        rows_max: 1,
        static_rows: row.static_rows,
        columns: Some(Arc::clone(&row.columns)),
        newest: true,
        newest_of_all: row.hides_others,
        ..ReadRequest::scan(row.table, i64::MIN, i64::MAX, now_s)
    }
}
