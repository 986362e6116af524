//! Flushing: what is in memtables becomes sstables, and the log is free of it.
//!
//! A flush takes the memtables of all tables, a piece each turn, and splits each by time window.
//! When all files are on the device one record in the manifest makes them count, all or none. Until
//! then the log has everything; so a flush that finds the disk full throws away what it wrote and
//! begins again later.

use std::{collections::BTreeMap, io, ops::Bound, sync::Arc};

use super::super::Table;
use crate::{
    io::{Buffer, FileId},
    memtable::{Memtable, PartitionView},
    mutation::{RowView, TableNumber},
    sstable::{FOOTER_BYTES, Index, SstableId, Summary, Writer, read_footer, read_index},
};

/// Rows encoded in one turn: about a millisecond, in which no request is served.
const ROWS_PER_TURN: usize = 2_000;

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
    partition: Option<usize>,
}

/// Turns frozen memtables into the bytes of sstables, a piece at a time.
#[derive(Debug)]
pub(in crate::store) struct Encoder {
    epoch: u32,
    shard: u16,
    sources: Vec<(TableNumber, Option<i64>, Arc<Memtable>)>,
    partition: usize,
    /// The last row of the partition that is done.
    done: Option<Vec<u8>>,
    writers: BTreeMap<i64, WindowWriter>,
    next_file: u32,
    piece_bytes: usize,
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

impl Encoder {
    /// Begins with the memtables that are frozen. Files are numbered from `next_file` on and come
    /// in pieces of at most `piece_bytes`, in the memory of `spare` as far as it goes.
    pub fn new(
        (epoch, shard): (u32, u16),
        next_file: u32,
        tables: &BTreeMap<TableNumber, Table>,
        piece_bytes: usize,
        spare: Vec<Buffer>,
    ) -> Self {
        let sources = tables
            .iter()
            .rev()
            .filter_map(|(number, table)| {
                let memtable = Arc::clone(table.flushing.as_ref()?);
                Some((*number, table.settings.window_us, memtable))
            })
            .collect();
        Self {
            epoch,
            shard,
            sources,
            partition: 0,
            done: None,
            writers: BTreeMap::new(),
            next_file,
            piece_bytes,
            spare,
            outputs: Vec::new(),
        }
    }

    /// Encodes some more; all files once there is nothing left.
    ///
    /// # Errors
    ///
    /// If what was written does not read back: a bug, but better found here than in a year.
    pub fn step(&mut self) -> io::Result<Option<Encoded>> {
        let mut budget = ROWS_PER_TURN;
        while budget > 0 {
            let Some((table, window_us, memtable)) = self.sources.last().cloned() else {
                return Ok(Some(Encoded {
                    outputs: std::mem::take(&mut self.outputs),
                    next_file: self.next_file,
                    spare: std::mem::take(&mut self.spare),
                }));
            };
            let Some(partition) = memtable.nth(self.partition) else {
                self.finish_table()?;
                continue;
            };
            if let Some(deletion) = partition.deletion.filter(|_| self.done.is_none()) {
                let window = self.window(table, window_us, deletion.timestamp);
                self.begin_partition(window, partition);
            }
            let mut taken = 0;
            let mut last = None;
            let done = self.done.take();
            let from = done.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            for (ck, row) in partition.range(from, Bound::Unbounded).take(budget) {
                taken += 1;
                last = Some(ck);
                let newest = RowView::parse(row).ok().and_then(|row| row.timestamps().max());
                let window = self.window(table, window_us, newest.unwrap_or(0));
                self.begin_partition(window, partition);
                if let Some(open) = self.writers.get_mut(&window) {
                    open.writer.row(ck, row);
                    let output = open.writer.output();
                    if !output.is_empty() {
                        append(&mut open.pieces, output, self.piece_bytes, &mut self.spare);
                        output.clear();
                    }
                }
            }
            if taken < budget {
                self.partition += 1;
            } else {
                self.done = last.map(<[u8]>::to_vec);
            }
            budget = budget.saturating_sub(taken.max(1));
        }
        Ok(None)
    }

    /// The window of this timestamp, with a writer for it.
    fn window(&mut self, table: TableNumber, window_us: Option<i64>, timestamp: i64) -> i64 {
        let window = window_us.map_or(0, |window_us| timestamp.div_euclid(window_us.max(1)));
        if self.writers.contains_key(&window) {
            return window;
        }
        if let Some((first, _)) = self.writers.first_key_value()
            && self.writers.len() >= WINDOWS_MAX
        {
            return *first;
        }
        let id = SstableId { epoch: self.epoch, shard: self.shard, sequence: self.next_file };
        self.next_file += 1;
        let writer = Writer::new(id, table, window);
        self.writers.insert(window, WindowWriter { writer, pieces: Vec::new(), partition: None });
        window
    }

    fn begin_partition(&mut self, window: i64, partition: PartitionView<'_>) {
        let Some(open) = self.writers.get_mut(&window) else { return };
        if open.partition == Some(self.partition) {
            return;
        }
        open.partition = Some(self.partition);
        open.writer.partition(partition.token, partition.key, partition.deletion);
    }

    fn finish_table(&mut self) -> io::Result<()> {
        self.sources.pop();
        self.partition = 0;
        for (_, mut open) in std::mem::take(&mut self.writers) {
            let (summary, tail) = open.writer.finish();
            let index = open_index(&summary, &tail)?;
            append(&mut open.pieces, &tail, self.piece_bytes, &mut self.spare);
            self.outputs.push(Output { summary, index, pieces: open.pieces, file: None });
        }
        Ok(())
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
