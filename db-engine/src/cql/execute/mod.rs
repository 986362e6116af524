//! A plan and values → mutations and reads, and what was read → the rows of a result.

mod aggregate;
mod batch;
mod bind_dependent;
mod choice;
mod collect;
mod context;
mod dependent;
mod describe;
mod elements;
mod filter;
mod functions;
mod keys;
mod known_lists;
mod known_rows;
mod list_place;
mod listing;
mod many_rows;
mod paging;
mod partition;
mod project;
mod read;
mod requirement;
mod row_names;
mod select;
mod system;
mod timeuuid;
mod value;
mod write;

pub use bind_dependent::bind_all;
pub use context::{BindContext, BindScratch};
pub use dependent::{NotApplied, applied_column, are_met, not_applied};
pub use known_rows::{KnownRows, RowName};
pub use listing::Listing;
pub use read::Read;
pub use row_names::{BoundWrite, rows_of};
pub use select::ReadOptions;
