//! Changes of the schema, one after the other, on shard 0.
//!
//! A change is applied to the catalog, made durable, given to all shards, and only then answered:
//! whoever has the answer can use the new schema on any connection, and it survives a crash.

use super::{failure::Failure, session::Address};
use crate::{
    budget::Charge,
    cql::CqlError,
    directory::{CatalogFile, Replacement},
    io::Completion,
    protocol::code,
    schema::{Catalog, Ddl, SchemaChange, SchemaError},
    store::Fatal,
};
use log::{error, info};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use uuid::Uuid;

/// Changes that may wait for others. Above, clients are told to come back later.
const WAITING_MAX: usize = 1024;

/// Somebody wants the schema changed.
#[derive(Debug)]
pub struct DdlRequest {
    /// The shard of the client's connection.
    pub shard: u16,
    /// Whom to answer there.
    pub address: Address,
    /// The change.
    pub ddl: Ddl,
    /// What it takes of the memory of that shard.
    pub charge: Charge,
}

/// What became of it.
#[derive(Debug)]
pub struct Answer {
    /// Whom to answer.
    pub address: Address,
    /// The change that was made, if one was, or why not.
    pub result: Result<Option<SchemaChange>, Failure>,
    /// What its client is to be warned of.
    pub warning: Option<String>,
}

/// What is to be done next about a change.
pub enum SchemaAction {
    /// Answer this client.
    Answer(u16, Answer),
    /// Publish this catalog, and let all shards learn of it.
    Publish(Arc<Catalog>, Option<SchemaChange>),
}

struct CurrentDdl {
    request: DdlRequest,
    catalog: Arc<Catalog>,
    change: Option<SchemaChange>,
    warning: Option<String>,
    step: Step,
}

enum Step {
    Storing(Replacement),
    /// These shards do not know it yet.
    Learning(BTreeSet<u16>),
}

/// The changes that are under way.
pub struct Changes {
    file: CatalogFile,
    waiting: VecDeque<DdlRequest>,
    current: Option<CurrentDdl>,
    completions: Vec<Completion>,
    shards: u16,
    /// Whether what deserves a warning is refused.
    strict: bool,
}

impl Changes {
    /// No changes yet. The schema lies in `file`. `strict` refuses what deserves a warning.
    #[must_use]
    pub fn new(file: CatalogFile, shards: u16, strict: bool) -> Self {
        let (waiting, completions) = (VecDeque::new(), Vec::new());
        Self { file, waiting, current: None, completions, shards, strict }
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Takes a request, or refuses it at once.
    pub fn request(&mut self, request: DdlRequest) -> Option<SchemaAction> {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(request);
            return None;
        }
        let refused = Failure::new(code::OVERLOADED, "too many changes of the schema at once");
        Some(answer(&request, Err(refused)))
    }

    /// Begins the next change if none is under way, on top of `catalog`, the schema of now
    /// (`now_us`, microseconds since the Unix epoch). It may grow to `bytes_max` of text.
    pub fn begin(
        &mut self,
        catalog: &Catalog,
        bytes_max: usize,
        now_us: i64,
    ) -> Option<SchemaAction> {
        if self.current.is_some() {
            return None;
        }
        let request = self.waiting.pop_front()?;
        let applied = match catalog.apply(&request.ddl, Uuid::new_v4(), now_us) {
            Ok(applied) => applied,
            Err(refused) => {
                return Some(answer(&request, Err(CqlError::from(refused).into())));
            }
        };
        let Some(changed) = applied.catalog else {
            return Some(answer(&request, Ok(applied.change)));
        };
        if self.strict
            && let Some(warning) = applied.warning
        {
            return Some(answer(
                &request,
                Err(CqlError::from(SchemaError::Config(warning)).into()),
            ));
        }
        let bytes = changed.bytes;
        if bytes > bytes_max && bytes > catalog.bytes {
            let refused = SchemaError::Invalid(format!(
                "The schema would have {bytes} bytes as text and in the types of columns, and \
                 there is memory for {bytes_max}: drop tables or shorten comments"
            ));
            return Some(answer(&request, Err(CqlError::from(refused).into())));
        }
        let step = Step::Storing(Replacement::begin(&mut self.file, &changed));
        let (catalog, change, warning) = (Arc::new(changed), applied.change, applied.warning);
        self.current = Some(CurrentDdl { request, catalog, change, warning, step });
        None
    }

    /// Goes on with storing.
    ///
    /// # Errors
    /// The operating system failed in a way that leaves open what is on the device.
    pub fn poll(&mut self) -> Result<Option<SchemaAction>, Fatal> {
        self.file.poll(&mut self.completions);
        let mut next = None;
        for completion in self.completions.drain(..) {
            let Some(mut current) = self.current.take() else { continue };
            let Step::Storing(replacement) = &mut current.step else {
                self.current = Some(current);
                continue;
            };
            match replacement.proceed(&mut self.file, completion) {
                Ok(false) => self.current = Some(current),
                Ok(true) => {
                    match (&current.change, &current.request.ddl) {
                        (None, Ddl::Truncate { name }) => {
                            let keyspace = name.keyspace.as_deref().unwrap_or_default();
                            info!(keyspace, table = name.name.as_str(); "a table was emptied");
                        }
                        (Some(change), _) => info!(change:%; "the schema has changed"),
                        (None, _) => {}
                    }
                    current.step = Step::Learning((0..self.shards).collect());
                    let change = current.change.clone();
                    next = Some(SchemaAction::Publish(Arc::clone(&current.catalog), change));
                    self.current = Some(current);
                }
                Err(failed) if failed.is_no_space() => {
                    error!(error:% = failed; "the schema could not be changed");
                    let text = format!("the schema could not be written: {failed}");
                    next = Some(answer(&current.request, Err(Failure::new(code::SERVER, text))));
                }
                Err(failed) => return Err(Fatal::from(failed)),
            }
        }
        Ok(next)
    }

    /// Notes that a shard knows the latest change. When all do, the client is answered.
    pub fn learnt(&mut self, shard: u16) -> Option<SchemaAction> {
        let mut current = self.current.take()?;
        if let Step::Learning(missing) = &mut current.step {
            missing.remove(&shard);
            if missing.is_empty() {
                let (request, warning) = (&current.request, current.warning);
                let result = Ok(current.change);
                let answer = Answer { address: request.address, result, warning };
                return Some(SchemaAction::Answer(request.shard, answer));
            }
        }
        self.current = Some(current);
        None
    }
}

fn answer(request: &DdlRequest, result: Result<Option<SchemaChange>, Failure>) -> SchemaAction {
    SchemaAction::Answer(request.shard, Answer { address: request.address, result, warning: None })
}
