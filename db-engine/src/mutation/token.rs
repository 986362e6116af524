//! Where a partition lives: the token of its key, and the shard that owns a token.
//!
//! The token is Cassandra's Murmur3 and the shard is ScyllaDB's `biased-token-round-robin` with
//! no bits ignored, so that drivers compute both themselves and send a request where it belongs.

use std::ops::RangeInclusive;

/// The hash of a partition key, by which partitions are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The token of a serialized partition key.
#[must_use]
pub fn token(key: &[u8]) -> Token {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (chunks, tail) = key.as_chunks::<16>();
    for chunk in chunks {
        let both = u128::from_le_bytes(*chunk);
        h1 ^= mix_k1(low(both));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(low(both >> 64));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    // Cassandra reads the tail as signed bytes: a byte over 127 flips all bits above it.
    let (mut k1, mut k2) = (0_u64, 0_u64);
    for (index, byte) in tail.iter().enumerate() {
        let signed = i64::from(byte.cast_signed()).cast_unsigned();
        if index < 8 {
            k1 ^= signed << (index * 8);
        } else {
            k2 ^= signed << ((index - 8) * 8);
        }
    }
    h2 ^= mix_k2(k2);
    h1 ^= mix_k1(k1);

    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let hash = mix_final(h1).wrapping_add(mix_final(h2)).cast_signed();
    // The smallest value is not a token: it stands for "before the first".
    Token(if hash == i64::MIN { i64::MAX } else { hash })
}

fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn mix_final(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[allow(clippy::cast_possible_truncation)] // the low half is what is asked for
fn low(both: u128) -> u64 {
    both as u64
}

/// The shard, of this many, that owns a token.
///
/// # Panics
///
/// If there are no shards.
#[must_use]
pub fn shard_of(token: Token, shards: u16) -> u16 {
    assert!(shards > 0, "there is at least one shard");
    let shard = (u128::from(biased(token.0)) * u128::from(shards)) >> 64;
    u16::try_from(shard).expect("it is less than `shards`")
}

/// The tokens that a shard owns.
///
/// # Panics
///
/// If `shard` is not one of `shards`.
#[must_use]
pub fn range_of(shard: u16, shards: u16) -> RangeInclusive<i64> {
    assert!(shard < shards, "shard {shard} of {shards}");
    let first = |shard: u16| (u128::from(shard) << 64).div_ceil(u128::from(shards));
    unbiased(low(first(shard)))..=unbiased(low(first(shard + 1) - 1))
}

fn biased(token: i64) -> u64 {
    token.cast_unsigned() ^ (1 << 63)
}

fn unbiased(biased: u64) -> i64 {
    (biased ^ (1 << 63)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_cassandras() {
        // The values that Cassandra's own drivers are tested with.
        assert_eq!(token(b"123"), Token(-7_468_325_962_851_647_638));
        assert_eq!(token(&b"\x00\xff\x10\xfa\x99".repeat(10)), Token(5_837_342_703_291_459_765));
        assert_eq!(token(&[0xfe; 8]), Token(-8_927_430_733_708_461_935));
        assert_eq!(token(&[0x10; 8]), Token(1_446_172_840_243_228_796));
        assert_eq!(token(b"9223372036854775807"), Token(7_162_290_910_810_015_547));
        assert_eq!(token(b""), Token(0));
    }

    #[test]
    fn every_token_has_one_shard_and_its_range_says_so() {
        for shards in 1..=17 {
            let mut next = Some(i64::MIN);
            for shard in 0..shards {
                let range = range_of(shard, shards);
                assert_eq!(Some(*range.start()), next, "{shard} of {shards}");
                assert_eq!(shard_of(Token(*range.start()), shards), shard);
                assert_eq!(shard_of(Token(*range.end()), shards), shard);
                next = range.end().checked_add(1);
            }
            assert_eq!(next, None, "the last range ends with the last token");
        }
    }
}
