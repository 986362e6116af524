//! What can be asked of a store, and what it answers.

use std::{ops::Bound, sync::Arc};

use super::{RowFilter, SplitSstable};
use crate::{
    error::Error,
    mutation::{TableNumber, Token},
};

/// Names a request to whoever made it; the store only gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u128);

/// Why a write was not taken. Nothing of it has happened, nor will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// More is waiting to be written than may wait. Worth trying again soon.
    Overloaded,
    /// The disk is full. Worth trying again once there is space; reads go on.
    NoSpace,
    /// The write has more bytes than [`super::WRITE_BYTES_MAX`]. Not worth trying again.
    TooLarge,
    /// The table is not known here: it was dropped.
    UnknownTable,
    /// The bytes are no mutations: a bug of the caller.
    Malformed,
    /// The store is shutting down.
    Closing,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refused::Overloaded => "too much is waiting to be written",
            Refused::NoSpace => "the disk is full",
            Refused::TooLarge => "the write is too large",
            Refused::UnknownTable => "the table was dropped",
            Refused::Malformed => "a mutation is malformed",
            Refused::Closing => "the store is shutting down",
        })
    }
}

/// Something that was asked for earlier and is now over.
#[derive(Debug)]
pub enum Done {
    /// The write is durable and visible.
    Write(Tag),
    /// The write did not happen, after all: no space was found for it.
    WriteFailed(Tag, Refused),
    /// The intent is durable.
    Intent(Tag),
    /// The intent is not to be found after a crash: no space was found for it.
    IntentFailed(Tag, Refused),
    /// The read is answered.
    Read(Tag, Box<Page>),
    /// An sstable with rows of several shards was split: this is for that shard's store.
    Split(u16, Box<SplitSstable>),
    /// The read cannot be answered: data is damaged or cannot be read. Never a wrong answer.
    ReadFailed(Tag, Arc<Error>),
}

/// The shard cannot go on: the process must acknowledge nothing more and exit with an error.
///
/// What was acknowledged is safe; opening the directory again brings it back.
#[derive(Clone, Debug)]
pub struct Fatal(pub Arc<Error>);

impl std::fmt::Display for Fatal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "storage has stopped: {}. What was acknowledged is there after a start", self.0)
    }
}

impl std::error::Error for Fatal {}

impl From<Error> for Fatal {
    fn from(error: Error) -> Self {
        Fatal(Arc::new(error))
    }
}

/// Which partitions to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Partitions {
    /// The one with this key.
    One {
        /// The key's token.
        token: Token,
        /// The serialized partition key.
        key: Vec<u8>,
    },
    /// All of the shard with tokens from `from` to `to`, both inclusive, ascending by (token, key).
    Range {
        /// The first token.
        from: i64,
        /// The last token.
        to: i64,
    },
}

/// A row's place in the order of reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The token of its partition.
    pub token: Token,
    /// The key of its partition.
    pub key: Vec<u8>,
    /// Its clustering key. Behind all rows of the partition it is [`ABOVE`] alone.
    ///
    /// [`ABOVE`]: crate::types::comparable::ABOVE
    pub ck: Vec<u8>,
}

/// Rows to be read from one table of one shard.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // six things that can each be asked for
pub struct ReadRequest {
    /// The table.
    pub table: TableNumber,
    /// Its partitions.
    pub partitions: Partitions,
    /// Where rows begin by encoded clustering key, smallest first even if `reverse`. Must be
    /// unbounded with [`Partitions::Range`].
    pub from: Bound<Vec<u8>>,
    /// Where rows end. Must be unbounded with [`Partitions::Range`].
    pub to: Bound<Vec<u8>>,
    /// From the last clustering key to the first. Must be false with [`Partitions::Range`].
    pub reverse: bool,
    /// Only rows after this one in the order of reading: where an earlier page ended.
    pub after: Option<Position>,
    /// Most rows in the page; rows that are not live do not count and are not returned.
    pub rows_max: usize,
    /// Most rows of each partition of a range: behind them the read goes on with the next one.
    pub partition_rows_max: usize,
    /// Most rows of the partition of `after`, instead: some may have been in an earlier page.
    pub partition_rows_left: usize,
    /// Which of the rows count; the others are not returned, either. Of static rows all do.
    pub filter: Option<Arc<dyn RowFilter>>,
    /// The page ends with the row that makes it this many bytes long.
    pub bytes_max: usize,
    /// What has expired by this second since the Unix epoch is not returned.
    pub now_s: i64,
    /// The columns that are wanted, ascending: rows may lack the cells of others. `None`: all.
    pub columns: Option<Arc<[u16]>>,
    /// Whether the table has or had static columns: the row without a clustering key is the static
    /// row of its partition. A page then begins each partition with it, if it is live, wherever
    /// `from`, `to` and `after` are, also the partition in which it goes on, unless `after` is its
    /// end. It counts neither for `rows_max` nor as a row that is not live.
    pub static_rows: bool,
    /// Blocks that are read from disk for this alone do not stay in memory.
    pub bypass_cache: bool,
    /// Whether [`Page::newest_us`] is wanted, of the one row that is read.
    pub newest: bool,
    /// Whether no row of the one partition that is read may be newer than that, whichever are read.
    pub newest_of_all: bool,
    /// Whether the page after this one is likely to be asked for: what was read is kept for it.
    pub goes_on: bool,
}

impl ReadRequest {
    /// All rows of one partition.
    #[must_use]
    pub fn partition(table: TableNumber, token: Token, key: &[u8], now_s: i64) -> Self {
        Self {
            partitions: Partitions::One { token, key: key.to_vec() },
            ..Self::scan(table, i64::MIN, i64::MAX, now_s)
        }
    }

    /// All rows of all partitions with tokens from `from` to `to`, both inclusive.
    #[must_use]
    pub fn scan(table: TableNumber, from: i64, to: i64, now_s: i64) -> Self {
        Self {
            table,
            partitions: Partitions::Range { from, to },
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            reverse: false,
            after: None,
            rows_max: usize::MAX,
            partition_rows_max: usize::MAX,
            partition_rows_left: usize::MAX,
            filter: None,
            bytes_max: usize::MAX,
            now_s,
            columns: None,
            static_rows: false,
            bypass_cache: false,
            newest: false,
            newest_of_all: false,
            goes_on: false,
        }
    }
}

/// One row of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRow<'a> {
    /// The token of its partition.
    pub token: Token,
    /// The key of its partition.
    pub key: &'a [u8],
    /// Its encoded clustering key.
    pub ck: &'a [u8],
    /// The row: live, but it may hold expired and deleted cells; see
    /// [`crate::mutation::RowView::cell`].
    pub row: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct RowSpan {
    token: Token,
    key: (usize, usize),
    ck: (usize, usize),
    row: (usize, usize),
}

/// What it took to read a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCost {
    /// Memtables that had something of what was asked for.
    pub memtables: u64,
    /// Sstables that were looked into.
    pub sstables: u64,
    /// Times that a block of an sstable was found in the cache.
    pub blocks_found: u64,
    /// Blocks of sstables that were waited for.
    pub blocks_read: u64,
    /// Microseconds that these, and more time on the shard, were waited for.
    pub waited_us: u64,
    /// Versions of rows looked at, before merging.
    pub rows_scanned: u64,
}

/// Copying so many bytes into new memory takes some hundred microseconds.
const LARGE_PAGE_BYTES: usize = 512 << 10;

/// Copying a shorter row costs less than the memory for the next one.
const TAKEN_BYTES_MIN: usize = 64 << 10;

/// Rows that were read, in the order of reading. Its memory can be used again.
#[derive(Clone, Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    spans: Vec<RowSpan>,
    /// Which of its rows is the static one that was appended last.
    static_row: Option<usize>,
    is_unjudged: bool,
    dead: u64,
    position: Option<Position>,
    newest_us: Option<i64>,
    /// What it took to read it.
    pub cost: ReadCost,
}

impl Page {
    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        (self.static_row, self.is_unjudged) = (None, false);
        self.dead = 0;
        self.position = None;
        self.newest_us = None;
        self.cost = ReadCost::default();
    }

    /// How many rows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has no rows. There may be [`Self::more`] all the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all its rows and keys.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether copying it takes long.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.bytes.len() >= LARGE_PAGE_BYTES
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = PageRow<'_>> + DoubleEndedIterator {
        self.spans.iter().map(|span| self.row(span))
    }

    fn row(&self, span: &RowSpan) -> PageRow<'_> {
        let slice = |(from, to): (usize, usize)| &self.bytes[from..to];
        let RowSpan { token, key, ck, row } = *span;
        PageRow { token, key: slice(key), ck: slice(ck), row: slice(row) }
    }

    /// The static row of a partition, if it was appended last of all static rows.
    pub(super) fn static_row_of(&self, key: &[u8]) -> Option<PageRow<'_>> {
        let row = self.row(self.spans.get(self.static_row?)?);
        (row.key == key).then_some(row)
    }

    /// The row that was appended last is a static one.
    pub(super) fn note_static_row(&mut self) {
        self.static_row = self.spans.len().checked_sub(1);
    }

    /// Whether it has rows of which [`RowFilter`] could not tell whether they count.
    #[must_use]
    pub fn is_unjudged(&self) -> bool {
        self.is_unjudged
    }

    /// Of the row that is appended next the filter could not tell.
    pub fn note_unjudged(&mut self) {
        self.is_unjudged = true;
    }

    /// Whether the page was cut: what comes after [`Self::position`] was not looked at.
    #[must_use]
    pub fn more(&self) -> bool {
        self.position.is_some()
    }

    /// Where to go on: [`ReadRequest::after`] of the next page. `None` if nothing is left. A page
    /// that is cut among rows that are not live has a position after its last row.
    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Appends a row.
    pub fn push(&mut self, token: Token, key: &[u8], ck: &[u8], row: &[u8]) {
        let same = self.spans.last().filter(|last| {
            last.token == token && self.bytes.get(last.key.0..last.key.1) == Some(key)
        });
        let key = if let Some(last) = same {
            last.key
        } else {
            self.bytes.reserve(key.len() + ck.len() + row.len());
            self.append(key)
        };
        let (ck, row) = (self.append(ck), self.append(row));
        self.spans.push(RowSpan { token, key, ck, row });
    }

    /// Appends a row. If it is large and the first, it is taken without being copied, in exchange
    /// for other memory.
    pub(super) fn push_taken(&mut self, token: Token, key: &[u8], ck: &[u8], row: &mut Vec<u8>) {
        if row.len() < TAKEN_BYTES_MIN || !self.bytes.is_empty() {
            return self.push(token, key, ck, row);
        }
        std::mem::swap(&mut self.bytes, row);
        let row = (0, self.bytes.len());
        let (key, ck) = (self.append(key), self.append(ck));
        self.spans.push(RowSpan { token, key, ck, row });
    }

    /// How many rows were looked at for it that are not live or do not count, and deletions of
    /// partitions.
    #[must_use]
    pub fn dead(&self) -> u64 {
        self.dead
    }

    /// The timestamp of the newest thing that was looked at, live or not: a marker, a cell, or a
    /// deletion of a cell, the row, a range or the partition. What is newer is not hidden by any of
    /// it. `None` if there was nothing, or [`ReadRequest::newest`] was not said.
    #[must_use]
    pub fn newest_us(&self) -> Option<i64> {
        self.newest_us
    }

    /// Takes note of something with this timestamp.
    pub fn note_timestamp(&mut self, timestamp_us: i64) {
        self.newest_us = self.newest_us.max(Some(timestamp_us));
    }

    /// Counts one more of these.
    pub fn add_dead(&mut self) {
        self.dead += 1;
    }

    /// Says that the page was cut after this place in the order of reading.
    pub fn cut(&mut self, token: Token, key: &[u8], ck: &[u8]) {
        self.position = Some(Position { token, key: key.to_vec(), ck: ck.to_vec() });
    }

    fn append(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (from, self.bytes.len())
    }
}
