//! What may be in a partition of a table with columns of every kind.
//!
//! A write that was acknowledged has happened, one that was refused has not, and of all others
//! nothing is known: so a partition has several worlds, in each of which some of them have
//! happened. A read keeps the worlds that agree with it, and one of them must. Each world is an
//! oracle, which knows which cell wins.

use crate::oracle::{
    Cell, CellPlace, Oracle,
    places::{FIRST_CK, NO_CK},
};
use sandglass_db::mutation::Write;
use std::{collections::BTreeMap, ops::Range};

/// The clustering keys of rows.
pub const ROWS_OF_EVERY_KIND: Range<u64> = FIRST_CK..6;

/// Most worlds of a partition: what has more is not looked at any more.
const WORLDS_MAX: usize = 100;

/// What a write does to a partition, in part.
#[derive(Clone, Debug)]
pub enum Deed {
    Put {
        ck: u64,
        place: CellPlace,
        value: Vec<u8>,
        ttl_s: u32,
    },
    Remove {
        ck: u64,
        place: CellPlace,
    },
    /// All elements of a collection, or those that are older than the write.
    Clear {
        ck: u64,
        column: u16,
        only_older: bool,
    },
    DeleteRow(u64),
    DeleteRange(Vec<u8>, Vec<u8>),
    DeletePartition,
}

/// What a write depends on, of a row.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    NotExists(u64),
    Exists(u64),
    /// This column has that value.
    Is(u64, u16, Option<i32>),
}

/// A cell as a client sees it: where, its value, its timestamp, and how many seconds it has left.
pub type SeenCell = (CellPlace, Vec<u8>, i64, Option<i64>);

/// The cells of a row and those of its static row, by place.
pub type SeenRow = (Vec<SeenCell>, Vec<SeenCell>);

/// The rows of a partition; that without a clustering key is there if it has a static row only.
pub type SeenRows = BTreeMap<Option<u64>, SeenRow>;

pub struct Worlds {
    table: u32,
    key: u64,
    all: Vec<Oracle>,
}

impl Worlds {
    pub fn new(table: u32, key: u64) -> Self {
        Self { table, key, all: vec![Oracle::default()] }
    }

    /// Whether there are so many that nothing is worth comparing any more.
    pub fn is_given_up(&self) -> bool {
        self.all.len() > WORLDS_MAX
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Something has happened that is known for sure.
    pub fn change(&mut self, change: impl Fn(&mut Oracle)) {
        self.all.iter_mut().for_each(change);
    }

    /// These deeds are done at this timestamp, in one of these seconds; or perhaps not.
    pub fn write(&mut self, deeds: &[Deed], timestamp: i64, seconds: &[i64], is_certain: bool) {
        let expires = |deed: &Deed| matches!(deed, Deed::Put { ttl_s, .. } if *ttl_s > 0);
        let seconds = if deeds.iter().any(expires) { seconds } else { &seconds[..1] };
        let before = std::mem::take(&mut self.all);
        for world in before {
            for now_s in seconds {
                let mut after = world.clone();
                self.apply(&mut after, deeds, timestamp, *now_s);
                self.add(after);
            }
            if !is_certain {
                self.add(world);
            }
        }
    }

    fn add(&mut self, world: Oracle) {
        if !self.all.contains(&world) {
            self.all.push(world);
        }
    }

    fn apply(&self, world: &mut Oracle, deeds: &[Deed], timestamp: i64, now_s: i64) {
        let (table, key) = (self.table, self.key);
        for deed in deeds {
            let write = Write { timestamp, ttl_s: 0, now_s };
            match deed.clone() {
                Deed::Put { ck, place, value, ttl_s } => {
                    let cell = Cell::live(&Write { ttl_s, ..write }, &value);
                    world.put((table, key, ck), place, cell);
                }
                Deed::Remove { ck, place } => {
                    world.put((table, key, ck), place, Cell::dead(&write));
                }
                Deed::Clear { ck, column, only_older } => {
                    let until = timestamp - i64::from(only_older);
                    world.delete_elements((table, key, ck), column, until);
                }
                Deed::DeleteRow(ck) => world.delete_row((table, key, ck), timestamp),
                Deed::DeleteRange(from, to) => {
                    world.delete_range((table, key), (from, to, timestamp));
                }
                Deed::DeletePartition => world.delete_partition((table, key), timestamp),
            }
        }
    }

    /// Whether a condition holds in a world.
    fn holds(&self, world: &Oracle, condition: Condition, now_s: i64) -> bool {
        let row = |ck| world.row((self.table, self.key, ck), now_s);
        match condition {
            Condition::NotExists(ck) => row(ck).is_none(),
            Condition::Exists(ck) => row(ck).is_some(),
            Condition::Is(ck, column, value) => {
                let cells = row(ck).unwrap_or_default();
                let found = cells.iter().find(|(place, ..)| *place == (column, None));
                found.map(|(_, value, _)| value.clone()) == value.map(|v| v.to_be_bytes().to_vec())
            }
        }
    }

    /// Conditions have held, all of them or not, in one of these seconds.
    pub fn decide(&mut self, conditions: &[Condition], seconds: &[i64], has_held: bool) {
        let before = std::mem::take(&mut self.all);
        let agrees = |world: &Oracle| {
            let holds = |now_s| conditions.iter().all(|one| self.holds(world, *one, now_s));
            seconds.iter().any(|now_s| holds(*now_s) == has_held)
        };
        self.all = before.iter().filter(|world| agrees(world)).cloned().collect();
        if self.all.is_empty() {
            for world in before {
                eprintln!("a world is {}", text_of(&self.rows(&world, seconds[0])));
            }
            panic!("{conditions:?} {has_held} at {seconds:?} in none of them");
        }
    }

    /// The value of a column of a row, by one of the worlds.
    pub fn guess(&self, ck: u64, column: u16, now_s: i64) -> Option<i32> {
        let cells = self.all.first()?.row((self.table, self.key, ck), now_s)?;
        let (_, value, _) = cells.into_iter().find(|(place, ..)| *place == (column, None))?;
        Some(i32::from_be_bytes(value.try_into().ok()?))
    }

    /// The rows of the partition in a world.
    fn rows(&self, world: &Oracle, now_s: i64) -> SeenRows {
        let cells = |ck| {
            let cells = world.row((self.table, self.key, ck), now_s)?;
            let seen = cells.into_iter().map(|(place, value, liveness)| {
                let left = (liveness.ttl_s > 0).then(|| liveness.expires_s - now_s);
                (place, value, liveness.timestamp, left)
            });
            Some(seen.collect::<Vec<_>>())
        };
        let shared = cells(NO_CK);
        let own = ROWS_OF_EVERY_KIND.filter_map(|ck| Some((Some(ck), cells(ck)?)));
        let with_shared = |(ck, own)| (ck, (own, shared.clone().unwrap_or_default()));
        let mut rows: SeenRows = own.map(with_shared).collect();
        if let (true, Some(shared)) = (rows.is_empty(), shared) {
            rows.insert(None, (Vec::new(), shared));
        }
        rows
    }

    /// Keeps the worlds in which this would be seen, each row in one of these seconds.
    pub fn see(&mut self, seen: &SeenRows, seconds: &[i64]) {
        let before = std::mem::take(&mut self.all);
        let agrees = |world: &Oracle| {
            let rows: Vec<SeenRows> =
                seconds.iter().map(|now_s| self.rows(world, *now_s)).collect();
            let mut places = rows.iter().chain([seen]).flat_map(BTreeMap::keys);
            places.all(|place| rows.iter().any(|rows| rows.get(place) == seen.get(place)))
        };
        self.all = before.iter().filter(|world| agrees(world)).cloned().collect();
        if self.all.is_empty() {
            let (table, key) = (self.table, self.key);
            eprintln!("partition {key} of table {table} at {seconds:?} is {}", text_of(seen));
            for world in before {
                eprintln!("and not {}", text_of(&self.rows(&world, seconds[0])));
            }
            panic!("no world is as it was seen");
        }
    }
}

/// Rows in a few lines.
pub fn text_of(rows: &SeenRows) -> String {
    let value = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
        Ok(number) => i32::from_be_bytes(number).to_string(),
        Err(_) => String::from_utf8_lossy(bytes).trim_start_matches('0').to_string(),
    };
    let cell = |((column, path), bytes, timestamp, left): &SeenCell| {
        let path = path.as_deref().unwrap_or_default();
        format!("{column}{path:?} {} at {timestamp} for {left:?}", value(bytes))
    };
    let cells = |cells: &[SeenCell]| cells.iter().map(cell).collect::<Vec<_>>().join(", ");
    let row = |(ck, (own, shared)): (&Option<u64>, &SeenRow)| {
        format!("\n  {ck:?}: {} | {}", cells(own), cells(shared))
    };
    rows.iter().map(row).collect()
}
