//! The files of the simulated disk, as one shard has them.

use super::SimDisk;
use crate::io::{Completion, Files, Operation, Ticket};

/// The files of a [`SimDisk`], for one shard.
pub struct SimFiles {
    pub(super) disk: SimDisk,
    pub(super) client: usize,
    /// Whether a write was submitted that may be the shard's own.
    pub(super) is_kept: bool,
    pub(super) own_writes: u64,
}

impl Files for SimFiles {
    fn submit(&mut self, operation: Operation) -> Ticket {
        let mut state = self.disk.state();
        if matches!(operation, Operation::Read { .. }) && !state.round_is_open {
            state.read_rounds += 1;
            state.round_is_open = true;
        }
        let client = &mut state.clients[self.client];
        client.tickets += 1;
        let ticket = Ticket(client.tickets);
        client.queue.push((ticket, operation));
        ticket
    }

    fn submit_alone(&mut self, operation: Operation) -> Ticket {
        self.is_kept = true;
        self.submit(operation)
    }

    fn rest(&mut self, would_wait: bool) -> bool {
        let is_own = std::mem::take(&mut self.is_kept) && would_wait;
        self.own_writes += u64::from(is_own);
        is_own
    }

    fn own_writes(&self) -> u64 {
        self.own_writes
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        self.rest(true);
        let mut state = self.disk.state();
        let queued = state.clients[self.client].queue.len() as u64;
        let now = state.random.below(queued + 1);
        for _ in 0..now {
            // A power cut takes with it what was queued.
            if state.clients[self.client].queue.is_empty() {
                return;
            }
            state.step(self.client, out);
        }
    }

    fn wait(&mut self, out: &mut Vec<Completion>) {
        let mut state = self.disk.state();
        assert!(!state.clients[self.client].queue.is_empty(), "there is nothing to wait for");
        state.step(self.client, out);
    }
}

impl Drop for SimFiles {
    fn drop(&mut self) {
        if let Ok(mut state) = self.disk.state.lock() {
            let client = self.client;
            state.locks.retain(|_, owner| *owner != client);
            // What a process submitted before it ended is still carried out.
            let mut out = Vec::new();
            while !state.off && !state.clients[client].queue.is_empty() {
                state.step(client, &mut out);
            }
        }
    }
}
