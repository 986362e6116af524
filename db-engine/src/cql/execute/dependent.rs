//! Writes that depend on what is there: whether what they ask for is so, and what their client is
//! told if not.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::{BindContext, BindScratch},
            known_rows::KnownRows,
            project::{Projector, check_work},
            requirement::BoundRequirement,
            row_names::BoundWrite,
            value::put_key,
            write::put_clustering,
        },
        prepare::{
            plan::{ColumnSpec, Guard, Prior, WritePlan},
            source::Source,
        },
    },
    schema::{Column, ColumnKind},
    types::{CqlType, collection::put_item},
};
use std::collections::BTreeSet;

/// What the client of a conditional write is told that did not happen.
#[derive(Debug, Default)]
pub struct NotApplied {
    /// The columns of the result.
    pub columns: Vec<ColumnSpec>,
    /// How many rows it has.
    pub count: u32,
    /// Their values, encoded.
    pub cells: Vec<u8>,
}

/// The first column of the result of a conditional write.
#[must_use]
pub fn applied_column() -> ColumnSpec {
    ColumnSpec { name: "[applied]".into(), ty: CqlType::Boolean }
}

/// Whether all that these writes ask for is so.
///
/// # Errors
/// In Cassandra's words, if a value cannot be compared.
pub fn are_met(
    writes: &[BoundWrite<'_>],
    known: KnownRows<'_>,
    context: &BindContext,
    scratch: &mut BindScratch,
) -> Result<bool, CqlError> {
    let mut work = 0;
    for BoundWrite { plan, values, .. } in writes {
        let Some(prior) = &plan.prior else { continue };
        let Some(guard) = &prior.guard else { continue };
        put_key(&plan.partition_key, values, context, &mut scratch.key)?;
        put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
        let found = known.find(plan.table, &scratch.key, &scratch.ck);
        let is_there = || found.is_some_and(|found| prior.own(found, known.now_s).is_some());
        let is_met = match guard {
            Guard::Exists => is_there(),
            Guard::NotExists => !is_there(),
            Guard::Columns(_) => {
                let row = found.and_then(|found| prior.with_static(found, known.now_s));
                let statics = || found.and_then(|found| prior.statics(found, known.now_s));
                let mut row = row.or_else(statics);
                let all = prior.requirements(values, context)?;
                let met = all_are_met(&all, &mut row)?;
                work += row.map_or(0, |row| row.work());
                check_work(work)?;
                met
            }
        };
        if !is_met {
            return Ok(false);
        }
    }
    Ok(true)
}

fn all_are_met(
    all: &[BoundRequirement<'_>],
    row: &mut Option<Projector<'_>>,
) -> Result<bool, CqlError> {
    for one in all {
        if !one.is_met(row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the client is told, if not all that its writes ask for is so: the rows that were looked
/// at, and of them the columns that were asked about.
#[must_use]
pub fn not_applied(writes: &[BoundWrite<'_>], is_batch: bool, known: KnownRows<'_>) -> NotApplied {
    let mut told = NotApplied { columns: vec![applied_column()], ..NotApplied::default() };
    let Some(prior) = writes.iter().find_map(|write| write.plan.prior.as_deref()) else {
        return told;
    };
    let columns = columns_told(writes, is_batch, prior);
    let known_columns = known_columns(writes, prior);
    let put = |row: &mut Projector<'_>, told: &mut NotApplied| {
        told.put_refusal();
        for (at, column) in &columns {
            if known_columns.contains(at) {
                row.put(&Source::of(column), &mut told.cells);
            } else {
                put_item(&mut told.cells, None);
            }
        }
    };
    let mut static_row = None;
    for (name, found) in known.all() {
        static_row = static_row.or_else(|| prior.statics(found, known.now_s));
        let row = prior.with_static(found, known.now_s);
        if let Some(mut row) = row.filter(|_| name.has_condition || name.with_first) {
            put(&mut row, &mut told);
        }
    }
    // It stands for its partition if none of the rows is there.
    if let Some(mut row) = static_row.filter(|_| told.count == 0) {
        let mut of_static = known_columns.iter().filter_map(|at| prior.table.columns.get(*at));
        let mut has = |column: &Column| row.value(&Source::of(column), &mut Vec::new()).is_some();
        if of_static.any(|column| column.is_static() && has(column)) {
            put(&mut row, &mut told);
        }
    }
    if told.count == 0 {
        told.put_refusal();
        return told;
    }
    let spec = |(_, column): &(usize, &Column)| ColumnSpec {
        name: column.name.clone(),
        ty: column.ty.clone(),
    };
    told.columns.extend(columns.iter().map(spec));
    told
}

/// The columns that Cassandra looks at for such writes: those of the key, those of a kind that is
/// written, and those that conditions are about. It tells the others as null.
fn known_columns(writes: &[BoundWrite<'_>], prior: &Prior) -> BTreeSet<usize> {
    let names_rows = |plan: &WritePlan| {
        let is_range = plan.many.as_ref().is_some_and(|many| many.ranges.restricts());
        is_range || !plan.clustering.is_empty() || prior.table.clustering().is_empty()
    };
    let writes_static = |plan: &WritePlan| plan.is_conditional() && plan.writes_static();
    let regular = writes.iter().any(|write| names_rows(write.plan));
    let statics = writes.iter().any(|write| writes_static(write.plan));
    let is_known = |column: &Column| match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => true,
        ColumnKind::Regular => regular,
        ColumnKind::Static => statics,
    };
    let all = prior.table.columns.iter().enumerate();
    let mut known: BTreeSet<usize> =
        all.filter(|(_, column)| is_known(column)).map(|(at, _)| at).collect();
    for guard in writes.iter().filter_map(|write| write.plan.prior.as_ref()?.guard.as_ref()) {
        if let Guard::Columns(requirements) = guard {
            known.extend(requirements.iter().map(|requirement| requirement.column));
        }
    }
    known
}

/// The columns of a row that the client is told: all, if one of its conditions is about the row,
/// else those that its conditions are about, of each statement the regular ones first. In a batch
/// these tell which row it is, too.
fn columns_told<'a>(
    writes: &[BoundWrite<'a>],
    is_batch: bool,
    prior: &'a Prior,
) -> Vec<(usize, &'a Column)> {
    let all = &prior.table.columns;
    let is_key =
        |column: &Column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
    let mut told: Vec<usize> =
        (0..all.len()).filter(|at| is_batch && all.get(*at).is_some_and(is_key)).collect();
    let mut seen: BTreeSet<usize> = told.iter().copied().collect();
    let guards = writes.iter().filter_map(|write| write.plan.prior.as_ref()?.guard.as_ref());
    for guard in guards {
        let Guard::Columns(requirements) = guard else { return all.iter().enumerate().collect() };
        for is_static in [false, true] {
            let of_kind = requirements.iter().filter(|one| one.is_static == is_static);
            told.extend(of_kind.map(|one| one.column).filter(|column| seen.insert(*column)));
        }
    }
    told.into_iter().filter_map(|at| Some((at, all.get(at)?))).collect()
}

impl NotApplied {
    /// Begins a row: it did not happen.
    fn put_refusal(&mut self) {
        self.count += 1;
        self.cells.extend_from_slice(&[0, 0, 0, 1, 0]);
    }
}
