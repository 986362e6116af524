//! Bytes that a text gives by two digits each.

/// The bytes with these digits. `None` if one of them has no second digit, or there is something
/// else.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    // A statement may have a million of them: all are judged before any is used, many at once.
    let wrong = digits.bytes().fold(false, |wrong, sign| wrong | !sign.is_ascii_hexdigit());
    let byte = |[high, low]: &[u8; 2]| value(*high) << 4 | value(*low);
    (rest.is_empty() && !wrong).then(|| pairs.iter().map(byte).collect())
}

/// What a digit is worth.
fn value(digit: u8) -> u8 {
    if digit > b'9' { (digit | 0x20).wrapping_sub(b'a' - 10) } else { digit.wrapping_sub(b'0') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_a_byte_whatever_their_case() {
        assert_eq!(bytes_of("00fF9aA9"), Some(vec![0x00, 0xFF, 0x9A, 0xA9]));
        assert_eq!(bytes_of(""), Some(Vec::new()));
        for byte in 0..=u8::MAX {
            let text = format!("{byte:02x}{byte:02X}");
            assert_eq!(bytes_of(&text), Some(vec![byte; 2]), "{text}");
        }
    }

    #[test]
    fn a_digit_alone_and_other_signs_are_refused() {
        for wrong in ["0", "000", "0g", "G0", " 0", "é", "00:0", "0/"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
        for sign in (0..=u8::MAX).map(char::from).filter(|sign| !sign.is_ascii_hexdigit()) {
            for place in 0..40 {
                let mut digits: Vec<_> =
                    "0123456789abcdefABCDEF".chars().cycle().take(40).collect();
                digits[place] = sign;
                let digits = String::from_iter(digits);
                assert_eq!(bytes_of(&digits), None, "{digits}");
            }
        }
    }
}
