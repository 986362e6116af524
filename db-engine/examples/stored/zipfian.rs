//! The distributions of keys of YCSB: `ZipfianGenerator`, `ScrambledZipfianGenerator` and
//! `SkewedLatestGenerator` of its core (github.com/brianfrankcooper/YCSB), which have them from
//! Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994.

// They are made of floating-point numbers there, too.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use super::random::Random;

const THETA: f64 = 0.99;

/// Items that are scrambled, of which the keys are the hashes, and their zeta.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Small numbers are frequent.
#[derive(Clone)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
}

impl Zipfian {
    pub fn of(items: u64) -> Self {
        let mut zipfian = Self { items: 0, zeta: 0.0 };
        zipfian.grow_to(items);
        zipfian
    }

    /// From now on there are so many.
    pub fn grow_to(&mut self, items: u64) {
        for item in self.items..items {
            self.zeta += 1.0 / ((item + 1) as f64).powf(THETA);
        }
        self.items = self.items.max(items);
    }

    pub fn next(&self, random: &mut Random) -> u64 {
        let alpha = 1.0 / (1.0 - THETA);
        let zeta_of_two = 1.0 + 0.5_f64.powf(THETA);
        let items = self.items as f64;
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_of_two / self.zeta);
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < zeta_of_two {
            return 1;
        }
        (items * (eta * unit - eta + 1.0).powf(alpha)) as u64
    }
}

/// Some numbers are frequent, wherever they are.
pub fn scrambled(items: u64, random: &mut Random) -> u64 {
    let all = Zipfian { items: SCRAMBLED_ITEMS, zeta: SCRAMBLED_ZETA };
    hash(all.next(random)) % items
}

/// Large numbers are frequent: what was inserted last.
pub fn latest(zipfian: &mut Zipfian, items: u64, random: &mut Random) -> u64 {
    zipfian.grow_to(items);
    items - 1 - zipfian.next(random).min(items - 1)
}

/// `Utils.hash`: FNV-1a of 64 bits.
pub fn hash(number: u64) -> u64 {
    number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    })
}
