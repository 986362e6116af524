//! What a SELECT asks for → the columns of its result.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Select, Selector},
        prepare::{
            binder::column,
            plan::ColumnSpec,
            source::{Aggregate, Fold, Source},
        },
    },
    schema::{Column, ColumnKind, Table},
    types::CqlType,
};

/// One column of the result.
pub(super) struct Selected {
    pub source: Source,
    pub kind: Fold,
    /// The type of the source.
    ty: CqlType,
    pub spec: ColumnSpec,
}

impl Selected {
    pub(super) fn aggregate(&self) -> Aggregate {
        Aggregate { kind: self.kind, source: self.source.clone(), ty: self.ty.clone() }
    }
}

fn plain(column: &Column) -> Selected {
    let (name, ty) = (column.name.clone(), column.ty.clone());
    let spec = ColumnSpec { name, ty: ty.clone() };
    Selected { source: Source::of(column), kind: Fold::First, ty, spec }
}

pub(super) fn selection(table: &Table, select: &Select) -> Result<Vec<Selected>, CqlError> {
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
            kind: Fold::CountRows,
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
        let (source, kind, ty) = (Source::Token, Fold::First, CqlType::Bigint);
        return Ok(Selected { source, kind, ty, spec: spec("system.", CqlType::Bigint) });
    }
    let [column] = columns.as_slice() else {
        if matches!(name, "writetime" | "ttl") {
            return Err(CqlError::syntax(format!("{name} is of one column")));
        }
        return invalid(format!("Unknown function '{name}'"));
    };
    match name {
        "writetime" | "ttl" => {
            if !matches!(column.kind, ColumnKind::Regular | ColumnKind::Static) {
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
            Ok(Selected { source, kind: Fold::First, ty: ty.clone(), spec: spec("", ty) })
        }
        "totimestamp" | "to_timestamp" | "dateof" | "tounixtimestamp" | "to_unix_timestamp"
        | "unixtimestampof"
            if column.ty == CqlType::Timeuuid =>
        {
            let ty = if name.contains("unix") { CqlType::Bigint } else { CqlType::Timestamp };
            let source = Source::TimeOf(Box::new(Source::of(column)));
            Ok(Selected { source, kind: Fold::First, ty: ty.clone(), spec: spec("system.", ty) })
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
        "count" => (Fold::Count, CqlType::Bigint),
        "min" => (Fold::Min, column.ty.clone()),
        "max" => (Fold::Max, column.ty.clone()),
        "sum" => (Fold::Sum, column.ty.clone()),
        "avg" => (Fold::Avg, column.ty.clone()),
        _ => return invalid(format!("Unknown function '{name}'")),
    };
    let adds = matches!(kind, Fold::Sum | Fold::Avg);
    let orders = matches!(kind, Fold::Min | Fold::Max);
    if (adds && !Aggregate::can_add(&column.ty)) || (orders && !column.ty.has_order()) {
        return Err(CqlError::unsupported(&format!("{name} of type {} is", column.ty)));
    }
    let source = Source::of(column);
    Ok(Selected { source, kind, ty: column.ty.clone(), spec: spec("system.", ty) })
}

/// Partitions are what `DISTINCT` tells apart: only their keys and static columns can be asked for,
/// and of a range of partitions the whole key.
pub(super) fn check_distinct(
    table: &Table,
    selected: &[Selected],
    is_range: bool,
) -> Result<(), CqlError> {
    let of_row = |column: &&Column| {
        let source = Source::of(column);
        selected.iter().any(|item| match (&item.source, &source) {
            (Source::WriteTime(number) | Source::Ttl(number), Source::Cell(other)) => {
                number == other
            }
            (Source::TimeOf(inner), source) => **inner == *source,
            (item, source) => item == source,
        })
    };
    let of_rows =
        |column: &&Column| matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular);
    if let Some(column) = table.columns.iter().filter(of_rows).find(of_row) {
        return invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static \
             columns (not {})",
            column.name
        ));
    }
    let whole = |item: &Selected| item.source == Source::Token && item.kind == Fold::First;
    if !is_range || selected.iter().any(whole) {
        return Ok(());
    }
    match table.partition_key().iter().find(|column| !of_row(column)) {
        None => Ok(()),
        Some(column) => invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            column.name
        )),
    }
}
