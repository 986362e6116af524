//! The log: one JSON object a line on standard error.
//!
//! ```text
//! {"time_us":1767225600000000,"level":"info","target":"sandglass_db","message":"…","shard":0}
//! ```
//! Fields beside the message are those of the `log` macros, e.g. `info!(shard; "started")`.

use crate::io::Clock;
use log::{
    LevelFilter, Log, Metadata, Record,
    kv::{Error, Key, Value, VisitSource},
};
use serde_json::Map;
use std::{
    io::Write,
    sync::{Arc, OnceLock},
};

struct Logger {
    clock: Arc<dyn Clock>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Sends the log of this process to standard error. Only the first call has an effect.
pub fn install(level: LevelFilter, clock: Arc<dyn Clock>) {
    let logger = LOGGER.get_or_init(|| Logger { clock });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(level);
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Below us only what goes wrong is of interest.
        metadata.level() <= log::Level::Warn || metadata.target().starts_with("sandglass_db")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = line(record, self.clock.now_us());
            line.push('\n');
            // A log that cannot be written cannot be complained about either.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn line(record: &Record<'_>, time_us: i64) -> String {
    let mut fields = Fields(Map::new());
    fields.put("time_us", time_us.into());
    fields.put("level", record.level().as_str().to_ascii_lowercase().into());
    fields.put("target", record.target().into());
    fields.put("message", record.args().to_string().into());
    // A field that cannot be shown is left out rather than the message.
    let _ = record.key_values().visit(&mut fields);
    serde_json::Value::Object(fields.0).to_string()
}

struct Fields(Map<String, serde_json::Value>);

impl Fields {
    fn put(&mut self, key: &str, value: serde_json::Value) {
        self.0.insert(key.to_owned(), value);
    }
}

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let shown = if let Some(number) = value.to_i64() {
            number.into()
        } else if let Some(number) = value.to_u64() {
            number.into()
        } else if let Some(boolean) = value.to_bool() {
            boolean.into()
        } else {
            value.to_string().into()
        };
        self.put(key.as_str(), shown);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_json_object_with_all_fields() {
        let fields = [("shard", Value::from(3)), ("path", Value::from("a\"b\n"))];
        let record = Record::builder()
            .level(log::Level::Warn)
            .target("sandglass_db::x")
            .args(format_args!("the disk\nis full"))
            .key_values(&fields)
            .build();
        let line = line(&record, 5);
        assert!(!line.contains('\n'));
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["level"], "warn");
        assert_eq!(read["message"], "the disk\nis full");
        assert_eq!((&read["shard"], &read["time_us"]), (&3.into(), &5.into()));
        assert_eq!(read["path"], "a\"b\n");
    }
}
