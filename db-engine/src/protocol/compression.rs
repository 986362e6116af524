//! LZ4 bodies of frames (CQL v4 §5).
//!
//! ```text
//! body := length: u32   bytes once it is decompressed, big-endian
//!         block: u8[]   one LZ4 block
//! ```
//! Either side may leave a body as it is; the header's flag tells. We decompress whatever a client
//! sends compressed and compress only answers that are long enough to gain by it.

use super::{MalformedBody, frame::HEADER_BYTES, frame::flag};

/// What STARTUP and SUPPORTED call it.
pub const NAME: &str = "lz4";

/// Bodies shorter than this are sent as they are: a few bytes saved are not worth the work.
pub const COMPRESS_BYTES_MIN: usize = 1024;

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
    scratch.resize(lz4_flex::block::get_maximum_output_size(length), 0);
    let Ok(written) = lz4_flex::block::compress_into(body, scratch) else { return };
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
    super::response::end(out, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::response;

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
