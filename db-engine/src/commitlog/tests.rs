use std::collections::BTreeMap;

use super::{replay::Replay, *};
use crate::{
    error::{Error, Result},
    io::{ALIGNMENT, FileId, Operation, Outcome, SECTOR_BYTES},
};

mod staging;
use staging::{CONFIG, submit};

const SEGMENT_BYTES: u64 = 72 << 10;
const ID: SegmentId = SegmentId { epoch: 3, shard: 1, number: 0 };

/// Four of these fill a segment.
const LARGE: [u8; 15 << 10] = [1; 15 << 10];

/// A log with the files that it would have.
struct Run {
    log: CommitLog,
    block_bytes: usize,
    /// By name, and the names of those that are open.
    files: BTreeMap<String, Vec<u8>>,
    open: Vec<String>,
}

impl Run {
    fn new(block_bytes: usize) -> Self {
        Self::with(block_bytes, CONFIG)
    }

    fn with(block_bytes: usize, config: LogConfig) -> Self {
        let (files, open) = (BTreeMap::new(), Vec::new());
        let none = PreparedSegment { file: FileId(0), block_bytes };
        let log = CommitLog::new(ID.epoch, ID.shard, config, none);
        let mut run = Self { log, block_bytes, files, open };
        let first = run.prepare(Preparation::of_new_file(ID, SEGMENT_BYTES, 16 << 10));
        run.log = CommitLog::new(ID.epoch, ID.shard, config, first);
        run
    }

    fn carry_out(&mut self, operation: Operation) -> Outcome {
        let id = FileId(u32::try_from(self.open.len()).unwrap());
        match operation {
            Operation::CreateDurable { name } => {
                self.files.insert(name.clone(), Vec::new());
                self.open.push(name);
                return Outcome::Created { file: id, block_bytes: self.block_bytes };
            }
            Operation::OpenDurable { name } => {
                self.open.push(name);
                return Outcome::Opened { file: id, bytes: SEGMENT_BYTES };
            }
            Operation::Fill { file, offset, bytes } => self.put(file, offset, &vec![0; bytes]),
            Operation::Write { file, offset, buffer, .. } => {
                self.put(file, offset, buffer.as_slice());
            }
            Operation::Rename { from, to } => {
                let bytes = self.files.remove(&from).unwrap();
                self.files.insert(to.clone(), bytes);
                for name in self.open.iter_mut().filter(|name| **name == from) {
                    name.clone_from(&to);
                }
            }
            Operation::SyncDirectory => {}
            other => panic!("{other:?}"),
        }
        Outcome::Done
    }

    fn put(&mut self, file: FileId, offset: u64, bytes: &[u8]) {
        let contents = self.files.get_mut(&self.open[file.0 as usize]).unwrap();
        let at = usize::try_from(offset).unwrap();
        contents.resize(contents.len().max(at + bytes.len()), 0);
        contents[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn prepare(&mut self, mut preparation: Preparation) -> PreparedSegment {
        loop {
            let outcome = self.carry_out(preparation.operation());
            if let Some(prepared) = preparation.over(&outcome) {
                return prepared;
            }
        }
    }

    /// Makes the next segment ready.
    fn next_segment(&mut self) {
        let preparation = self.log.prepare_segment().expect("none is ready");
        let prepared = self.prepare(preparation);
        self.log.segment_ready(prepared);
    }

    /// Writes the next block, and returns in which segment it is and where.
    fn write_block(&mut self) -> Option<(u32, u64)> {
        let Operation::Write { file, offset, buffer, .. } = submit(&mut self.log)?.operation else {
            panic!("a block is written");
        };
        self.put(file, offset, buffer.as_slice());
        let (block, _, segment) = self.log.written(buffer);
        self.log.recycle(block);
        Some((segment, offset))
    }

    /// Writes this in a block of its own, in the next segment if need be.
    fn write(&mut self, mutations: &[u8]) {
        self.log.stage_write(0, mutations).unwrap();
        while !self.log.is_idle() {
            self.write_block().expect("the next segment is ready, if need be");
        }
    }

    fn segment(&self, number: u32) -> &[u8] {
        &self.files[&SegmentId { number, ..ID }.name()]
    }
}

/// A log of one segment with these writes, each in a block of its own.
fn segment(block_bytes: usize, writes: &[&[u8]]) -> Vec<u8> {
    let mut run = Run::new(block_bytes);
    for mutations in writes {
        run.write(mutations);
    }
    run.segment(0).to_vec()
}

/// What is replayed of these segments, and that nothing is missing.
fn replayed_from(floor: u32, segments: &[(u32, &[u8])]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut replay = Replay::new(ID.epoch, ID.shard, floor);
    for (number, bytes) in segments {
        replay.segment(*number, bytes, |_, payload| {
            let writes = entries(payload).filter(|entry| entry.kind == EntryKind::Write);
            found.extend(writes.map(|entry| entry.mutations.to_vec()));
            Ok(())
        })?;
    }
    replay.finish(LogEnd::default())?;
    Ok(found)
}

fn replayed(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    replayed_from(0, &[(0, bytes)])
}

/// Where it is refused.
fn refused(result: Result<Vec<Vec<u8>>>) -> (String, u64) {
    match result {
        Err(Error::Corrupt { path, offset, .. }) => (path.to_str().unwrap().to_string(), offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_are_read_back() {
    let id = SegmentId { epoch: 12, shard: 3, number: 456 };
    assert_eq!(SegmentId::of_name(&id.name()), Some(id));
    for other in ["log-1-2", "log-1-2-3-4", "log-01-2-3", "log-1-2-+3", "sst-1-2-3", "log-1-2-"] {
        assert_eq!(SegmentId::of_name(other), None, "{other}");
    }
    assert!(SegmentId::is_new_name(&id.new_name()) && !SegmentId::is_new_name(&id.name()));
    assert_eq!(SegmentId::of_name(&id.new_name()), None);
}

#[test]
fn what_is_written_is_replayed_in_order() {
    for (block_bytes, used) in [(SECTOR_BYTES, 22 * SECTOR_BYTES), (ALIGNMENT, 6 * ALIGNMENT)] {
        let bytes = segment(block_bytes, &[b"one", &[7; 9000], b"three"]);
        let expected = [b"one".to_vec(), vec![7; 9000], b"three".to_vec()];
        assert_eq!(replayed(&bytes).unwrap(), expected);
        assert!(bytes[used..].iter().all(|byte| *byte == 0), "blocks are no longer than need be");
        assert_ne!(bytes[used - SECTOR_BYTES..used], [0; SECTOR_BYTES]);
    }
}

#[test]
fn a_block_holds_what_is_staged_while_another_is_on_its_way() {
    let mut log = Run::new(SECTOR_BYTES).log;
    log.stage_write(1, b"a").unwrap();
    let first = submit(&mut log).unwrap();
    log.stage_write(2, b"b").unwrap();
    log.stage_intent(3, b"c").unwrap();
    assert!(submit(&mut log).is_none(), "one block at a time");
    let Operation::Write { buffer, .. } = first.operation else { panic!() };
    assert_eq!(log.written(buffer).0.tags(), [1]);
    let Operation::Write { buffer, .. } = submit(&mut log).unwrap().operation else { panic!() };
    let (block, sequence, segment) = log.written(buffer);
    assert_eq!((block.tags(), sequence, segment), (&[2, 3][..], 2, 0));
    let kinds: Vec<_> = block.entries().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Write, EntryKind::Intent { id: 1 }]);
}

/// Every sector of the last block there or not, over zeros and over what an earlier segment held.
#[test]
fn any_part_of_the_last_block_ends_the_log_quietly() {
    for block_bytes in [SECTOR_BYTES, ALIGNMENT] {
        for writes in 0..3 {
            let mut run = Run::new(block_bytes);
            if writes == 2 {
                fill_and_release(&mut run);
            }
            let number = run.log.current_segment();
            (0..writes).for_each(|_| run.write(b"acknowledged"));
            let before = run.segment(number).to_vec();
            let written = replayed_from(number, &[(number, &before)]).unwrap().len();
            run.log.stage_write(0, &[7; 2_400]).unwrap();
            let (_, offset) = run.write_block().unwrap();
            let (whole, at) = (run.segment(number).to_vec(), usize::try_from(offset).unwrap());
            let length = 2_405_usize.div_ceil(SECTOR_PAYLOAD_BYTES) * SECTOR_BYTES;
            let parts = length.next_multiple_of(block_bytes) / SECTOR_BYTES;
            for there in 0..1_u32 << parts {
                let mut bytes = before.clone();
                for part in (0..parts).filter(|part| there >> part & 1 == 1) {
                    let sector = at + part * SECTOR_BYTES..at + (part + 1) * SECTOR_BYTES;
                    bytes[sector.clone()].copy_from_slice(&whole[sector]);
                }
                let is_whole = there + 1 == 1 << parts;
                let found = replayed_from(number, &[(number, &bytes)]).unwrap();
                assert_eq!(found.len(), written + usize::from(is_whole), "{there:b}");
            }
        }
    }
}

/// Writes two segments, releases the first and begins to use its file as the third.
fn fill_and_release(run: &mut Run) {
    run.next_segment();
    (0..5).for_each(|_| run.write(&LARGE));
    assert_eq!(run.log.release(1), []);
    run.next_segment();
    (0..4).for_each(|_| run.write(&LARGE));
    assert_eq!(run.log.current_segment(), 2);
}

#[test]
fn a_file_that_is_used_again_gives_back_nothing_old() {
    for block_bytes in [SECTOR_BYTES, ALIGNMENT] {
        let mut run = Run::new(block_bytes);
        fill_and_release(&mut run);
        assert!(!run.files.contains_key(&ID.name()), "its file has another name");
        let at = 3 * LARGE.len() + 32;
        assert_eq!(run.segment(2)[at..at + 64], [1; 64], "and holds what it held");
        let third = |run: &Run| replayed_from(2, &[(2, run.segment(2))]).unwrap();
        assert_eq!(third(&run), [LARGE.to_vec()]);
        run.write(b"new");
        assert_eq!(third(&run), [LARGE.to_vec(), b"new".to_vec()]);
        let both = replayed_from(1, &[(1, run.segment(1)), (2, run.segment(2))]).unwrap();
        assert_eq!(both.len(), 6);
    }
}

#[test]
fn every_byte_that_differs_is_refused_with_its_place() {
    for block_bytes in [SECTOR_BYTES, ALIGNMENT] {
        let mut run = Run::new(block_bytes);
        fill_and_release(&mut run);
        let whole = run.segment(2).to_vec();
        for at in (0..whole.len()).step_by(7).chain(0..2 * SECTOR_BYTES) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let (name, offset) = refused(replayed_from(2, &[(2, &bytes)]));
            let sector = (at / SECTOR_BYTES * SECTOR_BYTES) as u64;
            assert_eq!(name, "log-3-1-2", "byte {at}");
            assert!([sector, 0].contains(&offset), "byte {at}: {offset}");
        }
    }
}

#[test]
fn a_segment_that_is_cut_short_is_refused() {
    let whole = segment(SECTOR_BYTES, &[b"one", b"two"]);
    for length in (0..whole.len()).step_by(SECTOR_BYTES / 2) {
        assert_eq!(refused(replayed(&whole[..length])).0, "log-3-1-0", "{length} bytes");
    }
    let longer = [&whole[..], &[0; SECTOR_BYTES]].concat();
    refused(replayed(&longer));
}

#[test]
fn a_block_that_is_gone_before_a_whole_one_is_refused() {
    for old in [false, true] {
        let mut run = Run::new(SECTOR_BYTES);
        let mut number = 0;
        if old {
            fill_and_release(&mut run);
            number = 2;
        }
        let before = run.segment(number).to_vec();
        for text in ["one", "two", "three"] {
            run.write(text.as_bytes());
        }
        let whole = run.segment(number).to_vec();
        let places = whole.iter().zip(&before).enumerate();
        let first = places.filter(|(_, (now, then))| now != then).map(|(at, _)| at).next().unwrap();
        let one = first / SECTOR_BYTES * SECTOR_BYTES;
        let two = one + SECTOR_BYTES;
        for (gone, offset) in [(one..two, one), (two..two + SECTOR_BYTES, two)] {
            let mut bytes = whole.clone();
            bytes[gone.clone()].copy_from_slice(&before[gone]);
            let result = replayed_from(number, &[(number, &bytes)]);
            assert_eq!(refused(result).1, offset as u64);
        }
    }
}

#[test]
fn a_segment_that_is_missing_is_refused() {
    let mut run = Run::new(SECTOR_BYTES);
    for (number, writes) in [(0, 4), (1, 3), (2, 3)] {
        run.next_segment();
        (0..writes).for_each(|_| run.write(&LARGE));
        run.log.stage_write(0, &LARGE).unwrap();
        // Its last block says that another follows. The first block of that is not there yet.
        assert_eq!(run.write_block().unwrap().0, number);
        assert_eq!(run.write_block().unwrap().0, number + 1);
    }
    let all: Vec<(u32, &[u8])> = (0..4).map(|number| (number, run.segment(number))).collect();
    assert_eq!(replayed_from(0, &all).unwrap().len(), 13);
    assert_eq!(replayed_from(2, &all[2..]).unwrap().len(), 5);
    for missing in 0..4 {
        let rest: Vec<_> = all.iter().copied().filter(|one| one.0 != missing).collect();
        let name = SegmentId { number: missing, ..ID }.name();
        assert_eq!(refused(replayed_from(0, &rest)), (name, 0));
    }
    assert_eq!(refused(replayed_from(0, &[])).0, "log-3-1-0");
}

#[test]
fn a_segment_that_is_ready_but_not_used_is_not_missed() {
    let mut run = Run::new(SECTOR_BYTES);
    run.next_segment();
    run.write(b"one");
    assert_eq!(replayed(run.segment(0)).unwrap(), [b"one"]);
    let both = [(0, run.segment(0)), (1, run.segment(1))];
    assert_eq!(replayed_from(0, &both).unwrap(), [b"one"]);
}

#[test]
fn blocks_after_the_end_of_the_log_are_refused() {
    let mut run = Run::new(SECTOR_BYTES);
    fill_and_release(&mut run);
    // The last block of the second segment, which says that it goes on, is as if never written.
    let mut second = run.segment(1).to_vec();
    let last = second.chunks(SECTOR_BYTES).rposition(|sector| sector[0..4] != [0; 4]).unwrap();
    second[last * SECTOR_BYTES..(last + 1) * SECTOR_BYTES].fill(0);
    let result = replayed_from(1, &[(1, &second), (2, run.segment(2))]);
    assert_eq!(refused(result), ("log-3-1-1".into(), (last * SECTOR_BYTES) as u64));
}

#[test]
fn what_belongs_to_another_log_is_refused() {
    let bytes = segment(SECTOR_BYTES, &[b"one"]);
    for other in [SegmentId { epoch: 4, ..ID }, SegmentId { shard: 0, ..ID }] {
        let mut replay = Replay::new(other.epoch, other.shard, 0);
        assert!(replay.segment(0, &bytes, |_, _| panic!("nothing is applied")).is_err());
    }
    refused(replayed_from(1, &[(1, &bytes)]));
}

#[test]
fn a_block_that_does_not_fit_goes_to_the_next_segment() {
    let mut run = Run::new(SECTOR_BYTES);
    let preparation = run.log.prepare_segment().unwrap();
    assert_eq!(preparation.id(), SegmentId { number: 1, ..ID });
    assert!(run.log.prepare_segment().is_none());
    (0..4).for_each(|_| run.write(&LARGE));
    run.log.stage_write(0, &LARGE).unwrap();
    assert!(submit(&mut run.log).is_none(), "the next segment is not there yet");
    assert!(run.log.is_waiting());
    let prepared = run.prepare(preparation);
    run.log.segment_ready(prepared);
    assert_eq!(run.write_block().unwrap().0, 0, "the last block of the segment says so");
    assert_eq!(run.write_block().unwrap(), (1, SECTOR_BYTES as u64));
    assert_eq!(replayed_from(1, &[(1, run.segment(1))]).unwrap(), [LARGE.to_vec()]);
}

#[test]
fn a_new_segment_is_made_in_small_steps_and_early() {
    let segment_bytes = 16 << 20;
    let mut preparation = Preparation::of_new_file(ID, segment_bytes, FILL_BYTES);
    let (mut filled, mut used_bytes) = (0, 0);
    loop {
        while !preparation.is_due(used_bytes) {
            used_bytes += SECTOR_BYTES as u64;
            assert!(filled >= 2 * (used_bytes - SECTOR_BYTES as u64), "no faster than need be");
        }
        let outcome = match preparation.operation() {
            Operation::CreateDurable { name } => {
                assert_eq!(name, ID.new_name());
                Outcome::Created { file: FileId(9), block_bytes: SECTOR_BYTES }
            }
            Operation::Fill { offset, bytes, .. } => {
                assert!(offset == filled && bytes <= 256 << 10, "{bytes} at {offset}");
                filled += bytes as u64;
                Outcome::Done
            }
            _ => Outcome::Done,
        };
        if preparation.over(&outcome).is_some() {
            break;
        }
    }
    assert_eq!(filled, segment_bytes);
    assert!(used_bytes <= segment_bytes / 2, "half of the segment before is left: {used_bytes}");
}

#[test]
fn without_space_what_cannot_be_written_is_said_and_the_rest_refused() {
    let mut run = Run::new(SECTOR_BYTES);
    let preparation = run.log.prepare_segment().unwrap();
    (0..4).for_each(|_| run.write(&LARGE));
    run.log.stage_write(8, &LARGE).unwrap();
    run.log.stage_write(9, b"small").unwrap();
    let unwritten = |tag| Unwritten { tag, is_intent: false };
    assert_eq!(run.log.segment_failed(true), [8, 9].map(unwritten));
    assert_eq!(run.log.stage_write(0, &LARGE), Err(NotStaged::NoSpace));
    let prepared = run.prepare(preparation);
    run.log.segment_ready(prepared);
    run.write(&LARGE);
}

#[test]
fn without_space_an_intent_that_is_durable_stays_open_and_a_new_one_does_not_happen() {
    let mut run = Run::new(ALIGNMENT);
    let preparation = run.log.prepare_segment().unwrap();
    run.log.stage_intent(7, b"of two shards").unwrap();
    run.write_block().unwrap();
    (0..3).for_each(|_| run.write(&LARGE));
    run.log.stage_write(7, &LARGE).unwrap();
    run.log.stage_intent(8, b"another").unwrap();
    let unwritten = [(7, false), (8, true)];
    let unwritten = unwritten.map(|(tag, is_intent)| Unwritten { tag, is_intent });
    assert_eq!(run.log.segment_failed(true), unwritten);
    let prepared = run.prepare(preparation);
    run.log.segment_ready(prepared);
    run.write(&LARGE);
    assert_eq!(run.log.floor_with(None), 0, "the first intent is open");
    run.log.intent_done(7);
    assert_eq!(run.log.floor_with(None), 1, "the second is not");
}

#[test]
fn a_segment_is_released_when_no_row_and_no_intent_needs_it() {
    let mut run = Run::new(SECTOR_BYTES);
    run.log.stage_intent(7, &LARGE).unwrap();
    run.write_block().unwrap();
    for _ in 0..2 {
        run.next_segment();
        (0..4).for_each(|_| run.write(&LARGE));
    }
    assert_eq!(run.log.current_segment(), 2);
    assert_eq!(run.log.floor_with(None), 0, "the intent is open");
    run.log.intent_done(7);
    assert_eq!(run.log.floor_with(Some(0)), 0);
    assert_eq!(run.log.floor_with(Some(1)), 1);
    assert_eq!(run.log.floor_with(None), 2);
    assert_eq!(run.log.release(2), [], "their files are used again");
    assert_eq!((run.log.segments(), run.log.floor()), (3, 2));
}

#[test]
fn a_released_segment_is_removed_if_the_log_is_as_long_as_it_may_be() {
    let mut run = Run::new(SECTOR_BYTES);
    run.write(&LARGE);
    for _ in 0..18 {
        run.next_segment();
        (0..4).for_each(|_| run.write(&LARGE));
    }
    assert!(run.log.is_long());
    let removed = run.log.release(18);
    assert_eq!(removed.first(), Some(&ID));
    assert!(run.log.bytes() <= CONFIG.bytes_max, "{} bytes", run.log.bytes());
    assert!(!run.log.is_long());
}

#[test]
fn a_log_that_ends_before_where_it_had_once_come_is_refused() {
    let mut run = Run::new(SECTOR_BYTES);
    run.next_segment();
    (0..4).for_each(|_| run.write(&LARGE));
    let newest = [0, 1, 1].map(|blocks| {
        (0..blocks).for_each(|_| run.write(&LARGE));
        run.segment(1).to_vec()
    });
    let is_whole = |floor, newest: &[u8], (segment, sequence)| {
        let mut replay = Replay::new(ID.epoch, ID.shard, floor);
        for (bytes, number) in [run.segment(0), newest].into_iter().zip(0..).skip(floor as usize) {
            replay.segment(number, bytes, |_, _| Ok(())).unwrap();
        }
        replay.finish(LogEnd { segment, sequence }).is_ok()
    };
    for (floor, blocks) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        let found = [(1, 7), (1, 6), (0, 5)].map(|end| is_whole(floor, &newest[blocks], end));
        assert_eq!(found, [blocks == 2, blocks > 0, true], "{blocks} blocks, from {floor} on");
    }
}
