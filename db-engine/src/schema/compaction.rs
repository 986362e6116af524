//! The option `compaction` of a table.

use super::{
    SchemaError,
    options::{TIME_WINDOW, config},
};
use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const STRATEGIES: [&str; 5] = [
    TIME_WINDOW,
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "UnifiedCompactionStrategy",
    "IncrementalCompactionStrategy",
];

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
    let threshold = |key: &str, default| {
        given.get(key).and_then(|value| value.parse::<i64>().ok()).unwrap_or(default)
    };
    let (min, max) = (threshold("min_threshold", 4), threshold("max_threshold", 32));
    if min > max {
        return config(format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold \
             (got {max})"
        ));
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
        "enabled" if !["true", "false"].contains(&value) => {
            return config(format!("enabled should either be 'true' or 'false', not {value}"));
        }
        "min_threshold" if number().is_some_and(|number| number < 2) => {
            return config(format!("Min compaction threshold cannot be less than 2 (got {value})"));
        }
        "sstable_size_in_mb" if number().is_some_and(|number| number < 1) => {
            return config(format!("sstable_size_in_mb must be larger than 0, but was {value}"));
        }
        "bucket_high" | "bucket_low" | "tombstone_threshold" if value.parse::<f64>().is_err() => {
            return config(format!("{value} is not a parsable float for {key}"));
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
