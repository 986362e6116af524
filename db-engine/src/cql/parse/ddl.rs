//! Tokens → a statement that changes the schema.

use crate::{
    cql::{
        error::CqlError,
        parse::{
            ast::{Statement, Term},
            cursor::{Parsed, Parser},
            lexer::LexemeKind,
        },
    },
    schema::{
        Ddl,
        ddl::{Alteration, NewColumn, Properties, Property},
    },
    types::literal::Literal,
};
use std::collections::BTreeMap;

/// Statements that are known and not supported, by how they begin.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("create index", "Secondary indexes are"),
    ("create custom index", "Secondary indexes are"),
    ("drop index", "Secondary indexes are"),
    ("create materialized", "Materialized views are"),
    ("alter materialized", "Materialized views are"),
    ("drop materialized", "Materialized views are"),
    ("create function", "Functions are"),
    ("create or", "Functions are"),
    ("drop function", "Functions are"),
    ("create aggregate", "Aggregates are"),
    ("drop aggregate", "Aggregates are"),
    ("create trigger", "Triggers are"),
    ("drop trigger", "Triggers are"),
    ("create role", "Roles are"),
    ("alter role", "Roles are"),
    ("drop role", "Roles are"),
    ("create user", "Users are"),
    ("alter user", "Users are"),
    ("drop user", "Users are"),
    ("grant", "Permissions are"),
    ("revoke", "Permissions are"),
    ("list", "Roles and permissions are"),
];

impl Parser<'_> {
    pub(super) fn schema_statement(&mut self) -> Parsed<Statement> {
        for (words, what) in UNSUPPORTED {
            if self.words(words) {
                return Err(CqlError::unsupported(what));
            }
        }
        let keyspace = |parser: &mut Self| parser.words("keyspace") || parser.words("schema");
        let table = |parser: &mut Self| parser.words("table") || parser.words("columnfamily");
        let ddl = if self.words("create") {
            if keyspace(self) {
                self.create_keyspace()?
            } else if table(self) {
                self.create_table()?
            } else if self.words("type") {
                self.create_type()?
            } else {
                return Err(self.unexpected());
            }
        } else if self.words("alter") {
            if keyspace(self) {
                let if_exists = self.words("if exists");
                let name = self.name()?;
                self.expect_words("with")?;
                Ddl::AlterKeyspace { name, if_exists, properties: self.properties()? }
            } else if table(self) {
                self.alter_table()?
            } else if self.words("type") {
                self.alter_type()?
            } else {
                return Err(self.unexpected());
            }
        } else if self.words("drop") {
            if keyspace(self) {
                let if_exists = self.words("if exists");
                Ddl::DropKeyspace { name: self.name()?, if_exists }
            } else if table(self) {
                let if_exists = self.words("if exists");
                Ddl::DropTable { name: self.table_name()?, if_exists }
            } else if self.words("type") {
                let if_exists = self.words("if exists");
                Ddl::DropType { name: self.new_type_name()?, if_exists }
            } else {
                return Err(self.unexpected());
            }
        } else if self.words("truncate") {
            table(self);
            Ddl::Truncate { name: self.table_name()? }
        } else {
            return Err(self.unexpected());
        };
        Ok(Statement::Ddl(ddl))
    }

    fn create_keyspace(&mut self) -> Parsed<Ddl> {
        let if_not_exists = self.words("if not exists");
        let name = self.name()?;
        self.expect_words("with")?;
        let properties = self.properties()?;
        Ok(Ddl::CreateKeyspace { name, if_not_exists, properties })
    }

    fn create_table(&mut self) -> Parsed<Ddl> {
        let if_not_exists = self.words("if not exists");
        let name = self.table_name()?;
        let mut columns = Vec::new();
        let (mut partition_key, mut clustering) = (Vec::new(), Vec::new());
        let mut keys = 0;
        let mut first = true;
        self.parenthesized(|parser| {
            // As in Cassandra, nothing may stand between or behind the commas.
            let is_empty = matches!(parser.peek(), LexemeKind::Symbol("," | ")"));
            let begins = std::mem::replace(&mut first, false);
            if is_empty && !begins {
                return Ok(());
            }
            if parser.words("primary key") {
                keys += 1;
                (partition_key, clustering) = parser.primary_key()?;
                return Ok(());
            }
            let column = parser.new_column()?;
            if parser.words("primary key") {
                keys += 1;
                partition_key = vec![column.name.clone()];
            }
            columns.push(column);
            Ok(())
        })?;
        match keys {
            1 => {}
            0 => {
                return Err(CqlError::invalid(format!(
                    "No PRIMARY KEY specifed for table '{}' (exactly one required)",
                    name.name
                )));
            }
            _ => {
                return Err(CqlError::invalid(format!(
                    "Multiple PRIMARY KEY specified for table '{}' (exactly one required)",
                    name.name
                )));
            }
        }
        let (mut order, mut properties) = (Vec::new(), Vec::new());
        if self.words("with") {
            loop {
                if self.words("clustering order by") {
                    order.extend(self.parenthesized(Self::ordering)?);
                } else if self.words("compact storage") {
                    return Err(CqlError::unsupported("COMPACT STORAGE is"));
                } else {
                    properties.push(self.property()?);
                }
                if !self.words("and") {
                    break;
                }
            }
        }
        Ok(Ddl::CreateTable {
            name,
            if_not_exists,
            columns,
            partition_key,
            clustering,
            order,
            properties,
        })
    }

    fn new_column(&mut self) -> Parsed<NewColumn> {
        let (name, ty) = (self.name()?, self.type_name(0)?);
        Ok(NewColumn { name, ty, is_static: self.words("static") })
    }

    fn ordering(&mut self) -> Parsed<(String, bool)> {
        let name = self.name()?;
        if self.words("desc") {
            return Ok((name, true));
        }
        self.expect_words("asc")?;
        Ok((name, false))
    }

    fn primary_key(&mut self) -> Parsed<(Vec<String>, Vec<String>)> {
        self.expect("(")?;
        let partition_key = if *self.peek() == LexemeKind::Symbol("(") {
            self.parenthesized(Self::name)?
        } else {
            vec![self.name()?]
        };
        let clustering = if self.symbol(",") { self.list(Self::name)? } else { Vec::new() };
        self.expect(")")?;
        Ok((partition_key, clustering))
    }

    fn alter_table(&mut self) -> Parsed<Ddl> {
        let if_exists = self.words("if exists");
        let name = self.table_name()?;
        let change = if self.words("add") {
            let if_not_exists = self.words("if not exists");
            let columns = if *self.peek() == LexemeKind::Symbol("(") {
                self.parenthesized(Self::new_column)?
            } else {
                vec![self.new_column()?]
            };
            Alteration::Add { if_not_exists, columns }
        } else if self.words("drop") {
            let if_exists = self.words("if exists");
            let columns = if *self.peek() == LexemeKind::Symbol("(") {
                self.parenthesized(Self::name)?
            } else {
                vec![self.name()?]
            };
            let timestamp_us = self.drop_timestamp()?;
            Alteration::Drop { if_exists, columns, timestamp_us }
        } else if self.words("rename") {
            Alteration::Rename(self.renamings()?)
        } else if self.words("alter") {
            return Err(CqlError::invalid("Altering column types is no longer supported"));
        } else {
            self.expect_words("with")?;
            Alteration::With(self.properties()?)
        };
        Ok(Ddl::AlterTable { name, if_exists, change })
    }

    /// `a TO b AND c TO d`.
    pub(super) fn renamings(&mut self) -> Parsed<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        loop {
            let from = self.name()?;
            self.expect_words("to")?;
            pairs.push((from, self.name()?));
            if !self.words("and") {
                return Ok(pairs);
            }
        }
    }

    /// `USING TIMESTAMP` and a constant: Cassandra takes no marker here.
    fn drop_timestamp(&mut self) -> Parsed<Option<i64>> {
        if !self.words("using") {
            return Ok(None);
        }
        self.expect_words("timestamp")?;
        let LexemeKind::Integer(digits) = self.next() else {
            return Err(self.mismatched("INTEGER"));
        };
        let out_of_range =
            |_| CqlError::syntax(format!("A timestamp of {digits} is not a number of 64 bits"));
        digits.parse().map(Some).map_err(out_of_range)
    }

    fn properties(&mut self) -> Parsed<Properties> {
        let mut properties = vec![self.property()?];
        while self.words("and") {
            properties.push(self.property()?);
        }
        Ok(properties)
    }

    fn property(&mut self) -> Parsed<(String, Property)> {
        let name = self.name()?;
        self.expect("=")?;
        let place = self.unexpected();
        let Term::Literal(literal) = self.term()? else { return Err(place) };
        let property = match literal {
            Literal::Map(pairs) => {
                let text = |literal: &Literal| scalar(literal).ok_or_else(|| place.clone());
                let pair = |(key, value): &(Literal, Literal)| Ok((text(key)?, text(value)?));
                let pairs: Parsed<BTreeMap<_, _>> = pairs.iter().map(pair).collect();
                Property::Map(pairs?)
            }
            Literal::Set(items) if items.is_empty() => Property::Map(BTreeMap::new()),
            literal => Property::Value(scalar(&literal).ok_or(place)?),
        };
        Ok((name, property))
    }
}

/// The text of a single value.
fn scalar(literal: &Literal) -> Option<String> {
    Some(match literal {
        Literal::Text(text)
        | Literal::Integer(text)
        | Literal::Float(text)
        | Literal::Uuid(text)
        | Literal::Duration(text) => text.clone(),
        Literal::Hex(digits) => format!("0x{digits}"),
        Literal::Boolean(value) => value.to_string(),
        _ => return None,
    })
}
