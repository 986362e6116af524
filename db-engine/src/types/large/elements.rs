//! A large collection whose elements are written each for itself: its elements as they are encoded,
//! in the order of their paths.

use super::{
    super::{
        CqlType, TypeError,
        canonical::{RepeatedKeys, broken, canonical, next_item},
        collection::Elements,
        comparable,
    },
    PIECE_BYTES, PutElement,
    form::{form, in_order},
    pace::Pace,
};

/// Bytes that the elements of a value of so many bytes take, about. Each has its length and that of
/// its value already.
pub(super) fn encoded_bytes(ty: &CqlType, given: &[u8]) -> usize {
    let more = match ty {
        CqlType::Map(..) => 4,
        CqlType::Set(_) => 8,
        // And a place.
        _ => 24,
    };
    let count = usize::try_from(Elements(given).count().unwrap_or(0)).unwrap_or(0);
    given.len() + count.min(given.len() / size_of::<u32>()) * more
}

/// The elements and how many they are. The value must be valid.
pub(super) async fn take_apart(
    ty: &CqlType,
    bytes: Vec<u8>,
    (mut put, room): (PutElement, usize),
    pace: &Pace,
) -> Result<(Vec<u8>, u32), TypeError> {
    let bytes = match ty {
        CqlType::Set(item) => in_order((item, RepeatedKeys::Greatest), None, bytes, pace).await?,
        CqlType::Map(key, value) => {
            in_order((key, RepeatedKeys::Greatest), Some(value), bytes, pace).await?
        }
        _ => bytes,
    };
    let mut items = Elements(&bytes);
    let count = items.count().map_err(broken)?;
    let (mut out, mut path) = (Vec::with_capacity(room), Vec::new());
    for _ in 0..count {
        let item = next_item(&mut items)?;
        let mut length = item.len();
        match ty {
            CqlType::Set(key) | CqlType::Map(key, _) => {
                path.clear();
                comparable::encode(key, false, item, &mut path)?;
                let is_map = matches!(ty, CqlType::Map(..));
                let value = if is_map { next_item(&mut items)? } else { &[] };
                length += value.len();
                put(&mut out, Some(&path), value)?;
            }
            CqlType::List(of) if of.needs_sorting() && length >= PIECE_BYTES => {
                put(&mut out, None, &form(of, item.to_vec(), pace).await?)?;
            }
            CqlType::List(of) => put(&mut out, None, &canonical(of, item)?)?,
            _ => {}
        }
        pace.worked(length).await;
    }
    Ok((out, u32::try_from(count).unwrap_or(0)))
}
