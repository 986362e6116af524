//! Writing an sstable: sorted rows in, bytes of the file out.

use super::{
    BLOCK_BYTES, FOOTER_BYTES, SstableId, Summary,
    block::{Compressor, pack, put_partition, put_row},
    index::{put_entry, put_footer},
};
use crate::mutation::{Deletion, RowView, TableNumber, Token};
use std::ops::Range;

/// Turns rows, given in order, into the bytes of one sstable.
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
    compressor: Compressor,
    index: Vec<u8>,
    blocks: u32,
    token: Token,
    key: Vec<u8>,
    deletion: Option<Deletion>,
    /// Where the block being filled begins: the place of its first row, as far as it is needed to
    /// tell it from the last row of the block before.
    first: Option<(Token, Vec<u8>, Vec<u8>)>,
    /// Where the clustering key of the last row is in `raw`.
    last_ck: Range<usize>,
    /// The clustering key of the last row of the block before.
    before: Vec<u8>,
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
            compressor: Compressor::default(),
            index: Vec::new(),
            blocks: 0,
            token: Token(i64::MIN),
            key: Vec::new(),
            deletion: None,
            first: None,
            last_ck: 0..0,
            before: Vec::new(),
        }
    }

    /// Begins a partition, which must come after the last one by token and key.
    pub fn partition(&mut self, token: Token, key: &[u8], deletion: Option<Deletion>) {
        self.close_full_block();
        let summary = &mut self.summary;
        summary.token_first = summary.token_first.min(token);
        summary.token_last = token;
        self.token = token;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.deletion = deletion;
        if let Some(deletion) = deletion {
            self.note_timestamp(deletion.timestamp);
            self.summary.expires_s = self.summary.expires_s.max(deletion.deleted_s);
        }
        // A partition that has only its deletion must be written all the same.
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
        self.close_full_block();
        if self.raw.is_empty() {
            // The block before ends in the same partition. Of a long key, the index holds little.
            let same = self.before.iter().zip(ck).take_while(|(a, b)| a == b).count();
            let start = ck.get(..=same).unwrap_or(ck).to_vec();
            self.first = Some((self.token, self.key.clone(), start));
            put_partition(&mut self.raw, self.token, &self.key, self.deletion);
        }
        put_row(&mut self.raw, ck, row);
        let end = self.raw.len() - row.len() - size_of::<u32>();
        self.last_ck = end - ck.len()..end;
        let view = RowView::parse(row).expect("rows are checked where they enter");
        for timestamp in view.timestamps() {
            self.note_timestamp(timestamp);
        }
        self.summary.rows += 1;
        self.summary.expires_s = self.summary.expires_s.max(view.expires_s().unwrap_or(i64::MAX));
    }

    fn note_timestamp(&mut self, timestamp: i64) {
        self.summary.timestamp_min = self.summary.timestamp_min.min(timestamp);
        self.summary.timestamp_max = self.summary.timestamp_max.max(timestamp);
    }

    fn close_full_block(&mut self) {
        if self.raw.len() >= BLOCK_BYTES {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        let Some((token, key, ck)) = self.first.take() else { return };
        let Self { summary, raw, compressor, output, .. } = self;
        let bytes = pack(summary.id, self.offset, raw, compressor, output);
        put_entry(&mut self.index, (token, &key, &ck), self.offset, bytes);
        self.offset += u64::from(bytes);
        self.blocks += 1;
        self.before.clear();
        self.before.extend_from_slice(raw.get(self.last_ck.clone()).unwrap_or_default());
        self.last_ck = 0..0;
        self.raw.clear();
    }

    /// The bytes to be written next, to be taken from here.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Ends the file. Gives the bytes that come last, index and footer among them.
    #[must_use]
    pub fn finish(mut self) -> (Summary, Vec<u8>) {
        self.close_block();
        let mut output = self.output;
        let index_bytes = self.index.len() as u64;
        self.summary.bytes = self.offset + index_bytes + FOOTER_BYTES as u64;
        output.append(&mut self.index);
        put_footer(&mut output, &self.summary, self.offset, self.blocks);
        (self.summary, output)
    }
}
