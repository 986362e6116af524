//! Literals of user-defined types: `{street: 'High', zip: 12}`.

use super::{
    CqlType, TypeError, collection,
    literal::{Literal, bounded, encode, suits},
    user_type::{UserField, UserType},
};
use std::collections::BTreeMap;

/// The values that a literal or a term gives to fields, by name; of several the last one.
#[must_use]
pub fn given<T>(values: &[(String, T)]) -> BTreeMap<&str, &T> {
    values.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// Checks that a type has all fields that are given values.
///
/// # Errors
/// Worded as Cassandra's, if it has not.
pub fn check_names<T>(of: &UserType, values: &[(String, T)]) -> Result<(), TypeError> {
    let mut unknown = given(values);
    of.fields().iter().for_each(|field| {
        unknown.remove(field.name.as_str());
    });
    match values.iter().find(|(name, _)| unknown.contains_key(name.as_str())) {
        None => Ok(()),
        Some((name, _)) => Err(TypeError(format!(
            "Unknown field '{name}' in value of user defined type {}",
            of.name()
        ))),
    }
}

/// A field whose value cannot be of its type.
pub(super) fn unfit<'t>(
    of: &'t UserType,
    values: &[(String, Literal)],
) -> Option<(&'t str, &'t CqlType)> {
    let values = given(values);
    let is_unfit = |field: &&UserField| {
        values.get(field.name.as_str()).is_some_and(|value| !suits(&field.ty, value))
    };
    let found = of.fields().iter().find(is_unfit)?;
    Some((&found.name, &found.ty))
}

/// The refusal of a value that cannot be of the type of its field.
#[must_use]
pub fn not_of_type(column: &str, field: &str, ty: &CqlType) -> TypeError {
    TypeError(format!("Invalid user type literal for {column}: field {field} is not of type {ty}"))
}

/// The refusal of a value that cannot be of the type of its place in a tuple.
#[must_use]
pub fn not_of_component(column: &str, number: usize, ty: &CqlType) -> TypeError {
    TypeError(format!("Invalid tuple literal for {column}: component {number} is not of type {ty}"))
}

/// Checks that a tuple of these types may have so many values.
///
/// # Errors
/// Worded as Cassandra's, if it may not.
pub fn check_count(of: &[CqlType], count: usize, column: &str) -> Result<(), TypeError> {
    if count <= of.len() {
        return Ok(());
    }
    Err(TypeError(format!(
        "Invalid tuple literal for {column}: too many elements. Type {} expects {} but got {count}",
        CqlType::Tuple(of.to_vec()),
        of.len(),
    )))
}

/// Checks that a literal may be the value of a field.
///
/// # Errors
/// Worded as Cassandra's, if it may not.
pub fn check_field(
    value: &Literal,
    column: &str,
    field: &str,
    ty: &CqlType,
) -> Result<(), TypeError> {
    if suits(ty, value) { Ok(()) } else { Err(not_of_type(column, field, ty)) }
}

pub(super) fn encode_named(
    of: &UserType,
    values: &[(String, Literal)],
    column: &str,
) -> Result<Vec<u8>, TypeError> {
    if let Some((field, ty)) = unfit(of, values) {
        return Err(not_of_type(column, field, ty));
    }
    let (mut out, mut bytes) = (Vec::new(), 0);
    let by_name = given(values);
    for field in of.fields() {
        let value = by_name.get(field.name.as_str()).map(|value| {
            let name = format!("{column}.{}", field.name);
            encode(&field.ty, value, &name)?.map(|value| bounded(value, &mut bytes)).transpose()
        });
        collection::put_item(&mut out, value.transpose()?.flatten().as_deref());
    }
    check_names(of, values)?;
    Ok(out)
}
