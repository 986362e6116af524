//! Terms as messages and names of columns show them.

use crate::{cql::parse::ast::Term, types::literal::Literal};
use std::fmt;

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Marker { name: Some(name), .. } => write!(f, ":{name}"),
            Term::Marker { name: None, .. } => f.write_str("?"),
            Term::Literal(literal) => put_literal(literal, f),
            Term::Tuple(items) => put_all(items, ("(", ")"), f, fmt::Display::fmt),
            Term::Collection("list", items) => put_all(items, ("[", "]"), f, fmt::Display::fmt),
            Term::Collection(_, items) => put_all(items, ("{", "}"), f, fmt::Display::fmt),
            Term::Call { name, arguments } => {
                f.write_str(name)?;
                put_all(arguments, ("(", ")"), f, fmt::Display::fmt)
            }
        }
    }
}

fn put_literal(literal: &Literal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match literal {
        Literal::Null => f.write_str("null"),
        Literal::Text(text) => write!(f, "'{text}'"),
        Literal::Boolean(value) => write!(f, "{value}"),
        Literal::Integer(text)
        | Literal::Float(text)
        | Literal::Uuid(text)
        | Literal::Duration(text) => f.write_str(text),
        Literal::Hex(digits) => write!(f, "0x{digits}"),
        Literal::List(items) => put_all(items, ("[", "]"), f, put_literal),
        Literal::Set(items) => put_all(items, ("{", "}"), f, put_literal),
        Literal::Tuple(items) => put_all(items, ("(", ")"), f, put_literal),
        Literal::Map(pairs) => put_all(pairs, ("{", "}"), f, |(key, value), f| {
            put_literal(key, f)?;
            f.write_str(": ")?;
            put_literal(value, f)
        }),
    }
}

fn put_all<T>(
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
