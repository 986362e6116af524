//! What the engine promises of limits and of the order of things, each on its own: the shards take
//! their turns in the order that makes it hardest.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    io::{ManualClock, sim::SimDisk},
    mutation::token::{shard_of, token},
    store::StoreConfig,
};
use std::sync::Arc;
use whole::{
    Engine,
    client::{batch, int, query, write},
    dialogue::Dialogue,
};
use wire::client::op;

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE k.t (p int, c int, a int, PRIMARY KEY (p, c))";
const INSERT: &str = "INSERT INTO k.t (p, c, a) VALUES (?, ?, ?)";

/// More turns than one shard can want for itself.
const ALONE: usize = 2_000;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(simulated::START_US))
}

fn roomy(shards: u16) -> StoreConfig {
    let mut config = simulated::config(shards);
    (config.memtable_bytes_max, config.log_segment_bytes) = (32 << 20, 4 << 20);
    config.log_bytes_max = 64 << 20;
    config
}

fn open(disk: &SimDisk, config: &StoreConfig) -> Dialogue {
    Dialogue::new(Engine::open(disk, &clock(), config, 1).unwrap())
}

/// A partition of this shard, of two.
fn partition_of(shard: u16) -> i32 {
    (0..100).find(|p: &i32| shard_of(token(&p.to_be_bytes()), 2) == shard).unwrap()
}

#[test]
fn rows_of_more_windows_than_a_flush_keeps_apart_are_all_there_afterwards() {
    const WINDOWS: i32 = 260;
    let disk = SimDisk::new(1);
    let mut dialogue = open(&disk, &roomy(1));
    dialogue.run(0, KEYSPACE);
    let windows = "WITH compaction = {'class': 'TimeWindowCompactionStrategy', \
                   'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1}";
    dialogue.run(0, &format!("{TABLE} {windows}"));
    let insert = dialogue.prepare(0, INSERT);
    for row in 0..WINDOWS {
        let at = simulated::START_US - i64::from(row) * 60_000_000;
        let body = write(&insert, &[int(row % 7), int(row), int(row)], at);
        dialogue.ask(0, op::EXECUTE, &body).kind();
    }
    dialogue.stop();
    drop(dialogue);
    assert!(disk.contents().keys().filter(|name| name.starts_with("sst-")).count() > 50);
    let mut dialogue = open(&disk, &roomy(1));
    let (mut rows, _) = dialogue.page(0, "SELECT c, a FROM k.t", WINDOWS + 1);
    rows.sort();
    let expected = (0..WINDOWS).map(|row| vec![Some(int(row)), Some(int(row))]);
    assert!(rows.into_iter().eq(expected), "a row is lost, or twice there");
}

#[test]
fn a_table_is_known_to_all_shards_before_its_creation_is_answered() {
    let mut dialogue = open(&SimDisk::new(2), &roomy(2));
    dialogue.run(0, KEYSPACE);
    dialogue.clients[0].ask(op::QUERY, &query(TABLE), ());
    dialogue.push(0);
    for _ in 0..ALONE {
        dialogue.engine.turn(0).unwrap();
        assert!(dialogue.take(0).is_empty(), "answered, and shard 1 knows nothing of it");
    }
    dialogue.answer(0).kind();
    // Nothing else tells shard 1 of the table but what was said before the answer.
    let insert = dialogue.prepare(0, INSERT);
    let body = write(&insert, &[int(partition_of(1)), int(2), int(3)], 4);
    dialogue.clients[1].ask(op::EXECUTE, &body, ());
    dialogue.answer(1).kind();
}

#[test]
fn a_shard_that_has_nothing_to_do_waits_for_the_others_before_it_stops() {
    let disk = SimDisk::new(3);
    let mut dialogue = open(&disk, &roomy(2));
    dialogue.run(0, KEYSPACE);
    dialogue.run(0, TABLE);
    let insert = dialogue.prepare(0, INSERT);
    let rows = [0, 1].map(|shard| {
        (insert.clone(), vec![int(partition_of(shard)), int(1), int(i32::from(shard))])
    });
    dialogue.clients[0].ask(op::BATCH, &batch(0, &rows, 1), ());
    dialogue.push(0);
    dialogue.engine.turn(0).unwrap();
    dialogue.engine.stop.request();
    for _ in 0..ALONE {
        dialogue.engine.turn(1).unwrap();
    }
    // Only now shard 0 makes the batch durable and asks shard 1 for its part.
    dialogue.stop();
    let answers = dialogue.take(0);
    assert_eq!(answers.len(), 1, "the batch was in flight: it is answered");
    assert_eq!(answers[0].kind(), 1, "void");
    drop(dialogue);
    let mut dialogue = open(&disk, &roomy(1));
    assert_eq!(dialogue.page(0, "SELECT a FROM k.t", 10).0.len(), 2);
}

#[test]
fn what_may_be_in_memory_is_kept_although_the_disk_is_slow() {
    const ROWS: i32 = 4_000;
    let disk = SimDisk::new(4);
    let config = simulated::config(1);
    let mut dialogue = open(&disk, &config);
    dialogue.run(0, KEYSPACE);
    dialogue.run(0, "CREATE TABLE k.b (p int, c int, a blob, PRIMARY KEY (p, c))");
    let insert = dialogue.prepare(0, "INSERT INTO k.b (p, c, a) VALUES (?, ?, ?)");
    let (mut taken, mut refused) = (0, 0);
    for row in 0..ROWS {
        let body = write(&insert, &[int(row % 5), int(row), vec![7; 2_000]], 1);
        dialogue.clients[0].ask(op::EXECUTE, &body, ());
        if row % 5 < 4 {
            continue;
        }
        // Five requests a turn are more than the disk, which carries out some operations a turn.
        dialogue.push(0);
        dialogue.engine.turn(0).unwrap();
        let bytes = dialogue.engine.metrics(0).memtable_bytes.get();
        assert!(bytes <= config.memtable_bytes_max as u64 + 8_192, "{bytes} bytes in memory");
        for answer in dialogue.take(0) {
            if answer.opcode == op::RESULT {
                taken += 1;
            } else {
                assert_eq!(answer.code(), 0x1001, "overloaded: {}", answer.message());
                refused += 1;
            }
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

#[test]
fn a_page_that_finds_nothing_ends_all_the_same() {
    const ROWS: i32 = 25_000;
    let mut dialogue = open(&SimDisk::new(5), &roomy(1));
    dialogue.run(0, KEYSPACE);
    dialogue.run(0, TABLE);
    let insert = dialogue.prepare(0, INSERT);
    for first in (0..ROWS).step_by(500) {
        let row = |c| (insert.clone(), vec![int(1), int(c), int(0)]);
        let rows: Vec<_> = (first..first + 500).map(row).collect();
        dialogue.ask(0, op::BATCH, &batch(1, &rows, 1)).kind();
    }
    let select = "SELECT c FROM k.t WHERE p = 1 AND a = 1 ALLOW FILTERING";
    let before = dialogue.engine.metrics(0).rows_scanned.get();
    let (rows, state) = dialogue.page(0, select, 10);
    let scanned = dialogue.engine.metrics(0).rows_scanned.get() - before;
    assert!(rows.is_empty() && state.is_some(), "{} rows, and no more to come", rows.len());
    assert!(scanned < 12_000, "{scanned} rows were looked at for one page");
}

#[test]
fn what_was_dropped_with_its_column_is_left_out_of_new_files_and_what_is_newer_is_not() {
    for how in ["stopped", "killed", "compacted"] {
        let (mut disk, config) = (SimDisk::new(1), roomy(if how == "compacted" { 1 } else { 2 }));
        let mut dialogue = open(&disk, &config);
        for text in [
            KEYSPACE,
            "CREATE TABLE k.d (p text, c int, s text STATIC, v text, m map<int, text>, w int, \
             PRIMARY KEY (p, c)) WITH compaction = \
             {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 2}",
            "INSERT INTO k.d (p, c, v, w) VALUES ('a', 1, 'old value', 1) USING TIMESTAMP 20",
            "UPDATE k.d USING TIMESTAMP 20 SET v = 'old value' WHERE p = 'a' AND c = 2",
            "UPDATE k.d USING TIMESTAMP 20 SET s = 'old static row' WHERE p = 'a'",
            "UPDATE k.d USING TIMESTAMP 20 SET m[1] = 'old element' WHERE p = 'a' AND c = 1",
            "UPDATE k.d USING TIMESTAMP 20 SET v = '1' WHERE p = 'old partition' AND c = 1",
            "UPDATE k.d USING TIMESTAMP 21 SET v = 'fresh value' WHERE p = 'a' AND c = 3",
            "UPDATE k.d USING TIMESTAMP 21 SET m[2] = 'new element' WHERE p = 'a' AND c = 1",
            "UPDATE k.d USING TIMESTAMP 21 SET s = 'unlike others' WHERE p = 'b'",
        ] {
            dialogue.run(0, text);
        }
        if how == "compacted" {
            // A second file has only a part of the first row.
            dialogue.stop();
            drop(dialogue);
            dialogue = open(&disk, &config);
            dialogue.run(0, "UPDATE k.d USING TIMESTAMP 22 SET w = 1 WHERE p = 'a' AND c = 1");
        }
        dialogue.run(0, "ALTER TABLE k.d DROP (v, s, m) USING TIMESTAMP 20");
        if how != "killed" {
            dialogue.stop();
        }
        drop(dialogue);
        disk = disk.crash(1);
        let mut dialogue = open(&disk, &config);
        if how == "compacted" {
            let is_done = |dialogue: &mut Dialogue| {
                dialogue.turn();
                dialogue.engine.metrics(0).completed_compactions.get() == 1
            };
            assert!((0..10_000).any(|_| is_done(&mut dialogue)), "it is not compacted");
            (0..100).for_each(|_| dialogue.turn());
        }
        let files = disk.contents().into_iter().filter(|(name, _)| name.starts_with("sst-"));
        let bytes: Vec<u8> = files.flat_map(|(_, bytes)| bytes).collect();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!has("old "), "{how}");
        for text in ["fresh value", "new element", "unlike others"] {
            assert!(has(text), "{how}: {text}");
        }
        dialogue.run(0, "ALTER TABLE k.d ADD (v text, m map<int, text>)");
        assert_eq!(dialogue.page(0, "SELECT p FROM k.d WHERE p = 'b'", 100).0.len(), 0, "{how}");
        dialogue.run(0, "ALTER TABLE k.d ADD s text STATIC");
        let (rows, _) = dialogue.page(0, "SELECT s, c FROM k.d WHERE p = 'b'", 100);
        assert_eq!(rows, [[Some(b"unlike others".to_vec()), None]], "{how}");
        let (rows, _) = dialogue.page(0, "SELECT c, w, v, m[1], m[2] FROM k.d WHERE p = 'a'", 100);
        let element = Some(b"new element".to_vec());
        let first = vec![Some(int(1)), Some(int(1)), None, None, element];
        let third = vec![Some(int(3)), None, Some(b"fresh value".to_vec()), None, None];
        assert_eq!(rows, [first, third], "{how}");
        // Nor does it come back with a table that was emptied.
        dialogue.run(0, "TRUNCATE k.d");
        dialogue.run(0, "UPDATE k.d USING TIMESTAMP 20 SET v = 'old' WHERE p = 'a' AND c = 1");
        assert_eq!(dialogue.page(0, "SELECT c FROM k.d", 100).0.len(), 0);
    }
}
