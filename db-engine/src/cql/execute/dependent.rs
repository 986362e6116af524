//! Writes that depend on what is there: which rows must be known, whether what they ask for is so,
//! and what their client is told if not.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::{BindContext, BindScratch},
            known_rows::{KnownRows, RowName},
            project::Projector,
            value::{Found, put_key},
            write::put_clustering,
        },
        parse::ast::Operator,
        prepare::{
            plan::{Action, BatchPlan, Choice, ColumnSpec, Guard, Prior, Requirement, WritePlan},
            source::Source,
        },
    },
    mutation::{TableNumber, token::token},
    schema::{Column, ColumnKind},
    types::{CqlType, Value, collection::Elements, comparable},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One write of a request, with the values of its statement.
#[derive(Debug, Clone, Copy)]
pub struct BoundWrite<'a> {
    /// What it does.
    pub plan: &'a WritePlan,
    /// All values of its statement.
    pub values: &'a [Value<'a>],
    /// The statement, if that is a batch.
    pub batch: Option<&'a BatchPlan>,
}

/// Most rows that a request may depend on.
const ROWS_MAX: usize = 1_000;

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

/// The rows that must be known before these writes, ascending, each once.
///
/// # Errors
/// In Cassandra's words, if the values do not suit the statements, or the conditions of a batch
/// do not suit each other.
pub fn rows_of(
    writes: &[BoundWrite<'_>],
    is_batch: bool,
    context: &BindContext,
    scratch: &mut BindScratch,
) -> Result<Vec<RowName>, CqlError> {
    let is_conditional = writes.iter().any(|write| write.plan.is_conditional());
    let mut rows: BTreeMap<RowName, Option<&Guard>> = BTreeMap::new();
    let mut add = |plan: &WritePlan, prior: &Prior, key: &Arc<[u8]>, ck, guard| {
        let columns = Arc::clone(&prior.columns);
        let (table, token, key) = (plan.table, token(key), Arc::clone(key));
        let row = RowName { table, token, key, ck, columns, has_condition: false };
        let first = rows.entry(row).or_insert(None);
        check_mix(*first, guard)?;
        *first = first.or(guard);
        if rows.len() > ROWS_MAX {
            return Err(CqlError::invalid(format!(
                "The request depends on more than {ROWS_MAX} rows: make several of it"
            )));
        }
        Ok(())
    };
    let mut partition: Option<(TableNumber, Vec<u8>)> = None;
    for BoundWrite { plan, values, .. } in writes {
        if is_conditional {
            check_one_row(plan, is_batch)?;
        }
        if let (Some(many), Some(prior)) = (&plan.many, &plan.prior) {
            let (keys, cks) = many.names(values, context)?;
            for key in keys {
                if plan.static_changes.reads() {
                    add(plan, prior, &key, Vec::new(), None)?;
                }
                for ck in cks.iter().filter(|_| plan.has_row) {
                    add(plan, prior, &key, ck.clone(), None)?;
                }
            }
            continue;
        }
        put_key(&plan.partition_key, values, context, &mut scratch.key)?;
        if is_conditional {
            check_partition(&mut partition, plan.table, &scratch.key)?;
        }
        let Some(prior) = &plan.prior else { continue };
        put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
        let key = scratch.key.as_slice().into();
        if plan.static_changes.reads() {
            add(plan, prior, &key, Vec::new(), None)?;
        }
        add(plan, prior, &key, scratch.ck.clone(), prior.guard.as_ref())?;
    }
    let named = rows.into_iter();
    Ok(named.map(|(row, guard)| RowName { has_condition: guard.is_some(), ..row }).collect())
}

/// Checks that a conditional write, or one of a conditional batch, names one row.
fn check_one_row(plan: &WritePlan, is_batch: bool) -> Result<(), CqlError> {
    let Some(many) = &plan.many else { return Ok(()) };
    let spans_partitions = many.partitions.iter().any(|one| !matches!(one, Choice::One(_)));
    if spans_partitions && is_batch {
        return Err(CqlError::invalid(
            "Batch with conditions cannot span multiple partitions (you cannot use IN on the \
             partition key)",
        ));
    }
    let what = if spans_partitions { "partition key" } else { "clustering key columns" };
    let plural = if plan.action == Action::Update { "updates" } else { "deletions" };
    Err(CqlError::invalid(format!("IN on the {what} is not supported with conditional {plural}")))
}

/// Checks that a conditional batch is of one partition, which is that of its first write.
fn check_partition(
    first: &mut Option<(TableNumber, Vec<u8>)>,
    table: TableNumber,
    key: &[u8],
) -> Result<(), CqlError> {
    let refused = match first {
        Some((first, _)) if *first != table => "Batch with conditions cannot span multiple tables",
        Some((_, first)) if first != key => "Batch with conditions cannot span multiple partitions",
        Some(_) => return Ok(()),
        None => {
            *first = Some((table, key.to_vec()));
            return Ok(());
        }
    };
    Err(CqlError::invalid(refused))
}

/// Checks two conditions of a batch on the same row.
fn check_mix(first: Option<&Guard>, second: Option<&Guard>) -> Result<(), CqlError> {
    let refused = match (first, second) {
        (Some(Guard::Exists), Some(Guard::NotExists))
        | (Some(Guard::NotExists), Some(Guard::Exists)) => {
            "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
        }
        (Some(Guard::Columns(_)), Some(Guard::Exists)) => {
            "Cannot mix IF conditions and IF EXISTS for the same row"
        }
        (Some(Guard::Columns(_)), Some(Guard::NotExists))
        | (Some(Guard::Exists | Guard::NotExists), Some(Guard::Columns(_))) => {
            "Cannot mix IF conditions and IF NOT EXISTS for the same row"
        }
        _ => return Ok(()),
    };
    Err(CqlError::invalid(refused))
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
    for BoundWrite { plan, values, .. } in writes {
        let Some(prior) = &plan.prior else { continue };
        let Some(guard) = &prior.guard else { continue };
        put_key(&plan.partition_key, values, context, &mut scratch.key)?;
        put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
        let row = known.find(plan.table, &scratch.key, &scratch.ck);
        let mut row = row.and_then(|row| prior.projector(row, known.now_s));
        let is_met = match guard {
            Guard::Exists => row.is_some(),
            Guard::NotExists => row.is_none(),
            Guard::Columns(all) => all_are_met(all, prior, &mut row, values, context)?,
        };
        if !is_met {
            return Ok(false);
        }
    }
    Ok(true)
}

fn all_are_met(
    requirements: &[Requirement],
    prior: &Prior,
    row: &mut Option<Projector<'_>>,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<bool, CqlError> {
    let mut current = Vec::new();
    for requirement in requirements {
        let Some(column) = prior.table.columns.get(requirement.column) else { continue };
        current.clear();
        let found = row.as_mut().and_then(|row| row.value(&Source::of(column), &mut current));
        let current = found.map(|()| current.as_slice());
        if !requirement.is_met(&column.ty, current, values, context)? {
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
    for (_, row) in known.all().filter(|(row, _)| row.has_condition) {
        let Some(mut row) = row.and_then(|row| prior.projector(row, known.now_s)) else { continue };
        told.put_refusal();
        for column in &columns {
            row.put(&Source::of(column), &mut told.cells);
        }
    }
    if told.count == 0 {
        told.put_refusal();
        return told;
    }
    let spec = |column: &&Column| ColumnSpec { name: column.name.clone(), ty: column.ty.clone() };
    told.columns.extend(columns.iter().map(spec));
    told
}

/// The columns of a row that the client is told: all, if one of its conditions is about the row,
/// else those that its conditions are about. In a batch these tell which row it is, too.
fn columns_told<'a>(
    writes: &[BoundWrite<'a>],
    is_batch: bool,
    prior: &'a Prior,
) -> Vec<&'a Column> {
    let all = &prior.table.columns;
    let is_key =
        |column: &Column| matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
    let mut told: Vec<usize> =
        (0..all.len()).filter(|at| is_batch && all.get(*at).is_some_and(is_key)).collect();
    let mut seen: BTreeSet<usize> = told.iter().copied().collect();
    let guards = writes.iter().filter_map(|write| write.plan.prior.as_ref()?.guard.as_ref());
    for guard in guards {
        let Guard::Columns(requirements) = guard else { return all.iter().collect() };
        let columns = requirements.iter().map(|requirement| requirement.column);
        told.extend(columns.filter(|column| seen.insert(*column)));
    }
    told.into_iter().filter_map(|at| all.get(at)).collect()
}

impl NotApplied {
    /// Begins a row: it did not happen.
    fn put_refusal(&mut self) {
        self.count += 1;
        self.cells.extend_from_slice(&[0, 0, 0, 1, 0]);
    }
}

impl Requirement {
    fn is_met(
        &self,
        ty: &CqlType,
        current: Option<&[u8]>,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<bool, CqlError> {
        for wanted in self.wanted(values, context)? {
            if compare(ty, self.operator, current, wanted.as_deref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The values one of which it asks for; none is null.
    fn wanted(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<Option<Vec<u8>>>, CqlError> {
        let unset = || CqlError::invalid("Invalid 'unset' value in condition");
        match &self.choice {
            Choice::One(slot) => match slot.find(values, context)? {
                Found::Bytes(bytes) => Ok(vec![Some(bytes.into_owned())]),
                Found::Null => Ok(vec![None]),
                Found::Unset => Err(unset()),
            },
            Choice::Several(slots) => {
                let mut wanted = Vec::with_capacity(slots.len());
                for slot in slots {
                    match slot.find(values, context)? {
                        Found::Bytes(bytes) => wanted.push(Some(bytes.into_owned())),
                        Found::Null => wanted.push(None),
                        Found::Unset => {}
                    }
                }
                Ok(wanted)
            }
            Choice::List(list, _) => {
                let bytes = match list.find(values, context)? {
                    Found::Bytes(bytes) => bytes,
                    Found::Null => {
                        return Err(CqlError::invalid("Invalid null list in IN condition"));
                    }
                    Found::Unset => return Err(unset()),
                };
                let broken = |_| CqlError::invalid("Not enough bytes to read a list");
                let mut items = Elements(&bytes);
                let count = items.count().map_err(broken)?;
                let mut wanted = Vec::new();
                for _ in 0..count {
                    wanted.push(items.item().map_err(broken)?.map(<[u8]>::to_vec));
                }
                Ok(wanted)
            }
            // Of clustering columns alone.
            Choice::Tuples(_) | Choice::WithBefore => Ok(Vec::new()),
        }
    }
}

/// Whether a value is as it is wanted to be. What is not there is equal to null alone.
fn compare(
    ty: &CqlType,
    operator: Operator,
    current: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> Result<bool, CqlError> {
    let (current, wanted) = match (current, wanted) {
        (Some(current), Some(wanted)) => (current, wanted),
        (None, Some(_)) => return Ok(operator == Operator::Ne),
        (current, None) => {
            return match operator {
                Operator::Eq | Operator::In => Ok(current.is_none()),
                Operator::Ne => Ok(current.is_some()),
                _ => Err(CqlError::invalid(format!(
                    "Invalid comparison with null for operator \"{}\"",
                    operator.text()
                ))),
            };
        }
    };
    let code = |value: &[u8]| {
        let mut code = Vec::new();
        // A duration has no order, but may be asked for.
        if *ty == CqlType::Duration {
            code.extend_from_slice(value);
        } else {
            comparable::encode(ty, false, value, &mut code).map_err(CqlError::incomparable)?;
        }
        Ok::<_, CqlError>(code)
    };
    let (current, wanted) = (code(current)?, code(wanted)?);
    Ok(match operator {
        Operator::Eq | Operator::In => current == wanted,
        Operator::Ne => current != wanted,
        Operator::Lt => current < wanted,
        Operator::Le => current <= wanted,
        Operator::Gt => current > wanted,
        Operator::Ge => current >= wanted,
        Operator::Contains | Operator::ContainsKey => false,
    })
}
