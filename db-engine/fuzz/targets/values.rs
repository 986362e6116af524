//! Values of every type: those that are accepted can be ordered, stored and had back.

use sandglass_db::types::{
    CqlType,
    canonical::canonical,
    comparable,
    parse::{Declared, TypeScope, parse},
    user_type::{UserField, UserType, UserTypes},
    validate::validate,
};
use std::sync::Arc;

const TYPES: [&str; 30] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "frozen<list<int>>",
    "frozen<set<text>>",
    "frozen<map<int, text>>",
    "frozen<tuple<int, text, double>>",
    "frozen<list<frozen<set<varint>>>>",
    "frozen<map<text, frozen<map<int, decimal>>>>",
    "frozen<set<frozen<tuple<blob, boolean>>>>",
    "frozen<set<timeuuid>>",
    "frozen<list<duration>>",
    "frozen<address>",
    "frozen<set<frozen<address>>>",
];

/// A type by its name; `address` is a user-defined one.
fn read(name: &str) -> Result<Declared, String> {
    let set = CqlType::Set(Box::new(CqlType::Text));
    let field = |(name, ty): (&str, _)| UserField { name: name.to_string(), ty, frozen: true };
    let fields = [("street", CqlType::Text), ("zip", CqlType::Int), ("tags", set)].map(field);
    let address = Arc::new(UserType::new("ks", "address", fields.into()));
    let types = UserTypes::from([("address".to_string(), address)]);
    parse(name, TypeScope { keyspace: "ks", types: &types })
}

/// The code of a value as a clustering key, if it is one that has an order.
fn code(ty: &CqlType, descending: bool, bytes: &[u8]) -> Option<Vec<u8>> {
    validate(ty, bytes).ok()?;
    let stored = canonical(ty, bytes).ok()?.into_owned();
    validate(ty, &stored).expect("what is stored is legal, too");
    let again = canonical(ty, &stored).expect("it was in order").into_owned();
    assert_eq!(stored, again, "a value has one form");
    if !ty.has_order() {
        return None;
    }
    let mut key = Vec::new();
    comparable::encode(ty, descending, &stored, &mut key).ok()?;
    let (mut rest, mut decoded) = (key.as_slice(), Vec::new());
    comparable::decode(ty, descending, &mut rest, &mut decoded).expect("it was encoded");
    assert!(rest.is_empty(), "a code ends where its value does");
    validate(ty, &decoded).expect("what is read is legal");
    let mut once_more = Vec::new();
    comparable::encode(ty, descending, &decoded, &mut once_more).expect("it has an order");
    assert_eq!(key, once_more, "equal values have one code");
    Some(key)
}

/// A byte that chooses the type, one that says where the first of two values ends, and these.
pub fn value(bytes: &[u8]) {
    let [choice, end, values @ ..] = bytes else { return };
    if *choice == u8::MAX {
        // The name of a type instead.
        drop(read(&String::from_utf8_lossy(values)));
        return;
    }
    let name = TYPES[usize::from(choice % 30)];
    let descending = choice / 30 % 2 == 1;
    let ty = read(name).unwrap_or_else(|error| panic!("{name}: {error}")).ty;
    let (first, second) = values.split_at(usize::from(*end).min(values.len()));
    let codes = (code(&ty, descending, first), code(&ty, descending, second));
    if let (Some(first), Some(second)) = codes
        && first != second
    {
        let is_prefix = first.starts_with(&second) || second.starts_with(&first);
        assert!(!is_prefix, "no code is the beginning of another");
    }
    // What was not encoded may be found on a damaged disk.
    let mut rest = values;
    comparable::decode(&ty, descending, &mut rest, &mut Vec::new());
}

pub fn inputs() -> Vec<Vec<u8>> {
    let mut inputs: Vec<Vec<u8>> = (0..56).map(|choice| vec![choice, 0]).collect();
    for choice in 0..56 {
        inputs.push(vec![choice, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1]);
        inputs.push([vec![choice, 16], (0..32).collect()].concat());
    }
    inputs.push([&[255, 0], &b"frozen<map<int, list<text>>>"[..]].concat());
    inputs
}
