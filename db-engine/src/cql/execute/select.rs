//! Reads: values → what to read, and rows that were read → rows of a result.
//!
//! [`SelectPlan::bind`] gives a [`Read`], which says step by step what is wanted of which shard
//! and takes in what was found:
//!
//! ```text
//! while let Some((shard, request)) = read.next(plan, shards) {
//!     … the shard reads a page …
//!     read.accept(plan, &mut page, shards, &mut out, &mut time)?;  // appends rows
//! }
//! let (rows, paging_state) = read.finish(&mut out);
//! ```

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            filter::Filter,
            keys::{Steps, checked_keys, key_values},
            paging::PagingState,
            read::Read,
            value::{check_count, positive},
        },
        prepare::{
            input::{BoundValue, KeyPurpose, Operand, PartKey},
            plan::{Choice, PartitionSet, SelectPlan},
        },
    },
    types::{Value, comparable},
};

/// What a request says besides the values.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Most rows of a page; none or 0 to have all at once.
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub paging_state: Option<&'a [u8]>,
}

impl SelectPlan {
    /// What to read for these values.
    ///
    /// # Errors
    /// In Cassandra's words, if the values do not suit the statement or the paging state is not
    /// one that was given out for it.
    pub fn bind(
        &self,
        values: &[Value<'_>],
        options: &ReadOptions<'_>,
        context: &BindContext,
    ) -> Result<Box<Read>, CqlError> {
        check_count(values, self.markers)?;
        let limit = match &self.limit {
            Some(slot) => positive(slot, values, context)?,
            None => None,
        };
        let per_partition = match &self.per_partition_limit {
            Some(slot) => positive(slot, values, context)?,
            None if self.distinct => Some(1),
            None => None,
        };
        // Values are judged in Cassandra's order: the selection's, the filter's, and the keys'.
        let mut parts = Vec::with_capacity(self.parts.len());
        for key in &self.parts {
            parts.push(part_code(key, values, context)?);
        }
        let mut filters = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            filters.push(Filter::bind(condition, values, context)?);
        }
        let steps = match &self.partitions {
            PartitionSet::Keys(choices) => self.keys(choices, values, context)?,
            PartitionSet::Tokens { lower, upper } => {
                tokens(lower.as_ref(), upper.as_ref(), values, context)?
            }
        };
        let page_size = options.page_size.filter(|size| *size > 0 && self.aggregates.is_empty());
        let mut read = Read::new(self, steps, (filters, parts), page_size, context.now_s());
        read.set_limits(limit, per_partition);
        if let Some(bytes) = options.paging_state {
            read.resume(self, PagingState::decode(bytes)?)?;
        }
        Ok(read)
    }

    /// The rows of these partitions. Where no partition or no row is named, Cassandra does not
    /// look at what comes after.
    fn keys(
        &self,
        choices: &[Choice],
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Steps, CqlError> {
        let nothing = Steps::Keys { keys: Vec::new(), slices: Vec::new() };
        let keys = key_values(choices, values, context)?;
        if keys.is_empty() {
            return Ok(nothing);
        }
        let mut slices = self.ranges.slices(values, context)?;
        // Of partitions that have static rows, rows that are named whole are looked for.
        if slices.is_empty() && (self.ranges.open || !self.static_rows) {
            return Ok(nothing);
        }
        if self.reverse {
            slices.reverse();
        }
        Ok(Steps::Keys { keys: checked_keys(keys, choices.len())?, slices })
    }
}

fn tokens(
    lower: Option<&(BoundValue, bool)>,
    upper: Option<&(BoundValue, bool)>,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Steps, CqlError> {
    let token_of = |slot: &BoundValue| {
        let refused = |what: &str| format!("Invalid {what} token value");
        let bytes = slot.find_or_refuse(values, context, refused)?;
        let token = <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes);
        token.map_err(|_| CqlError::invalid(refused("null")))
    };
    let nothing = Ok(Steps::Keys { keys: Vec::new(), slices: Vec::new() });
    let from = match lower {
        None => i64::MIN,
        Some((slot, true)) => token_of(slot)?,
        Some((slot, false)) => match token_of(slot)?.checked_add(1) {
            Some(token) => token,
            None => return nothing,
        },
    };
    let to = match upper {
        None => i64::MAX,
        // The smallest token as an upper end means the end of the ring, as ranges are cut from it.
        Some((slot, inclusive)) => match (token_of(slot)?, inclusive) {
            (i64::MIN, _) => i64::MAX,
            (token, true) => token,
            (token, false) => token - 1,
        },
    };
    if from > to { nothing } else { Ok(Steps::Tokens { from, to }) }
}

/// The key of an element as it compares; none of an end of a slice that is unset.
fn part_code(
    key: &PartKey,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Option<Vec<u8>>, CqlError> {
    let PartKey { slot, purpose } = key;
    let column = slot.column();
    let found = slot.find_or_refuse(values, context, |what| match purpose {
        KeyPurpose::Element => format!("Invalid {what} value for element selection on {column}"),
        KeyPurpose::Slice => format!("Invalid {what} value for slice selection on {column}"),
        KeyPurpose::Condition => format!("Unsupported {what} map key for column {column}"),
    });
    if let (KeyPurpose::Slice, Operand::Bound(index)) = (purpose, &slot.operand)
        && let Some(Value::Unset) = values.get(usize::from(*index))
    {
        return Ok(None);
    }
    let mut code = Vec::new();
    comparable::encode(&slot.ty, false, &found?, &mut code)?;
    Ok(Some(code))
}
