//! Requests that ask to be traced: what is done for them is told in `system_traces`, and their
//! answers carry the identifier to look there for.
//!
//! A request that does not ask costs one look at whether any does.

use super::{
    Core, Shard,
    session::{Address, ConnectionId, Session},
};
use crate::{
    protocol::{
        MalformedBody,
        frame::Frame,
        notation::BodyReader,
        opcode,
        request::{Batch, Parameters, Values},
        response,
    },
    store::Page,
    trace::{Trace, TraceEvent, beginning, time_uuid},
};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Traced requests of a shard that wait for their answer. Above, they are not traced.
const OPEN_MAX: usize = 1_000;

/// The traced requests of a shard that are not answered yet.
#[derive(Default)]
pub(super) struct TracedRequests {
    open: HashMap<(ConnectionId, i16), OpenTrace>,
    /// Of the next; tells those of one moment apart.
    number: u16,
}

/// What is known of one of them besides what is told already.
struct OpenTrace {
    id: Uuid,
    /// Microseconds of the shard's clock when the turn began that read it.
    begun_us: u64,
    /// Blocks that the shard's commit log had written by then, and microseconds for all of them.
    log_blocks: u64,
    log_block_us: u64,
}

impl Shard {
    /// Begins to trace a request that asks for it, of which `reader` has what follows the header
    /// and the payload.
    #[cold]
    pub(super) fn begin_trace(
        &mut self,
        session: &Session,
        frame: Frame<'_>,
        reader: BodyReader<'_>,
    ) {
        let request = match frame.opcode {
            opcode::QUERY => "Execute CQL3 query",
            opcode::EXECUTE => "Execute CQL3 prepared query",
            opcode::PREPARE => "Preparing CQL3 query",
            opcode::BATCH => "Execute batch of CQL3 queries",
            // The others do nothing that could be told.
            _ => return,
        };
        let parameters = self.parameters_of(frame.opcode, reader).unwrap_or_default();
        self.core.open_trace(session, frame.stream, request, parameters);
    }

    /// What a trace says of a request. Bound values are not in it: they are the client's data.
    fn parameters_of(
        &self,
        opcode: u8,
        mut reader: BodyReader<'_>,
    ) -> Result<BTreeMap<String, String>, MalformedBody> {
        let mut all = BTreeMap::new();
        let mut put = |key: &str, value: String| all.insert(key.to_string(), value);
        match opcode {
            opcode::BATCH => {
                let batch = Batch::read(reader.rest())?;
                put("consistency_level", batch.head.consistency.name().to_string());
                put("statements", batch.head.remaining.to_string());
                return Ok(all);
            }
            opcode::EXECUTE => {
                let id = reader.short_bytes()?;
                if let Some(statement) =
                    id.try_into().ok().and_then(|id| self.core.shared.statement(id))
                {
                    put("query", statement.text.to_string());
                }
            }
            _ => {
                put("query", beginning(reader.long_string()?));
            }
        }
        if opcode != opcode::PREPARE {
            let parameters = Parameters::read(&mut reader, &mut Values::default())?;
            put("consistency_level", parameters.consistency.name().to_string());
            if let Some(rows) = parameters.page_rows {
                put("page_size", rows.to_string());
            }
        }
        Ok(all)
    }
}

impl Core {
    fn open_trace(
        &mut self,
        session: &Session,
        stream: i16,
        request: &'static str,
        parameters: BTreeMap<String, String>,
    ) {
        if self.traced.open.len() >= OPEN_MAX {
            return;
        }
        self.traced.number = self.traced.number.wrapping_add(1);
        let node = self.random.next_u64();
        let begun_us = self.turn_us;
        let waited_us = self.clock.elapsed_us().saturating_sub(begun_us);
        let started_us = self.clock.now_us().saturating_sub_unsigned(waited_us);
        let id = time_uuid(started_us, self.traced.number, node);
        let (duration_us, events) = (None, Vec::new());
        let client = session.client;
        let parse = parameters.get("query").map(|text| format!("Parsing {text}"));
        let parse = parse.filter(|_| request != "Execute CQL3 prepared query");
        let trace =
            Trace { id, node, client, request, parameters, started_us, duration_us, events };
        self.node.traces.begin(trace);
        let stored = self.store.metrics();
        let (log_blocks, log_block_us) = (stored.log_blocks, stored.log_block_us);
        let open = OpenTrace { id, begun_us, log_blocks, log_block_us };
        self.traced.open.insert((session.place, stream), open);
        self.metrics.traces.add(1);
        let first = parse.unwrap_or_else(|| "Binding values".to_string());
        let address = self.address(session, stream);
        self.trace(address, |_| first);
    }

    /// Tells what is about to be done for a request, if it is traced.
    #[inline]
    pub(super) fn trace(&self, address: Address, activity: impl FnOnce(&Self) -> String) {
        if self.is_traced(address) {
            let activity = activity(self);
            self.add_event(address, activity);
        }
    }

    /// Whether a request is traced and not answered.
    #[inline]
    pub(super) fn is_traced(&self, address: Address) -> bool {
        let open = &self.traced.open;
        !open.is_empty() && open.contains_key(&(address.place, address.stream))
    }

    #[cold]
    fn add_event(&self, address: Address, activity: String) {
        let Some(open) = self.traced.open.get(&(address.place, address.stream)) else { return };
        let elapsed_us = self.clock.elapsed_us().saturating_sub(open.begun_us);
        let elapsed_us = u32::try_from(elapsed_us).unwrap_or(u32::MAX);
        let thread = format!("shard-{}", self.shard);
        self.node.traces.add(open.id, TraceEvent { activity, elapsed_us, thread });
    }

    /// What the commit log did for a write of a traced request since that came.
    pub(super) fn log_activity(&self, address: Address) -> String {
        let stored = self.store.metrics();
        let key = (address.place, address.stream);
        let Some(open) = self.traced.open.get(&key) else { return String::new() };
        let blocks = stored.log_blocks - open.log_blocks;
        let device_us = stored.log_block_us - open.log_block_us;
        format!(
            "The write is in the commit log and in the memtable: {blocks} blocks of the log \
             written meanwhile, {device_us} microseconds on the device"
        )
    }

    /// A request is answered by what `out` has from `at` on: ends its trace, if it has one.
    #[inline]
    pub(super) fn end_trace(&mut self, address: Address, out: &mut Vec<u8>, at: usize) {
        if !self.traced.open.is_empty()
            && let Some(id) = self.close_trace(address)
        {
            response::put_trace_id(out, at, id.as_bytes());
        }
    }

    /// Ends the trace of a request, if it has one; its client may have gone.
    #[cold]
    pub(super) fn close_trace(&mut self, address: Address) -> Option<Uuid> {
        let open = self.traced.open.remove(&(address.place, address.stream))?;
        let elapsed_us = self.clock.elapsed_us().saturating_sub(open.begun_us);
        self.node.traces.end(open.id, u32::try_from(elapsed_us).unwrap_or(u32::MAX));
        Some(open.id)
    }
}

/// What a page of the store has, and what it took to read it.
pub(super) fn page_activity(page: &Page) -> String {
    let cost = page.cost;
    let (rows, versions) = (page.len(), cost.rows_scanned);
    let (memtables, sstables) = (cost.memtables, cost.sstables);
    let (found, read, waited_us) = (cost.blocks_found, cost.blocks_read, cost.waited_us);
    format!(
        "Read {rows} live rows, merged from {versions} in {memtables} memtables and {sstables} \
         sstables; the cache had {found} blocks, {read} were read from disk, and it waited \
         {waited_us} microseconds"
    )
}
