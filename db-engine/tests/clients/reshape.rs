//! The tables of a simulation: they are emptied, and get and lose a column. Nobody uses the table
//! meanwhile, but what clients have left behind may still be carried out.

use super::{
    requests::{INVALID, SERVER},
    simulation::{Asked, Simulation},
};
use crate::{
    simulated,
    whole::client::query,
    wire::client::{Answer, op},
};

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
    pub ids: [Option<Vec<u8>>; 6],
    /// Whether it has a column `x`.
    pub has_extra: bool,
    /// Whether it was emptied is not known.
    pub is_doubtful: bool,
}

impl Table {
    pub fn new(name: String) -> Self {
        let (ids, existence) = (Default::default(), Existence::Unknown);
        Self { name, existence, ids, has_extra: false, is_doubtful: false }
    }
}

/// What is being done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reshaping {
    Empty,
    /// It gets its column `x`.
    Add,
    /// It loses that, which is this write.
    Drop(usize),
}

impl Simulation {
    /// Empties a table that nobody is using, or adds or drops its column `x`.
    pub fn reshape(&mut self, table: usize) {
        let is_emptied = self.random.percent(40);
        let named = &mut self.tables[table];
        let (reshaping, text) = if is_emptied {
            (Reshaping::Empty, format!("TRUNCATE {}", named.name))
        } else if named.has_extra {
            let write = self.history.begin();
            let at = simulated::START_US + i64::try_from(write).unwrap() * 100_001;
            self.history.drop_extra(write, table, at);
            let text = format!("ALTER TABLE {} DROP x USING TIMESTAMP {at}", named.name);
            (Reshaping::Drop(write), text)
        } else {
            (Reshaping::Add, format!("ALTER TABLE {} ADD x int", named.name))
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
                self.settle_extra(table, reshaping, reshaping == Reshaping::Add);
            }
            other => panic!("{} is {other:?}", self.tables[table].name),
        }
        self.tables[table].existence = Existence::There;
        self.prepare(index, table);
    }

    /// It is known whether a table that was altered has its column `x`.
    fn settle_extra(&mut self, table: usize, reshaping: Reshaping, has_extra: bool) {
        if let Reshaping::Drop(write) = reshaping {
            if has_extra {
                self.history.never(write);
            } else {
                self.history.happened(write, self.moment);
            }
        }
        self.tables[table].has_extra = has_extra;
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
            Existence::Reshaping(reshaping @ (Reshaping::Add | Reshaping::Drop(_))) => {
                self.settle_extra(table, reshaping, has_extra);
            }
            existence => {
                named.is_doubtful = existence == Existence::Reshaping(Reshaping::Empty);
                assert_eq!(has_extra, named.has_extra, "{} has lost or got x", named.name);
            }
        }
        self.tables[table].existence = Existence::There;
        self.prepare(index, table);
    }
}
