//! CQL: the text of a statement → a plan, a plan and values → mutations and reads, and what was
//! read → the rows of a result.
//!
//! [`parse`] knows only text, [`prepare`] looks names up and settles types, and what a plan's
//! `bind` gives is what storage takes. Nothing here does input or output or reads a clock.

mod aggregate;
mod ast;
mod batch;
mod conditions;
mod error;
mod functions;
mod lexer;
mod paging;
mod parser;
mod parser_ddl;
mod parser_term;
mod parser_write;
mod plan;
mod prepare;
mod prepare_select;
mod prepare_write;
mod project;
mod read;
mod select;
mod system;
#[cfg(test)]
mod tests;
mod write;

pub use ast::Statement;
pub use batch::BatchPlan;
pub use error::{CqlError, ErrorCode};
pub use parser::parse;
pub use plan::{BindContext, ColumnSpec, Plan, Prepared, Scratch};
pub use prepare::{prepare, prepared_id};
pub use read::Read;
pub use select::{ReadOptions, SelectPlan};
pub use system::SystemPlan;
pub use write::WritePlan;
