//! Prepared statements: the plan, and the parts of answers that are always the same.

use super::{shared::Shared, statement_id::Id};
use crate::{
    cql::{self, ColumnSpec, CqlError, Prepared},
    protocol::result::{self, Columns},
    schema::Catalog,
    trace::{TEXT_BYTES_MAX, beginning},
};
use hashbrown::HashMap;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Bytes of a statement besides its text and what is made of it: the head of its answers, its
/// place in tables.
const STATEMENT_BYTES: usize = 2 << 10;

/// Bytes that a plan takes for each word, value or sign of the text, at most.
const TOKEN_BYTES: usize = 100;

/// Bytes that each marker and each column of the result take besides their names, about.
const COLUMN_BYTES: usize = 160;

/// Bytes of memory that the statement with this text takes, at most and about: its text is in it
/// twice, once as constants and once as names, and its beginning for those who look at traces.
#[must_use]
pub fn cost(text: &str) -> usize {
    let (mut tokens, mut in_word) = (0, false);
    for (number, part) in text.split('\'').enumerate() {
        if number % 2 == 1 {
            // A constant, up to the next quote.
            tokens += usize::from(!in_word);
            continue;
        }
        tokens += usize::from(number > 0) + words_and_signs(part.as_bytes());
        in_word = part.bytes().next_back().is_some_and(is_of_word);
    }
    let shown = text.len().min(TEXT_BYTES_MAX);
    STATEMENT_BYTES + 2 * text.len() + shown + TOKEN_BYTES * tokens
}

/// How many words and other signs there are: a word counts once, another sign for itself, and
/// blanks not at all.
fn words_and_signs(text: &[u8]) -> usize {
    let Some((first, rest)) = text.split_first() else { return 0 };
    let mut count = usize::from(!first.is_ascii_whitespace());
    // So many counts fit into a byte: with bytes the compiler counts sixteen at once.
    for (before, bytes) in text.chunks(255).zip(rest.chunks(255)) {
        let begins = before.iter().zip(bytes).map(|(before, byte)| {
            let goes_on = is_of_word(*before) && is_of_word(*byte);
            u8::from(!(byte.is_ascii_whitespace() || goes_on))
        });
        count += usize::from(begins.sum::<u8>());
    }
    count
}

fn is_of_word(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a');
    letter < 26 || byte.wrapping_sub(b'0') < 10 || byte == b'_' || byte >= 0x80
}

/// Bytes that these markers or columns take: a few words of a text can mean thousands. Their names
/// are in the plan and in two answers, and so are their types, which may be held by nobody else.
fn columns_cost(columns: &[ColumnSpec]) -> usize {
    let cost = |column: &ColumnSpec| {
        let types = column.ty.heap_bytes() + 2 * column.ty.option_bytes();
        COLUMN_BYTES + 4 * column.name.len() + types
    };
    columns.iter().map(cost).sum()
}

/// A statement with everything that can be decided once.
#[derive(Debug)]
pub struct PreparedStatement {
    /// Its text, or the beginning of it: what traces tell of it.
    pub text: Box<str>,
    /// What it does.
    pub prepared: Prepared,
    /// The columns of its result.
    pub columns: Columns,
    /// Bytes of memory that it takes: [`cost`], and what its columns and constants do.
    pub bytes: usize,
    /// Whether it is taken of the share for statements.
    pub(super) is_shared: bool,
    forgotten: AtomicBool,
    last_use: AtomicU64,
}

impl PreparedStatement {
    /// Prepares a statement, which was parsed from a text of this [`cost`]. `keyspace` is the one
    /// of names that do not say theirs.
    ///
    /// # Errors
    /// In Cassandra's words, if it makes no sense.
    pub fn prepare(
        catalog: &Catalog,
        keyspace: Option<&str>,
        (text, cost): (&str, usize),
        parsed: cql::Statement,
    ) -> Result<Self, CqlError> {
        let prepared = cql::prepare(catalog, keyspace, parsed)?;
        let columns = Columns::new(&prepared.keyspace, &prepared.table, &prepared.result);
        let (forgotten, last_use) = (AtomicBool::new(false), AtomicU64::new(0));
        let columns_cost = columns_cost(&prepared.bind) + columns_cost(&prepared.result);
        // Constants that were written count with the text; others are made of a few words of it.
        let more_constants = prepared.constant_bytes.saturating_sub(text.len());
        let bytes = cost + columns_cost + more_constants;
        let text = beginning(text).into_boxed_str();
        Ok(Self { text, prepared, columns, bytes, is_shared: false, forgotten, last_use })
    }

    /// The body of the answer to PREPARE.
    #[must_use]
    pub fn reply(&self, id: &Id) -> Vec<u8> {
        let Prepared { keyspace, table, bind, pk_indexes, .. } = &self.prepared;
        result::prepared(id, pk_indexes, &Columns::new(keyspace, table, bind), &self.columns)
    }

    /// Bytes that whoever holds it must account for: none if all who prepared it share it.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        if self.is_shared { 0 } else { self.bytes }
    }

    /// Makes all shards forget it.
    pub fn forget(&self) {
        self.forgotten.store(true, Relaxed);
    }

    /// The second in which it was last used, counted from the start of the process.
    pub fn last_use(&self) -> u64 {
        self.last_use.load(Relaxed)
    }

    #[inline]
    fn used(&self, second: u64) {
        // Written once a second at most, so that shards do not fight for the line.
        if self.last_use.load(Relaxed) != second {
            self.last_use.store(second, Relaxed);
        }
    }
}

/// The statements that one shard has used, so that it needs no lock to use them again.
#[derive(Default)]
pub struct Plans {
    places: HashMap<Id, usize>,
    statements: Vec<(Id, Arc<PreparedStatement>)>,
}

impl Plans {
    /// The place of a statement, which [`Plans::at`] takes; valid until the next call.
    #[inline]
    pub fn find(&mut self, shared: &Shared, id: &[u8], second: u64) -> Option<usize> {
        let id: &Id = id.try_into().ok()?;
        if let Some(place) = self.places.get(id) {
            let (_, statement) = &self.statements[*place];
            if !statement.forgotten.load(Relaxed) {
                statement.used(second);
                return Some(*place);
            }
            self.sweep();
        }
        let statement = shared.statement(id)?;
        statement.used(second);
        if self.statements.len() == self.statements.capacity() {
            self.sweep();
        }
        self.places.insert(*id, self.statements.len());
        self.statements.push((*id, statement));
        Some(self.statements.len() - 1)
    }

    /// The statement in this place.
    #[inline]
    #[must_use]
    pub fn at(&self, place: usize) -> &Arc<PreparedStatement> {
        &self.statements[place].1
    }

    /// Drops what is forgotten.
    pub fn sweep(&mut self) {
        self.statements.retain(|(_, statement)| !statement.forgotten.load(Relaxed));
        let places = self.statements.iter().enumerate();
        self.places = places.map(|(place, (id, _))| (*id, place)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Random;

    #[test]
    fn a_word_counts_once_a_sign_for_itself_and_a_blank_not_at_all() {
        assert_eq!(words_and_signs(b""), 0);
        assert_eq!(words_and_signs(b" a_1 = ?,x\t;\n"), 6);
        assert_eq!(words_and_signs("größe".as_bytes()), 1);
        assert_eq!(words_and_signs(&[b','; 1_000]), 1_000);
        let mut random = Random(3);
        for length in 0..1_200 {
            let signs = b"aZ09_ \n,(\0\x7f\x80\xff";
            let sign = || signs[usize::try_from(random.below(signs.len() as u64)).unwrap()];
            let text: Vec<_> = std::iter::repeat_with(sign).take(length).collect();
            let (mut expected, mut goes_on) = (0, false);
            for byte in &text {
                let is_word = byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
                let is_blank = [b' ', b'\n'].contains(byte);
                expected += usize::from(!(is_blank || is_word && goes_on));
                goes_on = is_word;
            }
            assert_eq!(words_and_signs(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_statement_costs_what_it_says_and_a_long_constant_little_more_than_itself() {
        let base = cost("");
        assert_eq!(cost("SELECT v FROM t") - base, 3 * 15 + 100 * 4);
        assert_eq!(cost("a = ? AND b=?") - base, 3 * 13 + 100 * 7);
        let constant = format!("'{}'", "x,y ".repeat(1 << 18));
        assert_eq!(cost(&constant) - base, 2 * constant.len() + 1024 + 100 * 2);
        let list = "1,".repeat(1 << 18);
        assert_eq!(cost(&list) - base, 2 * list.len() + 1024 + 100 * (1 << 19));
    }
}
