//! Changes of collections that are not frozen: what a statement says → what becomes of elements.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Assigned, Deleted, Term},
        prepare::{
            binder::Binder,
            input::{BoundValue, ElementsWrite},
        },
    },
    schema::Column,
    types::CqlType,
};

/// Plans what `SET` does to elements.
pub(super) fn assign(
    column: &Column,
    assigned: &Assigned,
    binder: &mut Binder,
) -> Result<ElementsWrite, CqlError> {
    match assigned {
        Assigned::Value(term) => binder.of_column(term, column).map(ElementsWrite::Replace),
        Assigned::Added(term) => {
            let operation = || format!("{0} = {0} + {term}", column.name);
            if let CqlType::Tuple(_) | CqlType::Udt(_) = column.ty {
                let (operation, name) = (operation(), &column.name);
                return invalid(format!("Invalid operation ({operation}) for tuple column {name}"));
            }
            check(column, "counter", operation)?;
            let added = binder.of_column(term, column);
            if let (CqlType::Map(..), Err(_)) = (&column.ty, &added) {
                let text = format!("Value for a map addition has to be a map, but was: '{term}'");
                return invalid(text);
            }
            added.map(ElementsWrite::Add)
        }
        Assigned::Prepended(term) => {
            let operation = || format!("{0} = {term} - {0}", column.name);
            if !matches!(column.ty, CqlType::List(_)) {
                let (operation, name) = (operation(), &column.name);
                return invalid(format!(
                    "Invalid operation ({operation}) for non list column {name}"
                ));
            }
            check(column, "list", operation)?;
            binder.of_column(term, column).map(ElementsWrite::Prepend)
        }
        Assigned::Subtracted(term) => {
            let operation = || format!("{0} = {0} - {term}", column.name);
            check(column, "counter", operation)?;
            match &column.ty {
                CqlType::List(_) => binder.of_column(term, column).map(ElementsWrite::Discard),
                CqlType::Map(key, _) => {
                    let keys = CqlType::Set(key.clone());
                    let slot = binder.slot(term, &column.name, &keys).map_err(|_| {
                        CqlError::invalid(format!(
                            "Value for a map substraction has to be a set, but was: '{term}'"
                        ))
                    });
                    slot.map(ElementsWrite::Subtract)
                }
                _ => binder.of_column(term, column).map(ElementsWrite::Subtract),
            }
        }
        Assigned::Field(field, term) => assign_field(column, field, term, binder),
        Assigned::Element(key, value) => {
            let operation = || format!("{}[{key}] = {value}", column.name);
            check(column, "collection", operation)?;
            match &column.ty {
                CqlType::Map(of, to) => {
                    let key = binder.slot(key, &format!("key({})", column.name), of)?;
                    let value = binder.slot(value, &format!("value({})", column.name), to)?;
                    Ok(ElementsWrite::Put(key, value))
                }
                CqlType::List(of) => {
                    let index = index(key, column, binder)?;
                    let value = binder.slot(value, &format!("value({})", column.name), of)?;
                    Ok(ElementsWrite::PutAt(index, value))
                }
                _ => invalid(format!(
                    "Invalid operation ({}) for set column {}",
                    operation(),
                    column.name
                )),
            }
        }
    }
}

/// The place of a field of a column that has fields.
fn place(column: &Column, field: &str) -> Result<(u16, CqlType), CqlError> {
    let CqlType::Udt(of) = &column.ty else {
        return invalid(format!("Column {} has no fields", column.name));
    };
    let found = of
        .position(field)
        .and_then(|at| Some((u16::try_from(at).ok()?, of.fields().get(at)?.ty.clone())));
    found.ok_or_else(|| {
        let name = &column.name;
        CqlError::invalid(format!("UDT column {name} does not have a field named {field}"))
    })
}

/// Plans `SET column.field = value`.
fn assign_field(
    column: &Column,
    field: &str,
    term: &Term,
    binder: &mut Binder,
) -> Result<ElementsWrite, CqlError> {
    let name = &column.name;
    let what = match &column.ty {
        CqlType::Udt(_) if column.has_elements() => {
            let (place, ty) = place(column, field)?;
            let slot = binder.slot(term, &format!("{name}.{field}"), &ty)?;
            return Ok(ElementsWrite::PutField(place, slot));
        }
        CqlType::Udt(_) => "frozen UDT",
        _ => "non-UDT",
    };
    invalid(format!("Invalid operation ({name}.{field} = {term}) for {what} column {name}"))
}

/// Plans `DELETE column[key]` and `DELETE column.field`.
pub(super) fn remove(
    column: &Column,
    part: &Deleted,
    binder: &mut Binder,
) -> Result<ElementsWrite, CqlError> {
    let name = &column.name;
    let key = match (part, &column.ty) {
        (Deleted::Whole, _) => return Ok(ElementsWrite::Clear),
        (Deleted::Element(key), _) => key,
        (Deleted::Field(field), CqlType::Udt(_)) if column.has_elements() => {
            return place(column, field).map(|(place, _)| ElementsWrite::RemoveField(place));
        }
        (Deleted::Field(_), CqlType::Udt(_)) => {
            return invalid(format!("Frozen UDT column {name} does not support field deletions"));
        }
        (Deleted::Field(_), _) => {
            return invalid(format!("Invalid field deletion operation for non-UDT column {name}"));
        }
    };
    if !(column.has_elements() && column.ty.is_collection()) {
        let what = if column.ty.is_collection() { "frozen" } else { "non" };
        return invalid(format!("Invalid deletion operation for {what} collection column {name}"));
    }
    match &column.ty {
        CqlType::Set(item) => {
            binder.slot(key, &format!("value({name})"), item).map(ElementsWrite::RemoveItem)
        }
        CqlType::Map(of, _) => {
            binder.slot(key, &format!("key({name})"), of).map(ElementsWrite::RemoveKey)
        }
        _ => index(key, column, binder).map(ElementsWrite::RemoveAt),
    }
}

/// The index of an element of a list.
fn index(term: &Term, column: &Column, binder: &mut Binder) -> Result<BoundValue, CqlError> {
    binder.slot(term, &format!("idx({})", column.name), &CqlType::Int)
}

/// Checks that the column is a collection that is not frozen.
fn check(column: &Column, kind: &str, operation: impl Fn() -> String) -> Result<(), CqlError> {
    if column.has_elements() && column.ty.is_collection() {
        return Ok(());
    }
    let what = match &column.ty {
        CqlType::List(_) if kind == "list" => "frozen list".to_string(),
        ty if ty.is_collection() => "frozen collection".to_string(),
        _ => format!("non {kind}"),
    };
    invalid(format!("Invalid operation ({}) for {what} column {}", operation(), column.name))
}
