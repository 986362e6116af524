//! Which rows must be known before writes that depend on what is there.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{
            context::{BindContext, BindScratch},
            keys::partition_keys,
            known_rows::RowName,
            value::put_key,
            write::put_clustering,
        },
        prepare::plan::{BatchPlan, Choice, Guard, ManyRows, WritePlan},
    },
    types::Value,
};
use std::collections::BTreeMap;

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

/// The rows of a request, and the conditions on them, as they are gathered.
#[derive(Default)]
struct Asked<'a> {
    /// Each row, with the first condition on it.
    rows: BTreeMap<RowName, Option<&'a Guard>>,
    /// The static row of the one partition that conditions are about, and the first on it.
    static_row: Option<(RowName, Option<&'a Guard>)>,
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
    let mut asked = Asked::default();
    if !is_conditional && writes.len() > 1 {
        // As by Cassandra, what is wrong with a key is told first.
        for BoundWrite { plan, values, .. } in writes {
            plan.check_key(values, context, scratch)?;
        }
    }
    let mut partition: Option<Vec<u8>> = None;
    for BoundWrite { plan, values, .. } in writes {
        let hides_others = plan.is_counter() && plan.deletes_several();
        match &plan.many {
            Some(many) if is_conditional => {
                let keys = partition_keys(&many.partitions, values, context)?;
                check_one_partition(many, is_batch)?;
                for (_, key) in keys {
                    check_partition(&mut partition, &key)?;
                }
                check_one_row(many)?;
                many.ranges.slices(values, context)?;
                continue;
            }
            Some(many) => {
                let Some(prior) = &plan.prior else { continue };
                let (keys, cks) = many.names(values, context)?;
                for key in keys {
                    // Of counters that are deleted, the partition is held.
                    let is_held = plan.is_counter() && plan.increments.is_empty();
                    if is_held || plan.reads_static() {
                        let name = RowName::new(prior, plan.table, &key, Vec::new());
                        asked.add(RowName { hides_others, ..name })?;
                    }
                    for ck in cks.iter().filter(|_| plan.has_row) {
                        asked.add(RowName::new(prior, plan.table, &key, ck.clone()))?;
                    }
                }
                continue;
            }
            None => put_key(&plan.partition_key, values, context, &mut scratch.key)?,
        }
        if is_conditional {
            check_partition(&mut partition, &scratch.key)?;
        } else if plan.prior.is_none() {
            continue;
        }
        put_clustering(&plan.clustering, values, context, &mut scratch.ck)?;
        let Some(prior) = &plan.prior else { continue };
        let key = scratch.key.as_slice().into();
        if plan.reads_static() {
            asked.add(RowName::new(prior, plan.table, &key, Vec::new()))?;
        }
        let name = RowName::new(prior, plan.table, &key, scratch.ck.clone());
        let name = RowName { hides_others, ..name };
        asked.add(name.clone())?;
        if let Some(guard) = &prior.guard {
            asked.add_guard(name, guard)?;
        }
    }
    // As by Cassandra, what conditions compare is looked at once all partitions are known.
    for BoundWrite { plan, values, .. } in writes {
        if let Some(prior) = &plan.prior {
            prior.requirements(values, context)?;
        }
    }
    Ok(asked.finish())
}

impl<'a> Asked<'a> {
    fn add(&mut self, name: RowName) -> Result<(), CqlError> {
        self.rows.entry(name).or_default();
        if self.rows.len() <= ROWS_MAX {
            return Ok(());
        }
        invalid(format!("The request depends on more than {ROWS_MAX} rows: make several of it"))
    }

    fn add_guard(&mut self, name: RowName, guard: &'a Guard) -> Result<(), CqlError> {
        let is_columns = matches!(guard, Guard::Columns(_));
        let is_static = name.is_static();
        if name.static_rows {
            let named = || (RowName { ck: Vec::new(), ..name.clone() }, None);
            let (_, first) = self.static_row.get_or_insert_with(named);
            if if is_columns { guard.asks_for(true) } else { is_static } {
                check_mix(first.get_or_insert(guard), guard)?;
            }
        }
        let first = self.rows.entry(name).or_default();
        if if is_columns { guard.asks_for(false) } else { !is_static } {
            check_mix(first.get_or_insert(guard), guard)?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<RowName> {
        let Self { mut rows, static_row } = self;
        if let Some((name, _)) = static_row
            && rows.values().all(Option::is_none)
        {
            rows.remove(&name);
            rows.insert(RowName { with_first: true, ..name }, None);
        }
        let named = rows.into_iter();
        named.map(|(row, guard)| RowName { has_condition: guard.is_some(), ..row }).collect()
    }
}

fn is_several(choice: &Choice) -> bool {
    !matches!(choice, Choice::One(_))
}

/// Checks that a conditional write names one partition.
fn check_one_partition(many: &ManyRows, is_batch: bool) -> Result<(), CqlError> {
    if !many.partitions.iter().any(is_several) {
        return Ok(());
    }
    if is_batch {
        return invalid(
            "Batch with conditions cannot span multiple partitions (you cannot use IN on the \
             partition key)",
        );
    }
    refuse_in("partition key", many)
}

/// Checks that one that may be to several rows deletes a range of them.
fn check_one_row(many: &ManyRows) -> Result<(), CqlError> {
    if many.ranges.prefix.iter().any(is_several) {
        return refuse_in("clustering key columns", many);
    }
    Ok(())
}

fn refuse_in(what: &str, many: &ManyRows) -> Result<(), CqlError> {
    let plural = if many.is_delete { "deletions" } else { "updates" };
    invalid(format!("IN on the {what} is not supported with conditional {plural}"))
}

/// Checks that a conditional batch is of one partition, which is that of its first write.
fn check_partition(first: &mut Option<Vec<u8>>, key: &[u8]) -> Result<(), CqlError> {
    if first.get_or_insert_with(|| key.to_vec()) == key {
        return Ok(());
    }
    invalid("Batch with conditions cannot span multiple partitions")
}

/// Checks two conditions of a batch on the same row.
fn check_mix(first: &Guard, second: &Guard) -> Result<(), CqlError> {
    let refused = match (first, second) {
        (Guard::Exists, Guard::NotExists) | (Guard::NotExists, Guard::Exists) => {
            "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
        }
        (Guard::Columns(_), Guard::Exists) => {
            "Cannot mix IF conditions and IF EXISTS for the same row"
        }
        (Guard::Columns(_), Guard::NotExists)
        | (Guard::Exists | Guard::NotExists, Guard::Columns(_)) => {
            "Cannot mix IF conditions and IF NOT EXISTS for the same row"
        }
        _ => return Ok(()),
    };
    Err(CqlError::invalid(refused))
}
