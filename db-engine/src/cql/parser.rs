//! Tokens → a statement: queries and writes. What changes the schema is in `parser_ddl`.

use super::{
    ast::{
        Batch, Delete, Insert, Modification, Operator, Relation, Select, Selector, Statement,
        Target, Term, Update, Using,
    },
    error::CqlError,
    lexer::{Kind, Token, place, tokens},
};
use crate::{schema::TableName, types::literal::Literal};

/// Deepest nesting of values or calls, so that hostile text cannot exhaust the stack.
const DEPTH_MAX: usize = 24;
/// Most writes in one batch text, Cassandra's and the protocol's limit.
const BATCH_MAX: usize = 65_535;

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
    at: usize,
    markers: u16,
}

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> &Kind<'a> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Kind<'a> {
        let token = self.tokens.get(self.at + ahead).or(self.tokens.last());
        token.map_or(&Kind::End, |token| &token.kind)
    }

    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
    }

    fn next(&mut self) -> Kind<'a> {
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

    fn mismatched(&self, expected: &str) -> CqlError {
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

    fn is_word(&self, ahead: usize, word: &str) -> bool {
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

    fn modification(&mut self) -> Parsed<Option<Modification>> {
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

    fn refuse_condition(&mut self) -> Parsed<()> {
        if self.is_word(0, "if") {
            return Err(CqlError::unsupported("Conditional writes (IF) are"));
        }
        Ok(())
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
        self.refuse_condition()?;
        let using = self.using()?;
        Ok(Insert { table, values: names.into_iter().zip(terms).collect(), using })
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
        self.refuse_condition()?;
        Ok(Update { table, values, relations, using })
    }

    /// The right side of `SET`: a term; `c + 1` is of counters and collections only.
    fn assigned(&mut self) -> Parsed<Term> {
        let names_column = matches!(self.peek(), Kind::Word(_) | Kind::Quoted(_));
        let operator = |kind: &Kind<'_>| matches!(kind, Kind::Symbol("+" | "-"));
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
        self.refuse_condition()?;
        Ok(Delete { table, columns, relations, using })
    }

    fn using(&mut self) -> Parsed<Using> {
        let mut using = Using::default();
        if !self.words("using") {
            return Ok(using);
        }
        loop {
            if self.words("timestamp") {
                using.timestamp = Some(self.term()?);
            } else if self.words("ttl") {
                using.ttl = Some(self.term()?);
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

    /// The duration of `USING TIMEOUT`, which ScyllaDB's drivers say with every system query.
    /// Taken and not heeded: requests end sooner than any timeout that makes sense.
    fn timeout(&mut self) -> Parsed<()> {
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

    fn batch(&mut self) -> Parsed<Batch> {
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
        Ok(Batch { unlogged, using, writes })
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
            select.per_partition_limit = Some(self.term()?);
        }
        if self.words("limit") {
            select.limit = Some(self.term()?);
        }
        select.allow_filtering = self.words("allow filtering");
        self.words("bypass cache");
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

    fn check_depth(&self, depth: usize) -> Parsed<()> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let place = place(self.text, self.tokens.get(self.at).map_or(0, |token| token.start));
        Err(CqlError::syntax(format!("{place} nested more than {DEPTH_MAX} deep")))
    }

    fn relations(&mut self) -> Parsed<Vec<Relation>> {
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

    /// A value.
    pub(super) fn term(&mut self) -> Parsed<Term> {
        self.term_at(0)
    }

    fn term_at(&mut self, depth: usize) -> Parsed<Term> {
        self.check_depth(depth)?;
        let name = match self.peek() {
            Kind::Marker => None,
            Kind::NamedMarker(name) => Some(name.to_ascii_lowercase()),
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
            Kind::Text(text) => Literal::Text(text),
            Kind::Integer(digits) => Literal::Integer(digits.into()),
            Kind::Float(digits) => Literal::Float(digits.into()),
            Kind::Uuid(uuid) => Literal::Uuid(uuid.into()),
            Kind::Hex(digits) => Literal::Hex(digits.into()),
            Kind::Duration(text) => Literal::Duration(text.into()),
            Kind::Symbol("-") if self.is_word(1, "infinity") => {
                self.skip();
                Literal::Float("-inf".into())
            }
            Kind::Symbol("(") => return self.tuple(depth),
            Kind::Symbol("[") => return self.list_literal(depth),
            Kind::Symbol("{") => return self.braces(depth),
            Kind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "null" => Literal::Null,
                "true" => Literal::Boolean(true),
                "false" => Literal::Boolean(false),
                "nan" => Literal::Float("NaN".into()),
                "infinity" => Literal::Float("inf".into()),
                _ => return self.call(depth),
            },
            _ => return Err(self.unexpected()),
        };
        self.skip();
        Ok(Term::Literal(literal))
    }

    fn call(&mut self, depth: usize) -> Parsed<Term> {
        if *self.peek_at(1) != Kind::Symbol("(") {
            return Err(self.unexpected());
        }
        let name = match self.next() {
            Kind::Word(word) => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.symbol(")") {
            arguments = self.list(|parser| parser.term_at(depth + 1))?;
            self.expect(")")?;
        }
        Ok(Term::Call { name, arguments })
    }

    fn tuple(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("(")?;
        let items = self.list(|parser| parser.term_at(depth + 1))?;
        self.expect(")")?;
        let literal = |term: &Term| match term {
            Term::Literal(literal) => Some(literal.clone()),
            _ => None,
        };
        let literals: Option<Vec<_>> = items.iter().map(literal).collect();
        Ok(literals.map_or(Term::Tuple(items), |items| Term::Literal(Literal::Tuple(items))))
    }

    fn literal(&mut self, depth: usize) -> Parsed<Literal> {
        match self.term_at(depth)? {
            Term::Literal(literal) => Ok(literal),
            _ => Err(CqlError::unsupported(
                "Bind markers and functions inside a collection literal are",
            )),
        }
    }

    fn list_literal(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("[")?;
        let mut items = Vec::new();
        if !self.symbol("]") {
            items = self.list(|parser| parser.literal(depth + 1))?;
            self.expect("]")?;
        }
        Ok(Term::Literal(Literal::List(items)))
    }

    fn braces(&mut self, depth: usize) -> Parsed<Term> {
        self.expect("{")?;
        if self.symbol("}") {
            return Ok(Term::Literal(Literal::Set(Vec::new())));
        }
        let first = self.literal(depth + 1)?;
        if !self.symbol(":") {
            let mut items = vec![first];
            while self.symbol(",") {
                items.push(self.literal(depth + 1)?);
            }
            self.expect("}")?;
            return Ok(Term::Literal(Literal::Set(items)));
        }
        let mut pairs = vec![(first, self.literal(depth + 1)?)];
        while self.symbol(",") {
            let key = self.literal(depth + 1)?;
            self.expect(":")?;
            pairs.push((key, self.literal(depth + 1)?));
        }
        self.expect("}")?;
        Ok(Term::Literal(Literal::Map(pairs)))
    }
}
