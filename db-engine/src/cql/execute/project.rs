//! A row of storage → the values that were asked for, in the wire form of a result.

use crate::{
    cql::{
        error::CqlError,
        prepare::{
            plan::SelectPlan,
            source::{Portion, Source},
        },
    },
    mutation::{Cell, Cells, CellsPlace, RowView},
    schema::CountedColumn,
    store::PageRow,
    types::{CqlType, collection::Elements, comparable},
};

/// What must be known of a table to take its rows apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    pub single_key: bool,
    pub clustering: &'a [(CqlType, bool)],
    /// Which cells count, by the numbers of their columns, if not all do.
    pub counted: Option<&'a [CountedColumn]>,
    /// Keys of elements that are asked for, as they compare.
    pub parts: &'a [Option<Vec<u8>>],
    pub now_s: i64,
}

impl SelectPlan {
    /// The rows that it reads.
    pub(super) fn shape<'a>(&'a self, now_s: i64, parts: &'a [Option<Vec<u8>>]) -> Shape<'a> {
        Shape {
            single_key: self.single_key,
            clustering: &self.clustering,
            counted: self.counted.as_deref(),
            parts,
            now_s,
        }
    }
}

impl Shape<'_> {
    /// Whether a cell was not dropped with its column.
    pub(super) fn counts(&self, cell: &Cell<'_>) -> bool {
        let Some(columns) = self.counted else { return true };
        let at = columns.binary_search_by_key(&cell.column, |column| column.number);
        let column = at.ok().and_then(|at| columns.get(at));
        column.is_some_and(|column| cell.liveness.timestamp > column.newer_than_us)
    }
}

/// A row that values are taken from. Sources in the order of the table are found in one pass.
pub(super) struct Projector<'a> {
    pub(super) shape: Shape<'a>,
    row: PageRow<'a>,
    view: RowView<'a>,
    cells: Cells<'a>,
    peeked: Option<Cell<'a>>,
    /// Whether that is the last one, behind which a column was looked for.
    at_end: bool,
    /// What was looked at: a unit is a cell, an item of a collection, or 256 bytes.
    work: std::cell::Cell<usize>,
    ck: &'a [u8],
    component: usize,
    /// The static row of its partition. No column has values in both.
    static_row: Option<Box<Projector<'a>>>,
}

/// Bytes of values that take about as long as one cell.
pub(super) const UNIT_BYTES: usize = 256;
/// Bytes of a code that take as long to be made.
const CODE_UNIT_BYTES: usize = 16;
/// Most work for one row: below a second.
const WORK_MAX: usize = 8 << 20;

/// The cells of a column, one after the other.
pub(super) struct ColumnCells<'a> {
    column: u16,
    first: Option<Cell<'a>>,
    rest: Cells<'a>,
    is_static: bool,
}

impl ColumnCells<'_> {
    /// Where the next one is, and whether that is the static row, once one was read.
    pub(super) fn place(&self) -> (CellsPlace, bool) {
        (self.rest.place(), self.is_static)
    }
}

impl<'a> Iterator for ColumnCells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let next = self.first.take().or_else(|| self.rest.next())?;
        (next.column == self.column).then_some(next)
    }
}

/// The length of what is not there.
pub(super) const NULL: [u8; 4] = (-1i32).to_be_bytes();

impl<'a> Projector<'a> {
    /// None if the row cannot be read, which storage has made sure of.
    pub(super) fn new(shape: Shape<'a>, row: PageRow<'a>) -> Option<Self> {
        Some(Self::of(shape, row, RowView::parse(row.row).ok()?))
    }

    /// Of a row that can be read.
    #[inline] // It is large: made where it stays, it is not copied for each row.
    pub(super) fn of(shape: Shape<'a>, row: PageRow<'a>, view: RowView<'a>) -> Self {
        let cells = view.cells();
        let (peeked, work, ck) = (None, std::cell::Cell::default(), row.ck);
        let (component, static_row, at_end) = (0, None, false);
        Projector { shape, row, view, cells, peeked, at_end, work, ck, component, static_row }
    }

    /// Takes values of static columns from this row.
    pub(super) fn add_static(&mut self, row: PageRow<'a>) {
        self.static_row = Projector::new(self.shape, row).map(Box::new);
    }

    /// Whether the row is there even without the cells that were dropped with their columns: by
    /// its marker, or by another cell.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        let now_s = self.shape.now_s;
        self.shape.counted.is_none()
            || self.view.marker().is_some_and(|marker| marker.is_live(now_s))
            || self.view.cells().any(|cell| self.shape.counts(&cell) && cell.view(now_s).is_some())
    }

    /// Appends a value as `[bytes]`: its length and itself, or -1.
    #[inline]
    pub(super) fn put(&mut self, source: &Source, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&NULL);
        if self.value(source, out).is_some() {
            put_length(out, start);
        } else {
            out.truncate(start + 4);
        }
    }

    /// Appends a value; none if it is null.
    #[inline]
    pub(super) fn value(&mut self, source: &Source, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let own = self.own_value(source, out);
        if own.is_none()
            && let Some(static_row) = &mut self.static_row
        {
            out.truncate(start);
            return static_row.own_value(source, out);
        }
        own
    }

    fn own_value(&mut self, source: &Source, out: &mut Vec<u8>) -> Option<()> {
        match source {
            Source::Key(index) => out.extend_from_slice(self.key(*index)?),
            Source::Clustering(index) => return self.clustering(*index, out),
            Source::Cell(column) => {
                let now_s = self.shape.now_s;
                let value = self.cell(*column)?.view(now_s)?.value;
                self.count(value.len());
                out.extend_from_slice(value);
            }
            Source::WriteTime(column) => {
                let now_s = self.shape.now_s;
                let view = self.cell(*column)?.view(now_s)?;
                out.extend_from_slice(&view.liveness.timestamp.to_be_bytes());
            }
            Source::Ttl(column) => {
                let now_s = self.shape.now_s;
                let view = self.cell(*column)?.view(now_s)?;
                if view.liveness.ttl_s == 0 {
                    return None;
                }
                let left = view.liveness.expires_s - now_s;
                out.extend_from_slice(&i32::try_from(left).ok()?.to_be_bytes());
            }
            Source::Elements { column, ty, facet, part } => {
                return self.elements((*column, ty), *facet, *part, out);
            }
            Source::PartOf(source, ty, part) => return self.part_of(source, ty, *part, out),
            Source::IfThere(first, second) => {
                let start = out.len();
                self.value(first, out)?;
                // Of a frozen collection a slice without elements is a value all the same.
                let is_slice = matches!(**first, Source::PartOf(_, _, Portion::Slice(..)));
                if is_slice && out.get(start..) == Some(&[0; 4]) {
                    return None;
                }
                out.truncate(start);
                return self.value(second, out);
            }
            Source::FieldOf(inner, path) => {
                let start = out.len();
                self.value(inner, out)?;
                return self.field_of(start, path, out);
            }
            Source::Moment(_) => return None,
            Source::Token => out.extend_from_slice(&self.row.token.0.to_be_bytes()),
            Source::TimeOf(inner) => {
                let start = out.len();
                self.own_value(inner, out)?;
                let bytes = out.get(start..)?;
                let ms = timeuuid_ms(bytes)?;
                out.truncate(start);
                out.extend_from_slice(&ms.to_be_bytes());
            }
        }
        Some(())
    }

    /// Leaves of the value of a user-defined type, which begins here, a field.
    fn field_of(&self, start: usize, path: &[usize], out: &mut Vec<u8>) -> Option<()> {
        let (mut from, mut end) = (start, out.len());
        for place in path {
            let mut fields = Elements(out.get(from..end)?);
            for _ in 0..*place {
                self.count(0);
                fields.item().ok()?;
            }
            let field = fields.item().ok()??;
            end -= fields.0.len();
            from = end - field.len();
        }
        out.copy_within(from..end, start);
        out.truncate(start + end - from);
        Some(())
    }

    fn key(&self, index: usize) -> Option<&'a [u8]> {
        if self.shape.single_key {
            return Some(self.row.key);
        }
        let mut rest = self.row.key;
        for _ in 0..index {
            let (length, after) = rest.split_first_chunk::<2>()?;
            rest = after.get(usize::from(u16::from_be_bytes(*length)) + 1..)?;
        }
        let (length, after) = rest.split_first_chunk::<2>()?;
        after.get(..usize::from(u16::from_be_bytes(*length)))
    }

    fn clustering(&mut self, index: usize, out: &mut Vec<u8>) -> Option<()> {
        // A static row that stands for its partition has no clustering key.
        if self.row.ck.is_empty() {
            return None;
        }
        if index < self.component {
            (self.ck, self.component) = (self.row.ck, 0);
        }
        let start = out.len();
        while self.component < index {
            let (ty, descending) = self.shape.clustering.get(self.component)?;
            comparable::decode(ty, *descending, &mut self.ck, out)?;
            out.truncate(start);
            self.component += 1;
        }
        let (ty, descending) = self.shape.clustering.get(index)?;
        comparable::decode(ty, *descending, &mut self.ck, out)?;
        self.component += 1;
        Some(())
    }

    fn cell(&mut self, column: u16) -> Option<&Cell<'a>> {
        let shape = self.shape;
        self.find(column).filter(|cell| shape.counts(cell))
    }

    /// Counts an item of so many bytes as work.
    #[inline]
    pub(super) fn count(&self, bytes: usize) {
        self.work.set(self.work.get() + 1 + bytes / UNIT_BYTES);
    }

    /// Counts the making of a code as work.
    #[inline]
    pub(super) fn count_code(&self, code: &[u8]) {
        self.work.set(self.work.get() + code.len() / CODE_UNIT_BYTES);
    }

    /// How much was looked at.
    pub(super) fn work(&self) -> usize {
        self.work.get() + self.static_row.as_ref().map_or(0, |row| row.work.get())
    }

    /// A value of a plain column, where it is in the row; or else it is copied to `scratch`.
    pub(super) fn value_in_place<'s>(
        &mut self,
        source: &Source,
        scratch: &'s mut Vec<u8>,
    ) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        if let Source::Cell(column) = source {
            let own = self.cell_value(*column);
            return own.or_else(|| self.static_row.as_mut()?.cell_value(*column));
        }
        scratch.clear();
        self.value(source, scratch)?;
        Some(scratch)
    }

    fn cell_value(&mut self, column: u16) -> Option<&'a [u8]> {
        let now_s = self.shape.now_s;
        self.count(0);
        Some(self.cell(column)?.view(now_s)?.value)
    }

    /// All cells of a column.
    pub(super) fn cells_of(&mut self, column: u16) -> Option<ColumnCells<'a>> {
        let first = *self.find(column)?;
        Some(ColumnCells { column, first: Some(first), rest: self.cells.clone(), is_static: false })
    }

    /// All cells of a column of this row or the static one, or those behind a place.
    pub(super) fn cells_behind(
        &mut self,
        column: u16,
        place: Option<(CellsPlace, bool)>,
    ) -> Option<ColumnCells<'a>> {
        let Some((place, is_static)) = place else {
            let own = self.cells_of(column);
            return own.or_else(|| {
                let cells = self.static_row.as_mut()?.cells_of(column)?;
                Some(ColumnCells { is_static: true, ..cells })
            });
        };
        let row = if is_static { self.static_row.as_deref()? } else { self };
        let rest = row.view.cells_behind(place);
        Some(ColumnCells { column, first: None, rest, is_static })
    }

    fn find(&mut self, column: u16) -> Option<&Cell<'a>> {
        // The last cell need not be the first of its column.
        let is_passed =
            |cell: &Cell<'_>| cell.column > column || (self.at_end && cell.column == column);
        if self.peeked.as_ref().is_some_and(is_passed) {
            self.cells = self.view.cells();
            (self.peeked, self.at_end) = (None, false);
        }
        while self.peeked.as_ref().is_none_or(|cell| cell.column < column) {
            let Some(next) = self.cells.next() else {
                self.at_end = true;
                return None;
            };
            self.count(0);
            self.peeked = Some(next);
        }
        self.peeked.as_ref().filter(|cell| cell.column == column)
    }
}

/// Puts the length of the last value, which begins here, in its place before it.
#[inline]
pub(super) fn put_length(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Refuses a row that takes too long: a statement may ask for parts of a large collection, or count
/// a large value, thousands of times.
#[inline]
pub(super) fn check_work(work: usize) -> Result<(), CqlError> {
    if work <= WORK_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(
        "A row takes too long to be read: ask for fewer parts of its collections, and fewer \
         functions of its values, in one statement",
    ))
}

/// Milliseconds since the Unix epoch of a version 1 UUID.
fn timeuuid_ms(bytes: &[u8]) -> Option<i64> {
    let uuid = uuid::Uuid::from_slice(bytes).ok()?;
    let (seconds, nanos) = uuid.get_timestamp()?.to_unix();
    Some(i64::try_from(seconds).ok()? * 1_000 + i64::from(nanos / 1_000_000))
}
