//! The specification's notations, `[int]`, `[string]`, `[value]` and so on (CQL v4 §3), as bytes.

use super::MalformedBody;
use crate::types::Value;

/// A cursor over a body. It hands out slices of the body and never copies.
#[derive(Debug, Clone, Copy)]
pub struct BodyReader<'a>(&'a [u8]);

#[cold]
fn short() -> MalformedBody {
    MalformedBody::new("the body of the message ends too early")
}

impl<'a> BodyReader<'a> {
    /// Begins at the first byte of a body.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// There are fewer. So with all the others below: the body ends too early, or says nonsense.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], MalformedBody> {
        let (head, rest) = self.0.split_at_checked(n).ok_or_else(short)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedBody> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(short)?;
        self.0 = rest;
        Ok(*head)
    }

    /// `[byte]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn byte(&mut self) -> Result<u8, MalformedBody> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// `[short]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn short(&mut self) -> Result<u16, MalformedBody> {
        self.array().map(u16::from_be_bytes)
    }

    /// `[int]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn int(&mut self) -> Result<i32, MalformedBody> {
        self.array().map(i32::from_be_bytes)
    }

    /// `[long]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn long(&mut self) -> Result<i64, MalformedBody> {
        self.array().map(i64::from_be_bytes)
    }

    /// `[value]`: bytes, null or unset.
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn value(&mut self) -> Result<Value<'a>, MalformedBody> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(bytes) => self.take(bytes).map(Value::Bytes),
            Err(_) if length == -1 => Ok(Value::Null),
            Err(_) if length == -2 => Ok(Value::Unset),
            Err(_) => Err(no_length(length, "value")),
        }
    }

    /// `[bytes]`: negative lengths are null.
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, MalformedBody> {
        match usize::try_from(self.int()?) {
            Ok(bytes) => self.take(bytes).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// `[short bytes]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    #[inline]
    pub fn short_bytes(&mut self) -> Result<&'a [u8], MalformedBody> {
        let bytes = self.short()?;
        self.take(usize::from(bytes))
    }

    /// `[string]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    pub fn string(&mut self) -> Result<&'a str, MalformedBody> {
        text(self.short_bytes()?)
    }

    /// `[long string]`
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    pub fn long_string(&mut self) -> Result<&'a str, MalformedBody> {
        let length = self.int()?;
        let bytes = usize::try_from(length).map_err(|_| no_length(length, "string"))?;
        text(self.take(bytes)?)
    }

    /// `[bytes map]`, which we only ever skip.
    ///
    /// # Errors
    /// See [`BodyReader::take`].
    pub fn skip_bytes_map(&mut self) -> Result<(), MalformedBody> {
        for _ in 0..self.short()? {
            self.string()?;
            self.bytes()?;
        }
        Ok(())
    }
}

#[cold]
fn no_length(length: i32, what: &str) -> MalformedBody {
    MalformedBody(format!("{length} is not the length of a {what}"))
}

fn text(bytes: &[u8]) -> Result<&str, MalformedBody> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| MalformedBody::new("a string is not UTF-8"))
}

/// Appends an `[int]`.
#[inline]
pub fn put_int(out: &mut Vec<u8>, n: i32) {
    out.extend_from_slice(&n.to_be_bytes());
}

/// Appends a `[short]`.
#[inline]
pub fn put_short(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_be_bytes());
}

/// Appends a number of things as an `[int]`.
///
/// # Panics
/// There are more than 2^31 - 1: every limit in this process is lower.
pub fn put_count(out: &mut Vec<u8>, n: usize) {
    put_int(out, i32::try_from(n).expect("counts are limited far below 2^31"));
}

/// Appends a `[string]`. One that is too long for its notation loses its end: only messages can be
/// that long, since names are limited to 48 characters or 65,535 bytes by whoever made them.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let text = prefix(text, usize::from(u16::MAX));
    put_short_bytes(out, text.as_bytes());
}

/// Appends `[short bytes]`, at most 65,535 of them.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    put_short(out, length);
    out.extend_from_slice(bytes.get(..usize::from(length)).unwrap_or_default());
}

/// Appends `[bytes]`; `None` is null.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_count(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_int(out, -1),
    }
}

/// The longest beginning of a text that has at most this many bytes.
fn prefix(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bytes_null_or_unset_and_nothing_else() {
        let mut body = Vec::new();
        put_bytes(&mut body, Some(b"ab"));
        put_bytes(&mut body, Some(b""));
        put_int(&mut body, -1);
        put_int(&mut body, -2);
        put_int(&mut body, -3);
        let mut reader = BodyReader::new(&body);
        assert!(matches!(reader.value(), Ok(Value::Bytes(b"ab"))));
        assert!(matches!(reader.value(), Ok(Value::Bytes(b""))));
        assert!(matches!(reader.value(), Ok(Value::Null)));
        assert!(matches!(reader.value(), Ok(Value::Unset)));
        assert!(reader.value().is_err());
    }

    #[test]
    fn a_length_beyond_the_body_is_malformed_whatever_the_notation() {
        for body in [&[0, 0, 0, 9, 1][..], &[0x7F, 0xFF, 0xFF, 0xFF], &[0, 9], &[0], &[]] {
            assert!(BodyReader::new(body).value().is_err());
            assert!(BodyReader::new(body).long_string().is_err());
            assert!(BodyReader::new(body.get(2..).unwrap_or_default()).string().is_err());
        }
        assert!(BodyReader::new(&[0, 2, 0xC3, 0x28]).string().is_err(), "not UTF-8");
        assert!(BodyReader::new(&[0xFF; 4]).long_string().is_err(), "negative");
    }

    #[test]
    fn a_message_too_long_for_a_string_is_cut_between_characters() {
        let long = "é".repeat(40_000);
        let mut out = Vec::new();
        put_string(&mut out, &long);
        let read = BodyReader::new(&out).string().expect("whole characters");
        assert_eq!(read.len(), 65_534);
    }
}
