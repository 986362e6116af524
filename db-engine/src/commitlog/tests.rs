use super::{replay::Replay, *};
use crate::{
    error::{Error, Result},
    io::{Buffer, FileId, Operation},
};

const SEGMENT_BYTES: u64 = 64 << 10;
const ID: SegmentId = SegmentId { epoch: 3, shard: 1, number: 0 };

fn log() -> CommitLog {
    CommitLog::new(3, 1, LogConfig { segment_bytes: SEGMENT_BYTES }, FileId(0))
}

/// Writes the next block and returns the file, the offset and the bytes it went to.
fn write(log: &mut CommitLog) -> (FileId, u64, Vec<u8>) {
    let submitted = log.submit().expect("something is staged");
    let Operation::Write { file, offset, buffer, .. } = submitted.operation else {
        panic!("a block is written");
    };
    let bytes = buffer.as_slice().to_vec();
    let (block, _) = log.written(buffer);
    log.recycle(block);
    (file, offset, bytes)
}

/// A segment with these writes, each in a block of its own.
fn segment(writes: &[&[u8]]) -> Vec<u8> {
    let mut log = log();
    let mut bytes = vec![0; usize::try_from(SEGMENT_BYTES).unwrap()];
    for mutations in writes {
        log.stage_write(0, mutations).unwrap();
        let (_, offset, block) = write(&mut log);
        let offset = usize::try_from(offset).unwrap();
        bytes[offset..offset + block.len()].copy_from_slice(&block);
    }
    bytes
}

fn replayed(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    Replay::new(ID.epoch, ID.shard, 0).segment(0, bytes, |_, payload| {
        found.extend(entries(payload).map(|entry| entry.mutations.to_vec()));
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn names_are_read_back() {
    let id = SegmentId { epoch: 12, shard: 3, number: 456 };
    assert_eq!(SegmentId::of_name(&id.name()), Some(id));
    for other in ["log-1-2", "log-1-2-3-4", "log-01-2-3", "log-1-2-+3", "sst-1-2-3", "log-1-2-"] {
        assert_eq!(SegmentId::of_name(other), None, "{other}");
    }
}

#[test]
fn what_is_written_is_replayed_in_order() {
    let bytes = segment(&[b"one", &[7; 9000], b"three"]);
    assert_eq!(replayed(&bytes).unwrap(), [b"one".to_vec(), vec![7; 9000], b"three".to_vec()]);
}

#[test]
fn a_block_holds_what_is_staged_while_another_is_on_its_way() {
    let mut log = log();
    log.stage_write(1, b"a").unwrap();
    let first = log.submit().unwrap();
    log.stage_write(2, b"b").unwrap();
    log.stage_intent(3, b"c").unwrap();
    assert!(log.submit().is_none(), "one block at a time");
    let Operation::Write { buffer, .. } = first.operation else { panic!() };
    assert_eq!(log.written(buffer).0.tags(), [1]);
    let Operation::Write { buffer, .. } = log.submit().unwrap().operation else { panic!() };
    let (block, sequence) = log.written(buffer);
    assert_eq!((block.tags(), sequence), (&[2, 3][..], 2));
    let kinds: Vec<_> = block.entries().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Write, EntryKind::Intent { id: 1 }]);
}

#[test]
fn a_torn_last_block_ends_the_log_quietly() {
    let whole = segment(&[b"one", &[7; 9000]]);
    let first = BLOCK_ALIGNMENT;
    for sector in 0..18 {
        let mut bytes = whole.clone();
        bytes[first + sector * 512..first + (sector + 1) * 512].fill(0);
        assert_eq!(replayed(&bytes).unwrap(), [b"one"], "sector {sector}");
    }
}

#[test]
fn a_damaged_block_before_a_whole_one_is_refused_with_its_place() {
    let whole = segment(&[b"one", b"two", b"three"]);
    for bit in (0..(HEADER_BYTES + ENTRY_HEADER_BYTES + 3) * 8).chain([8 * 5000]) {
        let mut bytes = whole.clone();
        bytes[BLOCK_ALIGNMENT + bit / 8] ^= 1 << (bit % 8);
        if bit / 8 >= HEADER_BYTES + ENTRY_HEADER_BYTES + 3 {
            assert_eq!(replayed(&bytes).unwrap().len(), 3, "padding does not matter");
            continue;
        }
        match replayed(&bytes) {
            Err(Error::Corrupt { path, offset: 4096, .. }) => {
                assert_eq!(path.to_str(), Some("log-3-1-0"), "bit {bit}");
            }
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn a_hole_of_zeros_before_a_whole_block_is_refused() {
    let mut bytes = segment(&[b"one", b"two", b"three"]);
    bytes[BLOCK_ALIGNMENT..2 * BLOCK_ALIGNMENT].fill(0);
    assert!(matches!(replayed(&bytes), Err(Error::Corrupt { offset: 4096, .. })));
}

#[test]
fn a_block_of_another_segment_is_not_taken_for_data() {
    let bytes = segment(&[b"one"]);
    for id in
        [SegmentId { epoch: 4, ..ID }, SegmentId { shard: 0, ..ID }, SegmentId { number: 1, ..ID }]
    {
        assert_eq!(parse_block(&bytes, id), Parsed::Torn);
    }
}

#[test]
fn a_missing_segment_is_refused_if_anything_follows() {
    let mut replay = Replay::new(ID.epoch, ID.shard, 0);
    replay.segment(0, &segment(&[b"one"]), |_, _| Ok(())).unwrap();
    replay.segment(2, &[0; 8192], |_, _| Ok(())).unwrap();
    let mut block = Block::default();
    block.push(EntryKind::Write, b"late", Some(1));
    block.seal(SegmentId { number: 3, ..ID }, 9);
    let bytes = block.take_buffer();
    let refused = replay.segment(3, bytes.as_slice(), |_, _| panic!("nothing is applied"));
    match refused {
        Err(Error::Corrupt { path, .. }) => assert_eq!(path.to_str(), Some("log-3-1-1")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_block_that_does_not_fit_goes_to_the_next_segment() {
    let mut log = log();
    let large = vec![1; 15 << 10];
    assert_eq!(log.wants_segment(), Some(SegmentId { number: 1, ..ID }));
    log.segment_begun();
    assert_eq!(log.wants_segment(), None);
    for _ in 0..4 {
        log.stage_write(0, &large).unwrap();
        assert_eq!(write(&mut log).0, FileId(0));
    }
    log.stage_write(0, &large).unwrap();
    assert!(log.submit().is_none(), "the next segment is not there yet");
    log.segment_ready(FileId(1));
    let (file, offset, bytes) = write(&mut log);
    assert_eq!((file, offset), (FileId(1), 0));
    let parsed = parse_block(&bytes, SegmentId { number: 1, ..ID });
    assert!(matches!(parsed, Parsed::Block { sequence: 5, .. }), "{parsed:?}");
}

#[test]
fn without_space_what_cannot_be_written_is_said_and_the_rest_refused() {
    let mut log = log();
    let large = vec![1; 15 << 10];
    log.segment_begun();
    for _ in 0..4 {
        log.stage_write(0, &large).unwrap();
        write(&mut log);
    }
    log.stage_write(8, &large).unwrap();
    log.stage_write(9, b"small").unwrap();
    let unwritten = |tag| Unwritten { tag, is_intent: false };
    assert_eq!(log.segment_failed(), [8, 9].map(unwritten));
    assert_eq!(log.stage_write(0, b"small"), Err(NotStaged::NoSpace));
    log.segment_ready(FileId(1));
    log.stage_write(0, b"small").unwrap();
}

#[test]
fn without_space_an_intent_that_is_durable_stays_open_and_a_new_one_does_not_happen() {
    let mut log = log();
    log.segment_begun();
    log.stage_intent(7, b"of two shards").unwrap();
    write(&mut log);
    for _ in 0..3 {
        log.stage_write(0, &[1; 15 << 10]).unwrap();
        write(&mut log);
    }
    log.stage_write(7, &[1; 15 << 10]).unwrap();
    log.stage_intent(8, b"another").unwrap();
    let unwritten = [(7, false), (8, true)];
    let unwritten = unwritten.map(|(tag, is_intent)| Unwritten { tag, is_intent });
    assert_eq!(log.segment_failed(), unwritten);
    log.segment_ready(FileId(1));
    log.stage_write(0, &[1; 15 << 10]).unwrap();
    write(&mut log);
    assert_eq!(log.floor_after(log.last_sequence()), 0, "the first intent is open");
    log.intent_done(7);
    assert_eq!(log.floor_after(log.last_sequence()), 1, "the second is not");
}

#[test]
fn limits_are_kept() {
    let mut log = log();
    let config = LogConfig { segment_bytes: SEGMENT_BYTES };
    let largest = vec![0; config.write_bytes_max()];
    assert_eq!(log.stage_write(0, &[largest.clone(), vec![0]].concat()), Err(NotStaged::TooLarge));
    log.stage_write(0, &largest).unwrap();
    assert_eq!(log.stage_write(0, &largest), Err(NotStaged::Full));
    assert!(log.pending_bytes() <= config.block_bytes_max());
}

#[test]
fn a_segment_is_released_when_it_is_flushed_and_its_intents_are_done() {
    let mut log = log();
    log.stage_intent(7, &[1; 15 << 10]).unwrap();
    let buffer = Buffer::default();
    drop(buffer);
    write(&mut log);
    for segment in 1..3 {
        log.segment_ready(FileId(segment));
        for _ in 0..4 {
            log.stage_write(0, &[1; 15 << 10]).unwrap();
            write(&mut log);
        }
    }
    let flushed = log.last_sequence();
    assert_eq!(log.floor_after(flushed), 0, "the intent is open");
    log.intent_done(7);
    assert_eq!(log.floor_after(flushed), 2);
    assert_eq!(log.floor_after(4), 1);
    assert_eq!(log.floor_after(3), 0);
    assert_eq!(log.release(2), [ID, SegmentId { number: 1, ..ID }]);
    assert_eq!(log.segments(), 1);
}
