//! All keyspaces and tables there are.

use super::{
    Applied, Ddl, SchemaError, Table, TableSettings, TableVersion,
    system::{self, is_system},
};
use crate::{
    mutation::TableNumber,
    types::{parse::TypeScope, user_type::UserTypes},
};
use md5::{Digest, Md5};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// A keyspace, its types and its tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Keyspace {
    /// Its name.
    pub name: String,
    /// How it wants to be replicated. Kept and shown; there is one node.
    pub replication: BTreeMap<String, String>,
    /// Kept and shown; writes are durable in any case.
    pub durable_writes: bool,
    /// Its user-defined types by name.
    pub types: UserTypes,
    /// Its tables by name.
    pub tables: BTreeMap<String, Arc<Table>>,
}

impl Keyspace {
    /// Where names of types are looked up in statements about it.
    #[must_use]
    pub fn scope(&self) -> TypeScope<'_> {
        TypeScope { keyspace: &self.name, types: &self.types }
    }
}

/// The schema at one moment. Cheap to clone: tables are shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalog {
    /// The keyspaces of users by name. Those of the system are not among them.
    pub keyspaces: BTreeMap<String, Keyspace>,
    /// The number that the next table gets.
    pub next_table: u32,
    /// Changes with every change, and is the same after a restart: drivers wait until all nodes
    /// show the same.
    pub version: Uuid,
    /// Bytes of it as text, about, and of the types of all columns as clients are told of them.
    pub bytes: usize,
    /// How often each table had been altered.
    pub(super) versions: BTreeMap<TableNumber, u32>,
}

impl Default for Catalog {
    fn default() -> Self {
        let (keyspaces, versions) = (BTreeMap::new(), BTreeMap::new());
        let (next_table, version, bytes) = (1, Uuid::nil(), 0);
        let mut catalog = Catalog { keyspaces, next_table, version, bytes, versions };
        catalog.set_version();
        catalog
    }
}

impl Catalog {
    /// The keyspace of this name.
    #[must_use]
    pub fn keyspace(&self, name: &str) -> Option<&Keyspace> {
        self.keyspaces.get(name)
    }

    /// Whether there is such a keyspace, those of the system included: what `USE` asks.
    #[must_use]
    pub fn has_keyspace(&self, name: &str) -> bool {
        is_system(name) || self.keyspaces.contains_key(name)
    }

    /// The table of this name, of a user or of the system.
    ///
    /// # Errors
    /// In Cassandra's words, if there is no such keyspace or table.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<&Arc<Table>, SchemaError> {
        let missing = || SchemaError::Invalid(format!("table {name} does not exist"));
        if is_system(keyspace) {
            return system::shape(keyspace, name).ok_or_else(missing);
        }
        let Some(found) = self.keyspaces.get(keyspace) else {
            return Err(SchemaError::Invalid(format!("keyspace {keyspace} does not exist")));
        };
        found.tables.get(name).ok_or_else(missing)
    }

    /// All tables of users.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.keyspaces.values().flat_map(|keyspace| keyspace.tables.values())
    }

    /// Whether what was planned with this version of a table may still be executed.
    #[must_use]
    pub fn is_current(&self, version: TableVersion) -> bool {
        system::is_shape(version.number)
            || self.versions.get(&version.number) == Some(&version.version)
    }

    /// The tables that storage must hold.
    #[must_use]
    pub fn stored(&self) -> BTreeMap<TableNumber, TableSettings> {
        self.tables().map(|table| (table.number, table.settings())).collect()
    }

    /// The tables that storage must learn of if it knows those of another catalog, and the numbers
    /// of those that it must forget.
    #[must_use]
    pub fn tables_since(
        &self,
        before: &Catalog,
    ) -> (Vec<(TableNumber, TableSettings)>, Vec<TableNumber>) {
        let known: BTreeMap<TableNumber, &Arc<Table>> =
            before.tables().map(|table| (table.number, table)).collect();
        let is_new = |table: &&Arc<Table>| {
            // Catalogs share what did not change.
            known.get(&table.number).is_none_or(|known| {
                !Arc::ptr_eq(known, table) && known.settings() != table.settings()
            })
        };
        let new = self.tables().filter(is_new).map(|table| (table.number, table.settings()));
        let gone = known.keys().filter(|number| !self.versions.contains_key(number));
        (new.collect(), gone.copied().collect())
    }

    /// Carries out a statement, in this microsecond since the Unix epoch. `id` becomes the
    /// identifier of a table that it creates.
    ///
    /// # Errors
    /// In Cassandra's words, if the statement makes no sense here; nothing is changed then.
    pub fn apply(&self, ddl: &Ddl, id: Uuid, now_us: i64) -> Result<Applied, SchemaError> {
        let mut applied = super::apply::apply(self, ddl, id, now_us)?;
        if let Some(catalog) = &mut applied.catalog {
            catalog.set_version();
        }
        Ok(applied)
    }

    /// The catalog as JSON, to be kept on disk.
    #[must_use]
    pub fn to_json(&self) -> String {
        super::json::to_json(self)
    }

    /// The catalog from what [`Catalog::to_json`] made.
    ///
    /// # Errors
    /// A sentence, if the text is something else or of a newer format.
    pub fn from_json(text: &str) -> Result<Catalog, String> {
        let mut catalog = super::json::from_json(text)?;
        catalog.set_version();
        Ok(catalog)
    }

    fn set_version(&mut self) {
        self.versions = self.tables().map(|table| (table.number, table.version)).collect();
        let text = super::json::to_digests(self);
        let tables = self.tables().map(|table| table.bytes());
        self.bytes = tables.fold(text.len(), usize::saturating_add);
        let digest = Md5::digest(text.as_bytes());
        self.version = uuid::Builder::from_md5_bytes(digest.into()).into_uuid();
    }
}
