//! What is staged, and the memory that it takes.

use super::{super::*, Run, SEGMENT_BYTES};
use crate::io::{Operation, SECTOR_BYTES, TimeSlice};

/// Limits of logs.
pub(super) const CONFIG: LogConfig = LogConfig {
    segment_bytes: SEGMENT_BYTES,
    bytes_max: 1 << 20,
    staged_bytes_max: usize::MAX,
    large_bytes: LARGE_WRITE_BYTES,
};

/// The next block, whatever time it takes to make it ready.
pub(super) fn submit(log: &mut CommitLog) -> Option<Submitted> {
    log.submit(&mut TimeSlice::endless())
}

#[test]
fn limits_are_kept() {
    let mut log = Run::new(SECTOR_BYTES).log;
    let largest = vec![0; CONFIG.write_bytes_max()];
    assert_eq!(log.stage_write(0, &[largest.clone(), vec![0]].concat()), Err(NotStaged::TooLarge));
    log.stage_write(0, &largest).unwrap();
    assert_eq!(log.stage_write(0, &largest), Err(NotStaged::Full));
    assert!(log.memory_bytes() <= 2 * CONFIG.block_bytes_max());
}

#[test]
fn of_a_large_write_no_memory_is_kept_and_little_is_staged_behind_it() {
    let mut run = Run::with(SECTOR_BYTES, LogConfig { staged_bytes_max: 4 << 10, ..CONFIG });
    let large = vec![0; CONFIG.write_bytes_max()];
    run.log.stage_write(0, &large).unwrap();
    assert_eq!(run.log.stage_write(1, &[0]), Err(NotStaged::Full), "it goes alone");
    let Operation::Write { buffer, .. } =
        run.log.submit(&mut TimeSlice::endless()).unwrap().operation
    else {
        panic!("the block is written");
    };
    assert!(run.log.memory_bytes() >= 2 * large.len(), "what is written is a copy");
    run.log.stage_write(2, &[0; 2 << 10]).unwrap();
    assert_eq!(run.log.stage_write(3, &[0; 2 << 10]), Err(NotStaged::Full));
    let (block, ..) = run.log.written(buffer);
    run.log.recycle(block);
    assert!(run.log.memory_bytes() <= 8 << 10, "{} bytes", run.log.memory_bytes());
}
