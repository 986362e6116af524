//! Work on large values: what each is to become when the statement is bound.

use crate::{
    cql::{
        execute::{
            context::{BindContext, BindScratch},
            value::too_large,
        },
        prepare::{
            plan::{Plan, Prepared},
            purpose::ValuePurpose,
        },
    },
    mutation::put_element,
    store::WRITE_BYTES_MAX,
    types::{
        CqlType, TypeError,
        collection::Elements,
        comparable,
        large::{LargeWork, Purpose, PutElement},
    },
};

/// The most elements of a list that a write has room for, each with its lengths and its place.
const ITEMS_MAX: usize = WRITE_BYTES_MAX / 28;

impl Prepared {
    /// The work on a value that is given for this marker. `is_next`: nothing else will be bound
    /// before this statement is, and it is bound as soon as its values are done.
    #[must_use]
    pub fn large_work(
        &self,
        (marker, ty): (u16, &CqlType),
        given: &[u8],
        is_next: bool,
        (context, scratch): (&BindContext, &BindScratch),
    ) -> LargeWork {
        // Elements of a list get their places now, and must come before those that others get.
        let has_places = is_next && matches!(self.plan, Plan::Write(_));
        let purpose = match self.purpose_of(marker) {
            ValuePurpose::Whole => Purpose::Whole,
            ValuePurpose::AllElements(column) if has_places || !matches!(ty, CqlType::List(_)) => {
                Purpose::Elements(put_into(column, (ty, given), context, scratch))
            }
            _ => Purpose::AsGiven,
        };
        LargeWork::new(ty, purpose, given)
    }
}

/// Encodes elements of this column.
fn put_into(
    column: u16,
    (ty, given): (&CqlType, &[u8]),
    context: &BindContext,
    scratch: &BindScratch,
) -> PutElement {
    let is_list = matches!(ty, CqlType::List(_));
    let count = if is_list { Elements(given).count().unwrap_or(0) } else { 0 };
    // The value is not checked yet: a count that it cannot have takes no places from others.
    let count = Some(count).filter(|count| usize::try_from(*count).is_ok_and(|n| n <= ITEMS_MAX));
    let count = count.unwrap_or(0);
    // Elements of a list have the places of this moment, not of that when it is bound.
    let mut places = scratch.places.run_behind(context.now_us, context.random, count);
    let mut place = Vec::new();
    Box::new(move |out, path, value| {
        if path.is_none() {
            place.clear();
            comparable::encode(&CqlType::Timeuuid, false, &places.next(), &mut place)?;
        }
        let path = path.unwrap_or(&place);
        if out.len() + path.len() + value.len() > WRITE_BYTES_MAX {
            return Err(TypeError(too_large().message));
        }
        put_element(out, column, path, value).map_err(|error| TypeError(error.to_string()))
    })
}
