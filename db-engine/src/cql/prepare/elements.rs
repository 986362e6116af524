//! Changes of collections that are not frozen: what a statement says → what becomes of elements.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Assigned, Term},
        prepare::{binder::Binder, input::ElementsWrite},
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
            if let CqlType::Tuple(_) = column.ty {
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
                CqlType::List(_) => Err(CqlError::unsupported("Removing values from a list is")),
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
        Assigned::Element(key, value) => {
            let operation = || format!("{}[{key}] = {value}", column.name);
            check(column, "collection", operation)?;
            match &column.ty {
                CqlType::Map(of, to) => {
                    let key = binder.slot(key, &format!("key({})", column.name), of)?;
                    let value = binder.slot(value, &format!("value({})", column.name), to)?;
                    Ok(ElementsWrite::Put(key, value))
                }
                CqlType::List(_) => {
                    Err(CqlError::unsupported("Writing to a list by the index of an element is"))
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

/// Plans `DELETE column[key]`.
pub(super) fn remove(
    column: &Column,
    key: &Term,
    binder: &mut Binder,
) -> Result<ElementsWrite, CqlError> {
    let name = &column.name;
    if !column.has_elements() {
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
        _ => Err(CqlError::unsupported("Deleting from a list by the index of an element is")),
    }
}

/// Checks that the column is a collection that is not frozen.
fn check(column: &Column, kind: &str, operation: impl Fn() -> String) -> Result<(), CqlError> {
    if column.has_elements() {
        return Ok(());
    }
    let what = match &column.ty {
        CqlType::List(_) if kind == "list" => "frozen list".to_string(),
        ty if ty.is_collection() => "frozen collection".to_string(),
        _ => format!("non {kind}"),
    };
    invalid(format!("Invalid operation ({}) for {what} column {}", operation(), column.name))
}
