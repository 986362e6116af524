//! The options of a keyspace.

use super::{
    SchemaError,
    ddl::Properties,
    options::{boolean, config, map, syntax},
    system::DATA_CENTER,
};
use std::collections::BTreeMap;

/// How a keyspace is replicated, and whether its writes are durable; none where nothing was said.
pub type KeyspaceOptions = (Option<BTreeMap<String, String>>, Option<bool>);

/// The options of a keyspace.
///
/// # Errors
/// In Cassandra's words, if the replication is missing or makes no sense.
pub fn keyspace_options(
    keyspace: &str,
    properties: Properties,
) -> Result<KeyspaceOptions, SchemaError> {
    let (mut replication, mut durable) = (None, None);
    for (name, property) in properties {
        match name.as_str() {
            "replication" => {
                replication = Some(check_replication(keyspace, map(&name, property)?)?);
            }
            "durable_writes" => {
                durable = Some(boolean(&name, property)?);
            }
            "tablets" | "storage" => {}
            _ => return syntax(format!("Unknown property '{name}'")),
        }
    }
    Ok((replication, durable))
}

fn check_replication(
    keyspace: &str,
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
                    "Unrecognized strategy option {{{key}}} passed to SimpleStrategy for keyspace \
                     {keyspace}"
                ));
            }
        }
        "NetworkTopologyStrategy" => {
            let known = ["replication_factor", DATA_CENTER];
            if let Some(key) = given.keys().find(|key| !known.contains(&key.as_str())) {
                return config(format!(
                    "Unrecognized strategy option {{{key}}} passed to NetworkTopologyStrategy for \
                     keyspace {keyspace}"
                ));
            }
        }
        "LocalStrategy" => {
            let text = "Unable to use given strategy class: LocalStrategy is reserved for internal \
                        use.";
            return Err(SchemaError::Invalid(text.into()));
        }
        _ => {
            let full = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
            return config(format!("Unable to find replication strategy class '{full}'"));
        }
    }
    for factor in given.values() {
        if factor.contains('/') {
            return config("Transient replication is not enabled on this node".into());
        }
        let refused = || SchemaError::Config(format!("For input string: \"{factor}\""));
        let number: i32 = factor.parse().map_err(|_| refused())?;
        if number < 0 {
            return config(format!("Replication factor must be non-negative, found {number}"));
        }
    }
    // What is said of the data center goes before the factor of all.
    let factor = given.get(DATA_CENTER).or_else(|| given.get("replication_factor"));
    let is_nowhere = factor.is_some_and(|factor| factor.parse() == Ok(0));
    if short == "NetworkTopologyStrategy" && is_nowhere {
        return config("Configuration for at least one datacenter must be present".into());
    }
    given.insert("class".into(), format!("{PACKAGE}{short}"));
    Ok(given)
}
