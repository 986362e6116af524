//! Tokens → the conditions of a `WHERE`.

use crate::cql::{
    error::CqlError,
    parse::{
        ast::{Operator, Relation, Target, Term},
        cursor::{Parsed, Parser},
        lexer::LexemeKind,
    },
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
        let target = if self.is_word(0, "token") && *self.peek_at(1) == LexemeKind::Symbol("(") {
            self.skip();
            Target::Token(self.parenthesized(Self::name)?)
        } else if *self.peek() == LexemeKind::Symbol("(") {
            Target::Columns(self.parenthesized(Self::name)?)
        } else {
            Target::Column(self.name()?)
        };
        let operator = self.operator()?;
        let value = if operator == Operator::In { self.items()? } else { self.term()? };
        Ok(Relation { target, operator, value })
    }

    pub(super) fn operator(&mut self) -> Parsed<Operator> {
        for (word, what) in [
            ("contains", "CONTAINS is"),
            ("like", "LIKE is"),
            ("not", "NOT IN is"),
            ("is", "IS NOT NULL is"),
            ("between", "BETWEEN is"),
        ] {
            if self.is_word(0, word) {
                return Err(CqlError::unsupported(what));
            }
        }
        if self.words("in") {
            return Ok(Operator::In);
        }
        let operator = match self.peek() {
            LexemeKind::Symbol("=") => Operator::Eq,
            LexemeKind::Symbol("<") => Operator::Lt,
            LexemeKind::Symbol("<=") => Operator::Le,
            LexemeKind::Symbol(">") => Operator::Gt,
            LexemeKind::Symbol(">=") => Operator::Ge,
            LexemeKind::Symbol("!=") => return Err(CqlError::unsupported("!= in a condition is")),
            LexemeKind::Symbol("[") => {
                return Err(CqlError::unsupported("A condition on a part of a collection is"));
            }
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(operator)
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
