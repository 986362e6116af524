//! The tables of a simulation: they are emptied, and get and lose a column. Nobody uses the table
//! meanwhile, but what clients have left behind may still be carried out.

use super::{
    client::query,
    requests::{INVALID, SERVER},
    simulation::{Asked, Simulation},
};
use crate::wire::client::{Answer, op};

/// The number of the first column `x` of a table; each that is added has its own.
const EXTRA: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It was created and the answer has not come.
    Unknown,
    There,
    /// It is being changed, and nobody uses it.
    Reshaping(Reshaping),
    /// It is being dropped.
    Leaving,
    Gone,
}

pub struct Table {
    pub name: String,
    pub existence: Existence,
    /// The ids of its statements.
    pub ids: [Option<Vec<u8>>; 5],
    /// The number of its column `x`, if it has that.
    pub extra: Option<u8>,
    /// How often that was added.
    pub extras: u8,
    /// Whether it was emptied is not known.
    pub is_doubtful: bool,
}

impl Table {
    pub fn new(name: String) -> Self {
        let (ids, existence) = (Default::default(), Existence::Unknown);
        Self { name, existence, ids, extra: None, extras: 0, is_doubtful: false }
    }
}

/// What is being done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshaping {
    Empty,
    /// It gets its column `x`, which has this number.
    Add(u8),
    Drop,
}

impl Simulation {
    /// Empties a table that nobody is using, or adds or drops its column `x`.
    pub fn reshape(&mut self, table: usize) {
        let is_emptied = self.random.percent(40);
        let named = &mut self.tables[table];
        let (reshaping, text) = match named.extra {
            _ if is_emptied => (Reshaping::Empty, format!("TRUNCATE {}", named.name)),
            Some(_) => (Reshaping::Drop, format!("ALTER TABLE {} DROP x", named.name)),
            None => {
                named.extras += 1;
                let add = Reshaping::Add(EXTRA + named.extras);
                (add, format!("ALTER TABLE {} ADD x int", named.name))
            }
        };
        named.existence = Existence::Reshaping(reshaping);
        self.anyone().ask(op::QUERY, &query(&text), Asked::Reshape(table));
    }

    pub fn reshaped(&mut self, index: usize, table: usize, answer: &Answer) {
        if answer.opcode == op::ERROR {
            // There was no space for the schema: whether it has changed shows later.
            assert_eq!(answer.code(), SERVER, "{}", answer.message());
            return;
        }
        match self.tables[table].existence {
            Existence::Reshaping(Reshaping::Empty) => {
                self.tally.emptied += 1;
                self.history.empty(table);
            }
            Existence::Reshaping(reshaping) => {
                self.tally.altered += 1;
                self.has_extra(table, reshaping);
            }
            other => panic!("{} is {other:?}", self.tables[table].name),
        }
        self.tables[table].existence = Existence::There;
        self.prepare(index, table);
    }

    fn has_extra(&mut self, table: usize, reshaping: Reshaping) {
        self.tables[table].extra = match reshaping {
            Reshaping::Add(column) => {
                self.history.add_column(table, column);
                Some(column)
            }
            _ => None,
        };
    }

    /// Asks whether a table that is there has its column `x`.
    pub fn probe_extra(&mut self, index: usize, table: usize) {
        let text = format!("SELECT x FROM {} LIMIT 1", self.tables[table].name);
        self.clients[index].ask(op::QUERY, &query(&text), Asked::ProbeExtra(table));
    }

    pub fn probed_extra(&mut self, index: usize, table: usize, answer: &Answer) {
        let has_extra = answer.opcode != op::ERROR;
        assert!(has_extra || answer.code() == INVALID, "{}", answer.message());
        let named = &mut self.tables[table];
        match named.existence {
            Existence::Reshaping(reshaping @ Reshaping::Add(_)) if has_extra => {
                self.has_extra(table, reshaping);
            }
            Existence::Reshaping(Reshaping::Drop) if !has_extra => named.extra = None,
            existence => {
                named.is_doubtful = existence == Existence::Reshaping(Reshaping::Empty);
                assert_eq!(has_extra, named.extra.is_some(), "{} has lost or got x", named.name);
            }
        }
        self.tables[table].existence = Existence::There;
        self.prepare(index, table);
    }
}
