//! The connections of one shard, by their place, and who of them has something to send.

use super::connection::{Connection, Life, Stream};
use crate::{
    budget::{Budget, Share},
    shard::session::{ConnectionId, Session, Sessions},
};
use std::sync::Arc;

/// All connections of one shard.
#[derive(Debug, Default)]
pub struct Connections {
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    dirty: Vec<u32>,
    generation: u32,
    open: u32,
    budget: Arc<Budget>,
}

impl Connections {
    /// None yet. What they hold is taken of this budget.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget, ..Self::default() }
    }

    /// The number of the place that the next connection is given.
    ///
    /// # Panics
    /// There are 2^32 connections: their limit is far below.
    #[must_use]
    pub fn next_index(&self) -> u32 {
        let next = || u32::try_from(self.slots.len()).expect("connections are limited");
        self.free.last().copied().unwrap_or_else(next)
    }

    /// Gives a new connection a place. Places of closed ones are used again.
    pub fn insert(&mut self, stream: Box<dyn Stream>) {
        let index = self.next_index();
        if self.free.pop().is_none() {
            self.slots.push(None);
        }
        self.generation = self.generation.wrapping_add(1);
        self.open += 1;
        let place = ConnectionId { index, generation: self.generation };
        self.slots[index as usize] = Some(Connection::new(stream, place, &self.budget));
    }

    /// Forgets a connection, which closes its socket and gives back what it holds.
    pub fn remove(&mut self, index: u32) -> Option<Connection> {
        let removed = self.slots.get_mut(index as usize).and_then(Option::take)?;
        self.free.push(index);
        self.open -= 1;
        Some(removed)
    }

    /// The connection in this place.
    pub fn get(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots.get_mut(index as usize).and_then(Option::as_mut)
    }

    /// How many there are.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.open
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().flatten()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().flatten()
    }

    /// Notes that the connection is to be looked at when answers are sent.
    pub fn touch(&mut self, index: u32) {
        if let Some(connection) = self.slots.get_mut(index as usize).and_then(Option::as_mut)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Whether any was touched.
    #[must_use]
    pub fn has_touched(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the list of those that were touched, in exchange for an empty one.
    pub fn touched(&mut self, empty: Vec<u32>) -> Vec<u32> {
        debug_assert!(empty.is_empty(), "who is in the list is marked as such");
        std::mem::replace(&mut self.dirty, empty)
    }

    /// The place of the connection that has waited longest without having said STARTUP.
    #[must_use]
    pub fn oldest_silent(&self) -> Option<u32> {
        let silent = self.iter().filter(|connection| !connection.session.started);
        let oldest = silent.min_by_key(|connection| {
            // Generations count up and wrap: the oldest is the farthest back.
            std::cmp::Reverse(self.generation.wrapping_sub(connection.session.place.generation))
        });
        oldest.map(|connection| connection.session.place.index)
    }
}

impl Sessions for Connections {
    fn look(&self, place: ConnectionId) -> Option<&Session> {
        let connection = self.slots.get(place.index as usize)?.as_ref()?;
        (connection.session.place == place).then_some(&connection.session)
    }

    fn answer(&mut self, place: ConnectionId) -> Option<&mut Session> {
        let connection = self.slots.get_mut(place.index as usize).and_then(Option::as_mut)?;
        if connection.session.place != place {
            return None;
        }
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(place.index);
        }
        Some(&mut connection.session)
    }

    fn each_registered(&mut self, f: &mut dyn FnMut(&mut Session)) {
        for connection in self.slots.iter_mut().flatten() {
            if connection.session.registered && !connection.session.broken {
                if connection.output_bytes() > 0 && self.budget.is_over(Share::Answers) {
                    // It takes nothing, and there is no memory to tell it more.
                    connection.life = Life::Closed;
                } else {
                    f(&mut connection.session);
                    connection.settle();
                }
                if !connection.dirty {
                    connection.dirty = true;
                    self.dirty.push(connection.session.place.index);
                }
            }
        }
    }
}
