//! Where a page of a result ended: given to the client, and taken back with its next request.
//!
//! It says everything that is needed to go on, so it outlives a restart and needs no memory here.
//!
//! ```text
//! state := version u8 = 3 | has_given u8 | left u64 | partition_left u64 | token i64
//!          | key_len u32, key | ck_len u32, ck | checksum u32          big-endian
//! ```
//!
//! Versions 1 and 2, which are still taken, have no `has_given`; in version 1 a length has two
//! bytes.
//!
//! `left` rows may still be returned of those that `LIMIT` allows, `partition_left` of the
//! partition (`u64::MAX` for no limit). `has_given` is 1 if the partition has given a row: its
//! static columns are no row of their own, then. `checksum` is CRC-32 of all before it.

use crate::{
    cql::error::CqlError,
    mutation::{Token, token::token},
    store::Position,
};

const VERSION: u8 = 3;
const SECOND_VERSION: u8 = 2;
const FIRST_VERSION: u8 = 1;

/// A paging state, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingState {
    /// Rows still allowed by `LIMIT`.
    pub left: u64,
    /// Rows of the same partition still allowed by `PER PARTITION LIMIT`.
    pub partition_left: u64,
    /// Whether that partition has given a row.
    pub has_given: bool,
    /// The last row that was looked at.
    pub position: Position,
}

impl PagingState {
    /// The bytes for the client.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.has_given.into()];
        out.extend_from_slice(&self.left.to_be_bytes());
        out.extend_from_slice(&self.partition_left.to_be_bytes());
        out.extend_from_slice(&self.position.token.0.to_be_bytes());
        for bytes in [&self.position.key, &self.position.ck] {
            let length = u32::try_from(bytes.len()).expect("keys in storage are limited");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    }

    /// Takes the bytes of a client apart.
    ///
    /// # Errors
    /// If they are not what [`PagingState::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<Self, CqlError> {
        Self::parse(bytes).ok_or_else(|| CqlError::protocol("Invalid value for the paging state"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let (version, rest) = body.split_first()?;
        let take = if *version == FIRST_VERSION { take_short } else { take };
        let (has_given, rest) = match *version {
            VERSION => match rest.split_first()? {
                (flag @ (0 | 1), rest) => (*flag == 1, rest),
                _ => return None,
            },
            // There were no static columns.
            SECOND_VERSION | FIRST_VERSION => (true, rest),
            _ => return None,
        };
        let (left, rest) = rest.split_first_chunk::<8>()?;
        let (partition_left, rest) = rest.split_first_chunk::<8>()?;
        let (place, rest) = rest.split_first_chunk::<8>()?;
        let (key, rest) = take(rest)?;
        let (ck, rest) = take(rest)?;
        let place = Token(i64::from_be_bytes(*place));
        if !rest.is_empty() || token(key) != place {
            return None;
        }
        Some(PagingState {
            left: u64::from_be_bytes(*left),
            partition_left: u64::from_be_bytes(*partition_left),
            has_given,
            position: Position { token: place, key: key.to_vec(), ck: ck.to_vec() },
        })
    }
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

fn take_short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> PagingState {
        let key = b"d1".to_vec();
        let position = Position { token: token(&key), key, ck: vec![2, 0x80, 0, 0, 1] };
        PagingState { left: 17, partition_left: u64::MAX, has_given: true, position }
    }

    #[test]
    fn a_state_comes_back() {
        for has_given in [false, true] {
            let state = PagingState { has_given, ..state() };
            assert_eq!(PagingState::decode(&state.encode()), Ok(state));
        }
    }

    #[test]
    fn a_state_of_the_second_version_is_taken() {
        let mut bytes = state().encode();
        bytes.truncate(bytes.len() - 4);
        bytes.splice(..2, [SECOND_VERSION]);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        assert_eq!(PagingState::decode(&bytes), Ok(state()));
    }

    #[test]
    fn a_state_of_the_first_version_is_taken() {
        let mut bytes = vec![FIRST_VERSION];
        bytes.extend_from_slice(&17_u64.to_be_bytes());
        bytes.extend_from_slice(&u64::MAX.to_be_bytes());
        bytes.extend_from_slice(&token(b"d1").0.to_be_bytes());
        bytes.extend_from_slice(&[0, 2, b'd', b'1', 0, 5, 2, 0x80, 0, 0, 1]);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        assert_eq!(PagingState::decode(&bytes), Ok(state()));
    }

    #[test]
    fn a_state_with_any_bit_changed_or_byte_missing_is_refused() {
        let bytes = state().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(PagingState::decode(&bytes).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(PagingState::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}
