//! Tokens → a value: a constant, a bind marker or a call.

use crate::{
    cql::{
        error::CqlError,
        parse::{
            ast::Term,
            cursor::{Parsed, Parser},
            lexer::LexemeKind,
        },
    },
    types::literal::Literal,
};

impl Parser<'_> {
    /// A value.
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.term_at(0)
    }

    /// A whole number or a marker: all that may be said of a limit, TTL or timestamp.
    pub(super) fn integer(&mut self) -> Parsed<Term> {
        match self.peek() {
            LexemeKind::Integer(_) | LexemeKind::Marker | LexemeKind::NamedMarker(_) => self.term(),
            _ => Err(self.unexpected()),
        }
    }

    /// The duration of `USING TIMEOUT`, which ScyllaDB's drivers say with every system query.
    /// Taken and not heeded: requests end sooner than any timeout that makes sense.
    pub(super) fn timeout(&mut self) -> Parsed<()> {
        match self.next() {
            LexemeKind::Duration(_) => Ok(()),
            LexemeKind::Marker | LexemeKind::NamedMarker(_) => {
                Err(CqlError::unsupported("A bind marker for USING TIMEOUT is"))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn term_at(&mut self, depth: usize) -> Parsed<Term> {
        self.check_depth(depth)?;
        let name = match self.peek() {
            LexemeKind::Marker => None,
            LexemeKind::NamedMarker(name) => Some(name.to_ascii_lowercase()),
            _ => return self.value_at(depth),
        };
        self.skip();
        let index = self.markers;
        let Some(next) = index.checked_add(1) else {
            return Err(CqlError::syntax("A statement has more than 65535 bind markers"));
        };
        self.markers = next;
        Ok(Term::Marker { index, name })
    }

    fn value_at(&mut self, depth: usize) -> Parsed<Term> {
        let literal = match self.peek().clone() {
            LexemeKind::Text(text) => Literal::Text(text.into_owned()),
            LexemeKind::Integer(digits) => Literal::Integer(digits.into()),
            // As in Cassandra, which reads each as a double first, whatever it is to be.
            LexemeKind::Float(digits) if digits.parse().is_ok_and(f64::is_infinite) => {
                let text = format!("{digits} is beyond the range of a double");
                return Err(CqlError::syntax(text));
            }
            LexemeKind::Float(digits) => Literal::Float(digits.into()),
            LexemeKind::Uuid(uuid) => Literal::Uuid(uuid.into()),
            LexemeKind::Hex(digits) => Literal::Hex(digits.into()),
            LexemeKind::Duration(text) => Literal::Duration(text.into()),
            LexemeKind::Symbol("-") if self.is_word(1, "infinity") => {
                self.skip();
                Literal::Float("-Infinity".into())
            }
            LexemeKind::Symbol("(") => return self.tuple(depth),
            LexemeKind::Symbol("[") => return self.list_literal(depth),
            LexemeKind::Symbol("{") => return self.braces(depth),
            LexemeKind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "null" => Literal::Null,
                "true" => Literal::Boolean(true),
                "false" => Literal::Boolean(false),
                "nan" => Literal::Float("NaN".into()),
                "infinity" => Literal::Float("Infinity".into()),
                _ => return self.call(depth),
            },
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(Term::Literal(literal))
    }

    fn call(&mut self, depth: usize) -> Parsed<Term> {
        if *self.peek_at(1) != LexemeKind::Symbol("(") {
            return Err(self.unexpected());
        }
        let (name, arguments) = self.function_call(|parser| parser.term_at(depth + 1))?;
        Ok(Term::Call { name, arguments })
    }

    fn tuple(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("(")?;
        let items = self.list(|parser| parser.term_at(depth + 1))?;
        self.expect(")")?;
        Ok(constants(items).map_or_else(Term::Tuple, |items| Term::Literal(Literal::Tuple(items))))
    }

    fn list_literal(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("[")?;
        let mut items = Vec::new();
        if !self.symbol("]") {
            items = self.list(|parser| parser.term_at(depth + 1))?;
            self.expect("]")?;
        }
        Ok(constants(items).map_or_else(
            |items| Term::Collection("list", items),
            |items| Term::Literal(Literal::List(items)),
        ))
    }

    /// The fields of a user-defined type, and what ends them.
    fn fields(&mut self, depth: usize) -> Parsed<Term> {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        loop {
            names.push(self.name()?);
            self.expect(":")?;
            values.push(self.term_at(depth + 1)?);
            if !self.symbol(",") {
                break;
            }
        }
        self.expect("}")?;
        let names = names.into_iter();
        Ok(match constants(values) {
            Ok(values) => Term::Literal(Literal::Fields(names.zip(values).collect())),
            Err(values) => Term::Fields(names.zip(values).collect()),
        })
    }

    fn braces(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("{")?;
        if self.symbol("}") {
            return Ok(Term::Literal(Literal::Set(Vec::new())));
        }
        let is_name = match self.peek() {
            LexemeKind::Quoted(_) => true,
            LexemeKind::Word(word) => !CONSTANTS.contains(&word.to_ascii_lowercase().as_str()),
            _ => false,
        };
        if is_name && *self.peek_at(1) == LexemeKind::Symbol(":") {
            return self.fields(depth);
        }
        let first = self.term_at(depth + 1)?;
        if !self.symbol(":") {
            let mut items = vec![first];
            while self.symbol(",") {
                items.push(self.term_at(depth + 1)?);
            }
            self.expect("}")?;
            let items = constants(items);
            return Ok(items.map_or_else(
                |items| Term::Collection("set", items),
                |items| Term::Literal(Literal::Set(items)),
            ));
        }
        let (mut keys, mut values) = (vec![first], vec![self.term_at(depth + 1)?]);
        while self.symbol(",") {
            keys.push(self.term_at(depth + 1)?);
            self.expect(":")?;
            values.push(self.term_at(depth + 1)?);
        }
        self.expect("}")?;
        Ok(match (constants(keys), constants(values)) {
            (Ok(keys), Ok(values)) => {
                Term::Literal(Literal::Map(keys.into_iter().zip(values).collect()))
            }
            (Err(terms), _) | (_, Err(terms)) => Term::Collection("map", terms),
        })
    }
}

/// Words that are values and not names.
const CONSTANTS: [&str; 5] = ["null", "true", "false", "nan", "infinity"];

/// The items as constants if all of them are; else as they are.
fn constants(items: Vec<Term>) -> Result<Vec<Literal>, Vec<Term>> {
    if !items.iter().all(|item| matches!(item, Term::Literal(_))) {
        return Err(items);
    }
    let literal = |item| match item {
        Term::Literal(literal) => Some(literal),
        _ => None,
    };
    Ok(items.into_iter().filter_map(literal).collect())
}
