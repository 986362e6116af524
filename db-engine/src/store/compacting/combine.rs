//! Combining: the entries of several sstables become those of one, in order.
//!
//! Deleted ranges of one sstable are disjoint, those of several are not. So at each place the
//! greatest deletion counts, and a range ends where another begins to. A range stands before the
//! rows that are in it, and where it ends is known only behind them: they are held back until then,
//! or until they are many; then the range is written in two parts.

use std::{borrow::Cow, io, sync::Arc};

use super::{inputs::InputFile, order::InputOrder};
use crate::{
    io::{Buffer, Operation, TimeSlice},
    mutation::{
        Deletion, Forgettable, MergedRow, RangeDeletion, RowView, TableNumber, Token, forget,
        newest_forgotten, shadow, token::shard_of,
    },
    schema::DroppedCells,
    store::background::{Finished, Output, WindowWriters},
};

/// Bytes of rows that are held back at most, but for the last of them.
const HELD_BYTES_MAX: usize = 64 << 10;

/// How far a step came.
pub(super) enum Combined {
    /// These inputs must be read first.
    Missing(Vec<(usize, Operation)>),
    /// Some of what is ready is to be written first.
    Ready,
    TimeIsOver,
    /// Everything is combined.
    Complete,
}

/// Where rows go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    /// All into the sstable of this window.
    One(i64),
    /// By the newest timestamp of each, into that of its window of so many microseconds.
    Windows(i64),
}

impl Destination {
    /// The window of the sstable for what has this timestamp.
    fn window_of(self, timestamp: i64) -> i64 {
        match self {
            Self::One(window) => window,
            Self::Windows(window_us) => timestamp.div_euclid(window_us),
        }
    }
}

/// The partition at hand, and what is to be written of it.
struct OpenPartition {
    number: u64,
    token: Token,
    key: Vec<u8>,
    deletion: Option<Deletion>,
    /// Deleted ranges that go on behind the entry at hand: where they end.
    active: Vec<(Vec<u8>, Deletion)>,
    /// The range that is written next, and where it begins.
    open: Option<(Vec<u8>, Deletion)>,
    /// Rows that come behind its beginning: clustering keys and rows.
    held: Vec<(Vec<u8>, Vec<u8>)>,
    held_bytes: usize,
}

/// Combines sstables, a piece at a time.
pub(super) struct Combiner {
    pub inputs: Vec<InputFile>,
    table: TableNumber,
    target: Destination,
    /// How many shards there are, and which has the partition at hand.
    shards: u16,
    shard: u16,
    /// Sstables of shards that have all of theirs.
    pub ended: Vec<Output>,
    forgettable: Forgettable,
    dropped: Option<Arc<DroppedCells>>,
    /// The timestamp of the newest thing that was left out because it may be forgotten.
    pub forgotten_us: Option<i64>,
    pub writers: WindowWriters,
    pub spare: Vec<Buffer>,
    partition: Option<OpenPartition>,
    partitions: u64,
    pub order: InputOrder,
    /// The row of which the versions are merged.
    merged: MergedRow,
    spare_key: Vec<u8>,
}

impl Combiner {
    pub fn new(
        (table, target, shards): (TableNumber, Destination, u16),
        inputs: Vec<InputFile>,
        writers: WindowWriters,
        forgettable: Forgettable,
        dropped: Option<Arc<DroppedCells>>,
    ) -> Self {
        Self {
            dropped,
            inputs,
            table,
            target,
            shards,
            shard: 0,
            ended: Vec::new(),
            forgettable,
            forgotten_us: None,
            writers,
            spare: Vec::new(),
            partition: None,
            partitions: 0,
            order: InputOrder::default(),
            merged: MergedRow::default(),
            spare_key: Vec::new(),
        }
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let inputs: usize = self.inputs.iter().map(InputFile::bytes).sum();
        let spare: usize = self.spare.iter().map(Buffer::memory_bytes).sum();
        let held = self.partition.as_ref().map_or(0, |partition| partition.held_bytes);
        inputs + self.writers.bytes() + spare + held + self.merged.row.capacity()
    }

    /// Combines some more of what was decoded.
    ///
    /// # Errors
    ///
    /// If an input is not what was written.
    pub fn step(&mut self, time: &mut TimeSlice<'_>) -> io::Result<Combined> {
        loop {
            let missing: Vec<_> = self
                .inputs
                .iter_mut()
                .enumerate()
                .filter_map(|(number, input)| Some((number, input.missing()?)))
                .collect();
            if !missing.is_empty() {
                return Ok(Combined::Missing(missing));
            }
            self.order.sort(&self.inputs);
            // Until one of them is at the end of its block.
            loop {
                if !self.writers.close_long_blocks(&mut self.spare, time) {
                    return Ok(Combined::TimeIsOver);
                }
                let piece_bytes = self.writers.piece_bytes;
                let is_full = |piece: &Buffer| piece.len() >= piece_bytes;
                let mut open = self.writers.open.values();
                if open.any(|open| open.pieces.first().is_some_and(is_full))
                    || !self.ended.is_empty()
                {
                    return Ok(Combined::Ready);
                }
                if time.is_over() {
                    return Ok(Combined::TimeIsOver);
                }
                if !self.order.find_next(&self.inputs) {
                    self.end_partition();
                    return Ok(Combined::Complete);
                }
                self.enter_partition()?;
                let mut entries = self.copy_run(time);
                if entries == 0 {
                    if !self.combine_next(time) {
                        return Ok(Combined::TimeIsOver);
                    }
                    entries = 1;
                }
                if self.order.advance(&mut self.inputs, entries)? {
                    break;
                }
            }
        }
    }

    /// Decodes a block that was read; false if there is none.
    ///
    /// # Errors
    ///
    /// If the input is not what was written.
    pub fn decode_one(&mut self, time: &mut TimeSlice<'_>) -> io::Result<bool> {
        let mut inputs = self.inputs.iter_mut().enumerate();
        let Some((number, input)) = inputs.find(|(_, input)| input.is_undecoded()) else {
            return Ok(false);
        };
        self.order.unreadable = Some(number);
        input.take_block()?;
        self.order.unreadable = None;
        time.count(input.bytes());
        Ok(true)
    }

    /// Sees that the partition of the next entry is at hand.
    fn enter_partition(&mut self) -> io::Result<()> {
        let Self { inputs, order, partition, spare_key, .. } = self;
        let mut heads = order.all().filter_map(|number| inputs[number].peek());
        let Some(first) = heads.next() else { return Ok(()) };
        let place = (first.token, first.key);
        if partition.as_ref().is_some_and(|own| (own.token, own.key.as_slice()) == place) {
            return Ok(());
        }
        // All inputs that have something of the partition stand at its beginning.
        let others = heads.take_while(|head| (head.token, head.key) == place);
        let deletion = others.fold(first.deletion, |all, head| all.max(head.deletion));
        let (token, mut key) = (first.token, std::mem::take(spare_key));
        key.clear();
        key.extend_from_slice(first.key);
        self.begin_partition(token, key, deletion)
    }

    /// Whether the rows of the partition at hand stay as they are, unless they are too old.
    fn has_no_deletion(&self) -> bool {
        let is_whole = |own: &OpenPartition| {
            own.deletion.is_none() && own.active.is_empty() && own.open.is_none()
        };
        self.dropped.is_none() && self.partition.as_ref().is_some_and(is_whole)
    }

    /// Copies rows as they are if only one input stands on them: up to the next entry of another,
    /// the end of the partition, or an entry that is to be looked at. Gives how many.
    fn copy_run(&mut self, time: &mut TimeSlice<'_>) -> usize {
        let Some((input, end)) = self.order.run() else { return 0 };
        if !self.has_no_deletion() {
            return 0;
        }
        let Self { inputs, writers, spare, partition, .. } = self;
        let piece_bytes = writers.piece_bytes;
        let (Some(own), Some((block, start))) = (partition, inputs[input].at()) else { return 0 };
        for number in start..end {
            let copied = number - start;
            let Some((ck, row)) = block.row(number).and_then(|entry| entry.row) else {
                return copied;
            };
            let times = RowView::parse(row).map(|row| row.times()).unwrap_or_default();
            if times.count == 0 || times.may_be_forgotten(self.forgettable) {
                return copied;
            }
            if copied > 0 && (time.is_over() || !block.are_of_one_partition(start, number)) {
                return copied;
            }
            let open = writers.writer(self.table, self.target.window_of(times.timestamps.1));
            open.begin(own.number, (own.token, &own.key, None));
            open.writer.row_of_times(ck, row, &times);
            time.count(ck.len() + row.len());
            if open.take_output(piece_bytes, spare) || open.writer.has_long_block() {
                return copied + 1;
            }
        }
        end - start
    }

    /// Combines the entries that were found, as far as there is time for: false if that is not all.
    fn combine_next(&mut self, time: &mut TimeSlice<'_>) -> bool {
        let first = self.order.at_next().next().and_then(|first| self.inputs[first].peek());
        let Some(first) = first else { return true };
        if first.rank() == 0 {
            time.count(first.key.len());
            return true;
        }
        let (ck, is_row) = (first.ck().to_vec(), first.row.is_some());
        self.go_to(&ck);
        let Self { inputs, order, partition, merged, .. } = self;
        let entries = order.at_next().filter_map(|number| inputs[number].peek());
        if is_row {
            let versions = entries.filter_map(|entry| Some(entry.row?.1));
            if !merged.add_all(versions, time) {
                return false;
            }
            merged.begin();
            time.count(ck.len() + merged.row.len());
            self.take_row(ck);
            return true;
        }
        for RangeDeletion { to, deletion, .. } in entries.filter_map(|entry| entry.range) {
            let Some(own) = partition else { continue };
            // A block repeats the rest of a range that goes on in it.
            if !own.active.iter().any(|(end, other)| end == to && *other == deletion) {
                own.active.push((to.to_vec(), deletion));
            }
        }
        time.count(ck.len());
        self.open_range(&ck);
        true
    }

    fn begin_partition(
        &mut self,
        token: Token,
        key: Vec<u8>,
        deletion: Option<Deletion>,
    ) -> io::Result<()> {
        self.end_partition();
        let shard = shard_of(token, self.shards);
        if std::mem::replace(&mut self.shard, shard) != shard {
            while let Finished::File(output) = self.finish_one(&mut TimeSlice::endless())? {
                self.ended.push(output);
            }
        }
        self.partitions += 1;
        self.partition = Some(OpenPartition {
            number: self.partitions,
            token,
            key,
            deletion,
            active: Vec::new(),
            open: None,
            held: Vec::new(),
            held_bytes: 0,
        });
        let Some(deletion) = deletion else { return Ok(()) };
        if self.forgettable.covers(deletion) {
            self.forgotten_us = self.forgotten_us.max(Some(deletion.timestamp));
        } else {
            // It stays, whatever else of the partition does.
            self.write(deletion.timestamp, |_| {});
        }
        Ok(())
    }

    fn end_partition(&mut self) {
        while let Some(end) = self.next_end() {
            self.end_ranges(&end);
        }
        self.spare_key = self.partition.take().map_or(Vec::new(), |own| own.key);
    }

    /// Where the next of the ranges ends that go on.
    fn next_end(&self) -> Option<Vec<u8>> {
        self.partition.as_ref()?.active.iter().map(|(end, _)| end).min().cloned()
    }

    /// Ends the ranges that do not reach behind this place.
    fn go_to(&mut self, ck: &[u8]) {
        while let Some(end) = self.next_end().filter(|end| **end <= *ck) {
            self.end_ranges(&end);
        }
    }

    fn end_ranges(&mut self, end: &[u8]) {
        if let Some(own) = &mut self.partition {
            own.active.retain(|(other, _)| **other != *end);
        }
        self.open_range(end);
    }

    /// From this place on, the greatest deletion of those that are active counts.
    fn open_range(&mut self, at: &[u8]) {
        let Some(own) = &mut self.partition else { return };
        let greatest = own.active.iter().map(|(_, deletion)| *deletion).max();
        if own.open.as_ref().map(|(_, deletion)| *deletion) == greatest {
            return;
        }
        self.close_range(at);
        if let Some(own) = &mut self.partition {
            own.open = greatest.map(|deletion| (at.to_vec(), deletion));
        }
    }

    /// Writes the range at hand up to this place, and the rows that were held back.
    fn close_range(&mut self, to: &[u8]) {
        let Some(own) = &mut self.partition else { return };
        let (open, held) = (own.open.take(), std::mem::take(&mut own.held));
        own.held_bytes = 0;
        let of_partition = own.deletion.map(|deletion| deletion.timestamp);
        if let Some((from, deletion)) = open.filter(|(from, _)| **from < *to) {
            let is_hidden = of_partition.is_some_and(|timestamp| deletion.timestamp <= timestamp);
            if is_hidden {
                // The deletion of the partition does all that it would.
            } else if self.forgettable.covers(deletion) {
                self.forgotten_us = self.forgotten_us.max(Some(deletion.timestamp));
            } else {
                let range = RangeDeletion { from: &from, to, deletion };
                self.write(deletion.timestamp, |writer| writer.range(range));
            }
        }
        for (ck, row) in held {
            self.write_row(&ck, &row);
        }
    }

    /// Takes the row that was merged, which is at this place.
    fn take_row(&mut self, ck: Vec<u8>) {
        let Some(own) = &self.partition else { return };
        let ranges = own.active.iter().map(|(_, deletion)| *deletion);
        if let Some(deletion) = ranges.chain(own.deletion).max() {
            let MergedRow { row, other, .. } = &mut self.merged;
            other.clear();
            shadow(row, deletion.timestamp, other);
            std::mem::swap(row, other);
        }
        if let Some(dropped) = &self.dropped {
            match dropped.cut(Cow::Borrowed(&self.merged.row)) {
                None => return,
                Some(Cow::Borrowed(_)) => {}
                Some(Cow::Owned(rest)) => self.merged.row = rest,
            }
        }
        if let Some(newest) = newest_forgotten(&self.merged.row, self.forgettable) {
            self.forgotten_us = self.forgotten_us.max(Some(newest));
            let MergedRow { row, other, .. } = &mut self.merged;
            other.clear();
            forget(row, self.forgettable, other);
            std::mem::swap(row, other);
        }
        if RowView::parse(&self.merged.row).is_ok_and(|row| row.is_empty()) {
            return;
        }
        let row = std::mem::take(&mut self.merged.row);
        let Some(own) = &mut self.partition else { return };
        if let Some((_, deletion)) = &own.open {
            let deletion = *deletion;
            if own.held_bytes >= HELD_BYTES_MAX {
                self.close_range(&ck);
                let Some(own) = &mut self.partition else { return };
                own.open = Some((ck.clone(), deletion));
            }
            let Some(own) = &mut self.partition else { return };
            own.held_bytes += ck.len() + row.len();
            own.held.push((ck, row));
        } else {
            self.write_row(&ck, &row);
            self.merged.row = row;
        }
    }

    fn write_row(&mut self, ck: &[u8], row: &[u8]) {
        let span = RowView::parse(row).ok().and_then(|row| row.timestamp_span());
        self.write(span.map_or(0, |(_, newest)| newest), |writer| writer.row(ck, row));
    }

    /// Writes something of the partition at hand into the sstable for this timestamp.
    fn write(&mut self, timestamp: i64, put: impl FnOnce(&mut crate::sstable::Writer)) {
        let Some(own) = &self.partition else { return };
        let window = self.target.window_of(timestamp);
        let deletion = own.deletion.filter(|deletion| !self.forgettable.covers(*deletion));
        let piece_bytes = self.writers.piece_bytes;
        let open = self.writers.writer(self.table, window);
        open.begin(own.number, (own.token, &own.key, deletion));
        put(&mut open.writer);
        open.take_output(piece_bytes, &mut self.spare);
    }

    /// Ends one of the sstables, as much of that as there is time for.
    pub fn finish_one(&mut self, time: &mut TimeSlice<'_>) -> io::Result<Finished> {
        self.writers.finish_one(&mut self.spare, time)
    }
}
