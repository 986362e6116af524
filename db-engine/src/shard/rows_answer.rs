//! The rows that a read has made become its answer.

use super::{
    Core,
    read::PAGE_BYTES,
    reading::Reading,
    session::{Session, Sessions},
    statement::PreparedStatement,
};
use crate::protocol::{
    compression,
    result::{self, RowsHead},
};

/// Copying so many bytes of an answer into new memory takes longer than moving them.
const MANY_CELL_BYTES: usize = 512 << 10;

impl Core {
    pub(super) fn read_over(
        &mut self,
        sessions: &mut dyn Sessions,
        statement: &PreparedStatement,
        mut reading: Reading,
    ) {
        let address = reading.address;
        let (count, state) = reading.rows.finish(&mut reading.cells);
        self.serving -= 1;
        self.metrics.served.add(1);
        self.metrics.read_latency.record(self.age_us(address));
        if let Some(session) = sessions.answer(address.place) {
            session.in_flight -= 1;
            session.reads -= 1;
            let at = session.out.len();
            let head = RowsHead {
                stream: address.stream,
                columns: &statement.columns,
                skip_metadata: reading.skip_metadata,
                paging_state: state.as_deref(),
                count,
            };
            self.put_rows(session, &head, &mut reading.cells);
            self.end_trace(address, &mut session.out, at);
        }
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
        let out = &mut session.out;
        let at = if cells.len() < MANY_CELL_BYTES {
            result::rows(out, head, cells)
        } else {
            result::rows_of_many_cells(out, head, cells)
        };
        // The identifier of a trace is put in later, before what would be compressed.
        if session.compressed && !is_traced {
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
