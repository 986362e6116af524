//! Conditions on what is in a collection, `CONTAINS`, `CONTAINS KEY` and `m[key] = value`, and on
//! what has no order.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Relation, Term},
        prepare::{
            binder::Binder,
            input::{KeyPurpose, PartKey},
            plan::{Choice, Condition},
            source::{Facet, Portion, Source},
        },
    },
    schema::Column,
    types::CqlType,
};

/// Refuses ranges of what has no order.
pub(super) fn check_order(column: &Column, operator: Operator) -> Result<(), CqlError> {
    let is_slice = matches!(operator, Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge);
    if !is_slice || column.ty.has_order() {
        return Ok(());
    }
    let what = match column.ty {
        CqlType::Duration => "duration columns",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::Udt(_) => "UDTs containing durations",
        _ => "collections containing durations",
    };
    invalid(format!("Slice restrictions are not supported on {what}"))
}

/// `CONTAINS` and `CONTAINS KEY`; none if the condition is on the value of the column.
pub(super) fn contains(
    column: &Column,
    relation: &Relation,
    binder: &mut Binder,
) -> Result<Option<Condition>, CqlError> {
    let name = &column.name;
    let operator = relation.operator;
    let (part, ty, is_map) = match (operator, &column.ty) {
        (Operator::Contains, CqlType::List(item) | CqlType::Set(item)) => ("value", item, false),
        (Operator::Contains, CqlType::Map(_, value)) => ("value", value, true),
        (Operator::ContainsKey, CqlType::Map(key, _)) => ("key", key, true),
        (Operator::ContainsKey, _) => {
            return invalid(format!("Cannot use CONTAINS KEY on non-map column {name}"));
        }
        (Operator::Contains, _) => {
            return invalid(format!("Cannot use CONTAINS on non-collection column {name}"));
        }
        (_, CqlType::Udt(_)) if column.has_elements() => {
            return invalid(format!(
                "Non-frozen UDT column '{name}' ({}) cannot be restricted by any relation",
                column.type_name()
            ));
        }
        _ if column.has_elements() => {
            return invalid(format!(
                "Collection column '{name}' ({}) cannot be restricted by a '{}' relation",
                column.type_name(),
                operator.text()
            ));
        }
        _ => return Ok(None),
    };
    let slot = binder.slot(&relation.value, &format!("{part}({name})"), ty)?;
    let (source, choice) = (Source::of(column), Choice::One(slot));
    Ok(Some(Condition { source, is_map, operator, choice }))
}

/// `m[key] = value`. The key is added to those that sources ask for.
pub(super) fn entry(
    column: &Column,
    key: &Term,
    relation: &Relation,
    binder: &mut Binder,
    parts: &mut Vec<PartKey>,
) -> Result<Condition, CqlError> {
    let name = &column.name;
    let CqlType::Map(of, to) = &column.ty else {
        return invalid(match column.ty {
            CqlType::List(_) => {
                format!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                )
            }
            _ => format!("Column {name} cannot be used as a map"),
        });
    };
    if column.descending {
        // Its type is another one to Cassandra.
        return invalid(format!("Column {name} cannot be used as a map"));
    }
    if !column.has_elements() {
        return invalid(format!(
            "Map-entry equality predicates on frozen map column {name} are not supported"
        ));
    }
    if relation.operator != Operator::Eq {
        return invalid("Only EQ relations are supported on map entries");
    }
    let slot = binder.slot(key, &format!("key({name})"), of)?;
    parts.push(PartKey { slot, purpose: KeyPurpose::Condition });
    let value = binder.slot(&relation.value, &format!("value({name})"), to)?;
    let source = Source::Elements {
        column: column.number,
        ty: column.ty.clone(),
        facet: Facet::Value,
        part: Portion::One(parts.len() - 1),
    };
    Ok(Condition { source, is_map: false, operator: Operator::Eq, choice: Choice::One(value) })
}
