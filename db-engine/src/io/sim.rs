//! Files in memory that break as those of a real machine may.
//!
//! A seed decides the order in which operations are carried out, and what a power cut leaves of
//! what was not synced: any part of any write, in sectors, and any of the changed names. It also
//! decides the smallest durable write that the device takes. What a file for durable writes holds
//! stays there under another name, until it is written over. Faults are set by the number of the
//! operation, so that a test can have one at each; reads can also go wrong by chance.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

mod files;
mod inode;
mod space;

use super::{
    ALIGNMENT, Buffer, Completion, FileId, Files, Operation, Outcome, Random, SECTOR_BYTES, Ticket,
};
pub use files::SimFiles;
use inode::Inode;

/// What goes wrong, and when. Operations are counted from 0 as they are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The power is cut during this operation.
    PowerCut(u64),
    /// This operation fails, and what it was to make durable may be lost.
    Failure(u64),
    /// From this operation on there is no space, until another fault is set.
    NoSpace(u64),
}

/// How a read goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// It fails.
    Failed,
    /// It gives what was in some sectors before they were written last.
    Stale,
    /// It gives what is at another place of the same or another file.
    Misdirected,
}

/// Reads that go wrong by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFaults {
    /// How.
    pub fault: ReadFault,
    /// How often, of a hundred reads.
    pub percent: u64,
    /// Those of files whose names begin so.
    pub prefix: &'static str,
}

/// A disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
}

struct SimState {
    random: Random,
    inodes: Vec<Inode>,
    /// What a running machine sees.
    names: BTreeMap<String, usize>,
    /// What a power cut leaves for sure.
    names_durable: BTreeMap<String, usize>,
    names_pending: Vec<NameChange>,
    locks: BTreeMap<String, usize>,
    clients: Vec<SimProcess>,
    fault: Fault,
    read_faults: Option<ReadFaults>,
    reads_spoilt: u64,
    read_rounds: u64,
    /// Whether a read would be of the same round.
    round_is_open: bool,
    calls: u64,
    off: bool,
    /// The smallest durable write, in bytes.
    block_bytes: usize,
}

#[derive(Clone)]
enum NameChange {
    Link(String, usize),
    Unlink(String),
    Rename(String, String, usize),
}

#[derive(Default)]
struct SimProcess {
    queue: Vec<(Ticket, Operation)>,
    files: Vec<Option<usize>>,
    tickets: u64,
}

impl SimDisk {
    /// An empty disk. The seed decides all that is left to chance.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(seed, BTreeMap::new())
    }

    /// A disk that holds these files.
    #[must_use]
    pub fn with(seed: u64, files: BTreeMap<String, Vec<u8>>) -> Self {
        let (mut inodes, mut names) = (Vec::new(), BTreeMap::new());
        for (name, bytes) in files {
            names.insert(name, inodes.len());
            inodes.push(Inode::new(bytes, None));
        }
        let state = SimState {
            random: Random(seed),
            inodes,
            names_durable: names.clone(),
            names,
            names_pending: Vec::new(),
            locks: BTreeMap::new(),
            clients: Vec::new(),
            fault: Fault::None,
            read_faults: None,
            reads_spoilt: 0,
            read_rounds: 0,
            round_is_open: false,
            calls: 0,
            off: false,
            block_bytes: Random(!seed).one_of(&[SECTOR_BYTES, ALIGNMENT]),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Access for one more shard.
    #[must_use]
    pub fn files(&self) -> Box<dyn Files> {
        let mut state = self.state();
        state.clients.push(SimProcess::default());
        let client = state.clients.len() - 1;
        Box::new(SimFiles { disk: self.clone(), client, is_kept: false, own_writes: 0 })
    }

    /// Sets what goes wrong from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// Sets the smallest durable write that the device takes, for files created from now on.
    pub fn set_block_bytes(&self, block_bytes: usize) {
        self.state().block_bytes = block_bytes;
    }

    /// Sets which reads go wrong from now on.
    pub fn set_read_faults(&self, faults: Option<ReadFaults>) {
        self.state().read_faults = faults;
    }

    /// How many reads have gone wrong.
    #[must_use]
    pub fn reads_spoilt(&self) -> u64 {
        self.state().reads_spoilt
    }

    /// How many rounds of reads there were: reads submitted before one of them is carried out.
    #[must_use]
    pub fn read_rounds(&self) -> u64 {
        self.state().read_rounds
    }

    /// How many operations were submitted and are not carried out yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.state().clients.iter().map(|client| client.queue.len()).sum()
    }

    /// How many operations were carried out.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Whether the power was cut.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().off
    }

    /// The disk as a power cut now would leave it, one of the many ways it could.
    #[must_use]
    pub fn crash(&self, seed: u64) -> SimDisk {
        let state = self.state();
        let mut random = Random(seed);
        let mut names = state.names_durable.clone();
        let keep_percent = random.one_of(&[0, 50, 100]);
        for change in &state.names_pending {
            if random.percent(keep_percent) {
                change.apply(&mut names);
            }
        }
        let mut files = BTreeMap::new();
        for (name, inode) in names {
            files.insert(name, state.inodes[inode].after_power_cut(&mut random));
        }
        Self::with(seed, files)
    }

    /// The names and contents of all files, as a running machine sees them.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let bytes = |inode: &usize| state.inodes[*inode].bytes.clone();
        state.names.iter().map(|(name, inode)| (name.clone(), bytes(inode))).collect()
    }

    fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().expect("a simulation has one thread")
    }
}

impl SimState {
    /// Carries out one operation of a client, which one being left to chance.
    fn step(&mut self, client: usize, out: &mut Vec<Completion>) {
        let queue = &mut self.clients[client].queue;
        let index = self.random.below(queue.len() as u64);
        let index = usize::try_from(index).expect("it is an index");
        let (ticket, operation) = queue.swap_remove(index);
        self.round_is_open &= !matches!(operation, Operation::Read { .. });
        let call = self.calls;
        self.calls += 1;
        if self.fault == Fault::PowerCut(call) && !self.off {
            self.cut(client, operation);
            out.push(Completion { ticket, result: Err(power_is_off()), buffer: None });
            return;
        }
        let fault = self.fault_of(call, client, &operation);
        let (result, buffer) = match fault {
            Some(error) => self.fail(client, operation, error),
            None => self.run(client, operation),
        };
        out.push(Completion { ticket, result, buffer });
    }

    fn fault_of(&self, call: u64, client: usize, operation: &Operation) -> Option<io::Error> {
        if self.off {
            return Some(power_is_off());
        }
        match self.fault {
            Fault::Failure(at) if at == call => Some(io::Error::other("simulated failure")),
            Fault::NoSpace(from) if from <= call && self.takes_space(client, operation) => {
                Some(io::ErrorKind::StorageFull.into())
            }
            _ => None,
        }
    }

    /// An operation that fails may have done part of its work, and a failed sync loses pages.
    fn fail(
        &mut self,
        client: usize,
        operation: Operation,
        error: io::Error,
    ) -> (io::Result<Outcome>, Option<Buffer>) {
        let mut returned = None;
        match operation {
            Operation::Write { file, offset, buffer, .. } if !self.off => {
                let inode = self.inode(client, file);
                if error.kind() != io::ErrorKind::StorageFull {
                    self.inodes[inode].write_torn(offset, buffer.as_slice(), &mut self.random);
                }
                returned = Some(buffer);
            }
            Operation::Sync { file } if !self.off => {
                let inode = self.inode(client, file);
                self.inodes[inode].pending.clear();
            }
            Operation::Write { buffer, .. } | Operation::Read { buffer, .. } => {
                returned = Some(buffer);
            }
            _ => {}
        }
        (Err(error), returned)
    }

    /// The power goes: what is in flight has happened, or not, or in part.
    fn cut(&mut self, client: usize, operation: Operation) {
        let mut flying = vec![(client, operation)];
        for (index, client) in self.clients.iter_mut().enumerate() {
            flying.extend(client.queue.drain(..).map(|(_, operation)| (index, operation)));
        }
        for (client, operation) in flying {
            if self.random.percent(50) {
                continue;
            }
            match operation {
                Operation::Write { file, offset, buffer, .. } => {
                    let inode = self.inode(client, file);
                    self.inodes[inode].write_torn(offset, buffer.as_slice(), &mut self.random);
                }
                Operation::Fill { file, offset, bytes } => {
                    let inode = self.inode(client, file);
                    self.inodes[inode].write_torn(offset, &vec![0; bytes], &mut self.random);
                }
                other => drop(self.run(client, other)),
            }
        }
        self.off = true;
    }

    fn inode(&self, client: usize, file: FileId) -> usize {
        let file = self.clients[client].files.get(file.0 as usize).copied().flatten();
        file.expect("the file was opened here and not closed")
    }

    fn opened(&mut self, client: usize, inode: usize) -> Outcome {
        let files = &mut self.clients[client].files;
        files.push(Some(inode));
        let file = FileId(u32::try_from(files.len() - 1).expect("few files"));
        Outcome::Opened { file, bytes: self.inodes[inode].bytes.len() as u64 }
    }

    fn run(
        &mut self,
        client: usize,
        operation: Operation,
    ) -> (io::Result<Outcome>, Option<Buffer>) {
        let result = match operation {
            Operation::Read { file, offset, bytes, mut buffer } => {
                let inode = self.inode(client, file);
                let read = match self.read_fault(inode) {
                    None => Ok(self.inodes[inode].read(offset, bytes).to_vec()),
                    Some(fault) => self.read_spoilt(inode, offset, bytes, fault),
                };
                buffer.clear();
                return match read {
                    Ok(read) => {
                        buffer.extend(&read);
                        (Ok(Outcome::Read), Some(buffer))
                    }
                    Err(failed) => (Err(failed), Some(buffer)),
                };
            }
            Operation::Write { file, offset, buffer, durable } => {
                let inode = self.inode(client, file);
                self.inodes[inode].write(offset, buffer.as_slice(), durable);
                return (Ok(Outcome::Done), Some(buffer));
            }
            Operation::Fill { file, offset, bytes } => {
                let inode = self.inode(client, file);
                self.inodes[inode].fill(offset, bytes);
                Ok(Outcome::Done)
            }
            Operation::Sync { file } => {
                let inode = self.inode(client, file);
                self.inodes[inode].sync();
                Ok(Outcome::Done)
            }
            Operation::Close { file } => {
                self.clients[client].files[file.0 as usize] = None;
                Ok(Outcome::Done)
            }
            Operation::Lock { name } => self.lock(client, name),
            Operation::List => Ok(Outcome::Names(self.names.keys().cloned().collect())),
            Operation::FreeSpace => Ok(Outcome::Space { bytes: self.free_bytes() }),
            other => self.run_named(client, other),
        };
        (result, None)
    }

    fn read_fault(&mut self, inode: usize) -> Option<ReadFault> {
        let faults = self.read_faults?;
        let mut names = self.names.iter().filter(|(_, other)| **other == inode);
        let is_meant = names.any(|(name, _)| name.starts_with(faults.prefix));
        (is_meant && self.random.percent(faults.percent)).then_some(faults.fault)
    }

    fn read_spoilt(
        &mut self,
        inode: usize,
        offset: u64,
        bytes: usize,
        fault: ReadFault,
    ) -> io::Result<Vec<u8>> {
        self.reads_spoilt += 1;
        match fault {
            ReadFault::Failed => Err(io::Error::other("simulated failure of a read")),
            ReadFault::Stale => Ok(self.inodes[inode].read_stale(offset, bytes, &mut self.random)),
            ReadFault::Misdirected => {
                let others: Vec<usize> = self.names.values().copied().collect();
                let any = self.random.one_of(&others);
                let other = self.random.one_of(&[inode, any]);
                let length = self.inodes[other].bytes.len() as u64;
                let elsewhere = self.random.below(length / SECTOR_BYTES as u64 + 1);
                let elsewhere = elsewhere * SECTOR_BYTES as u64;
                Ok(self.inodes[other].read(elsewhere, bytes).to_vec())
            }
        }
    }

    fn run_named(&mut self, client: usize, operation: Operation) -> io::Result<Outcome> {
        match operation {
            Operation::Open { name } => {
                let inode = *self.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
                Ok(self.opened(client, inode))
            }
            Operation::OpenDurable { name } => {
                let inode = *self.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
                self.inodes[inode].block_bytes = Some(self.block_bytes);
                Ok(self.opened(client, inode))
            }
            Operation::Create { name } => {
                let inode = self.create(name, None);
                Ok(self.opened(client, inode))
            }
            Operation::CreateDurable { name } => {
                let inode = self.create(name, Some(self.block_bytes));
                let Outcome::Opened { file, .. } = self.opened(client, inode) else {
                    unreachable!("that is what it gives")
                };
                Ok(Outcome::Created { file, block_bytes: self.block_bytes })
            }
            Operation::Rename { from, to } => {
                let inode = *self.names.get(&from).ok_or(io::ErrorKind::NotFound)?;
                self.change(NameChange::Rename(from, to, inode));
                Ok(Outcome::Done)
            }
            Operation::Remove { name } => {
                self.names.get(&name).ok_or(io::ErrorKind::NotFound)?;
                self.change(NameChange::Unlink(name));
                Ok(Outcome::Done)
            }
            Operation::SyncDirectory => {
                self.names_durable = self.names.clone();
                self.names_pending.clear();
                Ok(Outcome::Done)
            }
            other => unreachable!("{other:?} has no name"),
        }
    }

    fn create(&mut self, name: String, block_bytes: Option<usize>) -> usize {
        self.inodes.push(Inode::new(Vec::new(), block_bytes));
        let inode = self.inodes.len() - 1;
        self.change(NameChange::Link(name, inode));
        inode
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.names_pending.push(change);
    }

    fn lock(&mut self, client: usize, name: String) -> io::Result<Outcome> {
        if self.locks.contains_key(&name) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !self.names.contains_key(&name) {
            self.inodes.push(Inode::default());
            self.change(NameChange::Link(name.clone(), self.inodes.len() - 1));
        }
        self.locks.insert(name, client);
        Ok(Outcome::Done)
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            NameChange::Link(name, inode) => drop(names.insert(name.clone(), *inode)),
            NameChange::Unlink(name) => drop(names.remove(name)),
            NameChange::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

fn power_is_off() -> io::Error {
    io::Error::other("the power is off")
}
