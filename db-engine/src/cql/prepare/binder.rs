//! Gives the terms of a statement their types.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::Term,
        prepare::{
            input::{BoundValue, Function, Operand},
            plan::{Choice, ColumnSpec},
        },
    },
    schema::{Column, Table},
    types::{
        CqlType, fields,
        literal::{self, Literal},
        name::quoted,
        user_type::UserType,
    },
};

/// Which marker gives the value of each column of the partition key; empty unless all do.
pub(super) fn routing(slots: &[BoundValue]) -> Vec<u16> {
    let bound = |slot: &BoundValue| match slot.operand {
        Operand::Bound(index) => Some(index),
        _ => None,
    };
    let all: Option<Vec<u16>> = slots.iter().map(bound).collect();
    all.unwrap_or_default()
}

/// Finds a column that a statement names.
pub(super) fn column<'a>(table: &'a Table, name: &str) -> Result<&'a Column, CqlError> {
    table.column(name).ok_or_else(|| {
        let (name, table) = (quoted(name), format!("{}.{}", table.keyspace, table.name));
        CqlError::invalid(format!("Undefined column name {name} in table {table}"))
    })
}

/// Gives terms their types, and remembers what each bind marker stands for.
#[derive(Default)]
pub(super) struct Binder {
    specs: Vec<Option<ColumnSpec>>,
    constant_bytes: usize,
}

impl Binder {
    /// A value for something of this name and type.
    pub(super) fn slot(
        &mut self,
        term: &Term,
        name: &str,
        ty: &CqlType,
    ) -> Result<BoundValue, CqlError> {
        let operand = self.operand(term, name, ty)?;
        Ok(BoundValue { name: name.to_string(), ty: ty.clone(), descending: false, operand })
    }

    /// A value for a column.
    pub(super) fn of_column(
        &mut self,
        term: &Term,
        column: &Column,
    ) -> Result<BoundValue, CqlError> {
        let mut slot = self.slot(term, &column.name, &column.ty).map_err(|mut error| {
            if column.has_elements() {
                let (frozen, declared) = (column.ty.to_string(), column.type_name());
                error.message = error.message.replace(&frozen, &declared);
            }
            error
        })?;
        slot.descending = column.descending;
        Ok(slot)
    }

    /// No value for a column.
    pub(super) fn null_of(column: &Column) -> BoundValue {
        let (name, ty) = (column.name.clone(), column.ty.clone());
        BoundValue { name, ty, descending: column.descending, operand: Operand::Null }
    }

    /// Bytes of all constants so far.
    pub(super) fn constant_bytes(&self) -> usize {
        self.constant_bytes
    }

    /// The markers, in their order.
    pub(super) fn finish(self) -> Vec<ColumnSpec> {
        self.specs.into_iter().flatten().collect()
    }

    fn operand(&mut self, term: &Term, name: &str, ty: &CqlType) -> Result<Operand, CqlError> {
        match term {
            Term::Marker { index, name: own } => {
                let at = usize::from(*index);
                if self.specs.len() <= at {
                    self.specs.resize(at + 1, None);
                }
                let name = own.as_deref().unwrap_or(name).to_string();
                if let Some(spec) = self.specs.get_mut(at) {
                    *spec = Some(ColumnSpec { name, ty: ty.clone() });
                }
                Ok(Operand::Bound(*index))
            }
            Term::Literal(Literal::Null) if *ty == CqlType::Counter => {
                invalid("Invalid null value for counter increment/decrement")
            }
            Term::Literal(value) => Ok(match literal::encode(ty, value, name)? {
                Some(bytes) => {
                    // A few words can stand for all fields of a type.
                    self.constant_bytes += bytes.len();
                    if self.constant_bytes > literal::BYTES_MAX {
                        return invalid(format!(
                            "The constants of the statement have more than {} bytes: bind them",
                            literal::BYTES_MAX
                        ));
                    }
                    Operand::Constant(bytes)
                }
                None => Operand::Null,
            }),
            Term::Tuple(items) => match (ty, items.as_slice()) {
                (CqlType::Tuple(of), _) => self.tuple(items, of, name),
                (_, [item]) => self.operand(item, name, ty),
                _ => invalid(format!("Invalid tuple type literal for {name} of type {ty}")),
            },
            Term::Collection(kind, items) => {
                let is_of_kind = matches!(
                    (*kind, ty),
                    ("list", CqlType::List(_))
                        | ("set", CqlType::Set(_))
                        | ("map", CqlType::Map(..))
                );
                if !is_of_kind {
                    return invalid(if *kind == "list" {
                        format!(
                            "Unexpected receiver type '{ty}'; only list and vector are expected"
                        )
                    } else {
                        format!("Invalid {kind} literal for {name} of type {ty}")
                    });
                }
                if items.iter().any(|item| matches!(item, Term::Call { .. })) {
                    return Err(CqlError::unsupported("Functions inside a collection literal are"));
                }
                invalid(format!(
                    "Invalid {kind} literal for {name}: bind variables are not supported inside \
                     collection literals"
                ))
            }
            Term::Fields(values) => match ty {
                CqlType::Udt(of) => self.fields(values, of, name),
                _ => invalid(format!("Invalid user type literal for {name} of type {ty}")),
            },
            Term::Call { name: function, arguments } => self.call(function, arguments, name, ty),
        }
    }

    fn tuple(&mut self, items: &[Term], of: &[CqlType], name: &str) -> Result<Operand, CqlError> {
        let mut slots = Vec::new();
        for (number, (item, ty)) in items.iter().zip(of).enumerate() {
            let refused = || fields::not_of_component(name, number, ty).into();
            if let Term::Literal(value) = item
                && !literal::suits(ty, value)
            {
                return Err(refused());
            }
            let slot = self.slot(item, &format!("{name}[{number}]"), ty);
            slots.push(
                slot.map_err(|error| if is_unfit(item, &error) { refused() } else { error })?,
            );
        }
        fields::check_count(of, items.len(), name)?;
        Ok(Operand::Items(slots))
    }

    fn fields(
        &mut self,
        values: &[(String, Term)],
        of: &UserType,
        name: &str,
    ) -> Result<Operand, CqlError> {
        let (mut slots, by_name) = (Vec::new(), fields::given(values));
        for (place, field) in of.fields().iter().enumerate() {
            let Some(term) = by_name.get(field.name.as_str()) else { continue };
            if let Term::Literal(value) = term {
                fields::check_field(value, name, &field.name, &field.ty)?;
            }
            let slot = self.slot(term, &format!("{name}.{}", field.name), &field.ty);
            let unfit = || fields::not_of_type(name, &field.name, &field.ty).into();
            let slot = slot.map_err(|error| if is_unfit(term, &error) { unfit() } else { error });
            slots.push((place, slot?));
        }
        fields::check_names(of, values)?;
        Ok(Operand::Fields(slots))
    }

    fn call(
        &mut self,
        function: &str,
        arguments: &[Term],
        name: &str,
        ty: &CqlType,
    ) -> Result<Operand, CqlError> {
        let found = match arguments {
            [Term::Call { name, arguments }] if name == "now" && arguments.is_empty() => {
                Function::of_now(function)
            }
            _ => None,
        };
        let found = found.or_else(|| Function::find(function, arguments.len()));
        let Some((found, gives)) = found else {
            return Err(CqlError::invalid(format!("Unknown function {function} called")));
        };
        let suits = gives == *ty || (gives == CqlType::Timeuuid && *ty == CqlType::Uuid);
        if !suits {
            return Err(CqlError::invalid(format!(
                "Type error: cannot assign result of function system.{function} (type {gives}) to \
                 {name} (type {ty})"
            )));
        }
        let argument = match (found, arguments) {
            (Function::MinTimeuuid | Function::MaxTimeuuid, [argument]) => {
                let of = format!("arg0(system.{function})");
                self.operand(argument, &of, &CqlType::Timestamp)?
            }
            _ => Operand::Null,
        };
        Ok(Operand::Call(found, Box::new(argument)))
    }
}

/// Whether an error says of what is inside of a value that it is not of the type that it is for.
fn is_unfit(term: &Term, error: &CqlError) -> bool {
    let begins = |words: &[&str]| words.iter().any(|words| error.message.starts_with(words));
    match term {
        Term::Tuple(_) | Term::Fields(_) => {
            begins(&["Invalid tuple", "Invalid user type", "Unknown field"])
        }
        Term::Call { .. } => begins(&["Type error"]),
        _ => false,
    }
}

/// As [`routing`]; of an `IN` with markers, Cassandra names the last one.
pub(super) fn routing_of(choices: &[Choice]) -> Vec<u16> {
    let is_bound = |slot: &&BoundValue| matches!(slot.operand, Operand::Bound(_));
    let last = |choice: &Choice| match choice {
        Choice::One(slot) => Some(slot.clone()),
        Choice::Several(slots) => slots.iter().rfind(is_bound).cloned(),
        Choice::List(..) | Choice::Tuples(_) | Choice::WithBefore => None,
    };
    let slots: Option<Vec<BoundValue>> = choices.iter().map(last).collect();
    slots.map(|slots| routing(&slots)).unwrap_or_default()
}
