//! An index that is read as there is time for it.

use super::{FOOTER_BYTES, ID, file, open, read_footer};
use crate::{
    io::{ManualClock, TimeSlice},
    sstable::{Index, IndexReader},
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
