//! Flushing: what is in memtables becomes sstables, and the log is free of it.
//!
//! A flush takes the memtables of all tables, a piece each turn, and splits each by time window.
//! When all files are on the device one record in the manifest makes them count, all or none. Until
//! then the log has everything; so a flush that finds the disk full throws away what it wrote and
//! begins again later. What was dropped with its column is left out.

use std::{borrow::Cow, collections::BTreeMap, io, ops::Bound, sync::Arc};

use super::{
    super::{StoreConfig, TableData},
    windows::{FileNumbers, Finished, Output, PartitionStart, WindowWriter, WindowWriters},
};
use crate::{
    io::{Buffer, TimeSlice},
    memtable::{Memtable, PartitionView, RowVersions},
    mutation::{MergedRow, RowView, TableNumber, Token},
    schema::TableSettings,
    sstable::IndexRoom,
};

/// Where the last entry of a partition is that was encoded, and whether that was a row. In the same
/// place the deletion of a range comes before the row. The empty place is before all entries.
type LastEncoded = (Vec<u8>, bool);

/// A partition, and the last of it that was encoded; `None` before it was begun.
type EncodedPlace = (Token, Vec<u8>, Option<LastEncoded>);

/// Turns frozen memtables into the bytes of sstables, a piece at a time.
#[derive(Debug)]
pub(in crate::store) struct Encoder {
    sources: Vec<(TableNumber, TableSettings, Arc<Memtable>)>,
    /// Partitions of the table at hand that were begun.
    partition: u64,
    /// The partition to go on with, and the last of it that was encoded.
    at: Option<EncodedPlace>,
    /// The row of which the versions are merged.
    merged: MergedRow,
    /// All rows of the table at hand are encoded, and its files are to be ended.
    rows_are_done: bool,
    writers: WindowWriters,
    spare: Vec<Buffer>,
    outputs: Vec<Output>,
}

/// What a flush comes to.
#[derive(Debug, Default)]
pub(in crate::store) struct Encoded {
    pub outputs: Vec<Output>,
    /// Memory that was not needed.
    pub spare: Vec<Buffer>,
}

impl Encoder {
    /// Begins with the memtables that are frozen. Files come in pieces, in the memory of `spare` as
    /// far as it goes. It is this second now, since the Unix epoch.
    pub fn new(
        owner: (u32, u16),
        numbers: FileNumbers,
        tables: &BTreeMap<TableNumber, TableData>,
        (config, written_s): (&StoreConfig, i64),
        spare: Vec<Buffer>,
    ) -> Self {
        let sources = tables
            .iter()
            .rev()
            .filter_map(|(number, table)| {
                let memtable = Arc::clone(table.flushing.as_ref()?);
                Some((*number, table.settings.clone(), memtable))
            })
            .collect();
        Self {
            sources,
            partition: 0,
            at: None,
            merged: MergedRow::default(),
            rows_are_done: false,
            writers: WindowWriters::new(owner, numbers, config, written_s),
            spare,
            outputs: Vec::new(),
        }
    }

    /// Says how much memory the indexes of small blocks may take.
    pub fn with_index_room(mut self, index_room: IndexRoom) -> Self {
        self.writers.index_room = index_room;
        self
    }

    /// Encodes some more, until the time is over; all files once there is nothing left.
    ///
    /// # Errors
    ///
    /// If what was written does not read back: a bug, but better found here than in a year.
    pub fn step(&mut self, slice: &mut TimeSlice<'_>) -> io::Result<Option<Encoded>> {
        while let Some((table, settings, memtable)) = self.sources.last().cloned() {
            let mut spare = std::mem::take(&mut self.spare);
            let encoded = self.encode_rows((table, &settings), &memtable, slice, &mut spare);
            self.spare = spare;
            if !encoded || !self.finish_files(slice)? {
                return Ok(None);
            }
            self.sources.pop();
            self.partition = 0;
        }
        Ok(Some(Encoded {
            outputs: std::mem::take(&mut self.outputs),
            spare: std::mem::take(&mut self.spare),
        }))
    }

    /// Goes on with the rows of a table, until the time is over; returns whether that was all.
    fn encode_rows(
        &mut self,
        (table, settings): (TableNumber, &TableSettings),
        memtable: &Memtable,
        slice: &mut TimeSlice<'_>,
        spare: &mut Vec<Buffer>,
    ) -> bool {
        if self.rows_are_done {
            return true;
        }
        if !self.writers.close_long_blocks(spare, slice) || slice.is_over() {
            return false;
        }
        let TableSettings { window_us, ref dropped, .. } = *settings;
        let at = self.at.take();
        let (token, key) = at.as_ref().map_or((Token(i64::MIN), &[][..]), |at| (at.0, &at.1));
        let piece_bytes = self.writers.piece_bytes;
        let mut done = at.as_ref().and_then(|at| at.2.as_ref());
        for partition in memtable.in_order(token, key) {
            if slice.is_over() {
                self.at = Some((partition.token, partition.key.to_vec(), None));
                return false;
            }
            let is_new = done.is_none();
            self.partition += u64::from(is_new);
            let number = self.partition;
            if let Some(deletion) = partition.deletion.filter(|_| is_new) {
                self.writer((table, window_us), deletion.timestamp).begin(number, start(partition));
            }
            slice.count(partition.key.len());
            let mut last = done.map_or((&[][..], false), |(ck, is_row)| (&**ck, *is_row));
            let (from_row, from_range) = match done.take() {
                None => (Bound::Unbounded, Bound::Unbounded),
                Some((ck, true)) => (Bound::Excluded(&**ck), Bound::Excluded(&**ck)),
                Some((ck, false)) => (Bound::Included(&**ck), Bound::Excluded(&**ck)),
            };
            let mut rows = partition.rows_from(from_row).peekable();
            let mut ranges = partition.ranges(from_range).peekable();
            loop {
                let next = rows.peek().map(|row| row.ck);
                if let Some(range) = ranges.next_if(|range| next.is_none_or(|ck| range.from <= ck))
                {
                    let open = self.writer((table, window_us), range.deletion.timestamp);
                    open.begin(number, start(partition));
                    open.writer.range(range);
                    open.take_output(piece_bytes, spare);
                    slice.count(range.from.len() + range.to.len());
                    last = (range.from, false);
                } else if let Some(versions) = rows.next() {
                    let ck = versions.ck;
                    let Some(row) = self.merge(versions, slice) else {
                        self.at = Some(place_behind(partition, last));
                        return false;
                    };
                    slice.count(ck.len() + row.len());
                    let row = match dropped {
                        None => Some(row),
                        Some(dropped) => dropped.cut(row),
                    };
                    if let Some(row) = row {
                        let place = (number, start(partition), ck);
                        self.write_row((table, window_us), place, &row, (slice, spare));
                    }
                    last = (ck, true);
                } else {
                    break;
                }
                if slice.is_over() {
                    self.at = Some(place_behind(partition, last));
                    return false;
                }
            }
        }
        self.rows_are_done = true;
        true
    }

    /// The row that all versions make; `None` if the time is over before.
    fn merge<'v>(
        &mut self,
        versions: RowVersions<'v>,
        slice: &mut TimeSlice<'_>,
    ) -> Option<Cow<'v, [u8]>> {
        if versions.layers.is_empty() {
            return Some(Cow::Borrowed(versions.record));
        }
        if !self.merged.add_all(versions.iter(), slice) {
            return None;
        }
        Some(Cow::Owned(std::mem::take(&mut self.merged).row))
    }

    /// Writes a row of the partition with this number into the file that takes it.
    fn write_row(
        &mut self,
        target: (TableNumber, Option<i64>),
        (number, partition, ck): (u64, PartitionStart<'_>, &[u8]),
        row: &[u8],
        (slice, spare): (&mut TimeSlice<'_>, &mut Vec<Buffer>),
    ) {
        let times = RowView::parse(row).map(|row| row.times()).unwrap_or_default();
        let newest = if times.count == 0 { 0 } else { times.timestamps.1 };
        let piece_bytes = self.writers.piece_bytes;
        let open = self.writer(target, newest);
        open.begin(number, partition);
        open.writer.row_of_times(ck, row, &times);
        open.take_output(piece_bytes, spare);
        open.close_long_block(piece_bytes, spare, slice);
    }

    /// The writer of the file that takes rows of this timestamp.
    fn writer(
        &mut self,
        (table, window_us): (TableNumber, Option<i64>),
        timestamp: i64,
    ) -> &mut WindowWriter {
        let window = window_us.map_or(0, |window_us| timestamp.div_euclid(window_us.max(1)));
        self.writers.writer(table, window)
    }

    /// Ends the files of the table at hand, until the time is over; returns whether that was all.
    fn finish_files(&mut self, slice: &mut TimeSlice<'_>) -> io::Result<bool> {
        while !slice.is_over() {
            match self.writers.finish_one(&mut self.spare, slice)? {
                Finished::File(output) => self.outputs.push(output),
                Finished::NotYet => return Ok(false),
                Finished::Nothing => {
                    self.rows_are_done = false;
                    return Ok(true);
                }
            }
            slice.look();
        }
        Ok(false)
    }
}

/// Where to go on behind what was encoded last of a partition.
fn place_behind(partition: PartitionView<'_>, last: (&[u8], bool)) -> EncodedPlace {
    (partition.token, partition.key.to_vec(), Some((last.0.to_vec(), last.1)))
}

fn start(partition: PartitionView<'_>) -> PartitionStart<'_> {
    (partition.token, partition.key, partition.deletion)
}
