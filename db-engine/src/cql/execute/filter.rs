//! Conditions that are checked row by row.

use crate::{
    cql::{
        error::CqlError,
        execute::{context::BindContext, project::Projector},
        parse::ast::Operator,
        prepare::{
            input::BoundValue,
            plan::{Choice, Condition},
            source::{Portion, Source},
        },
    },
    types::{CqlType, Value, collection::Elements, comparable},
};

/// A condition with its values known.
#[derive(Debug)]
pub(super) struct Filter {
    pub source: Source,
    pub operator: Operator,
    /// Whether the source is a map, of which each value has its key before it.
    pub is_map: bool,
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
        for (slot, value) in resolve(condition, values, context)? {
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
        let (operator, is_map) = (condition.operator, condition.is_map);
        Ok(Self { source: condition.source.clone(), operator, is_map, codes, ty })
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
        if matches!(self.operator, Operator::Contains | Operator::ContainsKey) {
            return self.is_contained(scratch);
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
                Operator::Contains | Operator::ContainsKey => false,
            }
        }))
    }

    /// Whether one of the values is in this collection.
    fn is_contained(&self, collection: &[u8]) -> Result<bool, CqlError> {
        let broken = |_| CqlError::invalid("Not enough bytes to read a collection");
        let (mut items, mut code) = (Elements(collection), Vec::new());
        for _ in 0..items.count().map_err(broken)? {
            let mut item = items.item().map_err(broken)?;
            if self.is_map {
                let value = items.item().map_err(broken)?;
                item = if self.operator == Operator::Contains { value } else { item };
            }
            code.clear();
            comparable::encode(&self.ty, false, item.unwrap_or_default(), &mut code)
                .map_err(CqlError::incomparable)?;
            if self.codes.contains(&code) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The values of a condition, each with the slot that says its type.
fn resolve<'a>(
    condition: &'a Condition,
    values: &[Value<'a>],
    context: &BindContext,
) -> Result<Vec<(&'a BoundValue, Vec<u8>)>, CqlError> {
    let is_entry = matches!(condition.source, Source::Elements { part: Portion::One(_), .. });
    let is_search = matches!(condition.operator, Operator::Contains | Operator::ContainsKey);
    let is_plain = matches!(condition.source, Source::Cell(_) | Source::Key(_));
    match &condition.choice {
        Choice::One(slot) if is_entry || is_search || is_plain => {
            let kind = if is_entry { "map value" } else { "value" };
            let words =
                |what: &str| format!("Unsupported {what} {kind} for column {}", slot.column());
            Ok(vec![(slot, slot.find_or_refuse(values, context, words)?.into_owned())])
        }
        choice => choice.resolve(values, context),
    }
}
