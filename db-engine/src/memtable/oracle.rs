//! What a memtable is, in the fewest words: one ordered map. Tests compare the other one to it.

use std::collections::BTreeMap;

use super::oldest_of;
use crate::mutation::{Deletion, Item, MutationView, RangeDeletion, RowView, Token, merge, shadow};

/// A partition: its deletion, its deleted ranges, and its rows by clustering key.
#[derive(Debug, Default)]
pub(super) struct OraclePartition {
    pub deletion: Option<Deletion>,
    /// Where each begins and ends, and what it deletes.
    pub ranges: Vec<(Vec<u8>, Vec<u8>, Deletion)>,
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl OraclePartition {
    /// The greatest deletion of a range that has this key in it.
    pub fn covering(&self, ck: &[u8]) -> Option<Deletion> {
        let has_it = |from: &[u8], to: &[u8]| from <= ck && ck < to;
        let covering = self.ranges.iter().filter(|(from, to, _)| has_it(from, to));
        covering.map(|(_, _, deletion)| *deletion).max()
    }
}

/// Partitions by token and key.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub partitions: BTreeMap<(Token, Vec<u8>), OraclePartition>,
    pub timestamp_min: Option<i64>,
}

impl Oracle {
    pub fn apply(&mut self, mutation: &MutationView<'_>) {
        let key = (mutation.token(), mutation.key().to_vec());
        let partition = self.partitions.entry(key).or_default();
        for item in mutation.items() {
            let oldest = match item {
                Item::PartitionDeletion(deletion) => {
                    partition.deletion = partition.deletion.max(Some(deletion));
                    for row in partition.rows.values_mut() {
                        *row = left_of(row, deletion.timestamp);
                    }
                    partition.rows.retain(|_, row| !RowView::parse(row).unwrap().is_empty());
                    Some(deletion.timestamp)
                }
                Item::RangeDeletion(RangeDeletion { from, to, deletion }) => {
                    partition.ranges.push((from.to_vec(), to.to_vec(), deletion));
                    partition.rows.retain(|ck, row| {
                        if !(from..to).contains(&ck.as_slice()) {
                            return true;
                        }
                        *row = left_of(row, deletion.timestamp);
                        !RowView::parse(row).unwrap().is_empty()
                    });
                    Some(deletion.timestamp)
                }
                Item::Row { ck, row } => {
                    let oldest = oldest_of(row);
                    let mut row = row.to_vec();
                    if let Some(deletion) = partition.deletion.max(partition.covering(ck))
                        && oldest <= Some(deletion.timestamp)
                    {
                        row = left_of(&row, deletion.timestamp);
                        if RowView::parse(&row).unwrap().is_empty() {
                            continue;
                        }
                    }
                    if let Some(old) = partition.rows.get(ck) {
                        let new = std::mem::take(&mut row);
                        merge(old, &new, &mut row);
                    }
                    partition.rows.insert(ck.to_vec(), row);
                    oldest
                }
            };
            self.timestamp_min = self.timestamp_min.into_iter().chain(oldest).min();
        }
    }
}

/// A row without what was written up to a timestamp.
fn left_of(row: &[u8], timestamp: i64) -> Vec<u8> {
    if oldest_of(row) > Some(timestamp) {
        return row.to_vec();
    }
    let mut left = Vec::new();
    shadow(row, timestamp, &mut left);
    left
}
