//! What the values of a statement are wanted for.

use crate::{
    cql::prepare::{
        input::{ElementsWrite, Operand},
        plan::{Plan, Prepared, WritePlan},
    },
    types::large::Purpose,
};

impl Prepared {
    /// What the value of this marker is wanted for.
    #[must_use]
    pub fn purpose_of(&self, marker: u16) -> Purpose {
        let takes_apart = match &self.plan {
            Plan::Write(write) => write.takes_apart(marker),
            Plan::Batch(batch) => batch.writes.iter().any(|write| write.takes_apart(marker)),
            _ => false,
        };
        if takes_apart { Purpose::Elements } else { Purpose::Whole }
    }
}

impl WritePlan {
    fn takes_apart(&self, marker: u16) -> bool {
        let mut changes = self.changes.elements.iter().chain(&self.static_changes.elements);
        changes.any(|(_, change)| change.takes_apart(marker))
    }
}

impl ElementsWrite {
    fn takes_apart(&self, marker: u16) -> bool {
        let (Self::Replace(slot)
        | Self::Add(slot)
        | Self::Prepend(slot)
        | Self::Subtract(slot)
        | Self::Discard(slot)) = self
        else {
            return false;
        };
        slot.operand == Operand::Bound(marker)
    }
}
