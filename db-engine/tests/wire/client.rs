//! A client that says exactly the bytes it is told to: no driver stands between test and engine.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

/// Opcodes that tests send or wait for.
pub mod op {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0A;
    pub const REGISTER: u8 = 0x0B;
    pub const EVENT: u8 = 0x0C;
    pub const BATCH: u8 = 0x0D;
}

/// How long an answer may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The cells of a row; `None` is null.
pub type Row = Vec<Option<Vec<u8>>>;

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub flags: u8,
    pub stream: i16,
    pub opcode: u8,
    /// The identifier of its trace, which stands before the body.
    pub trace: Option<Vec<u8>>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The code of an ERROR; panics with the whole answer if it is none.
    pub fn code(&self) -> i32 {
        assert_eq!(self.opcode, op::ERROR, "{self:?}");
        i32::from_be_bytes(self.body[..4].try_into().expect("four bytes"))
    }

    /// The message of an ERROR.
    pub fn message(&self) -> String {
        let length = u16::from_be_bytes([self.body[4], self.body[5]]);
        String::from_utf8_lossy(&self.body[6..6 + usize::from(length)]).into_owned()
    }

    /// The kind of a RESULT; panics with the message of an ERROR.
    pub fn kind(&self) -> i32 {
        match self.opcode {
            op::RESULT => {}
            op::ERROR => panic!("error {:#06x}: {}", self.code(), self.message()),
            other => panic!("{other:#04x} instead of a result"),
        }
        i32::from_be_bytes(self.body[..4].try_into().expect("four bytes"))
    }

    /// The cells of a RESULT of rows, and the paging state if there is more.
    pub fn rows(&self) -> (Vec<Row>, Option<Vec<u8>>) {
        assert_eq!(self.kind(), 2, "rows");
        let mut at = 4;
        let flags = self.int(&mut at);
        let columns = self.int(&mut at);
        let state = if flags & 2 == 0 { None } else { self.bytes(&mut at) };
        if flags & 4 == 0 {
            self.string(&mut at);
            self.string(&mut at);
            for _ in 0..columns {
                self.string(&mut at);
                self.option(&mut at);
            }
        }
        let count = self.int(&mut at);
        let rows = (0..count).map(|_| (0..columns).map(|_| self.bytes(&mut at)).collect());
        (rows.collect(), state)
    }

    fn int(&self, at: &mut usize) -> i32 {
        *at += 4;
        i32::from_be_bytes(self.body[*at - 4..*at].try_into().expect("four bytes"))
    }

    fn short(&self, at: &mut usize) -> u16 {
        *at += 2;
        u16::from_be_bytes([self.body[*at - 2], self.body[*at - 1]])
    }

    fn string(&self, at: &mut usize) {
        *at += usize::from(self.short(at));
    }

    fn option(&self, at: &mut usize) {
        match self.short(at) {
            0 => self.string(at),
            0x20 | 0x22 => self.option(at),
            0x21 => {
                self.option(at);
                self.option(at);
            }
            0x30 => {
                self.string(at);
                self.string(at);
                for _ in 0..self.short(at) {
                    self.string(at);
                    self.option(at);
                }
            }
            _ => {}
        }
    }

    fn bytes(&self, at: &mut usize) -> Option<Vec<u8>> {
        let length = usize::try_from(self.int(at)).ok()?;
        *at += length;
        Some(self.body[*at - length..*at].to_vec())
    }
}

/// The bytes of a request.
pub fn frame(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0];
    out.extend_from_slice(&stream.to_be_bytes());
    out.push(opcode);
    out.extend_from_slice(&u32::try_from(body.len()).expect("short").to_be_bytes());
    out.extend_from_slice(body);
    out
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).expect("short").to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub fn long_string(text: &str) -> Vec<u8> {
    let mut out = u32::try_from(text.len()).expect("short").to_be_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out
}

pub fn startup() -> Vec<u8> {
    let mut body = vec![0, 1];
    string(&mut body, "CQL_VERSION");
    string(&mut body, "3.0.0");
    body
}

/// The same, with answers that are compressed.
pub fn compressed_startup() -> Vec<u8> {
    let mut body = startup();
    body[1] += 1;
    for text in ["COMPRESSION", "lz4"] {
        string(&mut body, text);
    }
    body
}

/// `[short n]` and the values.
pub fn values(values: &[&[u8]]) -> Vec<u8> {
    let mut out = u16::try_from(values.len()).expect("few").to_be_bytes().to_vec();
    for value in values {
        out.extend_from_slice(&u32::try_from(value.len()).expect("short").to_be_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// The body of an EXECUTE at consistency ONE.
pub fn execute(id: &[u8], bound: &[&[u8]]) -> Vec<u8> {
    let mut out = u16::try_from(id.len()).expect("short").to_be_bytes().to_vec();
    out.extend_from_slice(id);
    out.extend_from_slice(&[0, 1, 1]);
    out.extend_from_slice(&values(bound));
    out
}

/// The body of an EXECUTE at consistency ONE that asks for a page of so many rows.
pub fn execute_page(id: &[u8], bound: &[&[u8]], rows: i32, state: Option<&[u8]>) -> Vec<u8> {
    let mut out = execute(id, bound);
    out[id.len() + 4] |= if state.is_some() { 0x0C } else { 0x04 };
    out.extend_from_slice(&rows.to_be_bytes());
    if let Some(state) = state {
        out.extend_from_slice(&u32::try_from(state.len()).expect("short").to_be_bytes());
        out.extend_from_slice(state);
    }
    out
}

/// The body of a BATCH of one prepared statement at consistency ONE. `kind`: 0 logged, 1 not.
pub fn batch(kind: u8, id: &[u8], rows: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&u16::try_from(rows.len()).expect("few").to_be_bytes());
    for row in rows {
        out.push(1);
        out.extend_from_slice(&u16::try_from(id.len()).expect("short").to_be_bytes());
        out.extend_from_slice(id);
        let bound: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
        out.extend_from_slice(&values(&bound));
    }
    out.extend_from_slice(&[0, 1, 0]);
    out
}

/// The body of a BATCH of statements given as text.
pub fn text_batch(statements: &[String]) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&u16::try_from(statements.len()).expect("few").to_be_bytes());
    for statement in statements {
        body.push(0);
        body.extend_from_slice(&long_string(statement));
        body.extend_from_slice(&values(&[]));
    }
    body.extend_from_slice(&[0, 1, 0]);
    body
}

/// A connection.
pub struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Client {
    /// Connects and says nothing.
    pub fn raw(port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, buffer: Vec::new(), at: 0 })
    }

    /// Connects and says STARTUP.
    pub fn connect(port: u16) -> io::Result<Self> {
        let mut client = Self::raw(port)?;
        let answer = client.ask(op::STARTUP, &startup())?;
        assert_eq!(answer.opcode, op::READY, "{answer:?}");
        Ok(client)
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// A second handle for a thread that only sends.
    pub fn sending_half(&self) -> io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// How long [`Client::receive`] waits.
    pub fn set_patience(&mut self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("a time-out can be set");
    }

    /// The next frame, if all of it has come already.
    pub fn buffered(&mut self) -> Option<Answer> {
        let rest = &self.buffer[self.at..];
        let [version, flags, s0, s1, opcode, l0, l1, l2, l3] = *rest.first_chunk::<9>()?;
        assert_eq!(version, 0x84, "a response of version 4");
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let mut body = rest.get(9..9 + length)?.to_vec();
        self.at += 9 + length;
        let trace = (flags & 2 != 0).then(|| body.drain(..16).collect());
        Some(Answer { flags, stream: i16::from_be_bytes([s0, s1]), opcode, trace, body })
    }

    /// The next frame; an error of kind `UnexpectedEof` when the engine has closed.
    pub fn receive(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(answer) = self.buffered() {
                return Ok(answer);
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let before = self.buffer.len();
            self.buffer.resize(before + (64 << 10), 0);
            let read = self.socket.read(&mut self.buffer[before..]);
            self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends one request and waits for one frame.
    pub fn ask(&mut self, opcode: u8, body: &[u8]) -> io::Result<Answer> {
        self.send(&frame(1, opcode, body))?;
        self.receive()
    }

    /// Sends one request that asks to be traced, and waits for one frame.
    pub fn ask_traced(&mut self, opcode: u8, body: &[u8]) -> io::Result<Answer> {
        let mut bytes = frame(1, opcode, body);
        bytes[1] |= 2;
        self.send(&bytes)?;
        self.receive()
    }

    /// Runs a statement given as text, at consistency ONE.
    pub fn query(&mut self, text: &str) -> io::Result<Answer> {
        let mut body = long_string(text);
        body.extend_from_slice(&[0, 1, 0]);
        self.ask(op::QUERY, &body)
    }

    /// Runs a statement that must succeed.
    pub fn run(&mut self, text: &str) -> Answer {
        let answer = self.query(text).expect("an answer");
        answer.kind();
        answer
    }

    /// Prepares a statement that must be good; returns its id.
    pub fn prepare(&mut self, text: &str) -> Vec<u8> {
        let answer = self.ask(op::PREPARE, &long_string(text)).expect("an answer");
        assert_eq!(answer.kind(), 4, "prepared");
        let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
        answer.body[6..6 + usize::from(length)].to_vec()
    }

    /// All rows of a prepared SELECT, page by page: an answer that is not paged must fit into
    /// memory.
    pub fn all_rows(&mut self, id: &[u8], bound: &[&[u8]]) -> Vec<Row> {
        let (mut all, mut state) = (Vec::new(), None);
        loop {
            let body = execute_page(id, bound, 1000, state.as_deref());
            let (rows, next) = self.ask(op::EXECUTE, &body).expect("an answer").rows();
            all.extend(rows);
            state = next;
            if state.is_none() {
                return all;
            }
        }
    }

    /// Closes our side.
    pub fn finish(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}
