//! `WHERE` of an UPDATE or DELETE: conditions → the rows that are written to.

use crate::cql::{
    error::{CqlError, invalid},
    prepare::{
        conditions::Sorter,
        input::BoundValue,
        plan::{Choice, KeyRanges, ManyRows},
    },
};

/// Which of the two the conditions are of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Update,
    Delete,
}

impl Verb {
    pub(super) fn text(self) -> &'static str {
        match self {
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }
}

impl KeyRanges {
    /// Whether it asks anything of clustering columns.
    pub(in crate::cql) fn restricts(&self) -> bool {
        !self.prefix.is_empty() || self.span.lower.is_some() || self.span.upper.is_some()
    }
}

impl ManyRows {
    /// The values of the key if it is one row, or all that a partition has.
    pub(super) fn as_one(&self) -> Option<(Vec<BoundValue>, Vec<BoundValue>)> {
        let only = |choices: &[Choice]| -> Option<Vec<BoundValue>> {
            let only = |choice: &Choice| match choice {
                Choice::One(slot) => Some(slot.clone()),
                _ => None,
            };
            choices.iter().map(only).collect()
        };
        if self.ranges.open && self.ranges.restricts() {
            return None;
        }
        Some((only(&self.partitions)?, only(&self.ranges.prefix)?))
    }
}

impl Sorter<'_> {
    /// The rows that are written to. `is_static_only`: no column of theirs is, only of partitions.
    pub(super) fn finish_write(
        mut self,
        verb: Verb,
        is_static_only: bool,
    ) -> Result<ManyRows, CqlError> {
        let partitions = self.whole_key(verb)?;
        if is_static_only && self.restrictions.of_clustering() {
            return invalid(format!(
                "Invalid restrictions on clustering columns since the {} statement modifies only \
                 static columns",
                verb.text()
            ));
        }
        let key = self.table.partition_key().len();
        let clustering = key..key + self.table.clustering().len();
        if verb == Verb::Update {
            if self.restrictions.of_range() {
                return invalid(
                    "Slice restrictions are not supported on the clustering columns in UPDATE \
                     statements",
                );
            }
            let missing = self.restrictions.free_clustering();
            if !is_static_only && !missing.is_empty() {
                let missing = missing.join(", ");
                return invalid(format!("Some clustering keys are missing: {missing}"));
            }
        }
        self.restrictions.check_prefix()?;
        let prefix = self.clustering(clustering)?;
        let others = self.restrictions.others();
        if !others.is_empty() {
            return invalid(format!(
                "Non PRIMARY KEY columns found in where clause: {} ",
                others.join(", ")
            ));
        }
        let ranges = self.ranges(prefix);
        Ok(ManyRows { partitions, ranges, is_delete: verb == Verb::Delete })
    }

    /// The values of the partition key.
    fn whole_key(&mut self, verb: Verb) -> Result<Vec<Choice>, CqlError> {
        let verb = verb.text();
        if !self.token.is_empty() {
            return invalid(format!(
                "The token function cannot be used in WHERE clauses for {verb} statements"
            ));
        }
        let mut missing = Vec::new();
        let mut choices = Vec::new();
        for (column, of) in self.table.partition_key().iter().zip(&mut self.columns) {
            match of.equal.take() {
                Some(choice) => choices.push(choice),
                None if of.is_empty() => missing.push(column.name.as_str()),
                None => {
                    return invalid(format!(
                        "Only EQ and IN relation are supported on the partition key (unless you \
                         use the token() function) for {verb} statements"
                    ));
                }
            }
        }
        if missing.is_empty() {
            return Ok(choices);
        }
        invalid(format!("Some partition key parts are missing: {}", missing.join(", ")))
    }
}
