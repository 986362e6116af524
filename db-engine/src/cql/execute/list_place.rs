//! How far a list of the schema has got.

/// How far a list has got.
#[derive(Default)]
pub(super) struct ListPlace {
    /// Keyspaces, tables and types that were looked at, in the order of the list.
    pub looked_at: usize,
    /// Rows that were made.
    pub rows: u32,
    /// Where the next page begins.
    pub state: Option<Vec<u8>>,
}
