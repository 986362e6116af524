//! Conditions that are checked row by row.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            project::{Projector, Shape},
        },
        parse::ast::Operator,
        prepare::{
            input::BoundValue,
            plan::{Choice, Condition, SelectPlan},
            source::{Portion, Source},
        },
    },
    io::TimeSlice,
    schema::CountedColumn,
    store::{PageRow, RowFilter},
    types::{CqlType, Value, collection::Elements, comparable},
};
use std::sync::Arc;

/// Bytes that take as long as a unit of a projector's work.
const WORK_BYTES: usize = 64;

/// What a row must be beside where it is, and what it takes to tell. A read asks storage for such
/// rows alone, so that it goes on behind the last one that it gives.
#[derive(Debug)]
pub(super) struct RowConditions {
    pub filters: Vec<Filter>,
    /// Keys of elements that are asked for, as they compare.
    pub parts: Vec<Option<Vec<u8>>>,
    single_key: bool,
    clustering: Arc<[(CqlType, bool)]>,
    counted: Option<Arc<[CountedColumn]>>,
    now_s: i64,
}

impl RowConditions {
    pub fn new(
        plan: &SelectPlan,
        (filters, parts): (Vec<Filter>, Vec<Option<Vec<u8>>>),
        now_s: i64,
    ) -> Self {
        let (clustering, counted) = (Arc::clone(&plan.clustering), plan.counted.clone());
        Self { filters, parts, single_key: plan.single_key, clustering, counted, now_s }
    }

    /// # Errors
    /// If a value cannot be compared, or it takes too long.
    pub fn are_met(
        &self,
        projector: &mut Projector<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<bool, CqlError> {
        if !projector.is_live() {
            return Ok(false);
        }
        for filter in &self.filters {
            if !filter.matches(projector, scratch)? {
                return Ok(false);
            }
            projector.check_work()?;
        }
        Ok(true)
    }
}

impl RowFilter for RowConditions {
    fn counts(
        &self,
        row: PageRow<'_>,
        static_row: Option<PageRow<'_>>,
        scratch: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Option<bool> {
        let Self { single_key, now_s, .. } = *self;
        let (clustering, counted) = (&*self.clustering, self.counted.as_deref());
        let shape = Shape { single_key, clustering, counted, parts: &self.parts, now_s };
        let mut projector = Projector::new(shape, row)?;
        if let Some(row) = static_row {
            projector.add_static(row);
        }
        let are_met = self.are_met(&mut projector, scratch);
        time.count(WORK_BYTES * projector.work());
        are_met.ok()
    }
}

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
