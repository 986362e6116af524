//! Memory for long requests, which is touched before a request begins, in the time of its client.

use super::{Shard, session::Session};
use crate::{
    commitlog::LARGE_WRITE_BYTES,
    io::{TimeSlice, touch},
    protocol::{
        compression::promised_bytes,
        frame::{Frame, flag},
        opcode,
    },
    store::WRITE_BYTES_MAX,
};

/// What long requests are to fill.
#[derive(Debug, Default)]
pub struct Room {
    /// The body of a request that is compressed.
    inflated: Vec<u8>,
    /// The mutations of a write.
    mutations: Vec<u8>,
}

impl Shard {
    /// Whether there is memory for what a request is to become. If not there is more of it than
    /// before, and the same frame is to be given once more when its client has time again.
    #[inline]
    pub fn has_room_for(
        &mut self,
        session: &Session,
        frame: &Frame<'_>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        let is_compressed = frame.flags & flag::COMPRESSED != 0 && session.compressed;
        let bytes = if is_compressed { promised_bytes(frame.body) } else { frame.body.len() };
        bytes < LARGE_WRITE_BYTES || self.make_room(frame.opcode, bytes, is_compressed, time)
    }

    #[cold]
    fn make_room(
        &mut self,
        opcode: u8,
        bytes: usize,
        is_compressed: bool,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        if bytes > self.frame_bytes_max {
            return true;
        }
        let Room { inflated, mutations } = &mut self.room;
        if is_compressed && !touch(inflated, bytes, time) {
            return false;
        }
        let wanted = bytes.min(WRITE_BYTES_MAX);
        if matches!(opcode, opcode::QUERY | opcode::EXECUTE | opcode::BATCH)
            && self.core.mutations.capacity() < wanted
        {
            if !touch(mutations, wanted, time) {
                return false;
            }
            self.core.mutations = std::mem::take(mutations);
        }
        if is_compressed {
            self.inflated = std::mem::take(inflated);
        }
        true
    }
}
