//! Runs the requests that a connection has sent: frame by frame, as long as it has time, and room
//! for its answers.

use super::{Limits, connection::Connection};
use crate::{
    budget::Share,
    io::TimeSlice,
    protocol::{
        code,
        frame::{HEADER_BYTES, Split, split},
        response,
    },
    shard::{Shard, session::Session},
};

/// Running a request takes about as long as moving so many bytes, besides its own.
const REQUEST_COST_BYTES: usize = 1 << 10;

/// Runs the frames at the front of what the connection keeps.
pub fn run_kept(
    connection: &mut Connection,
    shard: &mut Shard,
    limits: &Limits,
    time: &mut TimeSlice<'_>,
) {
    if connection.kept.len() >= connection.needed.min(HEADER_BYTES) {
        let kept = std::mem::take(&mut connection.kept);
        let used = run(connection, shard, limits, &kept, time);
        connection.kept = kept;
        connection.used(used);
    }
}

/// Runs the frames at the front of `bytes`; returns how many bytes they have. Stops early at a
/// limit of the connection, which is then blocked, at what breaks it, and when the connection has
/// had its share of the turn.
pub fn run(
    connection: &mut Connection,
    shard: &mut Shard,
    limits: &Limits,
    bytes: &[u8],
    time: &mut TimeSlice<'_>,
) -> usize {
    let mut at = 0;
    connection.needed = HEADER_BYTES;
    while at < bytes.len() {
        let session = &mut connection.session;
        match split(&bytes[at..], limits.frame_bytes_max) {
            Split::Whole(frame, length) => {
                if session.unbound.is_none() && !shard.has_room_for(session, &frame, time) {
                    return at;
                }
                let before = session.out.len();
                let is_over = shard.frame(session, frame, time);
                if is_over {
                    at += length;
                }
                time.count(REQUEST_COST_BYTES + length + (session.out.len() - before));
            }
            Split::Part(needed) => {
                connection.needed = needed;
                return at;
            }
            Split::Version { version } => {
                // Drivers try the versions they know from the newest down: nothing is wrong.
                response::unsupported_version(&mut session.out, version);
                shard.metrics().other_versions.add(1);
                session.broken = true;
            }
            Split::TooLong { stream, bytes } => {
                let most = limits.frame_bytes_max;
                let message = format!("a request of {bytes} bytes is over the limit of {most}");
                refuse(session, stream, code::PROTOCOL, &message);
                shard.metrics().error(code::PROTOCOL);
                shard.metrics().broken.add(1);
            }
        }
        if connection.session.broken {
            return bytes.len();
        }
        connection.settle();
        let output = connection.output_bytes();
        let full = connection.session.in_flight >= limits.in_flight_max
            || output >= limits.output_bytes_max
            || (output > 0 && shard.metrics().memory.is_over(Share::Answers));
        if full {
            connection.blocked = true;
            shard.metrics().blocked.add(1);
            return at;
        }
        if time.is_over() {
            return at;
        }
    }
    at
}

/// Answers with an error, after which the connection is closed.
pub fn refuse(session: &mut Session, stream: i16, code: i32, message: &str) {
    response::error(&mut session.out, stream, code, message);
    session.broken = true;
}
