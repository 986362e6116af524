//! The event loop of one shard: waits for its sockets, and tells the reactor which of them are
//! ready.
//!
//! Without work the loop waits for ever, so an idle engine uses no processor at all.

use super::reactor::Reactor;
use crate::{error::is_no_descriptor, store::Fatal};
use log::warn;
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use std::{
    io::{self, ErrorKind},
    time::Duration,
};

/// The listening socket's token; connections have theirs from [`FIRST_CONNECTION`] on.
const LISTENER: Token = Token(0);

/// The token by which the shard's bell wakes its poll.
pub const BELL: Token = Token(1);

const FIRST_CONNECTION: usize = 2;

/// How long to wait when the operating system has no descriptor left for a new connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// One shard's loop and listening socket.
pub struct EventLoop {
    poll: Poll,
    listener: Option<TcpListener>,
    accept_again: bool,
    reactor: Reactor,
}

impl EventLoop {
    /// Puts a shard behind its listening socket. `poll` is the one its bell wakes.
    ///
    /// # Errors
    /// The operating system has no room for another descriptor.
    pub fn new(poll: Poll, listener: std::net::TcpListener, reactor: Reactor) -> io::Result<Self> {
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, listener: Some(listener), accept_again: false, reactor })
    }

    /// Serves until it is told to stop and everything is written.
    ///
    /// # Errors
    /// Storage has failed: nothing more may be acknowledged.
    ///
    /// # Panics
    /// The operating system refuses to wait, which leaves nothing to be done.
    pub fn run(mut self) -> Result<(), Fatal> {
        let mut events = Events::with_capacity(1024);
        while !self.reactor.is_over() {
            self.wait(&mut events);
            self.reactor.get_up();
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    BELL => {} // what it rang for is looked at in every turn
                    Token(token) => {
                        let Ok(index) = u32::try_from(token - FIRST_CONNECTION) else { continue };
                        if event.is_read_closed() {
                            self.reactor.ended(index);
                        }
                        if event.is_readable() {
                            self.reactor.readable(index);
                        }
                        if event.is_writable() {
                            self.reactor.writable(index);
                        }
                    }
                }
            }
            if self.accept_again {
                self.accept();
            }
            self.reactor.turn()?;
            if !self.reactor.is_open() {
                self.listener = None;
                self.accept_again = false;
            }
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events) {
        let mut timeout = self.reactor.lie_down();
        if self.accept_again {
            timeout = Some(timeout.map_or(ACCEPT_RETRY, |timeout| timeout.min(ACCEPT_RETRY)));
        }
        if timeout.is_none_or(|timeout| !timeout.is_zero()) {
            self.reactor.metrics().sleeps.add(1);
        }
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
            other => other.expect("epoll waits"),
        }
    }

    fn accept(&mut self) {
        let waited = std::mem::take(&mut self.accept_again);
        let registry = self.poll.registry();
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((stream, _)) => self.reactor.accept(stream, |stream, index| {
                    let token = Token(index as usize + FIRST_CONNECTION);
                    let both = Interest::READABLE | Interest::WRITABLE;
                    stream.set_nodelay(true)?;
                    registry.register(stream, token, both)
                }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if is_no_descriptor(&error) && self.reactor.make_way() => {}
                Err(error) => {
                    // No event tells when a descriptor is free again.
                    if !waited {
                        warn!(error:% = error; "a connection could not be accepted; trying again");
                    }
                    self.accept_again = true;
                    break;
                }
            }
        }
    }
}
