//! A row that is merged of its versions, one after the other, in memory that is used again.

use super::merge::{MergePlace, merge_some};
use crate::io::TimeSlice;

/// The row that some versions make, and how far the next one is merged with it.
#[derive(Debug, Default)]
pub struct MergedRow {
    /// The row, between two versions.
    pub row: Vec<u8>,
    /// Where the next one is made of it.
    pub other: Vec<u8>,
    /// How many versions it is made of.
    versions: usize,
    place: Option<MergePlace>,
}

impl MergedRow {
    /// Begins with another row.
    #[inline]
    pub fn begin(&mut self) {
        (self.versions, self.place) = (0, None);
    }

    /// Whether it is made of any version.
    #[inline]
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.versions > 0
    }

    /// Merges the next version with it, as far as there is time for: false if that is not all. The
    /// version must be the same until it is.
    #[inline]
    pub fn add_some(&mut self, version: &[u8], time: &mut TimeSlice<'_>) -> bool {
        if self.versions == 0 {
            self.row.clear();
            self.row.extend_from_slice(version);
        } else {
            if self.place.is_none() {
                self.other.clear();
            }
            if !merge_some(&self.row, version, &mut self.place, &mut self.other, time) {
                return false;
            }
            std::mem::swap(&mut self.row, &mut self.other);
        }
        self.versions += 1;
        true
    }

    /// The same with all of its versions, which are the same ones every time.
    pub fn add_all<'v>(
        &mut self,
        versions: impl Iterator<Item = &'v [u8]>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        let mut left = versions.skip(self.versions);
        left.all(|version| self.add_some(version, time))
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.row.capacity() + self.other.capacity()
    }
}
