//! Tokens → a statement: the queries, and what all statements share.
//!
//! Writes are in `parser_write`, what changes the schema in `parser_ddl`, values in `parser_term`.

use super::{
    ast::{Operator, Relation, Select, Selector, Statement, Target, Term},
    error::CqlError,
    lexer::{Kind, Token, place, tokens},
};
use crate::schema::TableName;

/// Deepest nesting of values or calls, so that hostile text cannot exhaust the stack.
const DEPTH_MAX: usize = 24;
pub(super) type Parsed<T> = Result<T, CqlError>;

/// Words that cannot be names unless quoted.
const RESERVED: [&str; 62] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "mbean",
    "mbeans",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
    "default",
    "unset",
];

/// Reads a statement.
///
/// # Errors
/// A syntax error with line and column, or a refusal of what is not supported.
pub fn parse(text: &str) -> Parsed<Statement> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, markers: 0 };
    let statement = parser.statement()?;
    while parser.symbol(";") {}
    if parser.peek() != &Kind::End {
        return Err(parser.unexpected());
    }
    Ok(statement)
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    pub(super) at: usize,
    pub(super) markers: u16,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> &Kind<'a> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &Kind<'a> {
        let token = self.tokens.get(self.at + ahead).or(self.tokens.last());
        token.map_or(&Kind::End, |token| &token.kind)
    }

    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
    }

    pub(super) fn next(&mut self) -> Kind<'a> {
        let kind = self.peek().clone();
        self.skip();
        kind
    }

    /// The error of a token that cannot stand where it does.
    pub(super) fn unexpected(&self) -> CqlError {
        let Some(token) = self.tokens.get(self.at) else { return CqlError::syntax("line 1:0") };
        let place = place(self.text, token.start);
        match self.text.get(token.start..token.end) {
            Some(text) if token.kind != Kind::End => {
                CqlError::syntax(format!("{place} no viable alternative at input '{text}'"))
            }
            _ => CqlError::syntax(format!("{place} no viable alternative at input '<EOF>'")),
        }
    }

    pub(super) fn mismatched(&self, expected: &str) -> CqlError {
        let Some(token) = self.tokens.get(self.at) else { return self.unexpected() };
        let text = match token.kind {
            Kind::End => "<EOF>",
            _ => self.text.get(token.start..token.end).unwrap_or_default(),
        };
        let place = place(self.text, token.start);
        CqlError::syntax(format!("{place} mismatched input '{text}' expecting {expected}"))
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let hit = matches!(self.peek(), Kind::Symbol(found) if *found == symbol);
        if hit {
            self.skip();
        }
        hit
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.mismatched(&format!("'{symbol}'"))) }
    }

    pub(super) fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), Kind::Word(found) if found.eq_ignore_ascii_case(word))
    }

    /// Takes these keywords if they all follow.
    pub(super) fn words(&mut self, words: &str) -> bool {
        let count = words.split(' ').count();
        let hit = words.split(' ').enumerate().all(|(ahead, word)| self.is_word(ahead, word));
        if hit {
            self.at += count;
        }
        hit
    }

    pub(super) fn expect_words(&mut self, words: &str) -> Parsed<()> {
        for word in words.split(' ') {
            if !self.words(word) {
                return Err(self.mismatched(&format!("K_{}", word.to_uppercase())));
            }
        }
        Ok(())
    }

    /// A name: quoted as it is, unquoted in lower case.
    pub(super) fn name(&mut self) -> Parsed<String> {
        let name = match self.peek() {
            Kind::Quoted(name) if !name.is_empty() => name.clone(),
            Kind::Word(word) => {
                let name = word.to_ascii_lowercase();
                if RESERVED.contains(&name.as_str()) {
                    return Err(self.unexpected());
                }
                name
            }
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(name)
    }

    pub(super) fn table_name(&mut self) -> Parsed<TableName> {
        let first = self.name()?;
        if self.symbol(".") {
            return Ok(TableName { keyspace: Some(first), name: self.name()? });
        }
        Ok(TableName { keyspace: None, name: first })
    }

    /// `item, item …` with at least one.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.symbol(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(super) fn parenthesized<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect("(")?;
        let items = self.list(item)?;
        self.expect(")")?;
        Ok(items)
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if self.words("select") {
            return self.select().map(Statement::Select);
        }
        if let Some(write) = self.modification()? {
            return Ok(Statement::Modify(write));
        }
        if self.words("begin") {
            return self.batch().map(Statement::Batch);
        }
        if self.words("use") {
            return self.name().map(Statement::Use);
        }
        self.schema_statement()
    }

    /// A whole number or a marker: all that may be said of a limit, TTL or timestamp.
    pub(super) fn integer(&mut self) -> Parsed<Term> {
        match self.peek() {
            Kind::Integer(_) | Kind::Marker | Kind::NamedMarker(_) => self.term(),
            _ => Err(self.unexpected()),
        }
    }

    /// The duration of `USING TIMEOUT`, which ScyllaDB's drivers say with every system query.
    /// Taken and not heeded: requests end sooner than any timeout that makes sense.
    pub(super) fn timeout(&mut self) -> Parsed<()> {
        match self.next() {
            Kind::Duration(_) => Ok(()),
            Kind::Marker | Kind::NamedMarker(_) => {
                Err(CqlError::unsupported("A bind marker for USING TIMEOUT is"))
            }
            _ => {
                self.at -= 1;
                Err(self.unexpected())
            }
        }
    }

    fn select(&mut self) -> Parsed<Select> {
        if self.is_word(0, "json")
            && !self.is_word(1, "from")
            && *self.peek_at(1) != Kind::Symbol(",")
        {
            return Err(CqlError::unsupported("SELECT JSON is"));
        }
        let mut select = Select { distinct: self.words("distinct"), ..Select::default() };
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
        let calls = *self.peek_at(1) == Kind::Symbol("(");
        if calls && self.is_word(0, "count") {
            let one = matches!(self.peek_at(2), Kind::Symbol("*") | Kind::Integer(_));
            if one && *self.peek_at(3) == Kind::Symbol(")") {
                self.at += 4;
                return Ok(Selector::CountAll);
            }
        }
        if calls && self.is_word(0, "cast") {
            return Err(CqlError::unsupported("CAST in a selection is"));
        }
        if matches!(self.peek(), Kind::Marker | Kind::NamedMarker(_)) {
            return Err(CqlError::invalid(
                "Cannot infer type for term ? in selection clause (try using a cast to force a \
                 type)",
            ));
        }
        if calls && matches!(self.peek(), Kind::Word(_)) {
            let name = match self.next() {
                Kind::Word(word) => word.to_ascii_lowercase(),
                _ => String::new(),
            };
            self.expect("(")?;
            let mut arguments = Vec::new();
            if !self.symbol(")") {
                arguments = self.list(|parser| parser.selector(depth + 1))?;
                self.expect(")")?;
            }
            return Ok(Selector::Call { name, arguments });
        }
        let name = self.name()?;
        if self.symbol("[") || self.symbol(".") {
            return Err(CqlError::unsupported("Selecting a part of a value is"));
        }
        Ok(Selector::Column(name))
    }

    pub(super) fn check_depth(&self, depth: usize) -> Parsed<()> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let place = place(self.text, self.tokens.get(self.at).map_or(0, |token| token.start));
        Err(CqlError::syntax(format!("{place} nested more than {DEPTH_MAX} deep")))
    }

    pub(super) fn relations(&mut self) -> Parsed<Vec<Relation>> {
        let mut relations = vec![self.relation()?];
        while self.words("and") {
            relations.push(self.relation()?);
        }
        Ok(relations)
    }

    fn relation(&mut self) -> Parsed<Relation> {
        let target = if self.is_word(0, "token") && *self.peek_at(1) == Kind::Symbol("(") {
            self.skip();
            Target::Token(self.parenthesized(Self::name)?)
        } else if *self.peek() == Kind::Symbol("(") {
            Target::Columns(self.parenthesized(Self::name)?)
        } else {
            Target::Column(self.name()?)
        };
        let operator = self.operator()?;
        let value = if operator == Operator::In { self.items()? } else { self.term()? };
        Ok(Relation { target, operator, value })
    }

    fn operator(&mut self) -> Parsed<Operator> {
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
            Kind::Symbol("=") => Operator::Eq,
            Kind::Symbol("<") => Operator::Lt,
            Kind::Symbol("<=") => Operator::Le,
            Kind::Symbol(">") => Operator::Gt,
            Kind::Symbol(">=") => Operator::Ge,
            Kind::Symbol("!=") => return Err(CqlError::unsupported("!= in a condition is")),
            Kind::Symbol("[") => {
                return Err(CqlError::unsupported("A condition on a part of a collection is"));
            }
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(operator)
    }

    /// What follows `IN`: a marker, or terms in parentheses (perhaps none).
    fn items(&mut self) -> Parsed<Term> {
        if matches!(self.peek(), Kind::Marker | Kind::NamedMarker(_)) {
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
