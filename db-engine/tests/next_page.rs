//! Pages of every size are the rows of the same statement without pages, as they are when each
//! page is asked for: with and without what is kept of a read for its next page, through restarts,
//! flushes, writes behind the page and changes of the schema. `SANDGLASS_SEED=n` repeats one run.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    io::{ManualClock, Random, sim::SimDisk},
    store::StoreConfig,
};
use simulated::seed::{SeedOfRun, seeds};
use std::sync::Arc;
use whole::{
    Engine, LIMITS,
    client::{page, query},
    dialogue::Dialogue,
};
use wire::client::{Row, op};

const START_US: i64 = 1_800_000_000_000_000;

/// How long rows stay in memory: not as long as a read is kept for its next page.
const UNFLUSHED_US: u64 = 5_000_000;

/// Rows with this clustering column or a greater one have no cell but one of a dropped column.
const FIRST_GHOST: u64 = 40;

const STATEMENTS: [&str; 15] = [
    "SELECT p, c, d, s, v FROM k.t",
    "SELECT p, c, d, s, v FROM k.t BYPASS CACHE",
    "SELECT p, c, d, s, v FROM k.t PER PARTITION LIMIT 3",
    "SELECT p, c, d, s, v FROM k.t WHERE v < 50 ALLOW FILTERING",
    "SELECT p, c, d, s, v FROM k.t WHERE v < 50 PER PARTITION LIMIT 3 ALLOW FILTERING",
    "SELECT p, c, d, s, v FROM k.t WHERE s = 3 AND v > 20 ALLOW FILTERING",
    "SELECT p, c, d, s, v FROM k.t WHERE s = 3 PER PARTITION LIMIT 4 ALLOW FILTERING",
    "SELECT p, c, d, s, v FROM k.t WHERE p = 1 AND v < 70 ORDER BY c DESC, d ASC ALLOW FILTERING",
    "SELECT p, c, d, s, v FROM k.t WHERE p = 1",
    "SELECT p, c, d, s, v FROM k.t WHERE p = 1 ORDER BY c DESC, d ASC",
    "SELECT p, c, d FROM k.t WHERE p = 2 AND c >= 3 AND c < 45 LIMIT 40",
    "SELECT p, c, d, s FROM k.t WHERE p = 2 AND c IN (3, 5, 7, 9, 41) ORDER BY c DESC, d ASC",
    "SELECT p, c, d, s, v FROM k.t WHERE p IN (2, 0) PER PARTITION LIMIT 17",
    "SELECT p, c, d, s, v FROM k.t WHERE p IN (3, 1, 2) LIMIT 70",
    "SELECT p, c, d, v FROM k.t WHERE p IN (3, 1) AND c IN (2, 4, 6, 40) PER PARTITION LIMIT 5",
];

fn int(row: &Row, column: usize) -> Option<i32> {
    row[column].as_ref().map(|bytes| i32::from_be_bytes(bytes[..].try_into().unwrap()))
}

struct PagesTest {
    config: StoreConfig,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    /// `None` between two runs.
    dialogue: Option<Dialogue>,
    random: Random,
    has_column: bool,
    /// Pages that went on with what was kept of the one before.
    resumed: u64,
}

impl PagesTest {
    /// A table in some sstables and in memory, of which ranges and a column were deleted.
    fn new(seed: u64, cache_bytes_max: usize) -> Self {
        let config = StoreConfig {
            shards: 2,
            memtable_bytes_max: 4 << 20,
            cache_bytes_max,
            log_segment_bytes: 256 << 10,
            block_bytes: 300,
            data_lifetime_us: UNFLUSHED_US,
            ..StoreConfig::default()
        };
        let (disk, clock) = (SimDisk::new(seed), Arc::new(ManualClock::at(START_US)));
        let dialogue = Some(Dialogue::new(open(&disk, &clock, &config, seed)));
        let random = Random(seed);
        let mut test =
            Self { config, disk, clock, dialogue, random, has_column: false, resumed: 0 };
        test.run(
            "CREATE KEYSPACE k WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        test.run(
            "CREATE TABLE k.t (p int, c int, d int, s int static, v int, old int, \
             PRIMARY KEY (p, c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC)",
        );
        for round in 0..4 {
            for p in 0..4 {
                test.run(&format!("UPDATE k.t SET s = {round} WHERE p = {p}"));
                for _ in 0..12 {
                    let [c, d, v] = [20, 3, 100].map(|below| test.random.below(below));
                    test.run(&format!("INSERT INTO k.t (p, c, d, v) VALUES ({p}, {c}, {d}, {v})"));
                }
                let ghost = FIRST_GHOST + test.random.below(5);
                test.run(&format!(
                    "UPDATE k.t SET old = 1 WHERE p = {p} AND c = {ghost} AND d = 0"
                ));
                let from = test.random.below(20);
                test.run(&format!(
                    "DELETE FROM k.t WHERE p = {p} AND c >= {from} AND c < {}",
                    from + 3
                ));
            }
            if round == 2 {
                test.run("ALTER TABLE k.t DROP old");
                test.run("ALTER TABLE k.t ADD old int");
            }
            if round < 3 {
                test.flush();
            } else {
                test.run("ALTER TABLE k.t DROP old");
            }
        }
        test
    }

    fn dialogue(&mut self) -> &mut Dialogue {
        self.dialogue.as_mut().unwrap()
    }

    fn run(&mut self, text: &str) {
        self.dialogue().run(0, text);
    }

    fn flush(&mut self) {
        self.clock.advance(UNFLUSHED_US.cast_signed());
        for _ in 0..60 {
            self.dialogue().turn();
        }
    }

    fn restart(&mut self) {
        self.count();
        self.dialogue().stop();
        self.dialogue = None;
        let seed = self.random.next_u64();
        self.dialogue = Some(Dialogue::new(open(&self.disk, &self.clock, &self.config, seed)));
    }

    fn count(&mut self) {
        let engine = &self.dialogue().engine;
        let resumed = (0..engine.shards()).map(|shard| engine.metrics(shard).resumed_reads.get());
        self.resumed += resumed.sum::<u64>();
    }

    /// All rows at once. None of them is one that has only a cell of a dropped column.
    fn whole(&mut self, text: &str) -> Vec<Row> {
        let rows = self.dialogue().ask(0, op::QUERY, &query(text)).rows().0;
        let is_ghost = |row: &Row| int(row, 1).is_some_and(|c| c.unsigned_abs() >= 40);
        assert!(!rows.iter().any(is_ghost), "{text}: {rows:?}");
        rows
    }

    /// Something between two pages, the last of which ended with this row; the statement gives this
    /// one at the very end.
    fn disturb(&mut self, text: &str, last: Option<&Row>, end: Option<&Row>) {
        let is_reversed = text.contains("DESC");
        match self.random.below(24) {
            0 => self.restart(),
            1 | 2 => self.flush(),
            3 => self.run("ALTER TABLE k.t WITH gc_grace_seconds = 1000"),
            4 => {
                let change = if self.has_column { "DROP" } else { "ADD" };
                let kind = if self.has_column { "" } else { " int" };
                self.has_column = !self.has_column;
                self.run(&format!("ALTER TABLE k.t {change} old{kind}"));
            }
            5 => {
                self.run("CREATE TABLE k.other (p int PRIMARY KEY)");
                self.run("DROP TABLE k.other");
            }
            6..14 => {
                // Only behind the page: what came before is not given again.
                let Some(p) = end.and_then(|row| int(row, 0)) else { return };
                let is_begun = last.is_some_and(|row| int(row, 0) == Some(p));
                let Some(c) = last.map_or(Some(0), |row| int(row, 1)) else { return };
                let (low, high) = match (is_begun, is_reversed) {
                    (false, _) => (0, 30),
                    (true, false) => (c + 1, 30),
                    (true, true) => (0, c),
                };
                if low >= high {
                    return;
                }
                let span = u64::from((high - low).unsigned_abs());
                let at = low + i32::try_from(self.random.below(span)).unwrap();
                let [d, v] = [3, 100].map(|below| self.random.below(below));
                let row = format!("p = {p} AND c = {at}");
                match self.random.below(4) {
                    0 => self.run(&format!("DELETE FROM k.t WHERE {row}")),
                    1 if !is_begun => self.run(&format!("UPDATE k.t SET s = {v} WHERE p = {p}")),
                    _ => self.run(&format!("UPDATE k.t SET v = {v} WHERE {row} AND d = {d}")),
                }
            }
            _ => {}
        }
    }

    /// Reads a statement in pages of this size.
    fn check(&mut self, text: &str, size: usize) {
        let mut given: Vec<Row> = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        for pages in 0.. {
            let whole = self.whole(text);
            let client = pages % self.dialogue().clients.len();
            let body = page(text, i32::try_from(size).unwrap(), state.as_deref());
            let (rows, next) = self.dialogue().ask(client, op::QUERY, &body).rows();
            assert!(rows.len() <= size, "{text} in pages of {size}");
            given.extend(rows);
            let what = format!("{text} in pages of {size}, {pages} before");
            assert!(whole.starts_with(&given), "{what}:\n{given:?}\ninstead of\n{whole:?}");
            state = next;
            if state.is_none() {
                assert_eq!(given.len(), whole.len(), "{what}: rows are missing");
                return;
            }
            self.disturb(text, given.last(), whole.last());
        }
    }
}

fn open(disk: &SimDisk, clock: &Arc<ManualClock>, config: &StoreConfig, seed: u64) -> Engine {
    Engine::open_with(disk, clock, config, seed, LIMITS).unwrap()
}

/// No storage has gone on behind the end of a page, so none begins anew for the next one.
#[test]
fn pages_of_chosen_rows_go_on_where_storage_stands() {
    const OF_CHOSEN_ROWS: [&str; 6] = [
        "SELECT p, c, d, v FROM k.t PER PARTITION LIMIT 7",
        "SELECT p, c, d, v FROM k.t WHERE v < 50 ALLOW FILTERING",
        "SELECT p, c, d, s, v FROM k.t WHERE s = 3 AND v > 20 ALLOW FILTERING",
        "SELECT p, c, d, v FROM k.t WHERE v > 30 PER PARTITION LIMIT 4 ALLOW FILTERING",
        "SELECT p, c, d, v FROM k.t WHERE p = 1 AND v < 70 LIMIT 9 ALLOW FILTERING",
        "SELECT p, c, d, v FROM k.t WHERE p IN (0, 1, 3) AND v < 70 ALLOW FILTERING",
    ];
    let mut pages = PagesTest::new(1, 1 << 20);
    // Nothing is kept of what is in memory alone.
    pages.flush();
    let counters = |pages: &mut PagesTest| {
        let engine = &pages.dialogue().engine;
        let of = |shard| {
            let metrics = engine.metrics(shard);
            (metrics.resumed_reads.get(), metrics.unresumed_reads.get())
        };
        let all = (0..engine.shards()).map(of);
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    for text in OF_CHOSEN_ROWS {
        for size in 1..=5 {
            let whole = pages.whole(text);
            let before = counters(&mut pages);
            let (mut given, mut state, mut next_pages) = (Vec::new(), None::<Vec<u8>>, 0);
            loop {
                let body = page(text, size, state.as_deref());
                let (rows, next) = pages.dialogue().ask(0, op::QUERY, &body).rows();
                given.extend(rows);
                state = next;
                if state.is_none() {
                    break;
                }
                next_pages += 1;
            }
            assert_eq!(given, whole);
            let after = counters(&mut pages);
            let (resumed, begun_anew) = (after.0 - before.0, after.1 - before.1);
            let what = format!("{text} in pages of {size}: {resumed} of {next_pages}");
            // Behind the last row of a shard, or of a partition that is named, nothing is left.
            assert!(begun_anew <= 3 && resumed > 0, "{what}, {begun_anew} began anew");
        }
    }
}

#[test]
fn pages_of_every_size_are_the_whole_with_and_without_what_is_kept() {
    for (cache_bytes_max, keeps) in [(1 << 20, true), (0, false)] {
        let mut resumed = 0;
        for chunk in seeds(0..10) {
            let _seed = SeedOfRun(chunk);
            let mut pages = PagesTest::new(chunk, cache_bytes_max);
            for size in (1..=100).filter(|size| size % 10 == chunk % 10) {
                let text = pages.random.one_of(&STATEMENTS);
                pages.check(text, usize::try_from(size).unwrap());
                let small = 1 + pages.random.below(4);
                let text = pages.random.one_of(&STATEMENTS);
                pages.check(text, usize::try_from(small).unwrap());
            }
            pages.count();
            resumed += pages.resumed;
        }
        assert_eq!(resumed > 0, keeps, "{resumed} pages went on with what was kept");
    }
}
