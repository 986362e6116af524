//! What every read must give: a map of cells, each the winner of all that was written to it.

#![allow(dead_code, missing_docs, clippy::unwrap_used)] // Each test uses a part of it.

use std::{collections::BTreeMap, ops::Bound, ops::RangeBounds as _};

use sandglass_db::{
    mutation::{Write, token},
    store::{Partitions, Position, ReadRequest},
};

pub const KEYS: u64 = 6;
pub const CKS: u64 = 40;
pub const COLUMNS: u16 = 3;

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
}

/// Where a cell is; column [`COLUMNS`] is the row's marker.
pub type Place = (u32, u64, u64, u16);

/// The live cells of a row: column, value and timestamp.
pub type Cells = Vec<(u16, Vec<u8>, i64)>;

/// A row by key and clustering key, or that it is not there.
pub type Row = ((u64, u64), Option<Cells>);

pub fn key_bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// The lengths of the last clustering keys, around what a `u16` can count and far beyond it. Others
/// are short.
const LONG_CKS: [usize; 4] = [65_534, 65_535, 65_536, 140_000];

/// The clustering keys below it are short.
pub const FIRST_LONG_CK: u64 = CKS - LONG_CKS.len() as u64;

/// A clustering key: its number, in order, and zeros if it is a long one.
pub fn ck_bytes(ck: u64) -> Vec<u8> {
    let mut bytes = ck.to_be_bytes().to_vec();
    let long =
        ck.checked_sub(FIRST_LONG_CK).and_then(|at| LONG_CKS.get(usize::try_from(at).unwrap()));
    bytes.resize(long.copied().unwrap_or(bytes.len()), 0);
    bytes
}

/// The number of a clustering key, which must be all that it was.
pub fn ck_number(bytes: &[u8]) -> u64 {
    let ck = number(&bytes[..8]);
    assert!(bytes == ck_bytes(ck), "clustering key {ck} came back with {} bytes", bytes.len());
    ck
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// The keys in the order of their tokens.
pub fn keys() -> Vec<u64> {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.sort_by_key(|key| token::token(&key_bytes(*key)));
    keys
}

#[derive(Default)]
pub struct Oracle {
    cells: BTreeMap<Place, Cell>,
    rows_deleted: BTreeMap<(u32, u64, u64), i64>,
    partitions_deleted: BTreeMap<(u32, u64), i64>,
}

impl Oracle {
    pub fn put(&mut self, place: Place, cell: Cell) {
        let slot = self.cells.entry(place).or_insert_with(|| cell.clone());
        if cell > *slot {
            *slot = cell;
        }
    }

    pub fn delete_row(&mut self, place: (u32, u64, u64), timestamp: i64) {
        let deleted = self.rows_deleted.entry(place).or_insert(timestamp);
        *deleted = timestamp.max(*deleted);
    }

    pub fn delete_partition(&mut self, place: (u32, u64), timestamp: i64) {
        let deleted = self.partitions_deleted.entry(place).or_insert(timestamp);
        *deleted = timestamp.max(*deleted);
    }

    /// The live cells of a row, or `None` if the row is not there.
    pub fn row(&self, table: u32, (key, ck): (u64, u64), now_s: i64) -> Option<Cells> {
        let deleted = self.rows_deleted.get(&(table, key, ck)).copied();
        let deleted = deleted.max(self.partitions_deleted.get(&(table, key)).copied());
        let mut is_there = false;
        let mut live = Vec::new();
        for column in 0..=COLUMNS {
            let Some(cell) = self.cells.get(&(table, key, ck, column)) else { continue };
            if !cell.is_live(now_s) || deleted.is_some_and(|deleted| cell.timestamp <= deleted) {
                continue;
            }
            is_there = true;
            if column < COLUMNS {
                live.push((column, cell.value.clone(), cell.timestamp));
            }
        }
        is_there.then_some(live)
    }
}

/// Where the rows of a request can be, in its order.
pub fn places(request: &ReadRequest) -> Vec<(u64, u64)> {
    let is_wanted = |key: &u64| match &request.partitions {
        Partitions::One { key: wanted, .. } => *wanted == key_bytes(*key),
        Partitions::Range { from, to } => (*from..=*to).contains(&token::token(&key_bytes(*key)).0),
    };
    let bounds = (request.from.clone(), request.to.clone());
    let keys = keys().into_iter().filter(is_wanted);
    let mut places: Vec<(u64, u64)> = keys
        .flat_map(|key| (0..CKS).map(move |ck| (key, ck)))
        .filter(|(_, ck)| bounds.contains(&ck_bytes(*ck)))
        .collect();
    if request.reverse {
        places.reverse();
    }
    if let Some(Position { key, ck, .. }) = &request.after {
        let last = (number(key), ck_number(ck));
        let read = places.iter().position(|place| *place == last);
        places.drain(..=read.expect("a page ends at a row of the request"));
    }
    places
}

/// Without the columns that nobody asked for: they may be missing.
pub fn wanted(request: &ReadRequest, mut cells: Cells) -> Cells {
    cells.retain(|cell| request.columns.as_ref().is_none_or(|all| all.contains(&cell.0)));
    cells
}

/// Any bound of clustering keys.
pub fn bound(ck: u64, kind: u64) -> Bound<Vec<u8>> {
    let ck = ck_bytes(ck);
    match kind % 5 {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(ck),
        _ => Bound::Included(ck),
    }
}
