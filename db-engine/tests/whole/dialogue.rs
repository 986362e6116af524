//! Requests one after the other, each of which waits for its answer.

use super::{
    Engine,
    client::{Client, page, query},
};
use crate::wire::client::{Answer, Row, long_string, op};
use sandglass_db::io::Random;

/// More turns than any request needs.
const TURNS_MAX: usize = 100_000;

/// An engine, and a client of each of its shards.
pub struct Dialogue {
    pub engine: Engine,
    pub clients: Vec<Client<()>>,
    random: Random,
}

impl Dialogue {
    pub fn new(engine: Engine) -> Self {
        let mut dialogue = Self { engine, clients: Vec::new(), random: Random(1) };
        for shard in 0..dialogue.engine.shards() {
            dialogue.clients.push(Client::connect(&mut dialogue.engine, shard, ()));
            let ready = dialogue.answer(shard);
            assert_eq!(ready.opcode, op::READY);
        }
        dialogue
    }

    /// A turn of every shard that has a reason to take one.
    pub fn turn(&mut self) {
        for shard in 0..self.engine.shards() {
            if self.engine.is_awake(shard) {
                self.engine.turn(shard).unwrap();
            }
        }
        self.engine.clock.advance(1_000);
    }

    /// Gives the engine all that a client has said.
    pub fn push(&mut self, client: usize) {
        while !self.clients[client].is_sent() {
            self.clients[client].push(&mut self.engine, &mut self.random);
        }
    }

    /// The answers that have come.
    pub fn take(&mut self, client: usize) -> Vec<Answer> {
        let answers = self.clients[client].take(&mut self.engine, 1 << 20);
        answers.into_iter().map(|((), answer)| answer).collect()
    }

    pub fn answer(&mut self, client: usize) -> Answer {
        for _ in 0..TURNS_MAX {
            self.push(client);
            self.turn();
            if let Some(answer) = self.take(client).pop() {
                return answer;
            }
        }
        panic!("a request is not answered");
    }

    pub fn ask(&mut self, client: usize, opcode: u8, body: &[u8]) -> Answer {
        self.clients[client].ask(opcode, body, ());
        self.answer(client)
    }

    /// Runs a statement that must succeed.
    pub fn run(&mut self, client: usize, text: &str) -> Answer {
        let answer = self.ask(client, op::QUERY, &query(text));
        answer.kind();
        answer
    }

    /// One page of a statement.
    pub fn page(&mut self, client: usize, text: &str, rows: i32) -> (Vec<Row>, Option<Vec<u8>>) {
        self.ask(client, op::QUERY, &page(text, rows, None)).rows()
    }

    pub fn prepare(&mut self, client: usize, text: &str) -> Vec<u8> {
        let answer = self.ask(client, op::PREPARE, &long_string(text));
        assert_eq!(answer.kind(), 4, "prepared");
        let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
        answer.body[6..6 + usize::from(length)].to_vec()
    }

    /// Stops in order.
    pub fn stop(&mut self) {
        self.engine.stop.request();
        for _ in 0..TURNS_MAX {
            if self.engine.is_over() {
                return;
            }
            self.turn();
        }
        panic!("it does not stop");
    }
}
