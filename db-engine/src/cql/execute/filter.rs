//! Conditions that are checked row by row.

use crate::{
    cql::{
        error::CqlError,
        execute::{context::BindContext, project::Projector, value::Found},
        parse::ast::Operator,
        prepare::{
            input::BoundValue,
            plan::{Choice, Condition},
            source::Source,
        },
    },
    types::{CqlType, Value, comparable},
};

/// No value is compared with nothing. The words are not those about a key.
fn check_value(
    slot: &BoundValue,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<(), CqlError> {
    let what = match slot.find(values, context)? {
        Found::Bytes(_) => return Ok(()),
        Found::Null => "null",
        Found::Unset => "unset",
    };
    let name = &slot.name;
    Err(CqlError::invalid(format!("Unsupported {what} value for column {name}")))
}

/// A condition with its values known.
#[derive(Debug)]
pub(super) struct Filter {
    pub source: Source,
    pub operator: Operator,
    /// The values, in the form in which they compare.
    pub codes: Vec<Vec<u8>>,
    pub ty: CqlType,
}

impl Filter {
    pub(super) fn bind(
        condition: &Condition,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Self, CqlError> {
        let mut codes = Vec::new();
        if let (Choice::One(slot), Source::Cell(_)) = (&condition.choice, &condition.source) {
            check_value(slot, values, context)?;
        }
        for (slot, value) in condition.choice.resolve(values, context)? {
            let mut code = Vec::new();
            comparable::encode(&slot.ty, false, &value, &mut code)?;
            codes.push(code);
        }
        let ty = match &condition.choice {
            Choice::One(slot) | Choice::List(_, slot) => slot.ty.clone(),
            Choice::Several(slots) => match slots.first() {
                Some(slot) => slot.ty.clone(),
                None => CqlType::Blob,
            },
            Choice::Tuples(_) | Choice::WithBefore => CqlType::Blob,
        };
        Ok(Self { source: condition.source.clone(), operator: condition.operator, codes, ty })
    }

    pub(super) fn matches(
        &self,
        projector: &mut Projector<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, CqlError> {
        scratch.clear();
        if projector.value(&self.source, scratch).is_none() {
            return Ok(false);
        }
        let end = scratch.len();
        let value = scratch.clone();
        comparable::encode(&self.ty, false, &value, scratch).map_err(CqlError::incomparable)?;
        let code = scratch.get(end..).unwrap_or_default();
        Ok(self.codes.iter().any(|wanted| {
            let wanted = wanted.as_slice();
            match self.operator {
                Operator::Eq | Operator::In => code == wanted,
                Operator::Lt => code < wanted,
                Operator::Le => code <= wanted,
                Operator::Gt => code > wanted,
                Operator::Ge => code >= wanted,
                Operator::Ne => code != wanted,
            }
        }))
    }
}
