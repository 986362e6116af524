//! Numbers that look random, from numbers.

/// `SplitMix64` of Steele, Lea and Flood: every number becomes another one.
pub fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of them.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// At least 0, less than 1.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
