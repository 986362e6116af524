//! Lists that are read before they are written: which element is at which index.

use crate::cql::{
    error::{CqlError, invalid},
    execute::known_rows::{KnownRow, KnownRows},
    prepare::plan::{Prior, WritePlan},
};
use std::{borrow::Cow, cell::Cell};

/// Most elements that one request looks at, of all its lists: a few words can ask for a long list
/// thousands of times.
const LOOKED_AT_MAX: usize = 8 << 20;

/// Elements that are moved in memory in the time that one is looked at.
const MOVED_PER_LOOK: usize = 8;

/// Rows that were read for the writes of a request, for the lists in them.
pub(super) struct KnownLists<'a> {
    rows: KnownRows<'a>,
    looked_at: Cell<usize>,
}

impl<'a> KnownLists<'a> {
    pub(super) fn new(rows: KnownRows<'a>) -> Self {
        Self { rows, looked_at: Cell::new(0) }
    }

    /// The row that a write goes to, if the write depends on what is there.
    pub(super) fn row<'b>(
        &'b self,
        plan: &'b WritePlan,
        key: &[u8],
        ck: &[u8],
    ) -> Option<RowOfLists<'b>> {
        let prior = plan.prior.as_deref()?;
        Some(RowOfLists { lists: self, prior, row: self.rows.find(plan.table, key, ck) })
    }

    fn count(&self, elements: usize) -> Result<(), CqlError> {
        self.looked_at.set(self.looked_at.get().saturating_add(elements));
        if self.looked_at.get() <= LOOKED_AT_MAX {
            return Ok(());
        }
        invalid(format!(
            "The lists of the request have too many elements: it would look at more than \
             {LOOKED_AT_MAX} of them; write to fewer of them at once"
        ))
    }
}

/// A row as it was read, before it is written to.
#[derive(Clone, Copy)]
pub(super) struct RowOfLists<'a> {
    lists: &'a KnownLists<'a>,
    prior: &'a Prior,
    /// `None` if it is not there.
    row: Option<KnownRow<'a>>,
}

impl<'a> RowOfLists<'a> {
    /// The list in this column.
    pub(super) fn list(self, column: u16) -> Result<ListBefore<'a>, CqlError> {
        let now_s = self.lists.rows.now_s;
        let mut row = self.row.and_then(|row| self.prior.own(row, now_s));
        let mut items = Vec::new();
        let cells = row.as_mut().and_then(|row| row.cells_of(column));
        for cell in cells.into_iter().flatten() {
            self.lists.count(1)?;
            let is_counted = row.as_ref().is_some_and(|row| row.shape.counts(&cell));
            if let (Some(path), Some(view), true) = (cell.path, cell.view(now_s), is_counted) {
                let (path, value) = (Cow::Borrowed(path), Cow::Borrowed(view.value));
                items.push(ListItem { path, value, timestamp_us: view.liveness.timestamp });
            }
        }
        Ok(ListBefore { lists: self.lists, items, seen: 0, deleted_us: None })
    }
}

/// An element of a list.
struct ListItem<'a> {
    path: Cow<'a, [u8]>,
    value: Cow<'a, [u8]>,
    timestamp_us: i64,
}

/// A list as a change finds it: as it was read, and then as the changes before have left it.
pub(super) struct ListBefore<'a> {
    lists: &'a KnownLists<'a>,
    /// Ascending by path.
    items: Vec<ListItem<'a>>,
    /// How many elements of the changes before are in it.
    pub seen: usize,
    deleted_us: Option<i64>,
}

impl ListBefore<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The path of the element at an index.
    pub(super) fn path_at(&self, index: i32) -> Result<&[u8], CqlError> {
        let found = usize::try_from(index).ok().and_then(|at| self.items.get(at));
        found.map(|item| &*item.path).ok_or_else(|| {
            let size = self.items.len();
            CqlError::invalid(format!("List index {index} out of bound, list has size {size}"))
        })
    }

    /// The paths of the elements that have a value like this.
    pub(super) fn paths_of(
        &self,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<&[u8]>, CqlError> {
        self.lists.count(self.items.len())?;
        let wanted = self.items.iter().filter(|item| is_wanted(&item.value));
        Ok(wanted.map(|item| &*item.path).collect())
    }

    /// Takes note of a deletion of all elements up to a timestamp.
    pub(super) fn delete(&mut self, timestamp_us: Option<i64>) -> Result<(), CqlError> {
        if self.deleted_us < timestamp_us {
            self.lists.count(self.items.len())?;
            self.items.retain(|item| Some(item.timestamp_us) > timestamp_us);
            self.deleted_us = timestamp_us;
        }
        Ok(())
    }

    /// Takes note of a value of an element; without one it is deleted.
    pub(super) fn write(
        &mut self,
        path: &[u8],
        value: Option<&[u8]>,
        timestamp_us: i64,
    ) -> Result<(), CqlError> {
        self.seen += 1;
        let found = self.items.binary_search_by(|item| (*item.path).cmp(path));
        let (Ok(at) | Err(at)) = found;
        self.lists.count(1 + (self.items.len() - at) / MOVED_PER_LOOK)?;
        let before = found.ok().and_then(|at| self.items.get(at));
        let Some(value) = value else {
            if before.is_some_and(|before| before.timestamp_us <= timestamp_us) {
                self.items.remove(at);
            }
            return Ok(());
        };
        let (path, value) = (Cow::Owned(path.to_vec()), Cow::Owned(value.to_vec()));
        let item = ListItem { path, value, timestamp_us };
        match self.items.get_mut(at) {
            Some(before) if found.is_ok() => {
                if (before.timestamp_us, &before.value) < (timestamp_us, &item.value) {
                    *before = item;
                }
            }
            _ => self.items.insert(at, item),
        }
        Ok(())
    }
}
