//! The option `compaction` of a table.

use super::{
    SchemaError,
    options::{TIME_WINDOW, config},
};
use std::{collections::BTreeMap, ops::Range};

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const LEVELED: &str = "LeveledCompactionStrategy";
const UNIFIED: &str = "UnifiedCompactionStrategy";
/// ScyllaDB's: its options are taken as they are.
const INCREMENTAL: &str = "IncrementalCompactionStrategy";
const STRATEGIES: [&str; 5] =
    [TIME_WINDOW, "SizeTieredCompactionStrategy", LEVELED, UNIFIED, INCREMENTAL];
const TOMBSTONES: [&str; 3] =
    ["tombstone_threshold", "tombstone_compaction_interval", "unchecked_tombstone_compaction"];
const MIB: f64 = 1_048_576.0;

/// How sstables of about the same size are merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTiers {
    /// So many at least, at a time.
    pub min_threshold: u32,
    /// So many at most.
    pub max_threshold: u32,
    /// One is like others if it has this part of their bytes at least, on average.
    pub bucket_low: f64,
    /// One is like others if it has so many times their bytes at most.
    pub bucket_high: f64,
    /// All that are smaller are alike, in bytes.
    pub min_sstable_bytes: u64,
}

impl Default for SizeTiers {
    fn default() -> Self {
        // Cassandra takes all below 50 MiB for alike. Of small sstables, such as those with what
        // came late, it writes each byte hundreds of times before they are as large together.
        let min_sstable_bytes = 64 << 10;
        let (bucket_low, bucket_high) = (0.5, 1.5);
        Self { min_threshold: 4, max_threshold: 32, bucket_low, bucket_high, min_sstable_bytes }
    }
}

/// When an sstable is written anew by itself, without its tombstones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TombstoneRule {
    /// More than this part of it is deleted or has expired, and that for longer than the grace.
    pub threshold: f64,
    /// It was written so many seconds ago at least.
    pub interval_s: i64,
    /// Also if what it deletes may be elsewhere, so that it would have to stay.
    pub unchecked: bool,
}

impl Default for TombstoneRule {
    fn default() -> Self {
        Self { threshold: 0.2, interval_s: 86_400, unchecked: false }
    }
}

/// When sstables of a table with these options are written anew for their tombstones. With windows
/// they are only where that is asked for, as in Cassandra: files of readings expire as a whole.
pub(super) fn tombstone_rule(options: &BTreeMap<String, String>) -> Option<TombstoneRule> {
    let text = |key: &str| options.get(key).map(String::as_str);
    let given = TOMBSTONES.iter().filter_map(|key| text(key)).any(|value| value != "false");
    if text("class").is_some_and(|class| class.ends_with(TIME_WINDOW)) && !given {
        return None;
    }
    let default = TombstoneRule::default();
    let [threshold, interval, unchecked] = TOMBSTONES.map(text);
    Some(TombstoneRule {
        threshold: threshold.and_then(|part| part.parse().ok()).unwrap_or(default.threshold),
        interval_s: interval.and_then(|s| s.parse().ok()).unwrap_or(default.interval_s),
        unchecked: unchecked.is_some_and(|unchecked| unchecked.eq_ignore_ascii_case("true")),
    })
}

/// How a table with these options is compacted; `None` if it is not.
pub(super) fn size_tiers(options: &BTreeMap<String, String>) -> Option<SizeTiers> {
    let text = |key: &str| options.get(key).map(String::as_str);
    if text("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
        return None;
    }
    let number = |key: &str| text(key)?.parse::<f64>().ok();
    let count = |key: &str| text(key)?.parse::<u32>().ok();
    let default = SizeTiers::default();
    Some(SizeTiers {
        min_threshold: count("min_threshold").unwrap_or(default.min_threshold).max(2),
        max_threshold: count("max_threshold").unwrap_or(default.max_threshold),
        bucket_low: number("bucket_low").unwrap_or(default.bucket_low),
        bucket_high: number("bucket_high").unwrap_or(default.bucket_high),
        min_sstable_bytes: text("min_sstable_size")
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or(default.min_sstable_bytes),
    })
}

/// Which of these options have no effect here, in words for who gave them.
pub(super) fn without_effect(options: &BTreeMap<String, String>) -> Option<String> {
    const HEEDED: [&str; 9] = [
        "class",
        "enabled",
        "min_threshold",
        "max_threshold",
        "bucket_low",
        "bucket_high",
        "min_sstable_size",
        "compaction_window_unit",
        "compaction_window_size",
    ];
    let class = options.get("class").map(String::as_str).unwrap_or_default();
    let short = class.strip_prefix(PACKAGE).unwrap_or(class);
    let is_heeded = |key: &str| {
        HEEDED.contains(&key) || TOMBSTONES.contains(&key) || key == "timestamp_resolution"
    };
    let given: Vec<&str> =
        options.keys().map(String::as_str).filter(|key| !is_heeded(key)).collect();
    let other = [LEVELED, UNIFIED, INCREMENTAL].contains(&short);
    let run_as = other.then(|| {
        format!("Sandglass treats tables of {short} as those of SizeTieredCompactionStrategy")
    });
    let unheeded = (!given.is_empty()).then(|| {
        format!("These compaction options have no effect in Sandglass: {}", given.join(", "))
    });
    let said: Vec<String> = run_as.into_iter().chain(unheeded).collect();
    (!said.is_empty()).then(|| said.join(". "))
}

/// Checks the options of a compaction strategy and gives the class its full name.
pub(super) fn compaction(
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
    check_together(&given)?;
    if short != UNIFIED {
        given.entry("min_threshold".into()).or_insert_with(|| "4".into());
        given.entry("max_threshold".into()).or_insert_with(|| "32".into());
    }
    given.insert("class".into(), full);
    Ok(given)
}

fn check_compaction(short: &str, key: &str, value: &str) -> Result<(), SchemaError> {
    if short == INCREMENTAL {
        return Ok(());
    }
    let is_unified = short == UNIFIED;
    match key {
        "enabled" | "log_all" | "unchecked_tombstone_compaction" => check_boolean(key, value),
        "only_purge_repaired_tombstones" => Ok(()),
        "provide_overlapping_tombstones" => one_of(key, value, &["NONE", "ROW", "CELL"]),
        "tombstone_threshold" => check_number(key, value, 0.0..f64::INFINITY),
        "min_sstable_size" if is_unified => check_size(key, value, 0.0),
        "tombstone_compaction_interval" | "min_sstable_size" => check_integer(key, value, 0),
        "bucket_high" | "bucket_low" if !is_unified => {
            check_number(key, value, f64::NEG_INFINITY..f64::INFINITY)
        }
        "min_threshold" if !is_unified && value.parse::<i32>().is_ok_and(|number| number < 2) => {
            config(format!("Min compaction threshold cannot be less than 2 (got {value})"))
        }
        "min_threshold" | "max_threshold" if !is_unified => {
            check_integer(key, value, i32::MIN.into())
        }
        "single_sstable_uplevel" if short == LEVELED => Ok(()),
        "sstable_size_in_mb" | "fanout_size" if short == LEVELED => check_integer(key, value, 1),
        "expired_sstable_check_frequency_seconds" if is_unified => check_integer(key, value, 1),
        "expired_sstable_check_frequency_seconds" if short == TIME_WINDOW => {
            check_integer(key, value, 0)
        }
        "unsafe_aggressive_sstable_expiration" if is_unified || short == TIME_WINDOW => {
            check_boolean(key, value)
        }
        _ if short == TIME_WINDOW => check_window(short, key, value),
        _ if is_unified => check_unified(short, key, value),
        _ => not_understood(short, key),
    }
}

fn check_window(short: &str, key: &str, value: &str) -> Result<(), SchemaError> {
    match key {
        "compaction_window_unit" if ["MINUTES", "HOURS", "DAYS"].contains(&value) => Ok(()),
        "compaction_window_unit" => config(format!("{value} is not valid for {key}")),
        "compaction_window_size" => match value.parse::<i32>() {
            Ok(1..) => Ok(()),
            Ok(size) => config(format!("{size} must be greater than 1 for {key}")),
            Err(_) => not_an_integer(key, value),
        },
        "timestamp_resolution" if value == "MICROSECONDS" => Ok(()),
        "timestamp_resolution" => Err(SchemaError::Invalid(
            "A timestamp_resolution other than MICROSECONDS is not supported yet by Sandglass"
                .into(),
        )),
        _ => not_understood(short, key),
    }
}

fn check_unified(short: &str, key: &str, value: &str) -> Result<(), SchemaError> {
    match key {
        "scaling_parameters" => value.split(',').map(str::trim).try_for_each(check_scaling),
        "target_sstable_size" | "flush_size_override" => check_size(key, value, MIB),
        "sstable_growth" => check_number(key, value, 0.0..1.0 + f64::EPSILON),
        "base_shard_count" => check_integer(key, value, 1),
        "max_sstables_to_compact" => check_integer(key, value, i32::MIN.into()),
        "overlap_inclusion_method" => one_of(key, value, &["NONE", "SINGLE", "TRANSITIVE"]),
        _ => not_understood(short, key),
    }
}

/// One of the scaling parameters: `N`, `L` or `T` with a fan factor, or a number.
fn check_scaling(value: &str) -> Result<(), SchemaError> {
    const FORM: &str = "N|L[0-9]+|T[0-9]+|[+-]?[0-9]+";
    if value == "N" {
        return Ok(());
    }
    let factor = value.strip_prefix(['L', 'T']);
    match (factor, factor.unwrap_or(value).parse::<i32>()) {
        (Some(factor), Ok(..2)) if !factor.starts_with(['+', '-']) => {
            config(format!("Fan factor cannot be lower than 2 in {value}"))
        }
        (Some(factor), Ok(_)) if !factor.starts_with(['+', '-']) => Ok(()),
        (None, Ok(_)) => Ok(()),
        _ => config(format!("Scaling parameter {value} must match {FORM}")),
    }
}

fn not_understood(short: &str, key: &str) -> Result<(), SchemaError> {
    config(format!("Properties specified [{key}] are not understood by {short}"))
}

fn not_an_integer(key: &str, value: &str) -> Result<(), SchemaError> {
    config(format!("{value} is not a parsable int (base10) for {key}"))
}

fn check_boolean(key: &str, value: &str) -> Result<(), SchemaError> {
    if ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    config(format!("{key} should either be 'true' or 'false', not {value}"))
}

fn one_of(key: &str, value: &str, words: &[&str]) -> Result<(), SchemaError> {
    if words.iter().any(|word| value.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    config(format!("Invalid value {value} for {key}: it must be one of {}", words.join(", ")))
}

fn check_integer(key: &str, value: &str, least: i64) -> Result<(), SchemaError> {
    match value.parse::<i64>() {
        Err(_) => not_an_integer(key, value),
        Ok(number) if number < least => config(match least {
            0 => format!("{key} must not be negative, but was {value}"),
            _ => format!("{key} must be larger than 0, but was {value}"),
        }),
        Ok(_) => Ok(()),
    }
}

fn check_number(key: &str, value: &str, legal: Range<f64>) -> Result<(), SchemaError> {
    match value.parse::<f64>() {
        Ok(number) if legal.contains(&number) => Ok(()),
        Ok(number) => config(format!("{key} must be a legal number, but was {number}")),
        Err(_) if key == "tombstone_threshold" => not_an_integer(key, value),
        Err(_) => config(format!("{value} is not a parsable float for {key}")),
    }
}

/// A size such as `100MiB` or `1.5 GB`.
fn check_size(key: &str, value: &str, least: f64) -> Result<(), SchemaError> {
    let bytes = value.strip_suffix('B').and_then(|value| {
        let number = value.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let (prefix, factor) = match value.get(number.len()..)? {
            unit if unit.ends_with('i') => (unit.strip_suffix('i')?, 1_024.0_f64),
            unit => (unit, 1_000.0),
        };
        let power = ["", "K", "M", "G", "T", "P", "E"].iter().position(|known| *known == prefix)?;
        Some(number.trim().parse::<f64>().ok()? * factor.powi(i32::try_from(power).ok()?))
    });
    match bytes {
        Some(bytes) if bytes >= least => Ok(()),
        Some(_) => config(format!("{key} {value} is not acceptable: it is too small")),
        None => config(format!("{value} is not a valid size in bytes for {key}")),
    }
}

/// Checks what options say together.
fn check_together(given: &BTreeMap<String, String>) -> Result<(), SchemaError> {
    let number = |key: &str, default: f64| {
        given.get(key).and_then(|value| value.parse::<f64>().ok()).unwrap_or(default)
    };
    let (min, max) = (number("min_threshold", 4.0), number("max_threshold", 32.0));
    if min > max {
        return config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold \
             (got {max})"
        ));
    }
    let (low, high) = (number("bucket_low", 0.5), number("bucket_high", 1.5));
    if high <= low {
        return config(format!(
            "bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})"
        ));
    }
    // What the last of Cassandra's levels may hold must be a number of 64 bits.
    let (size, fanout) = (number("sstable_size_in_mb", 160.0), number("fanout_size", 10.0));
    if size * MIB * fanout.powi(8) >= 2_f64.powi(63) {
        return config(format!(
            "sstable_size_in_mb {size} with a fanout_size of {fanout} is absurdly high"
        ));
    }
    Ok(())
}
