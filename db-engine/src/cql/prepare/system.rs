//! SELECT from a system table: statement and table → [`SystemPlan`].

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Select, Target},
        prepare::{
            binder::{Binder, column, routing_of},
            conditions::{FILTERING, choice},
            plan::{Choice, Plan, Prepared, SystemPlan},
            selected::Selected,
            source::{Facet, Fold, Portion, Source, SystemSource},
        },
    },
    schema::{ColumnKind, Table},
    types::CqlType,
};
use std::sync::Arc;

pub(super) fn prepare_system(
    table: &Arc<Table>,
    select: &Select,
    selected: Vec<Selected>,
) -> Result<Prepared, CqlError> {
    if select.per_partition_limit.is_some() {
        return Err(CqlError::unsupported("PER PARTITION LIMIT of a system table is"));
    }
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
    let counted = matches!(selected.as_slice(), [one] if one.kind == Fold::CountRows);
    let source = |item: &Selected| match (&item.source, item.kind) {
        (Source::Moment(function), Fold::First) => Ok(SystemSource::Moment(*function)),
        (
            Source::Key(_)
            | Source::Clustering(_)
            | Source::Cell(_)
            | Source::Elements { facet: Facet::Value, part: Portion::All, .. },
            Fold::First,
        ) => {
            let found = table.columns.iter().position(|column| Source::of(column) == item.source);
            let found = found.ok_or_else(|| CqlError::invalid("no such column"))?;
            Ok(SystemSource::Column(found))
        }
        _ => Err(CqlError::unsupported("A function of a column of a system table is")),
    };
    let columns = if counted {
        None
    } else {
        Some(selected.iter().map(source).collect::<Result<Vec<_>, _>>()?)
    };
    let bind = binder.finish();
    let markers = bind.len();
    let plan = SystemPlan { table: Arc::clone(table), conditions, columns, limit, markers };
    Ok(Prepared {
        bind,
        pk_indexes: key.unwrap_or_default(),
        result: selected.into_iter().map(|item| item.spec).collect(),
        ..Prepared::new(Plan::System(plan), &table.keyspace, &table.name)
    })
}
