//! A client of a simulated engine: requests that wait for their answers, each on its stream.

use super::{Engine, pipe::Pipe};
use crate::wire::client::{Answer, frame, long_string, op, startup};
use sandglass_db::io::Random;
use std::collections::BTreeMap;

/// A bound value.
pub type Bound = Vec<u8>;

/// A client, and what it waits for.
pub struct Client<T> {
    pub shard: usize,
    index: u32,
    pipe: Pipe,
    unsent: Vec<u8>,
    received: Vec<u8>,
    last_stream: i16,
    pub waiting: BTreeMap<i16, T>,
}

impl<T> Client<T> {
    pub fn connect(engine: &mut Engine, shard: usize, hello: T) -> Self {
        let (index, pipe) = engine.connect(shard);
        let (unsent, received) = (Vec::new(), Vec::new());
        let waiting = BTreeMap::new();
        let mut client = Self { shard, index, pipe, unsent, received, last_stream: 0, waiting };
        client.ask(op::STARTUP, &startup(), hello);
        client
    }

    /// Sends a request once [`Client::push`] gets to it.
    pub fn ask(&mut self, opcode: u8, body: &[u8], waits: T) {
        self.last_stream = (self.last_stream + 1) & 0x3FFF;
        self.unsent.extend_from_slice(&frame(self.last_stream, opcode, body));
        self.waiting.insert(self.last_stream, waits);
    }

    /// The same with a compressed body, once that was agreed on.
    pub fn ask_compressed(&mut self, opcode: u8, body: &[u8], waits: T) {
        let mut packed = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        packed.extend(lz4_flex::block::compress(body));
        let at = self.unsent.len();
        self.ask(opcode, &packed, waits);
        self.unsent[at + 1] |= 1;
    }

    /// Sends some of what is not sent yet: frames are cut anywhere.
    pub fn push(&mut self, engine: &mut Engine, random: &mut Random) {
        if self.unsent.is_empty() {
            return;
        }
        let all = self.unsent.len();
        let some = usize::try_from(1 + random.below(all as u64)).unwrap();
        let bytes = random.one_of(&[all, all, some]);
        self.pipe.send(&self.unsent[..bytes]);
        self.unsent.drain(..bytes);
        engine.readable(self.shard, self.index);
    }

    /// Takes the answers that have come.
    pub fn take(&mut self, engine: &mut Engine, room: usize) -> Vec<(T, Answer)> {
        let mut answers = Vec::new();
        for answer in self.frames(engine, room) {
            let waits = self.waiting.remove(&answer.stream);
            answers.push((waits.expect("every answer has its request"), answer));
        }
        answers
    }

    /// Takes the frames that have come, answers or events.
    pub fn frames(&mut self, engine: &mut Engine, room: usize) -> Vec<Answer> {
        self.received.extend_from_slice(&self.pipe.take(room));
        engine.writable(self.shard, self.index);
        let mut frames = Vec::new();
        let mut at = 0;
        while let Some(header) = self.received[at..].first_chunk::<9>() {
            let [version, flags, s0, s1, opcode, l0, l1, l2, l3] = *header;
            assert_eq!(version, 0x84, "a response of version 4");
            let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
            let Some(body) = self.received.get(at + 9..at + 9 + length) else { break };
            let stream = i16::from_be_bytes([s0, s1]);
            frames.push(Answer { flags, stream, opcode, trace: None, body: body.to_vec() });
            at += 9 + length;
        }
        self.received.drain(..at);
        frames
    }

    /// Whether every byte was given to the engine.
    pub fn is_sent(&self) -> bool {
        self.unsent.is_empty()
    }

    pub fn is_closed(&self) -> bool {
        self.pipe.is_closed()
    }

    pub fn leave(&mut self, engine: &mut Engine) {
        self.pipe.leave();
        // A socket that was closed is told to be ready for both.
        engine.readable(self.shard, self.index);
        engine.writable(self.shard, self.index);
    }
}

pub fn int(value: i32) -> Bound {
    value.to_be_bytes().to_vec()
}

fn put_values(out: &mut Vec<u8>, values: &[Bound]) {
    out.extend_from_slice(&u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        out.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
        out.extend_from_slice(value);
    }
}

fn put_id(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(&u16::try_from(id.len()).unwrap().to_be_bytes());
    out.extend_from_slice(id);
}

/// The body of an EXECUTE of a write at this time.
pub fn write(id: &[u8], values: &[Bound], timestamp: i64) -> Vec<u8> {
    let mut out = Vec::new();
    put_id(&mut out, id);
    out.extend_from_slice(&[0, 1, 0x21]);
    put_values(&mut out, values);
    out.extend_from_slice(&timestamp.to_be_bytes());
    out
}

/// The body of a BATCH at this time. `kind`: 0 logged, 1 not.
pub fn batch(kind: u8, statements: &[(Vec<u8>, Vec<Bound>)], timestamp: i64) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&u16::try_from(statements.len()).unwrap().to_be_bytes());
    for (id, values) in statements {
        out.push(1);
        put_id(&mut out, id);
        put_values(&mut out, values);
    }
    out.extend_from_slice(&[0, 1, 0x20]);
    out.extend_from_slice(&timestamp.to_be_bytes());
    out
}

/// The body of a QUERY of one page.
pub fn page(text: &str, page_rows: i32, state: Option<&[u8]>) -> Vec<u8> {
    let mut out = long_string(text);
    out.extend_from_slice(&[0, 1, if state.is_some() { 0x0C } else { 0x04 }]);
    out.extend_from_slice(&page_rows.to_be_bytes());
    if let Some(state) = state {
        out.extend_from_slice(&u32::try_from(state.len()).unwrap().to_be_bytes());
        out.extend_from_slice(state);
    }
    out
}

/// The body of a QUERY.
pub fn query(text: &str) -> Vec<u8> {
    let mut out = long_string(text);
    out.extend_from_slice(&[0, 1, 0]);
    out
}
