//! The rows that a read has made become its answer.

use super::{
    Core,
    read::{PAGE_BYTES, ReadStep},
    reading::Reading,
    session::{Session, Sessions},
    tag::SlabKey,
};
use crate::{
    budget::Share,
    io::TimeSlice,
    protocol::{
        compression::{self, LongResponse},
        result::{self, RowsHead},
    },
};
use std::sync::Arc;

/// Copying so many bytes of an answer into new memory takes longer than moving them.
const MANY_CELL_BYTES: usize = 512 << 10;

impl Core {
    /// A read has all its rows: they are answered with, at once or when they are compressed.
    pub(super) fn read_over(
        &mut self,
        sessions: &mut dyn Sessions,
        slot: SlabKey,
        mut reading: Box<Reading>,
    ) {
        let address = reading.address;
        let response = reading.response.take().map(LongResponse::finish);
        if let Some(session) = sessions.answer(address.place) {
            let at = session.out.len();
            if let Some(mut response) = response {
                if session.out.is_empty() {
                    session.out = response;
                } else {
                    session.out.append(&mut response);
                }
            } else {
                let (count, state) = reading.rows.finish(&mut reading.cells);
                let statement = Arc::clone(&reading.statement);
                let head = RowsHead {
                    stream: address.stream,
                    columns: &statement.columns,
                    skip_metadata: reading.skip_metadata,
                    paging_state: state.as_deref(),
                    count,
                };
                reading.response = self.long_response(session, &head, &mut reading.cells);
                if reading.response.is_some() {
                    reading.settle();
                    if let Some(place) = self.reads.get(slot) {
                        *place = Some(reading);
                    }
                    self.round_robin.pause(address.place, slot);
                    return;
                }
                self.put_rows(session, &head, &mut reading.cells);
            }
            session.in_flight -= 1;
            session.reads -= 1;
            self.end_trace(address, &mut session.out, at);
        }
        self.reads.remove(slot);
        self.round_robin.ended(address.place);
        self.serving -= 1;
        self.metrics.served.add(1);
        self.metrics.read_latency.record(self.age_us(address));
    }

    /// The answer of these rows, if it is to be compressed in pieces. Its cells are gone then.
    pub(super) fn long_response(
        &self,
        session: &Session,
        head: &RowsHead<'_>,
        cells: &mut Vec<u8>,
    ) -> Option<LongResponse> {
        let is_long = session.compressed && cells.len() > compression::AT_ONCE_BYTES_MAX;
        if !is_long || self.is_traced(self.address(session, head.stream)) {
            return None;
        }
        self.metrics.rows_read.add(u64::from(head.count));
        let mut plain = Vec::new();
        result::rows_of_many_cells(&mut plain, head, cells);
        Some(LongResponse::new(plain))
    }

    /// An answer is compressed from the next turn on. Its read was made at once.
    pub(super) fn compress_later(
        &mut self,
        session: &mut Session,
        slot: SlabKey,
        response: LongResponse,
    ) {
        if let Some(Some(reading)) = self.reads.get(slot) {
            reading.response = Some(response);
        }
        self.charge(slot);
        session.reads += 1;
        self.round_robin.begun(session.place);
        self.round_robin.pause(session.place, slot);
    }

    /// Goes on compressing an answer. It is sent as it is where there is no memory for both.
    pub(super) fn compress_some(
        &self,
        reading: &mut Reading,
        time: &mut TimeSlice<'_>,
    ) -> ReadStep {
        let Some(response) = &mut reading.response else { return ReadStep::Over };
        if self.metrics.memory.is_over(Share::Answers) {
            response.give_up();
        }
        if response.go_on(time) { ReadStep::Over } else { ReadStep::Paused }
    }

    /// Appends a page of rows to a session's output. Many cells may be gone then.
    pub(super) fn put_rows(
        &mut self,
        session: &mut Session,
        head: &RowsHead<'_>,
        cells: &mut Vec<u8>,
    ) {
        self.metrics.rows_read.add(u64::from(head.count));
        let is_traced = self.is_traced(self.address(session, head.stream));
        let is_short = cells.len() <= compression::AT_ONCE_BYTES_MAX;
        let out = &mut session.out;
        let at = if cells.len() < MANY_CELL_BYTES {
            result::rows(out, head, cells)
        } else {
            result::rows_of_many_cells(out, head, cells)
        };
        // The identifier of a trace is put in later, before what would be compressed.
        if session.compressed && !is_traced && is_short {
            compression::compress(out, at, &mut self.lz4);
        }
    }

    /// Keeps memory for the next result. A large one gives its memory back.
    #[inline]
    pub(super) fn keep_cells(&mut self, cells: Vec<u8>) {
        if cells.capacity() <= PAGE_BYTES {
            self.cells = cells;
        }
    }
}
