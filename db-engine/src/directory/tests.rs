use super::{
    FoundDirectory, Journal, Replacement, Sequential, Survey, catalog_file::CatalogFile,
    complete_restored, complete_snapshot,
};
use super::{
    journal::read_journal,
    manifest::{
        CatalogMark, Change, Checkpoint, RunStart, checkpoint_name, decode_checkpoint,
        encode_checkpoint, encode_record, journal_name, parse_name,
    },
};
use crate::{
    commitlog::LogEnd,
    error::Result,
    io::sim::{Fault, SimDisk},
    mutation::{TableNumber, Token},
    schema::Catalog,
    sstable::{SstableId, Summary, Writer},
};

const ID: SstableId = SstableId { epoch: 3, shard: 1, sequence: 7 };

fn summary() -> Summary {
    let mut writer = Writer::new(ID, TableNumber(9), 5);
    writer.partition(Token(10), b"key", None);
    writer.finish().0
}

#[test]
fn names_of_manifests_tell_what_they_are() {
    assert_eq!(parse_name(&checkpoint_name(4)), Some((4, None)));
    assert_eq!(parse_name(&journal_name(4, 2)), Some((4, Some(2))));
    for name in ["manifest-4", "manifest-00000004-2", "manifest-00000004.tmp", "manifest"] {
        assert_eq!(parse_name(name), None, "{name}");
    }
}

fn checkpoint() -> Checkpoint {
    let catalog = CatalogMark { generation: 3, checksum: 9 };
    let start = Some(RunStart { shards: 2, catalog, obsolete: vec![ID] });
    Checkpoint { epoch: 6, start, sstables: vec![summary(), summary()] }
}

#[test]
fn a_checkpoint_reads_back_and_a_damaged_one_does_not() {
    let bytes = encode_checkpoint(&checkpoint());
    assert_eq!(decode_checkpoint(6, &bytes).unwrap(), checkpoint());
    assert!(decode_checkpoint(7, &bytes).is_err());
    for length in 0..bytes.len() {
        assert!(decode_checkpoint(6, &bytes[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_checkpoint(6, &bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_checkpoint_of_the_first_version_is_read() {
    let mut bytes = b"SANDMAN1".to_vec();
    bytes.extend(6_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    summary().encode(&mut bytes);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    let expected = Checkpoint { epoch: 6, start: None, sstables: vec![summary()] };
    assert_eq!(decode_checkpoint(6, &bytes).unwrap(), expected);
}

/// A journal, the changes of each of its records, and where these end.
fn journal() -> (Vec<u8>, Vec<Vec<Change>>, Vec<usize>) {
    let records = vec![
        vec![Change::Begun],
        vec![Change::Add(vec![summary(), summary()]), Change::Flushed { floor: 4, sequence: 90 }],
        vec![Change::Remove(vec![ID]), Change::LogEnd(LogEnd { segment: 5, sequence: 99 })],
        vec![Change::Catalog(CatalogMark { generation: 4, checksum: 1 })],
        vec![Change::Add(vec![])],
    ];
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for changes in &records {
        encode_record(6, 1, bytes.len() as u64, changes, &mut bytes);
        ends.push(bytes.len());
    }
    (bytes, records, ends)
}

#[test]
fn a_journal_cut_anywhere_keeps_the_records_before_the_cut() {
    let (mut bytes, records, ends) = journal();
    for length in 0..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let read = read_journal(6, 1, &bytes[..length], false).ok();
        let expected = (whole > 0).then(|| records[..whole].concat());
        assert_eq!(read, expected, "cut at {length}");
        assert_eq!(read_journal(6, 1, &bytes[..length], true).unwrap(), records[..whole].concat());
    }
    assert!(read_journal(6, 2, &bytes, false).is_err(), "a journal of another shard");
    bytes.resize(bytes.len() + 64, 0);
    assert_eq!(read_journal(6, 1, &bytes, false).unwrap(), records.concat(), "zeros are no change");
}

#[test]
fn damage_before_the_last_record_of_a_journal_is_refused_with_its_place() {
    let (bytes, records, ends) = journal();
    let last = ends[ends.len() - 2];
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = read_journal(6, 1, &bytes, false);
        if bit / 8 >= last {
            assert_eq!(read.unwrap(), records[..records.len() - 1].concat(), "bit {bit}");
            continue;
        }
        let begins = ends.iter().rev().find(|end| **end <= bit / 8).copied().unwrap_or(0);
        let error = read.expect_err("damaged").to_string();
        assert!(error.contains(&format!("at byte {begins}:")), "bit {bit}: {error}");
    }
}

#[test]
fn a_journal_of_the_first_version_is_read() {
    let mut bytes = Vec::new();
    let changes = [Change::Add(vec![summary()]), Change::Flushed { floor: 1, sequence: 2 }];
    for change in &changes {
        encode_record(6, 1, bytes.len() as u64, std::slice::from_ref(change), &mut bytes);
    }
    assert_eq!(read_journal(6, 1, &bytes, true).unwrap(), changes);
}

/// Opens a directory, and begins a run in it.
fn begin(disk: &SimDisk) -> Result<(Catalog, CatalogFile)> {
    let (mut lock, mut files) = (disk.files(), disk.files());
    let mut sequential = Sequential(&mut *files);
    let mut found = FoundDirectory::read(&mut *lock, &mut sequential)?;
    let run = found.begin_run(&mut sequential, 1)?;
    run.commit(&mut sequential, &found, Vec::new(), &std::collections::BTreeSet::new())?;
    let journal = Journal::open(&mut sequential, run.epoch, super::manifest::NO_SHARD)?;
    Ok((found.take_catalog(), CatalogFile::new(files, journal, run.catalog)))
}

/// Whether the schema was replaced before the power went.
fn replace(file: &mut CatalogFile, catalog: &Catalog) -> bool {
    let mut replacement = Replacement::begin(file, catalog);
    let mut completions = Vec::new();
    for _ in 0..1_000 {
        file.poll(&mut completions);
        for completion in completions.drain(..) {
            match replacement.proceed(file, completion) {
                Ok(false) => {}
                Ok(true) => return true,
                Err(_) => return false,
            }
        }
    }
    false
}

/// Schemas that differ, one after the other.
fn schema(number: u32) -> Catalog {
    let number = format!("\"next_table\": {number}");
    let json = Catalog::default().to_json().replacen("\"next_table\": 1", &number, 1);
    Catalog::from_json(&json).unwrap()
}

#[test]
fn a_schema_that_was_acknowledged_survives_a_power_cut_at_any_call() {
    let mut acknowledged_last = 0;
    for seed in 0..12 {
        for call in 0.. {
            let disk = SimDisk::new(seed);
            let (_, mut file) = begin(&disk).unwrap();
            disk.set_fault(Fault::PowerCut(disk.calls() + call));
            let mut acknowledged = 1;
            while acknowledged < 5 && replace(&mut file, &schema(acknowledged + 1)) {
                acknowledged += 1;
            }
            drop(file);
            if disk.is_off() {
                acknowledged_last += u32::from(acknowledged > 1);
            }
            let crashed = disk.crash(seed ^ call);
            let (found, _) = begin(&crashed).expect("it opens after a crash");
            let numbers = acknowledged..=acknowledged + 1;
            assert!(
                numbers.contains(&found.next_table),
                "seed {seed}, power cut at call {call}: {} of {acknowledged}",
                found.next_table
            );
            if !disk.is_off() {
                break;
            }
        }
    }
    assert!(acknowledged_last > 100, "{acknowledged_last} cuts after a change");
}

#[test]
fn a_schema_that_is_put_back_is_refused() {
    let disk = SimDisk::new(1);
    let (_, mut file) = begin(&disk).unwrap();
    let mut catalogs = vec![disk.contents()["catalog"].clone()];
    for number in 2..5 {
        assert!(replace(&mut file, &schema(number)));
        catalogs.push(disk.contents()["catalog"].clone());
    }
    drop(file);
    let newest = catalogs.pop().unwrap();
    for older in catalogs {
        let mut contents = disk.contents();
        assert_eq!(contents.insert("catalog".into(), older).unwrap(), newest);
        let error = begin(&SimDisk::with(1, contents)).err().unwrap().to_string();
        assert!(error.starts_with("catalog: it is catalog"), "{error}");
    }
    assert_eq!(begin(&SimDisk::with(1, disk.contents())).unwrap().0.next_table, 4);
}

/// A power cut at any moment: a snapshot and what is restored of it are whole, or nobody takes them
/// for what they are not.
#[test]
fn a_snapshot_and_a_restored_directory_are_whole_once_they_have_a_format() {
    let name = ID.file_name();
    let make = |disk: &SimDisk, restores: bool| -> Result<()> {
        let mut files = disk.files();
        let files = &mut Sequential(&mut *files);
        if !restores {
            files.write_file(&name, Vec::new())?;
            return complete_snapshot(files, &Catalog::default(), vec![summary()]);
        }
        complete_restored(files)
    };
    let mut copied = SimDisk::new(1);
    make(&copied, false).unwrap();
    let mut of_snapshot = copied.contents();
    of_snapshot.remove("FORMAT");
    for restores in [false, true] {
        let (mut cut_off, mut calls) = (0, 0);
        for call in 0.. {
            copied = SimDisk::with(call, of_snapshot.clone());
            let disk = if restores { &copied } else { &SimDisk::new(call) };
            disk.set_fault(Fault::PowerCut(call));
            let is_over = make(disk, restores).is_ok();
            for seed in 0..10 {
                let after = disk.crash(seed);
                let (mut files, contents) = (after.files(), after.contents());
                match Survey::read(&mut Sequential(&mut *files)) {
                    Ok(found) => {
                        assert!(found.run.sstables.contains_key(&ID), "call {call}, seed {seed}");
                        assert!(contents.contains_key(&name) && contents.contains_key("catalog"));
                        assert_eq!(contents.contains_key("LOCK"), restores, "call {call}");
                    }
                    Err(refused) => {
                        assert!(!is_over, "call {call}, seed {seed}: {refused}");
                        assert!(!contents.contains_key("FORMAT"), "{refused}");
                        cut_off += 1;
                    }
                }
            }
            calls = call;
            if is_over {
                break;
            }
        }
        assert!(calls > 8 && cut_off > 50, "{calls} calls, {cut_off} of them cut off");
    }
}
