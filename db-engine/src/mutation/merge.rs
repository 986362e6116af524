//! Merging two versions of a row, cell by cell: the last write wins.
//!
//! Of two cells the one with the higher timestamp wins. If they are equal, a tombstone beats a
//! value, and the later deletion the earlier one; a value that expires beats one that does not,
//! then the later expiry wins, then the smaller TTL (it was written later), then the larger value
//! in byte order. The rule is Cassandra's and depends neither on the order of merging nor on the
//! time, so an expired cell goes on hiding what is older. Elements of a collection are cells of
//! their own; a tombstone of the whole collection hides those that are not newer.
//!
//! The result is canonical: equal cells give equal bytes, whatever they were merged from.

use std::cmp::Ordering;

use super::row::{
    CELL_PATH, CELL_TIMESTAMP, CELL_TOMBSTONE, CELL_TTL, Cell, Cells, CellsPlace, Content,
    DELETION, Deletion, Liveness, MANY, MARKER, RowView, TTL,
};
use crate::io::TimeSlice;

/// Appends to `out` the row that results from two versions of it.
///
/// Bytes that are no rows count as empty ones: rows are checked where they enter.
pub fn merge(a: &[u8], b: &[u8], out: &mut Vec<u8>) {
    merge_some(a, b, &mut None, out, &mut TimeSlice::endless());
}

/// How far two rows are merged.
#[derive(Debug)]
pub struct MergePlace {
    encoding: RowEncoding,
    /// The next cell of each.
    next: (CellsPlace, CellsPlace),
    visible: Visible,
}

impl MergePlace {
    /// Writes all but the cells.
    fn begin(a: &RowView<'_>, b: &RowView<'_>, out: &mut Vec<u8>) -> Self {
        let deletion = a.deletion().max(b.deletion());
        let visible = Visible::behind(deletion.map(|deletion| deletion.timestamp));
        let marker = match (a.marker(), b.marker()) {
            (Some(a), Some(b)) => Some(if liveness_order(&a, &b).is_ge() { a } else { b }),
            (a, b) => a.or(b),
        };
        let first = || MergedCells::of(a.cells(), b.cells());
        let encoding = RowEncoding::begin(marker, deletion, (visible, first), out);
        Self { encoding, next: (a.cells().place(), b.cells().place()), visible }
    }
}

/// As [`merge`], as far as there is time for: false if that is not all. The rows must be the same
/// until it is, and what is in `out`.
pub fn merge_some(
    a: &[u8],
    b: &[u8],
    place: &mut Option<MergePlace>,
    out: &mut Vec<u8>,
    time: &mut TimeSlice<'_>,
) -> bool {
    let (bytes_of_a, bytes_of_b) = (a, b);
    let (a, b) = (view(a), view(b));
    let begun = match place.take() {
        None if b.replaces(&a) => {
            out.extend_from_slice(bytes_of_b);
            return true;
        }
        None if a.replaces(&b) => {
            out.extend_from_slice(bytes_of_a);
            return true;
        }
        None => {
            // So that it need not grow cell by cell.
            out.reserve(bytes_of_a.len().max(bytes_of_b.len()));
            MergePlace::begin(&a, &b, out)
        }
        Some(begun) => begun,
    };
    let MergePlace { mut encoding, next, mut visible } = begun;
    let mut cells = MergedCells::of(a.cells_behind(next.0), b.cells_behind(next.1));
    while let Some(cell) = cells.next() {
        let before = out.len();
        if visible.has(&cell) {
            encoding.add(&cell, out);
        }
        time.count(out.len() - before);
        if time.is_over() {
            *place = Some(MergePlace { encoding, next: cells.place(), visible });
            return false;
        }
    }
    encoding.finish(out);
    true
}

/// Appends to `out` what is left of a row once everything in it up to this timestamp is deleted.
pub fn shadow(row: &[u8], timestamp: i64, out: &mut Vec<u8>) {
    let row = view(row);
    let deletion = row.deletion().filter(|deletion| deletion.timestamp > timestamp);
    encode(row.marker(), deletion, Some(timestamp), row.cells(), out);
}

/// Appends to `out` what is left of a row without some of its cells.
pub fn without(row: &[u8], is_gone: impl Fn(&Cell<'_>) -> bool, out: &mut Vec<u8>) {
    let row = view(row);
    let cells = row.cells().filter(|cell| !is_gone(cell));
    encode(row.marker(), row.deletion(), None, cells, out);
}

/// Which deletions, and what of all that has expired, hides nothing that is left or may still come.
#[derive(Clone, Copy, Debug)]
pub struct Forgettable {
    /// What was written before this moment, in microseconds since the Unix epoch.
    pub written_before_us: i64,
    /// And has expired or was deleted up to this second since then.
    pub dead_until_s: i64,
}

impl Forgettable {
    /// Whether a deletion is of it.
    #[must_use]
    pub fn covers(&self, deletion: Deletion) -> bool {
        deletion.timestamp < self.written_before_us && deletion.deleted_s <= self.dead_until_s
    }

    fn covers_liveness(&self, Liveness { timestamp, ttl_s, expires_s }: Liveness) -> bool {
        ttl_s != 0 && self.covers(Deletion { timestamp, deleted_s: expires_s })
    }

    fn covers_cell(&self, cell: &Cell<'_>) -> bool {
        let timestamp = cell.liveness.timestamp;
        match cell.content {
            Content::Dead { deleted_s } => self.covers(Deletion { timestamp, deleted_s }),
            Content::Live(_) => self.covers_liveness(cell.liveness),
        }
    }
}

/// Appends to `out` what is left of a row without what may be forgotten.
pub fn forget(row: &[u8], what: Forgettable, out: &mut Vec<u8>) {
    let row = view(row);
    let hidden = row.deletion().map(|deletion| deletion.timestamp);
    let marker = row.marker().filter(|marker| !what.covers_liveness(*marker));
    let deletion = row.deletion().filter(|deletion| !what.covers(*deletion));
    // What a cell hides is hidden before it goes.
    let mut visible = Visible::behind(hidden);
    let visible = row.cells().filter(move |cell| visible.has(cell));
    encode(marker, deletion, hidden, visible.filter(|cell| !what.covers_cell(cell)), out);
}

/// The timestamp of the newest thing in a row that may be forgotten.
#[must_use]
pub fn newest_forgotten(row: &[u8], what: Forgettable) -> Option<i64> {
    let row = view(row);
    let marker = row.marker().filter(|marker| what.covers_liveness(*marker));
    let deletion = row.deletion().filter(|deletion| what.covers(*deletion));
    let cells = row.cells().filter(|cell| what.covers_cell(cell));
    let marker = marker.map(|marker| marker.timestamp).into_iter();
    let others = deletion.map(|deletion| deletion.timestamp).into_iter();
    marker.chain(others).chain(cells.map(|cell| cell.liveness.timestamp)).max()
}

fn view(bytes: &[u8]) -> RowView<'_> {
    const EMPTY: &[u8] = &[0; 11];
    let parsed = RowView::parse(bytes);
    debug_assert!(parsed.is_ok(), "rows are checked where they enter");
    parsed.unwrap_or_else(|_| RowView::parse(EMPTY).expect("it is a row without cells"))
}

fn liveness_order(a: &Liveness, b: &Liveness) -> Ordering {
    let expiring = |liveness: &Liveness| liveness.ttl_s != 0;
    a.timestamp
        .cmp(&b.timestamp)
        .then_with(|| expiring(a).cmp(&expiring(b)))
        .then_with(|| a.expires_s.cmp(&b.expires_s))
        .then_with(|| b.ttl_s.cmp(&a.ttl_s))
}

fn cell_order(a: &Cell, b: &Cell) -> Ordering {
    let by_time = a.liveness.timestamp.cmp(&b.liveness.timestamp);
    by_time.then_with(|| match (a.content, b.content) {
        (Content::Dead { deleted_s: a }, Content::Dead { deleted_s: b }) => a.cmp(&b),
        (Content::Dead { .. }, Content::Live(_)) => Ordering::Greater,
        (Content::Live(_), Content::Dead { .. }) => Ordering::Less,
        (Content::Live(x), Content::Live(y)) => {
            liveness_order(&a.liveness, &b.liveness).then_with(|| x.cmp(y))
        }
    })
}

/// Cells, of which the next one is looked at ahead.
struct CellsAhead<'a> {
    next: Option<Cell<'a>>,
    /// Where that is.
    place: CellsPlace,
    rest: Cells<'a>,
}

impl<'a> CellsAhead<'a> {
    fn of(mut rest: Cells<'a>) -> Self {
        let place = rest.place();
        Self { next: rest.next(), place, rest }
    }

    #[inline]
    fn take(&mut self) -> Option<Cell<'a>> {
        self.place = self.rest.place();
        std::mem::replace(&mut self.next, self.rest.next())
    }
}

/// The winning cell of each column or element of two rows.
struct MergedCells<'a> {
    a: CellsAhead<'a>,
    b: CellsAhead<'a>,
}

impl<'a> MergedCells<'a> {
    fn of(a: Cells<'a>, b: Cells<'a>) -> Self {
        Self { a: CellsAhead::of(a), b: CellsAhead::of(b) }
    }

    /// Where the next cell of each is.
    fn place(&self) -> (CellsPlace, CellsPlace) {
        (self.a.place, self.b.place)
    }
}

impl<'a> Iterator for MergedCells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (Some(a), Some(b)) = (&self.a.next, &self.b.next) else {
            return self.a.take().or_else(|| self.b.take());
        };
        match a.place().cmp(&b.place()) {
            Ordering::Less => self.a.take(),
            Ordering::Greater => self.b.take(),
            Ordering::Equal => {
                let (a, b) = (self.a.take()?, self.b.take()?);
                Some(if cell_order(&a, &b).is_ge() { a } else { b })
            }
        }
    }
}

/// Tells of the cells of a row, one after the other, whether nothing hides them.
#[derive(Clone, Copy, Debug)]
struct Visible {
    /// Everything up to this timestamp is deleted.
    hidden: Option<i64>,
    /// A column of which everything up to a timestamp is deleted.
    collection: Option<(u16, i64)>,
}

impl Visible {
    fn behind(hidden: Option<i64>) -> Self {
        Self { hidden, collection: None }
    }

    #[inline]
    fn has(&mut self, cell: &Cell<'_>) -> bool {
        let timestamp = cell.liveness.timestamp;
        if self.hidden.is_some_and(|hidden| timestamp <= hidden) {
            return false;
        }
        if cell.path.is_none() {
            self.collection = Some((cell.column, timestamp));
            return true;
        }
        let of_column = self.collection.filter(|(column, _)| *column == cell.column);
        of_column.is_none_or(|(_, deleted)| timestamp > deleted)
    }
}

/// Writes a row, without what is not newer than `hidden`.
fn encode<'a>(
    marker: Option<Liveness>,
    deletion: Option<Deletion>,
    hidden: Option<i64>,
    cells: impl Iterator<Item = Cell<'a>> + Clone,
    out: &mut Vec<u8>,
) {
    let mut visible = Visible::behind(hidden);
    let mut encoding = RowEncoding::begin(marker, deletion, (visible, || cells.clone()), out);
    for cell in cells.filter(|cell| visible.has(cell)) {
        encoding.add(&cell, out);
    }
    encoding.finish(out);
}

/// A row that is written cell by cell.
#[derive(Debug)]
struct RowEncoding {
    /// What cells have that say nothing else.
    base: Liveness,
    /// Where the row begins.
    start: usize,
    /// Where the number of its cells is.
    count_at: usize,
    count: u32,
}

impl RowEncoding {
    /// Writes all but the cells. Without a marker the first that is visible of them is looked at.
    fn begin<'a, I: Iterator<Item = Cell<'a>>>(
        marker: Option<Liveness>,
        deletion: Option<Deletion>,
        (mut visible, cells): (Visible, impl FnOnce() -> I),
        out: &mut Vec<u8>,
    ) -> Self {
        let stays =
            |liveness: &Liveness| visible.hidden.is_none_or(|hidden| liveness.timestamp > hidden);
        let marker = marker.filter(stays);
        let first = || cells().find(|cell| visible.has(cell)).map(|cell| cell.liveness);
        let base = marker.or_else(first).unwrap_or(Liveness::forever(0));

        let start = out.len();
        let mut flags = 0;
        flags |= if marker.is_some() { MARKER } else { 0 };
        flags |= if base.ttl_s != 0 { TTL } else { 0 };
        flags |= if deletion.is_some() { DELETION } else { 0 };
        out.push(flags);
        out.extend_from_slice(&base.timestamp.to_le_bytes());
        if base.ttl_s != 0 {
            out.extend_from_slice(&base.ttl_s.to_le_bytes());
            out.extend_from_slice(&base.expires_s.to_le_bytes());
        }
        if let Some(deletion) = deletion {
            out.extend_from_slice(&deletion.timestamp.to_le_bytes());
            out.extend_from_slice(&deletion.deleted_s.to_le_bytes());
        }
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        Self { base, start, count_at, count: 0 }
    }

    #[inline]
    fn add(&mut self, cell: &Cell<'_>, out: &mut Vec<u8>) {
        encode_cell(cell, &self.base, out);
        self.count += 1;
    }

    /// Writes how many cells there are.
    fn finish(self, out: &mut Vec<u8>) {
        let Self { start, count_at, count, .. } = self;
        if let Ok(count) = u16::try_from(count) {
            out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
        } else {
            out[start] |= MANY;
            out.splice(count_at..count_at + 2, count.to_le_bytes());
        }
    }
}

fn encode_cell(cell: &Cell, base: &Liveness, out: &mut Vec<u8>) {
    let liveness = &cell.liveness;
    let own_timestamp = liveness.timestamp != base.timestamp;
    let own_ttl = matches!(cell.content, Content::Live(_))
        && (liveness.ttl_s, liveness.expires_s) != (base.ttl_s, base.expires_s);
    let mut flags = 0;
    flags |= if matches!(cell.content, Content::Dead { .. }) { CELL_TOMBSTONE } else { 0 };
    flags |= if own_timestamp { CELL_TIMESTAMP } else { 0 };
    flags |= if own_ttl { CELL_TTL } else { 0 };
    flags |= if cell.path.is_some() { CELL_PATH } else { 0 };
    out.extend_from_slice(&cell.column.to_le_bytes());
    out.push(flags);
    if own_timestamp {
        out.extend_from_slice(&liveness.timestamp.to_le_bytes());
    }
    if own_ttl {
        out.extend_from_slice(&liveness.ttl_s.to_le_bytes());
        out.extend_from_slice(&liveness.expires_s.to_le_bytes());
    }
    if let Some(path) = cell.path {
        let length = u32::try_from(path.len()).expect("it was decoded from a u32");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(path);
    }
    match cell.content {
        Content::Dead { deleted_s } => out.extend_from_slice(&deleted_s.to_le_bytes()),
        Content::Live(value) => {
            let length = u32::try_from(value.len()).expect("it was decoded from a u32");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(value);
        }
    }
}
