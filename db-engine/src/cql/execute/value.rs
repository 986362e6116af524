//! Bound values: looked up, checked and brought into the form in which they are stored.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{context::BindContext, functions},
        prepare::{
            input::{BoundValue, Operand},
            plan::Prepared,
        },
    },
    mutation::{KEY_BYTES_MAX, token::token},
    store::WRITE_BYTES_MAX,
    types::{
        CqlType, Value, collection,
        validate::{is_stored_as_given, stored, validate},
    },
};
use std::borrow::Cow;

const NULL_TOKEN: &str = "Invalid null token value";
const UNSET_TOKEN: &str = "Invalid unset value for argument in call to function token";

/// A value that was looked up.
pub(super) enum Found<'a> {
    Null,
    Unset,
    Bytes(Cow<'a, [u8]>),
}

impl BoundValue {
    /// The value, if it is bound to a marker, legal, and of a type that is stored as it is given:
    /// so is nearly every value of a measurement.
    fn find_plain<'a>(&self, values: &[Value<'a>]) -> Option<&'a [u8]> {
        let Operand::Bound(index) = &self.operand else { return None };
        let Some(Value::Bytes(bytes)) = values.get(usize::from(*index)) else { return None };
        is_stored_as_given(&self.ty, bytes).then_some(bytes)
    }

    /// Looks the value up and checks it.
    #[inline]
    pub(super) fn find<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Found<'a>, CqlError> {
        match self.find_plain(values) {
            Some(bytes) => Ok(Found::Bytes(Cow::Borrowed(bytes))),
            None => self.find_any(values, context),
        }
    }

    fn find_any<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Found<'a>, CqlError> {
        match &self.operand {
            Operand::Bound(index) => match values.get(usize::from(*index)) {
                Some(Value::Bytes(bytes)) => Ok(Found::Bytes(stored(&self.ty, bytes)?)),
                Some(Value::Large(large)) => Ok(Found::Bytes(match large.stored()? {
                    Some(bytes) => Cow::Borrowed(bytes),
                    None => stored(&self.ty, large.checked()?)?,
                })),
                Some(Value::Null) => Ok(Found::Null),
                Some(Value::Unset) => Ok(Found::Unset),
                None => Err(CqlError::invalid("Invalid amount of bind variables")),
            },
            Operand::Constant(bytes) => Ok(Found::Bytes(Cow::Borrowed(bytes))),
            Operand::Null => Ok(Found::Null),
            Operand::Call(function, argument) => {
                let value = functions::call(*function, argument, values, context)?;
                Ok(value.map_or(Found::Null, |bytes| Found::Bytes(Cow::Owned(bytes))))
            }
            Operand::Token(slots) => {
                for slot in slots {
                    match slot.find(values, context)? {
                        Found::Null => return Err(CqlError::invalid(NULL_TOKEN)),
                        Found::Unset => return Err(CqlError::invalid(UNSET_TOKEN)),
                        Found::Bytes(_) => {}
                    }
                }
                let mut key = Vec::new();
                put_key(slots, values, context, &mut key)?;
                Ok(Found::Bytes(Cow::Owned(token(&key).0.to_be_bytes().to_vec())))
            }
            Operand::Fields(fields) => {
                let bytes = joined(&self.ty, fields, values, context)?;
                Ok(Found::Bytes(Cow::Owned(bytes)))
            }
            Operand::Items(items) => {
                let bytes = tuple(items, values, context)?;
                Ok(Found::Bytes(Cow::Owned(bytes)))
            }
        }
    }

    /// As [`BoundValue::find`], but of a set or map in any order, and with repetitions.
    pub(super) fn find_as_given<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Found<'a>, CqlError> {
        if let Operand::Bound(index) = &self.operand {
            match values.get(usize::from(*index)) {
                Some(Value::Bytes(bytes)) => {
                    validate(&self.ty, bytes)?;
                    return Ok(Found::Bytes(Cow::Borrowed(bytes)));
                }
                Some(Value::Large(large)) => {
                    return Ok(Found::Bytes(Cow::Borrowed(large.checked()?)));
                }
                _ => {}
            }
        }
        self.find(values, context)
    }

    /// Looks up a value that must be there; `words` say what is wrong with one that is null or
    /// unset.
    pub(super) fn find_or_refuse<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
        words: impl Fn(&str) -> String,
    ) -> Result<Cow<'a, [u8]>, CqlError> {
        match self.find(values, context)? {
            Found::Bytes(bytes) => Ok(bytes),
            Found::Null => invalid(words("null")),
            Found::Unset => invalid(words("unset")),
        }
    }

    /// Looks up the value of a key column, which must be there.
    #[inline]
    pub(super) fn find_key<'a>(
        &'a self,
        values: &[Value<'a>],
        context: &BindContext,
    ) -> Result<Cow<'a, [u8]>, CqlError> {
        match self.find(values, context)? {
            Found::Bytes(bytes) => Ok(bytes),
            Found::Null => Err(self.missing("null value in condition")),
            Found::Unset => Err(self.missing("unset value")),
        }
    }

    #[cold]
    fn missing(&self, what: &str) -> CqlError {
        CqlError::invalid(format!("Invalid {what} for column {}", self.name))
    }
}

/// The value of a user-defined type with these fields, each in its stored form.
fn joined(
    ty: &CqlType,
    fields: &[(usize, BoundValue)],
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Vec<u8>, CqlError> {
    let CqlType::Udt(of) = ty else { return invalid("not a user-defined type") };
    let (mut out, mut fields) = (Vec::new(), fields.iter().peekable());
    for place in 0..of.fields().len() {
        let Some((_, field)) = fields.next_if(|(at, _)| *at == place) else {
            collection::put_item(&mut out, None);
            continue;
        };
        match field.find(values, context)? {
            Found::Bytes(bytes) => {
                check_length(out.len() + bytes.len())?;
                collection::put_item(&mut out, Some(&bytes));
            }
            Found::Null => collection::put_item(&mut out, None),
            Found::Unset => {
                let name = of.fields().get(place).map_or("", |field| &field.name);
                return invalid(format!(
                    "Invalid unset value for field '{name}' of user defined type {}",
                    of.name()
                ));
            }
        }
    }
    Ok(out)
}

/// The tuple of these, each in its stored form.
fn tuple(
    items: &[BoundValue],
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Vec<u8>, CqlError> {
    let mut out = Vec::new();
    for (number, item) in items.iter().enumerate() {
        match item.find(values, context)? {
            Found::Bytes(bytes) => {
                check_length(out.len() + bytes.len())?;
                collection::put_item(&mut out, Some(&bytes));
            }
            Found::Null => collection::put_item(&mut out, None),
            Found::Unset => {
                return invalid(format!("Invalid unset value for tuple field number {number}"));
            }
        }
    }
    Ok(out)
}

/// Checks that mutations of so many bytes may become larger. A few bytes of a batch can stand for
/// a long constant of its statement, and a name for one value in many columns.
#[inline]
pub(super) fn check_length(bytes: usize) -> Result<(), CqlError> {
    if bytes <= WRITE_BYTES_MAX { Ok(()) } else { Err(too_large()) }
}

#[cold]
pub(super) fn too_large() -> CqlError {
    CqlError::invalid(format!(
        "Mutation is larger than the maximum size of {WRITE_BYTES_MAX} bytes"
    ))
}

impl Prepared {
    /// Checks that as many values are given as there are markers.
    ///
    /// # Errors
    /// In Cassandra's words, if not.
    pub fn check_count(&self, values: usize) -> Result<(), CqlError> {
        check_values(values, self.bind.len())
    }
}

/// Checks that as many values are given as there are markers.
pub(super) fn check_count(values: &[Value<'_>], markers: usize) -> Result<(), CqlError> {
    check_values(values.len(), markers)
}

fn check_values(values: usize, markers: usize) -> Result<(), CqlError> {
    if values == markers { Ok(()) } else { Err(miscounted(values, markers)) }
}

#[cold]
fn miscounted(values: usize, markers: usize) -> CqlError {
    CqlError::invalid(format!(
        "there were {markers} markers(?) in CQL but {values} bound variables"
    ))
}

/// Serializes a partition key: the value of its one column, or each value with its length (u16)
/// before it and a zero after it.
pub(super) fn put_key(
    slots: &[BoundValue],
    values: &[Value<'_>],
    context: &BindContext,
    out: &mut Vec<u8>,
) -> Result<(), CqlError> {
    out.clear();
    if let [slot] = slots {
        let value = slot.find_key(values, context)?;
        check_not_empty(&value)?;
        check_key(value.len())?;
        out.extend_from_slice(&value);
        return Ok(());
    }
    for slot in slots {
        let value = slot.find_key(values, context)?;
        put_component(&value, out)?;
    }
    check_composite(out.len(), slots.len())
}

/// A partition key has bytes; that of several columns always does.
pub(super) fn check_not_empty(key: &[u8]) -> Result<(), CqlError> {
    if key.is_empty() { Err(CqlError::invalid("Key may not be empty")) } else { Ok(()) }
}

/// Bytes around the value of a component: its length and a zero.
const COMPONENT_BYTES: usize = 3;

/// Appends one component of a composite partition key.
pub(super) fn put_component(value: &[u8], out: &mut Vec<u8>) -> Result<(), CqlError> {
    let Ok(length) = u16::try_from(value.len()) else {
        return Err(too_long(value.len()));
    };
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    out.push(0);
    Ok(())
}

#[cold]
fn too_long(length: usize) -> CqlError {
    CqlError::invalid(format!("Key length of {length} is longer than maximum of {KEY_BYTES_MAX}"))
}

/// Checks how many bytes the values of a partition key or of a clustering key have.
pub(super) fn check_key(length: usize) -> Result<(), CqlError> {
    if length > KEY_BYTES_MAX { Err(too_long(length)) } else { Ok(()) }
}

/// Checks the length of a partition key of so many components. As in Cassandra, the values are
/// judged first, and then what stands around them.
pub(super) fn check_composite(length: usize, components: usize) -> Result<(), CqlError> {
    check_key(length - COMPONENT_BYTES * components)?;
    check_key(length)
}

pub(super) fn positive(
    slot: &BoundValue,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Option<u64>, CqlError> {
    let bytes = match slot.find(values, context)? {
        Found::Unset => return Ok(None),
        Found::Null => return Err(CqlError::invalid("Invalid null value of limit")),
        Found::Bytes(bytes) => bytes,
    };
    let Ok(limit) = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes) else {
        return Err(CqlError::invalid("Invalid value of limit"));
    };
    match u64::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => Err(CqlError::invalid("LIMIT must be strictly positive")),
    }
}
