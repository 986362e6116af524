//! How much work one row is.

use crate::{
    cql::{
        error::CqlError,
        execute::project::{Projector, UNIT_BYTES, check_work},
    },
    io::TimeSlice,
};

/// Less work than this, in units of the projector, is not worth a look at the clock. Tests make do
/// with little work.
const WORK_TO_LOOK: usize = if cfg!(test) { 1 } else { 64 };

/// The work on a row.
pub(super) struct RowWork {
    /// What was done with projectors before this one.
    before: usize,
    /// How much of that of this one was counted.
    counted: usize,
}

impl RowWork {
    /// What is done from now on, after so much, that of this projector included.
    pub(super) fn after(done: usize, projector: &Projector<'_>) -> Self {
        let counted = projector.work();
        Self { before: done - counted, counted }
    }

    /// Counts what was done, if it is much; whether the time is over.
    ///
    /// # Errors
    /// If the row takes too long.
    #[inline]
    pub(super) fn is_over(
        &mut self,
        projector: &Projector<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<bool, CqlError> {
        let work = projector.work();
        if work - self.counted < WORK_TO_LOOK { Ok(false) } else { self.count(work, time) }
    }

    #[cold]
    fn count(&mut self, work: usize, time: &mut TimeSlice<'_>) -> Result<bool, CqlError> {
        check_work(self.before + work)?;
        time.count((work - self.counted) * UNIT_BYTES);
        self.counted = work;
        Ok(time.is_over())
    }

    /// How much was not counted.
    pub(super) fn uncounted(&self, projector: &Projector<'_>) -> usize {
        projector.work() - self.counted
    }

    /// How much was done in all.
    pub(super) fn all(&self, projector: &Projector<'_>) -> usize {
        self.before + projector.work()
    }
}
