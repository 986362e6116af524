//! Terms as messages and names of columns show them.

use crate::{
    cql::parse::ast::Term,
    types::spelling::{put_all, put_pairs},
};
use std::fmt;

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Marker { .. } => f.write_str("?"),
            Term::Literal(literal) => write!(f, "{literal}"),
            Term::Tuple(items) => put_all(items, ("(", ")"), f, fmt::Display::fmt),
            Term::Collection("list", items) => put_all(items, ("[", "]"), f, fmt::Display::fmt),
            Term::Collection(_, items) => put_all(items, ("{", "}"), f, fmt::Display::fmt),
            Term::Fields(fields) => put_pairs(fields, f),
            Term::Call { name, arguments } => {
                f.write_str(name)?;
                put_all(arguments, ("(", ")"), f, fmt::Display::fmt)
            }
        }
    }
}
