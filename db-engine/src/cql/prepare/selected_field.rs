//! Fields of user-defined types in a selection: `c.field`, `c.field.inner`.

use crate::{
    cql::{
        error::{CqlError, invalid},
        prepare::{
            binder::column,
            plan::ColumnSpec,
            selected::{Selected, aggregate, facet, facet_of},
            source::{Facet, Fold, Portion, Source},
        },
    },
    schema::{Column, Table},
    types::CqlType,
};

/// A field of a column.
pub(super) struct SelectedField<'a> {
    column: &'a Column,
    /// Its place in the type of the column, then in that of the field, and so on.
    path: Vec<usize>,
    ty: CqlType,
    /// As the statement says it.
    name: String,
}

impl<'a> SelectedField<'a> {
    pub(super) fn new(table: &'a Table, of: &str, fields: &[String]) -> Result<Self, CqlError> {
        let column = column(table, of)?;
        let (mut name, mut ty) = (column.name.clone(), column.ty.clone());
        let (mut path, mut shown) = (Vec::new(), column.type_name());
        for field in fields {
            let CqlType::Udt(of) = &ty else {
                return invalid(format!(
                    "Invalid field selection: {name} of type {shown} is not a user type"
                ));
            };
            let place = of.position(field);
            let Some((place, found)) = place.and_then(|at| Some((at, of.fields().get(at)?))) else {
                return invalid(format!("{name} of type {shown} has no field {field}"));
            };
            path.push(place);
            ty = found.ty.clone();
            shown = ty.to_string();
            name = format!("{name}.{field}");
        }
        Ok(Self { column, path, ty, name })
    }

    /// Of a column that is not frozen, the field that has a cell.
    fn part(&self) -> Portion {
        self.path.first().map_or(Portion::All, |place| Portion::Field(*place))
    }

    fn source(&self) -> Source {
        let column = self.column;
        if !column.has_elements() {
            return Source::FieldOf(Box::new(Source::of(column)), self.path.clone());
        }
        let (source, _) = facet_of(column, Facet::Value, self.part());
        match self.path.as_slice() {
            [_, inside @ ..] if !inside.is_empty() => {
                Source::FieldOf(Box::new(source), inside.to_vec())
            }
            _ => source,
        }
    }

    pub(super) fn value(self) -> Selected {
        let (source, Self { ty, name, .. }) = (self.source(), self);
        Selected::new(source, Fold::First, ty.clone(), ColumnSpec { name, ty })
    }

    /// A function of it.
    pub(super) fn call(self, function: &str) -> Result<Selected, CqlError> {
        let spec = |prefix: &str, ty| {
            let name = format!("{prefix}{function}({})", self.name);
            ColumnSpec { name, ty }
        };
        let Some(facet) = facet(function) else {
            return aggregate(function, self.source(), &self.ty, spec);
        };
        let (source, ty) = facet_of(self.column, facet, self.part());
        let source = Source::IfThere(Box::new(self.source()), Box::new(source));
        Ok(Selected::new(source, Fold::First, ty.clone(), spec("", ty)))
    }
}
