//! Names of types in CQL text: `map<text, frozen<list<int>>>` ⇄ [`CqlType`].
//!
//! The catalog on disk and the statements of clients use the same grammar:
//!
//! ```text
//! type := scalar | ("list"|"set") "<" type ">" | "map" "<" type "," type ">"
//!       | "tuple" "<" type ("," type)* ">" | "frozen" "<" type ">"
//! ```

use super::CqlType;

/// Deepest nesting of types that is read, so that hostile text cannot exhaust the stack.
pub const DEPTH_MAX: usize = 16;

/// A type as text declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The type.
    pub ty: CqlType,
    /// Whether `frozen<>` stands around it.
    pub frozen: bool,
    /// If a collection in it is not frozen and should be: its name as it was declared.
    pub unfrozen_inside: Option<String>,
}

impl Declared {
    /// The name as it was declared.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.unfrozen_inside {
            Some(name) => name.clone(),
            None if self.frozen => self.ty.to_string(),
            None => self.ty.unfrozen_name(),
        }
    }

    fn is_unfrozen(&self) -> bool {
        self.unfrozen_inside.is_some() || (self.ty.is_collection() && !self.frozen)
    }
}

/// Puts a type together from its name and arguments: `frozen` has one, `map` two, `tuple` some.
///
/// # Errors
/// A sentence worded as Cassandra's if there is no such type or the arguments do not suit it.
pub fn assemble(name: &str, mut arguments: Vec<Declared>) -> Result<Declared, String> {
    let count = arguments.len();
    let unfrozen_inside = arguments.iter().any(Declared::is_unfrozen).then(|| {
        let names: Vec<_> = arguments.iter().map(Declared::name).collect();
        format!("{name}<{}>", names.join(", "))
    });
    let has_counter = arguments.iter().any(|argument| argument.ty == CqlType::Counter);
    let mut argument = || Box::new(arguments.remove(0).ty);
    let ty = match (name, count) {
        ("frozen", 1) => {
            return Ok(Declared { ty: *argument(), frozen: true, unfrozen_inside: None });
        }
        ("list", 1) => CqlType::List(argument()),
        ("set", 1) => CqlType::Set(argument()),
        ("map", 2) => CqlType::Map(argument(), argument()),
        ("tuple", 1..) => CqlType::Tuple(arguments.into_iter().map(|a| a.ty).collect()),
        ("vector", _) => return Err("vectors are not supported yet by Sandglass".into()),
        (name, 0) => match CqlType::scalar(name) {
            Some(ty) => ty,
            None => return Err(format!("Unknown type {name}")),
        },
        (name, _) => return Err(format!("Unknown type {name} with {count} arguments")),
    };
    match &ty {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) if has_counter => {
            Err(format!("Counters are not allowed inside collections: {}", ty.unfrozen_name()))
        }
        CqlType::Set(item) if item.mentions_duration() => {
            Err(format!("Durations are not allowed inside sets: {}", ty.unfrozen_name()))
        }
        CqlType::Map(key, _) if key.mentions_duration() => {
            Err(format!("Durations are not allowed as map keys: {}", ty.unfrozen_name()))
        }
        CqlType::Tuple(_) => Ok(Declared { ty, frozen: true, unfrozen_inside: None }),
        _ => Ok(Declared { ty, frozen: false, unfrozen_inside }),
    }
}

/// Reads the whole text as a type.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn parse(text: &str) -> Result<Declared, String> {
    let mut rest = text;
    let declared = parse_at(&mut rest, 0)?;
    if rest.trim().is_empty() { Ok(declared) } else { Err(format!("unexpected {rest:?} in type")) }
}

fn parse_at(rest: &mut &str, depth: usize) -> Result<Declared, String> {
    if depth > DEPTH_MAX {
        return Err("types are nested too deeply".into());
    }
    let text = rest.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    *rest = after.trim_start();
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
    assemble(&name.to_ascii_lowercase(), arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_it_was_printed() {
        for name in [
            "int",
            "text",
            "frozen<list<int>>",
            "frozen<map<text, frozen<set<uuid>>>>",
            "frozen<tuple<timestamp, text, int>>",
            "frozen<list<frozen<tuple<timestamp, text, int>>>>",
        ] {
            let declared = parse(name).unwrap();
            assert_eq!(declared.ty.to_string(), name);
        }
        assert!(!parse("set<text>").unwrap().frozen);
        assert_eq!(parse(" Set < TEXT > ").unwrap().ty.unfrozen_name(), "set<text>");
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = "list<".repeat(1000);
        for name in ["", "nope", "list", "list<int", "map<int>", "int<int>", "int x", &deep] {
            assert!(parse(name).is_err(), "{name:.40}");
        }
        assert!(parse("set<duration>").is_err());
    }
}
