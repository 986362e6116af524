//! Writing an sstable: sorted rows in, bytes of the file out.

use super::{
    BLOCK_BYTES, FOOTER_BYTES, SstableId, Summary,
    block::{put_partition, put_range, put_row},
    clustering_span::ClusteringSpan,
    index::{entry_bytes, put_entry, put_footer},
    index_room::IndexRoom,
    packing::{Compressor, pack},
    token_filter::TokenFilterWriter,
    tombstone_times::TombstoneTimesWriter,
};
use crate::{
    io::TimeSlice,
    mutation::{Deletion, RangeDeletion, RowTimes, RowView, TableNumber, Token},
};
use std::ops::Range;

/// Where rows are large, a block is closed after such a part of the bytes of others.
const SMALL_BLOCK_PART: usize = 4;

/// Rows are large in a block in which they have such a part of its bytes on average.
const LARGE_ROW_PART: usize = 64;

/// A block of more than so many times the bytes of others takes long to close.
const LONG_BLOCK_TIMES: usize = 4;

/// Turns rows and deletions, given in order, into the bytes of one sstable.
///
/// Bytes are to be taken from [`Self::output`] now and then and written one after the other. The
/// file is complete with those that [`Self::finish`] gives.
#[derive(Debug)]
pub struct Writer {
    summary: Summary,
    output: Vec<u8>,
    /// Bytes of all blocks so far: where the next one begins.
    offset: u64,
    raw: Vec<u8>,
    /// After how many of those a block is closed.
    block_bytes: usize,
    /// As long as there is any, a block is closed sooner where rows are large.
    index_room: IndexRoom,
    /// Rows and ranges in `raw`.
    entries: usize,
    compressor: Compressor,
    index: Vec<u8>,
    blocks: u32,
    token: Token,
    key: Vec<u8>,
    deletion: Option<Deletion>,
    /// Where the last deleted range of the partition ends, and what it deletes.
    range: Option<(Vec<u8>, Deletion)>,
    /// Where the block being filled begins: the place of its first entry, as far as it is needed
    /// to tell it from the last entry of the block before.
    first: Option<(Token, Vec<u8>, Vec<u8>)>,
    /// Where the clustering key of the last entry is in `raw`.
    last_ck: Range<usize>,
    /// The clustering key of the last entry of the block before.
    before: Vec<u8>,
    clustering: ClusteringSpan,
    /// Whether an entry with a clustering key has come in the partition.
    has_entry: bool,
    filter: TokenFilterWriter,
    tombstones: TombstoneTimesWriter,
}

impl Writer {
    /// Begins an sstable of rows of one window of a table.
    #[must_use]
    pub fn new(id: SstableId, table: TableNumber, window: i64) -> Self {
        let summary = Summary {
            id,
            table,
            window,
            bytes: 0,
            rows: 0,
            token_first: Token(i64::MAX),
            token_last: Token(i64::MIN),
            timestamp_min: i64::MAX,
            timestamp_max: i64::MIN,
            expires_s: i64::MIN,
        };
        Self {
            summary,
            output: Vec::new(),
            offset: 0,
            raw: Vec::new(),
            block_bytes: BLOCK_BYTES,
            index_room: IndexRoom::default(),
            entries: 0,
            compressor: Compressor::new(BLOCK_BYTES * LONG_BLOCK_TIMES),
            index: Vec::new(),
            blocks: 0,
            token: Token(i64::MIN),
            key: Vec::new(),
            deletion: None,
            range: None,
            first: None,
            last_ck: 0..0,
            before: Vec::new(),
            clustering: ClusteringSpan::default(),
            has_entry: false,
            filter: TokenFilterWriter::default(),
            tombstones: TombstoneTimesWriter::new(0),
        }
    }

    /// Closes blocks after so many bytes, before compression.
    #[must_use]
    pub fn with_block_bytes(self, block_bytes: usize) -> Self {
        let compressor = Compressor::new(block_bytes.saturating_mul(LONG_BLOCK_TIMES));
        Self { block_bytes, compressor, ..self }
    }

    /// Closes blocks sooner where rows are large, as long as there is room for their index: who
    /// reads a row decodes fewer of the others.
    #[must_use]
    pub fn with_index_room(self, index_room: IndexRoom) -> Self {
        Self { index_room, ..self }
    }

    /// Says when it is written, in seconds since the Unix epoch.
    #[must_use]
    pub fn written_at(self, second: i64) -> Self {
        Self { tombstones: TombstoneTimesWriter::new(second), ..self }
    }

    /// Begins a partition, which must come after the last one by token and key.
    pub fn partition(&mut self, token: Token, key: &[u8], deletion: Option<Deletion>) {
        self.note_last_entry();
        self.close_full_block();
        self.has_entry = false;
        self.filter.add(token);
        let summary = &mut self.summary;
        summary.token_first = summary.token_first.min(token);
        summary.token_last = token;
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.deletion = deletion;
        self.range = None;
        if let Some(deletion) = deletion {
            self.clustering.note_deleted_partition();
            self.note_times(deletion.timestamp, deletion.deleted_s);
        }
        // A partition that has only deletions must be written all the same.
        if self.raw.is_empty() {
            self.first = Some((token, key.to_vec(), Vec::new()));
        }
        put_partition(&mut self.raw, token, key, deletion);
    }

    /// Appends a row of the partition begun last; it must come after the last one by its
    /// clustering key.
    ///
    /// # Panics
    ///
    /// If no partition was begun, or the row is malformed: it comes from a memtable.
    pub fn row(&mut self, ck: &[u8], row: &[u8]) {
        let view = RowView::parse(row).expect("rows are checked where they enter");
        self.row_of_times(ck, row, &view.times());
    }

    /// The same, of a row of which it is known what times are in it.
    ///
    /// # Panics
    ///
    /// As [`Self::row`].
    pub fn row_of_times(&mut self, ck: &[u8], row: &[u8], times: &RowTimes) {
        self.begin_entry(ck);
        put_row(&mut self.raw, ck, row);
        let end = self.raw.len() - row.len() - size_of::<u32>();
        self.last_ck = end - ck.len()..end;
        self.summary.rows += 1;
        self.note_timestamps(times.timestamps, times.gone_s.1);
        if times.gone_s.0 == times.gone_s.1 {
            self.tombstones.note(times.gone_s.1, times.count);
        } else {
            let view = RowView::parse(row).expect("rows are checked where they enter");
            view.each_time(|_, gone_s| self.tombstones.note(gone_s, 1));
        }
    }

    /// Appends a deletion of a range of rows of the partition begun last. It must come before the
    /// rows that are in the range and after all others that are before them, and ranges must not
    /// overlap.
    pub fn range(&mut self, range: RangeDeletion<'_>) {
        self.begin_entry(range.from);
        let start = self.raw.len();
        put_range(&mut self.raw, range);
        let from = start + size_of::<u8>() + size_of::<u32>();
        self.last_ck = from..from + range.from.len();
        self.range = Some((range.to.to_vec(), range.deletion));
        self.clustering.note_last(range.to);
        self.note_times(range.deletion.timestamp, range.deletion.deleted_s);
    }

    /// Sees that there is a block for an entry with this clustering key.
    fn begin_entry(&mut self, ck: &[u8]) {
        self.close_full_block();
        self.entries += 1;
        if !self.has_entry {
            self.clustering.note_first(ck);
            self.has_entry = !ck.is_empty();
        }
        if !self.raw.is_empty() {
            return;
        }
        // The block before ends in the same partition. Of a long key, the index holds little.
        let same = self.before.iter().zip(ck).take_while(|(a, b)| a == b).count();
        let start = ck.get(..=same).unwrap_or(ck).to_vec();
        put_partition(&mut self.raw, self.token, &self.key, self.deletion);
        // What is left of the range at hand is repeated, so that the block can be read alone.
        if let Some((to, deletion)) = self.range.as_ref().filter(|(to, _)| *to > start) {
            put_range(&mut self.raw, RangeDeletion { from: &start, to, deletion: *deletion });
        }
        self.first = Some((self.token, self.key.clone(), start));
    }

    /// Takes note of where the partition at hand ends: its last entry is not in a block before.
    fn note_last_entry(&mut self) {
        let last_ck = self.raw.get(self.last_ck.clone()).unwrap_or_default();
        self.clustering.note_last(if self.raw.is_empty() { &self.before } else { last_ck });
    }

    /// Something was written at this time, of which readers see nothing from this second on.
    #[inline]
    fn note_times(&mut self, timestamp: i64, gone_s: i64) {
        self.note_timestamps((timestamp, timestamp), gone_s);
        self.tombstones.note(gone_s, 1);
    }

    #[inline]
    fn note_timestamps(&mut self, (oldest, newest): (i64, i64), gone_s: i64) {
        let summary = &mut self.summary;
        summary.timestamp_min = summary.timestamp_min.min(oldest);
        summary.timestamp_max = summary.timestamp_max.max(newest);
        summary.expires_s = summary.expires_s.max(gone_s);
    }

    /// Whether the block at hand takes long to close.
    #[inline]
    #[must_use]
    pub fn has_long_block(&self) -> bool {
        self.compressor.is_long(self.raw.len())
    }

    /// Goes on with closing a long block, if there is one, until the time is over. Gives whether
    /// none is left. Without this the next entry closes it at once.
    #[inline]
    pub fn close_long_block(&mut self, time: &mut TimeSlice<'_>) -> bool {
        while self.has_long_block() {
            if time.is_over() {
                return false;
            }
            if self.compressor.is_done() {
                self.close_block();
            } else {
                self.compressor.go_on(&self.raw);
            }
            time.look();
        }
        true
    }

    fn close_full_block(&mut self) {
        if self.is_block_full() {
            self.close_block();
        }
    }

    fn is_block_full(&self) -> bool {
        let bytes = self.raw.len();
        let is_large = bytes >= self.entries * (self.block_bytes / LARGE_ROW_PART);
        let is_small = is_large && self.entries > 0 && !self.index_room.is_used_up();
        bytes >= self.block_bytes / if is_small { SMALL_BLOCK_PART } else { 1 }
    }

    fn close_block(&mut self) {
        let Some((token, key, ck)) = self.first.take() else { return };
        let Self { summary, raw, compressor, output, .. } = self;
        let bytes = pack(summary.id, self.offset, raw, compressor, output);
        put_entry(&mut self.index, (token, &key, &ck), self.offset, bytes);
        self.index_room.take(entry_bytes(&key, &ck));
        self.offset += u64::from(bytes);
        self.blocks += 1;
        self.before.clear();
        self.before.extend_from_slice(raw.get(self.last_ck.clone()).unwrap_or_default());
        self.last_ck = 0..0;
        self.entries = 0;
        self.raw.clear();
    }

    /// The bytes to be written next, to be taken from here.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Ends the file. Gives the bytes that come last, index and footer among them.
    #[must_use]
    pub fn finish(mut self) -> (Summary, Vec<u8>) {
        self.note_last_entry();
        self.close_block();
        self.clustering.encode(&mut self.index);
        self.tombstones.finish(&mut self.index);
        self.filter.finish(&mut self.index);
        let mut output = self.output;
        let index_bytes = self.index.len() as u64;
        self.summary.bytes = self.offset + index_bytes + FOOTER_BYTES as u64;
        output.append(&mut self.index);
        put_footer(&mut output, &self.summary, self.offset, self.blocks);
        (self.summary, output)
    }
}
