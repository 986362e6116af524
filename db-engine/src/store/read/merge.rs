//! Merging: all versions of a row become one, in the order of reading.

use std::cmp::Ordering;

use super::{
    super::{Page, Position, ReadRequest},
    DEAD_ROWS_MAX, FindBlock, Progress,
    cache::BlockId,
    cursor::{Cursor, Peek},
    slice::Slice,
};
use crate::{
    io::TimeSlice,
    mutation::{Deletion, RowView, Token, merge, shadow},
    sstable::BlockRow,
    types::comparable::ABOVE,
};

/// Looking at one more source for the next row takes as long as moving so many bytes.
const CURSOR_COST_BYTES: usize = 16;

/// The last row that was merged, in memory that is used again; or the end of a partition, if no
/// row of it was.
#[derive(Default)]
struct Scratch {
    /// `None` before the first row.
    token: Option<Token>,
    key: Vec<u8>,
    ck: Vec<u8>,
    row: Vec<u8>,
    other: Vec<u8>,
}

impl Scratch {
    fn add(&mut self, version: &[u8], is_first: bool) {
        if is_first {
            self.row.clear();
            self.row.extend_from_slice(version);
            return;
        }
        self.other.clear();
        merge(&self.row, version, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    fn hide(&mut self, deletion: Deletion) {
        self.other.clear();
        shadow(&self.row, deletion.timestamp, &mut self.other);
        std::mem::swap(&mut self.row, &mut self.other);
    }

    fn position(&self) -> Option<Position> {
        let token = self.token?;
        Some(Position { token, key: self.key.clone(), ck: self.ck.clone() })
    }
}

/// What one step of a merge came to.
enum MergeStep {
    /// Nothing is left.
    End,
    /// There is something; it was only looked at, or was the deletion of a partition.
    More,
    /// So many versions of a row were merged.
    Row(u64),
    /// These blocks must be in memory first.
    Missing(Vec<BlockId>),
}

pub(super) struct Merge<'a, 'f, 'c> {
    cursors: Vec<Cursor<'a>>,
    /// Of the partition at hand.
    deletion: Option<Deletion>,
    partition: Option<(Token, Vec<u8>)>,
    slice: Slice,
    find: &'f mut FindBlock<'c>,
    last: Scratch,
    /// Which cursors are at the row that is being merged.
    at_row: Vec<usize>,
}

impl<'a, 'f, 'c> Merge<'a, 'f, 'c> {
    pub fn new(
        cursors: Vec<Cursor<'a>>,
        deletion: Option<Deletion>,
        slice: Slice,
        find: &'f mut FindBlock<'c>,
    ) -> Self {
        Self {
            cursors,
            deletion,
            partition: None,
            slice,
            find,
            last: Scratch::default(),
            at_row: Vec::new(),
        }
    }

    /// The place of the last row that was merged.
    pub fn position(&self) -> Option<Position> {
        self.last.position()
    }

    /// Merges rows into the page until it is full, or the time is over.
    pub fn run(
        &mut self,
        request: &ReadRequest,
        page: &mut Page,
        slice: &mut TimeSlice<'_>,
    ) -> (Progress, u64) {
        let mut scanned = 0;
        loop {
            let full = page.len() >= request.rows_max
                || (page.bytes() >= request.bytes_max && !page.is_empty())
                || page.dead() >= DEAD_ROWS_MAX;
            let place = self.last.token.filter(|_| full || slice.is_over());
            match (self.step(place.is_some()), place) {
                (MergeStep::More | MergeStep::Missing(_), Some(token)) if full => {
                    page.cut(token, &self.last.key, &self.last.ck);
                    return (Progress::Complete, scanned);
                }
                (MergeStep::More, Some(_)) => return (Progress::TimeIsOver, scanned),
                (MergeStep::End, _) => return (Progress::Complete, scanned),
                (MergeStep::Missing(missing), _) => return (Progress::Missing(missing), scanned),
                (MergeStep::More, None) => page.add_dead(),
                (MergeStep::Row(versions), _) => {
                    scanned += versions;
                    self.finish_row(page);
                }
            }
            let bytes = self.last.key.len() + self.last.row.len();
            slice.count(bytes + CURSOR_COST_BYTES * self.cursors.len());
        }
    }

    /// Merges all versions of the next row, unless it should only look whether there is one.
    fn step(&mut self, only_look: bool) -> MergeStep {
        let mut missing = Vec::new();
        let mut next: Option<BlockRow<'_>> = None;
        self.at_row.clear();
        for (number, cursor) in self.cursors.iter().enumerate() {
            match cursor.peek(&self.slice) {
                Peek::End => {}
                Peek::Missing(block) => missing.push(block),
                Peek::Row(row) => {
                    let order = next.map_or(Ordering::Less, |next| self.slice.order(&row, &next));
                    if order.is_lt() {
                        self.at_row.clear();
                        next = Some(row);
                    }
                    if order.is_le() {
                        self.at_row.push(number);
                    }
                }
            }
        }
        if !missing.is_empty() {
            return MergeStep::Missing(missing);
        }
        let Some(next) = next else { return MergeStep::End };
        if only_look {
            return MergeStep::More;
        }
        let partition = (next.token, next.key);
        if self.partition.as_ref().map(|(token, key)| (*token, key.as_slice())) != Some(partition) {
            let is_known = self.partition.is_none() && self.slice.partition() == Some(partition);
            self.deletion = self.deletion.filter(|_| is_known);
            // Nothing of the partition before is left: there is no need to see its deletion again.
            if let Some((token, key)) = self.partition.take()
                && (self.last.token, &self.last.key) != (Some(token), &key)
            {
                self.last.token = Some(token);
                self.last.key = key;
                replace(&mut self.last.ck, &[ABOVE]);
            }
            self.partition = Some((next.token, next.key.to_vec()));
        }
        let versions = match next.row {
            None => 0,
            Some((ck, _)) => {
                self.last.token = Some(next.token);
                replace(&mut self.last.key, next.key);
                replace(&mut self.last.ck, ck);
                self.at_row.len()
            }
        };
        for (version, number) in self.at_row.iter().enumerate() {
            let Peek::Row(row) = self.cursors[*number].peek(&self.slice) else { continue };
            self.deletion = self.deletion.max(row.deletion);
            if let Some((_, row)) = row.row {
                self.last.add(row, version == 0);
            }
        }
        for number in &self.at_row {
            self.cursors[*number].advance(self.slice.reverse, self.find);
        }
        if versions == 0 { MergeStep::More } else { MergeStep::Row(versions as u64) }
    }

    fn finish_row(&mut self, page: &mut Page) {
        if let Some(deletion) = self.deletion {
            self.last.hide(deletion);
        }
        let is_live = RowView::parse(&self.last.row).is_ok_and(|row| row.is_live(self.slice.now_s));
        match self.last.token {
            Some(token) if is_live => {
                page.push(token, &self.last.key, &self.last.ck, &self.last.row);
            }
            _ => page.add_dead(),
        }
    }
}

fn replace(bytes: &mut Vec<u8>, with: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(with);
}
