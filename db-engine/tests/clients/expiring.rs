//! Rows that expire, while the clock is moved forth and back. Each is written once, so that it is
//! known between which two seconds it expires.

use super::{
    history::Reading,
    simulation::{Asked, Simulation},
};
use crate::{
    whole::client::{int, page},
    wire::client::{Answer, execute, op},
};
use sandglass_db::io::Clock;
use std::collections::BTreeSet;

pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS k.e (p int, c int, PRIMARY KEY (p, c)) \
    WITH default_time_to_live = 60 AND gc_grace_seconds = 0 AND compaction = \
    {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', \
    'compaction_window_size': 1}";

pub const INSERT: &str = "INSERT INTO k.e (p, c) VALUES (?, ?)";

const LIFE_S: i64 = 60;

/// The seconds that the clock showed while something was in flight.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    pub first: i64,
    pub last: i64,
}

impl Seconds {
    fn widen(&mut self, now_s: i64) {
        (self.first, self.last) = (self.first.min(now_s), self.last.max(now_s));
    }
}

/// A row: when it was written, and since which moment that is acknowledged.
#[derive(Debug)]
struct Row {
    written: Seconds,
    since: Option<u64>,
    is_refused: bool,
}

/// All rows that were ever written.
#[derive(Default)]
pub struct Expiring {
    rows: Vec<Row>,
    /// The latest second that the clock ever showed: what has expired may be gone for good.
    latest_s: i64,
}

/// A read of all of them.
#[derive(Debug)]
pub struct ExpiringRead {
    began: u64,
    seconds: Seconds,
    found: BTreeSet<usize>,
}

impl Expiring {
    /// Whoever wrote this row has left: nobody will know when it was carried out.
    pub fn leave(&mut self, number: usize) {
        self.rows[number].written.last = i64::MAX / 2;
    }

    fn check(&self, read: &ExpiringRead, ended: u64) {
        let times = Reading { began: read.began, ended, alone: false };
        for (number, row) in self.rows.iter().enumerate() {
            let is_over = read.seconds.first > row.written.last + LIFE_S;
            let is_due = self.latest_s < row.written.first + LIFE_S - 1;
            let is_known = row.since.is_some_and(|since| since < times.began);
            if read.found.contains(&number) {
                assert!(!row.is_refused, "row {number} was refused: {row:?}");
                assert!(!is_over, "row {number} has expired: {row:?} {read:?}");
            } else {
                assert!(!(is_known && is_due), "row {number} is lost: {row:?} {read:?}");
            }
        }
        assert!(read.found.iter().all(|number| *number < self.rows.len()), "nobody wrote that");
    }
}

impl Simulation {
    fn second(&self) -> Seconds {
        let now_s = self.clock.now_s();
        Seconds { first: now_s, last: now_s }
    }

    /// Lets time go by, or moves the clock without that.
    pub fn move_clock(&mut self, us: i64) {
        self.show_kinds(false);
        if us < 0 {
            self.clock.set(self.clock.now_us() + us);
        } else {
            self.clock.advance(us);
        }
        self.show_kinds(!(0..1_000_000).contains(&us));
        let now_s = self.clock.now_s();
        self.expiring.latest_s = self.expiring.latest_s.max(now_s);
        for asked in self.clients.iter_mut().flat_map(|client| client.waiting.values_mut()) {
            match asked {
                Asked::WriteExpiring(number) => {
                    self.expiring.rows[*number].written.widen(now_s);
                }
                Asked::ReadExpiring(read) => read.seconds.widen(now_s),
                _ => {}
            }
        }
    }

    pub fn write_expiring(&mut self, index: usize) {
        let Some(insert) = self.insert_expiring.clone() else { return };
        let number = self.expiring.rows.len();
        let written = self.second();
        self.expiring.rows.push(Row { written, since: None, is_refused: false });
        let c = i32::try_from(number).unwrap();
        let values = [int(c % 5), int(c)];
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let body = execute(&insert, &values);
        self.clients[index].ask(op::EXECUTE, &body, Asked::WriteExpiring(number));
    }

    pub fn wrote_expiring(&mut self, number: usize, answer: &Answer) {
        if self.is_refused(answer) {
            self.expiring.rows[number].is_refused = true;
        } else {
            assert_eq!(answer.kind(), 1, "void");
            self.expiring.rows[number].since = Some(self.moment);
        }
    }

    pub fn read_expiring(&mut self, index: usize) {
        let (began, seconds) = (self.moment, self.second());
        let read = ExpiringRead { began, seconds, found: BTreeSet::new() };
        self.page_expiring(index, read, None);
    }

    fn page_expiring(&mut self, index: usize, read: ExpiringRead, state: Option<&[u8]>) {
        let rows = self.random.one_of(&[4, 50, 1_000]);
        let body = page("SELECT c FROM k.e", rows, state);
        self.clients[index].ask(op::QUERY, &body, Asked::ReadExpiring(read));
    }

    pub fn have_read_expiring(&mut self, index: usize, mut read: ExpiringRead, answer: &Answer) {
        if answer.opcode == op::ERROR {
            assert!(self.is_broken, "a read has failed: {}", answer.message());
            return;
        }
        let (rows, state) = answer.rows();
        for row in rows {
            let number = i32::from_be_bytes(row[0].as_deref().unwrap().try_into().unwrap());
            let is_new = read.found.insert(usize::try_from(number).unwrap());
            assert!(is_new, "row {number} is there twice");
        }
        match state {
            Some(state) => self.page_expiring(index, read, Some(&state)),
            None => self.expiring.check(&read, self.moment),
        }
    }
}
