//! Ids of statements. That of a long text is made bit by bit.

use crate::io::TimeSlice;
use md5::{Digest, Md5};

/// What a client calls a statement: the MD5 of its keyspace and text, the same everywhere and
/// after a restart.
pub type Id = [u8; 16];

/// Bytes of a text that are taken in at once: some twenty microseconds.
const PIECE_BYTES: usize = 16 << 10;

/// The work on an id.
#[derive(Debug)]
pub struct IdWork {
    digest: Md5,
    done: usize,
}

impl IdWork {
    /// Nothing of the text is taken in yet. `keyspace` is the one of names that do not say theirs.
    #[must_use]
    pub fn new(keyspace: Option<&str>) -> Self {
        let digest = Md5::new_with_prefix(keyspace.unwrap_or_default());
        Self { digest, done: 0 }
    }

    /// Goes on as long as there is time, with the same text each time; gives the id when all of it
    /// is taken in and, of a long text, there is time left to prepare it.
    pub fn go_on(&mut self, text: &str, time: &mut TimeSlice<'_>) -> Option<Id> {
        while let Some(rest) = text.as_bytes().get(self.done..).filter(|rest| !rest.is_empty()) {
            let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
            self.digest.update(piece);
            self.done += piece.len();
            if text.len() > PIECE_BYTES {
                time.look();
                if time.is_over() {
                    return None;
                }
            }
        }
        Some(self.digest.clone().finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ManualClock;

    /// The id, and how many turns without time it takes.
    fn id_of(keyspace: Option<&str>, text: &str) -> (Id, usize) {
        let clock = ManualClock::at(0);
        let mut work = IdWork::new(keyspace);
        let once = |turn| Some((work.go_on(text, &mut TimeSlice::new(&clock, 0))?, turn));
        (1..).find_map(once).expect("it ends")
    }

    #[test]
    fn an_id_is_that_of_the_whole_text_however_often_it_is_interrupted() {
        let long = "SELECT 1;".repeat(PIECE_BYTES / 2);
        for text in ["", "SELECT v FROM t", &long] {
            let (id, turns) = id_of(Some("ks"), text);
            assert_eq!(id, <[u8; 16]>::from(Md5::digest(format!("ks{text}"))));
            assert_eq!(turns, if text == long { 6 } else { 1 });
        }
    }
}
