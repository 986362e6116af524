//! The frozen formats: the examples of `docs/format` are what the code writes, byte by byte.

#![allow(clippy::unwrap_used)]

use sandglass_db::{
    commitlog::{CommitLog, EntryKind, LogConfig, Parsed, SegmentId, entries, parse_block},
    io::{FileId, Operation},
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
fn a_block_of_the_log_is_as_documented() {
    let mut log = CommitLog::new(1, 0, LogConfig { segment_bytes: 1 << 20 }, FileId(0));
    log.stage_write(0, &mutation()).unwrap();
    let Operation::Write { buffer, .. } = log.submit().unwrap().operation else { panic!() };
    let block = buffer.as_slice();
    let header = bytes(
        "35 00 00 00  09 d9 d5 ba  01 00 00 00  00 00  01 00  00 00 00 00  00 00 00 00
         01 00 00 00 00 00 00 00  01  30 00 00 00",
    );
    assert_eq!(block[..header.len()], header);
    assert_eq!(block[header.len()..header.len() + 48], mutation());
    assert!(block[header.len() + 48..].iter().all(|byte| *byte == 0));
    assert_eq!(block.len(), 4096);

    let segment = SegmentId { epoch: 1, shard: 0, number: 0 };
    let Parsed::Block { sequence, payload, .. } = parse_block(block, segment) else { panic!() };
    assert_eq!(sequence, 1);
    let entry = entries(payload).next().unwrap();
    assert_eq!((entry.kind, entry.mutations), (EntryKind::Write, &mutation()[..]));
}
