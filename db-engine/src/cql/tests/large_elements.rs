//! Large collections that are not frozen: what is prepared bit by bit is what is bound at once.

use super::*;
use crate::types::{
    canonical::tests::{types, value},
    collection::{list, map},
    large::LargeValue,
};
use proptest::prelude::*;

const WRITES: [&str; 8] = [
    "INSERT INTO t (k, a, c, z) VALUES (1, 5, ?, 6)",
    "UPDATE t SET c = ? WHERE k = 1",
    "UPDATE t SET c = c + ?, a = 5 WHERE k = 1",
    "UPDATE t USING TTL 60 SET c = ?, o = o + {7} WHERE k = 1",
    "UPDATE t SET c = ? WHERE k IN (1, 2)",
    "UPDATE t SET st = ? WHERE k = 1",
    "UPDATE t SET c = ? + c WHERE k = 1",
    "UPDATE t SET c = c - ? WHERE k = 1",
];

/// What becomes of a value in turns without time.
fn worked(prepared: &Prepared, given: &[u8], scratch: &BindScratch) -> LargeValue {
    let clock = ManualClock::at(0);
    let mut work = prepared.large_work((0, &prepared.bind[0].ty), given, true, (&CONTEXT, scratch));
    loop {
        if let Some(done) = work.go_on(given, &mut TimeSlice::new(&clock, 0)) {
            return done;
        }
    }
}

/// The mutations with this value, bound at once and prepared bit by bit.
fn both(prepared: &Prepared, given: &[u8]) -> [Result<Vec<u8>, CqlError>; 2] {
    let Plan::Write(plan) = &prepared.plan else { panic!("no write") };
    let bound = |value: Value<'_>, scratch: &mut BindScratch| {
        let mut out = Vec::new();
        plan.bind(&[value], &CONTEXT, scratch, &mut out).map(|_| out)
    };
    let at_once = bound(Value::Bytes(given), &mut BindScratch::default());
    let mut scratch = BindScratch::default();
    let large = Arc::new(worked(prepared, given, &scratch));
    [at_once, bound(Value::Large(&large), &mut scratch)]
}

fn database(ty: &CqlType) -> Option<Database> {
    let mut database = Database::new(&[]);
    // As a type of a value it is frozen.
    let name = ty.to_string();
    let ty = name.strip_prefix("frozen<").and_then(|rest| rest.strip_suffix('>'))?;
    let table = format!(
        "CREATE TABLE t (k int, a int, c {ty}, o set<int>, st {ty} STATIC, z int, r int, \
         PRIMARY KEY (k, r))"
    );
    let Plan::Ddl(ddl) = prepared(&database.catalog, &table).ok()?.plan else { return None };
    database.catalog = database.catalog.apply(&ddl, Uuid::nil(), 0).ok()?.catalog?;
    Some(database)
}

/// With the value of a collection whose elements may be in any order and repeat.
fn check(ty: &CqlType, given: &[u8]) {
    let database = database(ty).expect("it is a type of a column");
    for text in WRITES {
        if matches!(ty, CqlType::List(_)) && text.contains(" IN ") {
            // Each row has places of its own, or the same: nobody can tell.
            continue;
        }
        let of_row = text.replace("k = 1", "k = 1 AND r = 2").replace("(1, 2)", "(1, 2) AND r = 2");
        let of_row = of_row.replace("INSERT INTO t (k,", "INSERT INTO t (r, k,");
        let of_row = of_row.replace("VALUES (1,", "VALUES (2, 1,");
        let text = if text.contains("st =") { text } else { &of_row };
        let Ok(prepared) = prepared(&database.catalog, text) else { continue };
        let [at_once, bit_by_bit] = both(&prepared, given);
        assert_eq!(at_once, bit_by_bit, "{text}, {ty}");
    }
}

proptest! {
    #[test]
    fn a_large_collection_is_written_as_others_are(
        key in types(),
        of in types(),
        seed in any::<u64>(),
    ) {
        let random = &mut Random(seed);
        let frozen = |ty: &CqlType| Box::new(ty.clone());
        for ty in [
            CqlType::Set(frozen(&key)),
            CqlType::List(frozen(&key)),
            CqlType::Map(frozen(&key), frozen(&of)),
        ] {
            let mut given = value(&ty, random);
            check(&ty, &given);
            given.pop();
            check(&ty, &given);
        }
    }

    #[test]
    fn of_several_elements_with_one_key_the_greatest_stays(
        seed in any::<u64>(),
        count in 0u64..200,
    ) {
        let random = &mut Random(seed);
        let small = |random: &mut Random| random.below(20).to_string();
        let pairs: Vec<_> = (0..count).map(|_| (small(random), small(random))).collect();
        let text = || Box::new(CqlType::Text);
        check(&CqlType::Map(text(), text()), &map(&pairs));
        let keys: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
        check(&CqlType::Set(text()), &list(&keys));
        check(&CqlType::List(text()), &list(&keys));
    }
}

#[test]
fn elements_that_are_too_large_together_are_refused_in_the_same_words() {
    let ty = CqlType::Set(Box::new(CqlType::Text));
    let keys: Vec<_> = (0..400_000).map(|number: u32| number.to_string()).collect();
    let given = list(&keys);
    let database = database(&ty).unwrap();
    let text = "UPDATE t SET c = ? WHERE k = 1 AND r = 2";
    let [at_once, bit_by_bit] = both(&prepared(&database.catalog, text).unwrap(), &given);
    let message = |bound: Result<Vec<u8>, CqlError>| bound.err().map(|error| error.message);
    let refused = message(at_once).expect("it is too large");
    assert!(refused.contains("maximum size"), "{refused}");
    assert_eq!(message(bit_by_bit), Some(refused));
}

/// However many it says that there are.
#[test]
fn a_list_that_is_refused_takes_no_places_from_others() {
    let database = database(&CqlType::List(Box::new(CqlType::Int))).unwrap();
    let append = "UPDATE t SET c = c + ? WHERE k = 1 AND r = 1";
    let prepared = prepared(&database.catalog, append).unwrap();
    let Plan::Write(plan) = &prepared.plan else { panic!("no write") };
    let given = [&i32::MAX.to_be_bytes()[..], &[0; 100]].concat();
    let mut used = BindScratch::default();
    assert!(worked(&prepared, &given, &used).elements().is_err());
    let one = [&1i32.to_be_bytes()[..], &4i32.to_be_bytes(), &7i32.to_be_bytes()].concat();
    let bound = |scratch: &mut BindScratch| {
        let mut out = Vec::new();
        plan.bind(&[Value::Bytes(&one)], &CONTEXT, scratch, &mut out).unwrap();
        out
    };
    assert_eq!(bound(&mut used), bound(&mut BindScratch::default()));
}
