//! Writes: of one partition, and of several, which may belong to several shards.
//!
//! A write of one shard is one call of its store, and atomic. A batch over several shards is cut
//! by owner. If it is logged, all of it is first made durable as an intent on the shard of the
//! client; from then on its parts are repeated until all are in, so that a crash in between leaves
//! all or nothing.

use super::{
    Core,
    execute::Binding,
    failure::Failure,
    peers::Message,
    session::{Address, Session, Sessions},
    tag::{Origin, SlabKey, Waiter},
};
use crate::{
    budget::{Charge, Share},
    cql::{BatchPlan, WritePlan},
    mutation::{self, Token, token::shard_of},
    protocol::result,
    store::{Refused, Tag},
};

/// A write in several parts, each of one shard.
pub(super) struct SplitWrite {
    address: Address,
    /// The write that depended on what is there, if it is one, which answers.
    dependent: Option<SlabKey>,
    /// Parts that are not answered.
    left: usize,
    failure: Option<Failure>,
    /// The parts of a logged batch, by shard, kept until they are in.
    logged: Vec<(u16, Vec<u8>)>,
    /// What these take, and those that are on their way to other shards.
    _transit: Option<Charge>,
}

/// A part of a logged batch that its owner could not take yet.
pub(super) struct Retry {
    slot: SlabKey,
    shard: u16,
}

impl Core {
    /// An INSERT, UPDATE or DELETE: of one partition, or else like an unlogged batch.
    #[inline]
    pub(super) fn write(
        &mut self,
        session: &mut Session,
        stream: i16,
        plan: &WritePlan,
        request: &Binding<'_>,
    ) -> Result<(), Failure> {
        if let Some(refused) = request.consistency.refused_for_write() {
            return Err(Failure::invalid(refused));
        }
        self.metrics.writes.add(1);
        self.metrics.query(request.consistency.number());
        let context = self.context(request.timestamp_us);
        self.mutations.clear();
        let out = &mut self.mutations;
        let token = plan.bind(request.values, &context, &mut self.scratch, out)?;
        match token {
            Some(token) => self.write_to(session, stream, shard_of(token, self.shards)),
            None => self.write_bound(session, stream, false),
        }
    }

    /// `BEGIN BATCH … APPLY BATCH` as one text.
    pub(super) fn text_batch(
        &mut self,
        session: &mut Session,
        stream: i16,
        plan: &BatchPlan,
        request: &Binding<'_>,
    ) -> Result<(), Failure> {
        if let Some(refused) = request.consistency.refused_for_write() {
            return Err(Failure::invalid(refused));
        }
        self.metrics.batches.add(1);
        self.metrics.writes.add(plan.statements());
        self.metrics.query(request.consistency.number());
        let context = self.context(request.timestamp_us);
        self.mutations.clear();
        plan.bind(request.values, &context, &mut self.scratch, &mut self.mutations)?;
        self.write_bound(session, stream, !plan.is_unlogged())
    }

    /// Writes all of `self.mutations`, which belongs to one shard.
    #[inline]
    fn write_to(&mut self, session: &mut Session, stream: i16, owner: u16) -> Result<(), Failure> {
        let address = self.address(session, stream);
        let waiter = Waiter::Client(address);
        self.trace(address, |core| {
            let bytes = core.mutations.len();
            if owner == core.shard {
                return format!("Appending {bytes} bytes to the commit log");
            }
            format!("Sending {bytes} bytes of writes to shard {owner}")
        });
        let tag = Origin { shard: self.shard, waiter }.pack();
        if owner == self.shard {
            self.store.take_write(tag, &mut self.mutations)?;
        } else {
            self.metrics.misrouted.add(1);
            self.peers.take_write(owner, tag, &mut self.mutations)?;
        }
        session.in_flight += 1;
        self.serving += 1;
        Ok(())
    }

    /// Writes all of `self.mutations`, whomever they belong to.
    pub(super) fn write_bound(
        &mut self,
        session: &mut Session,
        stream: i16,
        logged: bool,
    ) -> Result<(), Failure> {
        let mutations = std::mem::take(&mut self.mutations);
        let owner = self.cut(&mutations);
        let logged_bytes = mutations.len();
        self.mutations = mutations;
        match owner? {
            Owner::Nobody => {
                result::void(&mut session.out, stream);
                self.metrics.served.add(1);
                Ok(())
            }
            Owner::One(owner) => self.write_to(session, stream, owner),
            Owner::Several if logged => {
                let address = self.address(session, stream);
                self.write_logged(address, None, logged_bytes)?;
                self.defer(session, stream);
                Ok(())
            }
            Owner::Several => {
                self.write_unlogged(session, stream);
                Ok(())
            }
        }
    }

    /// Says whose these mutations are. If there are several owners, copies each one's part to
    /// `self.split`.
    pub(super) fn cut(&mut self, mutations: &[u8]) -> Result<Owner, Failure> {
        let malformed = |_| Failure::from(Refused::Malformed);
        let owner_of = |token: Token| shard_of(token, self.shards);
        let mut views = mutation::mutations(mutations);
        let Some(first) = views.next() else { return Ok(Owner::Nobody) };
        let first = owner_of(first.map_err(malformed)?.token());
        if self.shards == 1 {
            return Ok(Owner::One(first));
        }
        let mut one = true;
        for view in views {
            one &= owner_of(view.map_err(malformed)?.token()) == first;
        }
        if one {
            return Ok(Owner::One(first));
        }
        self.split.iter_mut().for_each(Vec::clear);
        for view in mutation::mutations(mutations) {
            let view = view.map_err(malformed)?;
            let owner = shard_of(view.token(), self.shards);
            self.split[usize::from(owner)].extend_from_slice(view.bytes());
        }
        Ok(Owner::Several)
    }

    fn write_unlogged(&mut self, session: &mut Session, stream: i16) {
        let address = self.defer(session, stream);
        let slot = self.writes.insert(SplitWrite {
            address,
            dependent: None,
            left: self.split.iter().filter(|part| !part.is_empty()).count(),
            failure: None,
            logged: Vec::new(),
            _transit: None,
        });
        self.trace(address, |_| "Sending its part to each of several shards".to_owned());
        let tag = Origin { shard: self.shard, waiter: Waiter::Parts(slot) }.pack();
        let mut split = std::mem::take(&mut self.split);
        for (owner, part) in (0..self.shards).zip(&mut split) {
            if !part.is_empty()
                && let Err(refused) = self.write_part(owner, tag, part)
            {
                // Answered like one refused by its owner: by a message to ourselves, since this
                // session is in use.
                let refused = Some(refused);
                self.peers.tell(self.shard, Message::Wrote { tag, refused });
            }
        }
        self.split = split;
    }

    /// Writes all of `self.mutations`, which is in `self.split` by owner, all or none of it.
    pub(super) fn write_logged(
        &mut self,
        address: Address,
        dependent: Option<SlabKey>,
        bytes: usize,
    ) -> Result<(), Failure> {
        // Each part is here and, if it is not ours, once more on its way.
        let own = self.split[usize::from(self.shard)].len();
        let mut charge = Charge::new(&self.metrics.memory, Share::Transit);
        if !charge.add(2 * bytes - own) {
            return Err(Refused::Overloaded.into());
        }
        let logged: Vec<(u16, Vec<u8>)> = (0..self.shards)
            .zip(&self.split)
            .filter(|(_, part)| !part.is_empty())
            .map(|(owner, part)| (owner, part.clone()))
            .collect();
        debug_assert_eq!(logged.iter().map(|(_, part)| part.len()).sum::<usize>(), bytes);
        self.trace(address, |_| format!("Appending an intent of {bytes} bytes to the commit log"));
        let left = logged.len();
        let slot = self.writes.insert(SplitWrite {
            address,
            dependent,
            left,
            failure: None,
            logged,
            _transit: Some(charge),
        });
        let tag = Origin { shard: self.shard, waiter: Waiter::Parts(slot) }.pack();
        if let Err(refused) = self.store.take_intent(tag, &mut self.mutations) {
            self.writes.remove(slot);
            return Err(refused.into());
        }
        Ok(())
    }

    /// Writes what belongs to one shard. Many mutations are taken away from the caller.
    pub(super) fn write_part(
        &mut self,
        owner: u16,
        tag: Tag,
        part: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        if owner == self.shard {
            self.store.take_write(tag, part)
        } else {
            self.peers.take_write(owner, tag, part)
        }
    }

    /// The intent of a logged batch is durable: its parts may be written.
    pub(super) fn intended(&mut self, slot: SlabKey) {
        let Some(parts) = self.writes.get(slot) else { return };
        let address = parts.address;
        let shards: Vec<u16> = parts.logged.iter().map(|(shard, _)| *shard).collect();
        self.trace(address, |_| format!("The intent is durable: writing on shards {shards:?}"));
        for shard in shards {
            self.write_logged_part(slot, shard);
        }
    }

    /// The intent of a logged batch is not durable: nothing of it happens.
    pub(super) fn not_intended(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        refused: Refused,
    ) {
        if let Some(parts) = self.writes.remove(slot) {
            match parts.dependent {
                Some(slot) => self.dependent_wrote(sessions, slot, Some(refused)),
                None => self.answer_failure(sessions, parts.address, &refused.into()),
            }
        }
    }

    /// Writes a part of a logged batch, now or, if its owner cannot take it, a little later.
    fn write_logged_part(&mut self, slot: SlabKey, shard: u16) {
        let Some(parts) = self.writes.get(slot) else { return };
        let Some(place) = parts.logged.iter().position(|(owner, _)| *owner == shard) else {
            return;
        };
        let part = std::mem::take(&mut parts.logged[place].1);
        let tag = Origin { shard: self.shard, waiter: Waiter::Parts(slot) }.pack();
        let written = if shard == self.shard {
            self.store.write(tag, &part)
        } else {
            self.peers.write_charged(shard, tag, &part)
        };
        if let Some(parts) = self.writes.get(slot) {
            parts.logged[place].1 = part;
        }
        match written {
            Ok(()) => {}
            Err(Refused::UnknownTable) => {
                let refused = Some(Refused::UnknownTable);
                self.peers.tell(self.shard, Message::Wrote { tag, refused });
            }
            Err(_) => self.retries.push(Retry { slot, shard }),
        }
    }

    /// Takes from a part of a logged batch what is for tables that were dropped meanwhile; returns
    /// whether anything is left.
    fn forget_dropped(&mut self, slot: SlabKey, shard: u16) -> bool {
        self.learn_schema();
        let Some(parts) = self.writes.get(slot) else { return false };
        let Some((_, part)) = parts.logged.iter_mut().find(|(owner, _)| *owner == shard) else {
            return false;
        };
        let mut left = Vec::new();
        for view in mutation::mutations(part).flatten() {
            if self.store.has_table(view.table()) {
                left.extend_from_slice(view.bytes());
            }
        }
        *part = left;
        !part.is_empty()
    }

    /// Tries again what could not be taken before.
    pub(super) fn retry(&mut self) {
        for retry in std::mem::take(&mut self.retries) {
            self.write_logged_part(retry.slot, retry.shard);
        }
    }

    /// A write of ours has ended: on shard `owner`, which may have refused it.
    #[inline]
    pub(super) fn wrote(
        &mut self,
        sessions: &mut dyn Sessions,
        waiter: Waiter,
        owner: u16,
        refused: Option<Refused>,
    ) {
        match waiter {
            Waiter::Client(address) => match refused {
                None => {
                    self.metrics.write_latency.record(self.age_us(address));
                    self.trace(address, |core| {
                        if owner == core.shard {
                            return core.log_activity(address);
                        }
                        format!("Shard {owner} has it in its commit log and memtable")
                    });
                    self.answer(sessions, address, |out| result::void(out, address.stream));
                }
                Some(refused) => self.answer_failure(sessions, address, &refused.into()),
            },
            Waiter::Parts(slot) => self.wrote_part(sessions, slot, owner, refused),
            Waiter::Dependent(slot) => self.dependent_wrote(sessions, slot, refused),
            Waiter::Read(_) => {}
        }
    }

    fn wrote_part(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        owner: u16,
        refused: Option<Refused>,
    ) {
        let Some(parts) = self.writes.get(slot) else { return };
        let logged = !parts.logged.is_empty();
        if logged && let Some(refused) = refused {
            // Its intent is durable: whatever the reason, the part must get in. If the engine stops
            // before it does, the intent stays open, and the next start writes it.
            if refused != Refused::UnknownTable || self.forget_dropped(slot, owner) {
                self.retries.push(Retry { slot, shard: owner });
                return;
            }
        }
        let Some(parts) = self.writes.get(slot) else { return };
        if !logged && let Some(refused) = refused {
            parts.failure = Some(refused.into());
        }
        parts.left -= 1;
        let (address, is_last) = (parts.address, parts.left == 0);
        self.trace(address, |_| format!("Shard {owner} has answered"));
        if !is_last {
            return;
        }
        let Some(parts) = self.writes.remove(slot) else { return };
        if logged {
            let waiter = Waiter::Parts(slot);
            self.store.intent_done(Origin { shard: self.shard, waiter }.pack());
        }
        if let Some(slot) = parts.dependent {
            return self.dependent_wrote(sessions, slot, None);
        }
        match parts.failure {
            None => {
                let address = parts.address;
                self.metrics.write_latency.record(self.age_us(address));
                self.answer(sessions, address, |out| result::void(out, address.stream));
            }
            Some(failure) => self.answer_failure(sessions, parts.address, &failure),
        }
    }
}

/// Whose the mutations of a batch are.
pub(super) enum Owner {
    Nobody,
    One(u16),
    Several,
}
