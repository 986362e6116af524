//! Values of a clustering key as bytes that compare as the values do.
//!
//! Storage knows no types: it orders rows by the plain order of their clustering key's bytes. So
//! each component is coded such that comparing bytes is comparing values, no code is the beginning
//! of another, and the value can be had back.
//!
//! ```text
//! component := 0x01                 the empty value
//!            | 0x02 ordered         any other
//! ordered   := the big-endian integer with its sign bit flipped   (tinyint … bigint, timestamp)
//!            | the bytes as they are                              (date, time; boolean as 0 or 1)
//!            | the IEEE bits, all flipped if negative, else the sign bit; NaN last (float, double)
//!            | (byte, or 0x00 0xFF for 0x00)* 0x00 0x00           (text, ascii, blob, inet)
//!            | time_high, time_mid, time_low, clock and node as signed bytes (timeuuid)
//!            | version, then as timeuuid if that is 1, else the bytes (uuid)
//!            | class u8, length, magnitude                        (varint; see `number`)
//!            | sign, exponent, digits                             (decimal; see `number`)
//!            | (component | 0x00 for null)*, 0x00 at the end of a list, set or map
//!            | (component | 0x00 0xFF for null)*, 0x00 0x00           (user-defined type)
//! ```
//!
//! Nulls at the end of a user-defined type are left out, so that a value stays the same when its
//! type gets more fields; it is given back with all fields.
//!
//! A descending component has every bit flipped. Since a component begins with 0x01, 0x02, 0xFE or
//! 0xFD, what begins with a prefix lies between the prefix and the prefix followed by 0xFF.
//!
//! Values that compare equal have one code, so that they name the same row: a boolean is 0 or 1,
//! a decimal loses its trailing zeros, all NaN are one.

mod number;
#[cfg(test)]
mod tests;

use super::{CqlType, TypeError, collection, user_type::UserType};
use number::{put_decimal, put_float, put_varint};

const EMPTY: u8 = 0x01;
const PRESENT: u8 = 0x02;
const END: u8 = 0x00;
/// Follows a prefix to make the bound above all that begins with it.
pub const ABOVE: u8 = 0xFF;

/// Appends the code of a [valid](super::validate) value.
///
/// # Errors
/// If values of the type have no order, or a decimal is longer than can be ordered cheaply.
#[inline]
pub fn encode(
    ty: &CqlType,
    descending: bool,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    if let (CqlType::Timestamp | CqlType::Bigint, Ok(bytes)) = (ty, bytes.try_into()) {
        put_i64(i64::from_be_bytes(bytes), descending, out);
        return Ok(());
    }
    let start = out.len();
    encode_ascending(ty, bytes, out)?;
    if descending {
        flip(out, start);
    }
    Ok(())
}

/// As [`encode`], of the type that most clustering keys have.
fn put_i64(number: i64, descending: bool, out: &mut Vec<u8>) {
    let mask = if descending { u64::MAX } else { 0 };
    let mut code = [PRESENT ^ mask.to_be_bytes()[0]; 9];
    code[1..].copy_from_slice(&(number.cast_unsigned() ^ (1 << 63) ^ mask).to_be_bytes());
    out.extend_from_slice(&code);
}

fn flip(out: &mut [u8], start: usize) {
    out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
}

fn encode_ascending(ty: &CqlType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    if bytes.is_empty() && !ty.is_collection() {
        out.push(EMPTY);
        return Ok(());
    }
    out.push(PRESENT);
    let start = out.len();
    match ty {
        CqlType::Bigint
        | CqlType::Timestamp
        | CqlType::Int
        | CqlType::Smallint
        | CqlType::Tinyint
        | CqlType::Counter => {
            out.extend_from_slice(bytes);
            flip_sign(out, start);
        }
        CqlType::Date | CqlType::Time => out.extend_from_slice(bytes),
        CqlType::Text | CqlType::Ascii | CqlType::Blob | CqlType::Inet => put_escaped(bytes, out),
        CqlType::Boolean => out.push(u8::from(bytes.iter().any(|byte| *byte != 0))),
        CqlType::Double | CqlType::Float => put_float(bytes, out),
        CqlType::Timeuuid => put_timeuuid(bytes, out),
        CqlType::Uuid => put_uuid(bytes, out),
        CqlType::Varint => put_varint(bytes, out),
        CqlType::Decimal => put_decimal(bytes, out)?,
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Tuple(_) => {
            return put_sequence(ty, bytes, out);
        }
        CqlType::Udt(of) => return put_fields(of, bytes, out),
        CqlType::Duration => return Err(TypeError("duration has no order".into())),
    }
    Ok(())
}

fn flip_sign(out: &mut [u8], at: usize) {
    if let Some(byte) = out.get_mut(at) {
        *byte ^= 0x80;
    }
}

fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    for piece in bytes.chunks(64) {
        // Most have no zero, which is seen many bytes at a time.
        if !piece.contains(&0) {
            out.extend_from_slice(piece);
            continue;
        }
        for byte in piece {
            out.push(*byte);
            if *byte == 0 {
                out.push(0xFF);
            }
        }
    }
    out.extend_from_slice(&[END, END]);
}

/// The time of a version 1 UUID, most significant bits first (its version is the top nibble).
fn put_time_first(bytes: &[u8], out: &mut Vec<u8>) {
    for part in [6..8, 4..6, 0..4] {
        out.extend_from_slice(bytes.get(part).unwrap_or_default());
    }
}

fn put_timeuuid(bytes: &[u8], out: &mut Vec<u8>) {
    put_time_first(bytes, out);
    // Cassandra compares clock and node byte by byte as signed numbers.
    out.extend(bytes.iter().skip(8).map(|byte| byte ^ 0x80));
}

fn put_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    let version = bytes.get(6).map_or(0, |byte| byte >> 4);
    out.push(version);
    if version == 1 {
        put_time_first(bytes, out);
        out.extend(bytes.iter().skip(8));
    } else {
        out.extend_from_slice(bytes);
    }
}

/// One component of a list, set, map or tuple, or [`END`] for a null field of a tuple.
fn put_part(
    ty: &CqlType,
    items: &mut collection::Elements<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TypeError> {
    match items.item() {
        Ok(Some(item)) => encode_ascending(ty, item, out),
        Ok(None) => {
            out.push(END);
            Ok(())
        }
        Err(_) => Err(TypeError(format!("Not enough bytes to read a {ty}"))),
    }
}

fn put_sequence(ty: &CqlType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    let mut items = collection::Elements(bytes);
    if let CqlType::Tuple(fields) = ty {
        for field in fields {
            if items.is_empty() {
                out.push(END);
            } else {
                put_part(field, &mut items, out)?;
            }
        }
        return Ok(());
    }
    let count = items.count().map_err(|_| TypeError(format!("Not enough bytes to read a {ty}")))?;
    for _ in 0..count {
        match ty {
            CqlType::List(item) | CqlType::Set(item) => put_part(item, &mut items, out)?,
            CqlType::Map(key, value) => {
                put_part(key, &mut items, out)?;
                put_part(value, &mut items, out)?;
            }
            _ => {}
        }
    }
    out.push(END);
    Ok(())
}

fn put_fields(of: &UserType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    let mut items = collection::Elements(bytes);
    let mut end = out.len();
    for ty in of.types() {
        if items.is_empty() {
            break;
        }
        let item = items.item();
        let broken = |_| TypeError(format!("Not enough bytes to read a {}", of.name()));
        if let Some(item) = item.map_err(broken)? {
            encode_ascending(ty, item, out)?;
            end = out.len();
        } else {
            out.extend_from_slice(&[END, ABOVE]);
        }
    }
    out.truncate(end);
    out.extend_from_slice(&[END, END]);
    Ok(())
}

/// Reads codes; flips what was flipped because its column is descending.
struct CodeReader<'a> {
    bytes: &'a [u8],
    mask: u8,
}

impl CodeReader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(byte ^ self.mask)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.first().map(|byte| byte ^ self.mask)
    }

    fn take(&mut self, length: usize, out: &mut Vec<u8>) -> Option<()> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        let start = out.len();
        out.extend_from_slice(taken);
        if self.mask != 0 {
            flip(out, start);
        }
        Some(())
    }
}

/// Reads one component from the front of `key` and appends its value's wire form.
///
/// None if the bytes are not a code of the type, which means that they were not written by
/// [`encode`] with the same type and direction.
#[inline]
pub fn decode(ty: &CqlType, descending: bool, key: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut reader = CodeReader { bytes: key, mask: if descending { 0xFF } else { 0x00 } };
    take_component(ty, &mut reader, out)?;
    *key = reader.bytes;
    Some(())
}

fn take_component(ty: &CqlType, reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    match reader.next()? {
        EMPTY => return Some(()),
        PRESENT => {}
        _ => return None,
    }
    let start = out.len();
    match ty {
        CqlType::Bigint | CqlType::Timestamp | CqlType::Counter => reader.take(8, out)?,
        CqlType::Int => reader.take(4, out)?,
        CqlType::Smallint => reader.take(2, out)?,
        CqlType::Tinyint => reader.take(1, out)?,
        CqlType::Date => return reader.take(4, out),
        CqlType::Time => return reader.take(8, out),
        CqlType::Boolean => return reader.take(1, out),
        CqlType::Text | CqlType::Ascii | CqlType::Blob | CqlType::Inet => {
            return take_escaped(reader, out);
        }
        CqlType::Double => return number::take_float(8, reader, out),
        CqlType::Float => return number::take_float(4, reader, out),
        CqlType::Varint => return number::take_varint(reader, out),
        CqlType::Decimal => return number::take_decimal(reader, out),
        CqlType::Timeuuid => return take_timeuuid(0x80, reader, out),
        CqlType::Uuid => return take_uuid(reader, out),
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Tuple(_) => {
            return take_sequence(ty, reader, out);
        }
        CqlType::Udt(of) => return take_fields(of, reader, out),
        CqlType::Duration => return None,
    }
    flip_sign(out, start);
    Some(())
}

fn take_escaped(reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let zero = reader.mask;
    loop {
        let at = reader.bytes.iter().position(|byte| *byte == zero)?;
        reader.take(at, out)?;
        reader.next()?;
        match reader.next()? {
            END => return Some(()),
            _ => out.push(0),
        }
    }
}

fn take_timeuuid(sign: u8, reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut b = [0; 16];
    for byte in &mut b {
        *byte = reader.next()?;
    }
    b.iter_mut().skip(8).for_each(|byte| *byte ^= sign);
    out.extend_from_slice(&[b[4], b[5], b[6], b[7], b[2], b[3], b[0], b[1]]);
    out.extend_from_slice(&b[8..]);
    Some(())
}

fn take_uuid(reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    match reader.next()? {
        1 => take_timeuuid(0x00, reader, out),
        _ => reader.take(16, out),
    }
}

/// Reads a component as an item with its length before it.
fn take_item(ty: &CqlType, reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    take_component(ty, reader, out)?;
    let length = i32::try_from(out.len() - start - 4).ok()?;
    out.get_mut(start..start + 4)?.copy_from_slice(&length.to_be_bytes());
    Some(())
}

fn take_sequence(ty: &CqlType, reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    if let CqlType::Tuple(fields) = ty {
        for field in fields {
            if reader.peek()? == END {
                reader.next();
                collection::put_item(out, None);
            } else {
                take_item(field, reader, out)?;
            }
        }
        return Some(());
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0i32;
    while reader.peek()? != END {
        match ty {
            CqlType::List(item) | CqlType::Set(item) => take_item(item, reader, out)?,
            CqlType::Map(key, value) => {
                take_item(key, reader, out)?;
                take_item(value, reader, out)?;
            }
            _ => return None,
        }
        count += 1;
    }
    reader.next();
    out.get_mut(start..start + 4)?.copy_from_slice(&count.to_be_bytes());
    Some(())
}

fn take_fields(of: &UserType, reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut has_ended = false;
    for ty in of.types() {
        if !has_ended && reader.peek()? != END {
            take_item(ty, reader, out)?;
            continue;
        }
        if !has_ended {
            reader.next()?;
            has_ended = reader.next()? == END;
        }
        collection::put_item(out, None);
    }
    if !has_ended && (reader.next()?, reader.next()?) != (END, END) {
        return None;
    }
    Some(())
}
