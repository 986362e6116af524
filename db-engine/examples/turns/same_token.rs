//! Keys that have the same token: Murmur3 has no secret, and every step of it can be undone.

use sandglass_db::mutation::token::token;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// What is added to the halves of the hash behind each block of sixteen bytes.
const ADDED: (u64, u64) = (0x52dc_e729, 0x3849_5ab5);

/// The token.
const TOKEN: i64 = 6_807_470_895_440_233_038;

/// A key of 32 bytes, another one for each number, whose token is that of all others: the first
/// sixteen bytes are free, and the others take the hash to where it is wanted.
pub fn key(number: u64) -> [u8; 32] {
    let wanted: (u64, u64) = (12_345, 67_890);
    let free = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number);
    let h1 = mix(free.0, C1, 31, C2).rotate_left(27).wrapping_mul(5).wrapping_add(ADDED.0);
    let h2 = mix(free.1, C2, 33, C1).rotate_left(31).wrapping_add(h1);
    let h2 = h2.wrapping_mul(5).wrapping_add(ADDED.1);
    let fifth = inverse(5);
    let k1 = wanted.0.wrapping_sub(ADDED.0).wrapping_mul(fifth).wrapping_sub(h2);
    let k2 = wanted.1.wrapping_sub(ADDED.1).wrapping_mul(fifth).wrapping_sub(wanted.0);
    let k1 = unmix(k1.rotate_right(27) ^ h1, C1, 31, C2);
    let k2 = unmix(k2.rotate_right(31) ^ h2, C2, 33, C1);
    let mut key = [0; 32];
    for (place, half) in key.chunks_exact_mut(8).zip([free.0, free.1, k1, k2]) {
        place.copy_from_slice(&half.to_le_bytes());
    }
    assert_eq!(token(&key).0, TOKEN, "all have one token");
    key
}

/// How a block's half is mixed.
fn mix(half: u64, first: u64, turns: u32, second: u64) -> u64 {
    half.wrapping_mul(first).rotate_left(turns).wrapping_mul(second)
}

fn unmix(mixed: u64, first: u64, turns: u32, second: u64) -> u64 {
    mixed.wrapping_mul(inverse(second)).rotate_right(turns).wrapping_mul(inverse(first))
}

/// The number by which an odd one is 1, modulo 2^64: each of Newton's steps doubles the bits that
/// are right, of which an odd number as its own inverse has three.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |found, _| found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found))))
}
