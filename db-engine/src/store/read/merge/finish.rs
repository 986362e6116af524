//! A row that was merged is taken into the page, if it is live and counts.

use super::Merge;
use crate::{
    io::TimeSlice,
    memtable::Memtable,
    mutation::{RowView, Token},
    store::{
        Judgement, Page, PageRow, ReadRequest,
        read::{scratch::Scratch, slice::Slice},
    },
};

/// What is done with.
pub(super) enum DoneWith {
    /// The row.
    Row,
    /// And its partition: no more rows are wanted of it.
    Partition,
    /// Not even the row: the time is over before it is judged.
    Nothing,
}

impl Merge {
    /// Takes the row that was merged into the page, if it is live and counts. The one without a
    /// clustering key may be a static row: that is not counted.
    pub(super) fn finish_row(
        &mut self,
        slice: &Slice<'_>,
        request: &ReadRequest,
        ranged: &[Option<&Memtable>; 2],
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> DoneWith {
        let Some(token) = self.last.token else { return DoneWith::Row };
        if self.judged.is_none() && !self.is_to_be_judged(token, (slice, request), ranged, page) {
            return DoneWith::Row;
        }
        match self.judge(token, request, page, time) {
            Judgement::Counts(true) => {}
            Judgement::Counts(false) => {
                page.add_dead();
                return DoneWith::Row;
            }
            Judgement::Unknown => page.note_unjudged(),
            Judgement::TimeIsOver => return DoneWith::Nothing,
        }
        let Self { last, partition_left, .. } = self;
        page.push_taken(token, &last.key, &last.ck, &mut last.row);
        if request.partition_rows_max == usize::MAX {
            return DoneWith::Row;
        }
        let left = partition_left.get_or_insert_with(|| {
            let goes_on = request.after.as_ref().is_some_and(|after| after.key == last.key);
            if goes_on { request.partition_rows_left } else { request.partition_rows_max }
        });
        *left = left.saturating_sub(1);
        if *left == 0 { DoneWith::Partition } else { DoneWith::Row }
    }

    /// Whether the row that was merged is one that counts if its filter says so. What deletes it is
    /// applied; a static row is taken into the page.
    fn is_to_be_judged(
        &mut self,
        token: Token,
        (slice, request): (&Slice<'_>, &ReadRequest),
        ranged: &[Option<&Memtable>; 2],
        page: &mut Page,
    ) -> bool {
        let Self { last, seen, statics, .. } = self;
        let in_memory = ranged.iter().flatten();
        let in_memory = in_memory.filter_map(|one| one.range_deletion(token, &last.key, &last.ck));
        let deletion = seen.of_row(&last.ck, slice.reverse).max(in_memory.max());
        if request.newest {
            let row = RowView::parse(&last.row).ok();
            let spans = row.iter().filter_map(RowView::timestamp_span);
            spans.for_each(|(_, newest)| page.note_timestamp(newest));
        }
        if let Some(deletion) = deletion {
            if request.newest {
                page.note_timestamp(deletion.timestamp);
            }
            last.hide(deletion);
        }
        let is_static = request.static_rows && last.ck.is_empty();
        let is_live = RowView::parse(&last.row).is_ok_and(|row| row.is_live(slice.now_s));
        if !is_static {
            if !is_live {
                page.add_dead();
            }
            return is_live;
        }
        if is_live {
            page.push(token, &last.key, &last.ck, &last.row);
            page.note_static_row();
            *statics = statics.map(|count| count + 1);
        }
        false
    }

    /// Whether the row that was merged, which is live, counts.
    #[inline]
    fn judge(
        &mut self,
        token: Token,
        request: &ReadRequest,
        page: &Page,
        time: &mut TimeSlice<'_>,
    ) -> Judgement {
        let Some(filter) = &request.filter else { return Judgement::Counts(true) };
        let Scratch { key, ck, row, other, .. } = &mut self.last;
        let row = PageRow { token, key, ck, row };
        let mut place = self.judged.take().unwrap_or_default();
        let judgement = filter.judge(row, page.static_row_of(key), &mut place, other, time);
        self.judged = Some(place).filter(|_| judgement == Judgement::TimeIsOver);
        judgement
    }
}
