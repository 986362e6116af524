//! Text → a statement as it was written. Knows no schema.
//!
//! [`lexer`] cuts the text into tokens, [`cursor`] steps over them, and each kind of statement has
//! a file that turns them into its part of [`ast`].

pub mod ast;
mod condition;
mod cursor;
mod ddl;
mod describe;
mod lexer;
mod relation;
mod select;
mod term;
mod text;
mod types;
mod write;

pub use lexer::STATEMENT_BYTES_MAX;

use ast::Statement;
use cursor::{Parsed, Parser};
use lexer::LexemeKind;

/// Reads a statement.
///
/// # Errors
/// A syntax error with line and column, or a refusal of what is not supported.
pub fn parse(text: &str) -> Parsed<Statement> {
    let mut parser = Parser::new(text)?;
    let statement = parser.statement()?;
    while parser.symbol(";") {}
    if parser.peek() != &LexemeKind::End {
        return Err(parser.unexpected());
    }
    Ok(statement)
}

impl Parser<'_> {
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
        if self.words("describe") || self.words("desc") {
            return self.describe().map(Statement::Describe);
        }
        self.schema_statement()
    }
}
