//! CQL, in three rooms, each of which uses only those before it:
//!
//! * [`parse`]: the text of a statement → the statement as it was written;
//! * [`prepare`]: a statement and the schema → a plan, in which names and types are settled;
//! * `execute`: a plan and values → mutations and reads, and what was read → rows of a result.
//!
//! Nothing here does input or output or reads a clock.

mod error;
mod execute;
mod parse;
mod prepare;
#[cfg(test)]
mod tests;

pub use error::{CqlError, ErrorCode};
pub use execute::{
    BindContext, BindScratch, BoundWrite, KnownRows, Listing, NotApplied, Read, ReadOptions,
    RowName, applied_column, are_met, bind_all, not_applied, rows_of,
};
pub use parse::{
    STATEMENT_BYTES_MAX,
    ast::{BatchWord, Statement},
    parse,
};
pub use prepare::{
    check_batch,
    plan::{
        BatchPlan, ColumnSpec, DescribePlan, Plan, Prepared, SelectPlan, SystemPlan, WritePlan,
    },
    prepare,
};
