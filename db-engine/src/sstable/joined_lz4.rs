//! One LZ4 block that is compressed a piece at a time.
//!
//! An LZ4 block consists of sequences, each of some literals and a match further back; the last
//! one has literals only (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>). So two
//! blocks become one if the last literals of the first are put before the first ones of the second.
//! How far back a match is stays the same.

use crate::mutation::Input;

/// A length that is as long as its half of a token can say goes on behind it.
const LENGTH_IN_TOKEN_MAX: u8 = 15;

/// Sequences of the pieces so far.
#[derive(Debug, Default)]
pub struct JoinedLz4 {
    /// All but the last one.
    out: Vec<u8>,
    /// How many bytes have been compressed.
    end: usize,
    /// How many of these, at their end, are the literals of the last sequence.
    literals: usize,
}

impl JoinedLz4 {
    /// None yet. The block will stand behind what is in `out`, and counts with that.
    #[must_use]
    pub fn behind(out: Vec<u8>) -> Self {
        Self { out, end: 0, literals: 0 }
    }

    /// How many bytes have been compressed.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Bytes that it comes to if nothing follows, but for a few.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.out.len() + self.literals
    }

    /// Appends a piece of so many bytes of `raw` that is an LZ4 block by itself; `None` if it is
    /// not.
    pub fn join(&mut self, raw: &[u8], piece_bytes: usize, piece: &[u8]) -> Option<()> {
        let mut input = Input(piece);
        let (match_length, first) = take_literals(&mut input)?;
        let (begin, end) = (self.end, self.end + piece_bytes);
        self.end = end;
        let literals = self.literals + first;
        if input.0.is_empty() {
            self.literals = literals;
            return Some(());
        }
        let matches = input.0;
        skip_match(&mut input, match_length)?;
        let rest_bytes = loop {
            let bytes = matches.len() - input.0.len();
            let (match_length, last) = take_literals(&mut input)?;
            if input.0.is_empty() {
                self.literals = last;
                break bytes;
            }
            skip_match(&mut input, match_length)?;
        };
        self.put_literals(raw.get(begin + first - literals..begin + first)?, match_length);
        self.out.extend_from_slice(matches.get(..rest_bytes)?);
        Some(())
    }

    /// The block that all pieces of `raw` have become.
    #[must_use]
    pub fn finish(mut self, raw: &[u8]) -> Vec<u8> {
        let last = raw.get(self.end - self.literals..self.end).unwrap_or_default();
        self.put_literals(last, 0);
        self.out
    }

    /// Begins a sequence.
    fn put_literals(&mut self, literals: &[u8], match_length: u8) {
        let in_token = literals.len().min(LENGTH_IN_TOKEN_MAX.into());
        self.out.push(u8::try_from(in_token).unwrap_or(LENGTH_IN_TOKEN_MAX) << 4 | match_length);
        if in_token == usize::from(LENGTH_IN_TOKEN_MAX) {
            let rest = literals.len() - in_token;
            self.out.resize(self.out.len() + rest / 255, 255);
            self.out.push(u8::try_from(rest % 255).unwrap_or_default());
        }
        self.out.extend_from_slice(literals);
    }
}

/// Takes a token and literals. Gives what the token says of the length of the match, and how many
/// the literals are.
fn take_literals(input: &mut Input<'_>) -> Option<(u8, usize)> {
    let token = input.u8()?;
    let length = take_length(input, token >> 4)?;
    input.take(length)?;
    Some((token & LENGTH_IN_TOKEN_MAX, length))
}

/// Takes the rest of a sequence: how far back the match is, and how long.
fn skip_match(input: &mut Input<'_>, match_length: u8) -> Option<()> {
    input.u16()?;
    take_length(input, match_length)?;
    Some(())
}

/// A length that begins in a token.
fn take_length(input: &mut Input<'_>, in_token: u8) -> Option<usize> {
    let mut length = usize::from(in_token);
    if in_token == LENGTH_IN_TOKEN_MAX {
        loop {
            let more = input.u8()?;
            length += usize::from(more);
            if more < u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::JoinedLz4;
    use crate::io::Random;
    use lz4_flex::block::{compress, decompress};

    /// Joins pieces of these lengths, and sees that they come back.
    fn joined(raw: &[u8], lengths: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut all = JoinedLz4::default();
        for length in lengths {
            let end = raw.len().min(all.end() + length);
            let piece = &raw[all.end()..end];
            all.join(raw, piece.len(), &compress(piece)).unwrap();
        }
        assert_eq!(all.end(), raw.len());
        let bytes = all.bytes();
        let out = all.finish(raw);
        assert!(
            bytes < out.len() && out.len() <= bytes + 3 + bytes / 255,
            "{bytes}, {}",
            out.len()
        );
        assert!(decompress(&out, raw.len()).unwrap() == raw, "it comes back");
        out
    }

    /// Some of each: what repeats soon, or never, or is one byte over and over.
    fn mixed(random: &mut Random, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < bytes {
            let length = 1 + random.below(400);
            match random.below(3) {
                0 => out.extend((0..length).map(|_| random.below(256).to_le_bytes()[0])),
                1 => out.extend((0..length).map(|_| 7)),
                _ => {
                    for _ in 0..length / 6 {
                        out.extend(random.one_of(&[b"valve ", b"boiler"]));
                    }
                }
            }
        }
        out.truncate(bytes);
        out
    }

    #[test]
    fn pieces_of_any_length_come_back_as_one_block() {
        for seed in 0..60 {
            let mut random = Random(seed);
            let bytes = usize::try_from(random.below(9_000)).unwrap();
            let raw = mixed(&mut random, bytes);
            for length in [1, 2, 5, 12, 13, 14, 100, 1_000, 4_096] {
                joined(&raw, std::iter::repeat_n(length, raw.len().div_ceil(length)));
            }
        }
    }

    /// How long literals and matches are is written in another way from 15 and from 270 bytes on.
    #[test]
    fn literals_of_each_length_are_joined_to_those_before() {
        let mut random = Random(1);
        let noise: Vec<_> = (0..600).map(|_| random.below(256).to_le_bytes()[0]).collect();
        let zeros = [0; 300];
        for before in [0, 1, 14, 15, 16, 254, 255, 256, 269, 270, 271, 300] {
            for behind in [0, 1, 14, 15, 16, 254, 255, 256, 269, 270, 271, 300] {
                let first = [&zeros[..], &noise[..before]].concat();
                let second = [&noise[300..300 + behind], &zeros].concat();
                let raw = [first.as_slice(), &second].concat();
                let out = joined(&raw, [first.len(), second.len()].into_iter());
                assert!(out.len() < before + behind + 60, "{before} and {behind}: {}", out.len());
            }
        }
    }

    #[test]
    fn a_piece_that_is_cut_short_is_refused() {
        let raw = mixed(&mut Random(2), 2_000);
        let piece = compress(&raw);
        for bytes in 0..piece.len() {
            let mut all = JoinedLz4::default();
            let is_joined = all.join(&raw, raw.len(), &piece[..bytes]).is_some();
            // What ends behind literals is whole.
            assert!(!is_joined || all.bytes() < piece.len(), "{bytes}");
        }
    }
}
