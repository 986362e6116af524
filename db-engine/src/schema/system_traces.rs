//! The rows of `system_traces`: what was done for requests that asked to be traced.

use super::{
    Table,
    system::{NodeInfo, Row, fill, inet, int, text},
};
use crate::{
    trace::{Trace, time_uuid},
    types::collection,
};

pub(super) fn sessions(shape: &Table, node: &NodeInfo, now_us: i64) -> Vec<Row> {
    let mut rows = Vec::new();
    node.traces.each(now_us, |trace| {
        rows.push(fill(shape, |column| session_value(column, node, trace)));
    });
    rows
}

fn session_value(column: &str, node: &NodeInfo, trace: &Trace) -> Option<Vec<u8>> {
    Some(match column {
        "session_id" => trace.id.as_bytes().to_vec(),
        "client" => inet(trace.client?),
        "command" => text("QUERY"),
        "coordinator" => inet(node.address),
        "coordinator_port" => int(node.port.into()),
        "duration" => int(microseconds(trace.duration_us?)),
        "parameters" => {
            let pairs: Vec<_> = trace.parameters.iter().collect();
            collection::map(&pairs)
        }
        "request" => text(trace.request),
        "started_at" => trace.started_us.div_euclid(1_000).to_be_bytes().to_vec(),
        _ => return None,
    })
}

pub(super) fn events(shape: &Table, node: &NodeInfo, now_us: i64) -> Vec<Row> {
    let mut rows = Vec::new();
    node.traces.each(now_us, |trace| {
        for (number, event) in (0..).zip(&trace.events) {
            let at_us = trace.started_us.saturating_add(event.elapsed_us.into());
            rows.push(fill(shape, |column| {
                Some(match column {
                    "session_id" => trace.id.as_bytes().to_vec(),
                    "event_id" => time_uuid(at_us, number, trace.node).as_bytes().to_vec(),
                    "activity" => text(&event.activity),
                    "source" => inet(node.address),
                    "source_elapsed" => int(microseconds(event.elapsed_us)),
                    "source_port" => int(node.port.into()),
                    "thread" => text(&event.thread),
                    _ => return None,
                })
            }));
        }
    });
    rows
}

fn microseconds(us: u32) -> i32 {
    i32::try_from(us).unwrap_or(i32::MAX)
}
