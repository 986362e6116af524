//! The contents of a simulated file: what a running machine reads, and what a power cut leaves.

use crate::io::{ALIGNMENT, Random, SECTOR_BYTES};

/// A file, whatever its name.
#[derive(Clone, Default)]
pub(super) struct Inode {
    pub bytes: Vec<u8>,
    pub durable: Vec<u8>,
    pub pending: Vec<(usize, Vec<u8>)>,
    /// The smallest durable write, in bytes, of a file for such writes. It happens as a whole or
    /// not at all.
    pub block_bytes: Option<usize>,
    /// What was in each sector before it was written last.
    before: Vec<u8>,
}

impl Inode {
    pub fn new(bytes: Vec<u8>, block_bytes: Option<usize>) -> Self {
        Self { durable: bytes.clone(), bytes, block_bytes, ..Self::default() }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8], durable: bool) {
        let at = usize::try_from(offset).expect("files are in memory");
        assert_eq!(durable, self.block_bytes.is_some(), "files are for one kind of write");
        self.put(at, bytes);
        if let Some(whole) = self.block_bytes {
            let aligned = at.is_multiple_of(whole) && bytes.len().is_multiple_of(whole);
            assert!(aligned, "direct writes are aligned to {whole}: {} at {at}", bytes.len());
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0, "so is their memory");
            assert!(at + bytes.len() <= self.durable.len(), "they stay in what was filled");
            overlay(&mut self.durable, at, bytes);
        } else {
            self.pending.push((at, bytes.to_vec()));
        }
    }

    /// Zeros, which are durable at once.
    pub fn fill(&mut self, offset: u64, bytes: usize) {
        let at = usize::try_from(offset).expect("files are in memory");
        assert!(self.block_bytes.is_some(), "only files for durable writes are filled");
        assert!(at.is_multiple_of(ALIGNMENT) && bytes.is_multiple_of(ALIGNMENT), "and aligned");
        self.put(at, &vec![0; bytes]);
        overlay(&mut self.durable, at, &vec![0; bytes]);
    }

    pub fn sync(&mut self) {
        for (at, bytes) in self.pending.drain(..) {
            overlay(&mut self.durable, at, &bytes);
        }
    }

    pub fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let keep_percent = random.one_of(&[0, 50, 100]);
        for (at, written) in &self.pending {
            for (index, sector) in written.chunks(SECTOR_BYTES).enumerate() {
                if random.percent(keep_percent) {
                    overlay(&mut bytes, at + index * SECTOR_BYTES, sector);
                }
            }
        }
        bytes
    }

    /// Parts of a write that was never completed.
    pub fn write_torn(&mut self, offset: u64, bytes: &[u8], random: &mut Random) {
        let offset = usize::try_from(offset).expect("files are in memory");
        let whole = self.block_bytes.unwrap_or(SECTOR_BYTES);
        for (index, part) in bytes.chunks(whole).enumerate() {
            if random.percent(50) {
                let at = offset + index * whole;
                self.put(at, part);
                if self.block_bytes.is_some() {
                    overlay(&mut self.durable, at, part);
                } else {
                    self.pending.push((at, part.to_vec()));
                }
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.before.resize(self.before.len().max(self.bytes.len()).max(end), 0);
        let known = self.bytes.len().min(end);
        if at < known {
            self.before[at..known].copy_from_slice(&self.bytes[at..known]);
        }
        overlay(&mut self.bytes, at, bytes);
    }

    /// What is there, up to the end of the file.
    pub fn read(&self, offset: u64, bytes: usize) -> &[u8] {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let to = from.saturating_add(bytes).min(self.bytes.len());
        &self.bytes[from..to]
    }

    /// The same, but some sectors, at least one, are as they were before they were written last.
    pub fn read_stale(&self, offset: u64, bytes: usize, random: &mut Random) -> Vec<u8> {
        let mut read = self.read(offset, bytes).to_vec();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let stale_for_sure = random.below(read.len().div_ceil(SECTOR_BYTES).max(1) as u64);
        for (index, sector) in (0_u64..).zip(read.chunks_mut(SECTOR_BYTES)) {
            if index == stale_for_sure || random.percent(30) {
                let at = from + usize::try_from(index).expect("in memory") * SECTOR_BYTES;
                let before = self.before.get(at..).unwrap_or_default();
                let known = before.len().min(sector.len());
                sector[..known].copy_from_slice(&before[..known]);
            }
        }
        read
    }
}

fn overlay(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    bytes.resize(bytes.len().max(at + with.len()), 0);
    bytes[at..at + with.len()].copy_from_slice(with);
}
