//! Terms and relations as messages and names of columns show them.

use crate::{
    cql::parse::ast::{Relation, Target, Term},
    types::{
        name::quoted,
        spelling::{put_all, put_pairs},
    },
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

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let put_name = |name: &String, f: &mut fmt::Formatter<'_>| f.write_str(&quoted(name));
        match &self.target {
            Target::Column(name) => put_name(name, f)?,
            Target::Entry(name, key) => write!(f, "{}[{key}]", quoted(name))?,
            Target::Columns(names) => put_all(names, ("(", ")"), f, put_name)?,
            Target::Token(names) => put_all(names, ("token(", ")"), f, put_name)?,
        }
        write!(f, " {} {}", self.operator.text(), self.value)
    }
}
