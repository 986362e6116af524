//! `CONTAINS` and `CONTAINS KEY`: a collection is searched, bit by bit if it is long.

use crate::{
    cql::{
        error::CqlError,
        execute::{filter::Filter, project::Projector, row_work::RowWork},
        parse::ast::Operator,
        prepare::source::Source,
    },
    io::TimeSlice,
    store::SearchPlace,
    types::{CqlType, collection::Elements, comparable},
};

impl Filter {
    /// Whether one of the values is in the collection, which is searched from this place on; `None`
    /// if the time is over before that is known.
    pub(super) fn is_contained(
        &self,
        projector: &mut Projector<'_>,
        place: &mut Option<SearchPlace>,
        scratch: &mut Vec<u8>,
        effort: (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<Option<bool>, CqlError> {
        if let Source::Elements { column, ty, .. } = &self.source {
            return self.is_among_cells((*column, ty), projector, place, scratch, effort);
        }
        self.is_in_value(projector, place, scratch, effort)
    }

    /// The same of a collection whose elements are cells. Paths of cells are keys as they compare.
    fn is_among_cells(
        &self,
        (column, ty): (u16, &CqlType),
        projector: &mut Projector<'_>,
        place: &mut Option<SearchPlace>,
        code: &mut Vec<u8>,
        (work, time): (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<Option<bool>, CqlError> {
        let begun = match place.take() {
            Some(SearchPlace::Cells(place, is_static)) => Some((place, is_static)),
            _ => None,
        };
        let Some(mut cells) = projector.cells_behind(column, begun) else {
            return Ok(Some(false));
        };
        let by_path = self.operator == Operator::ContainsKey || matches!(ty, CqlType::Set(_));
        let shape = projector.shape;
        while let Some(cell) = cells.next() {
            projector.count(0);
            let view = cell.view(shape.now_s).filter(|_| shape.counts(&cell));
            if let (Some(path), Some(view)) = (cell.path, view)
                && (if by_path {
                    self.has(path)
                } else {
                    self.has_value(view.value, code, projector)?
                })
            {
                return Ok(Some(true));
            }
            if work.is_over(projector, time)? {
                let (next, is_static) = cells.place();
                *place = Some(SearchPlace::Cells(next, is_static));
                return Ok(None);
            }
        }
        Ok(Some(false))
    }

    /// The same of a collection that is one value.
    fn is_in_value(
        &self,
        projector: &mut Projector<'_>,
        place: &mut Option<SearchPlace>,
        scratch: &mut Vec<u8>,
        (work, time): (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<Option<bool>, CqlError> {
        let broken = |_| CqlError::invalid("Not enough bytes to read a collection");
        let Some(whole) = projector.value_in_place(&self.source, scratch) else {
            return Ok(Some(false));
        };
        let mut items = Elements(whole);
        let mut left = match place.take() {
            Some(SearchPlace::Value(left, left_bytes)) => {
                items.0 = whole.get(whole.len().saturating_sub(left_bytes)..).unwrap_or_default();
                left
            }
            _ => items.count().map_err(broken)?,
        };
        let mut code = Vec::new();
        while left > 0 {
            left -= 1;
            let mut item = items.item().map_err(broken)?;
            if self.is_map {
                let value = items.item().map_err(broken)?;
                item = if self.operator == Operator::Contains { value } else { item };
            }
            projector.count(0);
            if self.has_value(item.unwrap_or_default(), &mut code, projector)? {
                return Ok(Some(true));
            }
            if work.is_over(projector, time)? {
                *place = Some(SearchPlace::Value(left, items.0.len()));
                return Ok(None);
            }
        }
        Ok(Some(false))
    }

    fn has_value(
        &self,
        value: &[u8],
        code: &mut Vec<u8>,
        projector: &Projector<'_>,
    ) -> Result<bool, CqlError> {
        code.clear();
        comparable::encode(&self.ty, false, value, code).map_err(CqlError::incomparable)?;
        projector.count_code(code);
        Ok(self.has(code))
    }
}
