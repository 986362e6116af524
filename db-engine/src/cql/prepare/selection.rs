//! What a SELECT asks for → the columns of its result.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Select, Selector, Term},
        prepare::{
            binder::{Binder, column},
            conditions::check_token_arguments,
            input::{Function, KeyPurpose, PartKey},
            plan::ColumnSpec,
            selected::{
                Selected, aggregate, check_facet, facet, facet_of, is_function, unknown_function,
            },
            selected_field::SelectedField,
            source::{Facet, Fold, Portion, Source},
        },
    },
    schema::{Column, ColumnKind, Table, system::is_system},
    types::CqlType,
};

fn plain(column: &Column) -> Selected {
    let (name, ty) = (column.name.clone(), column.ty.clone());
    let spec = ColumnSpec { name, ty: ty.clone() };
    Selected { source: Source::of(column), kind: Fold::First, ty, spec }
}

/// Whether static columns are asked for, and of the rest no more than the partition key.
///
/// # Errors
/// If a column that must be looked at for that is not there: as early as by Cassandra.
pub(super) fn selects_static_only(table: &Table, select: &Select) -> Result<bool, CqlError> {
    let of_rows = |kind| matches!(kind, ColumnKind::Clustering | ColumnKind::Regular);
    Ok(table.has_static_columns()
        && asks_for(table, select, |kind| kind == ColumnKind::Static)?
        && !asks_for(table, select, of_rows)?)
}

fn asks_for(
    table: &Table,
    select: &Select,
    is_one: impl Fn(ColumnKind) -> bool,
) -> Result<bool, CqlError> {
    for (selector, _) in &select.selectors {
        let (mut names, mut found) = (Vec::new(), false);
        push_names(selector, &mut names);
        for name in names {
            found |= is_one(column(table, name)?.kind);
        }
        check_functions(selector)?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_functions(selector: &Selector) -> Result<(), CqlError> {
    let Selector::Call { name, arguments } = selector else { return Ok(()) };
    arguments.iter().try_for_each(check_functions)?;
    check_call(name, arguments.len())
}

/// Checks that there is a function of this name, and that it takes so many arguments.
fn check_call(name: &str, arguments: usize) -> Result<(), CqlError> {
    match name {
        "count" if arguments != 1 => invalid(format!(
            "Invalid number of arguments in call to function system.count: 1 required but \
             {arguments} provided"
        )),
        "min" | "max" if arguments != 1 => {
            invalid(format!("Invalid number of arguments for function system.{name}(any)"))
        }
        "sum" | "avg" if arguments != 1 => invalid(format!(
            "Invalid call to function {name}, none of its type signatures match: it is of one \
             number"
        )),
        _ if is_function(name) => Ok(()),
        _ => unknown_function(name),
    }
}

fn push_names<'a>(selector: &'a Selector, names: &mut Vec<&'a str>) {
    match selector {
        Selector::CountAll => {}
        Selector::Column(name)
        | Selector::Element(name, _)
        | Selector::Slice(name, ..)
        | Selector::Field(name, _) => names.push(name),
        Selector::Call { arguments, .. } => {
            for argument in arguments {
                push_names(argument, names);
            }
        }
    }
}

/// What is asked for. The keys of elements are added to `parts`.
pub(super) fn selection(
    table: &Table,
    select: &Select,
    binder: &mut Binder,
    parts: &mut Vec<PartKey>,
) -> Result<Vec<Selected>, CqlError> {
    if select.selectors.is_empty() {
        return Ok(table.columns.iter().map(plain).collect());
    }
    let mut out = Vec::with_capacity(select.selectors.len());
    for (selector, alias) in &select.selectors {
        let mut item = selected(table, selector, binder, parts)?;
        if let Some(alias) = alias {
            item.spec.name.clone_from(alias);
        }
        out.push(item);
    }
    Ok(out)
}

fn selected(
    table: &Table,
    selector: &Selector,
    binder: &mut Binder,
    parts: &mut Vec<PartKey>,
) -> Result<Selected, CqlError> {
    match selector {
        Selector::Column(name) => Ok(plain(column(table, name)?)),
        Selector::CountAll => Ok(Selected {
            source: Source::Token,
            kind: Fold::CountRows,
            ty: CqlType::Bigint,
            spec: ColumnSpec { name: "count".into(), ty: CqlType::Bigint },
        }),
        Selector::Element(..) | Selector::Slice(..) => {
            let selected = SelectedPart::new(table, selector, binder, parts)?;
            Ok(selected.facet(Facet::Value))
        }
        Selector::Field(name, fields) => Ok(SelectedField::new(table, name, fields)?.value()),
        Selector::Call { name, arguments } => {
            if let Some(moment) = moment(name, arguments).filter(|_| is_system(&table.keyspace)) {
                return Ok(moment);
            }
            let [argument] = arguments.as_slice() else { return call(table, name, arguments) };
            if let Selector::Element(of, _) | Selector::Slice(of, ..) | Selector::Field(of, _) =
                argument
                && facet(name).is_some()
            {
                check_facet(column(table, of)?, name)?;
            }
            match argument {
                Selector::Field(column, fields) => {
                    SelectedField::new(table, column, fields)?.call(name)
                }
                Selector::Element(..) | Selector::Slice(..) => {
                    SelectedPart::new(table, argument, binder, parts)?.call(name)
                }
                _ => call(table, name, arguments),
            }
        }
    }
}

/// `now()`, `toTimestamp(now())` and their like.
fn moment(name: &str, arguments: &[Selector]) -> Option<Selected> {
    let (found, of) = match arguments {
        [] => (Function::find(name, 0), ""),
        [Selector::Call { name: inner, arguments }] if inner == "now" && arguments.is_empty() => {
            (Function::of_now(name), "system.now()")
        }
        _ => return None,
    };
    let (function, ty) = found?;
    let spec = ColumnSpec { name: format!("system.{name}({of})"), ty: ty.clone() };
    Some(Selected::new(Source::Moment(function), Fold::First, ty, spec))
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
        check_token_arguments(table, names.len())?;
        let pairs = || columns.iter().zip(table.partition_key()).enumerate();
        if let Some((at, (given, wanted))) = pairs().find(|(_, (one, other))| one.ty != other.ty) {
            return invalid(format!(
                "Type error: {} cannot be passed as argument {at} of function system.token of type \
                 {}",
                given.name, wanted.ty
            ));
        }
        if pairs().any(|(_, (given, wanted))| given.name != wanted.name) {
            return Err(CqlError::unsupported("token() besides a whole partition key is"));
        }
        let (source, kind, ty) = (Source::Token, Fold::First, CqlType::Bigint);
        return Ok(Selected { source, kind, ty, spec: spec("system.", CqlType::Bigint) });
    }
    check_call(name, columns.len())?;
    let [column] = columns.as_slice() else { return unknown_function(name) };
    if let Some(facet) = facet(name) {
        check_facet(column, name)?;
        let (source, ty) = facet_of(column, facet, Portion::All);
        return Ok(Selected { source, kind: Fold::First, ty: ty.clone(), spec: spec("", ty) });
    }
    match name {
        "totimestamp" | "to_timestamp" | "dateof" | "tounixtimestamp" | "to_unix_timestamp"
        | "unixtimestampof"
            if column.ty == CqlType::Timeuuid =>
        {
            let ty = if name.contains("unix") { CqlType::Bigint } else { CqlType::Timestamp };
            let source = Source::TimeOf(Box::new(Source::of(column)));
            Ok(Selected { source, kind: Fold::First, ty: ty.clone(), spec: spec("system.", ty) })
        }
        _ => aggregate(name, Source::of(column), &column.ty, spec),
    }
}

/// An element or a slice of a column.
struct SelectedPart<'a> {
    column: &'a Column,
    part: Portion,
    ty: CqlType,
    /// As the statement says it.
    name: String,
}

impl<'a> SelectedPart<'a> {
    fn new(
        table: &'a Table,
        selector: &Selector,
        binder: &mut Binder,
        parts: &mut Vec<PartKey>,
    ) -> Result<Self, CqlError> {
        let (name, purpose) = match selector {
            Selector::Element(name, _) => (name, KeyPurpose::Element),
            Selector::Slice(name, ..) => (name, KeyPurpose::Slice),
            Selector::Column(_)
            | Selector::CountAll
            | Selector::Field(..)
            | Selector::Call { .. } => return invalid("not a part of a column"),
        };
        let column = column(table, name)?;
        let (of, key, value) = match &column.ty {
            CqlType::Set(item) => ("value", item, item),
            CqlType::Map(key, value) => ("key", key, value),
            CqlType::List(_) => {
                let kind = if purpose == KeyPurpose::Slice { "Slice" } else { "Element" };
                return invalid(format!(
                    "{kind} selection is only allowed on sets and maps, but {name} is a list"
                ));
            }
            _ => {
                return invalid(match purpose {
                    KeyPurpose::Slice => {
                        format!(
                            "Invalid slice selection: {name} of type {} is not a collection",
                            column.type_name()
                        )
                    }
                    _ => format!(
                        "Invalid element selection: {name} is of type {} is not a collection",
                        column.type_name()
                    ),
                });
            }
        };
        let mut bound = |term: &Term| {
            let slot = binder.slot(term, &format!("{of}({name})"), key)?;
            parts.push(PartKey { slot, purpose });
            Ok::<_, CqlError>(parts.len() - 1)
        };
        let text = |term: &Option<Term>| term.as_ref().map(Term::to_string).unwrap_or_default();
        let (part, ty, name) = match selector {
            Selector::Slice(_, from, to) => {
                let name = format!("{name}[{}..{}]", text(from), text(to));
                let from = from.as_ref().map(&mut bound).transpose()?;
                let to = to.as_ref().map(bound).transpose()?;
                (Portion::Slice(from, to), column.ty.clone(), name)
            }
            Selector::Element(_, term) => {
                (Portion::One(bound(term)?), (**value).clone(), format!("{name}[{term}]"))
            }
            Selector::Column(_)
            | Selector::CountAll
            | Selector::Field(..)
            | Selector::Call { .. } => return invalid("not a part of a column"),
        };
        Ok(Self { column, part, ty, name })
    }

    fn facet(self, facet: Facet) -> Selected {
        let Self { column, part, ty, name } = self;
        let (source, ty) = match facet {
            Facet::Value if column.has_elements() => {
                let (number, of) = (column.number, column.ty.clone());
                (Source::Elements { column: number, ty: of, facet, part }, ty)
            }
            Facet::Value => {
                (Source::PartOf(Box::new(Source::of(column)), column.ty.clone(), part), ty)
            }
            facet => facet_of(column, facet, part),
        };
        Selected { source, kind: Fold::First, ty: ty.clone(), spec: ColumnSpec { name, ty } }
    }

    /// A function of it.
    fn call(mut self, function: &str) -> Result<Selected, CqlError> {
        let Some(facet) = facet(function) else {
            if !is_function(function) {
                return unknown_function(function);
            }
            return Err(CqlError::unsupported("A function of a part of a column is"));
        };
        self.name = format!("{function}({})", self.name);
        let Self { column, part, .. } = self;
        let mut selected = self.facet(facet);
        if !column.has_elements() {
            let whole = Box::new(Source::of(column));
            let value = Box::new(Source::PartOf(whole, column.ty.clone(), part));
            selected.source = Source::IfThere(value, Box::new(selected.source));
        }
        Ok(selected)
    }
}

/// Partitions are what `DISTINCT` tells apart: only their keys and static columns can be asked for,
/// and of a range of partitions the whole key. What rows are put in order by is asked for as well.
pub(super) fn check_distinct(
    table: &Table,
    selected: &[Selected],
    ordering: &[&Column],
    is_range: bool,
) -> Result<(), CqlError> {
    let is_of =
        |item: &Selected, column: &Column| match (item.source.innermost(), &Source::of(column)) {
            (Source::WriteTime(number) | Source::Ttl(number), Source::Cell(other)) => {
                number == other
            }
            (Source::Elements { column, .. }, Source::Elements { column: other, .. }) => {
                column == other
            }
            (item, source) => item == source,
        };
    let of_rows =
        |column: &&Column| matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular);
    let of_row = |item| table.columns.iter().filter(of_rows).find(|column| is_of(item, column));
    let of_order = || ordering.iter().copied().find(of_rows);
    if let Some(column) = selected.iter().find_map(of_row).or_else(of_order) {
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
    let is_asked = |column: &Column| {
        selected.iter().any(|item| is_of(item, column))
            || ordering.iter().any(|other| other.name == column.name)
    };
    match table.partition_key().iter().find(|column| !is_asked(column)) {
        None => Ok(()),
        Some(column) => invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            column.name
        )),
    }
}
