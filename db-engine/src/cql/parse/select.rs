//! Tokens → a query.

use crate::cql::{
    error::CqlError,
    parse::{
        ast::{Select, Selector},
        cursor::{Parsed, Parser},
        lexer::LexemeKind,
    },
};

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parsed<Select> {
        if self.is_word(0, "json")
            && !self.is_word(1, "from")
            && *self.peek_at(1) != LexemeKind::Symbol(",")
        {
            return Err(CqlError::unsupported("SELECT JSON is"));
        }
        // A column may have that name, too.
        let is_column = *self.peek_at(1) == LexemeKind::Symbol(",")
            || self.is_word(1, "from")
            || self.is_word(1, "as");
        let distinct = !is_column && self.words("distinct");
        let mut select = Select { distinct, ..Select::default() };
        if !self.symbol("*") {
            select.selectors = self.list(|parser| {
                let selector = parser.selector(0)?;
                let alias = if parser.words("as") { Some(parser.name()?) } else { None };
                Ok((selector, alias))
            })?;
        }
        self.expect_words("from")?;
        select.from = self.table_name()?;
        if self.words("where") {
            select.relations = self.relations()?;
        }
        if self.words("group by") {
            return Err(CqlError::unsupported("GROUP BY is"));
        }
        if self.words("order by") {
            select.order = self.list(|parser| {
                let name = parser.name()?;
                let descending = parser.words("desc");
                if !descending {
                    parser.words("asc");
                }
                Ok((name, descending))
            })?;
        }
        if self.words("per partition limit") {
            select.per_partition_limit = Some(self.integer()?);
        }
        if self.words("limit") {
            select.limit = Some(self.integer()?);
        }
        select.allow_filtering = self.words("allow filtering");
        select.bypass_cache = self.words("bypass cache");
        if self.words("using") {
            self.expect_words("timeout")?;
            self.timeout()?;
        }
        Ok(select)
    }

    fn selector(&mut self, depth: usize) -> Parsed<Selector> {
        self.check_depth(depth)?;
        let calls = *self.peek_at(1) == LexemeKind::Symbol("(");
        if calls && self.is_word(0, "count") {
            let one = matches!(self.peek_at(2), LexemeKind::Symbol("*") | LexemeKind::Integer(_));
            if one && *self.peek_at(3) == LexemeKind::Symbol(")") {
                self.at += 4;
                return Ok(Selector::CountAll);
            }
        }
        if calls && self.is_word(0, "cast") {
            return Err(CqlError::unsupported("CAST in a selection is"));
        }
        if matches!(self.peek(), LexemeKind::Marker | LexemeKind::NamedMarker(_)) {
            return Err(CqlError::invalid(
                "Cannot infer type for term ? in selection clause (try using a cast to force a \
                 type)",
            ));
        }
        if calls && matches!(self.peek(), LexemeKind::Word(_)) {
            let (name, arguments) = self.function_call(|parser| parser.selector(depth + 1))?;
            if matches!(&*name, "writetime" | "maxwritetime" | "ttl") && arguments.len() != 1 {
                return Err(CqlError::syntax(format!("{name} is of one column")));
            }
            return Ok(Selector::Call { name, arguments });
        }
        let column = self.name()?;
        let mut fields = Vec::new();
        while self.symbol(".") {
            self.check_depth(fields.len())?;
            fields.push(self.name()?);
        }
        let selector = if !fields.is_empty() {
            Selector::Field(column, fields)
        } else if self.symbol("[") {
            self.part_of(column)?
        } else {
            Selector::Column(column)
        };
        if matches!(self.peek(), LexemeKind::Symbol("." | "[")) {
            return Err(CqlError::unsupported("Selecting a part of a part is"));
        }
        Ok(selector)
    }

    /// What follows `column[`.
    fn part_of(&mut self, column: String) -> Parsed<Selector> {
        let from = match self.peek() {
            LexemeKind::Symbol("..") => None,
            _ => Some(self.term()?),
        };
        let is_slice = self.symbol("..");
        let is_open = from.is_some() && *self.peek() == LexemeKind::Symbol("]");
        let to = if is_slice && !is_open { Some(self.term()?) } else { None };
        self.expect("]")?;
        Ok(match from {
            Some(key) if !is_slice => Selector::Element(column, key),
            from => Selector::Slice(column, from, to),
        })
    }
}
