//! An index that is read as there is time for it.

use super::{Deletion, FOOTER_BYTES, ID, TABLE, ck, file, open, read_footer, row};
use crate::{
    io::{ManualClock, Random, TimeSlice},
    mutation::{RangeDeletion, Token},
    sstable::{Index, IndexReader, Writer},
};

/// Reads the index of a file in slices of one unit of work; gives how many it took.
fn read(bytes: &[u8]) -> std::io::Result<(Index, usize)> {
    let at = bytes.len() - FOOTER_BYTES;
    let footer = read_footer(ID, bytes.len() as u64, &bytes[at..])?;
    let start = usize::try_from(footer.index.offset).unwrap();
    let clock = ManualClock::ticking(0, 1);
    let mut reader = IndexReader::new(footer);
    for steps in 1.. {
        let mut time = TimeSlice::new(&clock, 0);
        if let Some(index) = reader.step(&bytes[start..at], &mut time)? {
            return Ok((index, steps));
        }
    }
    unreachable!("it ends")
}

#[test]
fn an_index_that_is_read_bit_by_bit_is_the_same() {
    // Of one block, of several in a partition, and with a filter of several parts.
    for (partitions, rows, steps_min) in [(1, 1, 3), (3, 5_000, 15), (20_000, 1, 30)] {
        let (bytes, _) = file(partitions, rows);
        let (index, steps) = read(&bytes).unwrap();
        assert_eq!(format!("{index:?}"), format!("{:?}", open(&bytes).unwrap().1));
        assert!(steps >= steps_min, "{partitions} partitions: {steps}");
    }
}

#[test]
fn no_bit_of_an_index_can_be_flipped_unnoticed() {
    let (bytes, _) = file(5_000, 1);
    let footer = read_footer(ID, bytes.len() as u64, &bytes[bytes.len() - FOOTER_BYTES..]).unwrap();
    let start = usize::try_from(footer.index.offset).unwrap();
    for at in (start..bytes.len() - FOOTER_BYTES).step_by(997) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 1 << (at % 8);
        let error = read(&spoilt).unwrap_err();
        assert!(error.to_string().contains("checksum of the index"), "{at}: {error}");
    }
}

/// A file of some large rows among small ones, and in how many steps its long blocks were closed:
/// none if that is left to the entries behind them.
fn large_rows(seed: u64, bit_by_bit: bool) -> (Vec<u8>, usize) {
    const DELETION: Deletion = Deletion { timestamp: 1, deleted_s: 1 };
    let clock = ManualClock::ticking(0, 1);
    let (mut random, mut steps) = (Random(seed), 0);
    let mut writer = Writer::new(ID, TABLE, 5).with_block_bytes(500);
    let mut bytes = Vec::new();
    for partition in 0..6 {
        let deletion = (random.below(3) == 0).then_some(DELETION);
        writer.partition(Token(partition * 10), &partition.to_be_bytes(), deletion);
        for number in 0..u32::try_from(random.below(5)).unwrap() {
            if random.below(4) == 0 {
                let (from, to) = (&ck(number), &[&ck(number)[..], &[0]].concat());
                writer.range(RangeDeletion { from, to, deletion: DELETION });
            }
            let length = random.one_of(&[0, 10, 1_000, 3_000, 20_000]);
            let spread = random.one_of(&[1, 3, 256]);
            let value: Vec<_> =
                (0..length).map(|_| random.below(spread).to_le_bytes()[0]).collect();
            writer.row(&ck(number), &row(9, 0, &value));
            let was_long = writer.has_long_block();
            while bit_by_bit && !writer.close_long_block(&mut TimeSlice::new(&clock, 0)) {
                steps += 1;
            }
            assert_eq!(writer.has_long_block(), was_long && !bit_by_bit);
        }
        bytes.append(writer.output());
    }
    bytes.extend(writer.finish().1);
    (bytes, steps)
}

#[test]
fn a_file_whose_long_blocks_are_closed_bit_by_bit_is_the_same() {
    let mut all_steps = 0;
    for seed in 0..200 {
        let (bit_by_bit, steps) = large_rows(seed, true);
        assert!(bit_by_bit == large_rows(seed, false).0, "seed {seed}");
        open(&bit_by_bit).unwrap();
        all_steps += steps;
    }
    assert!(all_steps > 5_000, "{all_steps} steps");
}
