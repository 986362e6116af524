//! Tokens → `DESCRIBE`: what of the schema a client wants to see.

use crate::{
    cql::parse::{
        ast::{Describe, DescribeTarget, ElementKind},
        cursor::{Parsed, Parser},
        lexer::LexemeKind,
    },
    types::name::is_reserved,
};

/// What the statements list, by the word that asks for it.
const LISTS: [(&str, ElementKind); 6] = [
    ("keyspaces", ElementKind::Keyspace),
    ("tables", ElementKind::Table),
    ("columnfamilies", ElementKind::Table),
    ("types", ElementKind::Type),
    ("functions", ElementKind::Function),
    ("aggregates", ElementKind::Aggregate),
];

/// What the statements describe, by the words that ask for it.
const ELEMENTS: [(&str, ElementKind); 7] = [
    ("table", ElementKind::Table),
    ("columnfamily", ElementKind::Table),
    ("index", ElementKind::Index),
    ("materialized view", ElementKind::View),
    ("type", ElementKind::Type),
    ("function", ElementKind::Function),
    ("aggregate", ElementKind::Aggregate),
];

impl Parser<'_> {
    /// What follows `DESCRIBE`.
    pub(super) fn describe(&mut self) -> Parsed<Describe> {
        let target = self.described()?;
        let internals = self.words("with");
        if internals {
            self.expect_words("internals")?;
        }
        Ok(Describe { target, internals })
    }

    fn described(&mut self) -> Parsed<DescribeTarget> {
        if self.words("cluster") {
            return Ok(DescribeTarget::Cluster);
        }
        if self.words("full schema") {
            return Ok(DescribeTarget::Schema { full: true });
        }
        if self.words("schema") {
            return Ok(DescribeTarget::Schema { full: false });
        }
        let only = self.words("only keyspace");
        if only || self.words("keyspace") {
            let name = if self.names_nothing(0) { None } else { Some(self.name()?) };
            return Ok(DescribeTarget::Keyspace { name, only });
        }
        for (word, kind) in LISTS {
            if self.words(word) {
                return Ok(DescribeTarget::List(kind));
            }
        }
        for (words, kind) in ELEMENTS {
            // A word that is not reserved may as well be the name of what is described.
            let is_name = self.is_word(0, words) && self.names_nothing(1) && !is_reserved(words);
            if !is_name && self.words(words) {
                return Ok(DescribeTarget::Element(kind, self.table_name()?));
            }
        }
        Ok(DescribeTarget::Any(self.table_name()?))
    }

    /// Whether no name stands so many tokens ahead.
    fn names_nothing(&self, ahead: usize) -> bool {
        matches!(self.peek_at(ahead), LexemeKind::End | LexemeKind::Symbol(_))
            || self.is_word(ahead, "with")
    }
}
