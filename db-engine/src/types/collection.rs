//! Lists, sets, maps, tuples and user-defined types: their wire form, taken apart and put together
//! (CQL v4 §6).
//!
//! ```text
//! list, set := count: i32, (length: i32, bytes)*     big-endian; length -1 is null
//! map       := count: i32, (key, value)*             key and value as items above
//! tuple     := (length: i32, bytes)*                 fields missing at the end are null; user-
//!                                                   defined types are the same
//! ```

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
