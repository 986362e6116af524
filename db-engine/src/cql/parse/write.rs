//! Tokens → a statement that writes: INSERT, UPDATE, DELETE and BATCH.

use crate::cql::{
    error::CqlError,
    parse::{
        ast::{
            Assigned, BatchStatement, BatchWord, Delete, Deleted, Insert, Modification, Term,
            Update, Using,
        },
        cursor::{Parsed, Parser},
        lexer::LexemeKind,
    },
};

/// Most writes in one batch text, Cassandra's and the protocol's limit.
const BATCH_MAX: usize = 65_535;

impl Parser<'_> {
    pub(super) fn modification(&mut self) -> Parsed<Option<Modification>> {
        Ok(Some(if self.words("insert") {
            Modification::Insert(self.insert()?)
        } else if self.words("update") {
            Modification::Update(self.update()?)
        } else if self.words("delete") {
            Modification::Delete(self.delete()?)
        } else {
            return Ok(None);
        }))
    }

    fn insert(&mut self) -> Parsed<Insert> {
        self.expect_words("into")?;
        let table = self.table_name()?;
        if self.words("json") {
            return Err(CqlError::unsupported("INSERT JSON is"));
        }
        let names = self.parenthesized(Self::name)?;
        self.expect_words("values")?;
        let terms = self.parenthesized(Self::term)?;
        if names.len() != terms.len() {
            return Err(CqlError::invalid("Unmatched column names/values"));
        }
        let condition = self.if_not_exists()?;
        let using = self.using()?;
        Ok(Insert { table, values: names.into_iter().zip(terms).collect(), condition, using })
    }

    fn update(&mut self) -> Parsed<Update> {
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_words("set")?;
        let values = self.list(|parser| {
            let name = parser.name()?;
            let assigned = parser.assigned(&name)?;
            Ok((name, assigned))
        })?;
        self.expect_words("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Update { table, values, relations, condition, using })
    }

    /// What follows a column in `SET`.
    fn assigned(&mut self, column: &str) -> Parsed<Assigned> {
        if let Some(key) = self.subscript()? {
            self.expect("=")?;
            return Ok(Assigned::Element(key, self.term()?));
        }
        if self.symbol(".") {
            let field = self.name()?;
            self.expect("=")?;
            return Ok(Assigned::Field(field, self.term()?));
        }
        if self.symbol("+=") {
            return Ok(Assigned::Added(self.term()?));
        }
        if self.symbol("-=") {
            return Ok(Assigned::Subtracted(self.term()?));
        }
        self.expect("=")?;
        let is_name = matches!(self.peek(), LexemeKind::Word(_) | LexemeKind::Quoted(_));
        let sign = match self.peek_at(1) {
            LexemeKind::Symbol(sign @ ("+" | "-")) if is_name => Some(*sign),
            // `c = c -1`: the sign is part of the number.
            LexemeKind::Integer(_) if is_name => None,
            _ => return self.assigned_term(column),
        };
        if self.name()? != column {
            let sign = sign.unwrap_or("-");
            return Err(CqlError::syntax(format!(
                "Only expressions of the form X = X {sign} <value> are supported."
            )));
        }
        if sign.is_some() {
            self.skip();
        }
        let term = self.term()?;
        Ok(if sign == Some("-") { Assigned::Subtracted(term) } else { Assigned::Added(term) })
    }

    /// `value` or `value + column`.
    fn assigned_term(&mut self, column: &str) -> Parsed<Assigned> {
        let term = self.term()?;
        if !self.symbol("+") {
            return Ok(Assigned::Value(term));
        }
        if self.name()? != column {
            let refused = "Only expressions of the form X = <value> + X are supported.";
            return Err(CqlError::syntax(refused));
        }
        Ok(Assigned::Prepended(term))
    }

    fn delete(&mut self) -> Parsed<Delete> {
        let columns = if self.is_word(0, "from") {
            Vec::new()
        } else {
            self.list(|parser| {
                let name = parser.name()?;
                if parser.symbol(".") {
                    return Ok((name, Deleted::Field(parser.name()?)));
                }
                let key = parser.subscript()?;
                Ok((name, key.map_or(Deleted::Whole, Deleted::Element)))
            })?
        };
        self.expect_words("from")?;
        let table = self.table_name()?;
        let using = self.using()?;
        if let Some(Term::Marker { .. } | Term::Literal(_)) = using.ttl {
            return Err(self.unexpected());
        }
        self.expect_words("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Delete { table, columns, relations, condition, using })
    }

    fn using(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.words("using") {
            return Ok(using);
        }
        loop {
            if self.words("timestamp") {
                using.timestamp = Some(self.integer()?);
            } else if self.words("ttl") {
                using.ttl = Some(self.integer()?);
            } else if self.words("timeout") {
                self.timeout()?;
            } else {
                return Err(self.unexpected());
            }
            if !self.words("and") {
                return Ok(using);
            }
        }
    }

    pub(super) fn batch(&mut self) -> Parsed<BatchStatement> {
        let kind = if self.words("unlogged") {
            BatchWord::Unlogged
        } else if self.words("counter") {
            BatchWord::Counter
        } else {
            BatchWord::Logged
        };
        self.expect_words("batch")?;
        let using = self.using()?;
        let mut writes = Vec::new();
        while let Some(write) = self.modification()? {
            writes.push(write);
            while self.symbol(";") {}
            if writes.len() > BATCH_MAX {
                return Err(CqlError::invalid(format!("Batch of more than {BATCH_MAX} writes")));
            }
        }
        self.expect_words("apply batch")?;
        Ok(BatchStatement { kind, using, writes })
    }
}
