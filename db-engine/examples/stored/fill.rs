//! Writing much data: many requests in flight, and those again that the engine refuses because
//! it has too much to do.

use super::client::{Client, frame, op};
use std::{thread::sleep, time::Duration};

/// Requests in flight.
const SLOTS: usize = 32;

/// The code of an error that says: later.
const OVERLOADED: i32 = 0x1001;

/// How long is waited then.
const PAUSE: Duration = Duration::from_millis(2);

/// Sends all of these requests, each an opcode and a body, and waits until they are done.
pub fn write_all(port: u16, requests: impl Iterator<Item = (u8, Vec<u8>)>) {
    let mut client = Client::connect(port).expect("it serves");
    client.set_patience(Duration::from_mins(2));
    let mut requests = requests.fuse();
    let mut sent: Vec<Vec<u8>> = vec![Vec::new(); SLOTS];
    let mut free: Vec<usize> = (0..SLOTS).collect();
    loop {
        while let Some(slot) = free.pop() {
            let Some((opcode, body)) = requests.next() else {
                free.push(slot);
                break;
            };
            sent[slot] = frame(i16::try_from(slot).expect("few"), opcode, &body);
            client.send(&sent[slot]).expect("it reads");
        }
        if free.len() == SLOTS {
            return;
        }
        let answer = client.receive().expect("an answer");
        let slot = usize::try_from(answer.stream).expect("a slot");
        if answer.opcode == op::ERROR && answer.code() == OVERLOADED {
            sleep(PAUSE);
            client.send(&sent[slot]).expect("it reads");
            continue;
        }
        answer.kind();
        free.push(slot);
    }
}
