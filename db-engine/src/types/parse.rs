//! Names of types in CQL text: `map<text, frozen<list<int>>>` ⇄ [`CqlType`].
//!
//! The catalog on disk and the statements of clients use the same grammar:
//!
//! ```text
//! type := scalar | ("list"|"set") "<" type ">" | "map" "<" type "," type ">"
//!       | "tuple" "<" type ("," type)* ">" | "frozen" "<" type ">" | (keyspace ".")? name
//! ```
//!
//! A name in double quotes is that of a user-defined type, whatever it is.

use super::{
    CqlType,
    name::quoted,
    user_type::{UserType, UserTypes},
};
use std::{fmt, sync::Arc};

/// Deepest nesting of types that is read, so that hostile text cannot exhaust the stack.
pub const DEPTH_MAX: usize = 16;

/// Words that are or may become names of types, and so cannot be those of users.
const RESERVED: [&str; 7] = ["bitstring", "byte", "complex", "date", "enum", "interval", "macaddr"];

/// A type as text declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The type.
    pub ty: CqlType,
    /// Whether `frozen<>` stands around it.
    pub frozen: bool,
}

impl Declared {
    /// The name by which CQL text declares it.
    #[must_use]
    pub fn type_name(&self) -> String {
        if self.frozen { self.ty.to_string() } else { self.ty.unfrozen_name() }
    }
}

/// The name of a type as it is written: whether there is such a type is not yet known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeName {
    /// The keyspace of a user-defined type, if it was said.
    pub keyspace: Option<String>,
    /// The name, without what follows it.
    pub name: String,
    /// Whether it stood in double quotes.
    pub is_quoted: bool,
    /// What stands in angle brackets.
    pub arguments: Vec<TypeName>,
}

/// Where names of user-defined types are looked up.
#[derive(Debug, Clone, Copy)]
pub struct TypeScope<'a> {
    /// The keyspace that the statement is about.
    pub keyspace: &'a str,
    /// Its types.
    pub types: &'a UserTypes,
}

/// Whether no user-defined type may have this name, unless it is quoted.
#[must_use]
pub fn is_type_word(name: &str) -> bool {
    RESERVED.contains(&name) || CqlType::scalar(name).is_some()
}

/// The name of a user-defined type such that it is read as one.
pub(super) fn type_quoted(name: &str) -> String {
    let is_word = is_type_word(name) || CONSTRUCTORS.contains(&name);
    if is_word { format!("\"{name}\"") } else { quoted(name) }
}

const CONSTRUCTORS: [&str; 6] = ["frozen", "list", "map", "set", "tuple", "vector"];

impl TypeName {
    /// Whether it is that of a user-defined type.
    #[must_use]
    pub fn is_user_defined(&self) -> bool {
        let is_known = || CqlType::scalar(&self.name).is_some();
        self.keyspace.is_some() || self.is_quoted || (self.arguments.is_empty() && !is_known())
    }

    /// Whether it cannot have anything in angle brackets.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        self.keyspace.is_some() || self.is_quoted || !CONSTRUCTORS.contains(&self.name.as_str())
    }

    /// Whether it is a type without parts, and not a user's.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        !self.is_user_defined() && self.arguments.is_empty()
    }

    /// Whether it is `frozen<>` of something.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.name == "frozen" && !self.is_user_defined()
    }

    fn is_counter(&self) -> bool {
        self.name == "counter" && !self.is_user_defined()
    }

    fn is_collection(&self) -> bool {
        !self.is_user_defined() && ["list", "map", "set"].contains(&self.name.as_str())
    }

    /// The name with the keyspace at each user-defined type.
    #[must_use]
    pub fn in_keyspace(&self, keyspace: &str) -> TypeName {
        let mut name = self.clone();
        if name.is_user_defined() {
            name.keyspace = Some(keyspace.to_string());
        }
        name.arguments.iter_mut().for_each(|inside| *inside = inside.in_keyspace(keyspace));
        name
    }

    /// The type of this name.
    ///
    /// # Errors
    /// A sentence worded as Cassandra's, if there is none or it cannot be.
    pub fn declared(&self, scope: TypeScope<'_>) -> Result<Declared, String> {
        let (ty, frozen) = match self.arguments.as_slice() {
            [inside] if self.is_frozen() => (inside.resolve(scope, true)?, true),
            _ => (self.resolve(scope, false)?, self.name == "tuple" && !self.is_user_defined()),
        };
        ty.check_size()?;
        Ok(Declared { ty, frozen })
    }

    /// The type; `frozen`: what is in it is frozen, whether that was said or not.
    fn resolve(&self, scope: TypeScope<'_>, frozen: bool) -> Result<CqlType, String> {
        if self.is_user_defined() {
            return self.user_type(scope).map(CqlType::Udt);
        }
        if let [inside] = self.arguments.as_slice()
            && self.name == "frozen"
        {
            return inside.resolve(scope, true);
        }
        let is_tuple = self.name == "tuple";
        if self.is_collection() {
            self.check_parts(frozen)?;
        }
        if is_tuple && self.arguments.iter().any(TypeName::is_counter) {
            return Err("Counters are not allowed inside tuples".into());
        }
        let inside = self.arguments.iter().map(|part| part.resolve(scope, frozen || is_tuple));
        let mut inside = inside.collect::<Result<Vec<_>, String>>()?;
        let count = inside.len();
        let mut argument = || Box::new(inside.remove(0));
        Ok(match (self.name.as_str(), count) {
            ("list", 1) => CqlType::List(argument()),
            ("set", 1) => CqlType::Set(argument()),
            ("map", 2) => CqlType::Map(argument(), argument()),
            ("tuple", 1..) => CqlType::Tuple(inside),
            ("vector", _) => return Err("vectors are not supported yet by Sandglass".into()),
            (name, 0) => CqlType::scalar(name).ok_or_else(|| format!("Unknown type {name}"))?,
            (name, _) => return Err(format!("Unknown type {name} with {count} arguments")),
        })
    }

    /// Checks what is in a collection.
    fn check_parts(&self, frozen: bool) -> Result<(), String> {
        for part in &self.arguments {
            if part.is_counter() {
                let name = if frozen { format!("frozen<{self}>") } else { self.to_string() };
                return Err(format!("Counters are not allowed inside collections: {name}"));
            }
            if !frozen && part.is_collection() {
                return Err(format!(
                    "Non-frozen collections are not allowed inside collections: {self}"
                ));
            }
            if !frozen && part.is_user_defined() {
                return Err(format!("Non-frozen UDTs are not allowed inside collections: {self}"));
            }
        }
        Ok(())
    }

    fn user_type(&self, scope: TypeScope<'_>) -> Result<Arc<UserType>, String> {
        let TypeScope { keyspace: of, types } = scope;
        if let Some(keyspace) = self.keyspace.as_deref().filter(|keyspace| *keyspace != of) {
            return Err(format!(
                "Statement on keyspace {of} cannot refer to a user type in keyspace {keyspace}; \
                 user types can only be used in the keyspace they are defined in"
            ));
        }
        let found = types.get(&self.name);
        found.map(Arc::clone).ok_or_else(|| format!("Unknown type {of}.{}", self.name))
    }
}

impl fmt::Display for TypeName {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        f.write_str(&self.name)?;
        for (at, argument) in self.arguments.iter().enumerate() {
            f.write_str(if at == 0 { "<" } else { ", " })?;
            write!(f, "{argument}")?;
        }
        if self.arguments.is_empty() { Ok(()) } else { f.write_str(">") }
    }
}

/// Reads the whole text as a type.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str, scope: TypeScope<'_>) -> Result<Declared, String> {
    let mut rest = text;
    let name = parse_at(&mut rest, 0)?;
    if !rest.trim().is_empty() {
        return Err(format!("unexpected {rest:?} in type"));
    }
    name.declared(scope)
}

fn parse_at(rest: &mut &str, depth: usize) -> Result<TypeName, String> {
    if depth > DEPTH_MAX {
        return Err("types are nested too deeply".into());
    }
    *rest = rest.trim_start();
    let is_quoted = rest.starts_with('"');
    let name = if is_quoted { quoted_name(rest)? } else { plain_name(rest) };
    *rest = rest.trim_start();
    let mut arguments = Vec::new();
    if let Some(after) = rest.strip_prefix('<') {
        *rest = after;
        loop {
            arguments.push(parse_at(rest, depth + 1)?);
            *rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix(',') {
                *rest = after;
            } else if let Some(after) = rest.strip_prefix('>') {
                *rest = after;
                break;
            } else {
                return Err(format!("expected ',' or '>' in type at {rest:?}"));
            }
        }
    }
    Ok(TypeName { keyspace: None, name, is_quoted, arguments })
}

fn plain_name(rest: &mut &str) -> String {
    let text = *rest;
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    *rest = after;
    name.to_ascii_lowercase()
}

/// Reads a name in double quotes, in which each that belongs to it stands twice.
fn quoted_name(rest: &mut &str) -> Result<String, String> {
    let mut name = String::new();
    let mut text = rest.strip_prefix('"').unwrap_or(rest);
    loop {
        let Some((before, after)) = text.split_once('"') else {
            return Err(format!("expected '\"' in type at {rest:?}"));
        };
        name.push_str(before);
        let Some(more) = after.strip_prefix('"') else {
            *rest = after;
            return Ok(name);
        };
        name.push('"');
        text = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::user_type::UserField;

    fn types() -> UserTypes {
        let field = |name: &str, ty| UserField { name: name.into(), ty, frozen: false };
        let make = |name: &str| {
            let fields = vec![field("a", CqlType::Int), field("b", CqlType::Text)];
            (name.to_string(), Arc::new(UserType::new("ks", name, fields)))
        };
        ["address", "Qw", "a\"b", "int", "list"].map(make).into()
    }

    fn read(text: &str) -> Result<Declared, String> {
        parse(text, TypeScope { keyspace: "ks", types: &types() })
    }

    #[test]
    fn a_name_is_read_back_as_it_was_printed() {
        for name in [
            "int",
            "text",
            "frozen<list<int>>",
            "frozen<map<text, frozen<set<uuid>>>>",
            "frozen<tuple<timestamp, text, int>>",
            "frozen<list<frozen<tuple<timestamp, text, int>>>>",
            "frozen<address>",
            "frozen<\"Qw\">",
            "frozen<map<frozen<\"a\"\"b\">, frozen<tuple<frozen<\"int\">, frozen<\"list\">>>>>",
        ] {
            let declared = read(name).unwrap();
            assert_eq!(declared.ty.to_string(), name);
            assert_eq!(read(&declared.ty.unfrozen_name()).map(|again| again.ty), Ok(declared.ty));
        }
        assert!(!read("set<text>").unwrap().frozen);
        assert!(!read("address").unwrap().frozen);
        assert_eq!(read(" Set < TEXT > ").unwrap().ty.unfrozen_name(), "set<text>");
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = "list<".repeat(1000);
        for name in [
            "",
            "nope",
            "list<int",
            "map<int>",
            "int<int>",
            "int x",
            &deep,
            "\"Qw",
            "\"qw\"",
            "address<int>",
            "list<address>",
            "map<text, list<int>>",
            "list<counter>",
        ] {
            assert!(read(name).is_err(), "{name:.40}");
        }
        assert!(read("set<duration>").is_err());
    }
}
