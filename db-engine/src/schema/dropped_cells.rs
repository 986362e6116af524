//! Which cells of a table nobody will ever read, because they were dropped with their columns.

use super::Table;
use crate::mutation::{Cell, RowView, without};
use std::borrow::Cow;

/// Cells that are left out when files are written.
///
/// Those of columns that are not known here stay: they may have been added since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedCells {
    /// The numbers of columns, which ascend, and up to which timestamp cells were dropped.
    columns: Vec<(u16, i64)>,
}

impl DroppedCells {
    /// Those of a table; none if no column was ever dropped.
    pub(super) fn of(table: &Table) -> Option<Self> {
        let dropped_us = |number: u16| {
            let column = table.dropped.values().find(|column| column.number == Some(number));
            if let Some(column) = column {
                return Some(column.dropped_us);
            }
            // One without a number was dropped by an older program, and can get no number again.
            let is_there = table.with_cells().iter().any(|column| column.number == number);
            (!is_there).then_some(i64::MAX)
        };
        if table.dropped.is_empty() {
            return None;
        }
        let numbers = 0..table.next_column;
        let columns = numbers.filter_map(|number| Some((number, dropped_us(number)?))).collect();
        Some(Self { columns })
    }

    /// Whether a cell was dropped. Newer ones than the drop were not: they are there again when
    /// the column is.
    #[must_use]
    pub fn have(&self, cell: &Cell<'_>) -> bool {
        let at = self.columns.binary_search_by_key(&cell.column, |(number, _)| *number);
        let column = at.ok().and_then(|at| self.columns.get(at));
        column.is_some_and(|(_, dropped_us)| cell.liveness.timestamp <= *dropped_us)
    }

    /// What is left of a row without them; `None` if that is nothing. Nothing older comes to
    /// light: what a cell of these hides was dropped with it.
    #[must_use]
    pub fn cut<'a>(&self, row: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        let Ok(view) = RowView::parse(&row) else { return Some(row) };
        if !view.cells().any(|cell| self.have(&cell)) {
            return Some(row);
        }
        let mut rest = Vec::with_capacity(row.len());
        without(&row, |cell| self.have(cell), &mut rest);
        let is_empty = RowView::parse(&rest).is_ok_and(|rest| rest.is_empty());
        (!is_empty).then_some(Cow::Owned(rest))
    }
}
