//! Flushing: what is in memtables becomes sstables, and the log is free of it.
//!
//! A flush takes the memtables of all tables, a piece each turn, and splits each by time window.
//! When all files are on the device one record in the manifest makes them count, all or none. Until
//! then the log has everything; so a flush that finds the disk full throws away what it wrote and
//! begins again later.

use std::{collections::BTreeMap, io, sync::Arc};

use super::Table;
use crate::{
    io::{Buffer, FileId},
    memtable::Memtable,
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
pub(super) struct Output {
    pub summary: Summary,
    pub index: Index,
    /// All its bytes; lent to the device while it is written.
    pub buffer: Buffer,
    pub file: Option<FileId>,
}

/// Sstables in the making.
#[derive(Debug)]
struct WindowWriter {
    writer: Writer,
    bytes: Vec<u8>,
    /// The number of the partition that was begun last.
    partition: Option<usize>,
}

/// Turns frozen memtables into the bytes of sstables, a piece at a time.
#[derive(Debug)]
pub(super) struct Encoder {
    epoch: u32,
    shard: u16,
    sources: Vec<(TableNumber, Option<i64>, Arc<Memtable>)>,
    partition: usize,
    /// Rows of the partition that are done.
    rows_done: usize,
    writers: BTreeMap<i64, WindowWriter>,
    next_file: u32,
    outputs: Vec<Output>,
}

impl Encoder {
    /// Begins with the memtables that are frozen. Files are numbered from `next_file` on.
    pub fn new(
        epoch: u32,
        shard: u16,
        next_file: u32,
        tables: &BTreeMap<TableNumber, Table>,
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
            rows_done: 0,
            writers: BTreeMap::new(),
            next_file,
            outputs: Vec::new(),
        }
    }

    /// Encodes some more; all files once there is nothing left.
    ///
    /// # Errors
    ///
    /// If what was written does not read back: a bug, but better found here than in a year.
    pub fn step(&mut self) -> io::Result<Option<(Vec<Output>, u32)>> {
        let mut budget = ROWS_PER_TURN;
        while budget > 0 {
            let Some((table, window_us, memtable)) = self.sources.last().cloned() else {
                return Ok(Some((std::mem::take(&mut self.outputs), self.next_file)));
            };
            let Some(partition) = memtable.nth(self.partition) else {
                self.finish_table()?;
                continue;
            };
            if let Some(deletion) = partition.deletion.filter(|_| self.rows_done == 0) {
                let window = self.window(table, window_us, deletion.timestamp);
                self.begin_partition(window, partition);
            }
            let mut taken = 0;
            for (ck, row) in partition.rows().skip(self.rows_done).take(budget) {
                taken += 1;
                let newest = RowView::parse(row).ok().and_then(|row| row.timestamps().max());
                let window = self.window(table, window_us, newest.unwrap_or(0));
                self.begin_partition(window, partition);
                if let Some(open) = self.writers.get_mut(&window) {
                    open.writer.row(ck, row);
                    open.bytes.append(open.writer.output());
                }
            }
            self.rows_done += taken;
            budget = budget.saturating_sub(taken.max(1));
            if self.rows_done == partition.rows().len() {
                self.partition += 1;
                self.rows_done = 0;
            }
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
        self.writers.insert(window, WindowWriter { writer, bytes: Vec::new(), partition: None });
        window
    }

    fn begin_partition(&mut self, window: i64, partition: &crate::memtable::Partition) {
        let Some(open) = self.writers.get_mut(&window) else { return };
        if open.partition == Some(self.partition) {
            return;
        }
        open.partition = Some(self.partition);
        open.writer.partition(partition.token, &partition.key, partition.deletion);
    }

    fn finish_table(&mut self) -> io::Result<()> {
        self.sources.pop();
        self.partition = 0;
        for (_, mut open) in std::mem::take(&mut self.writers) {
            let summary = open.writer.finish(&mut open.bytes);
            let index = open_index(summary.id, &open.bytes)?;
            let mut buffer = Buffer::with_capacity(open.bytes.len());
            buffer.extend(&open.bytes);
            self.outputs.push(Output { summary, index, buffer, file: None });
        }
        Ok(())
    }
}

/// The index of a file that is in memory as a whole.
fn open_index(id: SstableId, bytes: &[u8]) -> io::Result<Index> {
    let at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = read_footer(id, bytes.len() as u64, bytes.get(at..).unwrap_or_default())?;
    let start = usize::try_from(footer.index.offset).unwrap_or(usize::MAX);
    let index = bytes.get(start..at).unwrap_or_default();
    read_index(&footer, index)
}
