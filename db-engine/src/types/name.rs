//! Names in CQL text: which of them must stand in double quotes.

/// Words that cannot be names unless quoted.
const RESERVED: [&str; 62] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "columnfamily",
    "create",
    "delete",
    "desc",
    "describe",
    "drop",
    "entries",
    "execute",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "keyspace",
    "limit",
    "materialized",
    "mbean",
    "mbeans",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "replace",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "truncate",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
    "default",
    "unset",
];

/// Whether a word, in lower case, is a name only if it is quoted.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// A name as CQL text has to spell it: as it is if it would be read back so, else in quotes.
#[must_use]
pub fn quoted(name: &str) -> String {
    let mut letters = name.bytes();
    let is_plain = letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if is_plain && !is_reserved(name) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_read_differently_are_quoted() {
        for (name, expected) in [
            ("t", "t"),
            ("a_1", "a_1"),
            ("T", "\"T\""),
            ("1a", "\"1a\""),
            ("_a", "\"_a\""),
            ("select", "\"select\""),
            ("a\"b", "\"a\"\"b\""),
            ("é", "\"é\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }
}
