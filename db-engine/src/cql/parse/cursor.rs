//! The tokens of a statement and how far they are read: what all statements share.

use crate::{
    cql::{
        error::CqlError,
        parse::lexer::{Lexeme, LexemeKind, place, tokens},
    },
    schema::TableName,
    types::name::is_reserved,
};

/// Deepest nesting of values or calls, so that hostile text cannot exhaust the stack.
const DEPTH_MAX: usize = 24;
pub(super) type Parsed<T> = Result<T, CqlError>;

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Lexeme<'a>>,
    pub(super) at: usize,
    pub(super) markers: u16,
}

impl<'a> Parser<'a> {
    /// Takes a text apart.
    pub(super) fn new(text: &'a str) -> Parsed<Self> {
        Ok(Parser { text, tokens: tokens(text)?, at: 0, markers: 0 })
    }

    pub(super) fn peek(&self) -> &LexemeKind<'a> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &LexemeKind<'a> {
        let token = self.tokens.get(self.at + ahead).or(self.tokens.last());
        token.map_or(&LexemeKind::End, |token| &token.kind)
    }

    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
    }

    pub(super) fn next(&mut self) -> LexemeKind<'a> {
        let kind = self.peek().clone();
        self.skip();
        kind
    }

    /// The error of a token that cannot stand where it does.
    pub(super) fn unexpected(&self) -> CqlError {
        let Some(token) = self.tokens.get(self.at) else { return CqlError::syntax("line 1:0") };
        let place = place(self.text, token.start);
        match self.text.get(token.start..token.end) {
            Some(text) if token.kind != LexemeKind::End => {
                CqlError::syntax(format!("{place} no viable alternative at input '{text}'"))
            }
            _ => CqlError::syntax(format!("{place} no viable alternative at input '<EOF>'")),
        }
    }

    pub(super) fn mismatched(&self, expected: &str) -> CqlError {
        let Some(token) = self.tokens.get(self.at) else { return self.unexpected() };
        let text = match token.kind {
            LexemeKind::End => "<EOF>",
            _ => self.text.get(token.start..token.end).unwrap_or_default(),
        };
        let place = place(self.text, token.start);
        CqlError::syntax(format!("{place} mismatched input '{text}' expecting {expected}"))
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let hit = matches!(self.peek(), LexemeKind::Symbol(found) if *found == symbol);
        if hit {
            self.skip();
        }
        hit
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.mismatched(&format!("'{symbol}'"))) }
    }

    pub(super) fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), LexemeKind::Word(found) if found.eq_ignore_ascii_case(word))
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
            LexemeKind::Quoted(name) if !name.is_empty() => name.to_string(),
            LexemeKind::Word(word) => {
                let name = word.to_ascii_lowercase();
                if is_reserved(&name) {
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

    /// A function's name, in small letters, and its arguments, of which there may be none.
    pub(super) fn function_call<T>(
        &mut self,
        argument: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<(String, Vec<T>)> {
        let name = match self.next() {
            LexemeKind::Word(word) => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        self.expect("(")?;
        let mut arguments = Vec::new();
        if !self.symbol(")") {
            arguments = self.list(argument)?;
            self.expect(")")?;
        }
        Ok((name, arguments))
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

    pub(super) fn check_depth(&self, depth: usize) -> Parsed<()> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let place = place(self.text, self.tokens.get(self.at).map_or(0, |token| token.start));
        Err(CqlError::syntax(format!("{place} nested more than {DEPTH_MAX} deep")))
    }
}
