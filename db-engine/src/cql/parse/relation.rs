//! Tokens → the conditions of a `WHERE`.

use crate::{
    cql::{
        error::CqlError,
        parse::{
            ast::{Operator, Relation, Target, Term},
            cursor::{Parsed, Parser},
            lexer::LexemeKind,
        },
    },
    types::literal::Literal,
};

impl Parser<'_> {
    pub(super) fn relations(&mut self) -> Parsed<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.words("and") {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Parsed<Relation> {
        let is_of_several = *self.peek() == LexemeKind::Symbol("(");
        let target = if self.is_word(0, "token") && *self.peek_at(1) == LexemeKind::Symbol("(") {
            self.skip();
            Target::Token(self.parenthesized(Self::name)?)
        } else if is_of_several {
            Target::Columns(self.parenthesized(Self::name)?)
        } else {
            let name = self.name()?;
            match self.subscript()? {
                Some(key) => Target::Entry(name, key),
                None => Target::Column(name),
            }
        };
        if is_of_several && (self.is_word(0, "like") || self.is_word(0, "is")) {
            return Err(self.unexpected());
        }
        let operator = self.operator()?;
        let compares =
            !matches!(operator, Operator::In | Operator::Contains | Operator::ContainsKey);
        if matches!(target, Target::Entry(..)) && !compares {
            return Err(self.unexpected());
        }
        let value = if operator == Operator::In { self.items()? } else { self.term()? };
        if matches!(target, Target::Columns(_)) && !suits_several(operator, &value) {
            return Err(self.unexpected());
        }
        Ok(Relation { target, operator, value })
    }

    pub(super) fn operator(&mut self) -> Parsed<Operator> {
        for (word, what) in [("like", "LIKE is"), ("is", "IS NOT NULL is")] {
            if self.is_word(0, word) {
                return Err(CqlError::unsupported(what));
            }
        }
        for (words, operator) in [
            ("in", Operator::In),
            ("contains key", Operator::ContainsKey),
            ("contains", Operator::Contains),
        ] {
            if self.words(words) {
                return Ok(operator);
            }
        }
        let operator = match self.peek() {
            LexemeKind::Symbol("=") => Operator::Eq,
            LexemeKind::Symbol("<") => Operator::Lt,
            LexemeKind::Symbol("<=") => Operator::Le,
            LexemeKind::Symbol(">") => Operator::Gt,
            LexemeKind::Symbol(">=") => Operator::Ge,
            LexemeKind::Symbol("!=") => Operator::Ne,
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(operator)
    }

    /// `[term]`, if it follows.
    pub(super) fn subscript(&mut self) -> Parsed<Option<Term>> {
        if !self.symbol("[") {
            return Ok(None);
        }
        let term = self.term()?;
        self.expect("]")?;
        Ok(Some(term))
    }

    /// What follows `IN`: a marker, or terms in parentheses (perhaps none).
    pub(super) fn items(&mut self) -> Parsed<Term> {
        if matches!(self.peek(), LexemeKind::Marker | LexemeKind::NamedMarker(_)) {
            return self.term();
        }
        self.expect("(")?;
        if self.symbol(")") {
            return Ok(Term::Tuple(Vec::new()));
        }
        let items = self.list(Self::term)?;
        self.expect(")")?;
        Ok(Term::Tuple(items))
    }
}

/// Whether several columns can be compared with this: with a tuple or a marker for one; by `IN`
/// with a marker for all, or with either of those, but not both.
fn suits_several(operator: Operator, value: &Term) -> bool {
    let is_tuple = |term: &Term| matches!(term, Term::Tuple(_) | Term::Literal(Literal::Tuple(_)));
    let is_marker = |term: &Term| matches!(term, Term::Marker { .. });
    match (operator, value) {
        (Operator::Contains | Operator::ContainsKey, _) => false,
        (Operator::In, Term::Tuple(items)) => {
            items.iter().all(is_tuple) || items.iter().all(is_marker)
        }
        _ => is_tuple(value) || is_marker(value),
    }
}
