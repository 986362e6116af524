mod own_writes;
mod page_cache;

use super::*;

fn ring() -> Ring {
    Arc::new(|| {})
}

fn opened_at(directory: &Path) -> DiskFiles {
    let descriptors = Arc::new(Descriptors::new(8, Arc::default()));
    DiskFiles::open(directory, &descriptors, &ring()).unwrap()
}

fn run(files: &mut DiskFiles, operation: Operation) -> Completion {
    let ticket = files.submit(operation);
    let mut out = Vec::new();
    files.wait(&mut out);
    let completion = out.pop().unwrap();
    assert_eq!(completion.ticket, ticket);
    completion
}

fn opened(completion: &Completion) -> FileId {
    match completion.result.as_ref().unwrap() {
        Outcome::Opened { file, .. } => *file,
        other => panic!("{other:?}"),
    }
}

fn buffer(bytes: &[u8]) -> Buffer {
    let mut buffer = Buffer::default();
    buffer.extend(bytes);
    buffer
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("new/data");
    let mut files = opened_at(&directory);
    let name = || "a".to_string();
    let file = opened(&run(&mut files, Operation::Create { name: name() }));
    let write = Operation::Write { file, offset: 2, buffer: buffer(b"hello"), durable: false };
    run(&mut files, write).result.unwrap();
    run(&mut files, Operation::Sync { file }).result.unwrap();
    let read = Operation::Read { file, offset: 3, bytes: 100, buffer: Buffer::default() };
    assert_eq!(run(&mut files, read).buffer.unwrap().as_slice(), b"ello");
    run(&mut files, Operation::Rename { from: name(), to: "b".into() }).result.unwrap();
    run(&mut files, Operation::SyncDirectory).result.unwrap();
    let space = run(&mut files, Operation::FreeSpace).result.unwrap();
    assert!(matches!(space, Outcome::Space { bytes: 1_000.. }), "{space:?}");
    let names = run(&mut files, Operation::List).result.unwrap();
    assert_eq!(names, Outcome::Names(vec!["b".into()]));
    assert!(run(&mut files, Operation::Open { name: name() }).result.is_err());
}

#[test]
fn a_filled_file_is_zeros_and_takes_durable_writes_of_single_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = opened_at(folder.path());
    let created = run(&mut files, Operation::CreateDurable { name: "log".into() });
    let Outcome::Created { file, block_bytes } = created.result.unwrap() else { panic!() };
    assert!([SECTOR_BYTES, ALIGNMENT].contains(&block_bytes), "{block_bytes}");
    for piece in 0..3 {
        let fill = Operation::Fill { file, offset: piece << 20, bytes: 1 << 20 };
        run(&mut files, fill).result.unwrap();
    }
    let mut write = |file, block: usize| {
        let buffer = buffer(&vec![7; block_bytes]);
        let offset = (block * block_bytes) as u64;
        run(&mut files, Operation::Write { file, offset, buffer, durable: true }).result.unwrap();
    };
    write(file, 1);
    write(file, 3);
    run(&mut files, Operation::Close { file }).result.unwrap();
    let file = opened(&run(&mut files, Operation::OpenDurable { name: "log".into() }));
    let buffer = buffer(&vec![7; block_bytes]);
    let offset = 5 * block_bytes as u64;
    run(&mut files, Operation::Write { file, offset, buffer, durable: true }).result.unwrap();
    let bytes = fs::read(folder.path().join("log")).unwrap();
    assert_eq!(bytes.len(), 3 << 20);
    for (block, bytes) in bytes.chunks(block_bytes).enumerate() {
        let expected = if [1, 3, 5].contains(&block) { 7 } else { 0 };
        assert!(bytes.iter().all(|byte| *byte == expected), "block {block}");
    }
}

#[test]
fn a_lock_keeps_others_out_until_it_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let open = || opened_at(folder.path());
    let lock = || Operation::Lock { name: "LOCK".into() };
    let (mut first, mut second) = (open(), open());
    run(&mut first, lock()).result.unwrap();
    let refused = run(&mut second, lock()).result.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(first);
    run(&mut second, lock()).result.unwrap();
}

#[test]
fn what_is_removed_while_it_is_open_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Arc::new(crate::metrics::ProcessMetrics::default());
    let descriptors = Arc::new(Descriptors::new(8, Arc::clone(&metrics)));
    let mut files = DiskFiles::open(folder.path(), &descriptors, &ring()).unwrap();
    let bytes: usize = 6 << 20;
    for is_closed in [false, true] {
        let file = opened(&run(&mut files, Operation::Create { name: "large".into() }));
        let write =
            Operation::Write { file, offset: 0, buffer: buffer(&vec![7; bytes]), durable: false };
        run(&mut files, write).result.unwrap();
        if is_closed {
            run(&mut files, Operation::Close { file }).result.unwrap();
        }
        run(&mut files, Operation::Remove { name: "large".into() }).result.unwrap();
        let names = run(&mut files, Operation::List).result.unwrap();
        assert_eq!(names, Outcome::Names(Vec::new()));
        if is_closed {
            // It was handed over before the removal was answered.
            let begun = std::time::Instant::now();
            while metrics.removed_bytes.get() > 0 {
                assert!(begun.elapsed().as_secs() < 60);
                thread::yield_now();
            }
        } else {
            assert_eq!(metrics.removed_bytes.get(), 0);
            let read = Operation::Read { file, offset: 0, bytes, buffer: Buffer::default() };
            assert_eq!(run(&mut files, read).buffer.unwrap().as_slice(), vec![7; bytes]);
            run(&mut files, Operation::Close { file }).result.unwrap();
        }
    }
}
