//! The values that `=` or `IN` asks for.

use crate::{
    cql::{
        error::CqlError,
        execute::{context::BindContext, value::Found},
        prepare::{input::BoundValue, plan::Choice},
    },
    types::{Value, collection::Elements},
};

impl Choice {
    /// All its values, each with the slot that says its type.
    pub(super) fn resolve<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Vec<(&'a BoundValue, Vec<u8>)>, CqlError> {
        match self {
            Choice::One(slot) => Ok(vec![(slot, slot.find_key(values, context)?.into_owned())]),
            Choice::Several(slots) => slots
                .iter()
                .map(|slot| Ok((slot, slot.find_key(values, context)?.into_owned())))
                .collect(),
            Choice::List(list, item) => {
                let bytes = match list.find(values, context)? {
                    Found::Bytes(bytes) => bytes,
                    Found::Null => {
                        return Err(CqlError::invalid(format!(
                            "Invalid null value for column {}",
                            item.name
                        )));
                    }
                    Found::Unset => {
                        return Err(CqlError::invalid(format!(
                            "Invalid unset value for column {}",
                            item.name
                        )));
                    }
                };
                let broken = |_| CqlError::invalid("Not enough bytes to read a list");
                let mut items = Elements(&bytes);
                let count = items.count().map_err(broken)?;
                let mut out = Vec::new();
                for _ in 0..count {
                    out.push((item, items.item().map_err(broken)?.unwrap_or_default().to_vec()));
                }
                Ok(out)
            }
            // Values of several columns are no choice of one.
            Choice::Tuples(_) | Choice::WithBefore => Ok(Vec::new()),
        }
    }
}
