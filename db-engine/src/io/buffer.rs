//! Bytes in memory that a device can take as they are.

use super::ALIGNMENT;

/// A growable run of bytes whose beginning is aligned to [`ALIGNMENT`].
#[derive(Default)]
pub struct Buffer {
    /// Holds the bytes from `start` on; what is before it is only there for the alignment, and what
    /// is behind `length` bytes was in it earlier.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// An empty buffer that takes this many bytes before it has to grow.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::<u8>::with_capacity(capacity + ALIGNMENT);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes.resize(start, 0);
        Self { bytes, start, length: 0 }
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes it can hold before it has to grow, wherever in memory it begins: what is
    /// decided by it must not differ from run to run.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_sub(ALIGNMENT)
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Appends bytes.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.truncate(self.start + self.length);
        self.bytes.extend_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Makes it this long, cutting it or filling it up with zeros.
    pub fn resize(&mut self, length: usize) {
        self.bytes.truncate(self.start + self.length);
        self.resize_for_writing(length);
    }

    /// Makes it this long. What is new in it is to be written over: it is whatever was there
    /// earlier, and costs nothing.
    pub fn resize_for_writing(&mut self, length: usize) {
        self.reserve(length.saturating_sub(self.length));
        if self.bytes.len() < self.start + length {
            self.bytes.resize(self.start + length, 0);
        }
        self.length = length;
    }

    /// Sees to it that it can hold this many bytes without growing. What it holds may go.
    pub fn make_room(&mut self, bytes: usize) {
        if self.capacity() < bytes {
            *self = Self::with_capacity(bytes.next_multiple_of(ALIGNMENT));
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.capacity().saturating_sub(self.length) < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = (self.length + more).max(self.capacity() * 2).next_multiple_of(ALIGNMENT);
        let mut grown = Self::with_capacity(wanted);
        grown.extend(self.as_slice());
        *self = grown;
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_aligned_while_it_grows() {
        let mut buffer = Buffer::default();
        let mut expected = Vec::new();
        for byte in 0..=u8::MAX {
            buffer.extend(&[byte; 100]);
            expected.extend([byte; 100]);
            assert_eq!(buffer.as_slice().as_ptr().align_offset(ALIGNMENT), 0);
        }
        assert_eq!(buffer.as_slice(), expected);
        buffer.resize(ALIGNMENT * 8);
        assert_eq!(buffer.len(), ALIGNMENT * 8);
        assert_eq!(&buffer.as_slice()[expected.len()..], vec![0; ALIGNMENT * 8 - expected.len()]);
        buffer.clear();
        assert!(buffer.is_empty());
    }

    #[test]
    fn what_was_in_it_is_seen_again_only_where_it_is_written_over() {
        let mut buffer = Buffer::default();
        buffer.extend(&[1; 100]);
        buffer.clear();
        buffer.extend(&[2; 10]);
        assert_eq!(buffer.as_slice(), [2; 10]);
        buffer.resize(20);
        assert_eq!(buffer.as_slice()[10..], [0; 10]);
        buffer.resize_for_writing(100);
        assert_eq!(buffer.as_slice()[..20], [[2; 10], [0; 10]].concat());
        buffer.resize(5);
        buffer.resize(100);
        assert_eq!(buffer.as_slice(), [vec![2; 5], vec![0; 95]].concat());
        buffer.resize_for_writing(ALIGNMENT * 2);
        assert_eq!(buffer.as_slice()[100..], vec![0; ALIGNMENT * 2 - 100], "never there before");
    }
}
