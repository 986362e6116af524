//! Conditions on several clustering columns at once: `(a, b) > (1, 2)`.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Relation, Term},
        prepare::{
            binder::{Binder, column},
            conditions::{Sorter, set},
            input::BoundValue,
            plan::{Choice, Edge},
        },
    },
    schema::{Column, ColumnKind},
    types::literal::Literal,
};

impl<'a> Sorter<'a> {
    /// The columns of a condition on several: clustering columns that follow each other.
    fn columns_of(&self, names: &[String]) -> Result<Vec<&'a Column>, CqlError> {
        let columns: Result<Vec<_>, _> =
            names.iter().map(|name| column(self.table, name)).collect();
        let columns = columns?;
        let clustering = self.table.clustering();
        let begin = columns.first().map_or(0, |column| usize::from(column.number));
        for (position, column) in (begin..).zip(&columns) {
            if column.kind != ColumnKind::Clustering {
                return invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was \
                     applied to: {}",
                    column.name
                ));
            }
            if clustering.get(position).map(|other| &other.name) != Some(&column.name) {
                return invalid(format!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                     relations: ({})",
                    names.join(", ")
                ));
            }
        }
        Ok(columns)
    }

    pub(super) fn add_multi(
        &mut self,
        names: &[String],
        relation: &Relation,
        binder: &mut Binder,
    ) -> Result<(), CqlError> {
        let columns = self.columns_of(names)?;
        let begin = columns.first().map_or(0, |column| usize::from(column.number));
        if relation.operator == Operator::In {
            return self.add_tuples(&columns, &relation.value, binder);
        }
        let slots = tuple_of(&columns, &relation.value, binder)?;
        if relation.operator == Operator::Eq {
            for (slot, column) in slots.into_iter().zip(&columns) {
                let at = self.table.columns.iter().position(|other| other.name == column.name);
                if let Some(of) = at.and_then(|at| self.columns.get_mut(at)) {
                    set(of, Operator::Eq, slot, &column.name)?;
                }
            }
            return Ok(());
        }
        if columns
            .iter()
            .any(|column| Some(column.descending) != columns.first().map(|c| c.descending))
        {
            return Err(CqlError::unsupported(
                "A range over several columns of different directions is",
            ));
        }
        if self.multi.is_some_and(|other| other != begin) {
            return invalid("Column ranges must begin with the same column");
        }
        self.multi = Some(begin);
        let (edge, inclusive) = match relation.operator {
            Operator::Gt | Operator::Ge => {
                (&mut self.span.lower, relation.operator == Operator::Ge)
            }
            _ => (&mut self.span.upper, relation.operator == Operator::Le),
        };
        if edge.is_some() {
            return invalid(format!(
                "More than one restriction was found for the bound on {}",
                names.join(", ")
            ));
        }
        *edge = Some(Edge { slots, inclusive });
        Ok(())
    }

    /// `(a, b) IN ((1, 2), …)`.
    fn add_tuples(
        &mut self,
        columns: &[&Column],
        terms: &Term,
        binder: &mut Binder,
    ) -> Result<(), CqlError> {
        let Term::Tuple(terms) = terms else {
            return Err(CqlError::unsupported("A single value for several columns is"));
        };
        let tuples: Result<Vec<_>, _> =
            terms.iter().map(|term| tuple_of(columns, term, binder)).collect();
        let mut choice = Choice::Tuples(tuples?);
        for column in columns {
            let at = self.table.columns.iter().position(|other| other.name == column.name);
            let Some(of) = at.and_then(|at| self.columns.get_mut(at)) else { continue };
            if !of.is_empty() {
                return invalid(format!(
                    "{} cannot be restricted by more than one relation if it includes a IN",
                    column.name
                ));
            }
            of.equal = Some(std::mem::replace(&mut choice, Choice::WithBefore));
        }
        Ok(())
    }
}

/// Values of columns that follow each other, in parentheses.
fn tuple_of(
    columns: &[&Column],
    term: &Term,
    binder: &mut Binder,
) -> Result<Vec<BoundValue>, CqlError> {
    let terms: Vec<Term> = match term {
        Term::Tuple(items) => items.clone(),
        Term::Literal(Literal::Tuple(items)) => items.iter().cloned().map(Term::Literal).collect(),
        Term::Marker { .. } => {
            return Err(CqlError::unsupported("A single value for several columns is"));
        }
        _ => {
            return Err(CqlError::syntax(
                "several columns are compared with values in parentheses",
            ));
        }
    };
    if terms.len() != columns.len() {
        return invalid(format!(
            "Expected {} elements in value tuple, but got {}",
            columns.len(),
            terms.len()
        ));
    }
    terms.iter().zip(columns).map(|(term, column)| binder.of_column(term, column)).collect()
}
