//! Space on the disk: there is enough of it, or none.

use super::{Fault, FileId, Operation, SimState};

impl SimState {
    /// Whether an operation needs space that a full disk does not have.
    pub(super) fn takes_space(&self, client: usize, operation: &Operation) -> bool {
        match operation {
            Operation::Create { .. } | Operation::CreateDurable { .. } => true,
            Operation::Write { file, offset, buffer, .. } => {
                self.is_longer(client, *file, *offset, buffer.len())
            }
            Operation::Fill { file, offset, bytes } => {
                self.is_longer(client, *file, *offset, *bytes)
            }
            _ => false,
        }
    }

    /// Whether a write of so many bytes makes a file longer.
    fn is_longer(&self, client: usize, file: FileId, offset: u64, bytes: usize) -> bool {
        let end = usize::try_from(offset).expect("files are in memory") + bytes;
        end > self.inodes[self.inode(client, file)].bytes.len()
    }

    /// How much is free, when it is asked for by the operation that was begun last.
    pub(super) fn free_bytes(&self) -> u64 {
        match self.fault {
            Fault::NoSpace(from) if from < self.calls => 0,
            _ => u64::MAX,
        }
    }
}
