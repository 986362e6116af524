//! File operations one after the other, for the time before the engine serves.

use std::{collections::BTreeSet, io};

use crate::{
    error::{Error, Result},
    io::{Buffer, Completion, FileId, Files, Operation, Outcome},
};

/// Carries operations out one after the other. For start-up only: it waits.
pub(crate) struct Sequential<'a>(pub &'a mut dyn Files);

impl Sequential<'_> {
    pub fn complete(&mut self, operation: Operation) -> Completion {
        self.0.submit(operation);
        let mut completions = Vec::new();
        self.0.wait(&mut completions);
        completions.pop().expect("the one that was waited for")
    }

    pub fn run(&mut self, name: &str, operation: Operation) -> Result<Outcome> {
        self.complete(operation).result.map_err(|error| Error::io(name, error))
    }

    pub fn open(&mut self, name: &str) -> Result<(FileId, u64)> {
        match self.run(name, Operation::Open { name: name.into() })? {
            Outcome::Opened { file, bytes } => Ok((file, bytes)),
            _ => Err(unexpected(name)),
        }
    }

    pub fn create(&mut self, name: &str) -> Result<FileId> {
        match self.run(name, Operation::Create { name: name.into() })? {
            Outcome::Opened { file, .. } => Ok(file),
            _ => Err(unexpected(name)),
        }
    }

    pub fn read(&mut self, name: &str, file: FileId, offset: u64, bytes: u64) -> Result<Buffer> {
        let bytes = usize::try_from(bytes).map_err(|_| unexpected(name))?;
        let buffer = Buffer::with_capacity(bytes);
        let over = self.complete(Operation::Read { file, offset, bytes, buffer });
        over.result.map_err(|error| Error::io(name, error))?;
        over.buffer.ok_or_else(|| unexpected(name))
    }

    pub fn read_file(&mut self, name: &str) -> Result<Buffer> {
        let (file, bytes) = self.open(name)?;
        let buffer = self.read(name, file, 0, bytes)?;
        self.run(name, Operation::Close { file })?;
        Ok(buffer)
    }

    pub fn write_file(&mut self, name: &str, pieces: Vec<Buffer>) -> Result<()> {
        let file = self.create(name)?;
        let mut offset = 0;
        for buffer in pieces {
            let bytes = buffer.len() as u64;
            self.run(name, Operation::Write { file, offset, buffer, durable: false })?;
            offset += bytes;
        }
        self.run(name, Operation::Sync { file })?;
        self.run(name, Operation::Close { file })?;
        Ok(())
    }

    /// Replaces a file: afterwards there is the old one or the new one, whole.
    pub fn replace_file(&mut self, new: &str, name: &str, bytes: &[u8]) -> Result<()> {
        let mut buffer = Buffer::with_capacity(bytes.len());
        buffer.extend(bytes);
        self.write_file(new, vec![buffer])?;
        self.run(name, Operation::Rename { from: new.into(), to: name.into() })?;
        self.run(name, Operation::SyncDirectory)?;
        Ok(())
    }

    pub fn names(&mut self) -> Result<BTreeSet<String>> {
        match self.run(".", Operation::List)? {
            Outcome::Names(names) => Ok(names.into_iter().collect()),
            _ => Err(unexpected(".")),
        }
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.run(name, Operation::Remove { name: name.into() })?;
        Ok(())
    }
}

fn unexpected(name: &str) -> Error {
    Error::io(name, io::Error::other("the operation gave something else than was asked for"))
}
