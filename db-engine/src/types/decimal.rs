//! Integers of any length: two's complement bytes ⇄ decimal digits.

use std::fmt::Write;

/// The base of a limb of nine digits.
const LIMB: u64 = 1_000_000_000;

/// The most digits of a number in a statement. Reading one takes a time that grows with the square
/// of their number: these take some twenty microseconds, a million would take seconds, during
/// which nobody else is served.
pub(super) const LITERAL_DIGITS_MAX: usize = 4_096;

/// Digits that are read at a time: as many as a `u64` holds.
const CHUNK_DIGITS: usize = 19;

/// Two's complement, big-endian, as few bytes as possible, of a number written in digits.
///
/// `digits` are ASCII digits only. The time grows with the square of their number; who calls bounds
/// it.
pub(super) fn from_digits(negative: bool, digits: &str) -> Vec<u8> {
    let mut magnitude: Vec<u64> = Vec::new();
    for chunk in digits.as_bytes().chunks(CHUNK_DIGITS) {
        let scale = chunk.iter().fold(1u64, |s, _| s * 10);
        let mut carry = chunk.iter().fold(0u64, |v, b| v * 10 + u64::from(b - b'0'));
        for limb in &mut magnitude {
            let next = u128::from(*limb) * u128::from(scale) + u128::from(carry);
            *limb = low(next);
            carry = low(next >> 64);
        }
        if carry > 0 {
            magnitude.push(carry);
        }
    }
    let mut bytes = vec![0];
    bytes.extend(magnitude.iter().rev().flat_map(|limb| limb.to_be_bytes()));
    if negative {
        negate(&mut bytes);
    }
    minimal(&bytes).to_vec()
}

/// Sign and decimal digits (no leading zeros, empty for zero) of two's complement bytes.
pub(super) fn to_digits(bytes: &[u8]) -> (bool, String) {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if negative {
        magnitude.insert(0, 0xFF);
        negate(&mut magnitude);
    }
    let mut limbs: Vec<u64> = Vec::new();
    for byte in magnitude {
        let mut carry = u64::from(byte);
        for limb in &mut limbs {
            let next = *limb * 256 + carry;
            *limb = next % LIMB;
            carry = next / LIMB;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let digits = limbs.iter().rev().fold(String::new(), |mut digits, limb| {
        write!(digits, "{limb:09}").expect("a string takes everything");
        digits
    });
    (negative, digits.trim_start_matches('0').to_string())
}

/// The same number in as few bytes as possible: at least one.
pub(super) fn minimal(mut bytes: &[u8]) -> &[u8] {
    while let [first, second, ..] = bytes {
        let redundant =
            (*first == 0 && second & 0x80 == 0) || (*first == 0xFF && second & 0x80 != 0);
        if !redundant {
            break;
        }
        bytes = bytes.get(1..).unwrap_or_default();
    }
    if bytes.is_empty() { &[0] } else { bytes }
}

fn low(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).expect("masked to 64 bits")
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (next, overflow) = (!*byte).overflowing_add(u8::from(carry));
        *byte = next;
        carry = overflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_agree_with_the_machine() {
        for n in (-70_000i64..70_000).step_by(7).chain([i64::MIN, i64::MAX, -1, 0, 127, 128, -128])
        {
            let bytes = from_digits(n < 0, &n.unsigned_abs().to_string());
            assert_eq!(bytes, minimal(&n.to_be_bytes()), "{n}");
            let (negative, digits) = to_digits(&bytes);
            let digits = if digits.is_empty() { "0".into() } else { digits };
            assert_eq!(format!("{}{digits}", if negative { "-" } else { "" }), n.to_string());
        }
    }

    #[test]
    fn long_numbers_come_back() {
        let digits = "1234567890".repeat(LITERAL_DIGITS_MAX / 10);
        let lengths = [1, 18, 19, 20, 37, 38, 39, 300, LITERAL_DIGITS_MAX / 10 * 10];
        for (length, negative) in lengths.into_iter().zip([true, false].into_iter().cycle()) {
            let digits = &digits[..length];
            assert_eq!(to_digits(&from_digits(negative, digits)), (negative, digits.to_string()));
        }
        let nines = "9".repeat(400);
        assert_eq!(to_digits(&from_digits(false, &nines)), (false, nines.clone()));
    }
}
