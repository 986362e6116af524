//! Rows that the store has found become rows of the result.
//!
//! A statement may ask for parts of a large collection thousands of times: where a row is much
//! work, it is judged and taken in bit by bit, and others are served in between.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            partition::PartitionRead,
            project::Projector,
            read::{FILTERED_ROWS_MAX, PAGE_BYTES, PagePlace, PlaceInRow, Read, end},
            row_work::RowWork,
        },
        prepare::{plan::SelectPlan, source::Source},
    },
    io::TimeSlice,
    mutation::{RowView, Token},
    store::{Page, PageRow, Position},
};

/// Bytes of room that a result gets at once as a page comes, so that it need not grow cell by cell.
const ROOM_BYTES_MAX: usize = 4 << 10;

/// What taking a row comes to.
enum Taken {
    /// More are wanted.
    More,
    /// No more are.
    Enough,
    /// The time is over: the row is to be taken once more, from where it is.
    TimeIsOver,
}

impl Read {
    /// Takes in what the shard found for [`Read::next`] and appends the rows of the result, until
    /// the time is over. Then it keeps the page, to [go on](Self::go_on) with.
    ///
    /// # Errors
    /// If the result would be too large, or a value cannot be compared.
    pub fn accept(
        &mut self,
        plan: &SelectPlan,
        page: &mut Page,
        shards: u16,
        out: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), CqlError> {
        if !self.take_in(plan, page, shards, out, time)? {
            self.unfinished = Some(Box::new(std::mem::take(page)));
        }
        Ok(())
    }

    /// Goes on with a page that was not taken in, if there is one. Whether none is left.
    ///
    /// # Errors
    /// As of [`Read::accept`].
    pub fn go_on(
        &mut self,
        plan: &SelectPlan,
        shards: u16,
        out: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<bool, CqlError> {
        if self.unfinished.is_none() || time.is_over() {
            return Ok(self.unfinished.is_none());
        }
        if let Some(page) = self.unfinished.take()
            && !self.take_in(plan, &page, shards, out, time)?
        {
            self.unfinished = Some(page);
        }
        Ok(self.unfinished.is_none())
    }

    /// Whether a page is not wholly taken in.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Bytes of such a page.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |page| page.bytes())
    }

    /// Takes in a page from where it is; false if the time is over before all is done.
    fn take_in(
        &mut self,
        plan: &SelectPlan,
        page: &Page,
        shards: u16,
        out: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<bool, CqlError> {
        let start = *self.start.get_or_insert(out.len());
        out.reserve(page.bytes().min(ROOM_BYTES_MAX));
        let is_judged = !page.is_unjudged();
        for row in page.rows().skip(self.place.rows) {
            match self.take(plan, (row, is_judged), (start, out), time)? {
                Taken::More => self.place.rows += 1,
                Taken::Enough => return Ok(self.is_taken_in()),
                Taken::TimeIsOver => return Ok(false),
            }
        }
        let Some(position) = page.position() else {
            let ended = self.end_partition(plan, (start, out), time)?;
            if matches!(ended, Taken::TimeIsOver) {
                return Ok(false);
            }
            self.filtered += page.dead();
            if matches!(ended, Taken::More) {
                self.advance(shards);
            }
            return Ok(self.is_taken_in());
        };
        let mut ended = self.enter(plan, (position.token, &position.key), (start, out), time)?;
        // Behind a partition its static row is not read again.
        if matches!(ended, Taken::More) && position.ck == end(plan) {
            ended = self.end_partition(plan, (start, out), time)?;
        }
        if matches!(ended, Taken::TimeIsOver) {
            return Ok(false);
        }
        self.filtered += page.dead();
        if matches!(ended, Taken::More) {
            self.go_behind(plan, position, out.len() - start);
        }
        Ok(self.is_taken_in())
    }

    fn is_taken_in(&mut self) -> bool {
        self.place = PagePlace::default();
        true
    }

    /// Goes on behind this place, at which a page was cut.
    fn go_behind(&mut self, plan: &SelectPlan, position: &Position, result_bytes: usize) {
        let position = self.beyond(plan, position.clone());
        let tired = self.filtered >= FILTERED_ROWS_MAX || result_bytes >= PAGE_BYTES;
        let next_key = self.next_key().filter(|_| self.is_full(&position.key));
        if next_key.is_some_and(|number| number >= self.steps.keys()) {
            self.over = true;
        } else if self.page_left.is_some() && tired {
            self.paused = Some(position);
        } else if let Some(number) = next_key {
            self.skip_to(number);
        } else {
            self.after = Some(position);
        }
    }

    /// Looks at one row of a result that begins at `start`.
    fn take(
        &mut self,
        plan: &SelectPlan,
        (row, is_judged): (PageRow<'_>, bool),
        (start, out): (usize, &mut Vec<u8>),
        time: &mut TimeSlice<'_>,
    ) -> Result<Taken, CqlError> {
        let entered = self.enter(plan, (row.token, row.key), (start, out), time)?;
        if !matches!(entered, Taken::More) {
            return Ok(entered);
        }
        if let Some(partition) = &mut self.partition
            && plan.static_rows
            && row.ck.is_empty()
        {
            let projector = Projector::new(plan.shape(self.now_s, &self.parts), row);
            let is_live = projector.is_some_and(|projector| projector.is_live());
            partition.static_row = is_live.then(|| row.row.to_vec());
            return Ok(Taken::More);
        }
        self.give(plan, (row, is_judged), row.ck, (start, out), time)
    }

    /// Takes note of the partition of what comes next, after the one before has given all.
    #[inline]
    fn enter(
        &mut self,
        plan: &SelectPlan,
        (token, key): (Token, &[u8]),
        result: (usize, &mut Vec<u8>),
        time: &mut TimeSlice<'_>,
    ) -> Result<Taken, CqlError> {
        if !plan.static_rows && self.per_partition == u64::MAX {
            return Ok(Taken::More);
        }
        if self.partition.as_ref().is_some_and(|partition| partition.key == key) {
            return Ok(Taken::More);
        }
        let ended = self.end_partition(plan, result, time)?;
        if matches!(ended, Taken::More) {
            self.partition = Some(PartitionRead::new(token, key, self.per_partition));
        }
        Ok(ended)
    }

    /// Gives the static columns of the partition at hand as a row if it has given no other.
    #[cold]
    fn end_partition(
        &mut self,
        plan: &SelectPlan,
        result: (usize, &mut Vec<u8>),
        time: &mut TimeSlice<'_>,
    ) -> Result<Taken, CqlError> {
        let Some(partition) = &mut self.partition else { return Ok(Taken::More) };
        if partition.has_given || !plan.gives_static_alone {
            return Ok(Taken::More);
        }
        let Some(static_row) = partition.static_row.take() else { return Ok(Taken::More) };
        let key = partition.key.clone();
        let row = PageRow { token: partition.token, key: &key, ck: &[], row: &static_row };
        let taken = self.give(plan, (row, false), end(plan), result, time)?;
        if let (Taken::TimeIsOver, Some(partition)) = (&taken, &mut self.partition) {
            partition.static_row = Some(static_row);
        }
        Ok(taken)
    }

    /// Appends a row to the result if it is wanted, which may be known. `place` is where to go on
    /// behind it.
    #[inline] // Into what takes a row: it is done with every one.
    fn give(
        &mut self,
        plan: &SelectPlan,
        (row, is_judged): (PageRow<'_>, bool),
        place: &[u8],
        (start, out): (usize, &mut Vec<u8>),
        time: &mut TimeSlice<'_>,
    ) -> Result<Taken, CqlError> {
        let Ok(view) = RowView::parse(row.row) else { return Ok(Taken::More) };
        let parts = self.conditions.as_ref().map_or(&self.parts, |conditions| &conditions.parts);
        let mut projector = Projector::of(plan.shape(self.now_s, parts), row, view);
        if let Some(bytes) = self.partition.as_ref().and_then(|one| one.static_row.as_deref()) {
            projector.add_static(PageRow { ck: &[], row: bytes, ..row });
        }
        let (scratch, mut at) =
            (&mut self.scratch, self.place.within_row.take().unwrap_or_default());
        if let Some(conditions) = self.conditions.as_ref().filter(|_| !is_judged)
            && at.columns == 0
        {
            match conditions.are_met(&mut projector, &mut at.judged, scratch, time)? {
                Some(true) => {}
                Some(false) => {
                    self.filtered += 1;
                    return Ok(Taken::More);
                }
                None => return Ok(self.pause(at)),
            }
        }
        let mut work = RowWork::after(at.judged.work, &projector);
        if self.totals.is_empty() {
            for source in plan.sources.iter().skip(at.columns) {
                let is_put = if matches!(source, Source::Elements { .. }) {
                    let effort = (&mut work, &mut *time);
                    projector.put_elements(source, &mut at.collected, out, effort)?
                } else {
                    projector.put(source, out);
                    true
                };
                // A statement may ask for the same large value many times.
                if out.len() - start > self.bytes_max {
                    return Err(CqlError::result_too_large());
                }
                at.columns += usize::from(is_put);
                if !is_put || (work.is_over(&projector, time)? && at.columns < plan.sources.len()) {
                    at.judged.work = work.all(&projector);
                    return Ok(self.pause(at));
                }
            }
        } else {
            let all = self.totals.len();
            for total in self.totals.iter_mut().skip(at.columns) {
                total.add(&mut projector, scratch)?;
                at.columns += 1;
                if work.is_over(&projector, time)? && at.columns < all {
                    at.judged.work = work.all(&projector);
                    return Ok(self.pause(at));
                }
            }
        }
        Ok(self.count_given(row, place, out.len() - start))
    }

    /// The time is over here, within a row.
    #[cold]
    fn pause(&mut self, at: PlaceInRow) -> Taken {
        self.place.within_row = Some(at);
        Taken::TimeIsOver
    }

    /// A row was given, and the result has so many bytes.
    #[inline]
    fn count_given(&mut self, row: PageRow<'_>, place: &[u8], result_bytes: usize) -> Taken {
        if let Some(partition) = &mut self.partition {
            partition.left = partition.left.saturating_sub(1);
            partition.has_given = true;
        }
        if !self.totals.is_empty() {
            return Taken::More;
        }
        self.rows += 1;
        self.limit_left -= 1;
        if self.limit_left == 0 {
            self.over = true;
            return Taken::Enough;
        }
        if let Some(left) = &mut self.page_left {
            *left -= 1;
            if *left == 0 || result_bytes >= PAGE_BYTES {
                let (key, ck) = (row.key.to_vec(), place.to_vec());
                self.paused = Some(Position { token: row.token, key, ck });
                return Taken::Enough;
            }
        }
        Taken::More
    }
}
