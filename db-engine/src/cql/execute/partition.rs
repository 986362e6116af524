//! The partition whose rows are being taken: what it may still give, and its static row.

use crate::mutation::Token;

/// The partition at hand.
#[derive(Debug)]
pub(super) struct PartitionRead {
    pub token: Token,
    pub key: Vec<u8>,
    /// How many more rows are wanted of it.
    pub left: u64,
    /// Whether it has given a row.
    pub has_given: bool,
    /// Its static row, if that is there.
    pub static_row: Option<Vec<u8>>,
}

impl PartitionRead {
    /// A partition of which nothing was looked at.
    pub(super) fn new(token: Token, key: &[u8], left: u64) -> Self {
        PartitionRead { token, key: key.to_vec(), left, has_given: false, static_row: None }
    }

    /// Whether it has given as many rows as are wanted of one.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }
}
