//! What each request asks for: from an opcode to the plan that is run.

use super::{
    Core, Shard,
    batch::TEXT_COST,
    ddl,
    dependent::{OwnStatement, WriteTerms},
    failure::Failure,
    large_values::{LargeValues, are_large},
    peers::Message,
    prepare::PREPARING,
    session::Session,
    statement::PreparedStatement,
    statement_id::IdWork,
    unbound::{PreparedPart, Unbound},
};
use crate::{
    budget::{Charge, Share},
    cql::{self, BindContext, Plan, Prepared, ReadOptions},
    io::TimeSlice,
    protocol::{
        CQL_VERSION, Consistency, MalformedBody, VERSION_NAME, code, compression,
        frame::Frame,
        notation::BodyReader,
        opcode,
        request::{Parameters, Startup, Values, read_register},
        response, result,
    },
    schema::system::PARTITIONER,
    types::{Value, large::LARGE_VALUE_BYTES},
};
use log::debug;
use std::sync::Arc;

/// Answers of at most so many bytes are made whatever memory answers take.
const SHORT_ANSWER_BYTES: u64 = 16 << 10;

/// How the values of a request are to be bound.
pub(super) struct Binding<'a> {
    /// The values, in the order of the markers.
    pub values: &'a [Value<'a>],
    /// The write time that the client chose.
    pub timestamp_us: Option<i64>,
    /// The client remembers the columns of the result.
    pub skip_metadata: bool,
    /// Rows in a page and where it begins.
    pub options: ReadOptions<'a>,
    /// How many replicas must agree.
    pub consistency: Consistency,
    /// The same for conditions, if the client said so.
    pub serial: Option<Consistency>,
}

impl Binding<'_> {
    fn terms(&self) -> WriteTerms {
        let (consistency, serial) = (self.consistency, self.serial);
        WriteTerms { consistency, serial, timestamp_us: self.timestamp_us }
    }
}

impl Shard {
    /// Runs one request, of which `reader` has what follows the header and the payload.
    pub(super) fn request(
        &mut self,
        session: &mut Session,
        Frame { stream, opcode, .. }: Frame<'_>,
        mut reader: BodyReader<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        if !session.started && !matches!(opcode, opcode::STARTUP | opcode::OPTIONS) {
            return Err(MalformedBody(format!(
                "Unexpected message {opcode:#04x}, expecting STARTUP or OPTIONS"
            )));
        }
        match opcode {
            opcode::EXECUTE => return self.execute(session, stream, reader, time),
            opcode::BATCH => return self.batch(session, stream, reader.rest(), time),
            opcode::QUERY => return self.query(session, stream, reader, time),
            opcode::PREPARE => {
                let text = reader.long_string()?;
                time.count(text.len() * TEXT_COST);
                let id = IdWork::new(session.keyspace.as_deref());
                self.prepare(session, stream, text, id, time);
                return Ok(());
            }
            opcode::OPTIONS => self.core.supported(session, stream),
            opcode::STARTUP => startup(session, stream, reader.rest())?,
            opcode::REGISTER => {
                session.registered |= read_register(reader.rest())?;
                response::ready(&mut session.out, stream);
            }
            other => return Err(MalformedBody(format!("{other:#04x} is not a request"))),
        }
        self.core.metrics.served.add(1);
        Ok(())
    }

    fn execute(
        &mut self,
        session: &mut Session,
        stream: i16,
        mut reader: BodyReader<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let id = reader.short_bytes()?;
        let is_large = reader.rest().len() >= LARGE_VALUE_BYTES;
        let mut values = Values::default();
        let parameters = Parameters::read(&mut reader, &mut values)?;
        let values = values.as_slice();
        let second = self.core.second();
        match self.plans.find(&self.core.shared, id, second) {
            Some(place) => {
                let statement = self.plans.at(place);
                let values = (&parameters, values);
                if is_large {
                    self.core.run_any(session, stream, (statement, false), values, time);
                } else {
                    self.core.run(session, stream, statement, values, time);
                }
            }
            None => self.core.unprepared(session, stream, id),
        }
        Ok(())
    }

    fn query(
        &mut self,
        session: &mut Session,
        stream: i16,
        mut reader: BodyReader<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), MalformedBody> {
        let text = reader.long_string()?;
        time.count(text.len() * TEXT_COST);
        let mut values = Values::default();
        let parameters = Parameters::read(&mut reader, &mut values)?;
        let values = values.as_slice();
        self.core.learn_schema();
        let cost = match self.core.check_cost(text, 0) {
            Ok(cost) => cost,
            Err(failure) => {
                self.core.fail(session, stream, &failure);
                return Ok(());
            }
        };
        let parsed = cql::parse(text);
        let address = self.core.address(session, stream);
        self.core.trace(address, |_| PREPARING.to_owned());
        let (catalog, keyspace) = (&self.core.catalog, session.keyspace.as_deref());
        let (is_long, text) = (text.len() >= LARGE_VALUE_BYTES, (text, cost));
        match parsed.and_then(|parsed| PreparedStatement::prepare(catalog, keyspace, text, parsed))
        {
            Ok(statement) => {
                if statement.prepared.plan.is_of_rows() {
                    self.core.metrics.unprepared.add(1);
                }
                let statement = (&Arc::new(statement), is_long);
                self.core.run_any(session, stream, statement, (&parameters, values), time);
            }
            Err(error) => self.core.fail(session, stream, &error.into()),
        }
        Ok(())
    }
}

/// STARTUP: the connection may be used from now on.
fn startup(session: &mut Session, stream: i16, body: &[u8]) -> Result<(), MalformedBody> {
    let startup = Startup::read(body)?;
    match startup.cql_version {
        None => return Err(MalformedBody::new("Missing value CQL_VERSION in STARTUP message")),
        Some(version) if !version.starts_with("3.") && version != "4.0.0" => {
            return Err(MalformedBody(format!(
                "CQL version {version} is not supported by the binary protocol \
                 (supported version are 3.0.0 and above)"
            )));
        }
        Some(_) => {}
    }
    match startup.compression.map(str::to_ascii_lowercase).as_deref() {
        None | Some("") => {}
        Some(compression::NAME) => session.compressed = true,
        Some(other) => {
            return Err(MalformedBody(format!("Unknown compression algorithm: {other}")));
        }
    }
    session.started = true;
    debug!(
        driver = startup.driver_name.unwrap_or_default(),
        version = startup.driver_version.unwrap_or_default();
        "a client has connected"
    );
    response::ready(&mut session.out, stream);
    Ok(())
}

impl Core {
    /// SUPPORTED. The keys that begin with SCYLLA tell drivers that route by shard which one they
    /// have reached, and by which function tokens belong to shards.
    fn supported(&mut self, session: &mut Session, stream: i16) {
        let (shard, shards) = (self.shard.to_string(), self.shards.to_string());
        let options: [(&str, &[&str]); 8] = [
            ("PROTOCOL_VERSIONS", &[VERSION_NAME]),
            ("CQL_VERSION", &[CQL_VERSION]),
            ("COMPRESSION", &[compression::NAME]),
            ("SCYLLA_SHARD", &[&shard]),
            ("SCYLLA_NR_SHARDS", &[&shards]),
            ("SCYLLA_PARTITIONER", &[PARTITIONER]),
            ("SCYLLA_SHARDING_ALGORITHM", &["biased-token-round-robin"]),
            ("SCYLLA_SHARDING_IGNORE_MSB", &["0"]),
        ];
        response::supported(&mut session.out, stream, &options);
    }

    /// Answers with an error.
    #[cold]
    pub(super) fn fail(&mut self, session: &mut Session, stream: i16, failure: &Failure) {
        self.metrics.error(failure.code);
        self.metrics.served.add(1);
        if failure.code == crate::protocol::code::OVERLOADED {
            self.metrics.shed.add(1);
        }
        let address = self.address(session, stream);
        self.trace(address, |_| format!("Failed: {}", failure.message));
        failure.put(&mut session.out, stream);
    }

    #[cold]
    pub(super) fn unprepared(&mut self, session: &mut Session, stream: i16, id: &[u8]) {
        self.metrics.error(crate::protocol::code::UNPREPARED);
        self.metrics.served.add(1);
        let address = self.address(session, stream);
        self.trace(address, |_| "Failed: the statement is not prepared".to_owned());
        response::unprepared(&mut session.out, stream, id);
    }

    /// Whether an answer that is made at once fits. Short ones always do.
    pub(super) fn check_answer(&self, answer: &[u8]) -> Result<(), Failure> {
        let bytes = answer.len() as u64;
        if bytes <= SHORT_ANSWER_BYTES || self.metrics.memory.has_room(Share::Answers, bytes) {
            return Ok(());
        }
        Err(Failure::new(code::OVERLOADED, "too many answers wait, try again later"))
    }

    /// What a statement must know of this moment.
    #[inline]
    pub(super) fn context(&mut self, timestamp_us: Option<i64>) -> BindContext {
        let now_us = self.clock.now_us();
        let timestamp_us = timestamp_us.unwrap_or_else(|| self.shared.timestamp_us(now_us));
        BindContext { timestamp_us, now_us, random: self.random.next_u64() }
    }

    /// Runs a statement with the parameters of a QUERY or EXECUTE.
    #[inline]
    fn run(
        &mut self,
        session: &mut Session,
        stream: i16,
        statement: &Arc<PreparedStatement>,
        (parameters, values): (&Parameters<'_>, &[Value<'_>]),
        time: &mut TimeSlice<'_>,
    ) {
        if parameters.names.is_none() {
            return self.run_ordered(session, stream, statement, (parameters, values), time);
        }
        match ordered(&statement.prepared, parameters, values) {
            Ok(values) => {
                self.run_ordered(session, stream, statement, (parameters, &values), time);
            }
            Err(failure) => self.fail(session, stream, &failure),
        }
    }

    /// As [`Self::run`], if values may be so large that they must be prepared for it, or a text so
    /// long that parsing it has taken all the time that there was.
    fn run_any(
        &mut self,
        session: &mut Session,
        stream: i16,
        (statement, is_long): (&Arc<PreparedStatement>, bool),
        (parameters, values): (&Parameters<'_>, &[Value<'_>]),
        time: &mut TimeSlice<'_>,
    ) {
        if (is_long || are_large(values))
            && let Ok(ordered) = ordered(&statement.prepared, parameters, values)
        {
            let context = self.context(parameters.timestamp_us);
            let with = (&*self.metrics.memory, &context, &self.scratch);
            let large = if is_long {
                time.look();
                Some(Box::new(LargeValues::of_parsed(statement, &ordered, false, with)))
            } else {
                LargeValues::of(statement, &ordered, false, with)
            };
            if let Some(large) = large {
                return self.run_large(session, stream, ((parameters, values), large), time);
            }
        }
        self.run(session, stream, statement, (parameters, values), time);
    }

    /// Prepares large values of a statement, as far as there is time, and then runs it.
    pub(super) fn run_large(
        &mut self,
        session: &mut Session,
        stream: i16,
        ((parameters, values), mut large): GivenAndLarge<'_>,
        time: &mut TimeSlice<'_>,
    ) {
        let statement = Arc::clone(large.statement());
        let values = match ordered(&statement.prepared, parameters, values) {
            Ok(values) => values,
            Err(failure) => return self.fail(session, stream, &failure),
        };
        if !large.go_on(&values, time) {
            session.unbound = Some(Box::new(Unbound::new(PreparedPart::Values(large))));
            return;
        }
        let values = large.put_into(&values);
        self.run_ordered(session, stream, &statement, (parameters, &values), time);
    }

    /// Runs a statement with values in the order of its markers.
    #[inline]
    fn run_ordered(
        &mut self,
        session: &mut Session,
        stream: i16,
        statement: &Arc<PreparedStatement>,
        (parameters, values): (&Parameters<'_>, &[Value<'_>]),
        time: &mut TimeSlice<'_>,
    ) {
        let request = Binding {
            values,
            timestamp_us: parameters.timestamp_us,
            skip_metadata: parameters.skip_metadata,
            options: ReadOptions {
                page_size: parameters.page_rows,
                paging_state: parameters.paging_state,
            },
            consistency: parameters.consistency,
            serial: parameters.serial,
        };
        if let Err(failure) = self.run_plan(session, stream, statement, &request, time) {
            self.fail(session, stream, &failure);
        }
    }

    #[inline]
    fn run_plan(
        &mut self,
        session: &mut Session,
        stream: i16,
        statement: &Arc<PreparedStatement>,
        request: &Binding<'_>,
        time: &mut TimeSlice<'_>,
    ) -> Result<(), Failure> {
        match &statement.prepared.plan {
            Plan::Write(plan) if plan.is_dependent() => {
                let statements = vec![OwnStatement::new(statement, request.values)];
                self.depend((session, stream), statements, None, request.terms())
            }
            Plan::Batch(plan) if plan.is_dependent() => {
                let statements = vec![OwnStatement::new(statement, request.values)];
                let kind = Some(plan.kind());
                self.depend((session, stream), statements, kind, request.terms())
            }
            Plan::Write(plan) => self.write(session, stream, plan, request),
            Plan::Select(plan) => self.select(session, (stream, statement), plan, request, time),
            Plan::Batch(plan) => self.text_batch(session, stream, plan, request),
            Plan::System(_) | Plan::Describe(_) => {
                self.list(session, (stream, statement), request, time)
            }
            Plan::Use(keyspace) => {
                session.keyspace = Some(Arc::from(keyspace.as_str()));
                result::set_keyspace(&mut session.out, stream, keyspace);
                self.metrics.served.add(1);
                Ok(())
            }
            Plan::Ddl(ddl) => {
                let bytes = statement.bytes;
                let Some(charge) = Charge::take(&self.metrics.memory, Share::Requests, bytes)
                else {
                    let what = "too many changes of the schema wait, try again later";
                    return Err(Failure::new(code::OVERLOADED, what));
                };
                let address = self.defer(session, stream);
                self.trace(address, |_| "Changing the schema on shard 0".to_owned());
                let (shard, ddl) = (self.shard, ddl.clone());
                let request = ddl::DdlRequest { shard, address, ddl, charge };
                self.peers.tell(0, Message::Change(Box::new(request)));
                Ok(())
            }
        }
    }
}

/// What a request gives, and what is prepared of it.
pub(super) type GivenAndLarge<'a> = ((&'a Parameters<'a>, &'a [Value<'a>]), Box<LargeValues>);

/// Values in the order of the markers, whether they came with names or not.
fn ordered<'a>(
    prepared: &Prepared,
    parameters: &Parameters<'_>,
    values: &[Value<'a>],
) -> Result<Vec<Value<'a>>, Failure> {
    let Some(names) = &parameters.names else { return Ok(values.to_vec()) };
    let order = prepared.order_of(names)?;
    Ok(order.iter().map(|place| values.get(*place).copied().unwrap_or(Value::Unset)).collect())
}
