//! Responses other than RESULT: READY, SUPPORTED, ERROR and EVENT (CQL v4 §4.2).
//!
//! A response is appended to its connection's output buffer. [`begin`] writes a header without a
//! length, the body follows, and [`end`] puts in the length: no body is ever built elsewhere and
//! copied.

use super::{
    VERSION, VERSION_NAME, code,
    frame::{HEADER_BYTES, RESPONSE_BIT, flag},
    notation::{put_int, put_short, put_short_bytes, put_string},
    opcode,
};
use std::fmt::Write as _;

/// Stream of a message that answers no request.
pub const EVENT_STREAM: i16 = -1;

/// Appends a header whose length is still missing; returns where it stands.
#[inline]
pub fn begin(out: &mut Vec<u8>, stream: i16, opcode: u8) -> usize {
    let at = out.len();
    let [s0, s1] = stream.to_be_bytes();
    out.extend_from_slice(&[VERSION | RESPONSE_BIT, 0, s0, s1, opcode, 0, 0, 0, 0]);
    at
}

/// Appends a header as [`begin`] does, and a list of warnings for the client's log, if any.
pub fn begin_warned(out: &mut Vec<u8>, stream: i16, opcode: u8, warnings: &[String]) -> usize {
    let at = begin(out, stream, opcode);
    if !warnings.is_empty() {
        if let Some(flags) = out.get_mut(at + 1) {
            *flags |= flag::WARNINGS;
        }
        put_short(out, u16::try_from(warnings.len()).unwrap_or(u16::MAX));
        warnings.iter().take(usize::from(u16::MAX)).for_each(|text| put_string(out, text));
    }
    at
}

/// Puts the length into the header that stands at `at`.
///
/// # Panics
/// The body has 2^32 bytes or more: output buffers are limited far below.
#[inline]
pub fn end(out: &mut [u8], at: usize) {
    let length = out.len().saturating_sub(at + HEADER_BYTES);
    let length = u32::try_from(length).expect("output buffers are limited far below 4 GiB");
    if let Some(field) = out.get_mut(at + 5..at + HEADER_BYTES) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

/// Puts the identifier of its trace into the answer that ends `out` and begins at `at`, before
/// everything else that its body says.
pub fn put_trace_id(out: &mut Vec<u8>, at: usize, id: &[u8; 16]) {
    let body = at + HEADER_BYTES;
    if body > out.len() {
        return;
    }
    out.splice(body..body, id.iter().copied());
    if let Some(flags) = out.get_mut(at + 1) {
        *flags |= flag::TRACING;
    }
    end(out, at);
}

/// Appends READY.
pub fn ready(out: &mut Vec<u8>, stream: i16) {
    begin(out, stream, opcode::READY);
}

/// Appends SUPPORTED: a string multimap.
///
/// # Panics
/// There are more options than anybody has.
pub fn supported(out: &mut Vec<u8>, stream: i16, options: &[(&str, &[&str])]) {
    let at = begin(out, stream, opcode::SUPPORTED);
    put_short(out, u16::try_from(options.len()).expect("a handful"));
    for (key, values) in options {
        put_string(out, key);
        put_short(out, u16::try_from(values.len()).expect("a handful"));
        for value in *values {
            put_string(out, value);
        }
    }
    end(out, at);
}

/// Appends an ERROR that has no more to say than its code and message.
pub fn error(out: &mut Vec<u8>, stream: i16, code: i32, message: &str) {
    let at = begin_error(out, stream, code, message);
    end(out, at);
}

fn begin_error(out: &mut Vec<u8>, stream: i16, code: i32, message: &str) -> usize {
    let at = begin(out, stream, opcode::ERROR);
    put_int(out, code);
    put_string(out, message);
    at
}

/// Appends the ERROR that says that something exists: a keyspace if `table` is empty.
pub fn already_exists(
    out: &mut Vec<u8>,
    stream: i16,
    code: i32,
    message: &str,
    keyspace: &str,
    table: &str,
) {
    let at = begin_error(out, stream, code, message);
    put_string(out, keyspace);
    put_string(out, table);
    end(out, at);
}

/// Appends the ERROR on which a driver prepares the statement again and repeats the request.
pub fn unprepared(out: &mut Vec<u8>, stream: i16, id: &[u8]) {
    let mut message = String::from("Prepared query with ID ");
    for byte in id {
        let _ = write!(message, "{byte:02x}");
    }
    message.push_str(
        " not found (either the query was not prepared on this host (maybe the host has been \
         restarted?) or you have prepared too many queries and it has been evicted from the \
         internal cache)",
    );
    let at = begin_error(out, stream, code::UNPREPARED, &message);
    put_short_bytes(out, id);
    end(out, at);
}

/// Appends the ERROR on which a driver opens a new connection with our version. Drivers look for
/// its phrase as well as for its code.
///
/// It goes out on stream 0, on which all of them ask, but for gocql 2: that asks on stream 1, and
/// falls back only if the answer comes on stream 0, as that of older Cassandras does.
pub fn unsupported_version(out: &mut Vec<u8>, version: u8) {
    let version = version & !RESPONSE_BIT;
    let message = format!(
        "Invalid or unsupported protocol version ({version}); \
         supported versions are ({VERSION_NAME})"
    );
    error(out, 0, code::PROTOCOL, &message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::notation::BodyReader;

    #[test]
    fn lengths_are_put_in_behind_the_body() {
        let mut out = vec![1, 2, 3];
        ready(&mut out, 5);
        error(&mut out, -1, 0x2200, "no");
        let expected = [
            &[1, 2, 3, 0x84, 0, 0, 5, 2, 0, 0, 0, 0][..],
            &[0x84, 0, 0xFF, 0xFF, 0, 0, 0, 0, 8, 0, 0, 0x22, 0, 0, 2, b'n', b'o'],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn the_phrase_that_drivers_look_for_is_there() {
        let mut out = Vec::new();
        unsupported_version(&mut out, 66);
        assert_eq!(out[..5], [0x84, 0, 0, 0, 0]);
        let mut reader = BodyReader::new(&out[9..]);
        assert_eq!(reader.int(), Ok(0x0A));
        let phrase = "Invalid or unsupported protocol version (66); supported versions are (4/v4)";
        assert_eq!(reader.string(), Ok(phrase));
    }

    #[test]
    fn warnings_come_before_the_body_and_are_announced() {
        let mut out = Vec::new();
        let at = begin_warned(&mut out, 1, opcode::RESULT, &["slow".to_owned()]);
        put_int(&mut out, 1);
        end(&mut out, at);
        assert_eq!(out[..9], [0x84, 8, 0, 1, 8, 0, 0, 0, 12]);
        assert_eq!(out[9..], [0, 1, 0, 4, b's', b'l', b'o', b'w', 0, 0, 0, 1]);
    }

    #[test]
    fn the_id_of_a_trace_comes_before_everything_else() {
        let mut out = vec![9; 3];
        let at = begin_warned(&mut out, 1, opcode::RESULT, &["slow".to_owned()]);
        put_int(&mut out, 1);
        end(&mut out, at);
        put_trace_id(&mut out, at, &[7; 16]);
        assert_eq!(out[..12], [9, 9, 9, 0x84, 8 | 2, 0, 1, 8, 0, 0, 0, 28]);
        assert_eq!(out[12..28], [7; 16]);
        assert_eq!(out[28..], [0, 1, 0, 4, b's', b'l', b'o', b'w', 0, 0, 0, 1]);
    }

    #[test]
    fn unprepared_carries_the_id() {
        let mut out = Vec::new();
        unprepared(&mut out, 1, &[0xAB, 0x01]);
        assert_eq!(out[9..13], [0, 0, 0x25, 0]);
        assert_eq!(out[out.len() - 4..], [0, 2, 0xAB, 1]);
        let mut reader = BodyReader::new(&out[13..]);
        assert!(reader.string().expect("text").contains("ID ab01 not found"));
    }
}
