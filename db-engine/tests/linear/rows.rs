//! Rows of one value, as clients write and read them.

use super::checker::Sequential;

/// What a client asks of the row of a key, and what it was answered; `None` if it was not.
#[derive(Debug, Clone)]
pub enum OfRow {
    Read(Option<i32>),
    /// `IF v = …`: whether it was, and else what was.
    Swap {
        from: i32,
        to: i32,
        answer: Option<Result<(), Option<i32>>>,
    },
    /// `IF NOT EXISTS`.
    Insert {
        to: i32,
        answer: Option<Result<(), Option<i32>>>,
    },
    /// `v = v + …` of a counter.
    Add {
        by: i32,
    },
    /// `l[0] = …` of a list that is there with the row: whether it was.
    Put {
        to: i32,
        answer: Option<Result<(), Option<i32>>>,
    },
    /// `IF EXISTS`.
    Delete {
        answer: Option<Result<(), Option<i32>>>,
    },
}

/// The row of a key: its value, if it is there.
pub struct OneRow;

impl Sequential for OneRow {
    type State = Option<i32>;
    type Operation = OfRow;

    fn apply(state: &Option<i32>, operation: &OfRow) -> Option<Option<i32>> {
        let (holds, after, answer) = match operation {
            OfRow::Read(found) => return (found == state).then_some(*state),
            OfRow::Add { by } => return Some(Some(state.unwrap_or(0) + by)),
            OfRow::Swap { from, to, answer } => (*state == Some(*from), Some(*to), answer),
            OfRow::Insert { to, answer } => (state.is_none(), Some(*to), answer),
            OfRow::Put { to, answer } => (state.is_some(), Some(*to), answer),
            OfRow::Delete { answer } => (state.is_some(), None, answer),
        };
        match answer {
            None if holds => Some(after),
            None => Some(*state),
            Some(Ok(())) => holds.then_some(after),
            Some(Err(found)) => (!holds && found == state).then_some(*state),
        }
    }
}
