//! Tokens → the `IF` of a write.

use crate::cql::parse::{
    ast::{IfClause, IfPart, IfRelation, Operator},
    cursor::{Parsed, Parser},
};

/// Words that compare in a `WHERE` alone.
const NO_OPERATORS: [&str; 2] = ["like", "is"];

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
        let part = if self.symbol(".") {
            IfPart::Field(self.name()?)
        } else {
            self.subscript()?.map_or(IfPart::Whole, IfPart::Element)
        };
        if NO_OPERATORS.iter().any(|word| self.is_word(0, word)) {
            return Err(self.unexpected());
        }
        let operator = self.operator()?;
        let contains = matches!(operator, Operator::Contains | Operator::ContainsKey);
        if contains && part != IfPart::Whole {
            return Err(self.unexpected());
        }
        let value = if operator == Operator::In { self.items()? } else { self.term()? };
        Ok(IfRelation { column, part, operator, value })
    }
}
