//! Which relations of a WHERE go together. Each is judged by those before it, as Cassandra does.

use crate::{
    cql::{
        error::{CqlError, invalid},
        parse::ast::Operator,
        prepare::plan::Choice,
    },
    schema::Table,
};
use std::{collections::BTreeMap, ops::Range};

/// What relations say of columns that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restriction {
    /// Their places in the table.
    pub columns: Range<usize>,
    pub kind: Restricts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restricts {
    Equal,
    In,
    /// What is in a collection: `CONTAINS`, `m[key] = value`.
    Elements,
    Range {
        lower: bool,
        upper: bool,
    },
}

impl Restricts {
    pub(super) fn by(operator: Operator, choice: &Choice) -> Self {
        let lower = matches!(operator, Operator::Gt | Operator::Ge);
        let upper = matches!(operator, Operator::Lt | Operator::Le);
        match choice {
            _ if lower || upper => Restricts::Range { lower, upper },
            Choice::One(_) => Restricts::Equal,
            _ => Restricts::In,
        }
    }
}

/// The relations so far.
pub(super) struct Restrictions<'a> {
    table: &'a Table,
    /// By column of the table.
    of: BTreeMap<usize, Restriction>,
    token: Option<Restriction>,
}

impl<'a> Restrictions<'a> {
    pub(super) fn new(table: &'a Table) -> Self {
        Restrictions { table, of: BTreeMap::new(), token: None }
    }

    /// Adds what a relation says, or refuses it. `allow_filtering`: clustering columns need not be
    /// a prefix.
    pub(super) fn add(&mut self, new: Restriction, allow_filtering: bool) -> Result<(), CqlError> {
        let mut met: Vec<&Restriction> =
            self.of.range(new.columns.clone()).map(|(_, other)| other).collect();
        met.dedup();
        let merged: Result<Vec<_>, _> = met
            .into_iter()
            .map(|before| {
                let both = new.columns.clone().filter(|at| before.columns.contains(at));
                self.merged(before, &new, "Column", &self.names(both, " ,"))
            })
            .collect();
        let mut merged = merged?;
        if !allow_filtering {
            self.check_range(&new)?;
        }
        if merged.is_empty() {
            merged.push(new);
        }
        for one in merged {
            self.of.extend(one.columns.clone().map(|at| (at, one.clone())));
        }
        Ok(())
    }

    /// Adds what a relation says of the token.
    pub(super) fn add_token(&mut self, kind: Restricts) -> Result<(), CqlError> {
        let columns = 0..self.table.partition_key().len();
        let new = Restriction { columns, kind };
        let merged = match &self.token {
            Some(before) => {
                self.merged(before, &new, "Columns", &self.names(new.columns.clone(), ", "))?
            }
            None => new,
        };
        self.token = Some(merged);
        Ok(())
    }

    /// Both in one, or why they do not go together. `names`: of the columns that both are about.
    fn merged(
        &self,
        before: &Restriction,
        new: &Restriction,
        what: &str,
        names: &str,
    ) -> Result<Restriction, CqlError> {
        let ends = match (before.kind, new.kind) {
            (Restricts::Elements, Restricts::Elements) => return Ok(new.clone()),
            (Restricts::Range { lower, upper }, Restricts::Range { lower: l, upper: u }) => {
                ((lower, l), (upper, u))
            }
            (Restricts::Elements, _) => {
                return invalid(format!(
                    "Collection column {names} can only be restricted by CONTAINS, CONTAINS KEY, \
                     or map-entry equality"
                ));
            }
            (Restricts::Range { .. }, _) => {
                return invalid(format!(
                    "{what} \"{names}\" cannot be restricted by both an equality and an \
                     inequality relation"
                ));
            }
            (Restricts::Equal | Restricts::In, _) => {
                let which = if before.kind == Restricts::In { "a IN" } else { "an Equal" };
                return invalid(format!(
                    "{names} cannot be restricted by more than one relation if it includes {which}"
                ));
            }
        };
        if before.columns.start != new.columns.start {
            let second = before.columns.start.max(new.columns.start);
            return invalid(format!(
                "Column \"{}\" cannot be restricted by two inequalities not starting with the \
                 same column",
                self.name(second).unwrap_or_default()
            ));
        }
        let (lower, upper) = match ends {
            ((true, true), _) => return refuse_second("start", names),
            (_, (true, true)) => return refuse_second("end", names),
            ((lower, l), (upper, u)) => (lower || l, upper || u),
        };
        let columns = before.columns.start..before.columns.end.max(new.columns.end);
        Ok(Restriction { columns, kind: Restricts::Range { lower, upper } })
    }

    fn names(&self, columns: impl Iterator<Item = usize>, between: &str) -> String {
        let names: Vec<&str> = columns.filter_map(|at| self.name(at)).collect();
        names.join(between)
    }

    fn name(&self, at: usize) -> Option<&'a str> {
        self.table.columns.get(at).map(|column| column.name.as_str())
    }

    /// Refuses a range before or behind which another clustering column is restricted.
    fn check_range(&self, new: &Restriction) -> Result<(), CqlError> {
        let clustering = self.clustering();
        let Some((_, last)) = self.of.range(clustering.clone()).next_back() else { return Ok(()) };
        let (begin, last_begin) = (new.columns.start, last.columns.start);
        if !clustering.contains(&begin) {
            return Ok(());
        }
        let (Some(name), Some(last_name)) = (self.name(begin), self.name(last_begin)) else {
            return Ok(());
        };
        if last.is_range() && begin > last_begin {
            return invalid(format!(
                "Clustering column \"{name}\" cannot be restricted (preceding column \
                 \"{last_name}\" is restricted by a non-EQ relation)"
            ));
        }
        let next = self.of.range(begin + 1..clustering.end).next().map(|(at, _)| *at);
        let next = next.filter(|_| new.is_range() && begin < last_begin);
        if let Some(next) = next.and_then(|at| self.name(at)) {
            return invalid(format!(
                "PRIMARY KEY column \"{next}\" cannot be restricted (preceding column \"{name}\" \
                 is restricted by a non-EQ relation)"
            ));
        }
        Ok(())
    }

    /// Refuses relations that leave out a clustering column before the last of theirs, or look
    /// into one.
    pub(super) fn check_prefix(&self) -> Result<(), CqlError> {
        let clustering = self.clustering();
        if self.of.range(clustering.clone()).any(|(_, one)| one.kind == Restricts::Elements) {
            return invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index \
                 or filtering",
            );
        }
        let restricted = self.of.range(clustering.clone()).map(|(at, _)| *at);
        let Some((free, other)) = clustering.zip(restricted).find(|(at, other)| at != other) else {
            return Ok(());
        };
        invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not \
             restricted",
            self.name(other).unwrap_or_default(),
            self.name(free).unwrap_or_default()
        ))
    }

    fn clustering(&self) -> Range<usize> {
        let key = self.table.partition_key().len();
        key..key + self.table.clustering().len()
    }

    /// Whether there are relations on clustering columns.
    pub(super) fn of_clustering(&self) -> bool {
        self.of.range(self.clustering()).next().is_some()
    }

    /// Whether there are some on ranges of clustering columns.
    pub(super) fn of_range(&self) -> bool {
        self.of.range(self.clustering()).any(|(_, one)| one.is_range())
    }

    /// The clustering columns on which there are none.
    pub(super) fn free_clustering(&self) -> Vec<&'a str> {
        let free = self.clustering().filter(|at| !self.of.contains_key(at));
        free.filter_map(|at| self.name(at)).collect()
    }

    /// The columns outside of the key on which there are some.
    pub(super) fn others(&self) -> Vec<&'a str> {
        let others = self.of.range(self.clustering().end..);
        others.filter_map(|(at, _)| self.name(*at)).collect()
    }
}

impl Restriction {
    fn is_range(&self) -> bool {
        matches!(self.kind, Restricts::Range { .. })
    }
}

fn refuse_second<T>(which: &str, names: &str) -> Result<T, CqlError> {
    invalid(format!("More than one restriction was found for the {which} bound on {names}"))
}
