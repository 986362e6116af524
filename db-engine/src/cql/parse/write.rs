//! Tokens → a statement that writes: INSERT, UPDATE, DELETE and BATCH.

use crate::cql::{
    error::CqlError,
    parse::{
        ast::{BatchStatement, Delete, Insert, Modification, Term, Update, Using},
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
            if parser.symbol("[") || parser.symbol("+=") || parser.symbol("-=") {
                return Err(CqlError::unsupported("Changing a part of a collection is"));
            }
            parser.expect("=")?;
            let term = parser.assigned()?;
            Ok((name, term))
        })?;
        self.expect_words("where")?;
        let relations = self.relations()?;
        let condition = self.condition()?;
        Ok(Update { table, values, relations, condition, using })
    }

    /// The right side of `SET`: a term; `c + 1` is of counters and collections only.
    fn assigned(&mut self) -> Parsed<Term> {
        let names_column = matches!(self.peek(), LexemeKind::Word(_) | LexemeKind::Quoted(_));
        let operator = |kind: &LexemeKind<'_>| matches!(kind, LexemeKind::Symbol("+" | "-"));
        if names_column && operator(self.peek_at(1)) {
            return Err(CqlError::unsupported("Counters and changing a part of a collection are"));
        }
        let term = self.term()?;
        if operator(self.peek()) {
            return Err(CqlError::unsupported(
                "Arithmetic and changing a part of a collection are",
            ));
        }
        Ok(term)
    }

    fn delete(&mut self) -> Parsed<Delete> {
        let columns = if self.is_word(0, "from") { Vec::new() } else { self.list(Self::name)? };
        if self.symbol("[") {
            return Err(CqlError::unsupported("Deleting a part of a collection is"));
        }
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
        let unlogged = self.words("unlogged");
        if self.words("counter") {
            return Err(CqlError::unsupported("Counters are"));
        }
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
        Ok(BatchStatement { unlogged, using, writes })
    }
}
