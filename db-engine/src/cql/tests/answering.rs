//! A storage that is a map of rows.

use super::Database;
use crate::{
    io::{ManualClock, TimeSlice},
    mutation::{RowView, Token},
    store::{JudgedPlace, Judgement, Page, PageRow, Partitions, ReadRequest},
};
use std::{cmp::Ordering, ops::RangeBounds};

impl Database {
    /// Answers a request as a store with these rows would.
    pub(super) fn page(&self, request: &ReadRequest) -> Page {
        let mut page = Page::default();
        let mut rows: Vec<_> = self.rows.iter().collect();
        if request.reverse {
            rows.reverse();
        }
        let is_live = |row: &[u8]| RowView::parse(row).unwrap().is_live(request.now_s);
        // The place that was looked at last, and how many rows there are besides static ones.
        let mut last: Option<(Token, &[u8], &[u8])> = None;
        let (mut begun, mut count) = (None, 0);
        for ((token, key, ck), row) in rows {
            let wanted = match &request.partitions {
                Partitions::One { key: wanted, .. } => wanted == key,
                Partitions::Range { from, to } => (*from..=*to).contains(&token.0),
            };
            // In one partition a store compares clustering keys alone.
            let by_partition = request.after.as_ref().map_or(Ordering::Equal, |after| {
                let is_of_one = matches!(request.partitions, Partitions::One { .. });
                let order = (token, key).cmp(&(&after.token, &after.key));
                if is_of_one { Ordering::Equal } else { order }
            });
            let is_range = matches!(request.partitions, Partitions::Range { .. });
            let after = request.after.as_ref().filter(|_| is_range);
            let is_behind = by_partition.is_eq() && after.is_some_and(|after| after.ck == [0xFF]);
            if !wanted || by_partition.is_lt() || is_behind {
                continue;
            }
            if let Some((token, before, _)) = last.filter(|(_, before, _)| before != key)
                && self.stops()
            {
                page.cut(token, before, &[0xFF]);
                break;
            }
            if request.static_rows && begun != Some((token, key)) {
                begun = Some((token, key));
                let of_static = self.rows.get(&(*token, key.clone(), Vec::new()));
                if let Some(row) = of_static.filter(|row| is_live(row)) {
                    page.push(*token, key, &[], row);
                    let is_first = by_partition.is_gt() || request.after.is_none();
                    let place = (*token, key.as_slice(), &[][..]);
                    last = Some(place).filter(|_| is_first && !request.reverse);
                }
            }
            let is_static = request.static_rows && ck.is_empty();
            let within = (request.from.clone(), request.to.clone()).contains(ck);
            let later = request.after.as_ref().is_none_or(|after| {
                let order = ck.cmp(&after.ck);
                by_partition.then(if request.reverse { order.reverse() } else { order }).is_gt()
            });
            if is_static || !(within && later) {
                continue;
            }
            let full = count == request.rows_max || page.bytes() >= request.bytes_max;
            if let Some((token, key, ck)) = last
                && (full || self.stops())
            {
                page.cut(token, key, ck);
                break;
            }
            last = Some((*token, key, ck));
            if is_full(request, key, &page) {
                continue;
            }
            if is_live(row) && self.counts(request, (*token, key, ck), row, &mut page) {
                page.push(*token, key, ck, row);
                count += 1;
            } else {
                page.add_dead();
            }
        }
        page
    }

    /// Whether a row, which is live, counts.
    fn counts(
        &self,
        request: &ReadRequest,
        (token, key, ck): (Token, &[u8], &[u8]),
        row: &[u8],
        page: &mut Page,
    ) -> bool {
        let Some(filter) = &request.filter else { return true };
        let of_static = self.rows.get(&(token, key.to_vec(), Vec::new()));
        let of_static = of_static.filter(|_| request.static_rows);
        let of_static = of_static.map(|row| PageRow { token, key, ck: &[], row });
        let row = PageRow { token, key, ck, row };
        let (clock, mut place) = (ManualClock::at(0), JudgedPlace::default());
        let judgement = loop {
            // It pauses wherever it may.
            let mut time = TimeSlice::new(&clock, 0);
            match filter.judge(row, of_static, &mut place, &mut Vec::new(), &mut time) {
                Judgement::TimeIsOver => {}
                judgement => break judgement,
            }
        };
        if judgement == Judgement::Unknown {
            page.note_unjudged();
        }
        judgement != Judgement::Counts(false)
    }

    fn stops(&self) -> bool {
        self.cuts.as_ref().is_some_and(|cuts| cuts.borrow_mut().percent(20))
    }
}

/// Whether a page has as many rows of a partition as are asked for.
fn is_full(request: &ReadRequest, key: &[u8], page: &Page) -> bool {
    let is_static = |row: &PageRow<'_>| request.static_rows && row.ck.is_empty();
    let given = page.rows().filter(|row| row.key == key && !is_static(row)).count();
    let goes_on = request.after.as_ref().is_some_and(|after| after.key == key);
    given >= if goes_on { request.partition_rows_left } else { request.partition_rows_max }
}
