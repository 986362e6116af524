//! What writing, flushing and compacting rows of several kinds costs, and how many bytes they take.

use super::{
    client::{Client, execute, op},
    engine::Engine,
    fill::write_all,
    float,
    measurements::{Batches, Days, create, each_second},
    random::Random,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// Sensors that send each second.
const FREQUENT_SENSORS: u64 = 200;

/// Bytes of a large row.
const LARGE_BYTES: usize = 1_000;

/// Large rows are so many times fewer.
const LARGE_PART: u64 = 4;

/// Fills one table after the other with so many rows, and compacts it.
pub fn run(engine: &Engine, rows: u64) -> Value {
    let mut client = Client::connect(engine.cql).expect("it serves");
    let points = create(&mut client);
    let days = Days::of_rows(rows);
    let few = measured(engine, days.rows(), Batches::new(&points, days, 0));
    client.run("DROP KEYSPACE bench");
    let points = create(&mut client);
    let seconds = rows / FREQUENT_SENSORS;
    let often = each_second(&points, FREQUENT_SENSORS, seconds);
    let often = measured(engine, FREQUENT_SENSORS * seconds, often);
    let mut large = |value: fn(&mut Random) -> Vec<u8>| {
        client.run("DROP KEYSPACE bench");
        create(&mut client);
        client.run("CREATE TABLE bench.large (k bigint PRIMARY KEY, v blob)");
        let insert = client.prepare("INSERT INTO bench.large (k, v) VALUES (?, ?)");
        let count = rows / LARGE_PART;
        let requests = (0..count).map(|number| {
            let mut random = Random(number << 32);
            let key = random.next().to_be_bytes();
            (op::EXECUTE, execute(&insert, &[&key, &value(&mut random)]))
        });
        measured(engine, count, requests)
    };
    let (noise, text) = (large(noise), large(text));
    json!({
        "points_4_a_day": few, "points_each_second": often, "noise_1kb": noise, "text_1kb": text,
    })
}

fn measured(engine: &Engine, rows: u64, requests: impl Iterator<Item = (u8, Vec<u8>)>) -> Value {
    let before = engine.sample();
    write_all(engine.cql, requests);
    engine.ctl(&["flush", "bench"]);
    engine.settle();
    let (written, bytes) = (engine.sample(), engine.sstable_bytes());
    engine.ctl(&["compact", "bench"]);
    let compacted = engine.sample();
    let result = json!({
        "rows": rows, "sstables": written.sstables,
        "write_cpu_us_a_row": (written.cpu_us - before.cpu_us) / float(rows),
        "compaction_cpu_us_a_row": (compacted.cpu_us - written.cpu_us) / float(rows),
        "bytes_a_row": float(bytes) / float(rows),
        "bytes_a_row_compacted": float(engine.sstable_bytes()) / float(rows),
    });
    eprintln!("{result}");
    result
}

fn noise(random: &mut Random) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..=LARGE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    bytes.truncate(LARGE_BYTES);
    bytes
}

/// What a device says of itself.
fn text(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    while text.len() < LARGE_BYTES {
        let [channel, code, value] = [16, 400, 100_000].map(|end| random.below(end));
        let status = ["ok", "degraded", "no answer"][usize::try_from(code % 3).expect("few")];
        write!(
            text,
            "{{\"channel\":{channel},\"status\":\"{status}\",\"code\":{code},\"value\":{}.{:03}}},",
            value / 1000,
            value % 1000,
        )
        .expect("a string takes it");
    }
    text.truncate(LARGE_BYTES);
    text.into_bytes()
}
