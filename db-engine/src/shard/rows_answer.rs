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
        if let Some(session) = sessions.answer(address.place) {
            let at = session.out.len();
            if let Some(response) = reading.response.take() {
                response.put(&mut session.out);
            } else if let Some(response) = self.put_read(session, &mut reading) {
                reading.response = Some(response);
                reading.settle();
                if let Some(place) = self.reads.get(slot) {
                    *place = Some(reading);
                }
                self.round_robin.pause(address.place, slot);
                return;
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

    /// As [`Self::put_rows`], of a read that may wait.
    fn put_read(&mut self, session: &mut Session, reading: &mut Reading) -> Option<LongResponse> {
        let (count, state) = reading.rows.finish(&mut reading.cells);
        let head = RowsHead {
            stream: reading.address.stream,
            columns: &reading.statement.columns,
            skip_metadata: reading.skip_metadata,
            paging_state: state.as_deref(),
            count,
        };
        self.put_rows(session, &head, &mut reading.cells, true)
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

    /// Appends a page of rows to a session's output. If it is to be compressed in pieces, and may
    /// wait for that, it is given back instead. Many cells may be gone then.
    #[must_use]
    pub(super) fn put_rows(
        &mut self,
        session: &mut Session,
        head: &RowsHead<'_>,
        cells: &mut Vec<u8>,
        may_wait: bool,
    ) -> Option<LongResponse> {
        self.metrics.rows_read.add(u64::from(head.count));
        // The identifier of a trace is put in later, before what would be compressed.
        let is_traced = self.is_traced(self.address(session, head.stream));
        let is_compressed = session.compressed && !is_traced;
        let is_long = cells.len() > compression::AT_ONCE_BYTES_MAX;
        if is_compressed && is_long && may_wait {
            let mut plain = Vec::new();
            result::rows_of_many_cells(&mut plain, head, cells);
            return Some(LongResponse::new(plain));
        }
        let out = &mut session.out;
        let at = if cells.len() < MANY_CELL_BYTES {
            result::rows(out, head, cells)
        } else {
            result::rows_of_many_cells(out, head, cells)
        };
        if is_compressed && !is_long {
            compression::compress(out, at, &mut self.lz4);
        }
        None
    }

    /// Keeps memory for the next result. A large one gives its memory back.
    #[inline]
    pub(super) fn keep_cells(&mut self, cells: Vec<u8>) {
        if cells.capacity() <= PAGE_BYTES {
            self.cells = cells;
        }
    }
}
