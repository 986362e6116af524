//! Tokens → the `IF` of a write.

use crate::cql::{
    error::CqlError,
    parse::{
        ast::{IfClause, IfRelation, Operator},
        cursor::{Parsed, Parser},
        lexer::LexemeKind,
    },
};

impl Parser<'_> {
    /// `IF NOT EXISTS`, which an INSERT alone may say.
    pub(super) fn if_not_exists(&mut self) -> Parsed<IfClause> {
        if !self.words("if") {
            return Ok(IfClause::Always);
        }
        self.expect_words("not exists")?;
        Ok(IfClause::NotExists)
    }

    /// `IF EXISTS`, or conditions on columns.
    pub(super) fn condition(&mut self) -> Parsed<IfClause> {
        if !self.words("if") {
            return Ok(IfClause::Always);
        }
        if self.words("exists") {
            return Ok(IfClause::Exists);
        }
        let mut relations = vec![self.if_relation()?];
        while self.words("and") {
            relations.push(self.if_relation()?);
        }
        Ok(IfClause::Columns(relations))
    }

    fn if_relation(&mut self) -> Parsed<IfRelation> {
        let column = self.name()?;
        if matches!(self.peek(), LexemeKind::Symbol("." | "[")) {
            return Err(CqlError::unsupported("A condition on a part of a value is"));
        }
        if self.is_word(0, "like") {
            return Err(self.unexpected());
        }
        let operator = if self.symbol("!=") { Operator::Ne } else { self.operator()? };
        if matches!(operator, Operator::Contains | Operator::ContainsKey) {
            return Err(self.unexpected());
        }
        let value = if operator == Operator::In { self.items()? } else { self.term()? };
        Ok(IfRelation { column, operator, value })
    }
}
