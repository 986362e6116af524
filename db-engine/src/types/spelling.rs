//! Literals as messages and names of columns show them.

use super::literal::Literal;
use std::fmt;

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Text(text) => write!(f, "'{text}'"),
            Literal::Boolean(value) => write!(f, "{value}"),
            Literal::Float(text) => f.write_str(&text.replace("inf", "Infinity")),
            Literal::Integer(text) | Literal::Uuid(text) | Literal::Duration(text) => {
                f.write_str(text)
            }
            Literal::Hex(digits) => write!(f, "0x{digits}"),
            Literal::List(items) => put_all(items, ("[", "]"), f, fmt::Display::fmt),
            Literal::Set(items) => put_all(items, ("{", "}"), f, fmt::Display::fmt),
            Literal::Tuple(items) => put_all(items, ("(", ")"), f, fmt::Display::fmt),
            Literal::Map(pairs) => put_pairs(pairs, f),
            Literal::Fields(fields) => put_pairs(fields, f),
        }
    }
}

/// Shows values with names or keys, in braces.
///
/// # Errors
/// As the formatter's.
pub fn put_pairs<K: fmt::Display, V: fmt::Display>(
    pairs: &[(K, V)],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    put_all(pairs, ("{", "}"), f, |(key, value), f| write!(f, "{key}: {value}"))
}

/// Shows items between these, with commas.
///
/// # Errors
/// As the formatter's.
pub fn put_all<T>(
    items: &[T],
    (open, close): (&str, &str),
    f: &mut fmt::Formatter<'_>,
    put: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    f.write_str(open)?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        put(item, f)?;
    }
    f.write_str(close)
}
