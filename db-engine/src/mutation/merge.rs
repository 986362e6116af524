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

use std::{cmp::Ordering, iter::Peekable};

use super::row::{
    CELL_PATH, CELL_TIMESTAMP, CELL_TOMBSTONE, CELL_TTL, Cell, Cells, Content, DELETION, Deletion,
    Liveness, MANY, MARKER, RowView, TTL,
};

/// Appends to `out` the row that results from two versions of it.
///
/// Bytes that are no rows count as empty ones: rows are checked where they enter.
pub fn merge(a: &[u8], b: &[u8], out: &mut Vec<u8>) {
    let (bytes_of_a, bytes_of_b) = (a, b);
    let (a, b) = (view(a), view(b));
    if b.replaces(&a) {
        return out.extend_from_slice(bytes_of_b);
    }
    if a.replaces(&b) {
        return out.extend_from_slice(bytes_of_a);
    }
    // So that it need not grow cell by cell.
    out.reserve(bytes_of_a.len().max(bytes_of_b.len()));
    let deletion = a.deletion().max(b.deletion());
    let hidden = deletion.map(|deletion| deletion.timestamp);
    let marker = match (a.marker(), b.marker()) {
        (Some(a), Some(b)) => Some(if liveness_order(&a, &b).is_ge() { a } else { b }),
        (a, b) => a.or(b),
    };
    encode(marker, deletion, hidden, MergedCells::of(a.cells(), b.cells()), out);
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
    let visible = Visible { cells: row.cells(), hidden, collection: None };
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

/// The winning cell of each column or element of two rows.
#[derive(Clone)]
struct MergedCells<'a> {
    a: Peekable<Cells<'a>>,
    b: Peekable<Cells<'a>>,
}

impl<'a> MergedCells<'a> {
    fn of(a: Cells<'a>, b: Cells<'a>) -> Self {
        Self { a: a.peekable(), b: b.peekable() }
    }
}

impl<'a> Iterator for MergedCells<'a> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        let (Some(a), Some(b)) = (self.a.peek(), self.b.peek()) else {
            return self.a.next().or_else(|| self.b.next());
        };
        match a.place().cmp(&b.place()) {
            Ordering::Less => self.a.next(),
            Ordering::Greater => self.b.next(),
            Ordering::Equal => {
                let (a, b) = (self.a.next()?, self.b.next()?);
                Some(if cell_order(&a, &b).is_ge() { a } else { b })
            }
        }
    }
}

/// The cells that nothing hides.
#[derive(Clone)]
struct Visible<I> {
    cells: I,
    /// Everything up to this timestamp is deleted.
    hidden: Option<i64>,
    /// A column of which everything up to a timestamp is deleted.
    collection: Option<(u16, i64)>,
}

impl<'a, I: Iterator<Item = Cell<'a>>> Iterator for Visible<I> {
    type Item = Cell<'a>;

    fn next(&mut self) -> Option<Cell<'a>> {
        loop {
            let cell = self.cells.next()?;
            let timestamp = cell.liveness.timestamp;
            if self.hidden.is_some_and(|hidden| timestamp <= hidden) {
                continue;
            }
            if cell.path.is_none() {
                self.collection = Some((cell.column, timestamp));
                return Some(cell);
            }
            let of_column = self.collection.filter(|(column, _)| *column == cell.column);
            if of_column.is_none_or(|(_, deleted)| timestamp > deleted) {
                return Some(cell);
            }
        }
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
    let stays = |liveness: &Liveness| hidden.is_none_or(|hidden| liveness.timestamp > hidden);
    let marker = marker.filter(stays);
    let cells = Visible { cells, hidden, collection: None };
    let first = || cells.clone().next().map(|cell| cell.liveness);
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
    let mut count = 0_u32;
    for cell in cells {
        encode_cell(&cell, &base, out);
        count += 1;
    }
    if let Ok(count) = u16::try_from(count) {
        out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
    } else {
        out[start] |= MANY;
        out.splice(count_at..count_at + 2, count.to_le_bytes());
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
