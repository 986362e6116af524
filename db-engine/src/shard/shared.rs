//! What all shards share: the schema, the prepared statements and the last write time.
//!
//! None of it is touched by the execution of a prepared statement, but for one load of the
//! schema's version in every turn: each shard keeps the schema and the statements it uses itself.

use super::{statement::PreparedStatement, statement_id::Id};
use crate::schema::Catalog;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{
        AtomicI64, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// See the module.
pub struct Shared {
    version: AtomicU64,
    last_timestamp_us: AtomicI64,
    /// Most bytes of prepared statements.
    prepared_bytes_max: usize,
    /// How often statements were forgotten to make room.
    evictions: AtomicU64,
    current: Mutex<SharedState>,
}

struct SharedState {
    version: u64,
    catalog: Arc<Catalog>,
    statements: HashMap<Id, Arc<PreparedStatement>>,
    /// Bytes of all statements.
    bytes: usize,
}

impl Shared {
    /// With this schema, and room for so many bytes of prepared statements.
    #[must_use]
    pub fn new(catalog: Catalog, prepared_bytes_max: usize) -> Self {
        let (catalog, statements) = (Arc::new(catalog), HashMap::new());
        Self {
            version: AtomicU64::new(1),
            last_timestamp_us: AtomicI64::new(i64::MIN),
            prepared_bytes_max,
            evictions: AtomicU64::new(0),
            current: Mutex::new(SharedState { version: 1, catalog, statements, bytes: 0 }),
        }
    }

    /// Changes with every change of the schema.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The schema and its version.
    pub fn schema(&self) -> (u64, Arc<Catalog>) {
        let current = self.lock();
        (current.version, Arc::clone(&current.catalog))
    }

    /// Makes this the schema. Statements that were prepared with what is not in it any more are
    /// forgotten, here and by all shards: their clients prepare them again.
    pub fn publish(&self, catalog: &Arc<Catalog>) {
        let mut current = self.lock();
        current.version += 1;
        current.catalog = Arc::clone(catalog);
        let mut bytes = current.bytes;
        current.statements.retain(|_, statement| {
            let keep = statement.prepared.is_current(catalog);
            if !keep {
                bytes -= statement.bytes;
                statement.forget();
            }
            keep
        });
        current.bytes = bytes;
        self.version.store(current.version, Release);
    }

    /// The statement of this id, if it is remembered.
    pub fn statement(&self, id: &Id) -> Option<Arc<PreparedStatement>> {
        self.lock().statements.get(id).cloned()
    }

    /// Most bytes of the schema as text. In memory and while it is changed it takes several times
    /// as much.
    #[must_use]
    pub fn schema_bytes_max(&self) -> usize {
        self.prepared_bytes_max / 4
    }

    /// Whether a statement of so many bytes can be remembered: one must leave room for others.
    #[must_use]
    pub fn can_remember(&self, bytes: usize) -> bool {
        bytes <= self.prepared_bytes_max / 2
    }

    /// Remembers a statement of this id that was prepared with this version of the schema. `None`
    /// if the schema has changed since: it must be prepared again.
    ///
    /// When there is no room, those used least recently are forgotten, and an eighth more; large
    /// ones first, so that one client's do not drive out what many others use.
    pub fn remember(
        &self,
        version: u64,
        id: Id,
        mut statement: PreparedStatement,
    ) -> Option<Arc<PreparedStatement>> {
        let mut current = self.lock();
        if current.version != version {
            return None;
        }
        if let Some(known) = current.statements.get(&id) {
            return Some(Arc::clone(known));
        }
        if current.bytes + statement.bytes > self.prepared_bytes_max {
            let most = (self.prepared_bytes_max / 8 * 7).saturating_sub(statement.bytes);
            let small = self.prepared_bytes_max / 64;
            let mut by_use: Vec<_> = current
                .statements
                .iter()
                .map(|(id, one)| (one.bytes <= small, one.last_use(), Reverse(one.bytes), *id))
                .collect();
            by_use.sort_unstable();
            for (_, _, _, id) in by_use {
                if current.bytes <= most {
                    break;
                }
                if let Some(forgotten) = current.statements.remove(&id) {
                    current.bytes -= forgotten.bytes;
                    forgotten.forget();
                }
            }
            self.evictions.fetch_add(1, Relaxed);
        }
        current.bytes += statement.bytes;
        statement.is_shared = true;
        let statement = Arc::new(statement);
        current.statements.insert(id, Arc::clone(&statement));
        Some(statement)
    }

    /// How many statements are remembered, and their bytes.
    pub fn prepared(&self) -> (usize, usize) {
        let current = self.lock();
        (current.statements.len(), current.bytes)
    }

    /// Changes whenever statements are forgotten to make room: shards let go of them, too.
    #[inline]
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// A write time for a request that brings none: now, but later than any before, whichever
    /// shard gave it, so that of two writes the second wins.
    pub fn timestamp_us(&self, now_us: i64) -> i64 {
        let later = |last: i64| Some(now_us.max(last.saturating_add(1)));
        match self.last_timestamp_us.fetch_update(AcqRel, Relaxed, later) {
            Ok(last) | Err(last) => now_us.max(last.saturating_add(1)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_times_never_stand_still_nor_go_back() {
        let shared = Shared::new(Catalog::default(), 10);
        let times = [5, 5, 3, 9].map(|now| shared.timestamp_us(now));
        assert_eq!(times, [5, 6, 7, 9]);
    }
}
