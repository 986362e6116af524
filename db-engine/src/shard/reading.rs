//! A read that is under way: what makes its rows, and what it holds meanwhile.

use super::{admission::read_bytes, session::Address, statement::PreparedStatement};
use crate::{
    budget::Charge,
    cql::{Listing, Read},
    protocol::compression::LongResponse,
};
use std::sync::Arc;

/// What makes the rows of a result.
pub(super) enum RowMaker {
    /// Of tables of clients.
    Store(Box<Read>),
    /// Of the schema.
    Schema(Listing),
}

impl RowMaker {
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            RowMaker::Store(read) => read.own_bytes(),
            RowMaker::Schema(_) => 0,
        }
    }

    /// How many rows there are, and the paging state if there are more.
    pub(super) fn finish(&mut self, cells: &mut Vec<u8>) -> (u32, Option<Vec<u8>>) {
        match self {
            RowMaker::Store(read) => read.finish(cells),
            RowMaker::Schema(listing) => listing.finish(),
        }
    }
}

/// A read under way.
pub(super) struct Reading {
    pub(super) address: Address,
    pub(super) statement: Arc<PreparedStatement>,
    pub(super) rows: RowMaker,
    pub(super) skip_metadata: bool,
    /// The rows so far, encoded.
    pub(super) cells: Vec<u8>,
    /// The answer that they have become, while it is compressed.
    pub(super) response: Option<LongResponse>,
    /// What it holds of answers once it was begun; nothing while it waits for room.
    pub(super) answers: Option<Charge>,
    /// Its values, and its statement if that came as text.
    pub(super) _request: Charge,
}

impl Reading {
    /// Bytes that it may hold beside its result.
    pub(super) fn bytes(&self) -> usize {
        read_bytes(&self.statement.prepared.plan)
    }

    /// Tells the budget what it holds now, if it was begun.
    pub(super) fn settle(&mut self) {
        let page_bytes = match &self.rows {
            RowMaker::Store(read) => read.unfinished_bytes(),
            RowMaker::Schema(_) => 0,
        };
        let response_bytes = self.response.as_ref().map_or(0, LongResponse::bytes);
        let bytes = self.bytes() + self.cells.capacity() + page_bytes + response_bytes;
        if let Some(answers) = &mut self.answers {
            answers.set(bytes);
        }
    }
}
