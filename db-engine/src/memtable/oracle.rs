//! What a memtable is, in the fewest words: one ordered map. Tests compare the other one to it.

use std::collections::BTreeMap;

use crate::mutation::{Deletion, Item, MutationView, RowView, Token, merge, shadow};

/// A partition: its deletion, and its rows by clustering key.
#[derive(Debug, Default)]
pub(super) struct OraclePartition {
    pub deletion: Option<Deletion>,
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
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
                Item::RangeDeletion(_) => continue,
                Item::Row { ck, row } => {
                    let oldest = RowView::parse(row).unwrap().timestamps().min();
                    let mut row = row.to_vec();
                    if let Some(deletion) = partition.deletion
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
    let mut left = Vec::new();
    shadow(row, timestamp, &mut left);
    left
}
