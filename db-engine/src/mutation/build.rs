//! Encoding a mutation.

use super::{CK_BYTES_MAX, KEY_BYTES_MAX, TableNumber, Token, Write, row};

pub(super) const PARTITION_DELETION: u8 = 0;
pub(super) const ROW: u8 = 1;
/// A row whose clustering key is longer than a `u16` can count.
pub(super) const ROW_OF_LONG_KEY: u8 = 2;
pub(super) const RANGE_DELETION: u8 = 3;

/// Bytes of a mutation before its key: its length, its table and its token.
const KEY_AT: usize = 4 + 4 + 8;

/// A key or a value is longer than its length field can say. The mutation was not encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "a partition key is longer than {KEY_BYTES_MAX} bytes, a clustering key, as it is \
             encoded, than {CK_BYTES_MAX}, or a value than 4 GiB"
        )
    }
}

impl std::error::Error for TooLong {}

/// Appends one mutation to a buffer. Only [`Builder::finish`] makes it a whole one.
#[derive(Debug)]
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// What is left of `out` if the mutation is not to be.
    before: usize,
    too_long: bool,
}

impl<'a> Builder<'a> {
    /// Begins a mutation of the partition with this key, behind what `out` holds already.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, table: TableNumber, token: Token, key: &[u8]) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&table.0.to_le_bytes());
        out.extend_from_slice(&token.0.to_le_bytes());
        let mut builder = Self { out, start, before: start, too_long: false };
        let length = u16::try_from(key.len()).unwrap_or(0);
        builder.too_long = key.len() > KEY_BYTES_MAX;
        builder.out.extend_from_slice(&length.to_le_bytes());
        builder.out.extend_from_slice(&key[..usize::from(length)]);
        builder
    }

    /// Goes on with the last mutation of `out`, which begins at `start`.
    #[must_use]
    pub fn resume(out: &'a mut Vec<u8>, start: usize) -> Self {
        let before = out.len();
        Self { out, start, before, too_long: false }
    }

    /// Deletes everything in the partition that is not newer than the write.
    pub fn delete_partition(&mut self, write: &Write) -> &mut Self {
        self.out.push(PARTITION_DELETION);
        self.out.extend_from_slice(&write.timestamp.to_le_bytes());
        self.out.extend_from_slice(&write.now_s.to_le_bytes());
        self
    }

    /// Deletes everything that is not newer than the write in rows with clustering keys from `from`
    /// on and before `to`, as bytes. Neither needs to be the key of a row.
    ///
    /// # Panics
    ///
    /// If the range would have the static row in it or has nothing in it.
    pub fn delete_range(&mut self, from: &[u8], to: &[u8], write: &Write) -> &mut Self {
        assert!(!from.is_empty() && from < to, "a range of rows");
        self.out.push(RANGE_DELETION);
        for bound in [from, to] {
            // A byte more than a key tells what is before and after all that begin with it.
            self.too_long |= bound.len() > CK_BYTES_MAX + 1;
            let length = u32::try_from(bound.len().min(CK_BYTES_MAX + 1)).unwrap_or(0);
            self.out.extend_from_slice(&length.to_le_bytes());
            self.out.extend_from_slice(&bound[..length as usize]);
        }
        self.out.extend_from_slice(&write.timestamp.to_le_bytes());
        self.out.extend_from_slice(&write.now_s.to_le_bytes());
        self
    }

    /// Writes to the row with this clustering key, or to the static row if that is empty and the
    /// table has clustering columns. `marker`: the row exists even without cells,
    /// as after INSERT and unlike after UPDATE.
    #[inline]
    pub fn row(&mut self, ck: &[u8], write: &Write, marker: bool) -> RowBuilder<'_> {
        let row = self.begin_row(ck);
        let expires_s = write.expires_s();
        let marker = if marker { row::MARKER } else { 0 };
        self.out.push(marker | if expires_s.is_some() { row::TTL } else { 0 });
        self.out.extend_from_slice(&write.timestamp.to_le_bytes());
        if let Some(expires_s) = expires_s {
            self.out.extend_from_slice(&write.ttl_s.to_le_bytes());
            self.out.extend_from_slice(&expires_s.to_le_bytes());
        }
        let count = self.out.len();
        self.out.extend_from_slice(&[0; 2]);
        let now_s = write.now_s;
        let (out, too_long) = (&mut *self.out, &mut self.too_long);
        RowBuilder { out, row, count, now_s, cells: 0, last: None, too_long }
    }

    /// Deletes all of the row that is not newer than the write.
    pub fn delete_row(&mut self, ck: &[u8], write: &Write) -> &mut Self {
        let row = self.begin_row(ck);
        self.out.push(row::DELETION);
        self.out.extend_from_slice(&0_i64.to_le_bytes());
        self.out.extend_from_slice(&write.timestamp.to_le_bytes());
        self.out.extend_from_slice(&write.now_s.to_le_bytes());
        self.out.extend_from_slice(&[0; 2]);
        patch_length(self.out, row, &mut self.too_long);
        self
    }

    /// The key of its partition.
    ///
    /// # Panics
    ///
    /// If the builder goes on with bytes that are no mutation.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let (length, rest) = self.out[self.start + KEY_AT..].split_at(2);
        &rest[..usize::from(u16::from_le_bytes([length[0], length[1]]))]
    }

    /// Bytes of the buffer so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Ends the mutation.
    ///
    /// # Errors
    ///
    /// If a key or value was too long. The buffer is then as it was before the builder.
    pub fn finish(self) -> Result<(), TooLong> {
        let length = u32::try_from(self.out.len() - self.start - 4);
        match length {
            Ok(length) if !self.too_long => {
                patch(self.out, self.start, length.to_le_bytes());
                Ok(())
            }
            _ => {
                self.out.truncate(self.before);
                Err(TooLong)
            }
        }
    }

    /// Returns where the row's bytes begin.
    fn begin_row(&mut self, ck: &[u8]) -> usize {
        self.too_long |= ck.len() > CK_BYTES_MAX;
        if let Ok(length) = u16::try_from(ck.len()) {
            self.out.push(ROW);
            self.out.extend_from_slice(&length.to_le_bytes());
            self.out.extend_from_slice(ck);
        } else if let Ok(length) = u32::try_from(ck.len().min(CK_BYTES_MAX)) {
            self.out.push(ROW_OF_LONG_KEY);
            self.out.extend_from_slice(&length.to_le_bytes());
            self.out.extend_from_slice(&ck[..length as usize]);
        }
        self.out.extend_from_slice(&[0; 4]);
        self.out.len()
    }
}

/// Encodes an element of a column, for [`RowBuilder::elements`]. It must be shorter than 4 GiB.
///
/// # Errors
///
/// If it is not. Nothing was encoded then.
pub fn put_element(
    out: &mut Vec<u8>,
    column: u16,
    path: &[u8],
    value: &[u8],
) -> Result<(), TooLong> {
    let (Ok(path_bytes), Ok(value_bytes)) = (u32::try_from(path.len()), u32::try_from(value.len()))
    else {
        return Err(TooLong);
    };
    out.extend_from_slice(&column.to_le_bytes());
    out.push(row::CELL_PATH);
    out.extend_from_slice(&path_bytes.to_le_bytes());
    out.extend_from_slice(path);
    out.extend_from_slice(&value_bytes.to_le_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// Appends the cells of one row, in ascending order of their columns and paths. The row is whole
/// when this is dropped.
#[derive(Debug)]
pub struct RowBuilder<'a> {
    out: &'a mut Vec<u8>,
    row: usize,
    count: usize,
    now_s: i64,
    cells: u32,
    /// The column of the last cell, and where its path is in `out`, if it has one.
    last: Option<(u16, Option<(usize, usize)>)>,
    too_long: &'a mut bool,
}

impl RowBuilder<'_> {
    /// Sets a column to a value, in the encoding of CQL's native protocol.
    ///
    /// # Panics
    ///
    /// If the column does not come after the one before it.
    pub fn cell(&mut self, column: u16, value: &[u8]) -> &mut Self {
        self.begin(column, None, 0);
        self.value(value)
    }

    /// Deletes the value of a column.
    ///
    /// # Panics
    ///
    /// If the column does not come after the one before it.
    pub fn tombstone(&mut self, column: u16) -> &mut Self {
        self.begin(column, None, row::CELL_TOMBSTONE);
        self.out.extend_from_slice(&self.now_s.to_le_bytes());
        self
    }

    /// Deletes all elements of a column that are not newer than this, in microseconds since the
    /// Unix epoch: one less than the time of elements that are written together with it.
    ///
    /// # Panics
    ///
    /// If the column does not come after the one before it.
    pub fn delete_elements(&mut self, column: u16, timestamp: i64) -> &mut Self {
        self.begin(column, None, row::CELL_TOMBSTONE | row::CELL_TIMESTAMP);
        self.out.extend_from_slice(&timestamp.to_le_bytes());
        self.out.extend_from_slice(&self.now_s.to_le_bytes());
        self
    }

    /// Sets an element of a column.
    ///
    /// # Panics
    ///
    /// If the element does not come after the cell before it by column and path.
    pub fn element(&mut self, column: u16, path: &[u8], value: &[u8]) -> &mut Self {
        self.begin(column, Some(path), row::CELL_PATH);
        self.value(value)
    }

    /// Sets so many elements of a column, which were encoded by [`put_element`], ascend, and are
    /// all that is written to it, but for the deletion of those that are there.
    ///
    /// # Panics
    ///
    /// If the column does not come after the one before it.
    pub fn elements(&mut self, column: u16, encoded: &[u8], count: u32) -> &mut Self {
        let is_next = self
            .last
            .is_none_or(|(last, place)| last < column || (last == column && place.is_none()));
        assert!(is_next, "cells ascend by column and path");
        self.cells += count;
        self.out.extend_from_slice(encoded);
        // No other element comes behind these.
        let end = self.out.len();
        self.last = Some((column, Some((end, end))));
        self
    }

    /// Deletes an element of a column.
    ///
    /// # Panics
    ///
    /// If the element does not come after the cell before it by column and path.
    pub fn element_tombstone(&mut self, column: u16, path: &[u8]) -> &mut Self {
        self.begin(column, Some(path), row::CELL_PATH | row::CELL_TOMBSTONE);
        self.out.extend_from_slice(&self.now_s.to_le_bytes());
        self
    }

    #[inline]
    fn begin(&mut self, column: u16, path: Option<&[u8]>, flags: u8) {
        let is_next = self.last.is_none_or(|(last, place)| {
            last < column || (last == column && place.map(|(a, b)| &self.out[a..b]) < path)
        });
        assert!(is_next, "cells ascend by column and path");
        self.cells += 1;
        self.out.extend_from_slice(&column.to_le_bytes());
        self.out.push(flags);
        let place = path.map(|path| {
            let length = length_u32(path, self.too_long);
            self.out.extend_from_slice(&length.to_le_bytes());
            let start = self.out.len();
            self.out.extend_from_slice(&path[..length as usize]);
            (start, self.out.len())
        });
        self.last = Some((column, place));
    }

    #[inline]
    fn value(&mut self, value: &[u8]) -> &mut Self {
        let length = length_u32(value, self.too_long);
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.extend_from_slice(&value[..length as usize]);
        self
    }

    #[cold]
    fn make_room_for_count(&mut self) {
        self.out[self.row] |= row::MANY;
        self.out.splice(self.count..self.count, [0; 2]);
    }
}

impl Drop for RowBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Ok(cells) = u16::try_from(self.cells) {
            patch(self.out, self.count, cells.to_le_bytes());
        } else {
            self.make_room_for_count();
            patch(self.out, self.count, self.cells.to_le_bytes());
        }
        patch_length(self.out, self.row, self.too_long);
    }
}

fn length_u32(bytes: &[u8], too_long: &mut bool) -> u32 {
    u32::try_from(bytes.len()).unwrap_or_else(|_| {
        *too_long = true;
        0
    })
}

fn patch_length(out: &mut [u8], row: usize, too_long: &mut bool) {
    match u32::try_from(out.len() - row) {
        Ok(length) => patch(out, row - 4, length.to_le_bytes()),
        Err(_) => *too_long = true,
    }
}

fn patch<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}
