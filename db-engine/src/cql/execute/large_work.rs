//! Work on large values: what each is to become when the statement is bound.

use crate::{
    cql::{
        execute::{
            context::{BindContext, BindScratch},
            value::too_large,
        },
        prepare::{plan::Prepared, purpose::ValuePurpose},
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

impl Prepared {
    /// The work on a value that is given for this marker.
    #[must_use]
    pub fn large_work(
        &self,
        (marker, ty): (u16, &CqlType),
        given: &[u8],
        context: &BindContext,
        scratch: &BindScratch,
    ) -> LargeWork {
        let purpose = match self.purpose_of(marker) {
            ValuePurpose::Whole => Purpose::Whole,
            ValuePurpose::SomeElements => Purpose::AsGiven,
            ValuePurpose::AllElements(column) => {
                Purpose::Elements(put_into(column, (ty, given), context, scratch))
            }
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
