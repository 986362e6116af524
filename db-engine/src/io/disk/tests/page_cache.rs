//! Reads that are done at once, and those that are not.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::io::Errno;

use super::*;
use crate::io::page_cache::ReadCached;

/// How many bytes the file of a test has.
const FILE_BYTES: usize = 1 << 20;

fn content(offset: usize, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes).map(|at| u8::try_from(at / 7 % 251).unwrap()).collect()
}

/// A file in memory, as all are that were written just now.
fn with_file(directory: &Path) -> (DiskFiles, FileId) {
    let mut files = opened_at(directory);
    let file = opened(&run(&mut files, Operation::Create { name: "a".into() }));
    let buffer = buffer(&content(0, FILE_BYTES));
    run(&mut files, Operation::Write { file, offset: 0, buffer, durable: false }).result.unwrap();
    (files, file)
}

fn read_of(file: FileId, offset: usize, bytes: usize) -> Operation {
    Operation::Read { file, offset: offset as u64, bytes, buffer: Buffer::default() }
}

fn check(over: Completion, offset: usize, bytes: usize) {
    assert_eq!(over.result.unwrap(), Outcome::Read);
    assert_eq!(over.buffer.unwrap().as_slice(), content(offset, bytes));
}

#[test]
fn what_is_in_memory_is_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file) = with_file(folder.path());
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let ring: Ring = Arc::new(move || {
        counter.fetch_add(1, Relaxed);
    });
    files.page_cache = PageCacheReads::new(&ring);
    let tickets = [5, 5000].map(|offset| files.submit(read_of(file, offset, 300)));
    assert_eq!((files.reads_at_once(), count.load(Relaxed)), (2, 1), "nobody sleeps over them");
    let mut out = Vec::new();
    files.poll(&mut out);
    assert_eq!([out[0].ticket, out[1].ticket], tickets);
    for (over, offset) in out.drain(..).zip([5, 5000]) {
        check(over, offset, 300);
    }
    files.poll(&mut out);
    assert!(out.is_empty());
}

/// A read that may not wait leaves anything in the buffer, and gives this.
fn gives(buffer: &mut [u8], result: Result<usize, Errno>) -> Result<usize, Errno> {
    buffer.fill(0xee);
    result
}

#[test]
fn what_is_not_in_memory_is_read_by_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file) = with_file(folder.path());
    let attempts: [ReadCached; 6] = [
        |_, buffer, _| gives(buffer, Ok(299)),
        |_, buffer, _| gives(buffer, Ok(0)),
        |_, buffer, _| gives(buffer, Err(Errno::AGAIN)),
        |_, buffer, _| gives(buffer, Err(Errno::INTR)),
        |_, buffer, _| gives(buffer, Err(Errno::IO)),
        |_, buffer, _| gives(buffer, Err(Errno::BADF)),
    ];
    let usual = files.page_cache.read;
    for (attempt, before) in attempts.into_iter().zip(0..) {
        files.page_cache.read = attempt;
        check(run(&mut files, read_of(file, 70, 300)), 70, 300);
        assert_eq!(files.reads_at_once(), before, "by the helper");
        files.page_cache.read = usual;
        check(run(&mut files, read_of(file, 70, 300)), 70, 300);
        assert_eq!(files.reads_at_once(), before + 1, "it is tried again");
    }
}

#[test]
fn where_nothing_tells_what_is_in_memory_the_helper_reads_all() {
    let attempts: [ReadCached; 4] = [
        |_, buffer, _| gives(buffer, Err(Errno::OPNOTSUPP)),
        |_, buffer, _| gives(buffer, Err(Errno::INVAL)),
        |_, buffer, _| gives(buffer, Err(Errno::NOSYS)),
        |_, buffer, _| gives(buffer, Err(Errno::PERM)),
    ];
    for attempt in attempts {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, file) = with_file(folder.path());
        let usual = files.page_cache.read;
        files.page_cache.read = attempt;
        check(run(&mut files, read_of(file, 70, 300)), 70, 300);
        files.page_cache.read = usual;
        check(run(&mut files, read_of(file, 0, 4000)), 0, 4000);
        assert_eq!(files.reads_at_once(), 0, "it is not tried again");
    }
}

#[test]
fn the_end_of_a_file_is_found_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file) = with_file(folder.path());
    check(run(&mut files, read_of(file, FILE_BYTES - 10, 100)), FILE_BYTES - 10, 10);
    check(run(&mut files, read_of(file, FILE_BYTES, 100)), FILE_BYTES, 0);
    assert_eq!(files.reads_at_once(), 0);
}

#[test]
fn what_is_read_at_once_between_two_polls_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file) = with_file(folder.path());
    let bytes = 100 << 10;
    for round in 1..=3 {
        let tickets =
            [0, 1, 2, 3, 4].map(|place| files.submit(read_of(file, place * bytes, bytes)));
        assert_eq!(files.reads_at_once(), 2 * round);
        let mut out = Vec::new();
        while out.len() < tickets.len() {
            files.wait(&mut out);
        }
        for over in out {
            let place = tickets.iter().position(|ticket| *ticket == over.ticket).unwrap();
            check(over, place * bytes, bytes);
        }
    }
    check(run(&mut files, read_of(file, 0, 300 << 10)), 0, 300 << 10);
    assert_eq!(files.reads_at_once(), 6, "one that is longer than that is the helper's");
}

#[test]
fn a_read_that_fails_fails_as_it_would_by_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    for is_supported in [false, true] {
        let (mut files, file) = with_file(folder.path());
        if !is_supported {
            files.page_cache.read = |_, _, _| Err(Errno::OPNOTSUPP);
        }
        let far = Operation::Read { file, offset: u64::MAX, bytes: 3, buffer: Buffer::default() };
        let error = run(&mut files, far).result.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        // Durable files are written past the page cache, and are not read.
        let created = run(&mut files, Operation::CreateDurable { name: "log".into() });
        let Outcome::Created { file: log, .. } = created.result.unwrap() else { panic!() };
        let error = run(&mut files, read_of(log, 0, 3)).result.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        check(run(&mut files, read_of(file, 70, 300)), 70, 300);
        assert_eq!(files.reads_at_once(), u64::from(is_supported), "others are read as before");
    }
}

#[test]
fn a_file_that_has_given_its_descriptor_away_gets_it_back_by_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, first) = with_file(folder.path());
    run(&mut files, Operation::Sync { file: first }).result.unwrap();
    let names = || (0..20).map(|number| format!("other {number}"));
    for name in names() {
        let file = opened(&run(&mut files, Operation::Create { name }));
        run(&mut files, Operation::Sync { file }).result.unwrap();
    }
    for reads_at_once in [0, 1, 2] {
        check(run(&mut files, read_of(first, 70, 300)), 70, 300);
        assert_eq!(files.reads_at_once(), reads_at_once);
    }
}
