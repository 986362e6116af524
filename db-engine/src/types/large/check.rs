//! What [`validate`] does, bit by bit.

use super::{
    super::{
        CqlType, TypeError,
        validate::{GivenFields, GivenItems, null_in_list, validate, validate_inside},
    },
    PIECE_BYTES,
    pace::Pace,
};
use std::pin::Pin;

type Checking<'a> = Pin<Box<dyn Future<Output = Result<(), TypeError>> + Send + 'a>>;

/// Checks a value. One that is inside of another one may have no null at all.
pub(super) fn check<'a>(
    ty: &'a CqlType,
    bytes: &'a [u8],
    is_inside: bool,
    pace: &'a Pace,
) -> Checking<'a> {
    Box::pin(async move {
        match ty {
            CqlType::List(item) | CqlType::Set(item) => {
                let (mut items, mut has_null) = (GivenItems::of(ty, bytes)?, false);
                while items.follow()? {
                    if is_inside || matches!(ty, CqlType::Set(_)) {
                        check_next(item, items.next()?, pace).await?;
                        continue;
                    }
                    match items.next_or_null()? {
                        Some(bytes) => check_next(item, bytes, pace).await?,
                        None => has_null = true,
                    }
                }
                if has_null { Err(null_in_list()) } else { Ok(()) }
            }
            CqlType::Map(key, value) => {
                let mut items = GivenItems::of(ty, bytes)?;
                while items.follow()? {
                    check_next(key, items.next()?, pace).await?;
                    check_next(value, items.next()?, pace).await?;
                }
                Ok(())
            }
            CqlType::Tuple(types) => check_fields(ty, types.iter(), bytes, pace).await,
            CqlType::Udt(of) => check_fields(ty, of.types(), bytes, pace).await,
            _ => validate(ty, bytes),
        }
    })
}

async fn check_fields<'a>(
    ty: &'a CqlType,
    types: impl Iterator<Item = &'a CqlType> + Send,
    bytes: &'a [u8],
    pace: &'a Pace,
) -> Result<(), TypeError> {
    let mut fields = GivenFields::of(ty, bytes);
    for field in types {
        if fields.are_over() {
            return Ok(());
        }
        if let Some(bytes) = fields.next()? {
            check_next(field, bytes, pace).await?;
        }
    }
    fields.end()
}

/// Checks a value inside of the one at hand.
async fn check_next(ty: &CqlType, bytes: &[u8], pace: &Pace) -> Result<(), TypeError> {
    if bytes.len() < PIECE_BYTES {
        validate_inside(ty, bytes)?;
    } else {
        check(ty, bytes, true, pace).await?;
    }
    pace.worked(bytes.len()).await;
    Ok(())
}
