//! What shards tell each other.
//!
//! A turn gathers what is for another shard in one parcel, which is delivered at the turn's end:
//! one lock and at most one wake-up for each peer and turn, however many messages there are. The
//! bytes of forwarded writes lie one after the other in the parcel, so that none has memory of its
//! own. They are counted until the other shard has taken them; above the share of the sender for
//! such, writes are refused.

use super::{ddl, dependent::latch::LatchName, errand::Errand, mailbox::Mailbox, tag::SlabKey};
use crate::{
    budget::{Charge, Share},
    commitlog::LARGE_WRITE_BYTES,
    metrics::ShardMetrics,
    schema::SchemaChange,
    store::{Page, ReadRequest, Refused, SplitSstable, Tag},
};
use std::sync::Arc;

/// One thing that a shard tells another.
pub enum Message {
    /// Please make this write durable: the next `bytes` bytes of the parcel.
    Write {
        /// Comes back in [`Message::Wrote`].
        tag: Tag,
        /// Length of its mutations.
        bytes: u32,
    },
    /// The same, of a write that is not in the parcel.
    LargeWrite {
        /// Comes back in [`Message::Wrote`].
        tag: Tag,
        /// What is to be written.
        mutations: Vec<u8>,
    },
    /// A write is durable, or was refused.
    Wrote {
        /// That of the write.
        tag: Tag,
        /// Why it was refused, if it was.
        refused: Option<Refused>,
    },
    /// Please read.
    Read {
        /// Comes back in [`Message::Page`].
        tag: Tag,
        /// What to read.
        request: Box<ReadRequest>,
    },
    /// What was read, or why it could not be.
    Page {
        /// That of the read.
        tag: Tag,
        /// The rows, which change hands without being copied.
        page: Result<Box<Page>, String>,
    },
    /// Please let me have this latch of yours.
    Claim {
        /// The write that wants it.
        slot: SlabKey,
        /// The latch.
        name: LatchName,
    },
    /// The latch that a write has asked for last is its own.
    Latched {
        /// The write.
        slot: SlabKey,
    },
    /// A write does not want this latch of yours any more.
    Release {
        /// The write.
        slot: SlabKey,
        /// The latch.
        name: LatchName,
    },
    /// To shard 0: please change the schema.
    Change(Box<ddl::DdlRequest>),
    /// From shard 0: a change that was asked for is done everywhere, or was refused.
    Changed(Box<ddl::Answer>),
    /// From shard 0: the schema has changed; tell your clients, and me when you know it.
    Learn {
        /// Which change it is, if clients are to be told.
        change: Option<SchemaChange>,
    },
    /// To shard 0: the last change is known here.
    Learnt,
    /// An sstable with rows of several shards was split: these are yours.
    Split(Box<SplitSstable>),
    /// From no shard: what the operator wants.
    Errand(Errand),
}

/// All that one shard tells another in a turn.
#[derive(Default)]
pub struct Parcel {
    /// Who sends it.
    pub from: u16,
    /// In the order of saying.
    pub messages: Vec<Message>,
    /// The bytes of its writes.
    pub bytes: Vec<u8>,
    /// What these have taken of the sender's memory.
    charge: Option<Charge>,
}

impl Parcel {
    /// What the operator wants: no shard sends it.
    #[must_use]
    pub fn of_operator(errand: Errand) -> Self {
        Self { messages: vec![Message::Errand(errand)], ..Self::default() }
    }
}

/// Where parcels for a shard lie.
pub type Letterbox = Mailbox<Parcel>;

/// A shard's way to all others.
pub struct Peers {
    me: u16,
    boxes: Vec<Arc<Letterbox>>,
    outgoing: Vec<Parcel>,
    metrics: Arc<ShardMetrics>,
}

impl Peers {
    /// The way of shard `me` to the others, whose boxes these are, its own among them.
    #[must_use]
    pub fn new(me: u16, boxes: Vec<Arc<Letterbox>>, metrics: Arc<ShardMetrics>) -> Self {
        let outgoing = boxes.iter().map(|_| Parcel { from: me, ..Parcel::default() }).collect();
        Self { me, boxes, outgoing, metrics }
    }

    /// The shard's own box.
    #[must_use]
    pub fn own(&self) -> &Letterbox {
        &self.boxes[usize::from(self.me)]
    }

    /// Tells a shard something at the end of the turn.
    pub fn tell(&mut self, shard: u16, message: Message) {
        self.outgoing[usize::from(shard)].messages.push(message);
    }

    /// Forwards a write at the end of the turn. Takes many mutations away from the caller, so that
    /// they are not copied.
    ///
    /// # Errors
    /// As many bytes of ours are on their way as may.
    pub fn take_write(
        &mut self,
        shard: u16,
        tag: Tag,
        mutations: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let parcel = &mut self.outgoing[usize::from(shard)];
        let none = || Charge::new(&self.metrics.memory, Share::Transit);
        let charge = parcel.charge.get_or_insert_with(none);
        if !charge.add(size_of::<Message>() + mutations.len()) {
            return Err(Refused::Overloaded);
        }
        if mutations.len() < LARGE_WRITE_BYTES {
            return self.write_charged(shard, tag, mutations);
        }
        let mutations = std::mem::take(mutations);
        self.tell(shard, Message::LargeWrite { tag, mutations });
        Ok(())
    }

    /// As [`Peers::take_write`], for a write that somebody has taken memory for.
    ///
    /// # Errors
    /// It is far larger than any write may be.
    pub fn write_charged(&mut self, shard: u16, tag: Tag, mutations: &[u8]) -> Result<(), Refused> {
        let bytes = u32::try_from(mutations.len()).map_err(|_| Refused::TooLarge)?;
        let parcel = &mut self.outgoing[usize::from(shard)];
        parcel.messages.push(Message::Write { tag, bytes });
        parcel.bytes.extend_from_slice(mutations);
        Ok(())
    }

    /// Delivers what there is to tell, and wakes who sleeps.
    pub fn deliver(&mut self) {
        for (shard, parcel) in self.outgoing.iter_mut().enumerate() {
            if parcel.messages.is_empty() {
                continue;
            }
            self.metrics.hops.add(parcel.messages.len() as u64);
            let empty = Parcel { from: self.me, ..Parcel::default() };
            let full = std::mem::replace(parcel, empty);
            if self.boxes[shard].deliver(full) {
                self.metrics.rings.add(1);
            }
        }
    }
}
