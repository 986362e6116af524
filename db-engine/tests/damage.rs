//! Whatever is done to one file of a directory: it opens whole, or it is refused as it was.
//!
//! A small directory has lived through runs with one and two shards, flushes, deletions of all
//! kinds, static rows, elements, counters, fields of user-defined types, changes of the schema and
//! a crash. Then every byte of its files is flipped, every file is removed, cut at every byte, and
//! put back to all that it ever was. Afterwards every row is there and right, or the engine says
//! which file it refuses and what to do, and has not touched the directory. Blocks of sstables are
//! judged when they are read: then the read is refused.
//!
//! One thing cannot be told from a crash: a segment of the log that was put back, after the engine
//! was killed, to what it was since the last flush of its shard. Then rows are as they were at that
//! moment.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use sandglass_db::{
    commitlog::SegmentId,
    directory::manifest::journal_name,
    io::{
        ALIGNMENT, Clock, Descriptors, ManualClock, Random, SECTOR_BYTES,
        disk::{DiskFiles, Ring},
        sim::{Fault, SimDisk},
    },
    sstable::SstableId,
};
use simulated::{
    KEPT, START_US, key,
    life::{Contents, Life, REMEDIES, Version, open_on},
};

/// A directory that was used with one shard and then with two, and whose engine was killed.
fn small() -> Life {
    let mut life = Life::new();
    life.run(1, 3, 4, true);
    life.run(2, 3, 4, false);
    life.run(2, 3, 4, false);
    life
}

/// Judges a directory with one file damaged: whether it opened.
fn opens(life: &Life, contents: &Contents, what: &str) -> bool {
    life.judge(contents, &[life.all_rows()], what).is_some()
}

/// The bytes of a file that are worth damaging: of zeros, one in so many.
fn places(bytes: &[u8], step: usize) -> impl Iterator<Item = usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (0..used).step_by(step).chain((used..bytes.len()).step_by(509))
}

fn is_log(name: &str) -> bool {
    name.starts_with("log-")
}

/// Puts a file back to all that it ever was: which rows it had then, if it opened.
fn put_back(life: &Life, whole: &Contents, name: &str) -> Vec<Option<usize>> {
    let versions = life.versions.get(name).into_iter().flatten().enumerate();
    let judge = |(number, version): (usize, &Version)| {
        let mut damaged = whole.clone();
        damaged.insert(name.to_owned(), version.bytes.clone());
        let may_be = may_be(life, name, number);
        life.judge(&damaged, &may_be, &format!("{name}: put back to version {number}"))
    };
    versions.map(judge).collect()
}

/// The rows that may be found when a file is put back to this version: all; or those of that
/// moment, if it is the last segment with blocks and nothing tells it from a crash then.
fn may_be(life: &Life, name: &str, number: usize) -> Vec<BTreeSet<u32>> {
    let mut may_be = vec![life.all_rows()];
    let Some(segment) = SegmentId::of_name(name).filter(|_| !life.is_stopped) else {
        return may_be;
    };
    // A flush or a compaction counts once the journal knows of its sstables.
    let journal = &life.versions[&journal_name(segment.epoch, segment.shard)].last().unwrap().bytes;
    let is_recorded = |name: &str| {
        let id = SstableId::from_file_name(name);
        id.is_some_and(|SstableId { epoch, shard, sequence }| {
            let numbers =
                [&epoch.to_le_bytes()[..], &shard.to_le_bytes(), &sequence.to_le_bytes()].concat();
            journal.windows(numbers.len()).any(|part| part == numbers)
        })
    };
    let sstables = life.versions.iter().filter(|(name, _)| is_recorded(name));
    let flushed = sstables.map(|(_, versions)| versions.last().unwrap().since).max();
    let has_later_blocks = life.versions.iter().any(|(name, versions)| {
        let log = SegmentId::of_name(name).filter(|log| log.shard == segment.shard);
        log.is_some_and(|log| log > segment) && versions.len() > 1
    });
    if has_later_blocks {
        return may_be;
    }
    let next = life.versions[name].get(number + 1);
    if let Some(next) = next.filter(|next| next.since > flushed.unwrap_or(0)) {
        // The next version may have the last write that was sent until then, or none.
        let is_later = |writes| move |place, shard| place >= writes && shard == segment.shard;
        may_be.extend(
            [next.writes - 1, next.writes].map(|writes| life.rows_without(is_later(writes))),
        );
    }
    may_be
}

fn damage_everything(life: &Life, whole: &Contents, step: usize) {
    assert!(opens(life, whole, "nothing"), "it opens if nothing is done to it");
    let (mut opened, mut refused) = (0, 0);
    let mut count = |is_open| if is_open { opened += 1 } else { refused += 1 };
    for (name, bytes) in whole {
        let mut damaged = whole.clone();
        damaged.remove(name);
        count(opens(life, &damaged, &format!("{name} removed")));
        for at in places(bytes, step) {
            let mut random = Random(at as u64);
            let mut damaged = whole.clone();
            damaged.get_mut(name).unwrap()[at] ^= 1 << random.below(8);
            count(opens(life, &damaged, &format!("{name}: byte {at} flipped")));
            let mut damaged = whole.clone();
            damaged.get_mut(name).unwrap().truncate(at);
            count(opens(life, &damaged, &format!("{name}: cut at {at}")));
        }
        for which in put_back(life, whole, name) {
            count(which.is_some());
        }
    }
    assert!(refused > 100 && opened > 10, "{refused} refused, {opened} opened");
}

#[test]
fn one_damaged_file_of_a_run_never_costs_or_revives_a_row() {
    let life = small();
    let whole = life.disk.contents();
    let count = |prefix: &str| whole.keys().filter(|name| name.starts_with(prefix)).count();
    assert!(count("sst-") > 3 && count("log-") > 1, "{:?}", whole.keys());
    assert_eq!(count("manifest-"), 4, "a checkpoint and three journals");
    damage_everything(&life, &whole, 1);
}

#[test]
fn one_damaged_file_between_two_runs_never_costs_or_revives_a_row() {
    let life = small();
    damage_everything(&life, &life.between_two_checkpoints(), 7);
}

#[test]
fn a_file_that_is_put_back_costs_no_row_of_before_the_last_flush_or_stop() {
    let cases = [(0, true, 1), (0, false, 0), (6, true, 5), (6, false, 5)];
    for (number, (batches, is_stopped, least)) in cases.repeat(2).into_iter().enumerate() {
        let mut life = Life::new();
        life.disk.set_block_bytes(if number < cases.len() { SECTOR_BYTES } else { ALIGNMENT });
        life.run(1, 1, 7, true);
        life.run(2, batches, 14, is_stopped);
        let whole = life.disk.contents();
        let logs: Vec<_> = whole.keys().filter(|name| is_log(name)).collect();
        let mut found = [0; 3];
        for name in whole.keys() {
            for which in put_back(&life, &whole, name) {
                found[which.map_or(2, |which| which.min(1))] += usize::from(is_log(name));
            }
        }
        for name in &logs {
            for other in logs.iter().filter(|other| *other != name) {
                for version in &life.versions[*other] {
                    let mut damaged = whole.clone();
                    damaged.insert((*name).clone(), version.bytes.clone());
                    let what = format!("{name} is {other} of moment {}", version.since);
                    opens(&life, &damaged, &what);
                }
            }
        }
        let [whole, earlier, refused] = found;
        assert!(whole >= 2 && refused >= least, "{whole} whole, {refused} refused");
        assert_eq!(earlier > 0, !is_stopped, "{earlier} of an earlier moment");
    }
}

#[test]
fn a_directory_that_was_just_made_is_not_taken_for_another() {
    let life = small();
    for call in 0..60 {
        let disk = SimDisk::new(call);
        disk.set_fault(Fault::PowerCut(call));
        drop(open_on(|| disk.files(), &life.clock, 1));
        let disk = disk.crash(call);
        let opened = open_on(|| disk.files(), &life.clock, 1);
        assert!(opened.is_ok(), "power cut at call {call}: {:?}", opened.err());
    }
}

#[test]
fn a_refused_directory_of_a_real_disk_stays_as_it_was() {
    let life = small();
    let whole = life.disk.contents();
    for (name, bytes) in &whole {
        for change in ["removed", "flipped", "cut"] {
            let folder = tempfile::tempdir().unwrap();
            let mut damaged = whole.clone();
            match change {
                "removed" => drop(damaged.remove(name)),
                "flipped" => {
                    let bytes = damaged.get_mut(name).unwrap();
                    bytes.iter_mut().take(20).for_each(|byte| *byte ^= 4);
                }
                _ => damaged.get_mut(name).unwrap().truncate(bytes.len() / 3),
            }
            for (name, bytes) in &damaged {
                fs::write(folder.path().join(name), bytes).unwrap();
            }
            let ring: Ring = Arc::new(|| ());
            let descriptors = Arc::new(Descriptors::new(100, Arc::default()));
            let disk = || DiskFiles::open(folder.path(), &descriptors, &ring).unwrap();
            let files = || Box::new(disk()) as Box<_>;
            let opened = open_on(files, &life.clock, 2);
            let what = format!("{name} {change}");
            let check = || assert!(contents_of(folder.path()) == damaged, "{what}: changed");
            life.judge_opened(opened, &[life.all_rows()], &what, check);
        }
    }
}

fn contents_of(folder: &Path) -> Contents {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (named(&path), fs::read(&path).unwrap())).collect()
}

/// A directory that an engine of the first version left when it was killed.
fn first_version() -> Contents {
    let mut contents = contents_of(Path::new("tests/first_version"));
    for (_, bytes) in contents.iter_mut().filter(|(name, _)| is_log(name)) {
        // Its segments are filled with zeros, which are not kept here.
        bytes.resize(16 << 20, 0);
    }
    contents
}

#[test]
fn a_directory_of_the_first_version_opens_whole() {
    let clock = Arc::new(ManualClock::at(START_US + 1_000_000));
    let disk = SimDisk::with(1, first_version());
    for _ in 0..2 {
        let mut opened = open_on(|| disk.files(), &clock, 2).unwrap();
        let rows = simulated::rows(&mut opened.stores, KEPT, clock.now_us() / 1_000_000);
        let written = (0..140).filter(|number| !simulated::expires(*number));
        let expected: BTreeSet<Vec<u8>> = written.map(|number| key(number).to_vec()).collect();
        let found = rows.into_keys().filter(|key| key != simulated::SHARED_KEY).collect();
        assert_eq!(expected, found);
    }
    assert_eq!(disk.contents()["FORMAT"][8], 2);
}

#[test]
fn a_directory_of_the_first_version_without_its_schema_or_manifest_is_refused_as_it_was() {
    let clock = Arc::new(ManualClock::at(START_US + 1_000_000));
    for name in ["catalog", "manifest-00000002", "sst-00000001-0000-00000000", "FORMAT", "LOCK"] {
        let mut contents = first_version();
        contents.remove(name).unwrap();
        let disk = SimDisk::with(1, contents.clone());
        let error = open_on(|| disk.files(), &clock, 2).err().expect(name).to_string();
        assert!(REMEDIES.iter().any(|remedy| error.contains(remedy)), "{error}");
        assert!(disk.contents() == contents, "{name}");
    }
}

/// Files of another kind are left alone, and those that look like ours but cannot be explained
/// make the directory one to be looked at.
#[test]
fn a_file_that_cannot_be_explained_is_kept_or_refused() {
    let life = small();
    let with = |name: &str| {
        let mut contents = life.disk.contents();
        contents.insert(name.to_owned(), vec![7; 40]);
        contents
    };
    for name in ["notes.txt", "sst-1-2-3", "manifest-7.bak", "log-1-0", "catalog.old"] {
        let disk = SimDisk::with(1, with(name));
        assert!(open_on(|| disk.files(), &life.clock, 2).is_ok(), "{name}");
        assert_eq!(disk.contents()[name], [7; 40], "{name}");
    }
    let unexplained = ["sst-00000001-0000-00000099", "sst-00000009-0000-00000000", "log-9-0-0"];
    for name in unexplained {
        assert!(!opens(&life, &with(name), name), "{name} is refused");
    }
}

#[test]
fn ids_of_sstables_do_not_repeat_after_an_opening_that_did_not_end() {
    let life = small();
    let is_new = |name: &String| name.starts_with("sst-") && name.contains("-65535-");
    let old: BTreeSet<String> = life.disk.contents().into_keys().collect();
    let mut openings = 0;
    for call in 0.. {
        let disk = SimDisk::with(call, life.disk.contents());
        disk.set_fault(Fault::PowerCut(call));
        drop(open_on(|| disk.files(), &life.clock, 2));
        if !disk.is_off() {
            break;
        }
        let names = disk.contents().into_keys().filter(|name| is_new(name));
        let first: BTreeSet<String> = names.filter(|name| !old.contains(name)).collect();
        let is_uncommitted = disk
            .contents()
            .keys()
            .filter(|name| name.starts_with("manifest-"))
            .all(|name| name.len() != 17 || old.contains(name));
        if first.is_empty() || !is_uncommitted {
            continue;
        }
        openings += 1;
        let disk = disk.crash(call);
        let _stores = open_on(|| disk.files(), &life.clock, 2).unwrap();
        let again = disk.contents().into_keys().find(|name| first.contains(name));
        assert_eq!(again, None, "power cut at call {call}");
    }
    assert!(openings > 3, "{openings} openings");
}
