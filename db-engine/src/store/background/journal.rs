//! The journal of the manifest to which a shard appends.

use crate::{
    directory::manifest::{Change, encode_change},
    io::{Buffer, FileId, Operation},
};

/// The journal of the manifest to which a shard appends.
#[derive(Debug)]
pub(in crate::store) struct Journal {
    pub epoch: u32,
    pub shard: u16,
    pub file: FileId,
    /// Bytes of all changes that are synced.
    pub length: u64,
}

impl Journal {
    /// The operation that appends these changes, and the length that the journal has then.
    pub fn append(&self, changes: &[Change]) -> (Operation, u64) {
        let mut bytes = Vec::new();
        for change in changes {
            let at = self.length + bytes.len() as u64;
            encode_change(self.epoch, self.shard, at, change, &mut bytes);
        }
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(&bytes);
        let length = self.length + bytes.len() as u64;
        let (file, offset) = (self.file, self.length);
        (Operation::Write { file, offset, buffer, durable: false }, length)
    }
}
