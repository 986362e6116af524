//! Tokens → types: their names, and statements that make, change and drop those of users.

use crate::{
    cql::{
        error::CqlError,
        parse::{
            cursor::{Parsed, Parser},
            lexer::LexemeKind,
        },
    },
    schema::{Ddl, TableName, ddl::TypeAlteration},
    types::parse::{DEPTH_MAX, TypeName, is_type_word},
};

impl Parser<'_> {
    /// The name of a type, with what is in it.
    pub(super) fn type_name(&mut self, depth: usize) -> Parsed<TypeName> {
        if depth > DEPTH_MAX {
            return Err(CqlError::invalid("types are nested too deeply"));
        }
        if matches!(self.peek(), LexemeKind::Text(_)) {
            return Err(CqlError::unsupported("A type named by its Java class is"));
        }
        let is_quoted = matches!(self.peek(), LexemeKind::Quoted(_));
        // A reserved word, except where a type is named.
        let name = if self.words("set") { "set".to_string() } else { self.name()? };
        let mut found = TypeName { keyspace: None, name, is_quoted, arguments: Vec::new() };
        if self.symbol(".") {
            found.is_quoted = matches!(self.peek(), LexemeKind::Quoted(_));
            found.keyspace = Some(std::mem::replace(&mut found.name, self.name()?));
        } else if *self.peek() == LexemeKind::Symbol("<") && !found.stands_alone() {
            self.skip();
            found.arguments = self.list(|parser| match parser.peek() {
                LexemeKind::Integer(_) => Err(CqlError::unsupported("vectors are")),
                _ => parser.type_name(depth + 1),
            })?;
            self.expect(">")?;
        }
        if let ("frozen", [inside]) = (found.name.as_str(), &*found.arguments)
            && inside.is_scalar()
        {
            return Err(CqlError::syntax(format!(
                "frozen<> is only allowed on collections, tuples, and user-defined types (got \
                 {inside})"
            )));
        }
        Ok(found)
    }

    /// The name of a type that is made, changed or dropped.
    pub(super) fn new_type_name(&mut self) -> Parsed<TableName> {
        let has_keyspace = *self.peek_at(1) == LexemeKind::Symbol(".");
        let at = if has_keyspace { 2 } else { 0 };
        let is_type = |word: &str| is_type_word(&word.to_ascii_lowercase());
        if matches!(self.peek_at(at), LexemeKind::Word(word) if is_type(word)) {
            self.at += at;
            return Err(self.unexpected());
        }
        self.table_name()
    }

    pub(super) fn create_type(&mut self) -> Parsed<Ddl> {
        let if_not_exists = self.words("if not exists");
        let name = self.new_type_name()?;
        let fields = self.parenthesized(|parser| Ok((parser.name()?, parser.type_name(0)?)))?;
        Ok(Ddl::CreateType { name, if_not_exists, fields })
    }

    pub(super) fn alter_type(&mut self) -> Parsed<Ddl> {
        let if_exists = self.words("if exists");
        let name = self.new_type_name()?;
        let change = if self.words("add") {
            let if_not_exists = self.words("if not exists");
            TypeAlteration::Add { if_not_exists, name: self.name()?, ty: self.type_name(0)? }
        } else if self.words("rename") {
            let if_exists = self.words("if exists");
            TypeAlteration::Rename { if_exists, pairs: self.renamings()? }
        } else if self.words("alter") {
            return Err(CqlError::invalid("Altering field types is no longer supported"));
        } else {
            return Err(self.unexpected());
        };
        Ok(Ddl::AlterType { name, if_exists, change })
    }
}
