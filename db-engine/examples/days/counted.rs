//! Files that count the bytes which reach the disk.

use sandglass_db::io::{Completion, Files, Operation, Ticket};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Files that count the bytes which reach the disk: of the log, of sstables, of the manifest, and
/// the zeros with which files of the log are filled.
pub struct CountedFiles {
    files: Box<dyn Files>,
    written: Arc<AtomicU64>,
}

impl CountedFiles {
    pub fn new(files: Box<dyn Files>, written: &Arc<AtomicU64>) -> Self {
        Self { files, written: Arc::clone(written) }
    }
}

impl Files for CountedFiles {
    fn submit(&mut self, operation: Operation) -> Ticket {
        let bytes = match &operation {
            Operation::Write { buffer, .. } => buffer.len(),
            Operation::Fill { bytes, .. } => *bytes,
            _ => 0,
        };
        self.written.fetch_add(bytes as u64, Relaxed);
        self.files.submit(operation)
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        self.files.poll(out);
    }

    fn wait(&mut self, out: &mut Vec<Completion>) {
        self.files.wait(out);
    }
}
