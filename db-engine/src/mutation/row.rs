//! A row, read in place.

use super::{Forgettable, Input, MalformedMutation};

pub(super) const MARKER: u8 = 1;
pub(super) const TTL: u8 = 2;
pub(super) const DELETION: u8 = 4;
/// The number of cells takes a u32.
pub(super) const MANY: u8 = 8;
const ROW_FLAGS: u8 = MARKER | TTL | DELETION | MANY;

pub(super) const CELL_TOMBSTONE: u8 = 1;
pub(super) const CELL_TIMESTAMP: u8 = 2;
pub(super) const CELL_TTL: u8 = 4;
pub(super) const CELL_PATH: u8 = 8;
const CELL_FLAGS: u8 = CELL_TOMBSTONE | CELL_TIMESTAMP | CELL_TTL | CELL_PATH;

/// When something was written and until when it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// When it was written, in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// The time to live it was given, in seconds; 0 if it does not expire.
    pub ttl_s: u32,
    /// The first second since the Unix epoch at which it is no longer there; `i64::MAX` if it
    /// does not expire.
    pub expires_s: i64,
}

impl Liveness {
    /// Written at this time, and never to expire.
    #[must_use]
    pub fn forever(timestamp: i64) -> Self {
        Self { timestamp, ttl_s: 0, expires_s: i64::MAX }
    }

    /// The same with what is stored of its expiry, which says nothing without a time to live.
    #[inline]
    fn expiring(self, ttl_s: u32, expires_s: i64) -> Self {
        Self { ttl_s, expires_s: if ttl_s == 0 { i64::MAX } else { expires_s }, ..self }
    }

    /// Whether it is still there at this time.
    #[must_use]
    pub fn is_live(&self, now_s: i64) -> bool {
        self.ttl_s == 0 || self.expires_s > now_s
    }
}

/// A deletion of all that is not newer than it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deletion {
    /// The newest write that it deletes, in microseconds since the Unix epoch.
    pub timestamp: i64,
    /// When it was made, in seconds since the Unix epoch.
    pub deleted_s: i64,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Nothing, since this second.
    Dead {
        /// When it was deleted, in seconds since the Unix epoch.
        deleted_s: i64,
    },
    /// A value, in the encoding of CQL's native protocol.
    Live(&'a [u8]),
}

/// One cell as it is stored, expired or deleted ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The number of its column.
    pub column: u16,
    /// Which element of a collection it is; `None` if it is all of the column. That hides the
    /// elements that are not newer: it is their tombstone.
    pub path: Option<&'a [u8]>,
    /// When it was written and until when it counts. A tombstone does not expire.
    pub liveness: Liveness,
    /// What it holds.
    pub content: Content<'a>,
}

impl<'a> Cell<'a> {
    /// What cells ascend by.
    #[must_use]
    #[inline]
    pub fn place(&self) -> (u16, Option<&'a [u8]>) {
        (self.column, self.path)
    }

    /// The cell as a reader sees it at this time, if it does.
    #[must_use]
    #[inline]
    pub fn view(&self, now_s: i64) -> Option<CellView<'a>> {
        match self.content {
            Content::Live(value) if self.liveness.is_live(now_s) => {
                Some(CellView { value, liveness: self.liveness })
            }
            _ => None,
        }
    }
}

/// A cell that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellView<'a> {
    /// Its value, in the encoding of CQL's native protocol.
    pub value: &'a [u8],
    /// When it was written and until when it counts.
    pub liveness: Liveness,
}

/// When the marker, the deletion and the cells of a row were written, and when they are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTimes {
    /// How many of these there are.
    pub count: u64,
    /// The lowest and the highest timestamp, in microseconds since the Unix epoch.
    pub timestamps: (i64, i64),
    /// The first and the last second from which on a reader sees nothing of one of them, because
    /// it expired or was deleted; `i64::MAX` if it is there for ever.
    pub gone_s: (i64, i64),
}

impl Default for RowTimes {
    fn default() -> Self {
        Self { count: 0, timestamps: (i64::MAX, i64::MIN), gone_s: (i64::MAX, i64::MIN) }
    }
}

impl RowTimes {
    /// Of a marker, a deletion or a cell.
    #[inline]
    pub fn add(&mut self, timestamp: i64, gone_s: i64) {
        self.count += 1;
        self.timestamps = (self.timestamps.0.min(timestamp), self.timestamps.1.max(timestamp));
        self.gone_s = (self.gone_s.0.min(gone_s), self.gone_s.1.max(gone_s));
    }

    /// Whether some of it may be forgotten; that is so rarely.
    #[inline]
    #[must_use]
    pub fn may_be_forgotten(&self, what: Forgettable) -> bool {
        self.timestamps.0 < what.written_before_us && self.gone_s.0 <= what.dead_until_s
    }
}

/// An encoded row, read in place.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    flags: u8,
    base: Liveness,
    deletion: Option<Deletion>,
    count: u32,
    cells: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Reads the head of a row that fills `bytes`.
    ///
    /// # Errors
    ///
    /// If the head is cut short or has flags unknown here. Cells are read as they are asked for;
    /// see [`Self::check`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MalformedMutation> {
        let row = Self::read(bytes).ok_or(MalformedMutation { what: "a row is cut short" })?;
        if row.flags & !ROW_FLAGS == 0 {
            Ok(row)
        } else {
            Err(MalformedMutation { what: "row flags" })
        }
    }

    #[inline]
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut input = Input(bytes);
        let flags = input.u8()?;
        let mut base = Liveness::forever(input.i64()?);
        if flags & TTL != 0 {
            base = base.expiring(input.u32()?, input.i64()?);
        }
        let deletion = if flags & DELETION != 0 {
            Some(Deletion { timestamp: input.i64()?, deleted_s: input.i64()? })
        } else {
            None
        };
        let count = if flags & MANY == 0 { input.u16()?.into() } else { input.u32()? };
        Some(Self { flags, base, deletion, count, cells: input.0 })
    }

    /// Reads every cell, so that nothing can be found wrong later.
    ///
    /// # Errors
    ///
    /// If a cell is cut short, out of order or has flags unknown here, or bytes are left over.
    pub fn check(&self) -> Result<(), MalformedMutation> {
        let mut cells = self.cells();
        let mut last: Option<Cell<'_>> = None;
        for cell in &mut cells {
            if last.is_some_and(|last| last.place() >= cell.place()) {
                return Err(MalformedMutation { what: "cells in order of their columns" });
            }
            last = Some(cell);
        }
        let complete = cells.left == 0 && cells.input.0.is_empty();
        if complete { Ok(()) } else { Err(MalformedMutation { what: "a cell" }) }
    }

    /// The row marker, as INSERT writes it, expired ones included.
    #[must_use]
    pub fn marker(&self) -> Option<Liveness> {
        (self.flags & MARKER != 0).then_some(self.base)
    }

    /// The deletion of the row.
    #[must_use]
    pub fn deletion(&self) -> Option<Deletion> {
        self.deletion
    }

    /// All cells, expired and deleted ones included, ascending by column and path.
    #[must_use]
    pub fn cells(&self) -> Cells<'a> {
        Cells { input: Input(self.cells), base: self.base, left: self.count }
    }

    /// The cells behind a [place](Cells::place) among those of the same row.
    #[must_use]
    pub fn cells_behind(&self, place: CellsPlace) -> Cells<'a> {
        let start = self.cells.len().saturating_sub(place.left_bytes);
        let input = Input(self.cells.get(start..).unwrap_or_default());
        Cells { input, base: self.base, left: place.left }
    }

    /// A column's cell as a reader sees it at this time, if it does. A column of elements has none.
    #[must_use]
    pub fn cell(&self, column: u16, now_s: i64) -> Option<CellView<'a>> {
        let mut cells = self.cells();
        cells.find(|cell| cell.column >= column).filter(|cell| cell.column == column)?.view(now_s)
    }

    /// Whether readers see the row: its marker or one of its cells is there.
    #[must_use]
    #[inline]
    pub fn is_live(&self, now_s: i64) -> bool {
        self.marker().is_some_and(|marker| marker.is_live(now_s))
            || self.cells().any(|cell| cell.view(now_s).is_some())
    }

    /// Whether the row says nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flags & MARKER == 0 && self.deletion.is_none() && self.count == 0
    }

    /// Whether merging this row with the other gives this one, byte for byte: both are plain, this
    /// one is newer and has the same columns. So it is with a row that is written again.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        self.base.timestamp > other.base.timestamp
            && self.flags & (MARKER | DELETION | MANY) == MARKER
            && (self.flags & TTL == 0 || self.base.ttl_s != 0)
            && other.flags & (DELETION | MANY) == 0
            && self.count == other.count
            && have_same_plain_cells(self.count, Input(self.cells), Input(other.cells))
    }

    /// The lowest and the highest timestamp in the row: of its marker, its deletion and its cells.
    #[must_use]
    #[inline]
    pub fn timestamp_span(&self) -> Option<(i64, i64)> {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let mut add = |us: i64| (min, max) = (min.min(us), max.max(us));
        if let Some(marker) = self.marker() {
            add(marker.timestamp);
        }
        if let Some(deletion) = self.deletion {
            add(deletion.timestamp);
        }
        self.cells().for_each(|cell| add(cell.liveness.timestamp));
        (min <= max).then_some((min, max))
    }

    /// Tells of the marker, the deletion and each cell when it was written, in microseconds since
    /// the Unix epoch, and the second from which on a reader sees nothing of it: it expired or was
    /// deleted; `i64::MAX` if it is there for ever.
    #[inline]
    pub fn each_time(&self, mut tell: impl FnMut(i64, i64)) {
        if let Some(marker) = self.marker() {
            tell(marker.timestamp, marker.expires_s);
        }
        if let Some(deletion) = self.deletion {
            tell(deletion.timestamp, deletion.deleted_s);
        }
        for cell in self.cells() {
            let gone_s = match cell.content {
                Content::Live(_) => cell.liveness.expires_s,
                Content::Dead { deleted_s } => deleted_s,
            };
            tell(cell.liveness.timestamp, gone_s);
        }
    }

    /// When all that it has was written, and from when on a reader sees nothing of it.
    #[must_use]
    #[inline]
    pub fn times(&self) -> RowTimes {
        let mut times = RowTimes::default();
        self.each_time(|timestamp, gone_s| times.add(timestamp, gone_s));
        times
    }

    /// The moment, in microseconds since the Unix epoch, such that no other version of the row that
    /// was written before it can change what a reader sees: that the row is there, and these
    /// columns, which ascend. `None` if there is no such moment.
    #[must_use]
    pub fn settled_since(&self, columns: &[u16], now_s: i64) -> Option<i64> {
        let mut since = self.marker().filter(|marker| marker.is_live(now_s))?.timestamp;
        let mut cells = self.cells();
        for column in columns {
            let cell = cells.find(|cell| cell.column >= *column)?;
            if cell.column != *column || cell.path.is_some() {
                return None;
            }
            since = since.min(cell.liveness.timestamp);
        }
        Some(since)
    }
}

/// Whether the cells at the front of both are values of the same columns and have nothing of their
/// own but these.
fn have_same_plain_cells(count: u32, mut a: Input<'_>, mut b: Input<'_>) -> bool {
    let plain_column = |cells: &mut Input<'_>| {
        let column = cells.u16()?;
        let flags = cells.u8()?;
        let length = cells.u32()? as usize;
        cells.take(length)?;
        (flags == 0).then_some(column)
    };
    (0..count).all(|_| match (plain_column(&mut a), plain_column(&mut b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    })
}

/// The cells of a row. Ends early at what cannot be read.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    input: Input<'a>,
    base: Liveness,
    left: u32,
}

/// How far the cells of a row are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellsPlace {
    left: u32,
    left_bytes: usize,
}

impl Cells<'_> {
    /// Where the next cell is.
    #[must_use]
    pub fn place(&self) -> CellsPlace {
        CellsPlace { left: self.left, left_bytes: self.input.0.len() }
    }
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let left = self.left.checked_sub(1)?;
        let mut input = self.input;
        let column = input.u16()?;
        let flags = input.u8()?;
        if flags & !CELL_FLAGS != 0 {
            return None;
        }
        let mut liveness = self.base;
        if flags & CELL_TIMESTAMP != 0 {
            liveness.timestamp = input.i64()?;
        }
        if flags & CELL_TTL != 0 {
            liveness = liveness.expiring(input.u32()?, input.i64()?);
        }
        let path = if flags & CELL_PATH == 0 {
            None
        } else {
            let length = input.u32()? as usize;
            Some(input.take(length)?)
        };
        let content = if flags & CELL_TOMBSTONE == 0 {
            let length = input.u32()? as usize;
            Content::Live(input.take(length)?)
        } else {
            liveness = Liveness::forever(liveness.timestamp);
            Content::Dead { deleted_s: input.i64()? }
        };
        self.input = input;
        self.left = left;
        Some(Cell { column, path, liveness, content })
    }
}
