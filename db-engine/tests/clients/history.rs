//! What clients know of their writes, and whether what they read agrees with it.
//!
//! Every cell has the list of all writes that were sent to it. A write has happened if it was
//! acknowledged or was once read, and never happened if it was refused; of all others nothing is
//! known. When nothing is in flight, a read decides about them, and then all cells of a write must
//! agree: it has happened as a whole, or not at all. As long as a write is in flight, a read may
//! find only those of its partitions that were written first.

use super::simulation::{PARTITIONS, ROWS};
use std::collections::BTreeMap;

/// A row: table, partition and clustering key.
pub type Place = (usize, i32, i32);

/// The column that stands for the row itself, which an INSERT makes and an UPDATE does not.
const ROW: u8 = 0;

/// The column `x`, which a table has at times.
pub const EXTRA: u8 = 3;

/// What is known of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Unknown,
    /// All of it is to be found by reads that begin after this moment.
    Happened(u64),
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Effect {
    write: usize,
    timestamp: i64,
    is_put: bool,
    /// The column was dropped, which nothing undoes.
    is_drop: bool,
    /// The cell was read at this moment.
    seen: u64,
    /// It may be gone although its write has happened: the table was emptied, and nobody knows what
    /// came first.
    is_excused: bool,
}

impl Effect {
    fn new(write: usize, timestamp: i64, is_put: bool) -> Self {
        Self { write, timestamp, is_put, is_drop: false, seen: u64::MAX, is_excused: false }
    }
}

/// When a read began and ended, and whether nothing else was in flight.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub began: u64,
    pub ended: u64,
    pub alone: bool,
}

#[derive(Default)]
pub struct History {
    fates: Vec<Fate>,
    cells: BTreeMap<(Place, u8), Vec<Effect>>,
}

impl History {
    /// A new write. Its number is also the value of the cells that it sets.
    pub fn begin(&mut self) -> usize {
        self.fates.push(Fate::Unknown);
        self.fates.len() - 1
    }

    pub fn put(&mut self, write: usize, place: Place, columns: &[u8], timestamp: i64) {
        self.effect(place, columns, Effect::new(write, timestamp, true));
    }

    pub fn insert(&mut self, write: usize, place: Place, timestamp: i64) {
        self.put(write, place, &[ROW, 1, 2], timestamp);
    }

    pub fn delete(&mut self, write: usize, place: Place, timestamp: i64) {
        self.effect(place, &[ROW, 1, 2, EXTRA], Effect::new(write, timestamp, false));
    }

    /// A table was emptied. Only what clients have left behind may still come, and what a drop of
    /// the column `x` hides stays hidden.
    pub fn empty(&mut self, table: usize) {
        let fates = &self.fates;
        let cells = self.cells.iter_mut().filter(|((place, _), _)| place.0 == table);
        for (_, effects) in cells {
            effects.retain(|effect| effect.is_drop || may_come(effect, fates));
            for effect in effects {
                effect.is_excused = !effect.is_drop;
            }
        }
    }

    /// A table's column `x` is dropped at this time: older cells never count again.
    pub fn drop_extra(&mut self, write: usize, table: usize, timestamp: i64) {
        for (p, c) in (0..PARTITIONS).flat_map(|p| (0..ROWS).map(move |c| (p, c))) {
            let place = (table, i32::try_from(p).unwrap(), i32::try_from(c).unwrap());
            let drop = Effect { is_drop: true, ..Effect::new(write, timestamp, false) };
            self.effect(place, &[EXTRA], drop);
        }
    }

    /// Whether a row that is read has a value that was there for sure: all of its write is known to
    /// be, or it was read before.
    pub fn was_there(&self, place: Place, columns: &[u8], values: &[Option<i32>]) -> bool {
        columns.iter().zip(values).any(|(column, value)| {
            let write = value.and_then(|value| usize::try_from(value).ok());
            let fate = write.and_then(|write| self.fates.get(write));
            let effects = self.cells.get(&(place, *column)).into_iter().flatten();
            let mut seen = effects.filter(|effect| effect.seen != u64::MAX);
            matches!(fate, Some(Fate::Happened(since)) if *since != u64::MAX)
                || seen.any(|effect| Some(effect.write) == write)
        })
    }

    fn effect(&mut self, place: Place, columns: &[u8], effect: Effect) {
        for column in columns {
            self.cells.entry((place, *column)).or_default().push(effect);
        }
    }

    pub fn happened(&mut self, write: usize, moment: u64) {
        match self.fates[write] {
            Fate::Unknown => self.fates[write] = Fate::Happened(moment),
            Fate::Happened(since) => self.fates[write] = Fate::Happened(since.min(moment)),
            Fate::Never => panic!("write {write} has happened in part, or although refused"),
        }
    }

    pub fn never(&mut self, write: usize) {
        match self.fates[write] {
            Fate::Unknown => self.fates[write] = Fate::Never,
            Fate::Never => {}
            Fate::Happened(_) => panic!("write {write} has not happened in part"),
        }
    }

    /// Checks a row that was read, or was not there.
    pub fn check(
        &mut self,
        place: Place,
        columns: &[u8],
        row: Option<Vec<Option<i32>>>,
        reading: Reading,
    ) {
        let Some(values) = row else {
            for column in [ROW].iter().chain(columns) {
                self.check_cell(place, *column, None, reading);
            }
            return;
        };
        assert_eq!(values.len(), columns.len(), "as many as were asked for");
        for (column, value) in columns.iter().zip(&values) {
            self.check_cell(place, *column, *value, reading);
        }
        if values.iter().all(Option::is_none) {
            let cells = self.effects(place, ROW);
            let may_be =
                cells.iter().any(|put| put.is_put && !self.is_deleted(put, &cells, reading));
            assert!(may_be, "{place:?} is there although nobody inserted it: {cells:?}");
        }
    }

    fn effects(&self, place: Place, column: u8) -> Vec<Effect> {
        let effects = self.cells.get(&(place, column)).cloned().unwrap_or_default();
        effects.into_iter().filter(|effect| self.fates[effect.write] != Fate::Never).collect()
    }

    fn was_known(&self, effect: &Effect, reading: Reading) -> bool {
        let is_whole = |since| since < reading.began && !effect.is_excused;
        let fate = self.fates[effect.write];
        effect.seen < reading.began || matches!(fate, Fate::Happened(since) if is_whole(since))
    }

    fn is_deleted(&self, put: &Effect, effects: &[Effect], reading: Reading) -> bool {
        effects.iter().any(|delete| {
            !delete.is_put && delete.timestamp > put.timestamp && self.was_known(delete, reading)
        })
    }

    fn check_cell(&mut self, place: Place, column: u8, value: Option<i32>, reading: Reading) {
        let effects = self.effects(place, column);
        let cell = format!("cell {column} of {place:?}, which is {value:?}");
        let Some(value) = value else {
            for put in effects.iter().filter(|effect| effect.is_put) {
                let may_be_deleted =
                    effects.iter().any(|delete| !delete.is_put && delete.timestamp > put.timestamp);
                if may_be_deleted || put.is_excused {
                    continue;
                }
                assert!(!self.was_known(put, reading), "lost {put:?}: {cell}");
                if reading.alone {
                    self.never(put.write);
                }
            }
            return;
        };
        let write = usize::try_from(value).unwrap_or(usize::MAX);
        let found = effects.iter().find(|effect| effect.is_put && effect.write == write);
        let Some(found) = found else { panic!("nobody wrote that: {cell}, {effects:?}") };
        self.happened(write, if reading.alone { reading.ended } else { u64::MAX });
        for effect in self.cells.entry((place, column)).or_default() {
            if effect.write == write {
                effect.seen = effect.seen.min(reading.ended);
                effect.is_excused = false;
            }
        }
        for later in effects.iter().filter(|effect| effect.timestamp > found.timestamp) {
            assert!(!self.was_known(later, reading), "lost {later:?}: {cell}");
            if reading.alone && !later.is_excused {
                self.never(later.write);
            }
        }
    }
}

/// Whether a cell may be written that was not seen yet.
fn may_come(effect: &Effect, fates: &[Fate]) -> bool {
    let may_happen = matches!(fates[effect.write], Fate::Unknown | Fate::Happened(u64::MAX));
    may_happen && effect.seen == u64::MAX
}
