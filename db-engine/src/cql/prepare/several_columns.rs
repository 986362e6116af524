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
            restrictions::Restricts,
        },
    },
    schema::{Column, ColumnKind},
    types::literal::Literal,
};

impl<'a> Sorter<'a> {
    /// The columns of a condition on several: clustering columns that follow each other. The
    /// first name that is none of them is told, as by Cassandra.
    fn columns_of(
        &self,
        names: &[String],
        relation: &Relation,
    ) -> Result<Vec<&'a Column>, CqlError> {
        let mut columns: Vec<&Column> = Vec::with_capacity(names.len());
        for name in names {
            let next = column(self.table, name)?;
            if next.kind != ColumnKind::Clustering {
                return invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was \
                     applied to: {name}"
                ));
            }
            if columns.iter().any(|column| column.name == *name) {
                return invalid(format!(
                    "Column \"{name}\" appeared twice in a relation: {relation}"
                ));
            }
            if columns.last().is_some_and(|last| next.number != last.number + 1) {
                return invalid(format!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column \
                     relations: {relation}"
                ));
            }
            columns.push(next);
        }
        Ok(columns)
    }

    pub(super) fn add_multi(
        &mut self,
        names: &[String],
        relation: &Relation,
        binder: &mut Binder,
    ) -> Result<(), CqlError> {
        let columns = self.columns_of(names, relation)?;
        let begin = columns.first().map_or(0, |column| usize::from(column.number));
        if relation.operator == Operator::In {
            return self.add_tuples(&columns, &relation.value, binder);
        }
        let slots = tuple_of(&columns, &relation.value, binder)?;
        let (lower, upper) = match relation.operator {
            Operator::Gt | Operator::Ge => (true, false),
            Operator::Lt | Operator::Le => (false, true),
            _ => {
                self.restrict(&columns, Restricts::Equal)?;
                return self.set_all(&columns, slots.into_iter().map(Choice::One));
            }
        };
        self.restrict(&columns, Restricts::Range { lower, upper })?;
        let descends = |column: &&Column| Some(column.descending);
        if columns.iter().any(|column| descends(column) != columns.first().and_then(descends)) {
            return Err(CqlError::unsupported(
                "A range over several columns of different directions is",
            ));
        }
        self.multi = Some(begin);
        let edge = if lower { &mut self.span.lower } else { &mut self.span.upper };
        let inclusive = matches!(relation.operator, Operator::Ge | Operator::Le);
        *edge = Some(Edge { slots, inclusive });
        Ok(())
    }

    fn set_all(
        &mut self,
        columns: &[&Column],
        choices: impl Iterator<Item = Choice>,
    ) -> Result<(), CqlError> {
        for (column, choice) in columns.iter().zip(choices) {
            if let Some(of) = self.of_column(&column.name) {
                set(of, Operator::Eq, choice)?;
            }
        }
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
        let mut tuples = tuples?;
        if tuples.len() == 1 {
            self.restrict(columns, Restricts::Equal)?;
            let one = tuples.pop().unwrap_or_default();
            return self.set_all(columns, one.into_iter().map(Choice::One));
        }
        self.restrict(columns, Restricts::In)?;
        let rest = columns.iter().skip(1).map(|_| Choice::WithBefore);
        self.set_all(columns, std::iter::once(Choice::Tuples(tuples)).chain(rest))
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
            "Expected {} elements in value tuple, but got {}: {term}",
            columns.len(),
            terms.len()
        ));
    }
    terms.iter().zip(columns).map(|(term, column)| binder.of_column(term, column)).collect()
}
