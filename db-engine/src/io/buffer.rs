//! Bytes in memory that a device can take as they are.

use super::ALIGNMENT;

/// A growable run of bytes whose beginning is aligned to [`ALIGNMENT`].
#[derive(Default)]
pub struct Buffer {
    /// Holds the bytes from `start` on; what is before it is only there for the alignment.
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// An empty buffer that takes this many bytes before it has to grow.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::<u8>::with_capacity(capacity + ALIGNMENT);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
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
        self.bytes.truncate(self.start);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes it this long, cutting it or filling it up with zeros.
    pub fn resize(&mut self, length: usize) {
        self.reserve(length.saturating_sub(self.len()));
        self.bytes.resize(self.start + length, 0);
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
        &self.bytes[self.start..]
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.capacity().saturating_sub(self.len()) < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let wanted = (self.len() + more).max(self.capacity() * 2).next_multiple_of(ALIGNMENT);
        let mut grown = Self::with_capacity(wanted);
        grown.bytes.extend_from_slice(self.as_slice());
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
}
