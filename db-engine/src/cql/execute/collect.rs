//! The elements of a collection → its value, or what else is asked of them.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            project::{NULL, Projector, put_length},
            row_work::RowWork,
        },
        prepare::source::{Facet, Portion, Source},
    },
    io::TimeSlice,
    mutation::{Cell, CellView, CellsPlace},
    types::{
        CqlType,
        collection::{self, Elements},
        comparable,
    },
};

/// The keys of elements that are asked for, as they compare.
enum Keys<'a> {
    All,
    One(&'a [u8]),
    Slice(Option<&'a [u8]>, Option<&'a [u8]>),
}

impl<'a> Keys<'a> {
    fn of(part: Portion, keys: &'a [Option<Vec<u8>>]) -> Option<Self> {
        let key = |at: usize| keys.get(at)?.as_deref();
        Some(match part {
            Portion::All => Self::All,
            Portion::One(at) => Self::One(key(at)?),
            Portion::Slice(from, to) => Self::Slice(from.and_then(key), to.and_then(key)),
            Portion::Field(_) => return None,
        })
    }

    fn has(&self, key: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => *one == key,
            Self::Slice(from, to) => {
                from.is_none_or(|from| from <= key) && to.is_none_or(|to| key <= to)
            }
        }
    }

    fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }
}

/// Collects the parts of a collection behind their number.
struct Collected<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: i32,
}

impl<'o> Collected<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        Self { out, start, count: 0 }
    }

    /// Appends what is asked of an element.
    fn add(
        &mut self,
        (facet, ty): (Facet, &CqlType),
        (cell, view, now_s): (&Cell<'_>, &CellView<'_>, i64),
    ) {
        if let (CqlType::Map(key, _), Facet::Value) = (ty, facet) {
            self.item(|out| comparable::decode(key, false, &mut cell.path?, out));
        }
        self.item(|out| put_facet(facet, ty, (cell, view, now_s), out));
        self.count += 1;
    }

    /// Appends a part with its length before it; a null if there is none.
    fn item(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        let length = match put(self.out) {
            Some(()) => i32::try_from(self.out.len() - start - 4).unwrap_or(i32::MAX),
            None => -1,
        };
        if length < 0 {
            self.out.truncate(start + 4);
        }
        if let Some(place) = self.out.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Nothing if there are none.
    fn finish(self) -> Option<()> {
        if self.count == 0 {
            self.out.truncate(self.start);
            return None;
        }
        self.put_count()
    }

    fn put_count(self) -> Option<()> {
        let place = self.out.get_mut(self.start..self.start + 4)?;
        place.copy_from_slice(&self.count.to_be_bytes());
        Some(())
    }
}

/// How far the elements of a collection are collected.
#[derive(Clone, Copy, Debug)]
pub(super) struct CollectedPlace {
    /// Where the value begins in the result, with its length.
    start: usize,
    /// How many there are.
    count: i32,
    /// The next cell, and whether that is of the static row.
    next: CellsPlace,
    is_static: bool,
}

/// Appends what is asked of one element of a list, set or map.
fn put_facet(
    facet: Facet,
    ty: &CqlType,
    (cell, view, now_s): (&Cell<'_>, &CellView<'_>, i64),
    out: &mut Vec<u8>,
) -> Option<()> {
    match (facet, ty) {
        (Facet::Value, CqlType::Set(item)) => {
            return comparable::decode(item, false, &mut cell.path?, out);
        }
        (Facet::Value, _) => out.extend_from_slice(view.value),
        (Facet::WriteTime | Facet::MaxWriteTime, _) => {
            out.extend_from_slice(&view.liveness.timestamp.to_be_bytes());
        }
        (Facet::Ttl, _) if view.liveness.ttl_s == 0 => return None,
        (Facet::Ttl, _) => {
            let left = view.liveness.expires_s - now_s;
            out.extend_from_slice(&i32::try_from(left).ok()?.to_be_bytes());
        }
    }
    Some(())
}

impl Projector<'_> {
    /// Appends what is asked of the elements of a column; none if there are none of these.
    pub(super) fn elements(
        &mut self,
        (column, ty): (u16, &CqlType),
        facet: Facet,
        part: Portion,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if let CqlType::Udt(of) = ty {
            return self.fields((column, ty), of.fields().len(), (facet, part), out);
        }
        let shape = self.shape;
        let keys = Keys::of(part, shape.parts)?;
        let cells = self.cells_of(column)?;
        let mut found = cells.filter_map(|cell| {
            self.count(0);
            let is_asked_for = keys.has(cell.path?) && shape.counts(&cell);
            let view = cell.view(shape.now_s).filter(|_| is_asked_for)?;
            self.count(view.value.len());
            Some((cell, view))
        });
        if facet == Facet::MaxWriteTime {
            let newest = found.map(|(_, view)| view.liveness.timestamp).max()?;
            out.extend_from_slice(&newest.to_be_bytes());
            return Some(());
        }
        if keys.is_one() {
            let (cell, view) = found.next()?;
            return put_facet(facet, ty, (&cell, &view, shape.now_s), out);
        }
        let mut collected = Collected::new(out);
        for (cell, view) in found {
            collected.add((facet, ty), (&cell, &view, shape.now_s));
        }
        collected.finish()
    }

    /// Appends what is asked of elements as [`Projector::put`] does. If many are asked for, that is
    /// done bit by bit, from a place on: false if the time is over before the last one.
    ///
    /// # Errors
    /// If the row takes too long.
    #[inline(never)] // It is rare, and not to be in the way of plain values.
    pub(super) fn put_elements(
        &mut self,
        source: &Source,
        place: &mut Option<CollectedPlace>,
        out: &mut Vec<u8>,
        (work, time): (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<bool, CqlError> {
        let many = match source {
            Source::Elements { column, ty, facet, part }
                if !matches!(ty, CqlType::Udt(_)) && *facet != Facet::MaxWriteTime =>
            {
                let keys = Keys::of(*part, self.shape.parts).filter(|keys| !keys.is_one());
                keys.map(|keys| (*column, ty, *facet, keys))
            }
            _ => None,
        };
        let Some((column, ty, facet, keys)) = many else {
            self.put(source, out);
            return Ok(true);
        };
        let (start, count, behind) = match place.take() {
            Some(place) => (place.start, place.count, Some((place.next, place.is_static))),
            None => (out.len(), 0, None),
        };
        if behind.is_none() {
            out.extend_from_slice(&NULL);
            out.extend_from_slice(&[0; 4]);
        }
        let shape = self.shape;
        let mut collected = Collected { out, start: start + 4, count };
        if let Some(mut cells) = self.cells_behind(column, behind) {
            while let Some(cell) = cells.next() {
                self.count(0);
                let is_asked_for = cell.path.is_some_and(|path| keys.has(path));
                let view = cell.view(shape.now_s).filter(|_| is_asked_for && shape.counts(&cell));
                if let Some(view) = view {
                    self.count(view.value.len());
                    collected.add((facet, ty), (&cell, &view, shape.now_s));
                }
                if work.is_over(self, time)? {
                    let ((next, is_static), count) = (cells.place(), collected.count);
                    *place = Some(CollectedPlace { start, count, next, is_static });
                    return Ok(false);
                }
            }
        }
        if collected.finish().is_some() {
            put_length(out, start);
        }
        Ok(true)
    }

    /// Appends what is asked of the fields of a column; none if none has a value.
    fn fields(
        &mut self,
        (column, ty): (u16, &CqlType),
        count: usize,
        (facet, part): (Facet, Portion),
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let shape = self.shape;
        let cells = self.cells_of(column)?;
        let mut found = cells.filter_map(|cell| {
            self.count(0);
            let path = cell.path.filter(|_| shape.counts(&cell))?;
            let place = usize::from(u16::from_be_bytes(path.try_into().ok()?));
            let view = cell.view(shape.now_s)?;
            self.count(view.value.len());
            Some((place, cell, view))
        });
        if facet == Facet::MaxWriteTime && part == Portion::All {
            let newest = found.map(|(_, _, view)| view.liveness.timestamp).max()?;
            out.extend_from_slice(&newest.to_be_bytes());
            return Some(());
        }
        if let Portion::Field(wanted) = part {
            let (_, cell, view) = found.find(|(place, ..)| *place == wanted)?;
            return put_facet(facet, ty, (&cell, &view, shape.now_s), out);
        }
        let mut found = found.peekable();
        found.peek()?;
        let mut collected = Collected::new(out);
        for wanted in 0..count {
            let field = found.next_if(|(place, ..)| *place == wanted);
            collected.item(|out| {
                let (_, cell, view) = field?;
                put_facet(facet, ty, (&cell, &view, shape.now_s), out)
            });
            collected.count += 1;
        }
        if facet == Facet::Value {
            // A value has no count before its fields.
            collected.out.drain(collected.start..collected.start + 4);
            return Some(());
        }
        collected.finish()
    }

    /// Appends a part of a frozen collection.
    pub(super) fn part_of(
        &mut self,
        source: &Source,
        ty: &CqlType,
        part: Portion,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let keys = Keys::of(part, self.shape.parts)?;
        let mut whole = Vec::new();
        self.value(source, &mut whole)?;
        let (of, is_map) = match ty {
            CqlType::Set(item) => (item, false),
            CqlType::Map(key, _) => (key, true),
            _ => return None,
        };
        let mut code = Vec::new();
        let mut collected = Collected::new(out);
        let mut items = Elements(&whole);
        for _ in 0..items.count().ok()? {
            let key = items.item().ok()??;
            let value = if is_map { items.item().ok()?? } else { key };
            self.count(value.len());
            code.clear();
            comparable::encode(of, false, key, &mut code).ok()?;
            if !keys.has(&code) {
                continue;
            }
            if keys.is_one() {
                collected.out.truncate(collected.start);
                collected.out.extend_from_slice(value);
                return Some(());
            }
            if is_map {
                collection::put_item(collected.out, Some(key));
            }
            collection::put_item(collected.out, Some(value));
            collected.count += 1;
        }
        if keys.is_one() {
            collected.out.truncate(collected.start);
            return None;
        }
        collected.put_count()
    }
}
