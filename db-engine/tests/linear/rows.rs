//! Partitions of a few values, as clients write and read them.

use super::checker::Sequential;

/// What a partition has. Of rows: the value of its only row, and that of its static column. Of
/// counters: that of each of its two rows, and the static one.
pub type Values = [Option<i32>; 3];

/// Where the static value of a partition of rows is.
pub const STATIC: usize = 1;

/// What a client was told of a condition: that it held, or what was there; `None` if nothing.
pub type Told = Option<Result<(), Option<i32>>>;

/// What a client asks of a partition, and what it was answered.
#[derive(Debug, Clone)]
pub enum OfRow {
    Read(Values),
    /// `IF value = …`: if this one was, those that are said become `to`.
    Swap {
        asked: usize,
        from: Option<i32>,
        set: [bool; 3],
        to: i32,
        answer: Told,
    },
    /// `IF NOT EXISTS`.
    Insert {
        to: i32,
        answer: Told,
    },
    /// `v = v + …` of counters.
    Add(Values),
    /// A deletion of counters, those that are said.
    Reset([bool; 3]),
    /// `l[0] = …` of a list that is there with the row: whether it was.
    Put {
        to: i32,
        answer: Told,
    },
    /// `IF EXISTS`.
    Delete {
        answer: Told,
    },
}

/// The partition of a key.
pub struct OnePartition;

impl Sequential for OnePartition {
    type State = Values;
    type Operation = OfRow;

    fn apply(state: &Values, operation: &OfRow) -> Option<Values> {
        let mut after = *state;
        let (holds, found, answer) = match operation {
            OfRow::Read(found) => return (found == state).then_some(*state),
            OfRow::Add(by) => {
                for (value, by) in after.iter_mut().zip(by) {
                    *value = by.map(|by| value.unwrap_or(0) + by).or(*value);
                }
                return Some(after);
            }
            OfRow::Reset(which) => {
                set(&mut after, *which, None);
                return Some(after);
            }
            OfRow::Swap { asked, from, set: which, to, answer } => {
                set(&mut after, *which, Some(*to));
                (state[*asked] == *from, state[*asked], answer)
            }
            OfRow::Insert { to, answer } => {
                after[0] = Some(*to);
                (state[0].is_none(), state[0], answer)
            }
            OfRow::Put { to, answer } => {
                after[0] = Some(*to);
                (state[0].is_some(), state[0], answer)
            }
            OfRow::Delete { answer } => {
                after[0] = None;
                (state[0].is_some(), state[0], answer)
            }
        };
        match answer {
            None if holds => Some(after),
            None => Some(*state),
            Some(Ok(())) => holds.then_some(after),
            Some(Err(told)) => (!holds && *told == found).then_some(*state),
        }
    }
}

fn set(values: &mut Values, which: [bool; 3], to: Option<i32>) {
    for (value, _) in values.iter_mut().zip(which).filter(|(_, is_set)| *is_set) {
        *value = to;
    }
}
