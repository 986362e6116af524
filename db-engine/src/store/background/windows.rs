//! Sstables in the making, one for each time window.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::{
    io::{Buffer, FileId},
    mutation::{Deletion, TableNumber, Token},
    sstable::{
        FOOTER_BYTES, Index, IndexRoom, SstableId, Summary, Writer, read_footer, read_index,
    },
    store::StoreConfig,
};

/// The most files that one table is split into. What is older than that many windows, which real
/// devices do not send at once, shares a file.
const WINDOWS_MAX: usize = 100;

/// How many files these are written to, at most, when they are split by windows of this length.
pub(in crate::store) fn windows_of<'a>(
    summaries: impl Iterator<Item = &'a Summary>,
    window_us: i64,
) -> usize {
    let window = |timestamp: i64| timestamp.div_euclid(window_us);
    let mut spans: Vec<_> =
        summaries.map(|one| (window(one.timestamp_min), window(one.timestamp_max))).collect();
    spans.sort_unstable();
    let (mut windows, mut next) = (0_u64, i64::MIN);
    for (first, last) in spans {
        let first = first.max(next);
        if first <= last {
            windows = windows.saturating_add(last.abs_diff(first)).saturating_add(1);
            next = last.saturating_add(1);
        }
    }
    usize::try_from(windows).unwrap_or(usize::MAX).clamp(1, WINDOWS_MAX)
}

/// A partition: its token, its key and its deletion.
pub(in crate::store) type PartitionStart<'a> = (Token, &'a [u8], Option<Deletion>);

/// A file that a flush or a compaction writes.
#[derive(Debug)]
pub(in crate::store) struct Output {
    pub summary: Summary,
    pub index: Arc<Index>,
    /// All its bytes, or the last of them, one piece after the other; each lent to the device while
    /// it is written.
    pub pieces: Vec<Buffer>,
    pub file: Option<FileId>,
}

/// Numbers for the files of one shard and run, each of which is given once.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct FileNumbers(Arc<AtomicU32>);

impl FileNumbers {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Relaxed)
    }
}

/// An sstable in the making.
#[derive(Debug)]
pub(in crate::store) struct WindowWriter {
    pub id: SstableId,
    pub writer: Writer,
    /// What is ready to be written, but for what was taken from here.
    pub pieces: Vec<Buffer>,
    /// The number of the partition that was begun last.
    partition: Option<u64>,
}

impl WindowWriter {
    /// Begins a partition, by its number, unless it is the one at hand.
    pub fn begin(&mut self, number: u64, (token, key, deletion): PartitionStart<'_>) {
        if self.partition != Some(number) {
            self.partition = Some(number);
            self.writer.partition(token, key, deletion);
        }
    }

    /// Takes the bytes that are ready from the writer; returns whether there were any.
    #[inline]
    pub fn take_output(&mut self, piece_bytes: usize, spare: &mut Vec<Buffer>) -> bool {
        let output = self.writer.output();
        let is_ready = !output.is_empty();
        if is_ready {
            append(&mut self.pieces, output, piece_bytes, spare);
            output.clear();
        }
        is_ready
    }
}

/// The sstables of one table that are being written, by window.
#[derive(Debug)]
pub(in crate::store) struct WindowWriters {
    /// The run and the shard that they belong to.
    owner: (u32, u16),
    numbers: FileNumbers,
    pub open: BTreeMap<i64, WindowWriter>,
    pub piece_bytes: usize,
    block_bytes: usize,
    /// For the indexes of small blocks, of all files that it writes.
    pub index_room: IndexRoom,
    /// When they are written, in seconds since the Unix epoch.
    written_s: i64,
}

impl WindowWriters {
    /// None yet.
    pub fn new(
        owner: (u32, u16),
        numbers: FileNumbers,
        config: &StoreConfig,
        written_s: i64,
    ) -> Self {
        let (piece_bytes, block_bytes) = (config.flush_write_bytes, config.block_bytes);
        let (open, index_room) = (BTreeMap::new(), IndexRoom::default());
        Self { owner, numbers, open, piece_bytes, block_bytes, index_room, written_s }
    }

    /// The writer of the file that takes rows of this window.
    pub fn writer(&mut self, table: TableNumber, mut window: i64) -> &mut WindowWriter {
        if self.open.len() >= WINDOWS_MAX
            && !self.open.contains_key(&window)
            && let Some((first, _)) = self.open.first_key_value()
        {
            window = *first;
        }
        match self.open.entry(window) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let (epoch, shard) = self.owner;
                let id = SstableId { epoch, shard, sequence: self.numbers.next() };
                let writer = Writer::new(id, table, window)
                    .with_block_bytes(self.block_bytes)
                    .with_index_room(self.index_room.clone())
                    .written_at(self.written_s);
                place.insert(WindowWriter { id, writer, pieces: Vec::new(), partition: None })
            }
        }
    }

    /// Ends one of the files; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If what was written does not read back: a bug, but better found here than in a year.
    pub fn finish_one(&mut self, spare: &mut Vec<Buffer>) -> io::Result<Option<Output>> {
        let Some((_, mut open)) = self.open.pop_first() else { return Ok(None) };
        let (summary, tail) = open.writer.finish();
        let index = Arc::new(open_index(&summary, &tail)?);
        append(&mut open.pieces, &tail, self.piece_bytes, spare);
        Ok(Some(Output { summary, index, pieces: open.pieces, file: None }))
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
