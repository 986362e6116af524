//! The conditions of an `IF` on columns: their values, and whether they hold.

use crate::{
    cql::{
        error::{CqlError, invalid},
        execute::{context::BindContext, project::Projector, value::Found},
        parse::ast::Operator,
        prepare::{
            plan::{Choice, Guard, Prior, RequiredPart, Requirement},
            source::Source,
        },
    },
    schema::Column,
    types::{CqlType, Value, collection::Elements, comparable},
};

/// A condition with its values known.
pub(super) struct BoundRequirement<'a> {
    requirement: &'a Requirement,
    column: &'a Column,
    part: BoundPart,
    /// The values one of which it asks for; none is null.
    wanted: Vec<Option<Vec<u8>>>,
}

/// The part of a column that is asked for.
enum BoundPart {
    Whole,
    Index(usize),
    /// The value of the key with this code.
    Key(Vec<u8>),
    Field(usize),
}

impl Prior {
    /// The conditions on columns, in their order.
    ///
    /// # Errors
    /// In Cassandra's words, if a value does not suit its condition, whatever there is.
    pub(super) fn requirements(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<BoundRequirement<'_>>, CqlError> {
        let Some(Guard::Columns(all)) = &self.guard else { return Ok(Vec::new()) };
        let column = |requirement: &Requirement| self.table.columns.get(requirement.column);
        let known = all.iter().filter_map(|one| Some((one, column(one)?)));
        known.map(|(one, column)| BoundRequirement::new(one, column, values, context)).collect()
    }
}

impl<'a> BoundRequirement<'a> {
    fn new(
        requirement: &'a Requirement,
        column: &'a Column,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Self, CqlError> {
        let part = requirement.part(&column.ty, values, context)?;
        let mut wanted = requirement.choice.wanted(values, context)?;
        // Storage does not know a collection without elements from none.
        if column.has_elements() && column.ty.is_collection() && requirement.is_of_value() {
            for value in &mut wanted {
                if value.as_ref().is_some_and(|bytes| Elements(bytes).count() == Ok(0)) {
                    requirement.check_empty(&column.ty)?;
                    *value = None;
                }
            }
        }
        Ok(Self { requirement, column, part, wanted })
    }

    /// Whether it holds for a row.
    pub(super) fn is_met(&self, row: &mut Option<Projector<'_>>) -> Result<bool, CqlError> {
        let mut whole = Vec::new();
        let found = row.as_mut().and_then(|row| {
            row.value(&Source::of(self.column), &mut whole)?;
            row.count(whole.len());
            Some(())
        });
        let current = found.and_then(|()| self.part.of(&self.column.ty, &whole));
        if let Some(current) = current
            && matches!(self.requirement.operator, Operator::Contains | Operator::ContainsKey)
        {
            return self.is_contained(current);
        }
        let current_code = current.map(|value| self.code(value)).transpose()?;
        for wanted in &self.wanted {
            let wanted = wanted.as_ref().map(|value| self.code(value)).transpose()?;
            if self.requirement.operator.holds(current_code.as_ref(), wanted.as_ref())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A value as it compares.
    fn code(&self, value: &[u8]) -> Result<Vec<u8>, CqlError> {
        let mut code = Vec::new();
        let ty = &self.requirement.ty;
        comparable::encode(ty, false, value, &mut code).map_err(CqlError::incomparable)?;
        Ok(code)
    }

    /// Whether what is asked for is in this collection.
    fn is_contained(&self, collection: &[u8]) -> Result<bool, CqlError> {
        let operator = self.requirement.operator;
        let Some(Some(wanted)) = self.wanted.first() else { return operator.refuse_null() };
        let (wanted, is_map) = (self.code(wanted)?, matches!(self.column.ty, CqlType::Map(..)));
        let mut items = Elements(collection);
        for _ in 0..items.count().map_err(broken)? {
            let mut item = items.item().map_err(broken)?;
            if is_map {
                let value = items.item().map_err(broken)?;
                item = if operator == Operator::Contains { value } else { item };
            }
            if self.code(item.unwrap_or_default())? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn broken<T>(_: T) -> CqlError {
    CqlError::invalid("Not enough bytes to read a collection")
}

impl Requirement {
    /// Whether it asks for the value of the column, and not for something in it.
    fn is_of_value(&self) -> bool {
        matches!(self.part, RequiredPart::Whole)
            && !matches!(self.operator, Operator::Contains | Operator::ContainsKey)
    }

    /// Checks that the condition may name a collection without elements.
    fn check_empty(&self, ty: &CqlType) -> Result<(), CqlError> {
        if matches!(self.operator, Operator::Eq | Operator::Ne | Operator::In) {
            return Ok(());
        }
        let what = match ty {
            CqlType::List(_) => "list",
            CqlType::Set(_) => "set",
            _ => "map",
        };
        let operator = self.operator.text();
        invalid(format!("Invalid comparison with an empty {what} for operator \"{operator}\""))
    }

    fn part(
        &self,
        ty: &CqlType,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<BoundPart, CqlError> {
        match (&self.part, ty) {
            (RequiredPart::Index(slot), _) => {
                let words = |what: &str| format!("Invalid {what} value for list element access");
                let bytes = slot.find_or_refuse(values, context, words)?;
                let index = <[u8; 4]>::try_from(&*bytes).map(i32::from_be_bytes);
                let Ok(index) = index else { return invalid(words("null")) };
                usize::try_from(index)
                    .map(BoundPart::Index)
                    .map_err(|_| CqlError::invalid(format!("Invalid negative list index {index}")))
            }
            (RequiredPart::Key(slot), CqlType::Map(by, _)) => {
                let words = |what: &str| format!("Invalid {what} value for map element access");
                let (key, mut code) = (slot.find_or_refuse(values, context, words)?, Vec::new());
                comparable::encode(by, false, &key, &mut code)?;
                Ok(BoundPart::Key(code))
            }
            (RequiredPart::Field(place), _) => Ok(BoundPart::Field(*place)),
            (RequiredPart::Whole | RequiredPart::Key(_), _) => Ok(BoundPart::Whole),
        }
    }
}

impl BoundPart {
    /// The part of this value of a column, if it has it.
    fn of<'v>(&self, ty: &CqlType, whole: &'v [u8]) -> Option<&'v [u8]> {
        let mut items = Elements(whole);
        match self {
            Self::Whole => Some(whole),
            Self::Index(index) => {
                let count = usize::try_from(items.count().ok()?).ok()?;
                if *index >= count {
                    return None;
                }
                for _ in 0..*index {
                    items.item().ok()?;
                }
                items.item().ok()?
            }
            Self::Key(wanted) => {
                let CqlType::Map(by, _) = ty else { return None };
                let mut code = Vec::new();
                for _ in 0..items.count().ok()? {
                    let (key, value) = (items.item().ok()?, items.item().ok()?);
                    code.clear();
                    comparable::encode(by, false, key?, &mut code).ok()?;
                    if code == *wanted {
                        return value;
                    }
                }
                None
            }
            Self::Field(place) => {
                for _ in 0..*place {
                    items.item().ok()?;
                }
                items.item().ok()?
            }
        }
    }
}

impl Operator {
    fn refuse_null<T>(self) -> Result<T, CqlError> {
        let operator = self.text();
        invalid(format!("Invalid comparison with null for operator \"{operator}\""))
    }

    /// Whether a value is as it is wanted to be, by their codes. What is not there is equal to
    /// null alone.
    fn holds(self, current: Option<&Vec<u8>>, wanted: Option<&Vec<u8>>) -> Result<bool, CqlError> {
        Ok(match (self, current, wanted) {
            (Operator::Eq | Operator::In, current, wanted) => current == wanted,
            (Operator::Ne, current, wanted) => current != wanted,
            (_, _, None) => return self.refuse_null(),
            (Operator::Contains | Operator::ContainsKey, ..) | (_, None, Some(_)) => false,
            (Operator::Lt, Some(current), Some(wanted)) => current < wanted,
            (Operator::Le, Some(current), Some(wanted)) => current <= wanted,
            (Operator::Gt, Some(current), Some(wanted)) => current > wanted,
            (Operator::Ge, Some(current), Some(wanted)) => current >= wanted,
        })
    }
}

impl Choice {
    /// The values one of which a condition asks for; none is null.
    fn wanted(
        &self,
        values: &[Value<'_>],
        context: &BindContext,
    ) -> Result<Vec<Option<Vec<u8>>>, CqlError> {
        let unset = || CqlError::invalid("Invalid 'unset' value in condition");
        match self {
            Choice::One(slot) => match slot.find(values, context)? {
                Found::Bytes(bytes) => Ok(vec![Some(bytes.into_owned())]),
                Found::Null => Ok(vec![None]),
                Found::Unset => Err(unset()),
            },
            Choice::Several(slots) => {
                let mut wanted = Vec::with_capacity(slots.len());
                for slot in slots {
                    match slot.find(values, context)? {
                        Found::Bytes(bytes) => wanted.push(Some(bytes.into_owned())),
                        Found::Null => wanted.push(None),
                        Found::Unset => {}
                    }
                }
                Ok(wanted)
            }
            Choice::List(list, _) => {
                let bytes = match list.find(values, context)? {
                    Found::Bytes(bytes) => bytes,
                    Found::Null => return invalid("Invalid null list in IN condition"),
                    Found::Unset => return Err(unset()),
                };
                let mut items = Elements(&bytes);
                let mut wanted = Vec::new();
                for _ in 0..items.count().map_err(broken)? {
                    wanted.push(items.item().map_err(broken)?.map(<[u8]>::to_vec));
                }
                Ok(wanted)
            }
            // Of clustering columns alone.
            Choice::Tuples(_) | Choice::WithBefore => Ok(Vec::new()),
        }
    }
}
