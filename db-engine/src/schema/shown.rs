//! Options that are kept and shown, and change nothing here: `caching`, `compression`,
//! `speculative_retry` and the like. They are checked, so that a schema that is taken here is taken
//! elsewhere.

use super::{SchemaError, options::config};
use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
const COMPRESSORS: [&str; 5] =
    ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor"];

type Options = BTreeMap<String, String>;

/// The option `caching`, complete.
pub(super) fn caching(given: &Options) -> Result<Options, SchemaError> {
    let unknown: Vec<&str> = given
        .keys()
        .map(String::as_str)
        .filter(|key| !["keys", "rows_per_partition"].contains(key))
        .collect();
    if !unknown.is_empty() {
        return config(format!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            unknown.join(", ")
        ));
    }
    let word = |key: &str| given.get(key).map_or("NONE", String::as_str).to_ascii_uppercase();
    let (keys, rows) = (word("keys"), word("rows_per_partition"));
    if !["ALL", "NONE"].contains(&keys.as_str()) {
        return config(format!(
            "Invalid value '{}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed",
            given.get("keys").map_or("", String::as_str)
        ));
    }
    let rows = match rows.as_str() {
        "ALL" | "NONE" => rows,
        number => match number.parse::<i32>() {
            Ok(0) => "NONE".into(),
            Ok(i32::MAX) => "ALL".into(),
            Ok(1..) => rows,
            _ => {
                return config(format!(
                    "Invalid value '{}' for caching sub-option 'rows_per_partition': only 'ALL', \
                     'NONE', and integer values are allowed",
                    given.get("rows_per_partition").map_or("", String::as_str)
                ));
            }
        },
    };
    Ok([("keys".into(), keys), ("rows_per_partition".into(), rows)].into())
}

/// The option `compression`, complete.
pub(super) fn compression(mut given: Options) -> Result<Options, SchemaError> {
    let disabled = || Ok([("enabled".to_string(), "false".to_string())].into());
    if given.is_empty() {
        return disabled();
    }
    if let Some(enabled) = given.remove("enabled")
        && !enabled.eq_ignore_ascii_case("true")
    {
        if given.is_empty() {
            return disabled();
        }
        let text = "If the 'enabled' option is set to false no other options must be specified";
        return config(text.into());
    }
    let Some(class) = given.remove("class") else {
        return config("Missing sub-option 'class' for the 'compression' option.".into());
    };
    if class.is_empty() {
        let text = "The 'class' option must not be empty. To disable compression use 'enabled' : \
                    false";
        return config(text.into());
    }
    let short = class.strip_prefix(PACKAGE).unwrap_or(&class);
    if !COMPRESSORS.contains(&short) {
        let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
        return config(format!("Could not create Compression for type {full}"));
    }
    for (key, value) in &given {
        check_compression(short, key, value)?;
    }
    given.entry("chunk_length_in_kb".into()).or_insert_with(|| "16".into());
    given.insert("class".into(), format!("{PACKAGE}{short}"));
    Ok(given)
}

fn check_compression(compressor: &str, key: &str, value: &str) -> Result<(), SchemaError> {
    let number = value.parse::<i32>();
    match (key, compressor) {
        ("chunk_length_in_kb", _) => match number {
            Err(_) => config("Invalid value for chunk_length_in_kb".into()),
            Ok(..=0) => config("Invalid negative or null chunk_length_in_kb".into()),
            Ok(kib) if kib.count_ones() != 1 => {
                config("chunk_length_in_kb must be a power of 2".into())
            }
            Ok(_) => Ok(()),
        },
        ("min_compress_ratio", _) => match value.parse::<f64>() {
            Ok(ratio) if ratio == 0.0 || ratio >= 1.0 => Ok(()),
            _ => config("min_compress_ratio can either be 0 or greater than or equal to 1".into()),
        },
        ("lz4_compressor_type", "LZ4Compressor") if !["fast", "high"].contains(&value) => {
            config(format!(
                "Invalid compressor type '{value}' specified for LZ4 parameter \
                 'lz4_compressor_type'. Valid options are [high, fast]."
            ))
        }
        ("lz4_compressor_type", "LZ4Compressor") => Ok(()),
        ("lz4_high_compressor_level", "LZ4Compressor") => match number {
            Ok(1..=17) => Ok(()),
            _ => config(format!(
                "Invalid value for lz4_high_compressor_level: {value}, which must be from 1 to 17"
            )),
        },
        ("compression_level", "ZstdCompressor") => match number {
            Ok(-131_072..=22) => Ok(()),
            _ => config(format!(
                "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException \
                 compression_level={value} is invalid"
            )),
        },
        _ => config(format!("Unknown compression options {key}")),
    }
}

/// What makes a coordinator ask another replica, in Cassandra's words.
enum Policy {
    Always,
    Never,
    Percentile(f64),
    Millis(f64),
}

fn policy(text: &str) -> Result<Option<Policy>, SchemaError> {
    let upper = text.to_ascii_uppercase();
    let decimal = |number: &str| {
        let legal = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if legal { number.parse::<f64>().ok() } else { None }
    };
    if upper == "ALWAYS" {
        return Ok(Some(Policy::Always));
    }
    if upper == "NEVER" || upper == "NONE" {
        return Ok(Some(Policy::Never));
    }
    if let Some(number) = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P')) {
        return match decimal(number) {
            Some(number) if number > 0.0 && number < 100.0 => Ok(Some(Policy::Percentile(number))),
            Some(_) => config(format!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between \
                 (0.0 and 100.0)"
            )),
            None => Ok(None),
        };
    }
    Ok(upper.strip_suffix("MS").and_then(decimal).map(Policy::Millis))
}

/// An option that is one word, as it is shown.
pub(super) fn word(name: &str, text: &str) -> Result<String, SchemaError> {
    match name {
        "read_repair" => match text.to_ascii_uppercase() {
            strategy if ["NONE", "BLOCKING"].contains(&strategy.as_str()) => Ok(strategy),
            strategy => config(format!("Invalid value {strategy} for option 'read_repair'")),
        },
        "memtable" if text != "default" => {
            config(format!("Memtable configuration \"{text}\" not found."))
        }
        "memtable" => Ok(text.into()),
        _ => speculative_retry(text),
    }
}

/// The option `speculative_retry` or `additional_write_policy`, as it is shown.
fn speculative_retry(text: &str) -> Result<String, SchemaError> {
    let refused =
        |why: &str| config(format!("Invalid value {text} for option 'speculative_retry'{why}"));
    let upper = text.to_ascii_uppercase();
    let both = ["MIN(", "MAX("].iter().find_map(|name| upper.strip_prefix(name));
    let Some(both) = both else {
        return match policy(text)? {
            Some(policy) => Ok(shown(&policy)),
            None => refused(""),
        };
    };
    let name = upper.get(..3).unwrap_or_default();
    let Some((a, b)) = both.strip_suffix(')').and_then(|both| both.split_once(',')) else {
        return refused("");
    };
    match (policy(a)?, policy(b.trim_start())?) {
        (Some(Policy::Percentile(_)), Some(Policy::Percentile(_))) => refused(
            ": MIN()/MAX() arguments should be of different types, but both are of type PERCENTILE",
        ),
        (Some(Policy::Millis(_)), Some(Policy::Millis(_))) => refused(
            ": MIN()/MAX() arguments should be of different types, but both are of type FIXED",
        ),
        (Some(a @ (Policy::Percentile(_) | Policy::Millis(_))), Some(b)) => {
            Ok(format!("{name}({},{})", shown(&a), shown(&b)))
        }
        _ => refused(""),
    }
}

fn shown(policy: &Policy) -> String {
    match policy {
        Policy::Always => "ALWAYS".into(),
        Policy::Never => "NEVER".into(),
        Policy::Percentile(number) => format!("{number}p"),
        Policy::Millis(number) => format!("{}ms", number.floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
    }

    #[test]
    fn options_are_completed_as_cassandra_shows_them() {
        let cached = |pairs: &[(&str, &str)]| caching(&options(pairs)).unwrap();
        assert_eq!(cached(&[]), options(&[("keys", "NONE"), ("rows_per_partition", "NONE")]));
        let given = [("keys", "all"), ("rows_per_partition", "0")];
        assert_eq!(cached(&given), options(&[("keys", "ALL"), ("rows_per_partition", "NONE")]));
        let lz4 = "org.apache.cassandra.io.compress.LZ4Compressor";
        let complete = options(&[("chunk_length_in_kb", "16"), ("class", lz4)]);
        assert_eq!(compression(options(&[("class", "LZ4Compressor")])), Ok(complete));
        assert_eq!(compression(Options::new()), Ok(options(&[("enabled", "false")])));
        for (given, shown) in [
            ("99PERCENTILE", "99p"),
            ("99.9p", "99.9p"),
            ("50.5ms", "50ms"),
            ("none", "NEVER"),
            ("MIN(99p,50ms)", "MIN(99p,50ms)"),
        ] {
            assert_eq!(speculative_retry(given).as_deref(), Ok(shown), "{given}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for pairs in [
            [("keys", "SOME")],
            [("rows_per_partition", "-1")],
            [("rows_per_partition", "abc")],
            [("nonsense", "x")],
        ] {
            assert!(caching(&options(&pairs)).is_err(), "{pairs:?}");
        }
        for (key, value) in [
            ("class", "Nope"),
            ("class", ""),
            ("nope", "1"),
            ("chunk_length_in_kb", "3"),
            ("chunk_length_in_kb", "x"),
            ("chunk_length_in_kb", "0"),
            ("min_compress_ratio", "0.5"),
            ("lz4_compressor_type", "nope"),
            ("compression_level", "5"),
            ("enabled", "maybe"),
        ] {
            let mut given = options(&[("class", "LZ4Compressor")]);
            given.insert(key.into(), value.into());
            assert!(compression(given).is_err(), "{key} {value}");
        }
        for wrong in ["nonsense", "", "99", "0p", "100p", "-5ms", "MAX(99p,x)", "MIN(99p,98p)"] {
            assert!(speculative_retry(wrong).is_err(), "{wrong}");
        }
    }
}
