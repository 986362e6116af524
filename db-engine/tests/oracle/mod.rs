//! What every read must give: a map of cells, each the winner of all that was written to it.

#![allow(dead_code, missing_docs, clippy::unwrap_used)] // Each test uses a part of it.

pub mod random_writes;
pub mod places;
pub mod sizes;

use std::collections::{BTreeMap, BTreeSet};

use sandglass_db::{
    mutation::{Liveness, RowView, Write},
    store::ReadRequest,
};

use places::ck_bytes;

/// A cell as the rule of Cassandra orders it: the larger one wins.
///
/// By timestamp; then a tombstone beats a value; of tombstones the later deletion; of values one
/// that expires, the later expiry, the smaller time to live, the larger value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    timestamp: i64,
    is_dead: bool,
    deleted_s: i64,
    expires: bool,
    expires_s: i64,
    shorter_ttl: std::cmp::Reverse<u32>,
    value: Vec<u8>,
}

impl Cell {
    pub fn live(write: &Write, value: &[u8]) -> Self {
        Self {
            timestamp: write.timestamp,
            is_dead: false,
            deleted_s: 0,
            expires: write.ttl_s > 0,
            expires_s: if write.ttl_s > 0 { write.now_s + i64::from(write.ttl_s) } else { 0 },
            shorter_ttl: std::cmp::Reverse(write.ttl_s),
            value: value.to_vec(),
        }
    }

    pub fn dead(write: &Write) -> Self {
        let deleted_s = write.now_s;
        Self { is_dead: true, deleted_s, ..Self::live(&Write { ttl_s: 0, ..*write }, &[]) }
    }

    fn is_live(&self, now_s: i64) -> bool {
        !self.is_dead && (!self.expires || self.expires_s > now_s)
    }

    fn liveness(&self) -> Liveness {
        let Self { timestamp, expires_s, .. } = *self;
        let forever = Liveness::forever(timestamp);
        let ttl_s = self.shorter_ttl.0;
        if self.expires { Liveness { timestamp, ttl_s, expires_s } } else { forever }
    }
}

/// Where a row is: table, key and clustering key.
pub type RowKey = (u32, u64, u64);

/// What of a row a cell is: its column, and the element of a collection. [`MARKER`] is the row's
/// marker.
pub type CellPlace = (u16, Option<Vec<u8>>);

pub const MARKER: u16 = u16::MAX;

/// The live cells of a row.
pub type Cells = Vec<(CellPlace, Vec<u8>, Liveness)>;

/// A row by key and clustering key, or that it is not there.
pub type Row = ((u64, u64), Option<Cells>);

/// A range of clustering keys that was deleted, without its end, and when.
type DeletedRange = (Vec<u8>, Vec<u8>, i64);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Oracle {
    rows: BTreeMap<RowKey, BTreeMap<CellPlace, Cell>>,
    collections_deleted: BTreeMap<(RowKey, u16), i64>,
    rows_deleted: BTreeMap<RowKey, i64>,
    ranges_deleted: BTreeMap<(u32, u64), Vec<DeletedRange>>,
    partitions_deleted: BTreeMap<(u32, u64), i64>,
    /// Up to when the cells of columns were dropped.
    columns_dropped: BTreeMap<(u32, u16), i64>,
    /// Columns that are not there.
    columns_gone: BTreeSet<(u32, u16)>,
}

impl Oracle {
    pub fn put(&mut self, row: RowKey, place: CellPlace, cell: Cell) {
        let cells = self.rows.entry(row).or_default();
        let slot = cells.entry(place).or_insert_with(|| cell.clone());
        if cell > *slot {
            *slot = cell;
        }
    }

    pub fn delete_elements(&mut self, row: RowKey, column: u16, timestamp: i64) {
        raise(&mut self.collections_deleted, (row, column), timestamp);
    }

    pub fn delete_row(&mut self, row: RowKey, timestamp: i64) {
        raise(&mut self.rows_deleted, row, timestamp);
    }

    pub fn delete_range(&mut self, partition: (u32, u64), range: DeletedRange) {
        self.ranges_deleted.entry(partition).or_default().push(range);
    }

    pub fn delete_partition(&mut self, partition: (u32, u64), timestamp: i64) {
        raise(&mut self.partitions_deleted, partition, timestamp);
    }

    /// The table has lost a column, with all cells up to this timestamp.
    pub fn drop_column(&mut self, column: (u32, u16), timestamp: i64) {
        raise(&mut self.columns_dropped, column, timestamp);
        self.columns_gone.insert(column);
    }

    /// It is there again.
    pub fn add_column(&mut self, column: (u32, u16)) {
        self.columns_gone.remove(&column);
    }

    /// Nothing is left but what columns are dropped.
    pub fn empty(&mut self) {
        let Self { columns_dropped, columns_gone, .. } = std::mem::take(self);
        *self = Self { columns_dropped, columns_gone, ..Self::default() };
    }

    /// The live cells of a row, or `None` if the row is not there.
    pub fn row(&self, row: RowKey, now_s: i64) -> Option<Cells> {
        let (table, key, ck) = row;
        let cells = self.rows.get(&row)?;
        let ranges = self.ranges_deleted.get(&(table, key)).into_iter().flatten();
        let ck = ck_bytes(ck);
        let covering = ranges.filter(|(from, to, _)| *from <= ck && ck < *to);
        let deleted = covering.map(|(_, _, timestamp)| *timestamp).max();
        let deleted = deleted.max(self.rows_deleted.get(&row).copied());
        let deleted = deleted.max(self.partitions_deleted.get(&(table, key)).copied());
        let is_live = |place: &CellPlace, cell: &Cell| {
            let of_column = self.collections_deleted.get(&(row, place.0)).copied();
            let deleted = deleted.max(of_column.filter(|_| place.1.is_some()));
            let column = (table, place.0);
            let deleted = deleted.max(self.columns_dropped.get(&column).copied());
            !self.columns_gone.contains(&column)
                && cell.is_live(now_s)
                && deleted.is_none_or(|deleted| cell.timestamp > deleted)
        };
        let mut live = cells.iter().filter(|(place, cell)| is_live(place, cell)).peekable();
        live.peek()?;
        let live = live.filter(|(place, _)| place.0 != MARKER);
        let live = live.map(|(place, cell)| (place.clone(), cell.value.clone(), cell.liveness()));
        Some(live.collect())
    }
}

fn raise<K: Ord>(timestamps: &mut BTreeMap<K, i64>, place: K, timestamp: i64) {
    let highest = timestamps.entry(place).or_insert(timestamp);
    *highest = timestamp.max(*highest);
}

/// The live cells of a row as it was read.
pub fn live_cells(row: &[u8], now_s: i64) -> Cells {
    let row = RowView::parse(row).unwrap();
    row.check().unwrap();
    let live = row.cells().filter_map(|cell| {
        let view = cell.view(now_s)?;
        let place = (cell.column, cell.path.map(<[u8]>::to_vec));
        Some((place, view.value.to_vec(), view.liveness))
    });
    live.collect()
}

/// Without the columns that nobody asked for: they may be missing.
pub fn wanted(request: &ReadRequest, mut cells: Cells) -> Cells {
    let is_wanted = |column| request.columns.as_ref().is_none_or(|all| all.contains(&column));
    cells.retain(|(place, ..)| is_wanted(place.0));
    cells
}
