//! A row is merged to its end, and taken into the page if it is live and counts.

use super::Merge;
use crate::{
    io::TimeSlice,
    memtable::Memtable,
    mutation::{MergedRow, RowView, Token},
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
    /// Not even the row: the time is over before it is merged and judged.
    Nothing,
}

impl Merge {
    /// Takes note of what deletes the row that is come to: as of now, like its versions.
    #[inline]
    pub(super) fn note_hidden(&mut self, slice: &Slice<'_>, ranged: &[Option<&Memtable>; 2]) {
        let Self { last, seen, .. } = self;
        let Some(token) = last.token else { return };
        let in_memory = ranged.iter().flatten();
        let in_memory = in_memory.filter_map(|one| one.range_deletion(token, &last.key, &last.ck));
        last.deletion = seen.of_row(&last.ck, slice.reverse).max(in_memory.max());
    }

    /// Merges the row to its end, and takes it into the page if it is live and counts. The one
    /// without a clustering key may be a static row: that is not counted.
    pub(super) fn finish_row(
        &mut self,
        slice: &Slice<'_>,
        request: &ReadRequest,
        page: &mut Page,
        time: &mut TimeSlice<'_>,
    ) -> DoneWith {
        if !self.last.merge_some(time) {
            return DoneWith::Nothing;
        }
        let Some(token) = self.last.token else { return DoneWith::Row };
        if self.judged.is_none() && !self.is_to_be_judged(token, (slice, request), page) {
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
        page.push_taken(token, &last.key, &last.ck, &mut last.merged.row);
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
        page: &mut Page,
    ) -> bool {
        let Self { last, statics, .. } = self;
        if request.newest {
            let row = RowView::parse(&last.merged.row).ok();
            let spans = row.iter().filter_map(RowView::timestamp_span);
            spans.for_each(|(_, newest)| page.note_timestamp(newest));
        }
        if let Some(deletion) = last.deletion {
            if request.newest {
                page.note_timestamp(deletion.timestamp);
            }
            last.hide(deletion);
        }
        let is_static = request.static_rows && last.ck.is_empty();
        let is_live = RowView::parse(&last.merged.row).is_ok_and(|row| row.is_live(slice.now_s));
        if !is_static {
            if !is_live {
                page.add_dead();
            }
            return is_live;
        }
        if is_live {
            page.push(token, &last.key, &last.ck, &last.merged.row);
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
        let Scratch { key, ck, merged: MergedRow { row, other, .. }, .. } = &mut self.last;
        let row = PageRow { token, key, ck, row };
        let mut place = self.judged.take().unwrap_or_default();
        let judgement = filter.judge(row, page.static_row_of(key), &mut place, other, time);
        self.judged = Some(place).filter(|_| judgement == Judgement::TimeIsOver);
        judgement
    }
}
