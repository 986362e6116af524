//! Which partitions an sstable cannot have, told by their tokens.
//!
//! A split block Bloom filter, as Parquet specifies it and Impala has it (Putze, Sanders and
//! Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007; `BloomFilter.md` of
//! parquet-format): a token sets one bit in each of the eight words of one block, so a look at it
//! is one cache line. As tokens come in order, the filter is made in parts of so many tokens, and
//! never needs all of them.

use crate::mutation::{Input, Token};

/// Tokens of one part.
const PART_TOKENS: usize = 4_096;

/// Bits for each token. About one in two hundred that are not there is taken to be there.
const BITS_PER_TOKEN: usize = 12;

const WORDS: usize = 8;

const BLOCK_BITS: usize = WORDS * 32;

/// One for each word of a block: odd, so that multiplying by it loses nothing.
const SALT: [u32; WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// A cache line has two of them, and none is in two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))]
struct FilterBlock([u32; WORDS]);

impl FilterBlock {
    fn insert(&mut self, hash: u64) {
        for (word, mask) in self.0.iter_mut().zip(masks(hash)) {
            *word |= mask;
        }
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        self.0.iter().zip(masks(hash)).all(|(word, mask)| word & mask != 0)
    }
}

/// The bit of each word.
#[inline]
fn masks(hash: u64) -> impl Iterator<Item = u32> {
    let low = u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default();
    SALT.into_iter().map(move |salt| 1 << (low.wrapping_mul(salt) >> 27))
}

/// The tokens of a shard have their first bits in common, so all bits are mixed into these.
#[inline]
fn hash_of(token: Token) -> u64 {
    token.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Which block of so many, less than 2^32.
#[inline]
fn block_of(hash: u64, blocks: usize) -> usize {
    usize::try_from(((hash >> 32) * blocks as u64) >> 32).unwrap_or(usize::MAX)
}

/// Which partitions an sstable cannot have.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenFilter {
    /// The first token of each part, and the number of its first block.
    parts: Vec<(Token, usize)>,
    blocks: Vec<FilterBlock>,
}

impl TokenFilter {
    /// Whether there may be a partition with this token. If not, there is none.
    #[inline]
    pub fn may_have(&self, token: Token) -> bool {
        let next = match self.parts.len() {
            1 => 1,
            _ => self.parts.partition_point(|(first, _)| *first <= token),
        };
        let Some((_, start)) = next.checked_sub(1).and_then(|part| self.parts.get(part)) else {
            return false;
        };
        let end = self.parts.get(next).map_or(self.blocks.len(), |(_, start)| *start);
        let Some(blocks) = self.blocks.get(*start..end) else { return true };
        let hash = hash_of(token);
        blocks.get(block_of(hash, blocks.len())).is_some_and(|block| block.may_have(hash))
    }

    /// Bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<(Token, usize)>()
            + self.blocks.capacity() * size_of::<FilterBlock>()
    }

    /// Reads the next part of a filter, which fills the rest of the input.
    pub fn read_part(&mut self, input: &mut Input<'_>) -> Option<()> {
        if self.parts.is_empty() {
            self.blocks.reserve_exact(input.0.len() / size_of::<FilterBlock>());
        }
        let token = Token(input.i64()?);
        let blocks = input.u32()?;
        if blocks == 0 || self.parts.last().is_some_and(|(last, _)| *last >= token) {
            return None;
        }
        self.parts.push((token, self.blocks.len()));
        for _ in 0..blocks {
            let mut block = FilterBlock::default();
            for word in &mut block.0 {
                *word = input.u32()?;
            }
            self.blocks.push(block);
        }
        Some(())
    }

    /// Gives back what memory is left over, once all parts are read.
    pub fn shrink(&mut self) {
        self.parts.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }
}

/// Makes the filter of the tokens that it is given in order.
#[derive(Debug, Default)]
pub(super) struct TokenFilterWriter {
    /// Those of the part at hand.
    tokens: Vec<Token>,
    blocks: Vec<FilterBlock>,
    encoded: Vec<u8>,
}

impl TokenFilterWriter {
    /// Takes the token of the next partition, which may be that of the last one.
    pub fn add(&mut self, token: Token) {
        if self.tokens.last() == Some(&token) {
            return;
        }
        if self.tokens.len() >= PART_TOKENS {
            self.end_part();
        }
        self.tokens.push(token);
    }

    fn end_part(&mut self) {
        let Some(first) = self.tokens.first() else { return };
        let count = (self.tokens.len() * BITS_PER_TOKEN).div_ceil(BLOCK_BITS);
        self.blocks.clear();
        self.blocks.resize(count, FilterBlock::default());
        self.encoded.extend_from_slice(&first.0.to_le_bytes());
        for token in &self.tokens {
            let hash = hash_of(*token);
            if let Some(block) = self.blocks.get_mut(block_of(hash, count)) {
                block.insert(hash);
            }
        }
        let blocks = u32::try_from(count).expect("the tokens of a part are few");
        self.encoded.extend_from_slice(&blocks.to_le_bytes());
        let words = self.blocks.iter().flat_map(|block| block.0);
        words.for_each(|word| self.encoded.extend_from_slice(&word.to_le_bytes()));
        self.tokens.clear();
    }

    /// Appends the filter.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.end_part();
        out.append(&mut self.encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, PART_TOKENS, Token, TokenFilter, TokenFilterWriter};
    use crate::mutation::token::token;

    fn filter_of(tokens: &[Token]) -> TokenFilter {
        let mut writer = TokenFilterWriter::default();
        for token in tokens {
            writer.add(*token);
        }
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        let (mut filter, mut input) = (TokenFilter::default(), Input(&bytes));
        while !input.0.is_empty() {
            filter.read_part(&mut input).unwrap();
        }
        filter.shrink();
        filter
    }

    fn tokens(count: u32) -> Vec<Token> {
        let mut tokens: Vec<Token> = (0..count).map(|key| token(&key.to_be_bytes())).collect();
        tokens.sort_unstable();
        tokens
    }

    /// Of any number of tokens, around the ends of parts; also of those of one shard of many.
    #[test]
    fn what_is_there_is_never_denied() {
        let part = u32::try_from(PART_TOKENS).unwrap();
        for count in [1, 2, 21, 22, part - 1, part, part + 1, 2 * part, 2 * part + 1, 50_000] {
            let all = tokens(count);
            let filter = filter_of(&all);
            assert!(all.iter().all(|token| filter.may_have(*token)), "of {count}");
            let of_shard: Vec<_> = all.iter().map(|token| Token(token.0 >> 10)).collect();
            let filter = filter_of(&of_shard);
            assert!(of_shard.iter().all(|token| filter.may_have(*token)), "of {count}");
        }
        let ends = [Token(i64::MIN), Token(-1), Token(0), Token(1), Token(i64::MAX)];
        let twice: Vec<_> = ends.iter().flat_map(|token| [*token; 2]).collect();
        assert!(ends.iter().all(|token| filter_of(&twice).may_have(*token)));
    }

    #[test]
    fn little_else_is_taken_to_be_there_and_little_memory_is_used() {
        for (shift, count) in [(0, 500), (0, 100_000), (10, 100_000)] {
            let own = |token: &Token| Token(token.0 >> shift);
            let all: Vec<_> = tokens(count).iter().map(own).collect();
            let filter = filter_of(&all);
            let others = (count..count + 100_000).map(|key| own(&token(&key.to_be_bytes())));
            let wrong = others.filter(|token| filter.may_have(*token)).count();
            assert!(wrong < 1_000, "{wrong} of 100,000, of {count}");
            assert!(filter.memory_bytes() < count as usize * 7 / 4, "of {count}");
        }
    }
}
