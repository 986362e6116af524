//! Prepared statements: the plan, and the parts of answers that are always the same.

use super::shared::Shared;
use crate::{
    cql::{self, CqlError, Prepared},
    protocol::result::{self, Columns},
    schema::Catalog,
    trace::beginning,
};
use hashbrown::HashMap;
use md5::{Digest, Md5};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// What a client calls a statement: the MD5 of its keyspace and text, the same everywhere and
/// after a restart.
pub type Id = [u8; 16];

/// A statement with everything that can be decided once.
#[derive(Debug)]
pub struct Statement {
    /// Its id.
    pub id: Id,
    /// Its text, or the beginning of it: what traces tell of it.
    pub text: Box<str>,
    /// What it does.
    pub prepared: Prepared,
    /// The columns of its result.
    pub columns: Columns,
    /// The body of the answer to PREPARE.
    pub reply: Vec<u8>,
    forgotten: AtomicBool,
    last_use: AtomicU64,
}

impl Statement {
    /// Prepares a statement, which was parsed from `text`. `keyspace` is the one of names that do
    /// not say theirs.
    ///
    /// # Errors
    /// In Cassandra's words, if it makes no sense.
    pub fn prepare(
        catalog: &Catalog,
        keyspace: Option<&str>,
        text: &str,
        parsed: cql::Statement,
    ) -> Result<Self, CqlError> {
        let prepared = cql::prepare(catalog, keyspace, parsed)?;
        let mut digest = Md5::new();
        digest.update(keyspace.unwrap_or_default().as_bytes());
        digest.update(text.as_bytes());
        let id: Id = digest.finalize().into();
        let bind = Columns::new(&prepared.keyspace, &prepared.table, &prepared.bind);
        let columns = Columns::new(&prepared.keyspace, &prepared.table, &prepared.result);
        let reply = result::prepared(&id, &prepared.pk_indexes, &bind, &columns);
        let (forgotten, last_use) = (AtomicBool::new(false), AtomicU64::new(0));
        let text = beginning(text).into_boxed_str();
        Ok(Self { id, text, prepared, columns, reply, forgotten, last_use })
    }

    /// Makes all shards forget it.
    pub fn forget(&self) {
        self.forgotten.store(true, Relaxed);
    }

    /// The second in which it was last used, counted from the start of the process.
    pub fn last_use(&self) -> u64 {
        self.last_use.load(Relaxed)
    }

    #[inline]
    fn used(&self, second: u64) {
        // Written once a second at most, so that shards do not fight for the line.
        if self.last_use.load(Relaxed) != second {
            self.last_use.store(second, Relaxed);
        }
    }
}

/// The statements that one shard has used, so that it needs no lock to use them again.
#[derive(Default)]
pub struct Plans {
    places: HashMap<Id, usize>,
    statements: Vec<Arc<Statement>>,
}

impl Plans {
    /// The place of a statement, which [`Plans::at`] takes; valid until the next call.
    #[inline]
    pub fn find(&mut self, shared: &Shared, id: &[u8], second: u64) -> Option<usize> {
        let id: &Id = id.try_into().ok()?;
        if let Some(place) = self.places.get(id) {
            let statement = &self.statements[*place];
            if !statement.forgotten.load(Relaxed) {
                statement.used(second);
                return Some(*place);
            }
            self.sweep();
        }
        let statement = shared.statement(id)?;
        statement.used(second);
        if self.statements.len() == self.statements.capacity() {
            self.sweep();
        }
        self.places.insert(*id, self.statements.len());
        self.statements.push(statement);
        Some(self.statements.len() - 1)
    }

    /// The statement in this place.
    #[inline]
    #[must_use]
    pub fn at(&self, place: usize) -> &Arc<Statement> {
        &self.statements[place]
    }

    /// Drops what is forgotten.
    pub fn sweep(&mut self) {
        self.statements.retain(|statement| !statement.forgotten.load(Relaxed));
        self.places = self.statements.iter().enumerate().map(|(place, s)| (s.id, place)).collect();
    }
}
