//! What follows `WITH` of a table or keyspace: its meaning, its defaults and its limits.
//!
//! Options that concern only Cassandra's own storage are checked for being known, kept, and shown
//! to whoever reads `system_schema.tables`; they change nothing here.

use super::{
    DroppedCells,
    compaction::{
        SizeTiers, TombstoneRule, compaction, size_tiers, tombstone_rule, without_effect,
    },
    ddl::{Properties, Property, SchemaError},
    shown::{caching, compression, word},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};
use uuid::Uuid;

/// Longest time to live: 20 years, as in Cassandra.
pub const TTL_S_MAX: u32 = 630_720_000;
/// Most compaction windows that a table with a time to live should have at a time. Each is at least
/// one file; ScyllaDB's limit.
pub const WINDOWS_MAX: i64 = 50;

/// Above it a Bloom filter can be made, as Cassandra judges it.
const FP_CHANCE_MIN: f64 = 6.71e-5;

pub(super) const TIME_WINDOW: &str = "TimeWindowCompactionStrategy";

/// What storage must know of a table besides its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableSettings {
    /// The length of a compaction window in microseconds: data written within one window is
    /// stored and removed together. `None`: all of time is one window.
    pub window_us: Option<i64>,
    /// How long a file stays after the last of it was deleted or has expired, in seconds.
    pub gc_grace_s: u32,
    /// Cells that need not be kept, if there may be any.
    pub dropped: Option<Arc<DroppedCells>>,
    /// How sstables are compacted; `None`: not at all.
    pub tiers: Option<SizeTiers>,
    /// When an sstable is written anew by itself for its tombstones; `None`: never.
    pub tombstones: Option<TombstoneRule>,
}

/// The options of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableOptions {
    /// For people.
    pub comment: String,
    /// Time to live of what is written without one, in seconds; 0 is for ever.
    pub default_ttl_s: u32,
    /// How long what was deleted or has expired is remembered, in seconds: it hides older versions
    /// of itself that arrive only now.
    pub gc_grace_s: u32,
    /// The compaction strategy (`class`, its full name) and its options.
    pub compaction: BTreeMap<String, String>,
    /// Kept and shown.
    pub compression: BTreeMap<String, String>,
    /// Kept and shown.
    pub caching: BTreeMap<String, String>,
    /// Kept and shown.
    pub bloom_filter_fp_chance: f64,
    /// Kept and shown: checksums are always checked.
    pub crc_check_chance: f64,
    /// Kept and shown, in milliseconds.
    pub memtable_flush_period_ms: i32,
    /// Kept and shown.
    pub min_index_interval: i32,
    /// Kept and shown.
    pub max_index_interval: i32,
    /// Options that are only shown, by name: `speculative_retry` and the like.
    pub shown: BTreeMap<String, String>,
}

fn text_map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            comment: String::new(),
            default_ttl_s: 0,
            gc_grace_s: 864_000,
            compaction: text_map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: text_map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            caching: text_map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            bloom_filter_fp_chance: 0.01,
            crc_check_chance: 1.0,
            memtable_flush_period_ms: 0,
            min_index_interval: 128,
            max_index_interval: 2048,
            shown: text_map(&[
                ("additional_write_policy", "99p"),
                ("memtable", "default"),
                ("read_repair", "BLOCKING"),
                ("speculative_retry", "99p"),
            ]),
        }
    }
}

pub(super) fn syntax<T>(text: String) -> Result<T, SchemaError> {
    Err(SchemaError::Syntax(text))
}

pub(super) fn config<T>(text: String) -> Result<T, SchemaError> {
    Err(SchemaError::Config(text))
}

fn value(name: &str, property: Property) -> Result<String, SchemaError> {
    match property {
        Property::Value(value) => Ok(value),
        Property::Map(_) => {
            syntax(format!("Invalid value for property '{name}'. It should be a string"))
        }
    }
}

pub(super) fn map(name: &str, property: Property) -> Result<BTreeMap<String, String>, SchemaError> {
    match property {
        Property::Map(map) => Ok(map),
        Property::Value(_) => {
            syntax(format!("Invalid value for property '{name}'. It should be a map"))
        }
    }
}

/// `true` or `false`; Cassandra takes 1 and yes for true as well.
pub(super) fn boolean(name: &str, property: Property) -> Result<bool, SchemaError> {
    let text = value(name, property)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or \
             'yes'. Negative values can be '0', 'false' or 'no'."
        )),
    }
}

fn integer(name: &str, property: Property) -> Result<i32, SchemaError> {
    let text = value(name, property)?;
    let refused = || SchemaError::Syntax(format!("Invalid integer value {text} for '{name}'"));
    text.parse().map_err(|_| refused())
}

fn double(name: &str, property: Property) -> Result<f64, SchemaError> {
    let text = value(name, property)?;
    let refused = || SchemaError::Syntax(format!("Invalid double value {text} for '{name}'"));
    text.parse().map_err(|_| refused())
}

/// A number that may not be negative.
fn unsigned(name: &str, property: Property) -> Result<u32, SchemaError> {
    let number = integer(name, property)?;
    u32::try_from(number)
        .or_else(|_| config(format!("{name} must be greater than or equal to 0 (got {number})")))
}

impl TableOptions {
    /// Sets what is given and leaves the rest.
    ///
    /// # Errors
    /// In Cassandra's words, if a property is unknown, given twice, or has no legal value.
    pub fn set(&mut self, properties: Properties) -> Result<(), SchemaError> {
        let mut seen = Vec::new();
        for (name, property) in properties {
            if seen.contains(&name) {
                return syntax(format!("Multiple definition for property '{name}'"));
            }
            self.set_one(&name, property)?;
            seen.push(name);
        }
        self.check_index_intervals()
    }

    fn check_index_intervals(&self) -> Result<(), SchemaError> {
        let (min, max) = (self.min_index_interval, self.max_index_interval);
        if min < 1 {
            return config(format!(
                "min_index_interval must be greater than or equal to 1 (got {min})"
            ));
        }
        if max < min {
            return config(format!(
                "max_index_interval must be greater than or equal to min_index_interval ({min}) \
                 (got {max})"
            ));
        }
        Ok(())
    }

    fn set_one(&mut self, name: &str, property: Property) -> Result<(), SchemaError> {
        match name {
            "comment" => self.comment = value(name, property)?,
            "default_time_to_live" => {
                self.default_ttl_s = unsigned(name, property)?;
                if self.default_ttl_s > TTL_S_MAX {
                    return config(format!(
                        "default_time_to_live must be less than or equal to {TTL_S_MAX} (got {})",
                        self.default_ttl_s
                    ));
                }
            }
            "gc_grace_seconds" => self.gc_grace_s = unsigned(name, property)?,
            "compaction" => self.compaction = compaction(map(name, property)?)?,
            "compression" => self.compression = compression(map(name, property)?)?,
            "caching" => self.caching = caching(&map(name, property)?)?,
            "bloom_filter_fp_chance" => {
                let chance = double(name, property)?;
                if !(chance > FP_CHANCE_MIN && chance <= 1.0) {
                    return config(format!(
                        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or \
                         equal to 1.0 (got {chance:?})"
                    ));
                }
                self.bloom_filter_fp_chance = chance;
            }
            "crc_check_chance" => {
                let chance = double(name, property)?;
                if !(0.0..=1.0).contains(&chance) {
                    return config(format!(
                        "crc_check_chance must be larger than or equal to 0 and smaller than or \
                         equal to 1.0 (got {chance:?})"
                    ));
                }
                self.crc_check_chance = chance;
            }
            "memtable_flush_period_in_ms" => {
                let period = unsigned(name, property)?;
                self.memtable_flush_period_ms = i32::try_from(period).unwrap_or(i32::MAX);
            }
            "min_index_interval" => self.min_index_interval = integer(name, property)?,
            "max_index_interval" => self.max_index_interval = integer(name, property)?,
            "cdc" => {
                if boolean(name, property)? {
                    let text = "Change data capture is not supported yet by Sandglass";
                    return Err(SchemaError::Invalid(text.into()));
                }
            }
            "speculative_retry" | "additional_write_policy" | "read_repair" | "memtable" => {
                self.shown.insert(name.into(), word(name, &value(name, property)?)?);
            }
            "allow_auto_snapshot" | "incremental_backups" => drop(boolean(name, property)?),
            "id" => {
                if Uuid::parse_str(&value(name, property)?).is_err() {
                    return config("Invalid table id".into());
                }
            }
            // Known to Cassandra or ScyllaDB; nothing here could heed or show them.
            "read_repair_chance"
            | "dclocal_read_repair_chance"
            | "extensions"
            | "tombstone_gc"
            | "synchronous_updates"
            | "in_memory"
            | "paxos_grace_seconds" => {}
            _ => return syntax(format!("Unknown property '{name}'")),
        }
        Ok(())
    }

    /// The options that concern storage.
    pub(super) fn settings(&self) -> TableSettings {
        let (window_us, gc_grace_s) = (self.window_us(), self.gc_grace_s);
        let tiers = size_tiers(&self.compaction);
        let tombstones = tiers.and_then(|_| tombstone_rule(&self.compaction));
        TableSettings { window_us, gc_grace_s, dropped: None, tiers, tombstones }
    }

    /// The length of a compaction window in microseconds; none unless the strategy has windows.
    fn window_us(&self) -> Option<i64> {
        let class = self.compaction.get("class")?;
        if !class.ends_with(TIME_WINDOW) {
            return None;
        }
        let text = |key: &str| self.compaction.get(key).map(String::as_str);
        let unit_s = match text("compaction_window_unit").unwrap_or("DAYS") {
            "MINUTES" => 60,
            "HOURS" => 3_600,
            _ => 86_400,
        };
        let size: i64 = text("compaction_window_size").unwrap_or("1").parse().ok()?;
        size.checked_mul(unit_s)?.checked_mul(1_000_000)
    }

    /// What is legal and is not what one might think: to be told to the client that changed the
    /// options from what they were `before`.
    #[must_use]
    pub fn warning(&self, before: Option<&Self>) -> Option<String> {
        let windows = self
            .too_many_windows()
            .filter(|_| before.is_none_or(|before| before.too_many_windows().is_none()));
        let is_new = before.is_none_or(|before| before.compaction != self.compaction);
        let without_effect = is_new.then(|| without_effect(&self.compaction)).flatten();
        let warnings: Vec<String> = windows.into_iter().chain(without_effect).collect();
        (!warnings.is_empty()).then(|| warnings.join(". "))
    }

    fn too_many_windows(&self) -> Option<String> {
        let window_us = self.window_us()?;
        let windows = i64::from(self.default_ttl_s) * 1_000_000 / window_us;
        if windows <= WINDOWS_MAX {
            return None;
        }
        Some(format!(
            "The setting of default_time_to_live={} and compaction window={}(s) can lead to \
             {windows} windows, which is larger than the recommended number of windows \
             ({WINDOWS_MAX})",
            self.default_ttl_s,
            window_us / 1_000_000
        ))
    }
}
