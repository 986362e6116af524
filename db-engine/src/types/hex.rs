//! Bytes that a text gives by two digits each.

/// What each byte is as a digit; that of one which is none is too large for a digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NONE; 256];
    let mut value: u8 = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value as usize] as usize] = value;
        digits[b"0123456789ABCDEF"[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

const NONE: u8 = 0x80;

/// The bytes with these digits. `None` if one of them has no second digit, or there is something
/// else.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let (mut bytes, mut seen) = (Vec::with_capacity(pairs.len()), 0);
    for [high, low] in pairs {
        let (high, low) = (DIGITS[usize::from(*high)], DIGITS[usize::from(*low)]);
        // A statement may have half a million of them: all are judged at the end.
        seen |= high | low;
        bytes.push(high << 4 | low & 0x0F);
    }
    (seen < NONE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_a_byte_whatever_their_case() {
        assert_eq!(bytes_of("00fF9aA9"), Some(vec![0x00, 0xFF, 0x9A, 0xA9]));
        assert_eq!(bytes_of(""), Some(Vec::new()));
    }

    #[test]
    fn a_digit_alone_and_other_signs_are_refused() {
        for wrong in ["0", "000", "0g", "G0", " 0", "é", "00:0", "0/"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
