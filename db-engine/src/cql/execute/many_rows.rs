//! A write to many rows: values → a mutation for each partition.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{
            context::{BindContext, Given},
            keys::{CkRange, bound_bytes, check_many, partition_keys},
            value::{check_key, check_length},
            write::too_long,
        },
        prepare::{
            input::BoundValue,
            plan::{Action, Choice, KeyRanges, ManyRows, WritePlan},
        },
    },
    mutation::{Builder, Token, Write},
    types::{Value, comparable::ABOVE},
};
use std::{ops::Bound, sync::Arc};

impl WritePlan {
    /// Appends a mutation for each partition.
    ///
    /// Nothing is appended if it fails.
    pub(super) fn append_many(
        &self,
        many: &ManyRows,
        given @ Given { values, context, .. }: Given<'_>,
        timestamp_us: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        let keys = partition_keys(&many.partitions, values, context)?;
        let mut ranges = many.ranges.slices(values, context)?;
        if ranges.is_empty() {
            return Ok(());
        }
        let write = self.write(timestamp_us, values, context)?;
        ranges.retain(|range| is_row(range) || !is_empty(range));
        check_key(many.ranges.longest_prefix(values, context)?)?;
        let key_bytes = keys.iter().map(|(_, key)| key.len()).sum();
        let range_bytes = ranges.iter().map(|(from, _)| bound_bytes(from)).sum();
        check_many((keys.len(), key_bytes), (ranges.len(), range_bytes))?;
        let start = out.len();
        for key in &keys {
            let appended = self.append_partition(key, &ranges, given, &write, out);
            if appended.is_err() {
                out.truncate(start);
                return appended;
            }
        }
        Ok(())
    }

    fn append_partition(
        &self,
        (token, key): &(Token, Vec<u8>),
        ranges: &[CkRange],
        given: Given<'_>,
        write: &Write,
        out: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        if ranges.is_empty() {
            return Ok(());
        }
        let mut builder = Builder::new(out, self.table, *token, key);
        if self.action == Action::DeletePartition {
            builder.delete_partition(write);
        } else {
            let of_static = self.build_static(&mut builder, given, write);
            for range in ranges.iter().filter(|_| self.has_row) {
                self.build_range(&mut builder, range, given, write)?;
                check_length(builder.bytes())?;
            }
            of_static?;
        }
        builder.finish().map_err(|_| too_long())
    }

    /// Writes to one row, or deletes those of a range.
    fn build_range(
        &self,
        builder: &mut Builder<'_>,
        range: &CkRange,
        given: Given<'_>,
        write: &Write,
    ) -> Result<(), CqlError> {
        let (first, end) = half_open(range);
        if self.action != Action::DeleteRow {
            if !is_row(range) {
                return invalid("Range deletions are not supported for specific columns");
            }
            return self.build_row(builder, given, first, write);
        }
        if is_row(range) {
            builder.delete_row(first, write);
        } else {
            builder.delete_range(first, end, write);
        }
        Ok(())
    }
}

/// Whether a range is a whole key.
fn is_row(range: &CkRange) -> bool {
    matches!(range, (Bound::Included(_), Bound::Included(_)))
}

fn is_empty(range: &CkRange) -> bool {
    let (first, end) = half_open(range);
    first >= end
}

/// Where a range begins, and where what is behind it begins. No key ends with the byte that is
/// above all, so that it is the same whether such an end is in the range.
fn half_open((from, to): &CkRange) -> (&[u8], &[u8]) {
    let first = match from {
        Bound::Included(code) | Bound::Excluded(code) => code.as_slice(),
        Bound::Unbounded => &[0],
    };
    let end = match to {
        Bound::Included(code) | Bound::Excluded(code) => code.as_slice(),
        Bound::Unbounded => &[ABOVE],
    };
    (first, end)
}

/// Keys of partitions, and those of the rows in each of them.
type RowKeys = (Vec<Arc<[u8]>>, Vec<Vec<u8>>);

impl ManyRows {
    /// The keys of its partitions, and those of its rows in each of them.
    pub(super) fn names(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<RowKeys, CqlError> {
        let keys = partition_keys(&self.partitions, values, context)?;
        let ranges = self.ranges.slices(values, context)?;
        check_key(self.ranges.longest_prefix(values, context)?)?;
        let key_bytes = keys.iter().map(|(_, key)| key.len()).sum();
        let range_bytes = ranges.iter().map(|(from, _)| bound_bytes(from)).sum();
        check_many((keys.len(), key_bytes), (ranges.len(), range_bytes))?;
        let rows = ranges.iter().filter(|range| is_row(range));
        Ok((
            keys.into_iter().map(|(_, key)| key.into()).collect(),
            rows.map(|range| half_open(range).0.to_vec()).collect(),
        ))
    }
}

impl KeyRanges {
    /// Bytes of the longest values of the prefix, together.
    fn longest_prefix(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<usize, CqlError> {
        let length = |slots: &Vec<BoundValue>| -> Result<usize, CqlError> {
            slots.iter().map(|slot| Ok(slot.find_key(values, context)?.len())).sum()
        };
        let mut bytes = 0;
        for choice in &self.prefix {
            let longest = match choice {
                Choice::WithBefore => continue,
                Choice::Tuples(tuples) => {
                    let lengths: Result<Vec<usize>, _> = tuples.iter().map(length).collect();
                    lengths?.into_iter().max()
                }
                choice => {
                    let items = choice.resolve(values, context)?;
                    items.iter().map(|(_, value)| value.len()).max()
                }
            };
            let Some(longest) = longest else {
                // No row is named: what follows is not looked at.
                return Ok(0);
            };
            bytes += longest;
        }
        Ok(bytes)
    }
}
