//! Which clustering columns may be restricted beside which others.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::{Operator, Relation, Target},
        prepare::conditions::{Sorter, refuse_second},
    },
    schema::Column,
};

/// A clustering column on which there is a relation.
pub(super) struct Restricted<'a> {
    column: &'a Column,
    /// The first one that the relation is about.
    first: &'a Column,
    /// Whether it is about a range.
    is_slice: bool,
}

impl<'a> Sorter<'a> {
    /// The clustering columns on which there are relations so far, in their order.
    pub(super) fn restricted_clustering(&self) -> Vec<Restricted<'a>> {
        let edges = self.span.lower.iter().chain(&self.span.upper);
        let longest = edges.map(|edge| edge.slots.len()).max().unwrap_or_default();
        let of_multi = self.multi.map(|begin| begin..begin + longest).unwrap_or_default();
        let key = self.table.partition_key().len();
        let clustering = self.table.clustering();
        let columns = clustering.iter().zip(self.columns.iter().skip(key));
        let restricted = columns.enumerate().filter_map(|(at, (column, of))| {
            let is_of_multi = of_multi.contains(&at);
            let first = if is_of_multi { clustering.get(of_multi.start)? } else { column };
            let is_slice = of.equal.is_none();
            (is_of_multi || !of.is_empty()).then_some(Restricted { column, first, is_slice })
        });
        restricted.collect()
    }

    /// Whether a relation is about a range of clustering columns.
    pub(super) fn restricts_range(&self) -> bool {
        self.restricted_clustering().iter().any(|one| one.is_slice)
    }

    /// The clustering columns on which there is none.
    pub(super) fn free_clustering(&self) -> Vec<&'a str> {
        let restricted = self.restricted_clustering();
        let is_free =
            |column: &&Column| restricted.iter().all(|other| other.column.name != column.name);
        let table = self.table;
        table.clustering().iter().filter(is_free).map(|column| column.name.as_str()).collect()
    }

    /// Refuses what does not go with a range over several columns, on the first of them.
    pub(super) fn check_edges(&self, relation: &Relation) -> Result<(), CqlError> {
        let Some(begin) = self.multi else { return Ok(()) };
        let at = self.table.partition_key().len() + begin;
        let (Some(of), Some(column)) = (self.columns.get(at), self.table.columns.get(at)) else {
            return Ok(());
        };
        let name = &column.name;
        match &relation.target {
            _ if of.equal.is_none() => {}
            Target::Columns(_) if relation.operator != Operator::Eq => return of.check_first(name),
            _ => {
                return invalid(format!(
                    "Column \"{name}\" cannot be restricted by both an equality and an inequality \
                     relation"
                ));
            }
        }
        if of.has_lower() && self.span.lower.is_some() {
            return refuse_second("start", name);
        }
        if of.has_upper() && self.span.upper.is_some() {
            return refuse_second("end", name);
        }
        Ok(())
    }

    /// Refuses a range before or behind which another clustering column is restricted. `before`:
    /// those that are, without this relation.
    pub(super) fn check_slices(
        &self,
        relation: &Relation,
        before: &[Restricted<'_>],
    ) -> Result<(), CqlError> {
        let name = match &relation.target {
            Target::Column(name) => Some(name),
            Target::Columns(names) => names.first(),
            Target::Entry(..) | Target::Token(_) => None,
        };
        let Some(last) = before.last().filter(|_| !self.allow_filtering) else { return Ok(()) };
        let found = name.and_then(|name| self.table.clustering().iter().find(|c| c.name == *name));
        let Some(new) = found else { return Ok(()) };
        if last.is_slice && new.number > last.first.number {
            return invalid(format!(
                "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                new.name, last.first.name
            ));
        }
        let is_slice = !matches!(relation.operator, Operator::Eq | Operator::In);
        let next = before.iter().find(|other| other.column.number > new.number);
        if let Some(next) = next.filter(|_| is_slice && new.number < last.first.number) {
            return invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is \
                 restricted by a non-EQ relation)",
                next.column.name, new.name
            ));
        }
        Ok(())
    }

    /// Refuses relations that leave out a clustering column before the last of theirs.
    pub(super) fn check_prefix(&self) -> Result<(), CqlError> {
        let restricted = self.restricted_clustering();
        let pairs = self.table.clustering().iter().zip(&restricted);
        match pairs.into_iter().find(|(column, other)| column.name != other.column.name) {
            None => Ok(()),
            Some((column, other)) => invalid(format!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not \
                 restricted",
                other.column.name, column.name
            )),
        }
    }
}
