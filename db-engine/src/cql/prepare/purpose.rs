//! What the values of a statement are wanted for.

use crate::cql::prepare::{
    input::{ElementsWrite, Operand},
    plan::{Plan, Prepared, RowChanges, WritePlan},
};

/// What a value is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum ValuePurpose {
    /// To be stored or compared as one value.
    Whole,
    /// To be taken apart into elements, with others that are written to their column.
    SomeElements,
    /// To be all elements that are written to this column, which is a set, map or list.
    AllElements(u16),
}

impl Prepared {
    /// What the value of this marker is wanted for.
    pub(in crate::cql) fn purpose_of(&self, marker: u16) -> ValuePurpose {
        let of_elements = match &self.plan {
            Plan::Write(write) => write.purpose_of(marker),
            Plan::Batch(batch) => batch.writes.iter().find_map(|write| write.purpose_of(marker)),
            _ => None,
        };
        of_elements.unwrap_or(ValuePurpose::Whole)
    }

    /// Whether the values are copied and kept, since what is written depends on what is there.
    #[must_use]
    pub fn keeps_values(&self) -> bool {
        match &self.plan {
            Plan::Write(write) => write.is_dependent(),
            Plan::Batch(batch) => batch.is_dependent(),
            _ => false,
        }
    }
}

impl WritePlan {
    fn purpose_of(&self, marker: u16) -> Option<ValuePurpose> {
        let of = |changes: &RowChanges| changes.purpose_of(marker);
        of(&self.changes).or_else(|| of(&self.static_changes))
    }
}

impl RowChanges {
    fn purpose_of(&self, marker: u16) -> Option<ValuePurpose> {
        let (column, change) =
            self.elements.iter().find(|(_, change)| change.takes_apart(marker))?;
        let is_alone = self.elements.iter().filter(|(other, _)| other == column).count() == 1;
        Some(match change {
            ElementsWrite::Replace(slot) | ElementsWrite::Add(slot)
                if is_alone && slot.ty.is_collection() =>
            {
                ValuePurpose::AllElements(*column)
            }
            _ => ValuePurpose::SomeElements,
        })
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
