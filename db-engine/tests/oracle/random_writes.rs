//! Random schemas, and random writes to them, which the oracle knows, too.

use std::ops::Range;

use sandglass_db::{
    io::Random,
    mutation::{Builder, RowBuilder, TableNumber, Write, token::token},
    types::comparable::ABOVE,
};

use super::{
    Cell, MARKER, Oracle, RowKey,
    places::{FIRST_CK, FIRST_LONG_CK, NO_CK, ck_bytes, key_bytes},
};

/// Elements that a collection has at most.
const ELEMENTS: u64 = 60;

/// The columns of a table, and which rows its partitions can have.
#[derive(Debug)]
pub struct TableShape {
    pub columns: Vec<ShapeColumn>,
    /// Numbers of clustering keys, [`NO_CK`] among them if the partition has a static row, or only
    /// that if the table has no clustering columns.
    pub cks: Range<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct ShapeColumn {
    pub number: u16,
    pub has_elements: bool,
}

impl TableShape {
    /// Any, of so many rows in a partition.
    pub fn any(random: &mut Random, rows: u64) -> Self {
        let mut number = 0;
        let columns = (0..=random.below(4)).map(|_| {
            number += u16::try_from(random.one_of(&[1, 1, 7, 900])).unwrap();
            ShapeColumn { number, has_elements: random.percent(40) }
        });
        let columns = columns.collect();
        let cks = match random.below(10) {
            0 => NO_CK..FIRST_CK,
            1..5 => FIRST_CK..rows,
            _ => NO_CK..rows,
        };
        Self { columns, cks }
    }

    /// One of the clustering keys.
    pub fn ck(&self, number: u64) -> u64 {
        self.cks.start + number % (self.cks.end - self.cks.start)
    }

    fn has_clustering(&self) -> bool {
        self.cks.end > FIRST_CK
    }

    /// Whether the row without a clustering key is a static row.
    pub fn has_static_rows(&self) -> bool {
        self.has_clustering() && self.cks.contains(&NO_CK)
    }
}

/// How large values are.
#[derive(Clone, Debug)]
pub struct ValueSizes {
    pub large_bytes: Range<u64>,
    pub large_percent: u64,
}

impl ValueSizes {
    fn any(&self, random: &mut Random) -> Vec<u8> {
        let is_large = random.percent(self.large_percent);
        let bytes = if is_large { self.large_bytes.clone() } else { 0..60 };
        let bytes = bytes.start + random.below(bytes.end - bytes.start);
        let byte = u8::try_from(random.below(200)).unwrap();
        vec![byte; usize::try_from(bytes).unwrap()]
    }
}

/// What random writes are made of.
pub struct RandomWrites<'a> {
    pub random: &'a mut Random,
    pub oracle: &'a mut Oracle,
    pub shape: &'a TableShape,
    pub values: &'a ValueSizes,
    pub write: Write,
}

impl RandomWrites<'_> {
    /// Some change of this row or its partition, and perhaps of the row behind it.
    pub fn mutation(&mut self, table: TableNumber, key: u64, ck: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let key_of = key_bytes(key);
        let mut builder = Builder::new(&mut bytes, table, token(&key_of), &key_of);
        // A write with several long keys would be too large.
        let is_short = self.shape.cks.end <= FIRST_LONG_CK;
        for number in 0..=u64::from(is_short && self.random.percent(20)) {
            self.item(&mut builder, (table.0, key, self.shape.ck(ck + number)));
        }
        builder.finish().unwrap();
        bytes
    }

    fn item(&mut self, builder: &mut Builder<'_>, row: RowKey) {
        let (write, (table, key, ck)) = (self.write, row);
        match self.random.below(40) {
            0 => {
                builder.delete_partition(&write);
                self.oracle.delete_partition((table, key), write.timestamp);
            }
            1..4 => {
                builder.delete_row(&ck_bytes(ck), &write);
                self.oracle.delete_row(row, write.timestamp);
            }
            4..7 if self.shape.has_clustering() => {
                let (from, to) = self.range();
                builder.delete_range(&from, &to, &write);
                self.oracle.delete_range((table, key), (from, to, write.timestamp));
            }
            kind => {
                let marker = kind < 26;
                let mut builder = builder.row(&ck_bytes(ck), &write, marker);
                if marker {
                    self.oracle.put(row, (MARKER, None), Cell::live(&write, &[]));
                }
                for column in &self.shape.columns {
                    if column.has_elements {
                        self.elements(&mut builder, row, column.number);
                    } else {
                        self.value(&mut builder, row, column.number);
                    }
                }
            }
        }
    }

    /// Some range of clustering keys: with its ends or without.
    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        // Two of the longest would be too large for a write.
        let rows = self.shape.cks.end.min(FIRST_LONG_CK + 3) - FIRST_CK;
        let [a, b] = [(); 2].map(|()| FIRST_CK + self.random.below(rows));
        let [mut from, mut to] = [a.min(b), a.max(b)].map(ck_bytes);
        let behind = |ck: &mut Vec<u8>| ck.push(ABOVE);
        if a == b || self.random.percent(50) {
            behind(&mut to);
        }
        if a != b && self.random.percent(30) {
            behind(&mut from);
        }
        (from, to)
    }

    fn value(&mut self, builder: &mut RowBuilder<'_>, row: RowKey, column: u16) {
        match self.random.below(4) {
            0 => {
                builder.tombstone(column);
                self.oracle.put(row, (column, None), Cell::dead(&self.write));
            }
            1 | 2 => {
                let value = self.values.any(self.random);
                builder.cell(column, &value);
                self.oracle.put(row, (column, None), Cell::live(&self.write, &value));
            }
            _ => {}
        }
    }

    fn elements(&mut self, builder: &mut RowBuilder<'_>, row: RowKey, column: u16) {
        let write = self.write;
        if self.random.percent(10) {
            // As one that replaces the collection does, or one that comes late, at the same time
            // as others.
            let timestamp = write.timestamp - self.random.one_of(&[1, 10_000_000]);
            builder.delete_elements(column, timestamp);
            self.oracle.delete_elements(row, column, timestamp);
        }
        let first = self.random.below(ELEMENTS);
        for element in first..(first + self.random.below(8)).min(ELEMENTS) {
            let path = path_bytes(element);
            let place = (column, Some(path.clone()));
            if self.random.percent(25) {
                builder.element_tombstone(column, &path);
                self.oracle.put(row, place, Cell::dead(&write));
            } else {
                let length = usize::try_from(self.random.below(60)).unwrap();
                let value = vec![u8::try_from(element).unwrap(); length];
                builder.element(column, &path, &value);
                self.oracle.put(row, place, Cell::live(&write, &value));
            }
        }
    }
}

/// Ascending, of several lengths.
fn path_bytes(element: u64) -> Vec<u8> {
    let element = u8::try_from(element).unwrap();
    vec![element; 1 + usize::from(element % 3)]
}
