//! Rows that were read before a write that depends on them.

use crate::{
    cql::{
        execute::project::{Projector, Shape},
        prepare::plan::Prior,
    },
    mutation::{TableNumber, Token, token::token},
    store::{Page, PageRow},
};
use std::sync::Arc;

/// A row that must be known before a write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::struct_excessive_bools)] // Each is a fact of its own.
pub struct RowName {
    /// Its table.
    pub table: TableNumber,
    /// The token of its partition.
    pub token: Token,
    /// The key of its partition.
    pub key: Arc<[u8]>,
    /// Its clustering key. If that is empty and the table has static rows, it is the static row.
    pub ck: Vec<u8>,
    /// The columns that storage holds of it, ascending.
    pub columns: Arc<[u16]>,
    /// Whether the static row of its partition must be known with it.
    pub static_rows: bool,
    /// Whether the first row of the partition must be known with the static row.
    pub with_first: bool,
    /// Whether a condition is about it, and not about static columns alone.
    pub has_condition: bool,
    /// Whether rows of its partition are deleted that are not read: of counters alone, whose
    /// timestamps are never far ahead.
    pub hides_others: bool,
}

impl RowName {
    pub(super) fn new(prior: &Prior, table: TableNumber, key: &Arc<[u8]>, ck: Vec<u8>) -> Self {
        RowName {
            table,
            token: token(key),
            key: Arc::clone(key),
            ck,
            columns: Arc::clone(&prior.columns),
            static_rows: prior.static_rows,
            with_first: false,
            has_condition: false,
            hides_others: false,
        }
    }

    /// Whether it is the static row of its partition.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.static_rows && self.ck.is_empty()
    }
}

/// Rows that were read, each with the page that it was looked for in.
#[derive(Debug, Clone, Copy)]
pub struct KnownRows<'a> {
    /// Ascending.
    pub rows: &'a [RowName],
    /// As many as there are rows.
    pub pages: &'a [Page],
    /// The second since the Unix epoch at which they were looked at.
    pub now_s: i64,
}

impl<'a> KnownRows<'a> {
    /// Each row with what was found of it.
    pub(super) fn all(self) -> impl Iterator<Item = (&'a RowName, KnownRow<'a>)> {
        self.rows.iter().zip(self.pages).map(|(name, page)| (name, KnownRow::new(name, page)))
    }

    /// What was found of a row.
    pub(super) fn find(self, table: TableNumber, key: &[u8], ck: &[u8]) -> Option<KnownRow<'a>> {
        let wanted = (table, token(key), key, ck);
        let place = |row: &RowName| (row.table, row.token, &*row.key, &*row.ck).cmp(&wanted);
        let at = self.rows.binary_search_by(place).ok()?;
        Some(KnownRow::new(self.rows.get(at)?, self.pages.get(at)?))
    }
}

/// What was found of a row.
#[derive(Clone, Copy)]
pub(super) struct KnownRow<'a> {
    is_static: bool,
    /// The row; the first one of its partition, if it is the static row.
    row: Option<PageRow<'a>>,
    /// The static row of its partition.
    static_row: Option<PageRow<'a>>,
}

impl<'a> KnownRow<'a> {
    fn new(name: &RowName, page: &'a Page) -> Self {
        let mut rows = page.rows().peekable();
        let static_row = rows.next_if(|row| name.static_rows && row.ck.is_empty());
        Self { is_static: name.is_static(), row: rows.next(), static_row }
    }
}

impl Prior {
    fn live<'a>(&'a self, row: Option<PageRow<'a>>, now_s: i64) -> Option<Projector<'a>> {
        let shape = Shape {
            single_key: self.table.partition_key().len() == 1,
            clustering: &self.clustering,
            counted: self.counted.as_deref(),
            parts: &[],
            now_s,
        };
        Projector::new(shape, row?).filter(Projector::is_live)
    }

    /// The row itself, to take values from; `None` if it is not there.
    pub(super) fn own<'a>(&'a self, found: KnownRow<'a>, now_s: i64) -> Option<Projector<'a>> {
        self.live(if found.is_static { found.static_row } else { found.row }, now_s)
    }

    /// The row that is no static one, with the static columns of its partition.
    pub(super) fn with_static<'a>(
        &'a self,
        found: KnownRow<'a>,
        now_s: i64,
    ) -> Option<Projector<'a>> {
        let mut row = self.live(found.row, now_s)?;
        if let Some(static_row) = found.static_row {
            row.add_static(static_row);
        }
        Some(row)
    }

    /// The static columns of the partition; `None` if there are none.
    pub(super) fn statics<'a>(&'a self, found: KnownRow<'a>, now_s: i64) -> Option<Projector<'a>> {
        self.live(found.static_row, now_s)
    }
}
