//! Small writes to large rows.
//!
//! Merging a write into a row copies the row. A large row, such as one with a collection of very
//! many elements, therefore keeps what is written to it as layers above its record, and readers
//! merge them. Each layer is at most half as large as what is below it: a write that would make it
//! larger is merged with that. So merging copies at most three times what was written since it last
//! copied the same layer, all layers together are smaller than the record, and merging them for a
//! reader costs little more than copying it.

use std::{borrow::Cow, collections::BTreeMap};

use super::arena::RecordOffset;
use crate::mutation::merge;

/// Rows up to this size are merged with every write: that costs less than a layer.
const SMALL_ROW_BYTES: usize = 1 << 10;

/// Bytes that a row with layers takes besides them, and each layer besides the row it holds.
const LAYERS_BYTES: usize = 160;
const LAYER_BYTES: usize = 48;

/// Versions of a row besides its record, the largest and oldest first.
pub type RowLayers<'a> = &'a [Box<[u8]>];

/// The layers above the records of a memtable.
#[derive(Debug, Default)]
pub(super) struct Layers {
    of_records: BTreeMap<RecordOffset, Vec<Box<[u8]>>>,
    bytes: usize,
    /// Bytes of all rows that merging has made.
    #[cfg(test)]
    pub merged_bytes: usize,
}

impl Layers {
    /// Whether a write to a row is merged with its record, and nothing else.
    pub fn is_for_record(&self, place: RecordOffset, record: &[u8], write: &[u8]) -> bool {
        record.len() <= SMALL_ROW_BYTES
            || (!self.of_records.contains_key(&place) && is_too_large(write, record))
    }

    /// Writes to a row. True if `out` is now what the record is to be, without layers.
    pub fn write(
        &mut self,
        (place, record): (RecordOffset, &[u8]),
        write: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if record.len() <= SMALL_ROW_BYTES {
            self.merge(record, write, out);
            return true;
        }
        let mut layers = self.take(place);
        let mut top = Cow::Borrowed(write);
        while let Some(below) = layers.pop_if(|below| is_too_large(&top, below)) {
            let mut both = Vec::with_capacity(below.len() + top.len());
            self.merge(&below, &top, &mut both);
            top = Cow::Owned(both);
        }
        if layers.is_empty() && is_too_large(&top, record) {
            self.merge(record, &top, out);
            return true;
        }
        layers.push(top.into());
        self.bytes += bytes_of(&layers);
        self.of_records.insert(place, layers);
        false
    }

    #[cfg_attr(not(test), allow(clippy::unused_self))]
    fn merge(&mut self, below: &[u8], above: &[u8], out: &mut Vec<u8>) {
        merge(below, above, out);
        #[cfg(test)]
        {
            self.merged_bytes += out.len();
        }
    }

    /// Takes away the layers of a record.
    pub fn take(&mut self, place: RecordOffset) -> Vec<Box<[u8]>> {
        let layers = self.of_records.remove(&place).unwrap_or_default();
        self.bytes -= bytes_of(&layers);
        layers
    }

    /// The layers of a record, the largest and oldest first.
    pub fn get(&self, place: RecordOffset, record: &[u8]) -> RowLayers<'_> {
        if record.len() <= SMALL_ROW_BYTES {
            return &[];
        }
        self.of_records.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frees the layers of one record. False if there are none.
    pub fn free_some(&mut self) -> bool {
        self.of_records.pop_last().is_some()
    }
}

fn is_too_large(above: &[u8], below: &[u8]) -> bool {
    above.len() > below.len() / 2
}

fn bytes_of(layers: RowLayers<'_>) -> usize {
    let bytes = layers.iter().map(|layer| LAYER_BYTES + layer.len()).sum::<usize>();
    if layers.is_empty() { 0 } else { LAYERS_BYTES + bytes }
}

/// A row of a memtable: its record, and what was written to it since.
#[derive(Clone, Copy, Debug)]
pub struct RowVersions<'a> {
    /// Its clustering key.
    pub ck: &'a [u8],
    /// One version of it, the largest.
    pub record: &'a [u8],
    /// The others.
    pub layers: RowLayers<'a>,
}

impl<'a> RowVersions<'a> {
    /// All versions, the small ones first, so that merging them in this order copies little.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.layers.iter().rev().map(|layer| &**layer).chain([self.record])
    }

    /// The row that all versions make.
    #[must_use]
    pub fn merged(&self) -> Cow<'a, [u8]> {
        let mut versions = self.iter();
        let mut merged = Cow::Borrowed(versions.next().unwrap_or(self.record));
        for version in versions {
            let mut both = Vec::with_capacity(version.len() + merged.len());
            merge(version, &merged, &mut both);
            merged = Cow::Owned(both);
        }
        merged
    }
}
