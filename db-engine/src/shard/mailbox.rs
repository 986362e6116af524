//! How shards and helper threads reach a shard: a bell and a box of parcels.
//!
//! A shard that waits for sockets is asleep, and must be rung when something else wants it; one
//! that is awake looks by itself before it sleeps, and ringing it would cost a system call for
//! nothing. So a ringer leaves its mark and rings only a sleeper, and a sleeper lies down before
//! it looks for marks: whichever comes first, one of the two sees the other.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};

/// Wakes a shard from its wait.
pub struct Bell {
    asleep: AtomicBool,
    rung: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Bell {
    /// A bell that calls `wake` when its shard is asleep.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { asleep: AtomicBool::new(false), rung: AtomicBool::new(false), wake: Box::new(wake) }
    }

    /// Makes the shard take a turn soon. Returns whether it slept and had to be woken.
    pub fn ring(&self) -> bool {
        self.rung.store(true, SeqCst);
        let slept = self.asleep.swap(false, SeqCst);
        if slept {
            (self.wake)();
        }
        slept
    }

    /// Said by the shard before it waits. Returns whether it may: if not, the bell has been rung
    /// since the last time.
    pub fn lie_down(&self) -> bool {
        self.asleep.store(true, SeqCst);
        if self.rung.swap(false, SeqCst) {
            self.asleep.store(false, SeqCst);
            return false;
        }
        true
    }

    /// Said by the shard after it has waited.
    pub fn get_up(&self) {
        self.asleep.store(false, SeqCst);
        self.rung.store(false, SeqCst);
    }

    /// Whether the shard waits.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(SeqCst)
    }
}

/// Where parcels for one shard lie until its next turn.
pub struct Mailbox<T> {
    bell: Bell,
    parcels: Mutex<Vec<T>>,
}

impl<T> Mailbox<T> {
    /// An empty box with its bell.
    pub fn new(bell: Bell) -> Self {
        Self { bell, parcels: Mutex::new(Vec::new()) }
    }

    /// The bell alone, for those who have nothing to deliver.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Leaves a parcel. Returns whether the shard slept and had to be woken.
    pub fn deliver(&self, parcel: T) -> bool {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner).push(parcel);
        self.bell.ring()
    }

    /// Takes all parcels, in the order of their arrival, into `into`, which must be empty.
    pub fn collect(&self, into: &mut Vec<T>) {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *parcels, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, atomic::AtomicU32, mpsc};

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let woken = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&woken);
        let bell = Bell::new(move || {
            counter.fetch_add(1, SeqCst);
        });
        assert!(!bell.ring(), "awake");
        assert!(!bell.lie_down(), "rung before");
        assert!(bell.lie_down(), "nothing new");
        assert!(bell.ring());
        assert!(!bell.ring(), "woken already");
        bell.get_up();
        assert_eq!(woken.load(SeqCst), 1);
    }

    #[test]
    fn no_parcel_is_slept_over() {
        let (wake, woken) = mpsc::channel();
        let bell = Bell::new(move || wake.send(()).unwrap_or_default());
        let mailbox = Arc::new(Mailbox::new(bell));
        let sender = Arc::clone(&mailbox);
        let thread = std::thread::spawn(move || {
            for parcel in 0..20_000u32 {
                sender.deliver(parcel);
            }
        });
        let (mut received, mut parcels) = (Vec::new(), Vec::new());
        while received.len() < 20_000 {
            if mailbox.bell().lie_down() {
                woken.recv_timeout(std::time::Duration::from_secs(20)).expect("a wake-up");
            }
            mailbox.bell().get_up();
            mailbox.collect(&mut parcels);
            received.append(&mut parcels);
        }
        thread.join().expect("the sender ends");
        assert!(received.iter().copied().eq(0..20_000));
    }
}
