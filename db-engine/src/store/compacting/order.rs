//! In what order the entries of several inputs come.
//!
//! The inputs are kept in the order of the entries that they stand on. If one of them stands alone
//! on the next entry, it is found out once how many of the following come before all others': so a
//! run of entries costs no comparison for each.

use std::{cmp::Ordering, io};

use super::inputs::InputFile;
use crate::mutation::Token;

/// The order of inputs, and which of them stand on the next entry.
#[derive(Default)]
pub(super) struct InputOrder {
    /// Those that stand on an entry, in the order of these, with the token of each: mostly that
    /// tells already which comes first. Those of one entry are in the order of their numbers, so
    /// that its versions are in the same order whenever they are looked at.
    all: Vec<(Token, usize)>,
    /// How many of them, the first ones, stand on the next entry.
    next: usize,
    /// If that is one: the entry of its block before which there is nothing of the others.
    run_end: Option<usize>,
    /// Those that went on and have no place yet.
    moved: Vec<(Token, usize)>,
    /// The one that is not what was written.
    pub unreadable: Option<usize>,
}

impl InputOrder {
    /// Begins anew, as they stand now.
    pub fn sort(&mut self, inputs: &[InputFile]) {
        let Self { all, next, run_end, .. } = self;
        all.clear();
        all.extend(inputs.iter().enumerate().filter_map(|(number, input)| {
            let head = input.peek()?;
            Some((head.token, number))
        }));
        all.sort_by(|a, b| order(inputs, *a, *b).then_with(|| a.1.cmp(&b.1)));
        (*next, *run_end) = (0, None);
    }

    /// All that stand on an entry, in the order of these.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|(_, number)| *number)
    }

    /// Those that stand on the next entry, in the order of their numbers.
    pub fn at_next(&self) -> impl Iterator<Item = usize> {
        self.all().take(self.next)
    }

    /// The input that stands alone on the next entry, and the entry of its block up to which all
    /// come before the others'.
    pub fn run(&self) -> Option<(usize, usize)> {
        Some((self.all.first()?.1, self.run_end?))
    }

    /// Finds those that stand on the next entry; false if nothing is left.
    pub fn find_next(&mut self, inputs: &[InputFile]) -> bool {
        let Some((first, others)) = self.all.split_first() else { return false };
        if self.run_end.is_some() {
            return true;
        }
        let is_same = |other: &&(Token, usize)| order(inputs, *first, **other).is_eq();
        self.next = 1 + others.iter().take_while(is_same).count();
        if let (1, Some((block, entry))) = (self.next, inputs[first.1].at()) {
            let other = others.first().and_then(|(_, other)| inputs[*other].peek());
            let end = other.map(|other| block.first_from(entry + 1, &other));
            self.run_end = Some(end.unwrap_or(block.len()));
        }
        true
    }

    /// Goes on by so many entries in those that stand on the next one. True if one of them is at
    /// the end of what was read of it.
    ///
    /// # Errors
    ///
    /// If the block behind is not what was written there.
    pub fn advance(&mut self, inputs: &mut [InputFile], entries: usize) -> io::Result<bool> {
        let entry = |(_, number): &(Token, usize)| Some(inputs[*number].at()?.1 + entries);
        let is_in_run = self.run_end.is_some() && self.all.first().and_then(entry) < self.run_end;
        let mut ends = false;
        for (token, number) in &mut self.all[..self.next] {
            self.unreadable = Some(*number);
            inputs[*number].advance(entries)?;
            self.unreadable = None;
            match inputs[*number].peek() {
                Some(head) => *token = head.token,
                None => ends = true,
            }
        }
        if is_in_run || ends {
            return Ok(ends);
        }
        self.run_end = None;
        self.moved.clear();
        self.moved.extend(self.all.drain(..self.next));
        for one in &self.moved {
            let order = |other| order(inputs, other, *one).then_with(|| other.1.cmp(&one.1));
            let place = self.all.partition_point(|other| order(*other).is_lt());
            self.all.insert(place, *one);
        }
        Ok(false)
    }
}

#[inline]
fn order(inputs: &[InputFile], one: (Token, usize), other: (Token, usize)) -> Ordering {
    one.0.cmp(&other.0).then_with(|| match (inputs[one.1].peek(), inputs[other.1].peek()) {
        (Some(one), Some(other)) => one.order(&other),
        _ => Ordering::Equal,
    })
}
