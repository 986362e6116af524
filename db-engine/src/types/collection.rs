//! Lists, sets, maps and tuples: their wire form, taken apart and put together (CQL v4 §6).
//!
//! ```text
//! list, set := count: i32, (length: i32, bytes)*     big-endian; length -1 is null
//! map       := count: i32, (key, value)*             key and value as items above
//! tuple     := (length: i32, bytes)*                 fields missing at the end are null
//! ```

use super::{CqlType, TypeError, comparable};
use std::borrow::Cow;

/// Reads the parts of a collection or tuple one after the other.
pub struct Items<'a>(pub &'a [u8]);

/// Its bytes end before what they announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

impl<'a> Items<'a> {
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

/// The value as it is stored: sets and maps sorted, each key once (the last one given wins).
///
/// The bytes must be [valid](super::validate). Borrowed unless something had to be moved, which
/// is rare: drivers send sets and maps in whatever order the program holds them.
///
/// # Errors
/// If a map's key or a set's item has a value that has no order.
pub fn canonical<'a>(ty: &CqlType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, TypeError> {
    let (key, has_value) = match ty {
        CqlType::Set(item) => (item, false),
        CqlType::Map(key, _) => (key, true),
        _ => return Ok(Cow::Borrowed(bytes)),
    };
    let broken = |_| TypeError("Unexpected end of a collection".into());
    let mut items = Items(bytes);
    let count = items.count().map_err(broken)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let item = items.item().map_err(broken)?.unwrap_or_default();
        let value = if has_value { items.item().map_err(broken)?.unwrap_or_default() } else { &[] };
        let mut order = Vec::with_capacity(item.len() + 4);
        comparable::encode(key, false, item, &mut order)?;
        entries.push((order, item, value));
    }
    if entries.is_sorted_by(|a, b| a.0 < b.0) {
        return Ok(Cow::Borrowed(bytes));
    }
    entries.reverse();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|later, kept| later.0 == kept.0);
    let mut out = Vec::with_capacity(bytes.len());
    put_count(&mut out, entries.len());
    for (_, item, value) in entries {
        put_item(&mut out, Some(item));
        if has_value {
            put_item(&mut out, Some(value));
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
    fn of_a_map_key_given_twice_the_last_value_stays() {
        let ty = CqlType::Map(Box::new(CqlType::Text), Box::new(CqlType::Text));
        let given = map(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(canonical(&ty, &given).unwrap(), map(&[("a", "2"), ("b", "3")]));
    }
}
