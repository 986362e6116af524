//! How much there is of everything in a test, and how its tables are compacted.

use std::collections::BTreeMap;

use sandglass_db::{
    io::Random,
    mutation::TableNumber,
    schema::{SizeTiers, TableSettings, TombstoneRule},
    sstable::BLOCK_BYTES,
    store::StoreConfig,
};

use super::{places::CKS, random_writes::ValueSizes};
use crate::simulated::{EXPIRING, config, tables};

/// Longer than any write of the test is late, so that the oracle, which forgets nothing, is right.
const GRACE_S: u32 = 45;

/// How much there is of everything.
pub struct Size {
    pub config: StoreConfig,
    /// How many rows a partition has at most.
    pub cks: u64,
    /// How many rows one step writes at most.
    pub rows_max: u64,
    pub values: ValueSizes,
}

impl Size {
    /// Many sstables of few rows.
    fn narrow() -> Self {
        let log_segment_bytes = 64 << 10;
        let data_lifetime_us = 40_000_000;
        // Indexes of hundreds of sstables leave room for writes.
        let cache_bytes_max = 64 << 10;
        let config =
            StoreConfig { log_segment_bytes, data_lifetime_us, cache_bytes_max, ..config(1) };
        let values = ValueSizes { large_bytes: 1_200..1_700, large_percent: 15 };
        Self { config, cks: 12, rows_max: 3, values }
    }

    /// Sstables of many blocks, of which each has few rows; partitions span them.
    fn wide(cache_bytes_max: usize) -> Self {
        let config = StoreConfig {
            memtable_bytes_max: 4 << 20,
            cache_bytes_max,
            // A write, of which the longest key is a part, has at most a quarter of it.
            log_segment_bytes: 1 << 20,
            log_bytes_max: 3 << 20,
            flush_write_bytes: 64 << 10,
            ..config(1)
        };
        let values = ValueSizes { large_bytes: 1_500..6_000, large_percent: 60 };
        Self { config, cks: CKS, rows_max: 30, values }
    }

    pub fn of(random: &mut Random) -> Self {
        let mut size = match random.below(4) {
            0 | 1 => Self::narrow(),
            // No block has room in this one.
            2 => Self::wide(16 << 10),
            _ => Self::wide(1 << 20),
        };
        // With 0 a read waits after each row and each sstable.
        size.config.read_us = random.one_of(&[0, 0, 100]);
        size.config.log_encoding_us = random.one_of(&[0, 0, 500]);
        size.config.large_write_bytes = random.one_of(&[60, 200, 2_000]);
        // With 1 each entry has a block of its own, and each partition key, too.
        size.config.block_bytes = random.one_of(&[1, 300, BLOCK_BYTES, BLOCK_BYTES]);
        size
    }
}

/// Tables with any windows, which are compacted often, seldom or never.
pub fn any_tables(random: &mut Random) -> BTreeMap<TableNumber, TableSettings> {
    let mut all = tables(GRACE_S);
    for (number, settings) in &mut all {
        if *number == EXPIRING {
            settings.window_us = random.one_of(&[None, Some(7_000_000), Some(20_000_000)]);
        }
        let of_two = SizeTiers { min_threshold: 2, ..SizeTiers::default() };
        let of_some_sizes = SizeTiers { min_sstable_bytes: 0, ..SizeTiers::default() };
        settings.tiers = random.one_of(&[None, Some(of_two), Some(of_two), Some(of_some_sizes)]);
        let rule = TombstoneRule {
            threshold: random.one_of(&[0.0, 0.2, 0.9]),
            interval_s: 0,
            unchecked: random.percent(50),
        };
        settings.tombstones = random.one_of(&[None, Some(rule)]);
    }
    all
}
