//! What follows `WITH` of a table or keyspace: its meaning, its defaults and its limits.
//!
//! Options that concern only Cassandra's own storage are checked for being known, kept, and shown
//! to whoever reads `system_schema.tables`; they change nothing here.

use super::ddl::{Properties, Property, SchemaError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest time to live: 20 years, as in Cassandra.
pub const TTL_S_MAX: u32 = 630_720_000;
/// Most compaction windows that a table with a time to live may have at a time. Each is at least
/// one file; ScyllaDB's limit.
pub const WINDOWS_MAX: i64 = 50;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const TIME_WINDOW: &str = "TimeWindowCompactionStrategy";
const STRATEGIES: [&str; 5] = [
    TIME_WINDOW,
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "UnifiedCompactionStrategy",
    "IncrementalCompactionStrategy",
];

/// What storage must know of a table besides its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSettings {
    /// The length of a compaction window in microseconds: data written within one window is
    /// stored and removed together. `None`: all of time is one window.
    pub window_us: Option<i64>,
    /// How long a file stays after the last of it was deleted or has expired, in seconds.
    pub gc_grace_s: u32,
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

fn syntax<T>(text: String) -> Result<T, SchemaError> {
    Err(SchemaError::Syntax(text))
}

fn config<T>(text: String) -> Result<T, SchemaError> {
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

fn map(name: &str, property: Property) -> Result<BTreeMap<String, String>, SchemaError> {
    match property {
        Property::Map(map) => Ok(map),
        Property::Value(_) => {
            syntax(format!("Invalid value for property '{name}'. It should be a map"))
        }
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
        self.check_windows()
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
            "compression" => self.compression = map(name, property)?,
            "caching" => self.caching = map(name, property)?,
            "bloom_filter_fp_chance" => {
                let chance = double(name, property)?;
                if !(chance > 0.0 && chance <= 1.0) {
                    return config(format!(
                        "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or \
                         equal to 1.0 (got {chance})"
                    ));
                }
                self.bloom_filter_fp_chance = chance;
            }
            "crc_check_chance" => {
                let chance = double(name, property)?;
                if !(0.0..=1.0).contains(&chance) {
                    return config(format!(
                        "crc_check_chance must be larger than or equal to 0 and smaller than or \
                         equal to 1.0 (got {chance})"
                    ));
                }
                self.crc_check_chance = chance;
            }
            "memtable_flush_period_in_ms" => {
                self.memtable_flush_period_ms = integer(name, property)?;
            }
            "min_index_interval" => self.min_index_interval = integer(name, property)?,
            "max_index_interval" => self.max_index_interval = integer(name, property)?,
            "cdc" => {
                if value(name, property)? == "true" {
                    let text = "Change data capture is not supported yet by Sandglass";
                    return Err(SchemaError::Invalid(text.into()));
                }
            }
            "speculative_retry" | "additional_write_policy" | "memtable" | "read_repair" => {
                self.shown.insert(name.into(), value(name, property)?);
            }
            // Known to Cassandra or ScyllaDB; nothing here could heed or show them.
            "read_repair_chance"
            | "dclocal_read_repair_chance"
            | "extensions"
            | "tombstone_gc"
            | "allow_auto_snapshot"
            | "incremental_backups"
            | "synchronous_updates"
            | "id"
            | "in_memory"
            | "paxos_grace_seconds" => {}
            _ => return syntax(format!("Unknown property '{name}'")),
        }
        Ok(())
    }

    /// The options that concern storage.
    #[must_use]
    pub fn settings(&self) -> TableSettings {
        TableSettings { window_us: self.window_us(), gc_grace_s: self.gc_grace_s }
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

    fn check_windows(&self) -> Result<(), SchemaError> {
        let Some(window_us) = self.window_us() else { return Ok(()) };
        let windows = i64::from(self.default_ttl_s) * 1_000_000 / window_us;
        if windows <= WINDOWS_MAX {
            return Ok(());
        }
        config(format!(
            "The setting of default_time_to_live={} and compaction window={}(s) can lead to \
             {windows} windows, which is larger than the allowed number of windows ({WINDOWS_MAX})",
            self.default_ttl_s,
            window_us / 1_000_000
        ))
    }
}

/// Checks the options of a compaction strategy and gives the class its full name.
fn compaction(
    mut given: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, SchemaError> {
    let Some(class) = given.remove("class") else {
        return config("Missing sub-option 'class' for the 'compaction' option".into());
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or(&class);
    if !STRATEGIES.contains(&short) {
        let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
        return config(format!("Unable to find compaction strategy class '{full}'"));
    }
    let full = format!("{PACKAGE}{short}");
    for (key, value) in &given {
        check_compaction(short, key, value)?;
    }
    if short != "UnifiedCompactionStrategy" {
        given.entry("min_threshold".into()).or_insert_with(|| "4".into());
        given.entry("max_threshold".into()).or_insert_with(|| "32".into());
    }
    given.insert("class".into(), full);
    Ok(given)
}

fn check_compaction(short: &str, key: &str, value: &str) -> Result<(), SchemaError> {
    let number = || value.parse::<i64>().ok();
    match key {
        "compaction_window_unit" if short == TIME_WINDOW => {
            if !["MINUTES", "HOURS", "DAYS"].contains(&value) {
                return config(format!("{value} is not valid for {key}"));
            }
        }
        "compaction_window_size" if short == TIME_WINDOW => match number() {
            Some(1..=0x7FFF_FFFF) => {}
            Some(size) => {
                return config(format!("{size} must be greater than 1 for {key}"));
            }
            None => return config(format!("{value} is not a parsable int (base10) for {key}")),
        },
        "timestamp_resolution" if short == TIME_WINDOW => {
            if value != "MICROSECONDS" {
                return Err(SchemaError::Invalid(
                    "A timestamp_resolution other than MICROSECONDS is not supported yet by \
                     Sandglass"
                        .into(),
                ));
            }
        }
        "expired_sstable_check_frequency_seconds"
        | "min_threshold"
        | "max_threshold"
        | "tombstone_compaction_interval"
        | "sstable_size_in_mb"
        | "fanout_size" => {
            if number().is_none_or(|number| number < 0) {
                return config(format!("{value} is not a parsable int (base10) for {key}"));
            }
        }
        "enabled"
        | "log_all"
        | "unchecked_tombstone_compaction"
        | "only_purge_repaired_tombstones"
        | "unsafe_aggressive_sstable_expiration"
        | "tombstone_threshold"
        | "bucket_high"
        | "bucket_low"
        | "min_sstable_size"
        | "provide_overlapping_tombstones"
        | "single_sstable_uplevel" => {}
        _ if short == "UnifiedCompactionStrategy" || short == "IncrementalCompactionStrategy" => {}
        _ => return config(format!("Properties specified [{key}] are not understood by {short}")),
    }
    Ok(())
}

/// How a keyspace is replicated, and whether its writes are durable; none where nothing was said.
pub type KeyspaceOptions = (Option<BTreeMap<String, String>>, Option<bool>);

/// The options of a keyspace.
///
/// # Errors
/// In Cassandra's words, if the replication is missing or makes no sense.
pub fn keyspace_options(properties: Properties) -> Result<KeyspaceOptions, SchemaError> {
    let (mut replication, mut durable) = (None, None);
    for (name, property) in properties {
        match name.as_str() {
            "replication" => replication = Some(check_replication(map(&name, property)?)?),
            "durable_writes" => {
                let text = value(&name, property)?;
                durable =
                    Some(text.parse().or_else(|_| {
                        syntax(format!("Invalid boolean value {text} for '{name}'"))
                    })?);
            }
            "tablets" | "storage" => {}
            _ => return syntax(format!("Unknown property '{name}'")),
        }
    }
    Ok((replication, durable))
}

fn check_replication(
    mut given: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, SchemaError> {
    const PACKAGE: &str = "org.apache.cassandra.locator.";
    let Some(class) = given.remove("class") else {
        return config("Missing replication strategy class".into());
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or(&class);
    match short {
        "SimpleStrategy" => {
            // Cassandra's `default_keyspace_rf`.
            given.entry("replication_factor".into()).or_insert_with(|| "1".into());
            if let Some(key) = given.keys().find(|key| *key != "replication_factor") {
                return config(format!(
                    "Unrecognized strategy option {{{key}}} passed to SimpleStrategy"
                ));
            }
        }
        "NetworkTopologyStrategy" => {}
        _ => {
            let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
            return config(format!("Unable to find replication strategy class '{full}'"));
        }
    }
    for factor in given.values() {
        let refused = || SchemaError::Config(format!("For input string: \"{factor}\""));
        let number: i32 = factor.parse().map_err(|_| refused())?;
        if number < 0 {
            return config(format!("Replication factor must be non-negative; found {number}"));
        }
    }
    given.insert("class".into(), format!("{PACKAGE}{short}"));
    Ok(given)
}
