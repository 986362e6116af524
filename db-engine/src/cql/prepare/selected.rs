//! One column of the result of a SELECT: where it comes from and what it is.

use crate::{
    cql::{
        error::{CqlError, invalid},
        prepare::{
            input::Function,
            plan::ColumnSpec,
            source::{Aggregate, Facet, Fold, Portion, Source},
        },
    },
    schema::{Column, ColumnKind},
    types::CqlType,
};

/// One column of the result.
pub(super) struct Selected {
    pub source: Source,
    pub kind: Fold,
    /// The type of the source.
    pub ty: CqlType,
    pub spec: ColumnSpec,
}

impl Selected {
    pub(super) fn new(source: Source, kind: Fold, ty: CqlType, spec: ColumnSpec) -> Self {
        Self { source, kind, ty, spec }
    }

    pub(super) fn aggregate(&self) -> Aggregate {
        Aggregate { kind: self.kind, source: self.source.clone(), ty: self.ty.clone() }
    }
}

/// What a function of this name asks of a column, if it is one of those.
pub(super) fn facet(function: &str) -> Option<Facet> {
    Some(match function {
        "writetime" => Facet::WriteTime,
        "maxwritetime" => Facet::MaxWriteTime,
        "ttl" => Facet::Ttl,
        _ => return None,
    })
}

/// Whether there is a function of this name.
pub(super) fn is_function(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "token",
        "count",
        "min",
        "max",
        "sum",
        "avg",
        "totimestamp",
        "to_timestamp",
        "dateof",
        "tounixtimestamp",
        "to_unix_timestamp",
        "unixtimestampof",
    ];
    facet(name).is_some() || NAMES.contains(&name)
}

pub(super) fn unknown_function<T>(name: &str) -> Result<T, CqlError> {
    // Known in place of a value alone.
    if Function::find(name, 0).is_some() || matches!(name, "todate" | "to_date") {
        return Err(CqlError::unsupported(&format!("The function {name} in a selection is")));
    }
    invalid(format!("Unknown function '{name}'"))
}

/// Refuses to ask that of columns of the key.
pub(super) fn check_facet(column: &Column, function: &str) -> Result<(), CqlError> {
    if matches!(column.kind, ColumnKind::Regular | ColumnKind::Static) {
        return Ok(());
    }
    invalid(format!("Cannot use selection function {function} on PRIMARY KEY part {}", column.name))
}

/// What is asked of a column with cells, and its type.
pub(super) fn facet_of(column: &Column, facet: Facet, part: Portion) -> (Source, CqlType) {
    let one = if facet == Facet::Ttl { CqlType::Int } else { CqlType::Bigint };
    if !column.has_elements() {
        let source = match facet {
            Facet::Ttl => Source::Ttl(column.number),
            _ => Source::WriteTime(column.number),
        };
        return (source, one);
    }
    let is_one =
        facet == Facet::MaxWriteTime || matches!(part, Portion::One(_) | Portion::Field(_));
    let ty = if is_one { one } else { CqlType::List(Box::new(one)) };
    (Source::Elements { column: column.number, ty: column.ty.clone(), facet, part }, ty)
}

pub(super) fn aggregate(
    name: &str,
    source: Source,
    of: &CqlType,
    spec: impl Fn(&str, CqlType) -> ColumnSpec,
) -> Result<Selected, CqlError> {
    let (kind, ty) = match name {
        "count" => (Fold::Count, CqlType::Bigint),
        "min" => (Fold::Min, of.clone()),
        "max" => (Fold::Max, of.clone()),
        "sum" => (Fold::Sum, of.clone()),
        "avg" => (Fold::Avg, of.clone()),
        _ => return unknown_function(name),
    };
    let adds = matches!(kind, Fold::Sum | Fold::Avg);
    let orders = matches!(kind, Fold::Min | Fold::Max);
    if (adds && !Aggregate::can_add(of)) || (orders && !of.has_order()) {
        return Err(CqlError::unsupported(&format!("{name} of type {of} is")));
    }
    Ok(Selected { source, kind, ty: of.clone(), spec: spec("system.", ty) })
}
