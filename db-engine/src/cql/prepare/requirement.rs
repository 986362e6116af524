//! One condition of an `IF` → what is asked of which part of a column.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{IfPart, IfRelation, Operator, Term},
        prepare::{
            binder::{Binder, column},
            input::BoundValue,
            plan::{Choice, RequiredPart, Requirement},
        },
    },
    schema::{Column, ColumnKind, Table},
    types::{CqlType, literal::Literal},
};

/// What a condition compares with: something of this name and type.
struct Receiver<'a> {
    column: &'a Column,
    /// None if it is the column.
    part: Option<(String, CqlType)>,
}

impl Receiver<'_> {
    fn ty(&self) -> &CqlType {
        self.part.as_ref().map_or(&self.column.ty, |(_, ty)| ty)
    }

    fn slot(&self, term: &Term, binder: &mut Binder) -> Result<BoundValue, CqlError> {
        match &self.part {
            Some((name, ty)) => binder.slot(term, name, ty),
            None => binder.of_column(term, self.column),
        }
    }

    fn choice(&self, relation: &IfRelation, binder: &mut Binder) -> Result<Choice, CqlError> {
        match (relation.operator, &relation.value) {
            (Operator::In, Term::Tuple(items)) => {
                let slots = items.iter().map(|item| self.slot(item, binder));
                Ok(Choice::Several(slots.collect::<Result<_, _>>()?))
            }
            (Operator::In, term) => {
                let name = self.part.as_ref().map_or(&self.column.name, |(name, _)| name);
                let ty = CqlType::List(Box::new(self.ty().clone()));
                let list = binder.slot(term, &format!("in({name})"), &ty)?;
                let null = Term::Literal(Literal::Null);
                Ok(Choice::List(list, self.slot(&null, binder)?))
            }
            (_, term) => self.slot(term, binder).map(Choice::One),
        }
    }
}

/// Plans one condition of an `IF`.
pub(super) fn requirement(
    table: &Table,
    relation: &IfRelation,
    binder: &mut Binder,
) -> Result<Requirement, CqlError> {
    let column = column(table, &relation.column)?;
    if column.ty == CqlType::Counter {
        return invalid("Conditions on counters are not supported");
    }
    let operator = relation.operator;
    let (part, receiver) = match &relation.part {
        IfPart::Whole => (RequiredPart::Whole, contained(column, operator)?),
        IfPart::Element(key) => element(column, key, binder)?,
        IfPart::Field(name) => field(column, name)?,
    };
    let orders = matches!(operator, Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge);
    if orders && !receiver.ty().has_order() {
        let what = match receiver.ty() {
            CqlType::Duration => {
                let operator = operator.text();
                return invalid(format!(
                    "Slice conditions ( {operator} ) are not supported on durations"
                ));
            }
            CqlType::Tuple(_) => "tuples",
            CqlType::Udt(_) => "UDTs",
            _ => "collections",
        };
        return invalid(format!(
            "Slice conditions are not supported on {what} containing durations"
        ));
    }
    let choice = receiver.choice(relation, binder)?;
    if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        let name = &column.name;
        return invalid(format!("PRIMARY KEY column '{name}' cannot have IF conditions"));
    }
    let at = table.columns.iter().position(|other| other.name == column.name);
    let (is_static, ty) = (column.is_static(), receiver.ty().with_codes());
    Ok(Requirement { column: at.unwrap_or_default(), is_static, part, operator, choice, ty })
}

/// What a condition on a whole column compares with: what is in it, if that is asked.
fn contained(column: &Column, operator: Operator) -> Result<Receiver<'_>, CqlError> {
    let name = &column.name;
    let part = match (operator, &column.ty) {
        (Operator::ContainsKey, CqlType::Map(key, _)) => Some((format!("key({name})"), &**key)),
        (Operator::ContainsKey, _) => {
            return invalid(format!("Cannot use CONTAINS KEY on non-map column {name}"));
        }
        (Operator::Contains, CqlType::List(of) | CqlType::Set(of) | CqlType::Map(_, of)) => {
            Some((format!("value({name})"), &**of))
        }
        (Operator::Contains, _) => {
            return invalid(format!("Cannot use CONTAINS on non-collection column {name}"));
        }
        _ => None,
    };
    Ok(Receiver { column, part: part.map(|(name, ty)| (name, ty.clone())) })
}

/// `column[key]`
fn element<'a>(
    column: &'a Column,
    key: &Term,
    binder: &mut Binder,
) -> Result<(RequiredPart, Receiver<'a>), CqlError> {
    let name = &column.name;
    let (part, of) = match &column.ty {
        CqlType::List(of) => {
            let slot = binder.slot(key, &format!("idx({name})"), &CqlType::Int)?;
            (RequiredPart::Index(slot), of)
        }
        CqlType::Map(by, of) => {
            (RequiredPart::Key(binder.slot(key, &format!("key({name})"), by)?), of)
        }
        CqlType::Set(_) => {
            return invalid(format!("Invalid element access syntax for set column {name}"));
        }
        _ => {
            return invalid(format!(
                "Invalid element access syntax for non-collection column {name}"
            ));
        }
    };
    let receiver = (format!("value({name})"), CqlType::clone(of));
    Ok((part, Receiver { column, part: Some(receiver) }))
}

/// `column.field`
fn field<'a>(column: &'a Column, field: &str) -> Result<(RequiredPart, Receiver<'a>), CqlError> {
    let name = &column.name;
    let found = match &column.ty {
        CqlType::Udt(of) => of.position(field).and_then(|at| Some((at, of.fields().get(at)?))),
        _ => None,
    };
    let Some((place, found)) = found else {
        return invalid(format!("Unknown field {field} for column {name}"));
    };
    let receiver = (format!("{name}.{field}"), found.ty.clone());
    Ok((RequiredPart::Field(place), Receiver { column, part: Some(receiver) }))
}
