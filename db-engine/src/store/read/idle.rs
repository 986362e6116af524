//! Memory that reads have used, for those that come next: where blocks are read from the device,
//! many reads are under way at once, and each would ask for memory and give it back.

use super::merge::Merge;
use crate::io::Buffer;

/// Bytes that a shard keeps in this way, at most.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What no read uses at the moment.
#[derive(Default)]
pub(super) struct IdleMemory {
    /// With the bytes that each holds.
    merges: Vec<(Box<Merge>, usize)>,
    /// For blocks of sstables.
    buffers: Vec<Buffer>,
    bytes: usize,
}

impl IdleMemory {
    /// What a read needs that begins.
    #[inline]
    pub fn merge(&mut self) -> Box<Merge> {
        let Some((merge, bytes)) = self.merges.pop() else { return Box::default() };
        self.bytes -= bytes;
        merge
    }

    /// Keeps what a read does not need any more.
    #[inline]
    pub fn keep_merge(&mut self, mut merge: Box<Merge>) {
        merge.clear();
        let bytes = merge.bytes();
        if self.bytes + bytes <= KEPT_BYTES_MAX {
            self.bytes += bytes;
            self.merges.push((merge, bytes));
        }
    }

    /// A buffer for so many bytes.
    pub fn buffer(&mut self, bytes: usize) -> Buffer {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.memory_bytes();
        buffer.make_room(bytes);
        buffer
    }

    /// Keeps a buffer that was decoded.
    pub fn keep_buffer(&mut self, buffer: Buffer) {
        let bytes = buffer.memory_bytes();
        if self.bytes + bytes <= KEPT_BYTES_MAX {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_is_said_and_what_is_kept_is_used_again() {
        let mut idle = IdleMemory::default();
        for _ in 0..1_000 {
            idle.keep_merge(Box::default());
            idle.keep_buffer(Buffer::with_capacity(20_000));
        }
        let of_merges: usize = idle.merges.iter().map(|(merge, _)| merge.bytes()).sum();
        let of_buffers: usize = idle.buffers.iter().map(Buffer::memory_bytes).sum();
        assert_eq!(idle.bytes, of_merges + of_buffers);
        assert!((KEPT_BYTES_MAX - 25_000..=KEPT_BYTES_MAX).contains(&idle.bytes), "{}", idle.bytes);
        let kept = idle.buffers.len();
        assert!(idle.buffer(20_000).memory_bytes() >= 20_000);
        assert_eq!(idle.buffers.len(), kept - 1);
        assert!(idle.buffer(50_000).capacity() >= 50_000, "one that is too small is replaced");
        while !idle.merges.is_empty() || !idle.buffers.is_empty() {
            drop((idle.merge(), idle.buffer(1)));
        }
        assert_eq!(idle.bytes, 0);
    }
}
