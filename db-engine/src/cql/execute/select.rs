//! Reads: values → what to read, and rows that were read → rows of a result.
//!
//! [`SelectPlan::bind`] gives a [`Read`], which says step by step what is wanted of which shard
//! and takes in what was found:
//!
//! ```text
//! while let Some((shard, request)) = read.next(plan, shards) {
//!     … the shard reads a page …
//!     read.accept(plan, &page, &mut out)?;      // appends rows
//! }
//! let (rows, paging_state) = read.finish(plan, &mut out);
//! ```

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            paging::PagingState,
            read::{CkRange, Filter, Read, Steps, bound_bytes},
            value::{check_composite, check_count, check_key, positive, put_component},
        },
        prepare::{
            input::BoundValue,
            plan::{Choice, Condition, Edge, PartitionSet, SelectPlan},
        },
    },
    mutation::{Token, token::token},
    types::{CqlType, Value, comparable},
};
use std::ops::Bound;

/// Most combinations of the values of several `IN`.
const COMBINATIONS_MAX: usize = 1_000;

/// Most bytes of all combinations together: a value that is sent once is in many of them.
/// Reads that wait hold them.
const COMBINATIONS_BYTES_MAX: usize = 1 << 20;

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
    ) -> Result<Read, CqlError> {
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
        let steps = match &self.partitions {
            PartitionSet::Keys(choices) => {
                let keys = self.keys(choices, values, context)?;
                Steps::Keys { keys, slices: self.slices(values, context)? }
            }
            PartitionSet::Tokens { lower, upper } => {
                tokens(lower.as_ref(), upper.as_ref(), values, context)?
            }
        };
        let mut filters = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            filters.push(filter(condition, values, context)?);
        }
        let page_size = options.page_size.filter(|size| *size > 0 && self.aggregates.is_empty());
        let mut read = Read::new(self, steps, filters, page_size, context.now_s());
        read.set_limits(limit, per_partition);
        if let Some(bytes) = options.paging_state {
            read.resume(PagingState::decode(bytes)?)?;
        }
        Ok(read)
    }

    fn keys(
        &self,
        choices: &[Choice],
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<(Token, Vec<u8>)>, CqlError> {
        if let [Choice::One(slot)] = choices {
            let value = slot.find_key(values, context)?;
            if value.is_empty() {
                return Err(CqlError::invalid("Key may not be empty"));
            }
            check_key(value.len())?;
            return Ok(vec![(token(&value), value.into_owned())]);
        }
        // Sorted by value, as Cassandra answers: each key goes with its comparable form.
        let mut keys = vec![(Vec::new(), Vec::new())];
        for choice in choices {
            let items = choice.resolve(values, context)?;
            check_combinations(keys.iter().map(|(_, key)| key), items.iter().map(|item| &item.1))?;
            let mut next = Vec::with_capacity(keys.len() * items.len());
            for (order, key) in &keys {
                for (slot, value) in &items {
                    let (mut order, mut key): (Vec<u8>, Vec<u8>) = (order.clone(), key.clone());
                    comparable::encode(&slot.ty, false, value, &mut order)?;
                    if self.single_key {
                        key.extend_from_slice(value);
                    } else {
                        put_component(value, &mut key)?;
                    }
                    next.push((order, key));
                }
            }
            keys = next;
        }
        keys.sort();
        keys.dedup();
        let components = if self.single_key { 0 } else { choices.len() };
        for (_, key) in &keys {
            check_composite(key.len(), components)?;
        }
        Ok(keys.into_iter().map(|(_, key)| (token(&key), key)).collect())
    }

    /// The ranges of clustering keys to read in each partition, in the order of reading.
    fn slices(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<CkRange>, CqlError> {
        let mut prefixes = vec![Vec::new()];
        for choice in &self.prefix {
            if let Choice::One(slot) = choice {
                let value = slot.find_key(values, context)?;
                check_combinations(prefixes.iter(), [&*value].into_iter())?;
                for prefix in &mut prefixes {
                    comparable::encode(&slot.ty, slot.descending, &value, prefix)?;
                }
                continue;
            }
            let items = choice.resolve(values, context)?;
            check_combinations(prefixes.iter(), items.iter().map(|item| &item.1))?;
            let mut next = Vec::with_capacity(prefixes.len() * items.len());
            for prefix in &prefixes {
                for (slot, value) in &items {
                    let mut prefix: Vec<u8> = prefix.clone();
                    comparable::encode(&slot.ty, slot.descending, value, &mut prefix)?;
                    next.push(prefix);
                }
            }
            next.sort();
            next.dedup();
            prefixes = next;
        }
        let mut slices = Vec::with_capacity(prefixes.len());
        let (count, mut bytes) = (prefixes.len(), 0);
        for prefix in prefixes {
            let slice = self.slice(prefix, values, context)?;
            bytes += bound_bytes(&slice.0) + bound_bytes(&slice.1);
            check_bytes(count, bytes / 2)?;
            slices.push(slice);
        }
        if self.reverse {
            slices.reverse();
        }
        Ok(slices)
    }

    fn slice(
        &self,
        prefix: Vec<u8>,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<CkRange, CqlError> {
        if !self.open {
            return Ok((Bound::Included(prefix.clone()), Bound::Included(prefix)));
        }
        // By value, the lower end comes first; by code, it does unless the column is descending.
        let (first, last) = if self.descending {
            (&self.span.upper, &self.span.lower)
        } else {
            (&self.span.lower, &self.span.upper)
        };
        let code = |edge: &Edge| {
            let mut code = prefix.clone();
            for slot in &edge.slots {
                let value = slot.find_key(values, context)?;
                comparable::encode(&slot.ty, slot.descending, &value, &mut code)?;
            }
            Ok::<_, CqlError>(code)
        };
        let above = |mut code: Vec<u8>| {
            code.push(comparable::ABOVE);
            code
        };
        let from = match first {
            Some(edge) if edge.inclusive => Bound::Included(code(edge)?),
            Some(edge) => Bound::Excluded(above(code(edge)?)),
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Included(prefix.clone()),
        };
        let to = match last {
            Some(edge) if edge.inclusive => Bound::Excluded(above(code(edge)?)),
            Some(edge) => Bound::Excluded(code(edge)?),
            None if prefix.is_empty() => Bound::Unbounded,
            None => Bound::Excluded(above(prefix)),
        };
        Ok((from, to))
    }
}

/// Checks what comes of each of these beginnings followed by each of these values.
fn check_combinations<A: AsRef<[u8]>, B: AsRef<[u8]>>(
    beginnings: impl Iterator<Item = A>,
    values: impl Iterator<Item = B>,
) -> Result<(), CqlError> {
    let (a, a_bytes) =
        beginnings.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.as_ref().len()));
    let (b, b_bytes) =
        values.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.as_ref().len()));
    if usize::saturating_mul(a, b) > COMBINATIONS_MAX {
        return Err(CqlError::invalid(format!(
            "The IN restrictions make more than {COMBINATIONS_MAX} combinations of values"
        )));
    }
    check_bytes(a * b, a_bytes * b + b_bytes * a)
}

/// Checks so many combinations of so many bytes in all.
fn check_bytes(count: usize, bytes: usize) -> Result<(), CqlError> {
    if count <= 1 || bytes <= COMBINATIONS_BYTES_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "The combinations of the IN restrictions' values have more than \
         {COMBINATIONS_BYTES_MAX} bytes: ask for fewer at a time"
    )))
}

fn tokens(
    lower: Option<&(BoundValue, bool)>,
    upper: Option<&(BoundValue, bool)>,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Steps, CqlError> {
    let token_of = |slot: &BoundValue| {
        let bytes = slot.find_key(values, context)?;
        let token = <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes);
        token.map_err(|_| CqlError::invalid("Invalid null token value"))
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

fn filter(
    condition: &Condition,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Filter, CqlError> {
    let mut codes = Vec::new();
    for (slot, value) in condition.choice.resolve(values, context)? {
        let mut code = Vec::new();
        comparable::encode(&slot.ty, false, &value, &mut code)?;
        codes.push(code);
    }
    let ty = match &condition.choice {
        Choice::One(slot) | Choice::List(_, slot) => slot.ty.clone(),
        Choice::Several(slots) => match slots.first() {
            Some(slot) => slot.ty.clone(),
            None => CqlType::Blob,
        },
    };
    Ok(Filter { source: condition.source.clone(), operator: condition.operator, codes, ty })
}
