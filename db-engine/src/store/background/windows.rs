//! Sstables in the making, one for each time window.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::{
    io::{Buffer, FileId, TimeSlice},
    mutation::{Deletion, TableNumber, Token},
    sstable::{
        FOOTER_BYTES, Index, IndexReader, IndexRoom, SstableId, Summary, Writer, read_footer,
    },
    store::StoreConfig,
};

/// The most files that one table is split into. What is older than that many windows, which real
/// devices do not send at once, shares a file.
const WINDOWS_MAX: usize = 100;

/// Bytes of the end of a file that are copied at once.
const COPIED_BYTES: usize = 16 << 10;

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

    /// Goes on with closing a long block, if there is one, until the time is over; returns whether
    /// none is left.
    #[inline]
    pub fn close_long_block(
        &mut self,
        piece_bytes: usize,
        spare: &mut Vec<Buffer>,
        time: &mut TimeSlice<'_>,
    ) -> bool {
        if !self.writer.close_long_block(time) {
            return false;
        }
        if self.writer.output().is_empty() {
            return true;
        }
        let is_taken = !time.is_over() && self.take_output(piece_bytes, spare);
        time.look();
        is_taken
    }
}

/// The sstables of one table that are being written, by window.
#[derive(Debug)]
pub(in crate::store) struct WindowWriters {
    /// The run and the shard that they belong to.
    owner: (u32, u16),
    numbers: FileNumbers,
    pub open: BTreeMap<i64, WindowWriter>,
    /// The one that is being ended.
    ending: Option<Box<Ending>>,
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
        let (open, ending, index_room) = (BTreeMap::new(), None, IndexRoom::default());
        Self { owner, numbers, open, ending, piece_bytes, block_bytes, index_room, written_s }
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

    /// Goes on with closing long blocks, until the time is over; returns whether none is left.
    pub fn close_long_blocks(&mut self, spare: &mut Vec<Buffer>, time: &mut TimeSlice<'_>) -> bool {
        let piece_bytes = self.piece_bytes;
        self.open.values_mut().all(|open| open.close_long_block(piece_bytes, spare, time))
    }

    /// Ends one of the files, as much of that as there is time for.
    ///
    /// # Errors
    ///
    /// If what was written does not read back: a bug, but better found here than in a year.
    pub fn finish_one(
        &mut self,
        spare: &mut Vec<Buffer>,
        time: &mut TimeSlice<'_>,
    ) -> io::Result<Finished> {
        let mut ending = match self.ending.take() {
            Some(ending) => ending,
            None => match self.open.pop_first() {
                Some((_, open)) => Box::new(Ending::of(open)?),
                None => return Ok(Finished::Nothing),
            },
        };
        let output = ending.step(self.piece_bytes, spare, time)?;
        Ok(output.map_or_else(
            || {
                self.ending = Some(ending);
                Finished::NotYet
            },
            Finished::File,
        ))
    }

    /// Bytes of memory that what is not written yet takes, about.
    pub fn bytes(&self) -> usize {
        let open = self.open.values().flat_map(|open| &open.pieces);
        let ending = self.ending.iter();
        let rest: usize = ending.clone().map(|ending| ending.tail.len() - ending.copied).sum();
        let pieces = open.chain(ending.flat_map(|ending| &ending.pieces));
        pieces.map(Buffer::memory_bytes).sum::<usize>() + rest
    }
}

/// What came of ending a file.
#[derive(Debug)]
pub(in crate::store) enum Finished {
    /// There is none.
    Nothing,
    /// The time is over.
    NotYet,
    /// It is whole, but for what was taken of it before.
    File(Output),
}

/// A file whose blocks are all there. Its index is read back before the file counts.
#[derive(Debug)]
struct Ending {
    summary: Summary,
    pieces: Vec<Buffer>,
    /// The end of the file, and how much of it is in pieces.
    tail: Vec<u8>,
    copied: usize,
    /// Where the index is in it.
    index: Range<usize>,
    reader: IndexReader,
}

impl Ending {
    fn of(open: WindowWriter) -> io::Result<Self> {
        let (summary, tail) = open.writer.finish();
        let at = tail.len().saturating_sub(FOOTER_BYTES);
        let footer = read_footer(summary.id, summary.bytes, tail.get(at..).unwrap_or_default())?;
        let index = at.saturating_sub(footer.index.bytes as usize)..at;
        let (pieces, reader) = (open.pieces, IndexReader::new(footer));
        Ok(Self { summary, pieces, tail, copied: 0, index, reader })
    }

    /// Goes on; gives the file once that is all.
    fn step(
        &mut self,
        piece_bytes: usize,
        spare: &mut Vec<Buffer>,
        time: &mut TimeSlice<'_>,
    ) -> io::Result<Option<Output>> {
        while let Some(rest) = self.tail.get(self.copied..).filter(|rest| !rest.is_empty()) {
            if time.is_over() {
                return Ok(None);
            }
            let some = rest.get(..COPIED_BYTES).unwrap_or(rest);
            append(&mut self.pieces, some, piece_bytes, spare);
            self.copied += some.len();
            time.count(some.len());
        }
        let bytes = self.tail.get(self.index.clone()).unwrap_or_default();
        let Some(index) = self.reader.step(bytes, time)? else { return Ok(None) };
        let (summary, index) = (self.summary, Arc::new(index));
        Ok(Some(Output { summary, index, pieces: std::mem::take(&mut self.pieces), file: None }))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{io::ManualClock, mutation::RowTimes};

    const ROW: [u8; 11] = [1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Two files of so many partitions, ended in slices of so many microseconds, each look at the
    /// clock taking one; and how many slices that took.
    fn ended(us: u64) -> (Vec<Output>, usize) {
        let config = StoreConfig::default();
        let mut writers = WindowWriters::new((1, 0), FileNumbers::default(), &config, 100);
        let times = RowTimes { count: 1, timestamps: (9, 9), gone_s: (i64::MAX, i64::MAX) };
        for window in [3, 4] {
            let open = writers.writer(TableNumber(7), window);
            for number in 0..20_000 {
                open.begin(number, (Token(number.cast_signed()), &number.to_be_bytes(), None));
                open.writer.row_of_times(b"ck", &ROW, &times);
                open.take_output(1 << 20, &mut Vec::new());
            }
        }
        let clock = ManualClock::ticking(0, 1);
        let (mut outputs, mut slices) = (Vec::new(), 0);
        loop {
            slices += 1;
            let mut time = TimeSlice::new(&clock, us);
            match writers.finish_one(&mut Vec::new(), &mut time).unwrap() {
                Finished::File(output) => outputs.push(output),
                Finished::NotYet => assert!(writers.bytes() > 0, "what it holds counts"),
                Finished::Nothing => return (outputs, slices),
            }
        }
    }

    #[test]
    fn a_file_that_is_ended_bit_by_bit_is_the_same() {
        let ((at_once, slices), (bit_by_bit, many)) = (ended(1_000_000_000), ended(0));
        assert_eq!(slices, 3, "each file, and none");
        assert!(many > 50, "{many}");
        assert_eq!(at_once.len(), 2);
        for (a, b) in at_once.iter().zip(&bit_by_bit) {
            assert_eq!(a.summary, b.summary);
            assert_eq!(format!("{:?}", a.index), format!("{:?}", b.index));
            let bytes = |output: &Output| {
                output.pieces.iter().map(|piece| piece.as_slice().to_vec()).collect::<Vec<_>>()
            };
            assert_eq!(bytes(a), bytes(b));
        }
    }
}
