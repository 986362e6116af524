//! The form in which values are stored: sets and maps are in order at every depth.

use super::{
    CqlType, TypeError,
    collection::{Elements, Truncated, put_count},
    comparable,
};
use std::{borrow::Cow, ops::Range};

/// Bytes of the count before the items of a list, set or map.
pub(super) const COUNT_BYTES: usize = 4;

/// The value as it is stored: sets and maps sorted at every depth, each key once (the last one
/// given wins). So a value has one form, by whichever client it is written.
///
/// The bytes must be [valid](super::validate). Borrowed unless something had to be moved: drivers
/// send sets and maps in whatever order the program holds them.
///
/// # Errors
/// If a map's key or a set's item has a value that has no order.
pub fn canonical<'a>(ty: &CqlType, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, TypeError> {
    if !ty.needs_sorting() || is_canonical(ty, bytes)? {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut out = Vec::with_capacity(bytes.len());
    put_canonical(ty, bytes, &mut out)?;
    Ok(Cow::Owned(out))
}

pub(super) fn broken(_: Truncated) -> TypeError {
    TypeError("Unexpected end of a collection".into())
}

pub(super) fn next_item<'a>(items: &mut Elements<'a>) -> Result<&'a [u8], TypeError> {
    Ok(items.item().map_err(broken)?.unwrap_or_default())
}

/// Whether nothing has to be moved in the next item. In a null nothing has.
fn is_next_canonical(ty: &CqlType, items: &mut Elements<'_>) -> Result<bool, TypeError> {
    items.item().map_err(broken)?.map_or(Ok(true), |item| is_canonical(ty, item))
}

/// Whether nothing has to be moved.
fn is_canonical(ty: &CqlType, bytes: &[u8]) -> Result<bool, TypeError> {
    match ty {
        CqlType::Set(item) => is_sorted(item, None, bytes),
        CqlType::Map(key, value) => is_sorted(key, Some(value), bytes),
        CqlType::List(item) if item.needs_sorting() => {
            let mut items = Elements(bytes);
            for _ in 0..items.count().map_err(broken)? {
                if !is_next_canonical(item, &mut items)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        CqlType::Tuple(fields) => are_canonical(fields.iter(), bytes),
        CqlType::Udt(of) => are_canonical(of.types(), bytes),
        _ => Ok(true),
    }
}

fn are_canonical<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    bytes: &[u8],
) -> Result<bool, TypeError> {
    let mut items = Elements(bytes);
    for ty in types {
        if items.is_empty() {
            break;
        }
        if !is_next_canonical(ty, &mut items)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a set, or a map if its values have a type, is in order.
fn is_sorted(key: &CqlType, value: Option<&CqlType>, bytes: &[u8]) -> Result<bool, TypeError> {
    let mut items = Elements(bytes);
    let (mut order, mut before) = (Vec::new(), Vec::new());
    for number in 0..items.count().map_err(broken)? {
        let item = next_item(&mut items)?;
        if !is_canonical(key, item)? {
            return Ok(false);
        }
        order.clear();
        comparable::encode(key, false, item, &mut order)?;
        if number > 0 && order <= before {
            return Ok(false);
        }
        std::mem::swap(&mut order, &mut before);
        if let Some(ty) = value
            && !is_next_canonical(ty, &mut items)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn put_canonical(ty: &CqlType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    match ty {
        CqlType::Set(item) => put_sorted(item, None, bytes, out),
        CqlType::Map(key, value) => put_sorted(key, Some(value), bytes, out),
        CqlType::List(item) if item.needs_sorting() => {
            let mut items = Elements(bytes);
            let count = items.count().map_err(broken)?;
            out.extend_from_slice(bytes.get(..COUNT_BYTES).unwrap_or_default());
            (0..count).try_for_each(|_| put_next(item, &mut items, out))
        }
        CqlType::Tuple(fields) => put_in_place(fields.iter(), bytes, out),
        CqlType::Udt(of) => put_in_place(of.types(), bytes, out),
        _ => {
            out.extend_from_slice(bytes);
            Ok(())
        }
    }
}

/// Appends the fields of a tuple or of a user-defined type.
fn put_in_place<'t>(
    mut types: impl Iterator<Item = &'t CqlType>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    let mut items = Elements(bytes);
    types.try_for_each(|ty| if items.is_empty() { Ok(()) } else { put_next(ty, &mut items, out) })
}

/// Appends the next item with its length before it, or as the null that it is.
pub(super) fn put_next(
    ty: &CqlType,
    items: &mut Elements<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    let start = out.len();
    out.extend_from_slice(items.0.get(..COUNT_BYTES).unwrap_or_default());
    let Some(item) = items.item().map_err(broken)? else { return Ok(()) };
    put_canonical(ty, item, out)?;
    let length = out.len() - start - COUNT_BYTES;
    set_count(out, start, length);
    Ok(())
}

/// An item of a set or a pair of a map. There may be a million of them, so it is small.
struct Entry {
    /// The first bytes of its order, which mostly decide.
    prefix: u64,
    /// Where its order is.
    order: (u32, u32),
    /// Where it is itself, with its lengths.
    bytes: (u32, u32),
}

fn span(range: Range<usize>) -> (u32, u32) {
    let place = |at| u32::try_from(at).expect("a request is smaller than 4 GiB");
    (place(range.start), place(range.end))
}

fn slice(bytes: &[u8], (start, end): (u32, u32)) -> &[u8] {
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

/// The first eight bytes as a number that compares as they do, except that it cannot tell the end
/// from a zero.
#[must_use]
pub fn prefix(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    u64::from_be_bytes(padded)
}

/// Appends a set, or a map if its values have a type, in order.
fn put_sorted(
    key: &CqlType,
    value: Option<&CqlType>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    let mut items = Elements(bytes);
    let count = usize::try_from(items.count().map_err(broken)?).unwrap_or(0);
    // What has to be put in order within is brought into its form first.
    let is_deep = key.needs_sorting() || value.is_some_and(CqlType::needs_sorting);
    let mut formed = Vec::new();
    if is_deep {
        for _ in 0..count {
            put_next(key, &mut items, &mut formed)?;
            value.map_or(Ok(()), |ty| put_next(ty, &mut items, &mut formed))?;
        }
    }
    let source = if is_deep { formed.as_slice() } else { items.0 };
    let at = out.len();
    put_count(out, 0);
    let kept = put_in_order((key, RepeatedKeys::LastGiven), value.is_some(), (source, count), out)?;
    set_count(out, at, kept);
    Ok(())
}

/// Puts a number of items in the place of another.
pub(super) fn set_count(out: &mut [u8], at: usize, count: usize) {
    let count = i32::try_from(count).expect("a request is smaller than 2 GiB");
    if let Some(place) = out.get_mut(at..at + COUNT_BYTES) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

/// Which of several pairs of a map with one key stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatedKeys {
    /// Of one value: the one that was given last.
    LastGiven,
    /// Of elements: the one with the greatest value, as if each were written by itself.
    Greatest,
}

/// The value of a pair.
pub(super) fn value_of(pair: &[u8]) -> &[u8] {
    let mut items = Elements(pair);
    let value = items.item().and_then(|_| items.item());
    value.ok().flatten().unwrap_or_default()
}

/// Appends items of a set, or pairs of a map, in order, each once; says how many. Within they are
/// in order already.
pub(super) fn put_in_order(
    (key, kept): (&CqlType, RepeatedKeys),
    are_pairs: bool,
    (source, count): (&[u8], usize),
    out: &mut Vec<u8>,
) -> Result<usize, TypeError> {
    let (mut items, mut orders) = (Elements(source), Vec::new());
    let mut entries = Vec::with_capacity(count.min(source.len() / COUNT_BYTES));
    for _ in 0..count {
        let (at, order) = (source.len() - items.0.len(), orders.len());
        comparable::encode(key, false, next_item(&mut items)?, &mut orders)?;
        if are_pairs {
            next_item(&mut items)?;
        }
        entries.push(Entry {
            prefix: prefix(orders.get(order..).unwrap_or_default()),
            order: span(order..orders.len()),
            bytes: span(at..source.len() - items.0.len()),
        });
    }
    let order = |entry: &Entry| slice(&orders, entry.order);
    let value = |entry: &Entry| value_of(slice(source, entry.bytes));
    entries.sort_unstable_by(|a, b| {
        let by_order = a.prefix.cmp(&b.prefix).then_with(|| order(a).cmp(order(b)));
        by_order.then_with(|| match kept {
            RepeatedKeys::Greatest if are_pairs => value(b).cmp(value(a)),
            _ => b.bytes.cmp(&a.bytes),
        })
    });
    entries
        .dedup_by(|earlier, last| earlier.prefix == last.prefix && order(earlier) == order(last));
    for entry in &entries {
        out.extend_from_slice(slice(source, entry.bytes));
    }
    Ok(entries.len())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        io::Random,
        types::{
            collection::{list, map, put_item},
            validate::validate,
        },
    };
    use proptest::prelude::*;
    use std::collections::BTreeMap;

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

    const FEW: [usize; 7] = [0, 1, 2, 3, 4, 5, 6];

    /// The same, said in the shortest way.
    fn simply(ty: &CqlType, bytes: &[u8]) -> Vec<u8> {
        let mut items = Elements(bytes);
        let next = |ty: &CqlType, items: &mut Elements<'_>| {
            items.item().unwrap().map(|item| simply(ty, item))
        };
        let mut out = Vec::new();
        match ty {
            CqlType::Set(key) | CqlType::Map(key, _) => {
                let mut entries = BTreeMap::new();
                for _ in 0..items.count().unwrap() {
                    let item = next(key, &mut items).unwrap();
                    let mut order = Vec::new();
                    comparable::encode(key, false, &item, &mut order).unwrap();
                    let value = match ty {
                        CqlType::Map(_, value) => next(value, &mut items),
                        _ => None,
                    };
                    entries.insert(order, (item, value));
                }
                put_count(&mut out, entries.len());
                for (item, value) in entries.into_values() {
                    put_item(&mut out, Some(&item));
                    if let Some(value) = value {
                        put_item(&mut out, Some(&value));
                    }
                }
            }
            CqlType::List(item) => {
                let count = items.count().unwrap();
                put_count(&mut out, usize::try_from(count).unwrap());
                for _ in 0..count {
                    put_item(&mut out, next(item, &mut items).as_deref());
                }
            }
            CqlType::Tuple(fields) => {
                for ty in fields {
                    if !items.is_empty() {
                        put_item(&mut out, next(ty, &mut items).as_deref());
                    }
                }
            }
            _ => out.extend_from_slice(bytes),
        }
        out
    }

    pub fn types() -> impl Strategy<Value = CqlType> {
        let plain = prop_oneof![
            Just(CqlType::Int),
            Just(CqlType::Text),
            Just(CqlType::Bigint),
            Just(CqlType::Double),
        ];
        plain.prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|item| CqlType::Set(Box::new(item))),
                inner.clone().prop_map(|item| CqlType::List(Box::new(item))),
                (inner.clone(), inner.clone())
                    .prop_map(|(key, value)| CqlType::Map(Box::new(key), Box::new(value))),
                prop::collection::vec(inner, 1..4).prop_map(CqlType::Tuple),
            ]
        })
    }

    /// A value of this type: of few values, so that keys repeat, and of some that differ only
    /// behind their first eight bytes, or by a zero at the end.
    pub fn value(ty: &CqlType, random: &mut Random) -> Vec<u8> {
        let mut out = Vec::new();
        match ty {
            CqlType::Int => out.extend(random.one_of(&[-4i32, -1, 0, 1, 4]).to_be_bytes()),
            CqlType::Bigint => out.extend(random.one_of(&[-256i64, -1, 0, 1, 2]).to_be_bytes()),
            CqlType::Double => out.extend(random.one_of(&[-1.5f64, -1.0, 0.0, 1.5]).to_be_bytes()),
            CqlType::Text => {
                let texts = ["", "a", "a\0", "a\0\0", "abcdefgh", "abcdefghi", "abcdefghj", "é"];
                out.extend(random.one_of(&texts).as_bytes());
            }
            CqlType::Set(item) | CqlType::List(item) => {
                let count = random.one_of(&FEW);
                put_count(&mut out, count);
                (0..count).for_each(|_| put_item(&mut out, Some(&value(item, random))));
            }
            CqlType::Map(key, of) => {
                let count = random.one_of(&FEW);
                put_count(&mut out, count);
                for _ in 0..count {
                    put_item(&mut out, Some(&value(key, random)));
                    put_item(&mut out, Some(&value(of, random)));
                }
            }
            CqlType::Tuple(fields) => {
                for ty in fields.iter().take(1 + random.one_of(&FEW)) {
                    let field = (random.below(5) > 0).then(|| value(ty, random));
                    put_item(&mut out, field.as_deref());
                }
            }
            _ => unreachable!("not of these types"),
        }
        out
    }

    proptest! {
        #[test]
        fn whatever_is_given_has_one_form(ty in types(), seed in any::<u64>()) {
            let random = &mut Random(seed);
            for _ in 0..20 {
                let given = value(&ty, random);
                prop_assume!(validate(&ty, &given).is_ok());
                let stored = canonical(&ty, &given).unwrap();
                prop_assert_eq!(&*stored, simply(&ty, &given), "{}: {:02x?}", ty, &given);
                prop_assert_eq!(matches!(stored, Cow::Borrowed(_)), *stored == given);
                prop_assert!(matches!(canonical(&ty, &stored), Ok(Cow::Borrowed(_))));
            }
        }
    }
}
