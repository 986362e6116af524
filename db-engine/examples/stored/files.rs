//! Many sstables, and an engine that may open few files.

use super::{
    client::{Client, execute},
    engine::Engine,
};
use crate::client::op;
use serde_json::{Value, json};
use std::{thread::sleep, time::Duration};

const MINUTE_US: u64 = 60_000_000;

/// The minute of the first row, since the Unix epoch.
const FIRST_MINUTE: u64 = 29_000_000;

/// What beginning leaves to be done is over after this.
const SETTLE: Duration = Duration::from_secs(3);

/// Rows of so many windows, one in each; then reads of all, and a time of silence.
pub fn run(mut engine: Engine, count: u32, seconds: f64) -> Value {
    let mut client = Client::connect(engine.cql).expect("it serves");
    client.run(
        "CREATE KEYSPACE bench WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client.run(
        "CREATE TABLE bench.minutes (k int, c int, v int, PRIMARY KEY (k, c)) WITH \
         compaction = {'class': 'TimeWindowCompactionStrategy', \
         'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1}",
    );
    let insert =
        client.prepare("INSERT INTO bench.minutes (k, c, v) VALUES (1, ?, ?) USING TIMESTAMP ?");
    // A flush writes so many windows apart.
    for some in (0..count).collect::<Vec<_>>().chunks(90) {
        for number in some {
            let (c, minute) = (number.to_be_bytes(), FIRST_MINUTE + u64::from(*number));
            let timestamp = (minute * MINUTE_US).to_be_bytes();
            let body = execute(&insert, &[&c, &c, &timestamp]);
            client.ask(op::EXECUTE, &body).expect("an answer").kind();
        }
        engine.ctl(&["flush", "bench"]);
    }
    engine.settle();
    // Nothing is in memory after a start.
    engine.restart();
    let mut client = Client::connect(engine.cql).expect("it serves");
    let row = client.prepare("SELECT v FROM bench.minutes WHERE k = 1 AND c = ?");
    let found = (0..count).filter(|number| {
        let answer = client.ask(op::EXECUTE, &execute(&row, &[&number.to_be_bytes()]));
        answer.expect("an answer").rows().0 == [vec![Some(number.to_be_bytes().to_vec())]]
    });
    let rows_found = found.count();
    let all = client.prepare("SELECT c FROM bench.minutes WHERE k = 1");
    let rows_scanned = client.all_rows(&all, &[]).len();
    let sstables = engine.sample().sstables;
    // Who has answered goes to sleep once more: that is none of the wake-ups that are counted.
    sleep(SETTLE);
    let before = engine.sleeps();
    sleep(Duration::from_secs_f64(seconds));
    let idle_sleeps = engine.sleeps() - before;
    let open_files = engine.open_files();
    json!({
        "sstables": sstables, "rows_found": rows_found, "rows_scanned": rows_scanned,
        "open_files": open_files, "idle_sleeps": idle_sleeps,
    })
}
