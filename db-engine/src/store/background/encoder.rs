//! Flushing: what is in memtables becomes sstables, and the log is free of it.
//!
//! A flush takes the memtables of all tables, a piece each turn, and splits each by time window.
//! When all files are on the device one record in the manifest makes them count, all or none. Until
//! then the log has everything; so a flush that finds the disk full throws away what it wrote and
//! begins again later. What was dropped with its column is left out.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    ops::Bound,
    sync::Arc,
};

use super::super::{StoreConfig, TableData};
use crate::{
    io::{Buffer, FileId, TimeSlice},
    memtable::{Memtable, PartitionView},
    mutation::{RowView, TableNumber, Token},
    schema::TableSettings,
    sstable::{FOOTER_BYTES, Index, SstableId, Summary, Writer, read_footer, read_index},
};

/// The most files that one table is split into. What is older than that many windows, which real
/// devices do not send at once, shares a file.
const WINDOWS_MAX: usize = 100;

/// A file that a flush writes.
#[derive(Debug)]
pub(in crate::store) struct Output {
    pub summary: Summary,
    pub index: Index,
    /// All its bytes, one piece after the other; each lent to the device while it is written.
    pub pieces: Vec<Buffer>,
    pub file: Option<FileId>,
}

/// Sstables in the making.
#[derive(Debug)]
struct WindowWriter {
    writer: Writer,
    pieces: Vec<Buffer>,
    /// The number of the partition that was begun last.
    partition: Option<u64>,
}

/// Where the last entry of a partition is that was encoded, and whether that was a row. In the same
/// place the deletion of a range comes before the row.
type LastEncoded = (Vec<u8>, bool);

/// Turns frozen memtables into the bytes of sstables, a piece at a time.
#[derive(Debug)]
pub(in crate::store) struct Encoder {
    epoch: u32,
    shard: u16,
    sources: Vec<(TableNumber, TableSettings, Arc<Memtable>)>,
    /// Partitions of the table at hand that were begun.
    partition: u64,
    /// The partition to go on with, and the last of it that was encoded.
    at: Option<(Token, Vec<u8>, Option<LastEncoded>)>,
    /// All rows of the table at hand are encoded, and its files are to be ended.
    rows_are_done: bool,
    writers: BTreeMap<i64, WindowWriter>,
    next_file: u32,
    piece_bytes: usize,
    block_bytes: usize,
    spare: Vec<Buffer>,
    outputs: Vec<Output>,
}

/// What a flush comes to.
#[derive(Debug, Default)]
pub(in crate::store) struct Encoded {
    pub outputs: Vec<Output>,
    /// The number of the next file.
    pub next_file: u32,
    /// Memory that was not needed.
    pub spare: Vec<Buffer>,
}

impl WindowWriter {
    /// Begins a partition, by its number, unless it is the one at hand.
    fn begin(&mut self, number: u64, partition: PartitionView<'_>) {
        if self.partition != Some(number) {
            self.partition = Some(number);
            self.writer.partition(partition.token, partition.key, partition.deletion);
        }
    }

    /// Takes the bytes that are ready from the writer.
    fn take_output(&mut self, piece_bytes: usize, spare: &mut Vec<Buffer>) {
        let output = self.writer.output();
        if !output.is_empty() {
            append(&mut self.pieces, output, piece_bytes, spare);
            output.clear();
        }
    }
}

impl Encoder {
    /// Begins with the memtables that are frozen. Files are numbered from `next_file` on and come
    /// in pieces, in the memory of `spare` as far as it goes.
    pub fn new(
        (epoch, shard): (u32, u16),
        next_file: u32,
        tables: &BTreeMap<TableNumber, TableData>,
        config: &StoreConfig,
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
            epoch,
            shard,
            sources,
            partition: 0,
            at: None,
            rows_are_done: false,
            writers: BTreeMap::new(),
            next_file,
            piece_bytes: config.flush_write_bytes,
            block_bytes: config.block_bytes,
            spare,
            outputs: Vec::new(),
        }
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
            next_file: self.next_file,
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
        let TableSettings { window_us, ref dropped, .. } = *settings;
        let at = self.at.take();
        let (token, key) = at.as_ref().map_or((Token(i64::MIN), &[][..]), |at| (at.0, &at.1));
        let piece_bytes = self.piece_bytes;
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
                self.writer((table, window_us), deletion.timestamp).begin(number, partition);
            }
            slice.count(partition.key.len());
            let (from_row, from_range) = match done.take() {
                None => (Bound::Unbounded, Bound::Unbounded),
                Some((ck, true)) => (Bound::Excluded(&**ck), Bound::Excluded(&**ck)),
                Some((ck, false)) => (Bound::Included(&**ck), Bound::Excluded(&**ck)),
            };
            let mut rows = partition.range(from_row, Bound::Unbounded).peekable();
            let mut ranges = partition.ranges(from_range).peekable();
            loop {
                let next = rows.peek().map(|row| row.ck);
                let last = if let Some(range) =
                    ranges.next_if(|range| next.is_none_or(|ck| range.from <= ck))
                {
                    let open = self.writer((table, window_us), range.deletion.timestamp);
                    open.begin(number, partition);
                    open.writer.range(range);
                    open.take_output(piece_bytes, spare);
                    slice.count(range.from.len() + range.to.len());
                    (range.from, false)
                } else if let Some(versions) = rows.next() {
                    let (ck, row) = (versions.ck, versions.merged());
                    slice.count(ck.len() + row.len());
                    let row = match dropped {
                        None => Some(row),
                        Some(dropped) => dropped.cut(row),
                    };
                    if let Some(row) = row {
                        let view = RowView::parse(&row).ok();
                        let newest = view.and_then(|row| row.timestamps().max());
                        let open = self.writer((table, window_us), newest.unwrap_or(0));
                        open.begin(number, partition);
                        open.writer.row(ck, &row);
                        open.take_output(piece_bytes, spare);
                    }
                    (ck, true)
                } else {
                    break;
                };
                if slice.is_over() {
                    let (token, key) = (partition.token, partition.key.to_vec());
                    self.at = Some((token, key, Some((last.0.to_vec(), last.1))));
                    return false;
                }
            }
        }
        self.rows_are_done = true;
        true
    }

    /// The writer of the file that takes rows of this timestamp.
    fn writer(
        &mut self,
        (table, window_us): (TableNumber, Option<i64>),
        timestamp: i64,
    ) -> &mut WindowWriter {
        let mut window = window_us.map_or(0, |window_us| timestamp.div_euclid(window_us.max(1)));
        if self.writers.len() >= WINDOWS_MAX
            && !self.writers.contains_key(&window)
            && let Some((first, _)) = self.writers.first_key_value()
        {
            window = *first;
        }
        match self.writers.entry(window) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let sequence = self.next_file;
                let id = SstableId { epoch: self.epoch, shard: self.shard, sequence };
                self.next_file += 1;
                let writer = Writer::new(id, table, window).with_block_bytes(self.block_bytes);
                place.insert(WindowWriter { writer, pieces: Vec::new(), partition: None })
            }
        }
    }

    /// Ends the files of the table at hand, until the time is over; returns whether that was all.
    fn finish_files(&mut self, slice: &mut TimeSlice<'_>) -> io::Result<bool> {
        while !slice.is_over() {
            let Some((_, mut open)) = self.writers.pop_first() else {
                self.rows_are_done = false;
                return Ok(true);
            };
            let (summary, tail) = open.writer.finish();
            let index = open_index(&summary, &tail)?;
            append(&mut open.pieces, &tail, self.piece_bytes, &mut self.spare);
            self.outputs.push(Output { summary, index, pieces: open.pieces, file: None });
            slice.look();
        }
        Ok(false)
    }
}

/// The index of a file of which this is the end.
fn open_index(summary: &Summary, tail: &[u8]) -> io::Result<Index> {
    let at = tail.len().saturating_sub(FOOTER_BYTES);
    let footer = read_footer(summary.id, summary.bytes, tail.get(at..).unwrap_or_default())?;
    let start = at.saturating_sub(footer.index.bytes as usize);
    read_index(&footer, tail.get(start..at).unwrap_or_default())
}

/// Puts bytes at the end of a file, of which every piece but the last is full.
fn append(pieces: &mut Vec<Buffer>, mut bytes: &[u8], piece_bytes: usize, spare: &mut Vec<Buffer>) {
    while !bytes.is_empty() {
        let room = pieces.last().map_or(0, |piece| piece_bytes - piece.len());
        if room == 0 {
            let mut piece = spare.pop().unwrap_or_default();
            piece.clear();
            pieces.push(piece);
            continue;
        }
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        if let Some(piece) = pieces.last_mut() {
            piece.extend(now);
        }
        bytes = later;
    }
}
