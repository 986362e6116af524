//! Who is to hear of a request's end, packed into the tag that the store gives back.
//!
//! The acknowledgement of a write is thus sixteen bytes until it is sent; nothing is looked up
//! and nothing allocated for it.

use super::session::{Address, ConnectionId};
use crate::store::Tag;

/// An entry of a [`super::slab::Slab`], of all that have ever been in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlabKey {
    /// The place.
    pub index: u32,
    /// Tells the entry from those that were there before.
    pub generation: u32,
}

/// What is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiter {
    /// A client, for the acknowledgement of a single write.
    Client(Address),
    /// A write in several parts.
    Parts(SlabKey),
    /// A read.
    Read(SlabKey),
    /// A write that depends on what is there.
    Dependent(SlabKey),
}

/// What is waiting, and on which shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The shard of the client's connection.
    pub shard: u16,
    /// What is waiting there.
    pub waiter: Waiter,
}

const CLIENT: u8 = 0;
const PARTS: u8 = 1;
const READ: u8 = 2;
const DEPENDENT: u8 = 3;

impl Origin {
    /// From high to low: kind 8 bits, shard 16, then for a client stream 16, time of arrival 24,
    /// place 32 and generation 32, and for the others 40 of nothing, place 32 and generation 32.
    #[must_use]
    pub fn pack(self) -> Tag {
        let (kind, middle, index, generation) = match self.waiter {
            Waiter::Client(address) => {
                let stream = u64::from(address.stream.cast_unsigned());
                let arrived = u64::from(address.arrived_us & 0xFF_FFFF);
                (CLIENT, stream << 24 | arrived, address.place.index, address.place.generation)
            }
            Waiter::Parts(slot) => (PARTS, 0, slot.index, slot.generation),
            Waiter::Read(slot) => (READ, 0, slot.index, slot.generation),
            Waiter::Dependent(slot) => (DEPENDENT, 0, slot.index, slot.generation),
        };
        let high = u128::from(kind) << 120 | u128::from(self.shard) << 104;
        let low = u128::from(middle) << 64 | u128::from(index) << 32 | u128::from(generation);
        Tag(high | low)
    }

    /// What [`Origin::pack`] packed.
    #[must_use]
    pub fn unpack(tag: Tag) -> Self {
        let bytes = tag.0.to_be_bytes();
        let [kind, h0, h1, s0, s1, a0, a1, a2, i0, i1, i2, i3, g0, g1, g2, g3] = bytes;
        let shard = u16::from_be_bytes([h0, h1]);
        let index = u32::from_be_bytes([i0, i1, i2, i3]);
        let generation = u32::from_be_bytes([g0, g1, g2, g3]);
        let waiter = match kind {
            CLIENT => Waiter::Client(Address {
                place: ConnectionId { index, generation },
                stream: i16::from_be_bytes([s0, s1]),
                arrived_us: u32::from_be_bytes([0, a0, a1, a2]),
            }),
            PARTS => Waiter::Parts(SlabKey { index, generation }),
            READ => Waiter::Read(SlabKey { index, generation }),
            _ => Waiter::Dependent(SlabKey { index, generation }),
        };
        Self { shard, waiter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_out(
            shard: u16, index: u32, generation: u32, stream: i16, arrived in 0u32..1 << 24,
            kind in 0..4,
        ) {
            let waiter = match kind {
                0 => Waiter::Client(Address {
                    place: ConnectionId { index, generation },
                    stream,
                    arrived_us: arrived,
                }),
                1 => Waiter::Parts(SlabKey { index, generation }),
                2 => Waiter::Read(SlabKey { index, generation }),
                _ => Waiter::Dependent(SlabKey { index, generation }),
            };
            let origin = Origin { shard, waiter };
            prop_assert_eq!(Origin::unpack(origin.pack()), origin);
        }
    }
}
