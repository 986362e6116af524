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
pub struct RowName {
    /// Its table.
    pub table: TableNumber,
    /// The token of its partition.
    pub token: Token,
    /// The key of its partition.
    pub key: Arc<[u8]>,
    /// Its clustering key.
    pub ck: Vec<u8>,
    /// The columns that storage holds of it, ascending.
    pub columns: Arc<[u16]>,
    /// Whether a condition is about it.
    pub has_condition: bool,
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
    pub(super) fn all(self) -> impl Iterator<Item = (&'a RowName, Option<PageRow<'a>>)> {
        self.rows.iter().zip(self.pages).map(|(row, page)| (row, page.rows().next()))
    }

    /// What was found of a row.
    pub(super) fn find(self, table: TableNumber, key: &[u8], ck: &[u8]) -> Option<PageRow<'a>> {
        let wanted = (table, token(key), key, ck);
        let place = |row: &RowName| (row.table, row.token, &*row.key, &*row.ck).cmp(&wanted);
        let at = self.rows.binary_search_by(place).ok()?;
        self.pages.get(at)?.rows().next()
    }
}

impl Prior {
    /// The row, to take values from; `None` if it is not there.
    pub(super) fn projector<'a>(&'a self, row: PageRow<'a>, now_s: i64) -> Option<Projector<'a>> {
        let shape = Shape {
            single_key: self.table.partition_key().len() == 1,
            clustering: &self.clustering,
            counted: self.counted.as_deref(),
            parts: &[],
            now_s,
        };
        Projector::new(shape, row).filter(Projector::is_live)
    }
}
