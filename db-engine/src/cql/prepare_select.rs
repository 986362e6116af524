//! SELECT: statement and table → [`SelectPlan`] or [`SystemPlan`].

use super::{
    aggregate::{Aggregate, Kind},
    ast::{Operator, Select, Selector, Target},
    conditions::{FILTERING, Sorter, Where, choice},
    error::CqlError,
    plan::{ColumnSpec, Plan, Prepared, Slot},
    prepare::{Binder, column, nothing, routing},
    project::Source,
    select::{Choice, Partitions, SelectPlan},
    system::SystemPlan,
};
use crate::{
    schema::{Column, ColumnKind, Table, system::is_system},
    types::CqlType,
};
use std::{collections::BTreeSet, sync::Arc};

fn invalid<T>(text: impl Into<String>) -> Result<T, CqlError> {
    Err(CqlError::invalid(text))
}

pub(super) fn prepare(table: &Arc<Table>, select: &Select) -> Result<Prepared, CqlError> {
    let selected = selection(table, select)?;
    if is_system(&table.keyspace) {
        return prepare_system(table, select, selected);
    }
    if select.distinct {
        check_distinct(&selected)?;
    }
    let mut binder = Binder::default();
    let mut sorter = Sorter::new(table);
    for relation in &select.relations {
        sorter.add(relation, &mut binder)?;
    }
    let per_partition_limit = match &select.per_partition_limit {
        Some(term) => Some(binder.slot(term, "[per_partition_limit]", &CqlType::Int)?),
        None => None,
    };
    let limit = match &select.limit {
        Some(term) => Some(binder.slot(term, "[limit]", &CqlType::Int)?),
        None => None,
    };
    check_limit(limit.as_ref())?;
    check_limit(per_partition_limit.as_ref())?;
    let Where { partitions, prefix, span, conditions } = sorter.finish(select.allow_filtering)?;
    let reverse = order(table, select, &partitions, &prefix)?;
    let pk_indexes = match &partitions {
        Partitions::Keys(choices) => routing_of(choices),
        Partitions::Tokens { .. } => Vec::new(),
    };
    let bind = binder.finish();
    let clustering = table.clustering();
    let next = clustering.get(prefix.len());
    let sums_up = selected.iter().any(|item| item.kind != Kind::First);
    let aggregates = selected.iter().map(Selected::aggregate).collect();
    let sources = selected.iter().map(|item| &item.source);
    let sources = sources.chain(conditions.iter().map(|condition| &condition.source));
    let columns: BTreeSet<u16> = sources.filter_map(Source::column).collect();
    let plan = SelectPlan {
        table: table.number,
        descending: next.is_some_and(|column| column.descending),
        open: next.is_some(),
        partitions,
        prefix,
        span,
        conditions,
        reverse,
        distinct: select.distinct,
        bypass_cache: select.bypass_cache,
        limit,
        per_partition_limit,
        sources: selected.iter().map(|item| item.source.clone()).collect(),
        aggregates: if sums_up { aggregates } else { Vec::new() },
        columns: columns.into_iter().collect(),
        single_key: table.partition_key().len() == 1,
        clustering: clustering
            .iter()
            .map(|column| (column.ty.clone(), column.descending))
            .collect(),
        markers: bind.len(),
    };
    Ok(Prepared {
        plan: Plan::Select(plan),
        bind,
        pk_indexes,
        result: selected.into_iter().map(|item| item.spec).collect(),
        depends: vec![table.table_version()],
        ..nothing(&table.keyspace, &table.name)
    })
}

/// One column of the result.
struct Selected {
    source: Source,
    kind: Kind,
    /// The type of the source.
    ty: CqlType,
    spec: ColumnSpec,
}

impl Selected {
    fn aggregate(&self) -> Aggregate {
        Aggregate { kind: self.kind, source: self.source.clone(), ty: self.ty.clone() }
    }
}

fn source(column: &Column) -> Source {
    match column.kind {
        ColumnKind::PartitionKey => Source::Key(column.number.into()),
        ColumnKind::Clustering => Source::Clustering(column.number.into()),
        ColumnKind::Regular => Source::Cell(column.number),
    }
}

fn plain(column: &Column) -> Selected {
    let (name, ty) = (column.name.clone(), column.ty.clone());
    let spec = ColumnSpec { name, ty: ty.clone() };
    Selected { source: source(column), kind: Kind::First, ty, spec }
}

fn selection(table: &Table, select: &Select) -> Result<Vec<Selected>, CqlError> {
    if select.selectors.is_empty() {
        return Ok(table.columns.iter().map(plain).collect());
    }
    let mut out = Vec::with_capacity(select.selectors.len());
    for (selector, alias) in &select.selectors {
        let mut item = selected(table, selector)?;
        if let Some(alias) = alias {
            item.spec.name.clone_from(alias);
        }
        out.push(item);
    }
    Ok(out)
}

fn selected(table: &Table, selector: &Selector) -> Result<Selected, CqlError> {
    match selector {
        Selector::Column(name) => Ok(plain(column(table, name)?)),
        Selector::CountAll => Ok(Selected {
            source: Source::Token,
            kind: Kind::CountRows,
            ty: CqlType::Bigint,
            spec: ColumnSpec { name: "count".into(), ty: CqlType::Bigint },
        }),
        Selector::Call { name, arguments } => call(table, name, arguments),
    }
}

fn call(table: &Table, name: &str, arguments: &[Selector]) -> Result<Selected, CqlError> {
    let mut columns = Vec::new();
    for argument in arguments {
        let Selector::Column(argument) = argument else {
            return Err(CqlError::unsupported("A function of a function in a selection is"));
        };
        columns.push(column(table, argument)?);
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let spec =
        |prefix: &str, ty| ColumnSpec { name: format!("{prefix}{name}({})", names.join(", ")), ty };
    if name == "token" {
        let key: Vec<&str> = table.partition_key().iter().map(|c| c.name.as_str()).collect();
        if names != key {
            return invalid(format!(
                "Invalid call to function token, none of its type signatures match: the arguments \
                 must be {}",
                key.join(", ")
            ));
        }
        let (source, kind, ty) = (Source::Token, Kind::First, CqlType::Bigint);
        return Ok(Selected { source, kind, ty, spec: spec("system.", CqlType::Bigint) });
    }
    let [column] = columns.as_slice() else {
        return invalid(format!("Unknown function '{name}'"));
    };
    match name {
        "writetime" | "ttl" => {
            if column.kind != ColumnKind::Regular {
                return invalid(format!(
                    "Cannot use selection function {name} on PRIMARY KEY part {}",
                    column.name
                ));
            }
            let (source, ty) = if name == "ttl" {
                (Source::Ttl(column.number), CqlType::Int)
            } else {
                (Source::WriteTime(column.number), CqlType::Bigint)
            };
            Ok(Selected { source, kind: Kind::First, ty: ty.clone(), spec: spec("", ty) })
        }
        "totimestamp" | "to_timestamp" | "dateof" | "tounixtimestamp" | "to_unix_timestamp"
        | "unixtimestampof"
            if column.ty == CqlType::Timeuuid =>
        {
            let ty = if name.contains("unix") { CqlType::Bigint } else { CqlType::Timestamp };
            let source = Source::TimeOf(Box::new(source(column)));
            Ok(Selected { source, kind: Kind::First, ty: ty.clone(), spec: spec("system.", ty) })
        }
        _ => aggregate(name, column, spec),
    }
}

fn aggregate(
    name: &str,
    column: &Column,
    spec: impl Fn(&str, CqlType) -> ColumnSpec,
) -> Result<Selected, CqlError> {
    let (kind, ty) = match name {
        "count" => (Kind::Count, CqlType::Bigint),
        "min" => (Kind::Min, column.ty.clone()),
        "max" => (Kind::Max, column.ty.clone()),
        "sum" => (Kind::Sum, column.ty.clone()),
        "avg" => (Kind::Avg, column.ty.clone()),
        _ => return invalid(format!("Unknown function '{name}'")),
    };
    let adds = matches!(kind, Kind::Sum | Kind::Avg);
    let orders = matches!(kind, Kind::Min | Kind::Max);
    if (adds && !Aggregate::can_add(&column.ty)) || (orders && !column.ty.has_order()) {
        return Err(CqlError::unsupported(&format!("{name} of type {} is", column.ty)));
    }
    let source = source(column);
    Ok(Selected { source, kind, ty: column.ty.clone(), spec: spec("system.", ty) })
}

fn check_distinct(selected: &[Selected]) -> Result<(), CqlError> {
    let other = selected
        .iter()
        .find(|item| !matches!(item.source, Source::Key(_)) || item.kind != Kind::First);
    match other {
        Some(item) => invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static \
             columns (not {})",
            item.spec.name
        )),
        None => Ok(()),
    }
}

/// Refuses a constant limit as early as Cassandra does.
fn check_limit(slot: Option<&Slot>) -> Result<(), CqlError> {
    let Some(Slot { operand: super::plan::Operand::Constant(bytes), .. }) = slot else {
        return Ok(());
    };
    match <[u8; 4]>::try_from(bytes.as_slice()).map(i32::from_be_bytes) {
        Ok(1..) => Ok(()),
        _ => invalid("LIMIT must be strictly positive"),
    }
}

/// As [`routing`]; of an `IN` with markers, Cassandra names the last one.
fn routing_of(choices: &[Choice]) -> Vec<u16> {
    let last = |choice: &Choice| match choice {
        Choice::One(slot) => Some(slot.clone()),
        Choice::Several(slots) => slots.last().cloned(),
        Choice::List(..) => None,
    };
    let slots: Option<Vec<Slot>> = choices.iter().map(last).collect();
    slots.map(|slots| routing(&slots)).unwrap_or_default()
}

/// Whether rows are wanted from the last to the first.
fn order(
    table: &Table,
    select: &Select,
    partitions: &Partitions,
    prefix: &[Choice],
) -> Result<bool, CqlError> {
    if select.order.is_empty() {
        return Ok(false);
    }
    match partitions {
        Partitions::Tokens { .. } => {
            return invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an \
                 IN.",
            );
        }
        Partitions::Keys(choices) => {
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

fn prepare_system(
    table: &Arc<Table>,
    select: &Select,
    selected: Vec<Selected>,
) -> Result<Prepared, CqlError> {
    let mut binder = Binder::default();
    let mut conditions = Vec::new();
    let mut slots: Vec<(String, Choice)> = Vec::new();
    for relation in &select.relations {
        let Target::Column(name) = &relation.target else {
            return Err(CqlError::unsupported("Such a condition on a system table is"));
        };
        let column = column(table, name)?;
        if column.kind == ColumnKind::Regular && !select.allow_filtering {
            return invalid(FILTERING);
        }
        let values = match relation.operator {
            Operator::Eq => Choice::One(binder.of_column(&relation.value, column)?),
            Operator::In => choice(&relation.value, column, &mut binder)?,
            _ => return Err(CqlError::unsupported("A range of a system table is")),
        };
        slots.push((name.clone(), values));
    }
    let limit = match &select.limit {
        Some(term) => Some(binder.slot(term, "[limit]", &CqlType::Int)?),
        None => None,
    };
    check_limit(limit.as_ref())?;
    let key: Option<Vec<u16>> = table
        .partition_key()
        .iter()
        .map(|column| {
            let (_, choice) = slots.iter().find(|(name, _)| *name == column.name)?;
            routing_of(std::slice::from_ref(choice)).first().copied()
        })
        .collect();
    let at = |name: &str| table.columns.iter().position(|column| column.name == name);
    for (name, choice) in slots {
        conditions.extend(at(&name).map(|at| (at, choice)));
    }
    let counted = matches!(selected.as_slice(), [one] if one.kind == Kind::CountRows);
    let index = |item: &Selected| match (&item.source, item.kind) {
        (Source::Key(_) | Source::Clustering(_) | Source::Cell(_), Kind::First) => {
            let found = table.columns.iter().position(|column| source(column) == item.source);
            found.ok_or_else(|| CqlError::invalid("no such column"))
        }
        _ => Err(CqlError::unsupported("A function of a column of a system table is")),
    };
    let columns = if counted {
        None
    } else {
        Some(selected.iter().map(index).collect::<Result<Vec<_>, _>>()?)
    };
    let bind = binder.finish();
    let markers = bind.len();
    let table_shape = Arc::clone(table);
    Ok(Prepared {
        plan: Plan::System(SystemPlan { table: table_shape, conditions, columns, limit, markers }),
        bind,
        pk_indexes: key.unwrap_or_default(),
        result: selected.into_iter().map(|item| item.spec).collect(),
        ..nothing(&table.keyspace, &table.name)
    })
}
