//! Conditions that are checked row by row.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            project::{Projector, Shape},
            row_work::RowWork,
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
    store::{JudgedPlace, Judgement, PageRow, RowFilter, SearchPlace},
    types::{CqlType, Value, comparable},
};
use std::{cmp::Ordering, sync::Arc};

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

    /// Whether a row meets them, of which so much is known; `None` if the time is over before that
    /// is told.
    ///
    /// # Errors
    /// If a value cannot be compared, or it takes too long.
    pub fn are_met(
        &self,
        projector: &mut Projector<'_>,
        place: &mut JudgedPlace,
        scratch: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Result<Option<bool>, CqlError> {
        let is_new = place.met == 0 && place.search.is_none();
        if is_new && !projector.is_live() {
            return Ok(Some(false));
        }
        let mut work = RowWork::after(place.work, projector);
        let met = self.go_on(projector, place, scratch, (&mut work, time));
        time.count(WORK_BYTES * work.uncounted(projector));
        place.work = work.all(projector);
        met
    }

    fn go_on(
        &self,
        projector: &mut Projector<'_>,
        place: &mut JudgedPlace,
        scratch: &mut Vec<u8>,
        (work, time): (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<Option<bool>, CqlError> {
        for filter in self.filters.iter().skip(place.met) {
            let search = &mut place.search;
            match filter.is_met(projector, search, scratch, (work, time))? {
                Some(true) => place.met += 1,
                no_or_unknown => return Ok(no_or_unknown),
            }
            if work.is_over(projector, time)? && place.met < self.filters.len() {
                return Ok(None);
            }
        }
        Ok(Some(true))
    }
}

impl RowFilter for RowConditions {
    fn judge(
        &self,
        row: PageRow<'_>,
        static_row: Option<PageRow<'_>>,
        place: &mut JudgedPlace,
        scratch: &mut Vec<u8>,
        time: &mut TimeSlice<'_>,
    ) -> Judgement {
        let Self { single_key, now_s, .. } = *self;
        let (clustering, counted) = (&*self.clustering, self.counted.as_deref());
        let shape = Shape { single_key, clustering, counted, parts: &self.parts, now_s };
        let Some(mut projector) = Projector::new(shape, row) else { return Judgement::Unknown };
        if let Some(row) = static_row {
            projector.add_static(row);
        }
        match self.are_met(&mut projector, place, scratch, time) {
            Ok(Some(met)) => Judgement::Counts(met),
            Ok(None) => Judgement::TimeIsOver,
            Err(_) => Judgement::Unknown,
        }
    }
}

/// A condition with its values known.
#[derive(Debug)]
pub(super) struct Filter {
    pub source: Source,
    pub operator: Operator,
    /// Whether the source is a map, of which each value has its key before it.
    pub is_map: bool,
    /// The values, in the form in which they compare, and in order.
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
        codes.sort_unstable();
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

    /// Whether a row meets it, of which a collection is searched from this place on; `None` if the
    /// time is over before that is known.
    fn is_met(
        &self,
        projector: &mut Projector<'_>,
        place: &mut Option<SearchPlace>,
        scratch: &mut Vec<u8>,
        effort: (&mut RowWork, &mut TimeSlice<'_>),
    ) -> Result<Option<bool>, CqlError> {
        if matches!(self.operator, Operator::Contains | Operator::ContainsKey) {
            return self.is_contained(projector, place, scratch, effort);
        }
        let Some(value) = projector.value_in_place(&self.source, scratch) else {
            return Ok(Some(false));
        };
        let mut code = Vec::new();
        comparable::encode(&self.ty, false, value, &mut code).map_err(CqlError::incomparable)?;
        projector.count_code(&code);
        let is_by = |order: fn(Ordering) -> bool| {
            self.codes.iter().any(|wanted| order(code.as_slice().cmp(wanted)))
        };
        Ok(Some(match self.operator {
            Operator::Eq | Operator::In => self.has(&code),
            Operator::Lt => is_by(Ordering::is_lt),
            Operator::Le => is_by(Ordering::is_le),
            Operator::Gt => is_by(Ordering::is_gt),
            Operator::Ge => is_by(Ordering::is_ge),
            Operator::Ne => is_by(Ordering::is_ne),
            Operator::Contains | Operator::ContainsKey => false,
        }))
    }

    /// Whether one of the values has this code.
    pub(super) fn has(&self, code: &[u8]) -> bool {
        self.codes.binary_search_by(|wanted| wanted.as_slice().cmp(code)).is_ok()
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
