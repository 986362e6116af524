//! What a read asks of rows besides where they are.

use super::PageRow;
use crate::{io::TimeSlice, mutation::CellsPlace};

/// Decides which of the rows that are live count for a read.
pub trait RowFilter: std::fmt::Debug + Send + Sync {
    /// Judges a row, whose partition has this static row. Its work is counted as `time`; what is in
    /// `scratch` does not matter. If the time is over first, it is called again, with the `place`
    /// that it has left; of a row that is new to it that is the default.
    fn judge(
        &self,
        row: PageRow<'_>,
        static_row: Option<PageRow<'_>>,
        place: &mut JudgedPlace,
        scratch: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Judgement;
}

/// What a [`RowFilter`] says of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It counts, or does not.
    Counts(bool),
    /// That cannot be told.
    Unknown,
    /// The time is over before that is known.
    TimeIsOver,
}

/// How far the judging of a row has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgedPlace {
    /// So many conditions are met.
    pub met: usize,
    /// Where in a collection the search for the next condition goes on, if it has begun.
    pub search: Option<SearchPlace>,
    /// The work so far, in units of the filter.
    pub work: usize,
}

/// How far a search of a collection has come.
#[derive(Clone, Copy, Debug)]
pub enum SearchPlace {
    /// Its elements are cells: the next one, and whether that is of the static row.
    Cells(CellsPlace, bool),
    /// It is one value, of which so many elements are left, in so many bytes.
    Value(i32, usize),
}
