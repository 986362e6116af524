//! Large values of a statement, which are checked and brought into form bit by bit before it is
//! bound.

use super::statement::PreparedStatement;
use crate::{
    budget::{Budget, Share},
    cql::{BindContext, BindScratch},
    io::TimeSlice,
    types::{
        Value,
        large::{LARGE_VALUE_BYTES, LargeValue, LargeWork},
    },
};
use std::sync::Arc;

/// Bytes from which on a value is worth it if all of its statement are large.
const PART_BYTES: usize = 1 << 10;

/// What work on values is begun with: the memory that it may take, and what binding needs.
pub(super) type BeginWith<'a> = (&'a Budget, &'a BindContext, &'a BindScratch);

/// The values of one statement that are worth it, as far as they are done.
#[derive(Debug)]
pub struct LargeValues {
    statement: Arc<PreparedStatement>,
    /// Each with its place among the values of the statement.
    done: Vec<(usize, Arc<LargeValue>)>,
    left: Vec<(usize, LargeWork)>,
}

/// Whether these values may be worth it.
pub(super) fn are_large(values: &[Value<'_>]) -> bool {
    let bytes = |value: &Value<'_>| if let Value::Bytes(bytes) = value { bytes.len() } else { 0 };
    values.iter().map(bytes).sum::<usize>() >= LARGE_VALUE_BYTES
}

impl LargeValues {
    /// Those of these values, unless there are none, or no memory to keep them meanwhile: then the
    /// statement is bound at once. `is_kept`: the statement is one of several that are kept.
    pub(super) fn of(
        statement: &Arc<PreparedStatement>,
        values: &[Value<'_>],
        is_kept: bool,
        (budget, context, scratch): BeginWith<'_>,
    ) -> Option<Box<Self>> {
        // What waits for what it depends on is copied, whatever its type.
        let is_kept = is_kept || statement.prepared.keeps_values();
        let mut left = Vec::new();
        for (place, (value, spec)) in values.iter().zip(&statement.prepared.bind).enumerate() {
            if let Value::Bytes(bytes) = value
                && bytes.len() >= PART_BYTES
                && (is_kept || LargeWork::is_for(&spec.ty))
            {
                let marker = u16::try_from(place).unwrap_or(u16::MAX);
                let (wanted, with) = ((marker, &spec.ty), (context, scratch));
                let work = statement.prepared.large_work(wanted, bytes, !is_kept, with);
                left.push((place, work));
            }
        }
        if left.is_empty() {
            return None;
        }
        let all = Self { statement: Arc::clone(statement), done: Vec::new(), left };
        budget.has_room(Share::Requests, all.bytes() as u64).then(|| Box::new(all))
    }

    /// As [`LargeValues::of`], of a statement that took long to parse: it is kept, even if none of
    /// its values is large.
    pub(super) fn of_parsed(
        statement: &Arc<PreparedStatement>,
        values: &[Value<'_>],
        is_kept: bool,
        with: BeginWith<'_>,
    ) -> Self {
        let large = are_large(values).then(|| Self::of(statement, values, is_kept, with)).flatten();
        large.map_or_else(
            || Self { statement: Arc::clone(statement), done: Vec::new(), left: Vec::new() },
            |large| *large,
        )
    }

    /// The statement whose they are.
    pub(super) fn statement(&self) -> &Arc<PreparedStatement> {
        &self.statement
    }

    /// Bytes of memory that they take, at most.
    pub(super) fn bytes(&self) -> usize {
        let done: usize = self.done.iter().map(|(_, large)| large.bytes()).sum();
        let left: usize = self.left.iter().map(|(_, work)| work.bytes()).sum();
        self.statement.own_bytes() + done + left
    }

    /// Goes on as long as there is time; `values` are those of the statement. Returns whether all
    /// are done, and there is time left to bind them.
    pub(super) fn go_on(&mut self, values: &[Value<'_>], time: &mut TimeSlice<'_>) -> bool {
        while let Some((place, work)) = self.left.last_mut() {
            let given =
                if let Some(Value::Bytes(bytes)) = values.get(*place) { bytes } else { &[][..] };
            let Some(large) = work.go_on(given, time) else { return false };
            self.done.push((*place, Arc::new(large)));
            self.left.pop();
        }
        !time.is_over()
    }

    /// These values, with those that are done in their places.
    pub(super) fn put_into<'a>(&'a self, values: &[Value<'a>]) -> Vec<Value<'a>> {
        let mut values = values.to_vec();
        for (place, large) in &self.done {
            if let Some(value) = values.get_mut(*place) {
                *value = Value::Large(large);
            }
        }
        values
    }
}
