//! Text → tokens with their places.

use crate::{cql::error::CqlError, types::duration::is_duration};
use std::borrow::Cow;

/// Longest statement, in bytes. A batch in one text is the longest that makes sense.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;

/// Most words, values and signs of a statement. It is parsed and planned at once, about 150 ns for
/// each of them, while nobody else is served.
const LEXEMES_MAX: usize = 20_000;

/// What a token is. Borrowed from the text where it can be.
#[derive(Debug, Clone, PartialEq)]
pub enum LexemeKind<'a> {
    /// A keyword or a name without quotes, as written.
    Word(&'a str),
    /// A name in double quotes.
    Quoted(Cow<'a, str>),
    /// A string constant.
    Text(Cow<'a, str>),
    /// Digits, with a minus perhaps.
    Integer(&'a str),
    /// A number with a point or exponent.
    Float(&'a str),
    /// A UUID.
    Uuid(&'a str),
    /// What follows `0x`.
    Hex(&'a str),
    /// A duration.
    Duration(&'a str),
    /// `?`
    Marker,
    /// `:name`
    NamedMarker(&'a str),
    /// Anything else that CQL is made of.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it begins and ends, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Lexeme<'a> {
    /// What it is.
    pub kind: LexemeKind<'a>,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

const SYMBOLS: [&str; 27] = [
    ">=", "<=", "!=", "+=", "-=", "..", "(", ")", ",", ".", "=", ">", "<", "*", "{", "}", "[", "]",
    ";", ":", "+", "-", "/", "%", "?", "|", "&",
];

/// Line (from 1) and column (from 0) of a byte of the text, as Cassandra counts them.
#[must_use]
pub fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    format!("line {line}:{column}")
}

/// Takes the whole text apart; the last token is [`LexemeKind::End`].
///
/// # Errors
/// If the text is too long, a string does not end, or a character has no meaning in CQL.
pub fn tokens(text: &str) -> Result<Vec<Lexeme<'_>>, CqlError> {
    if text.len() > STATEMENT_BYTES_MAX {
        return Err(CqlError::invalid(format!(
            "A statement may have {STATEMENT_BYTES_MAX} bytes, this one has {}",
            text.len()
        )));
    }
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        at += blank(text, at)?;
        let rest = text.get(at..).unwrap_or_default();
        let (kind, length) = token(text, at, rest)?;
        let ends = kind == LexemeKind::End;
        out.push(Lexeme { kind, start: at, end: at + length });
        at += length;
        if ends {
            return Ok(out);
        }
        if out.len() > LEXEMES_MAX {
            return Err(CqlError::invalid(format!(
                "A statement may have {LEXEMES_MAX} words, values and signs, this one has more: \
                 bind its values, or make several of it"
            )));
        }
    }
}

/// Length of the white space and comments at a place.
fn blank(text: &str, start: usize) -> Result<usize, CqlError> {
    let mut rest = text.get(start..).unwrap_or_default();
    let whole = rest.len();
    loop {
        rest = rest.trim_start();
        if rest.starts_with("--") || rest.starts_with("//") {
            rest = rest.find('\n').and_then(|end| rest.get(end..)).unwrap_or_default();
        } else if rest.starts_with("/*") {
            let Some(end) = rest.find("*/") else {
                let place = place(text, text.len() - rest.len());
                return Err(CqlError::syntax(format!("{place} a comment does not end")));
            };
            rest = rest.get(end + 2..).unwrap_or_default();
        } else {
            return Ok(whole - rest.len());
        }
    }
}

fn token<'a>(text: &str, at: usize, rest: &'a str) -> Result<(LexemeKind<'a>, usize), CqlError> {
    let Some(first) = rest.chars().next() else { return Ok((LexemeKind::End, 0)) };
    let head = |length: usize| rest.get(..length).unwrap_or_default();
    if first == '\'' || first == '"' {
        let (value, length) = quoted(text, at, rest, first)?;
        let kind = if first == '"' { LexemeKind::Quoted(value) } else { LexemeKind::Text(value) };
        return Ok((kind, length));
    }
    if let Some(after) = rest.strip_prefix("$$") {
        let end = after.find("$$").ok_or_else(|| unterminated(text, at, "$$"))?;
        return Ok((LexemeKind::Text(after.get(..end).unwrap_or_default().into()), end + 4));
    }
    if let Some(length) = uuid(rest) {
        return Ok((LexemeKind::Uuid(head(length)), length));
    }
    if let Some(after) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let length = long_run(after, |byte| byte.is_ascii_hexdigit());
        return Ok((LexemeKind::Hex(after.get(..length).unwrap_or_default()), length + 2));
    }
    if first.is_ascii_digit() || (first == '-' && rest.get(1..).is_some_and(starts_with_digit)) {
        return Ok(number(rest));
    }
    if let Some(length) = iso_duration(rest) {
        return Ok((LexemeKind::Duration(head(length)), length));
    }
    if first.is_ascii_alphabetic() {
        let length = run(rest, is_of_name);
        return Ok((LexemeKind::Word(head(length)), length));
    }
    if first == '?' {
        return Ok((LexemeKind::Marker, 1));
    }
    if let Some(after) =
        rest.strip_prefix(':').filter(|r| r.starts_with(|c: char| c.is_ascii_alphabetic()))
    {
        let length = run(after, is_of_name);
        return Ok((LexemeKind::NamedMarker(after.get(..length).unwrap_or_default()), length + 1));
    }
    let begins = |symbol: &&&str| symbol.starts_with(first) && rest.starts_with(**symbol);
    match SYMBOLS.iter().find(begins) {
        Some(symbol) => Ok((LexemeKind::Symbol(symbol), symbol.len())),
        None => Err(CqlError::syntax(format!(
            "{} no viable alternative at character '{first}'",
            place(text, at)
        ))),
    }
}

fn is_name(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_of_name)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Length of what the text begins with that is of these bytes, which are ASCII.
fn run(text: &str, is: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !is(byte)).unwrap_or(text.len())
}

/// The same of what may be long: looks at many bytes at once.
fn long_run(text: &str, is: impl Fn(u8) -> bool) -> usize {
    let (pieces, _) = text.as_bytes().as_chunks::<64>();
    let is_all = |piece: &&[u8; 64]| piece.iter().fold(true, |all, byte| all & is(*byte));
    let whole = 64 * pieces.iter().take_while(is_all).count();
    whole + text.get(whole..).map_or(0, |rest| run(rest, is))
}

fn unterminated(text: &str, at: usize, quote: &str) -> CqlError {
    CqlError::syntax(format!(
        "{} mismatched character '<EOF>' expecting '{quote}'",
        place(text, at)
    ))
}

/// A quoted text, in which the quote itself is doubled, and its length with quotes.
fn quoted<'a>(
    text: &str,
    at: usize,
    rest: &'a str,
    quote: char,
) -> Result<(Cow<'a, str>, usize), CqlError> {
    let (mut value, mut from) = (Cow::Borrowed(""), 1);
    loop {
        let inner = rest.get(from..).unwrap_or_default();
        let end = inner.find(quote).ok_or_else(|| unterminated(text, at, &quote.to_string()))?;
        // As long as nothing is doubled, nothing is copied.
        value += inner.get(..end).unwrap_or_default();
        from += end + 1;
        if !rest.get(from..).is_some_and(|after| after.starts_with(quote)) {
            return Ok((value, from));
        }
        value.to_mut().push(quote);
        from += 1;
    }
}

/// Length of the UUID that the text begins with.
fn uuid(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes().get(..36)?;
    let legal = bytes.iter().enumerate().all(|(i, byte)| match i {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    let ends = !rest.get(36..)?.starts_with(is_name);
    (legal && ends).then_some(36)
}

fn number(rest: &str) -> (LexemeKind<'_>, usize) {
    let head = |length: usize| rest.get(..length).unwrap_or_default();
    let tail = |length: usize| rest.get(length..).unwrap_or_default();
    let sign = usize::from(rest.starts_with('-'));
    let digits = |from: usize| run(tail(from), |byte| byte.is_ascii_digit());
    let mut length = sign + digits(sign);
    let mut float = false;
    if tail(length).starts_with('.') && tail(length + 1).starts_with(|c: char| c.is_ascii_digit()) {
        length += 1 + digits(length + 1);
        float = true;
    }
    if tail(length).starts_with(['e', 'E']) {
        let signed = tail(length + 1).starts_with(['+', '-']);
        let from = length + 1 + usize::from(signed);
        let exponent = digits(from);
        if exponent > 0 {
            length = from + exponent;
            float = true;
        }
    }
    if float {
        return (LexemeKind::Float(head(length)), length);
    }
    // A unit right behind the digits makes it a duration: 1h30m.
    let is_of_duration = |c: char| c.is_ascii_alphanumeric() || c == 'µ';
    let whole = tail(length).find(|c| !is_of_duration(c)).map_or(rest.len(), |end| length + end);
    if whole > length && is_duration(head(whole)) {
        return (LexemeKind::Duration(head(whole)), whole);
    }
    (LexemeKind::Integer(head(length)), length)
}

/// Length of the ISO 8601 duration (`P1DT2H`) that the text begins with.
fn iso_duration(rest: &str) -> Option<usize> {
    let sign = usize::from(rest.starts_with("-P"));
    if !rest.get(sign..)?.starts_with('P') {
        return None;
    }
    let is_of_time = |byte| is_of_name(byte) || byte == b'-' || byte == b':';
    let whole = sign + run(rest.get(sign..)?, is_of_time);
    let word = sign + run(rest.get(sign..)?, is_of_name);
    [whole, word].into_iter().find(|length| rest.get(..*length).is_some_and(is_duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<LexemeKind<'_>> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn every_kind_of_token_is_told_from_the_others() {
        let text = "Select \"Odd \"\"name\" 'it''s' -1 1.5e3 12h 0xCAFE ? :n >= \
                    f81d4fae-7dec-11d0-a765-00a0c91e6bf6 -- end";
        let expected = [
            LexemeKind::Word("Select"),
            LexemeKind::Quoted("Odd \"name".into()),
            LexemeKind::Text("it's".into()),
            LexemeKind::Integer("-1"),
            LexemeKind::Float("1.5e3"),
            LexemeKind::Duration("12h"),
            LexemeKind::Hex("CAFE"),
            LexemeKind::Marker,
            LexemeKind::NamedMarker("n"),
            LexemeKind::Symbol(">="),
            LexemeKind::Uuid("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
            LexemeKind::End,
        ];
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn a_long_constant_of_hex_digits_ends_with_the_last_of_them() {
        for length in 0..200 {
            let digits = "0aF".chars().cycle().take(length).collect::<String>();
            for end in ["", "g", " ", ")", "é"] {
                let text = format!("0x{digits}{end}");
                let first = tokens(&text).map(|found| found[0].kind.clone());
                if end == "é" {
                    assert!(first.is_err(), "{text}");
                } else {
                    assert_eq!(first.unwrap(), LexemeKind::Hex(&digits), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_end_or_does_not_belong_is_placed() {
        let refused = |text| tokens(text).unwrap_err().message;
        assert_eq!(refused("a\n 'b"), "line 2:1 mismatched character '<EOF>' expecting '''");
        assert_eq!(refused("a #"), "line 1:2 no viable alternative at character '#'");
        assert!(tokens("/* no end").is_err());
        assert!(tokens(&" ".repeat(STATEMENT_BYTES_MAX + 1)).is_err());
        assert!(tokens(&"1,".repeat(LEXEMES_MAX / 2)).is_ok());
        let refused = tokens(&"1,".repeat(LEXEMES_MAX / 2 + 1)).expect_err("too many");
        assert!(refused.to_string().contains("bind its values"), "{refused}");
    }
}
