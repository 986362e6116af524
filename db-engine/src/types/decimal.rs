//! Integers of any length: two's complement bytes ⇄ decimal digits.

use std::fmt::Write;

/// Digits that one limb holds, and their base.
const LIMB_DIGITS: usize = 9;
const LIMB: u64 = 1_000_000_000;

/// Two's complement, big-endian, as few bytes as possible, of a number written in digits.
///
/// `digits` are ASCII digits only. The time grows with the square of their number; the length of
/// a statement bounds it.
pub(super) fn from_digits(negative: bool, digits: &str) -> Vec<u8> {
    let mut magnitude: Vec<u32> = Vec::new();
    for chunk in digits.as_bytes().chunks(LIMB_DIGITS) {
        let scale = chunk.iter().fold(1u64, |s, _| s * 10);
        let mut carry = chunk.iter().fold(0u64, |v, b| v * 10 + u64::from(b - b'0'));
        for limb in &mut magnitude {
            let next = u64::from(*limb) * scale + carry;
            *limb = low(next);
            carry = next >> 32;
        }
        if carry > 0 {
            magnitude.push(low(carry));
        }
    }
    let mut bytes: Vec<u8> = magnitude.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    bytes.insert(0, 0);
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

fn low(value: u64) -> u32 {
    u32::try_from(value & 0xFFFF_FFFF).expect("masked to 32 bits")
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
        let digits = "1234567890".repeat(30);
        assert_eq!(to_digits(&from_digits(true, &digits)), (true, digits.clone()));
    }
}
