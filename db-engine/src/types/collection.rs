//! Lists, sets, maps, tuples and user-defined types: their wire form, taken apart and put together
//! (CQL v4 §6).
//!
//! ```text
//! list, set := count: i32, (length: i32, bytes)*     big-endian; length -1 is null
//! map       := count: i32, (key, value)*             key and value as items above
//! tuple     := (length: i32, bytes)*                 fields missing at the end are null; user-
//!                                                   defined types are the same
//! ```

use super::{CqlType, TypeError, comparable};
use std::borrow::Cow;

/// Reads the parts of a collection or tuple one after the other.
pub struct Elements<'a>(pub &'a [u8]);

/// Its bytes end before what they announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

impl<'a> Elements<'a> {
    /// Reads a number of items.
    ///
    /// # Errors
    /// If fewer than four bytes are left.
    pub fn count(&mut self) -> Result<i32, Truncated> {
        let (count, rest) = self.0.split_first_chunk::<4>().ok_or(Truncated)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*count))
    }

    /// Reads one item; none for a null.
    ///
    /// # Errors
    /// If fewer bytes are left than its length says.
    pub fn item(&mut self) -> Result<Option<&'a [u8]>, Truncated> {
        let length = self.count()?;
        let Ok(length) = usize::try_from(length) else { return Ok(None) };
        let (item, rest) = self.0.split_at_checked(length).ok_or(Truncated)?;
        self.0 = rest;
        Ok(Some(item))
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends an item with its length before it; -1 and nothing for a null.
///
/// # Panics
/// If the item has 2 GiB or more; a request is far smaller.
pub fn put_item(out: &mut Vec<u8>, item: Option<&[u8]>) {
    match item {
        Some(bytes) => {
            put_count(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Appends a number of items.
///
/// # Panics
/// If there are 2^31 or more; a request is far smaller.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = i32::try_from(count).expect("a request is smaller than 2 GiB");
    out.extend_from_slice(&count.to_be_bytes());
}

/// A list of these items.
#[must_use]
pub fn list<T: AsRef<[u8]>>(items: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    put_count(&mut out, items.len());
    for item in items {
        put_item(&mut out, Some(item.as_ref()));
    }
    out
}

/// A map of these pairs, in this order.
#[must_use]
pub fn map<K: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: &[(K, V)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_count(&mut out, pairs.len());
    for (key, value) in pairs {
        put_item(&mut out, Some(key.as_ref()));
        put_item(&mut out, Some(value.as_ref()));
    }
    out
}

/// The value as it is stored: sets and maps sorted at every depth, each key once (the last one
/// given wins). So a value has one form, by whichever client it is written.
///
/// The bytes must be [valid](super::validate). Borrowed unless something had to be moved, which
/// is rare: drivers send sets and maps in whatever order the program holds them.
///
/// # Errors
/// If a map's key or a set's item has a value that has no order.
pub fn canonical<'a>(ty: &CqlType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, TypeError> {
    if !ty.needs_sorting() {
        return Ok(Cow::Borrowed(bytes));
    }
    match ty {
        CqlType::Set(item) => sorted(item, None, bytes),
        CqlType::Map(key, value) => sorted(key, Some(value), bytes),
        CqlType::List(item) => {
            let mut items = Elements(bytes);
            let count = items.count().map_err(broken)?;
            in_place(std::iter::repeat_n(&**item, usize::try_from(count).unwrap_or(0)), 4, bytes)
        }
        CqlType::Tuple(fields) => in_place(fields.iter(), 0, bytes),
        CqlType::Udt(ty) => in_place(ty.types(), 0, bytes),
        _ => Ok(Cow::Borrowed(bytes)),
    }
}

fn broken(_: Truncated) -> TypeError {
    TypeError("Unexpected end of a collection".into())
}

/// Values of these types that keep their places, behind `start` bytes that stay as they are.
fn in_place<'a, 't>(
    types: impl Iterator<Item = &'t CqlType>,
    start: usize,
    bytes: &'a [u8],
) -> Result<Cow<'a, [u8]>, TypeError> {
    let (head, rest) = bytes.split_at_checked(start).ok_or(Truncated).map_err(broken)?;
    let mut items = Elements(rest);
    let (mut out, mut moved) = (head.to_vec(), false);
    for ty in types {
        if items.is_empty() {
            break;
        }
        let item = items.item().map_err(broken)?;
        let item = item.map(|item| canonical(ty, item)).transpose()?;
        moved |= matches!(item, Some(Cow::Owned(_)));
        put_item(&mut out, item.as_deref());
    }
    Ok(if moved { Cow::Owned(out) } else { Cow::Borrowed(bytes) })
}

/// A set, or a map if its values have a type.
fn sorted<'a>(
    key: &CqlType,
    value: Option<&CqlType>,
    bytes: &'a [u8],
) -> Result<Cow<'a, [u8]>, TypeError> {
    let mut items = Elements(bytes);
    let count = items.count().map_err(broken)?;
    let (mut entries, mut moved) = (Vec::new(), false);
    for _ in 0..count {
        let mut next = |ty| {
            let item = canonical(ty, items.item().map_err(broken)?.unwrap_or_default())?;
            moved |= matches!(item, Cow::Owned(_));
            Ok(item)
        };
        let item = next(key)?;
        let value = value.map(next).transpose()?;
        let mut order = Vec::with_capacity(item.len() + 4);
        comparable::encode(key, false, &item, &mut order)?;
        entries.push((order, item, value));
    }
    if !moved && entries.is_sorted_by(|a, b| a.0 < b.0) {
        return Ok(Cow::Borrowed(bytes));
    }
    entries.reverse();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|later, kept| later.0 == kept.0);
    let mut out = Vec::with_capacity(bytes.len());
    put_count(&mut out, entries.len());
    for (_, item, value) in entries {
        put_item(&mut out, Some(&item));
        if let Some(value) = value {
            put_item(&mut out, Some(&value));
        }
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_stored_sorted_and_without_repetition() {
        let ty = CqlType::Set(Box::new(CqlType::Text));
        let sorted = list(&["a", "b", "c"]);
        assert!(matches!(canonical(&ty, &sorted), Ok(Cow::Borrowed(_))));
        assert_eq!(canonical(&ty, &list(&["c", "a", "b", "a"])).unwrap(), sorted);
    }

    #[test]
    fn sets_and_maps_are_sorted_at_every_depth() {
        let set = CqlType::Set(Box::new(CqlType::Text));
        let (given, wanted) = (list(&["b", "a", "b"]), list(&["a", "b"]));
        let of = |ty: CqlType, given: &[u8]| canonical(&ty, given).unwrap().into_owned();
        let listed = CqlType::List(Box::new(set.clone()));
        assert_eq!(of(listed.clone(), &list(&[&given, &wanted])), list(&[&wanted, &wanted]));
        let sets = CqlType::Set(Box::new(set.clone()));
        assert_eq!(of(sets, &list(&[&given, &wanted])), list(&[&wanted]));
        let key = CqlType::Map(Box::new(set.clone()), Box::new(CqlType::Text));
        let pairs = map(&[(&given, "1"), (&wanted, "2")]);
        assert_eq!(of(key, &pairs), map(&[(&wanted, "2")]));
        let value = CqlType::Map(Box::new(CqlType::Text), Box::new(listed));
        let pairs = map(&[("k", list(&[&given]))]);
        assert_eq!(of(value, &pairs), map(&[("k", list(&[&wanted]))]));
        let tuple = CqlType::Tuple(vec![CqlType::Text, set, CqlType::Text]);
        let fields = |set: &[u8]| {
            let mut out = Vec::new();
            put_item(&mut out, None);
            put_item(&mut out, Some(set));
            out
        };
        assert_eq!(of(tuple.clone(), &fields(&given)), fields(&wanted));
        assert!(matches!(canonical(&tuple, &fields(&wanted)), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn of_a_map_key_given_twice_the_last_value_stays() {
        let ty = CqlType::Map(Box::new(CqlType::Text), Box::new(CqlType::Text));
        let given = map(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(canonical(&ty, &given).unwrap(), map(&[("a", "2"), ("b", "3")]));
    }
}
