//! SELECT: statement and table → [`SelectPlan`].

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Select, Target, Term},
        prepare::{
            binder::{Binder, column, routing_of},
            conditions::{FILTERING, Sorter, Where},
            input::BoundValue,
            plan::{Choice, Condition, PartitionSet, Plan, Prepared, SelectPlan},
            selected::Selected,
            selection::{check_distinct, selection, selects_static_only},
            source::{Fold, Source},
            system::prepare_system,
        },
    },
    schema::{Column, ColumnKind, Table, system::is_system},
    types::CqlType,
};
use std::{collections::BTreeSet, sync::Arc};

const DISTINCT_BY_KEY: &str = "SELECT DISTINCT with WHERE clause only supports restriction by \
     partition key and/or static columns.";

pub(super) fn prepare(table: &Arc<Table>, select: &Select) -> Result<Prepared, CqlError> {
    if is_system(&table.keyspace) {
        let selected = selection(table, select, &mut Binder::default(), &mut Vec::new())?;
        return prepare_system(table, select, selected);
    }
    // What is wrong is told in Cassandra's order: names, relations, and then what is asked for.
    let selects_static_only = selects_static_only(table, select)?;
    select.order.iter().try_for_each(|(name, _)| column(table, name).map(drop))?;
    let mut binder = Binder::default();
    let mut sorter = Sorter::new(table, select.allow_filtering);
    for relation in &select.relations {
        sorter.add(relation, &mut binder)?;
    }
    let restricts_clustering = sorter.restrictions.of_clustering();
    let mut parts = std::mem::take(&mut sorter.parts);
    let found = sorter.finish(selects_static_only)?;
    let Where { partitions, ranges, conditions } = found;
    let restricts_regular = restricts_regular(table, &conditions);
    let selected = selection(table, select, &mut binder, &mut parts)?;
    if select.distinct {
        check_partitions_only(select, restricts_clustering || restricts_regular)?;
        let is_range = matches!(partitions, PartitionSet::Tokens { .. });
        check_distinct(table, &selected, &ordering(table, select)?, is_range)?;
    }
    let sums_up = selected.iter().any(|item| item.kind != Fold::First);
    check_sums(sums_up, select.per_partition_limit.is_some())?;
    let reverse = order(table, select, &partitions, &ranges.prefix)?;
    if !conditions.is_empty() && !select.allow_filtering {
        return invalid(FILTERING);
    }
    let (limit, per_partition_limit) = limits(select, &mut binder)?;
    let pk_indexes = match &partitions {
        PartitionSet::Keys(choices) => routing_of(choices),
        PartitionSet::Tokens { .. } => Vec::new(),
    };
    let (constant_bytes, bind) = (binder.constant_bytes(), binder.finish());
    let plan = SelectPlan {
        table: table.number,
        columns: columns(&selected, &conditions),
        collections: collections(&selected, &conditions),
        partitions,
        ranges,
        conditions,
        reverse,
        distinct: select.distinct,
        static_rows: table.has_static_rows(),
        gives_static_alone: !restricts_clustering && !restricts_regular,
        bypass_cache: select.bypass_cache,
        limit,
        per_partition_limit,
        sources: selected.iter().map(|item| item.source.clone()).collect(),
        parts,
        aggregates: selected.iter().filter(|_| sums_up).map(Selected::aggregate).collect(),
        counted: table.counted_columns().map(Arc::from),
        single_key: table.partition_key().len() == 1,
        clustering: table.clustering_types().into(),
        markers: bind.len(),
    };
    Ok(Prepared {
        bind,
        pk_indexes,
        constant_bytes,
        result: selected.into_iter().map(|item| item.spec).collect(),
        depends: vec![table.table_version()],
        ..Prepared::new(Plan::Select(plan), &table.keyspace, &table.name)
    })
}

/// The two limits.
fn limits(
    select: &Select,
    binder: &mut Binder,
) -> Result<(Option<BoundValue>, Option<BoundValue>), CqlError> {
    let mut bound = |term: &Option<Term>, name: &str| {
        term.as_ref().map(|term| binder.slot(term, name, &CqlType::Int)).transpose()
    };
    let limit = bound(&select.limit, "[limit]")?;
    let of_partition = bound(&select.per_partition_limit, "[per_partition_limit]")?;
    Ok((limit, of_partition))
}

/// Checks that DISTINCT is asked for partitions, by what they are.
fn check_partitions_only(select: &Select, restricts_rows: bool) -> Result<(), CqlError> {
    if select.per_partition_limit.is_some() {
        return invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
    }
    if restricts_rows { invalid(DISTINCT_BY_KEY) } else { Ok(()) }
}

/// The columns of ORDER BY that are asked for, too, because rows of several keys are put in order:
/// with `IN` of the partition key, unless it has one value, or `token()` is beside it.
fn ordering<'a>(table: &'a Table, select: &Select) -> Result<Vec<&'a Column>, CqlError> {
    let has_several = select.relations.iter().any(|relation| {
        let Target::Column(name) = &relation.target else { return false };
        let is_one = matches!(&relation.value, Term::Tuple(items) if items.len() == 1);
        relation.operator == Operator::In
            && !is_one
            && table.partition_key().iter().any(|column| column.name == *name)
    });
    let has_token =
        select.relations.iter().any(|relation| matches!(relation.target, Target::Token(_)));
    let order = if has_several && !has_token { select.order.as_slice() } else { &[] };
    order.iter().map(|(name, _)| column(table, name)).collect()
}

fn restricts_regular(table: &Table, conditions: &[Condition]) -> bool {
    let is_regular = |number| table.regular().iter().any(|column| column.number == number);
    conditions.iter().any(|condition| condition.source.column().is_some_and(is_regular))
}

/// The numbers of the columns that are looked at, ascending.
fn columns(selected: &[Selected], conditions: &[Condition]) -> Arc<[u16]> {
    let sources = selected.iter().map(|item| &item.source);
    let sources = sources.chain(conditions.iter().map(|condition| &condition.source));
    sources.filter_map(Source::column).collect::<BTreeSet<_>>().into_iter().collect()
}

/// How many times the statement looks at the elements of a collection.
fn collections(selected: &[Selected], conditions: &[Condition]) -> usize {
    let contains = |one: &&Condition| {
        one.source.is_of_collection()
            || matches!(one.operator, Operator::Contains | Operator::ContainsKey)
    };
    selected.iter().filter(|item| item.source.is_of_collection()).count()
        + conditions.iter().filter(contains).count()
}

fn check_sums(sums_up: bool, has_partition_limit: bool) -> Result<(), CqlError> {
    if sums_up && has_partition_limit {
        return invalid("PER PARTITION LIMIT is not allowed with aggregate queries.");
    }
    Ok(())
}

fn order(
    table: &Table,
    select: &Select,
    partitions: &PartitionSet,
    prefix: &[Choice],
) -> Result<bool, CqlError> {
    if select.order.is_empty() {
        return Ok(false);
    }
    match partitions {
        PartitionSet::Tokens { .. } => {
            return invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an \
                 IN.",
            );
        }
        PartitionSet::Keys(choices) => {
            if !choices.iter().all(|choice| matches!(choice, Choice::One(_))) {
                return Err(CqlError::unsupported("ORDER BY with IN on the partition key is"));
            }
        }
    }
    let mut reverse = None;
    let mut expected = 0;
    for (name, descending) in &select.order {
        let column = column(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY \
                 KEY, got {name}"
            ));
        }
        let position = usize::from(column.number);
        // What has one value only may be left out.
        while expected < position && matches!(prefix.get(expected), Some(Choice::One(_))) {
            expected += 1;
        }
        if expected != position {
            return invalid(
                "Order by currently only supports the ordering of columns following their \
                 declared order in the PRIMARY KEY",
            );
        }
        expected += 1;
        let backwards = *descending != column.descending;
        if reverse.is_some_and(|reverse| reverse != backwards) {
            return invalid("Unsupported order by relation");
        }
        reverse = Some(backwards);
    }
    Ok(reverse.unwrap_or(false))
}
