//! `WHERE` by key with its values known: partition keys, and ranges of clustering keys.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            value::{check_composite, check_not_empty, put_component},
        },
        prepare::{
            input::BoundValue,
            plan::{Choice, Edge, KeyRanges},
        },
    },
    mutation::{
        Token,
        token::{range_of, shard_of, token},
    },
    store::Partitions,
    types::{Value, comparable},
};
use std::ops::Bound;

/// Most combinations of the values of several `IN`.
const COMBINATIONS_MAX: usize = 1_000;

/// Most bytes of all combinations together: a value that is sent once is in many of them.
/// Reads that wait hold them.
const COMBINATIONS_BYTES_MAX: usize = 1 << 20;

/// A range of encoded clustering keys.
pub(super) type CkRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Bytes of one end of a range of keys.
pub(super) fn bound_bytes(bound: &Bound<Vec<u8>>) -> usize {
    match bound {
        Bound::Included(code) | Bound::Excluded(code) => code.capacity(),
        Bound::Unbounded => 0,
    }
}

/// Bytes of a key besides its own.
pub(super) const KEY_BYTES: usize = 48;

/// What is left to read.
#[derive(Debug)]
pub(super) enum Steps {
    /// These ranges of each of these partitions.
    Keys { keys: Vec<(Token, Vec<u8>)>, slices: Vec<CkRange> },
    /// All partitions with these tokens, both inclusive.
    Tokens { from: i64, to: i64 },
}

impl Steps {
    /// Bytes of the keys and ranges.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Steps::Keys { keys, slices } => {
                let keys = keys.iter().map(|(_, key)| KEY_BYTES + key.capacity());
                let bounds = slices.iter().map(|(from, to)| bound_bytes(from) + bound_bytes(to));
                keys.sum::<usize>() + bounds.sum::<usize>() + slices.len() * 2 * KEY_BYTES
            }
            Steps::Tokens { .. } => 0,
        }
    }

    /// How many partitions are named by their keys.
    pub(super) fn keys(&self) -> usize {
        match self {
            Steps::Keys { keys, .. } => keys.len(),
            Steps::Tokens { .. } => 0,
        }
    }

    /// What is read in the step with this number, and on which shard.
    pub(super) fn part(&self, step: usize, shards: u16) -> Option<(u16, Partitions, CkRange)> {
        Some(match self {
            Steps::Keys { keys, slices } => {
                let (token, key) = keys.get(step.checked_div(slices.len())?)?;
                let slice = slices.get(step % slices.len())?.clone();
                let partitions = Partitions::One { token: *token, key: key.clone() };
                (shard_of(*token, shards), partitions, slice)
            }
            Steps::Tokens { from, to } => {
                let shard = shard_of(Token(*from), shards);
                let to = (*range_of(shard, shards).end()).min(*to);
                let slice = (Bound::Unbounded, Bound::Unbounded);
                (shard, Partitions::Range { from: *from, to }, slice)
            }
        })
    }
}

/// The partition keys that these values of all its columns make.
pub(super) fn partition_keys(
    choices: &[Choice],
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Vec<(Token, Vec<u8>)>, CqlError> {
    checked_keys(key_values(choices, values, context)?, choices.len())
}

/// As [`partition_keys`], before their lengths are checked.
pub(super) fn key_values(
    choices: &[Choice],
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Vec<Vec<u8>>, CqlError> {
    if let [Choice::One(slot)] = choices {
        return Ok(vec![slot.find_key(values, context)?.into_owned()]);
    }
    let is_single = choices.len() == 1;
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
                if is_single {
                    key.extend_from_slice(value);
                } else {
                    put_component(value, &mut key)?;
                }
                next.push((order, key));
            }
        }
        keys = next;
        if keys.is_empty() {
            // As by Cassandra, what follows `IN ()` is not looked at.
            break;
        }
    }
    keys.sort();
    keys.dedup();
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// These keys of so many columns with their tokens, if their lengths are those of keys.
pub(super) fn checked_keys(
    keys: Vec<Vec<u8>>,
    columns: usize,
) -> Result<Vec<(Token, Vec<u8>)>, CqlError> {
    let components = if columns == 1 { 0 } else { columns };
    for key in &keys {
        check_not_empty(key)?;
        check_composite(key.len(), components)?;
    }
    Ok(keys.into_iter().map(|key| (token(&key), key)).collect())
}

impl KeyRanges {
    /// The ranges in each partition, in the order of their keys.
    pub(super) fn slices(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<CkRange>, CqlError> {
        let mut prefixes = vec![Vec::new()];
        for choice in &self.prefix {
            let codes = match choice {
                Choice::One(slot) => {
                    let value = slot.find_key(values, context)?;
                    check_combinations(prefixes.iter(), [&*value].into_iter())?;
                    for prefix in &mut prefixes {
                        comparable::encode(&slot.ty, slot.descending, &value, prefix)?;
                    }
                    continue;
                }
                Choice::WithBefore => continue,
                Choice::Tuples(tuples) => {
                    let codes: Result<Vec<_>, _> =
                        tuples.iter().map(|slots| code_of(slots, values, context)).collect();
                    let codes = codes?;
                    check_combinations(prefixes.iter(), codes.iter())?;
                    codes
                }
                Choice::Several(_) | Choice::List(..) => {
                    let items = choice.resolve(values, context)?;
                    check_combinations(prefixes.iter(), items.iter().map(|item| &item.1))?;
                    let code = |(slot, value): &(&BoundValue, Vec<u8>)| {
                        let mut code = Vec::new();
                        comparable::encode(&slot.ty, slot.descending, value, &mut code)?;
                        Ok(code)
                    };
                    items.iter().map(code).collect::<Result<Vec<_>, CqlError>>()?
                }
            };
            let mut next = Vec::with_capacity(prefixes.len() * codes.len());
            for prefix in &prefixes {
                next.extend(codes.iter().map(|code| [prefix.as_slice(), code].concat()));
            }
            next.sort();
            next.dedup();
            prefixes = next;
            if prefixes.is_empty() {
                break;
            }
        }
        let mut slices = Vec::with_capacity(prefixes.len());
        let (count, mut bytes) = (prefixes.len(), 0);
        for prefix in prefixes {
            let slice = self.slice(prefix, values, context)?;
            bytes += bound_bytes(&slice.0) + bound_bytes(&slice.1);
            check_bytes(count, bytes / 2)?;
            slices.push(slice);
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
            code.append(&mut code_of(&edge.slots, values, context)?);
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

/// The code of values of columns that follow each other.
fn code_of(
    slots: &[BoundValue],
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Vec<u8>, CqlError> {
    let mut code = Vec::new();
    for slot in slots {
        let value = slot.find_key(values, context)?;
        comparable::encode(&slot.ty, slot.descending, &value, &mut code)?;
    }
    Ok(code)
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
    check_count(a, b)?;
    check_bytes(a * b, a_bytes * b + b_bytes * a)
}

/// Checks what comes of so many partitions and so many ranges in each of them, of so many bytes.
pub(super) fn check_many(
    (keys, key_bytes): (usize, usize),
    (ranges, range_bytes): (usize, usize),
) -> Result<(), CqlError> {
    check_count(keys, ranges)?;
    check_bytes(keys * ranges, key_bytes * ranges + range_bytes * keys)
}

fn check_count(a: usize, b: usize) -> Result<(), CqlError> {
    if usize::saturating_mul(a, b) <= COMBINATIONS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "The IN restrictions make more than {COMBINATIONS_MAX} combinations of values"
    )))
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
