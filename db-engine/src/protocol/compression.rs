//! LZ4 bodies of frames (CQL v4 §5).
//!
//! ```text
//! body := length: u32   bytes once it is decompressed, big-endian
//!         block: u8[]   one LZ4 block
//! ```
//! Either side may leave a body as it is; the header's flag tells. We decompress whatever a client
//! sends compressed and compress only answers that are long enough to gain by it.

use super::{
    MalformedBody,
    frame::{HEADER_BYTES, flag},
    response,
};
use crate::{io::TimeSlice, sstable::JoinedLz4};
use lz4_flex::block::{compress_into, get_maximum_output_size};

/// What STARTUP and SUPPORTED call it.
pub const NAME: &str = "lz4";

/// Bodies shorter than this are sent as they are: a few bytes saved are not worth the work.
pub const COMPRESS_BYTES_MIN: usize = 1024;

/// Longer responses are compressed in pieces. One of so many bytes takes half a millisecond.
pub const AT_ONCE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a piece.
const PIECE_BYTES: usize = 128 << 10;

/// How many bytes a compressed body says that it has once it is decompressed.
#[must_use]
pub fn promised_bytes(body: &[u8]) -> usize {
    let length = body.first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Decompresses a request's body into `out`, whose content is replaced.
///
/// # Errors
/// It does not decompress, or to something longer than `body_bytes_max`.
pub fn decompress(
    body: &[u8],
    body_bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), MalformedBody> {
    let Some((_, block)) = body.split_first_chunk::<4>() else {
        return Err(MalformedBody::new("a compressed body without its length"));
    };
    let length = promised_bytes(body);
    if length > body_bytes_max {
        return Err(MalformedBody(format!(
            "a compressed body of {length} bytes is over the limit of {body_bytes_max}"
        )));
    }
    out.resize(length, 0);
    match lz4_flex::block::decompress_into(block, out) {
        Ok(written) if written == length => Ok(()),
        Ok(written) => Err(MalformedBody(format!(
            "a compressed body has {written} bytes where it promised {length}"
        ))),
        Err(error) => Err(MalformedBody(format!("a compressed body is damaged: {error}"))),
    }
}

/// Compresses the body of the response that stands at `at`, if that makes it shorter.
///
/// # Panics
/// The body has 2^32 bytes or more: output buffers are limited far below.
pub fn compress(out: &mut Vec<u8>, at: usize, scratch: &mut Vec<u8>) {
    let start = at + HEADER_BYTES;
    let Some(body) = out.get(start..) else { return };
    let length = body.len();
    if length < COMPRESS_BYTES_MIN {
        return;
    }
    scratch.clear();
    scratch.resize(get_maximum_output_size(length), 0);
    let Ok(written) = compress_into(body, scratch) else { return };
    if written + 4 >= length {
        return;
    }
    out.truncate(start);
    let promised = u32::try_from(length).expect("output buffers are limited far below 4 GiB");
    out.extend_from_slice(&promised.to_be_bytes());
    out.extend_from_slice(scratch.get(..written).unwrap_or_default());
    if let Some(flags) = out.get_mut(at + 1) {
        *flags |= flag::COMPRESSED;
    }
    response::end(out, at);
}

/// A response of which the body is compressed a piece at a time.
#[derive(Debug)]
pub struct LongResponse {
    plain: Vec<u8>,
    /// The pieces so far; `None` if it is to be sent as it is.
    compressed: Option<JoinedLz4>,
    piece: Vec<u8>,
}

impl LongResponse {
    /// One of which nothing is compressed yet.
    ///
    /// # Panics
    /// It has 2^32 bytes or more: results are limited far below.
    #[must_use]
    pub fn new(plain: Vec<u8>) -> Self {
        let mut begin = plain.get(..HEADER_BYTES).unwrap_or_default().to_vec();
        let length = u32::try_from(plain.len() - begin.len()).expect("results are limited");
        begin.extend_from_slice(&length.to_be_bytes());
        let compressed = Some(JoinedLz4::behind(begin));
        Self { plain, compressed, piece: vec![0; get_maximum_output_size(PIECE_BYTES)] }
    }

    /// Bytes of memory that it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let compressed = self.compressed.as_ref().map_or(0, JoinedLz4::bytes);
        self.plain.capacity() + compressed + self.piece.len()
    }

    /// Compresses until the time is over, but at least one piece; returns whether that was all.
    ///
    /// # Panics
    /// What was compressed is no LZ4 block.
    pub fn go_on(&mut self, time: &mut TimeSlice<'_>) -> bool {
        let Self { plain, compressed: Some(compressed), piece } = self else { return true };
        let body = plain.get(HEADER_BYTES..).unwrap_or_default();
        loop {
            let rest = body.get(compressed.end()..).unwrap_or_default();
            if rest.is_empty() {
                return true;
            }
            let next = rest.get(..PIECE_BYTES).unwrap_or(rest);
            let bytes = compress_into(next, piece).ok();
            let block = bytes.and_then(|bytes| piece.get(..bytes)).unwrap_or_default();
            compressed.join(body, next.len(), block).expect("it was compressed here");
            time.look();
            if time.is_over() {
                return compressed.end() == body.len();
            }
        }
    }

    /// Has it sent as it is.
    pub fn give_up(&mut self) {
        self.compressed = None;
    }

    /// Appends the response, once all of it is compressed. If nothing is before it, its memory
    /// becomes that of `out`.
    pub fn put(self, out: &mut Vec<u8>) {
        let Self { mut plain, compressed, .. } = self;
        let body = plain.get(HEADER_BYTES..).unwrap_or_default();
        let compressed = compressed.map(|compressed| compressed.finish(body));
        if let Some(mut shorter) = compressed.filter(|bytes| bytes.len() < plain.len()) {
            if let Some(flags) = shorter.get_mut(1) {
                *flags |= flag::COMPRESSED;
            }
            response::end(&mut shorter, 0);
            // It grew by half or more at a time, and what is to be sent counts with all its memory.
            shorter.shrink_to_fit();
            plain = shorter;
        }
        if out.is_empty() {
            *out = plain;
        } else {
            out.append(&mut plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{ManualClock, Random};

    fn response(body: &[u8]) -> Vec<u8> {
        let mut out = vec![9, 9];
        let at = response::begin(&mut out, 3, 8);
        out.extend_from_slice(body);
        response::end(&mut out, at);
        compress(&mut out, at, &mut Vec::new());
        out.split_off(2)
    }

    #[test]
    fn a_long_body_comes_back_as_it_was() {
        let body = b"21.5 degrees ".repeat(1000);
        let sent = response(&body);
        assert!(sent.len() < body.len() / 10);
        assert_eq!((sent[1], sent[4]), (flag::COMPRESSED, 8));
        let length = u32::from_be_bytes([sent[5], sent[6], sent[7], sent[8]]);
        assert_eq!(length as usize, sent.len() - HEADER_BYTES);
        let mut back = Vec::new();
        decompress(&sent[9..], body.len(), &mut back).expect("well formed");
        assert_eq!(back, body);
        assert!(decompress(&sent[9..], body.len() - 1, &mut back).is_err(), "over the limit");
    }

    #[test]
    fn short_and_random_bodies_are_left_alone() {
        assert_eq!(response(b"short")[1], 0);
        let mut state = 1u32;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(4096)
        .collect();
        assert_eq!(response(&random)[1], 0);
    }

    /// A long response behind others, and how often it was gone on with, each time for a piece.
    fn long(before: &[u8], body: &[u8], give_up_at: Option<u32>) -> (Vec<u8>, u32) {
        let mut out = Vec::new();
        let at = response::begin(&mut out, 3, 8);
        out.extend_from_slice(body);
        response::end(&mut out, at);
        let (clock, mut times) = (ManualClock::ticking(0, 1), 0);
        let mut response = LongResponse::new(out);
        loop {
            if give_up_at == Some(times) {
                response.give_up();
            }
            if response.go_on(&mut TimeSlice::new(&clock, 0)) {
                let mut out = before.to_vec();
                response.put(&mut out);
                assert_eq!(out[..before.len()], *before);
                return (out.split_off(before.len()), times + 1);
            }
            times += 1;
        }
    }

    #[test]
    fn a_long_body_is_compressed_in_pieces_and_comes_back() {
        let text = b"boiler 7 has 21.5 degrees, valve 12 is open; ".repeat(9_000);
        let mut random = Random(1);
        let noise: Vec<u8> = (0..400_000).map(|_| random.below(256).to_le_bytes()[0]).collect();
        let both = [&text[..150_000], &noise[..200_000], &text[..90_000]].concat();
        for length in [1_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            for (body, is_smaller) in [(&text, true), (&both, true), (&noise, false)] {
                let body = &body[..length];
                let (sent, times) = long(&[], body, None);
                assert_eq!(times as usize, length.div_ceil(PIECE_BYTES));
                assert_eq!(long(&[9; 5], body, None), (sent.clone(), times));
                assert_eq!(sent[1] & flag::COMPRESSED != 0, is_smaller, "{length}");
                let promised = u32::from_be_bytes(*sent[5..].first_chunk().unwrap());
                assert_eq!(promised as usize, sent.len() - HEADER_BYTES);
                let mut back = Vec::new();
                if is_smaller {
                    decompress(&sent[HEADER_BYTES..], length, &mut back).unwrap();
                } else {
                    back.extend_from_slice(&sent[HEADER_BYTES..]);
                }
                assert!(back == body, "{length}");
                let (plain, _) = long(&[9; 5], body, Some(times - 1));
                assert!(plain[1] == 0 && plain[HEADER_BYTES..] == *body, "{length}");
            }
        }
    }

    #[test]
    fn a_damaged_body_is_malformed_and_a_bomb_is_never_unpacked() {
        let sent = response(&b"ab".repeat(1000));
        let mut out = Vec::new();
        for length in 9..sent.len() {
            assert!(decompress(&sent[9..length], 2000, &mut out).is_err(), "{length} bytes");
        }
        assert!(decompress(&[0xFF, 0xFF, 0xFF, 0xFF, 0], 1 << 24, &mut out).is_err());
        assert!(out.capacity() < 1 << 20);
    }
}
