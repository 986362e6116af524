//! The frozen formats: the examples of `docs/format` are what the code writes, byte by byte.

#![allow(clippy::unwrap_used)]

use sandglass_db::{
    commitlog::{
        CommitLog, EntryKind, LARGE_WRITE_BYTES, LogConfig, Preparation, Sector, SectorId,
        SegmentId, entries, read_sector,
    },
    io::{FileId, Operation, Outcome, TimeSlice},
    mutation::{Builder, TableNumber, Write, token},
};

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The example of docs/format/mutation.md.
const MUTATION: &str = "
    2c 00 00 00  05 00 00 00  89 78 59 f6 65 55 55 85  01 00 61
    01 00 00 16 00 00 00
    01 01 00 00 00 00 00 00 00  01 00
    02 00 00 04 00 00 00 00 00 00 07";

fn mutation() -> Vec<u8> {
    let mut out = Vec::new();
    let mut builder = Builder::new(&mut out, TableNumber(5), token::token(b"a"), b"a");
    let write = Write { timestamp: 1, ttl_s: 0, now_s: 0 };
    builder.row(b"", &write, true).cell(2, &7_i32.to_be_bytes());
    builder.finish().unwrap();
    out
}

#[test]
fn a_mutation_is_as_documented() {
    assert_eq!(mutation(), bytes(MUTATION));
}

#[test]
fn a_segment_of_the_log_is_as_documented() {
    let segment = SegmentId { epoch: 1, shard: 0, number: 0 };
    let segment_bytes = 16 << 20;
    let mut preparation = Preparation::of_new_file(segment, segment_bytes, 16 << 20);
    let mut beginning = Vec::new();
    let prepared = loop {
        let mut outcome = Outcome::Done;
        match preparation.operation() {
            Operation::CreateDurable { .. } => {
                outcome = Outcome::Created { file: FileId(0), block_bytes: 512 };
            }
            Operation::Write { buffer, .. } => beginning = buffer.as_slice().to_vec(),
            _ => {}
        }
        if let Some(prepared) = preparation.over(&outcome) {
            break prepared;
        }
    };
    let header = bytes(
        "46 d8 84 40  00 00 00 00  00 00 00 00 00 00 00 00  00 00  01 00  10 00 00 00
         53 41 4e 44 4c 4f 47 32  00 00 00 01 00 00 00 00",
    );
    assert_eq!(beginning[..header.len()], header);
    assert_eq!(beginning.len(), 512);

    let mut log = CommitLog::new(
        1,
        0,
        LogConfig {
            segment_bytes,
            bytes_max: 1 << 30,
            staged_bytes_max: 1 << 20,
            large_bytes: LARGE_WRITE_BYTES,
        },
        prepared,
    );
    log.stage_write(0, &mutation()).unwrap();
    let Operation::Write { buffer, .. } = log.submit(&mut TimeSlice::endless()).unwrap().operation
    else {
        panic!()
    };
    let block = buffer.as_slice();
    let header = bytes(
        "dc c2 7a 86  00 00 00 00  01 00 00 00 00 00 00 00  00 00  01 00  35 00 00 00
         01  30 00 00 00",
    );
    assert_eq!(block[..header.len()], header);
    assert_eq!(block[header.len()..header.len() + 48], mutation());
    assert!(block[header.len() + 48..].iter().all(|byte| *byte == 0));
    assert_eq!(block.len(), 512);

    let sector = read_sector(block.first_chunk().unwrap(), segment);
    let Sector::Written(id, payload) = sector else { panic!() };
    assert_eq!(id, SectorId { sequence: 1, index: 0, sectors: 1, bytes: 53 });
    let entry = entries(payload).next().unwrap();
    assert_eq!((entry.kind, entry.mutations), (EntryKind::Write, &mutation()[..]));
}
