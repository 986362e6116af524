//! PREPARE: a text becomes a statement that all shards remember.

use super::{
    Core, Shard,
    failure::Failure,
    session::Session,
    statement::{PreparedStatement, cost},
    statement_id::{Id, IdWork},
    unbound::{PreparedPart, Unbound},
};
use crate::{
    budget::Share,
    cql::{self, STATEMENT_BYTES_MAX},
    io::TimeSlice,
    protocol::{code, opcode, response},
};

/// What traces say when a statement is parsed, in Cassandra's words.
pub(super) const PREPARING: &str = "Preparing statement";

impl Shard {
    /// PREPARE, as far as there is time to find out the id of a long text.
    pub(super) fn prepare(
        &mut self,
        session: &mut Session,
        stream: i16,
        text: &str,
        mut id: IdWork,
        time: &mut TimeSlice<'_>,
    ) {
        match id.go_on(text, time) {
            Some(id) => {
                self.core.prepare(session, stream, text, id);
                self.core.metrics.served.add(1);
            }
            None => session.unbound = Some(Box::new(Unbound::new(PreparedPart::Id(id)))),
        }
    }
}

impl Core {
    fn prepare(&mut self, session: &mut Session, stream: i16, text: &str, id: Id) {
        self.metrics.prepares.add(1);
        let checked = self.check_cost(text, 0);
        let checked = checked.and_then(|cost| self.check_remembering(cost).map(|()| cost));
        let cost = match checked {
            Ok(cost) => cost,
            Err(failure) => return self.refuse_statement(session, stream, &failure),
        };
        // The schema may change between preparing and remembering; then once more.
        loop {
            self.learn_schema();
            let parsed = cql::parse(text);
            let address = self.address(session, stream);
            self.trace(address, |_| PREPARING.to_owned());
            let (catalog, keyspace) = (&self.catalog, session.keyspace.as_deref());
            let prepared = parsed.and_then(|parsed| {
                PreparedStatement::prepare(catalog, keyspace, (text, cost), parsed)
            });
            let statement = match prepared {
                Ok(statement) => statement,
                Err(error) => {
                    self.metrics.error(error.code.number());
                    let failure = Failure::from(error);
                    self.trace(address, |_| format!("Failed: {}", failure.message));
                    failure.put(&mut session.out, stream);
                    return;
                }
            };
            let reply = statement.reply(&id);
            let remembered = self.check_remembering(statement.bytes);
            if let Err(failure) = remembered.and_then(|()| self.check_answer(&reply)) {
                return self.refuse_statement(session, stream, &failure);
            }
            if self.shared.remember(self.schema_version, id, statement).is_some() {
                self.count_prepared();
                let at = response::begin(&mut session.out, stream, opcode::RESULT);
                session.out.extend_from_slice(&reply);
                response::end(&mut session.out, at);
                return;
            }
        }
    }

    /// Whether there is memory to understand this text, besides what its request `holds` already;
    /// gives what it takes, at most.
    pub(super) fn check_cost(&self, text: &str, holds: usize) -> Result<usize, Failure> {
        if text.len() > STATEMENT_BYTES_MAX {
            // It is refused when it is parsed, if not for what it would take to remember.
            return Ok(2 * text.len());
        }
        let cost = cost(text);
        if self.metrics.memory.has_room(Share::Requests, (holds + cost) as u64) {
            return Ok(cost);
        }
        Err(Failure::new(code::OVERLOADED, "the statement takes more memory than there is now"))
    }

    fn check_remembering(&self, bytes: usize) -> Result<(), Failure> {
        if self.shared.can_remember(bytes) {
            return Ok(());
        }
        let what = "the statement takes more memory than prepared statements have: bind its values";
        Err(Failure::new(code::OVERLOADED, what))
    }

    /// A PREPARE is not answered with a statement for want of memory.
    #[cold]
    fn refuse_statement(&mut self, session: &mut Session, stream: i16, failure: &Failure) {
        self.metrics.error(failure.code);
        self.metrics.shed.add(1);
        failure.put(&mut session.out, stream);
    }

    /// Shows how many prepared statements are remembered.
    pub(super) fn count_prepared(&self) {
        let (count, bytes) = self.shared.prepared();
        self.metrics.prepared.set(count as u64);
        // Each shard shows its part of what all share.
        let part = bytes as u64 / u64::from(self.shards);
        self.metrics.memory.set_taken(Share::Statements, part);
    }
}
