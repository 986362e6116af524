//! Keys, clustering keys, and the order in which a read comes to them.

use std::ops::{Bound, RangeBounds as _};

use sandglass_db::{
    mutation::token,
    store::{Partitions, Position, ReadRequest},
    types::comparable::ABOVE,
};

pub const KEYS: u64 = 6;
pub const CKS: u64 = 40;

/// A row without a clustering key: the static row, if the table has clustering columns.
pub const NO_CK: u64 = 0;
pub const FIRST_CK: u64 = 1;

/// The lengths of the last clustering keys, around what a `u16` can count and far beyond it. Others
/// are short.
const LONG_CKS: [usize; 4] = [65_534, 65_535, 65_536, 140_000];

/// The clustering keys below it are short.
pub const FIRST_LONG_CK: u64 = CKS - LONG_CKS.len() as u64;

pub fn key_bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// A clustering key: its number, in order, and zeros if it is a long one.
pub fn ck_bytes(ck: u64) -> Vec<u8> {
    if ck == NO_CK {
        return Vec::new();
    }
    let mut bytes = ck.to_be_bytes().to_vec();
    let long =
        ck.checked_sub(FIRST_LONG_CK).and_then(|at| LONG_CKS.get(usize::try_from(at).unwrap()));
    bytes.resize(long.copied().unwrap_or(bytes.len()), 0);
    bytes
}

/// The number of a clustering key, which must be all that it was.
pub fn ck_number(bytes: &[u8]) -> u64 {
    let ck = bytes.first_chunk().map_or(NO_CK, |first| u64::from_be_bytes(*first));
    assert!(bytes == ck_bytes(ck), "clustering key {ck} came back with {} bytes", bytes.len());
    ck
}

pub fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// The keys in the order of their tokens.
pub fn keys() -> Vec<u64> {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    keys.sort_by_key(|key| token::token(&key_bytes(*key)));
    keys
}

/// The keys of the partitions of a request, in its order.
pub fn wanted_keys(request: &ReadRequest) -> Vec<u64> {
    let is_wanted = |key: &u64| match &request.partitions {
        Partitions::One { key: wanted, .. } => *wanted == key_bytes(*key),
        Partitions::Range { from, to } => (*from..=*to).contains(&token::token(&key_bytes(*key)).0),
    };
    keys().into_iter().filter(is_wanted).collect()
}

/// Where the rows of a request can be, in its order, without static rows.
pub fn places(request: &ReadRequest) -> Vec<(u64, u64)> {
    let bounds = (request.from.clone(), request.to.clone());
    let first = if request.static_rows { FIRST_CK } else { NO_CK };
    let mut places: Vec<(u64, u64)> = wanted_keys(request)
        .into_iter()
        .flat_map(|key| (first..CKS).map(move |ck| (key, ck)))
        .filter(|(_, ck)| bounds.contains(&ck_bytes(*ck)))
        .collect();
    if request.reverse {
        places.reverse();
    }
    if let Some(after) = &request.after {
        places.drain(..read_until(&places, after));
    }
    places
}

/// How many of these places were read when a page has ended there.
pub fn read_until(places: &[(u64, u64)], end: &Position) -> usize {
    let key = number(&end.key);
    if is_partitions_end(end) {
        return places.iter().rposition(|place| place.0 == key).map_or(0, |last| last + 1);
    }
    let last = places.iter().position(|place| *place == (key, ck_number(&end.ck)));
    1 + last.expect("a page ends at a row of the request")
}

/// Whether a page has ended behind a partition of which it has the static row alone.
pub fn is_partitions_end(end: &Position) -> bool {
    end.ck == [ABOVE]
}

/// Any bound of clustering keys.
pub fn bound(ck: u64, kind: u64) -> Bound<Vec<u8>> {
    let ck = ck_bytes(ck);
    match kind % 5 {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(ck),
        _ => Bound::Included(ck),
    }
}
