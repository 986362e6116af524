//! What one write changes in one partition, as bytes.
//!
//! The encoded form is the payload of the commit log, the unit that one shard forwards to another,
//! and what a memtable applies; its rows are also the values of memtables and sstables. Nothing is
//! decoded and encoded again on the way. The format is frozen. Integers are little-endian.
//!
//! ```text
//! mutation := length u32              bytes after this field
//!             table u32 | token i64 | key_len u16 | key
//!             item*
//! item     := 0 | timestamp i64 | deleted_s i64                    deletion of the partition
//!           | 1 | ck_len u16 | ck | row_len u32 | row
//!           | 2 | ck_len u32 | ck | row_len u32 | row                a longer key
//!           | 3 | from_len u32 | from | to_len u32 | to              deletion of a range of rows
//!             | timestamp i64 | deleted_s i64
//! row      := flags u8                1 marker, 2 ttl, 4 deletion, 8 many cells
//!             timestamp i64
//!             [ttl_s u32 | expires_s i64]                          if flag 2
//!             [timestamp i64 | deleted_s i64]                      if flag 4
//!             cell_count u16, or u32 if flag 8
//!             cell*                                   ascending by column and path, no path first
//! cell     := column u16
//!             flags u8                1 tombstone, 2 own timestamp, 4 own ttl, 8 path
//!             [timestamp i64]                                      if flag 2
//!             [ttl_s u32 | expires_s i64]                          if flag 4; ttl_s 0: never
//!             [path_len u32 | path]                                if flag 8: one element
//!             deleted_s i64                                        if flag 1
//!           | value_len u32 | value                                if not
//! ```
//!
//! A cell without its own timestamp or TTL has the row's. Cells that the row's own deletion covers
//! are not kept in it. Item kinds and flags that are not listed here are refused.
//!
//! The row without a clustering key, in a table that has clustering columns, is the static row of
//! the partition: it comes before all others, and no range of rows has it in it.

mod build;
mod merge;
mod merged_row;
mod row;
pub mod token;

pub use build::{Builder, RowBuilder, TooLong, put_element};
pub use merge::{
    Forgettable, MergePlace, forget, merge, merge_some, newest_forgotten, shadow, without,
};
pub use merged_row::MergedRow;
pub use row::{Cell, CellView, Cells, CellsPlace, Content, Deletion, Liveness, RowTimes, RowView};
pub use token::Token;

/// The longest partition key, in bytes: what a `u16` can count. The values of a clustering key have
/// no more bytes either.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// The longest clustering key as it is encoded, which is longer than its values: a byte of zero
/// becomes two, a decimal one for each of its digits.
pub const CK_BYTES_MAX: usize = 4 * KEY_BYTES_MAX;

/// A table as storage knows it: given by the catalog, never used again for another table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableNumber(pub u32);

/// What all cells of one written row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// CQL's `WRITETIME`, in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// Time to live in seconds; 0 if the write does not expire.
    pub ttl_s: u32,
    /// The time of the write in seconds since the Unix epoch, from which the TTL counts.
    pub now_s: i64,
}

impl Write {
    /// When the write expires, in seconds since the Unix epoch; `None` if it does not.
    #[must_use]
    pub fn expires_s(&self) -> Option<i64> {
        (self.ttl_s != 0).then(|| self.now_s.saturating_add(i64::from(self.ttl_s)))
    }
}

/// Bytes that are not an encoded mutation or row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMutation {
    /// What was expected.
    pub what: &'static str,
}

impl std::fmt::Display for MalformedMutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed mutation: {}", self.what)
    }
}

impl std::error::Error for MalformedMutation {}

/// A deletion of all that is not newer than it, in a range of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeDeletion<'a> {
    /// The first encoded clustering key; not empty. Need not be the key of a row.
    pub from: &'a [u8],
    /// The first one behind them.
    pub to: &'a [u8],
    /// What it deletes there.
    pub deletion: Deletion,
}

/// One change of a partition.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// Everything in the partition up to a timestamp is deleted.
    PartitionDeletion(Deletion),
    /// Rows with clustering keys from `from` on and before `to` are deleted up to a timestamp.
    RangeDeletion(RangeDeletion<'a>),
    /// A row is written to.
    Row {
        /// Its encoded clustering key; empty if the table has none.
        ck: &'a [u8],
        /// The encoded row.
        row: &'a [u8],
    },
}

/// An encoded mutation, read in place.
#[derive(Clone, Copy, Debug)]
pub struct MutationView<'a> {
    bytes: &'a [u8],
    table: TableNumber,
    token: Token,
    key: &'a [u8],
    items: &'a [u8],
}

impl<'a> MutationView<'a> {
    /// Reads the head of the mutation at the beginning of `bytes`; more may follow it.
    ///
    /// # Errors
    ///
    /// If the bytes are cut short. Items are read as they are asked for; see [`Self::check`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MalformedMutation> {
        const SHORT: MalformedMutation = MalformedMutation { what: "a mutation is cut short" };
        let mut input = Input(bytes);
        let length = input.u32().ok_or(SHORT)? as usize;
        let whole = bytes.get(..4 + length).ok_or(SHORT)?;
        let mut input = Input(whole.get(4..).ok_or(SHORT)?);
        let table = TableNumber(input.u32().ok_or(SHORT)?);
        let token = Token(input.i64().ok_or(SHORT)?);
        let key_len = usize::from(input.u16().ok_or(SHORT)?);
        let key = input.take(key_len).ok_or(SHORT)?;
        Ok(Self { bytes: whole, table, token, key, items: input.0 })
    }

    /// Reads everything there is, so that nothing can be found wrong later.
    ///
    /// # Errors
    ///
    /// If an item, a row or a cell is cut short, out of order, or of a kind unknown here.
    pub fn check(&self) -> Result<(), MalformedMutation> {
        let mut items = self.items();
        for item in &mut items {
            match item {
                Item::Row { row, .. } => RowView::parse(row)?.check()?,
                Item::RangeDeletion(range) if range.from.is_empty() || range.from >= range.to => {
                    return Err(MalformedMutation { what: "a range of rows" });
                }
                Item::RangeDeletion(_) | Item::PartitionDeletion(_) => {}
            }
        }
        if items.input.0.is_empty() { Ok(()) } else { Err(MalformedMutation { what: "an item" }) }
    }

    /// The whole mutation, as it is encoded.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The table it changes.
    #[must_use]
    pub fn table(&self) -> TableNumber {
        self.table
    }

    /// The token of its partition.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// The key of its partition.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// What it changes, in the order written.
    #[must_use]
    pub fn items(&self) -> Items<'a> {
        Items { input: Input(self.items) }
    }

    /// The last of its items, which have so many bytes.
    #[must_use]
    pub fn last_items(&self, bytes: usize) -> Items<'a> {
        let first = self.items.len().saturating_sub(bytes);
        Items { input: Input(self.items.get(first..).unwrap_or_default()) }
    }
}

/// The items of a mutation. Ends early at what cannot be read.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    input: Input<'a>,
}

impl Items<'_> {
    /// Bytes of those to come.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.input.0.len()
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let mut input = self.input;
        let item = match input.u8()? {
            build::PARTITION_DELETION => {
                let timestamp = input.i64()?;
                Item::PartitionDeletion(Deletion { timestamp, deleted_s: input.i64()? })
            }
            kind @ (build::ROW | build::ROW_OF_LONG_KEY) => {
                let is_long = kind == build::ROW_OF_LONG_KEY;
                let ck_len = if is_long { input.u32()? as usize } else { input.u16()?.into() };
                let ck = input.take(ck_len)?;
                let row_len = input.u32()? as usize;
                Item::Row { ck, row: input.take(row_len)? }
            }
            build::RANGE_DELETION => {
                let length = input.u32()? as usize;
                let from = input.take(length)?;
                let length = input.u32()? as usize;
                let to = input.take(length)?;
                let deletion = Deletion { timestamp: input.i64()?, deleted_s: input.i64()? };
                Item::RangeDeletion(RangeDeletion { from, to, deletion })
            }
            _ => return None,
        };
        self.input = input;
        Some(item)
    }
}

/// The mutations that follow each other in `bytes`. After an error there are no more.
pub fn mutations(
    bytes: &[u8],
) -> impl Iterator<Item = Result<MutationView<'_>, MalformedMutation>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let view = MutationView::parse(rest);
        rest = match &view {
            Ok(view) => rest.get(view.bytes.len()..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(view)
    })
}

/// Bytes yet to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    #[inline]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests;
