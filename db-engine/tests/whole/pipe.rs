//! A connection in memory.

use sandglass_db::server::Stream;
use std::{
    io::{self, ErrorKind, Read, Write},
    sync::{Arc, Mutex, MutexGuard},
};

/// The client's end.
#[derive(Debug, Clone, Default)]
pub struct Pipe(Arc<Mutex<State>>);

/// The engine's end; the connection is closed when it is dropped.
#[derive(Debug)]
pub struct EngineEnd(Pipe);

#[derive(Debug)]
struct State {
    to_engine: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes that the client has room for.
    room: usize,
    client_has_gone: bool,
    engine_has_gone: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            to_engine: Vec::new(),
            to_client: Vec::new(),
            room: 2_000,
            client_has_gone: false,
            engine_has_gone: false,
        }
    }
}

impl Pipe {
    pub fn engine_end(&self) -> EngineEnd {
        EngineEnd(self.clone())
    }

    pub fn send(&self, bytes: &[u8]) {
        self.state().to_engine.extend_from_slice(bytes);
    }

    /// Takes what has come, and makes room for so much more.
    pub fn take(&self, room: usize) -> Vec<u8> {
        let mut state = self.state();
        state.room = room;
        std::mem::take(&mut state.to_client)
    }

    pub fn leave(&self) {
        self.state().client_has_gone = true;
    }

    /// Whether the engine has closed the connection, or its side of it.
    pub fn is_closed(&self) -> bool {
        self.state().engine_has_gone
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a simulation has one thread")
    }
}

impl Read for EngineEnd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.to_engine.is_empty() && !state.client_has_gone {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = buffer.len().min(state.to_engine.len());
        buffer[..bytes].copy_from_slice(&state.to_engine[..bytes]);
        state.to_engine.drain(..bytes);
        Ok(bytes)
    }
}

impl Write for EngineEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.client_has_gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(state.room);
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        state.room -= taken;
        state.to_client.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for EngineEnd {
    fn close_output(&mut self) -> io::Result<()> {
        self.0.state().engine_has_gone = true;
        Ok(())
    }
}

impl Drop for EngineEnd {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.0.lock() {
            state.engine_has_gone = true;
        }
    }
}
