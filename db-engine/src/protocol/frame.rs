//! A frame: nine bytes of header and a body.
//!
//! ```text
//! frame := version: u8   0x04, with 0x80 set in responses
//!          flags: u8     1 compressed, 2 tracing, 4 custom payload, 8 warnings
//!          stream: i16   chosen by the client; its answer carries the same; -1 for events
//!          opcode: u8
//!          length: u32   bytes of the body
//!          body: u8[length]
//! ```
//! All numbers of the protocol are big-endian.

use super::VERSION;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 9;

/// Set in the version byte of responses.
pub const RESPONSE_BIT: u8 = 0x80;

/// Bits of the flags byte.
pub mod flag {
    /// The body is compressed with what STARTUP agreed on.
    pub const COMPRESSED: u8 = 0x01;
    /// The client would like a trace. The body of the answer begins with its identifier.
    pub const TRACING: u8 = 0x02;
    /// The body begins with a bytes map that we skip.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// The body of a response begins with a list of warnings.
    pub const WARNINGS: u8 = 0x08;
}

/// One request, borrowed from the buffer it was received in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Bits of [`flag`].
    pub flags: u8,
    /// To be repeated in the answer.
    pub stream: i16,
    /// One of [`super::opcode`], or nonsense.
    pub opcode: u8,
    /// What follows the header.
    pub body: &'a [u8],
}

/// What the front of a buffer is.
#[derive(Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A whole frame and its length in bytes.
    Whole(Frame<'a>, usize),
    /// The beginning of a frame that needs this many bytes in all.
    Part(usize),
    /// A frame of another version. What follows cannot be understood.
    Version {
        /// The version byte.
        version: u8,
    },
    /// A frame that is longer than we accept.
    TooLong {
        /// To be repeated in the answer.
        stream: i16,
        /// Bytes of its body, as it says.
        bytes: u64,
    },
}

/// Looks at the front of a buffer. Bodies may have at most `body_bytes_max` bytes.
///
/// Versions and lengths are judged as soon as the header is there, so that a client that promises
/// gigabytes is refused before it has sent any.
#[must_use]
pub fn split(buffer: &[u8], body_bytes_max: usize) -> Split<'_> {
    let Some(header) = buffer.first_chunk::<HEADER_BYTES>() else {
        return Split::Part(HEADER_BYTES);
    };
    let [version, flags, s0, s1, opcode, l0, l1, l2, l3] = *header;
    let stream = i16::from_be_bytes([s0, s1]);
    if version != VERSION {
        return Split::Version { version };
    }
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let bytes = match usize::try_from(length) {
        Ok(bytes) if bytes <= body_bytes_max => bytes,
        _ => return Split::TooLong { stream, bytes: u64::from(length) },
    };
    match buffer.get(HEADER_BYTES..HEADER_BYTES + bytes) {
        Some(body) => Split::Whole(Frame { flags, stream, opcode, body }, HEADER_BYTES + bytes),
        None => Split::Part(HEADER_BYTES + bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [u8; 9] = [4, 0, 0x12, 0x34, 5, 0, 0, 0, 0];

    #[test]
    fn a_frame_cut_anywhere_says_how_many_bytes_it_needs() {
        let mut bytes = vec![4, 2, 0xFF, 0xFE, 7, 0, 0, 0, 3, b'a', b'b', b'c'];
        bytes.extend_from_slice(&OPTIONS);
        for length in 0..12 {
            let needed = if length < HEADER_BYTES { HEADER_BYTES } else { 12 };
            assert_eq!(split(&bytes[..length], 3), Split::Part(needed), "{length} bytes");
        }
        let first = Frame { flags: 2, stream: -2, opcode: 7, body: b"abc" };
        assert_eq!(split(&bytes, 3), Split::Whole(first, 12));
        let second = Frame { flags: 0, stream: 0x1234, opcode: 5, body: b"" };
        assert_eq!(split(&bytes[12..], 3), Split::Whole(second, 9));
    }

    #[test]
    fn every_other_version_is_told_apart_by_its_header_alone() {
        for version in (0..=255).filter(|version| *version != VERSION) {
            let mut bytes = OPTIONS;
            bytes[0] = version;
            bytes[5] = 0xFF; // its length may mean something else there
            assert_eq!(split(&bytes, 16), Split::Version { version });
        }
    }

    #[test]
    fn a_body_over_the_limit_is_refused_before_it_is_sent() {
        let mut bytes = OPTIONS;
        bytes[8] = 17;
        assert_eq!(split(&bytes, 17), Split::Part(26));
        assert_eq!(split(&bytes, 16), Split::TooLong { stream: 0x1234, bytes: 17 });
        bytes[5..].copy_from_slice(&[0xFF; 4]);
        assert_eq!(split(&bytes, 16), Split::TooLong { stream: 0x1234, bytes: 0xFFFF_FFFF });
    }
}
