//! The codes of floats, varints and decimals: numbers whose bytes do not compare as they do.

use super::{
    super::{TypeError, collection, decimal},
    CodeReader, flip, flip_sign,
};

/// Longest decimal that is put in order, in bytes: converting takes quadratic time.
const DECIMAL_BYTES_MAX: usize = 512;
/// More digits than a number of so many bytes has.
const DIGITS_MAX: usize = DECIMAL_BYTES_MAX * 5 / 2;
/// Most zeros written out at the end of a decimal that has no fraction.
const ZEROS_MAX: i32 = 64;
/// So many digits always fit into [`DECIMAL_BYTES_MAX`]: ten to their number is below two to the
/// number of bits.
const WRITTEN_OUT_DIGITS_MAX: usize = DECIMAL_BYTES_MAX * 8 * 3 / 10;
const END: u8 = 0x00;

/// As Java compares: all NaN equal and greatest, -0 before 0.
pub(super) fn put_float(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(four), _) if f32::from_be_bytes(four).is_nan() => {
            out.extend_from_slice(&0x7FC0_0000u32.to_be_bytes());
        }
        (_, Ok(eight)) if f64::from_be_bytes(eight).is_nan() => {
            out.extend_from_slice(&0x7FF8_0000_0000_0000u64.to_be_bytes());
        }
        _ => out.extend_from_slice(bytes),
    }
    if out.get(start).is_some_and(|byte| byte & 0x80 != 0) {
        flip(out, start);
    } else {
        flip_sign(out, start);
    }
}

pub(super) fn take_float(
    width: usize,
    reader: &mut CodeReader<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    reader.take(width, out)?;
    if out.get(start)? & 0x80 == 0 {
        flip(out, start);
    } else {
        flip_sign(out, start);
    }
    Some(())
}

/// `class` is 0x80 plus the number of bytes, up to 0x7F of them, for a number that is not negative
/// (0xFF: four bytes of length follow); for a negative one all that is flipped. The bytes follow as
/// they are: among numbers of one sign and length, two's complement is in order.
pub(super) fn put_varint(bytes: &[u8], out: &mut Vec<u8>) {
    let bytes = decimal::minimal(bytes);
    let start = out.len();
    if let Ok(length @ 0..0x7F) = u8::try_from(bytes.len()) {
        out.push(0x80 + length);
    } else {
        out.push(0xFF);
        collection::put_count(out, bytes.len());
    }
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        flip(out, start);
    }
    out.extend_from_slice(bytes);
}

const NEGATIVE: u8 = 0x00;
const ZERO: u8 = 0x01;
const POSITIVE: u8 = 0x02;

/// 0.d₁d₂… × 10^exponent: sign, exponent (i64, sign flipped), digits as bytes 1 to 10, 0 at the
/// end; exponent and digits are flipped if negative.
pub(super) fn put_decimal(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TypeError> {
    let Some((scale, unscaled)) = bytes.split_first_chunk::<4>() else {
        return Err(TypeError(format!("Expected 0 or at least 4 bytes ({})", bytes.len())));
    };
    if unscaled.len() > DECIMAL_BYTES_MAX {
        return Err(TypeError(format!(
            "Comparing a decimal of more than {DECIMAL_BYTES_MAX} bytes is not supported yet by \
             Sandglass"
        )));
    }
    let (negative, digits) = decimal::to_digits(unscaled);
    if digits.is_empty() {
        out.push(ZERO);
        return Ok(());
    }
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let exponent = length - i64::from(i32::from_be_bytes(*scale));
    out.extend_from_slice(&exponent.to_be_bytes());
    flip_sign(out, start);
    out.extend(digits.trim_end_matches('0').bytes().map(|digit| digit - b'0' + 1));
    out.push(END);
    if negative {
        flip(out, start);
    }
    Ok(())
}

pub(super) fn take_varint(reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let class = reader.next()?;
    let sign = if class & 0x80 == 0 { 0xFF } else { 0x00 };
    let length = match class ^ sign {
        0xFF => {
            let mut length = [0; 4];
            for byte in &mut length {
                *byte = reader.next()? ^ sign;
            }
            usize::try_from(u32::from_be_bytes(length)).ok()?
        }
        class => usize::from(class.checked_sub(0x80)?),
    };
    reader.take(length, out)
}

pub(super) fn take_decimal(reader: &mut CodeReader<'_>, out: &mut Vec<u8>) -> Option<()> {
    let sign = reader.next()?;
    if sign == ZERO {
        out.extend_from_slice(&[0, 0, 0, 0, 0]);
        return Some(());
    }
    let negative = sign == NEGATIVE;
    let mask = if negative { 0xFF } else { 0x00 };
    let mut exponent = [0; 8];
    for byte in &mut exponent {
        *byte = reader.next()? ^ mask;
    }
    exponent[0] ^= 0x80;
    let mut digits = String::new();
    loop {
        match reader.next()? ^ mask {
            END => break,
            digit @ 1..=10 => digits.push(char::from(digit - 1 + b'0')),
            _ => return None,
        }
    }
    let length = i64::try_from(digits.len()).ok()?;
    let mut scale = length.checked_sub(i64::from_be_bytes(exponent))?;
    // The smallest scale is that of the value with its zeros at the end, which the code left out.
    let zeros = usize::try_from(i64::from(i32::MIN).saturating_sub(scale)).unwrap_or(0);
    if zeros > DIGITS_MAX {
        return None;
    }
    digits.extend(std::iter::repeat_n('0', zeros));
    scale += i64::try_from(zeros).ok()?;
    let mut scale = i32::try_from(scale).ok()?;
    // A driver writes 1 with a scale of -1 as 1E+1, or not at all; 10 is nobody's problem. What is
    // written out must still be short enough for a key.
    let zeros = usize::try_from(scale.unsigned_abs()).unwrap_or(usize::MAX);
    let fits = digits.len().saturating_add(zeros) <= WRITTEN_OUT_DIGITS_MAX;
    if (-ZEROS_MAX..0).contains(&scale) && fits {
        digits.extend((scale..0).map(|_| '0'));
        scale = 0;
    }
    out.extend_from_slice(&scale.to_be_bytes());
    out.extend_from_slice(&decimal::from_digits(negative, &digits));
    Some(())
}
