//! Durable writes that the shard's own thread carries out, and those that it does not.

use super::*;

/// A file of zeros for durable writes, and the smallest write that its device takes, in bytes.
fn with_log(directory: &Path) -> (DiskFiles, FileId, usize) {
    let mut files = opened_at(directory);
    let created = run(&mut files, Operation::CreateDurable { name: "log".into() });
    let Outcome::Created { file, block_bytes } = created.result.unwrap() else { panic!() };
    run(&mut files, Operation::Fill { file, offset: 0, bytes: 1 << 20 }).result.unwrap();
    (files, file, block_bytes)
}

fn write_of(file: FileId, offset: usize, content: &[u8]) -> Operation {
    Operation::Write { file, offset: offset as u64, buffer: buffer(content), durable: true }
}

fn written(directory: &Path, offset: usize, bytes: usize) -> Vec<u8> {
    fs::read(directory.join("log")).unwrap()[offset..offset + bytes].to_vec()
}

/// Asks until an operation is over.
fn polled(files: &mut DiskFiles) -> Completion {
    let mut out = Vec::new();
    while out.is_empty() {
        files.poll(&mut out);
        thread::yield_now();
    }
    assert_eq!(out.len(), 1);
    out.remove(0)
}

#[test]
fn one_is_carried_out_where_the_shard_would_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file, bytes) = with_log(folder.path());
    assert!(!files.rest(true), "nothing is kept");
    let content = vec![7; bytes];
    let ticket = files.submit_alone(write_of(file, bytes, &content));
    assert_eq!(written(folder.path(), bytes, bytes), vec![0; bytes], "it is kept");
    assert!(files.rest(true));
    assert_eq!(written(folder.path(), bytes, bytes), content);
    let over = polled(&mut files);
    assert_eq!((over.ticket, over.buffer.unwrap().as_slice()), (ticket, content.as_slice()));
    assert_eq!((over.result.unwrap(), files.own_writes()), (Outcome::Done, 1));
    assert!(!files.rest(true), "it is over");
}

#[test]
fn one_is_handed_over_where_the_shard_has_more_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file, bytes) = with_log(folder.path());
    let content = vec![7; bytes];
    let ticket = files.submit_alone(write_of(file, 0, &content));
    assert!(!files.rest(false));
    let over = polled(&mut files);
    assert_eq!((over.ticket, over.result.unwrap()), (ticket, Outcome::Done));
    assert_eq!((written(folder.path(), 0, bytes), files.own_writes()), (content, 0));
}

#[test]
fn one_that_nobody_asked_for_is_carried_out_by_whoever_polls_or_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file, bytes) = with_log(folder.path());
    let ticket = files.submit_alone(write_of(file, 0, &vec![1; bytes]));
    assert_eq!(polled(&mut files).ticket, ticket);
    let ticket = files.submit_alone(write_of(file, bytes, &vec![2; bytes]));
    let mut out = Vec::new();
    files.wait(&mut out);
    assert_eq!((out.len(), out[0].ticket), (1, ticket));
    files.submit_alone(write_of(file, 2 * bytes, &vec![3; bytes]));
    drop(files);
    let expected: Vec<u8> = [1, 2, 3].iter().flat_map(|byte| vec![*byte; bytes]).collect();
    assert_eq!(written(folder.path(), 0, 3 * bytes), expected);
}

#[test]
fn one_that_fails_says_so_and_gives_its_buffer_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, _, bytes) = with_log(folder.path());
    // A file that was opened for reading alone takes no writes.
    let file = File::open(folder.path().join("log")).unwrap();
    let file = files.keep(NamedFile::pinned(folder.path().join("log"), file));
    files.submit_alone(write_of(file, 0, &vec![7; bytes]));
    assert!(files.rest(true));
    let over = polled(&mut files);
    assert_eq!(over.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(over.buffer.unwrap().as_slice(), vec![7; bytes]);
}

#[test]
fn after_a_slow_one_and_of_several_the_helper_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let (mut files, file, bytes) = with_log(folder.path());
    let tickets = [0, 1].map(|at| files.submit_alone(write_of(file, at * bytes, &vec![7; bytes])));
    files.rest(true);
    let mut out = Vec::new();
    while out.len() < 2 {
        files.poll(&mut out);
    }
    assert!(tickets.iter().all(|ticket| out.iter().any(|over| over.ticket == *ticket)));
    assert_eq!(files.own_writes(), 1, "the second was not kept");
    // No device takes as much as this within a turn, nor is its pause over in the next moment.
    let large = vec![7; 64 << 20];
    run(&mut files, Operation::Fill { file, offset: 0, bytes: large.len() }).result.unwrap();
    run(&mut files, write_of(file, 0, &large)).result.unwrap();
    files.submit_alone(write_of(file, 0, &vec![7; bytes]));
    files.rest(true);
    assert_eq!(polled(&mut files).result.unwrap(), Outcome::Done);
    assert_eq!(files.own_writes(), 1, "the device is slow");
}
