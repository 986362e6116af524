//! User-defined types: from statements to the schema, to cells, and back to values.

use super::*;
use crate::types::collection::{list, put_item};

const ADDRESS: &str = "CREATE TYPE address (street text, zip int, tags frozen<set<text>>)";

fn database() -> Database {
    Database::new(&[
        ADDRESS,
        "CREATE TYPE person (name text, home frozen<address>)",
        "CREATE TABLE t (k int PRIMARY KEY, f frozen<address>, u address, z address, v int)",
        "CREATE TABLE p (k int PRIMARY KEY, l frozen<list<person>>)",
        "CREATE TABLE other (k int PRIMARY KEY)",
    ])
}

fn fields(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        put_item(&mut out, *value);
    }
    out
}

fn rows(database: &Database, text: &str) -> ResultRows {
    database.read(text, &ReadOptions { page_size: None, paging_state: None }).0
}

fn version(database: &Database, table: &str) -> crate::schema::TableVersion {
    database.catalog.table("ks", table).unwrap().table_version()
}

#[test]
fn an_altered_type_changes_all_that_is_made_of_it_and_nothing_else() {
    let mut database = database();
    let before = ["t", "p", "other"].map(|table| version(&database, table));
    let select = prepared(&database.catalog, "SELECT l FROM p").unwrap();
    let insert = prepared(&database.catalog, "INSERT INTO t (k, f) VALUES (1, ?)").unwrap();
    database.define("ALTER TYPE address ADD land text");
    let is_current = before.map(|version| database.catalog.is_current(version));
    assert_eq!(is_current, [false, false, true]);
    assert!(!select.is_current(&database.catalog) && !insert.is_current(&database.catalog));
    let told = |database: &Database| {
        let mut out = Vec::new();
        prepared(&database.catalog, "SELECT l FROM p").unwrap().result[0].ty.put_option(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    assert!(told(&database).contains("land"));
    database.define("ALTER TYPE address RENAME land TO region");
    assert!(told(&database).contains("region") && !told(&database).contains("land"));
    let stored = Catalog::from_json(&database.catalog.to_json());
    assert_eq!(stored.as_ref(), Ok(&database.catalog));
    let older = database.catalog.to_json().replacen("\"format\": 4", "\"format\": 3", 1);
    assert_eq!(Catalog::from_json(&older).as_ref(), Ok(&database.catalog));
}

#[test]
fn a_type_that_is_used_is_not_dropped() {
    let mut database = database();
    let used = "Cannot drop user type 'ks.address' as it is still used by user types person";
    assert_eq!(database.refused("DROP TYPE address"), used);
    database.define("DROP TABLE p");
    database.define("DROP TYPE person");
    let used = "Cannot drop user type 'ks.address' as it is still used by tables t";
    assert_eq!(database.refused("DROP TYPE address"), used);
    database.define("DROP TABLE t");
    database.define("DROP TYPE address");
}

#[test]
fn what_has_no_order_does_not_get_where_an_order_is_needed() {
    let mut database = database();
    database.define("CREATE TABLE s (k int PRIMARY KEY, s set<frozen<person>>)");
    let refused = database.refused("ALTER TYPE address ADD d duration");
    assert_eq!(refused, "Durations are not allowed inside sets: set<frozen<person>>");
    database.define("DROP TABLE s");
    database.define("CREATE TABLE s (k int, c frozen<address>, PRIMARY KEY (k, c))");
    let refused = database.refused("ALTER TYPE address ADD d duration");
    assert!(refused.contains("duration type is not supported for PRIMARY KEY column 'c'"));
    database.define("DROP TABLE s");
    database.define("ALTER TYPE address ADD d duration");
}

#[test]
fn types_of_types_are_neither_too_deep_nor_too_large() {
    let mut database = Database::new(&["CREATE TYPE t0 (a int)"]);
    for depth in 1..16 {
        database.define(&format!("CREATE TYPE t{depth} (a frozen<t{}>)", depth - 1));
    }
    let refused = database.refused("CREATE TYPE t16 (a frozen<t15>)");
    assert!(refused.contains("nested 17 deep"), "{refused}");
    assert!(database.refused("CREATE TABLE d (k frozen<list<t15>> PRIMARY KEY)").contains("17"));
    // Each made of ten of the one before it.
    let of =
        |part: &str| (0..10).map(|field| format!("f{field} {part}")).collect::<Vec<_>>().join(", ");
    let mut database = Database::new(&[&format!("CREATE TYPE t0 ({})", of("int"))]);
    for depth in 1..3 {
        database
            .define(&format!("CREATE TYPE t{depth} ({})", of(&format!("frozen<t{}>", depth - 1))));
    }
    let refused = database.refused(&format!("CREATE TYPE t3 ({})", of("frozen<t2>")));
    assert!(refused.contains("more than 65536"), "{refused}");
    let refused = database
        .refused(&format!("CREATE TABLE t (k tuple<{}> PRIMARY KEY)", ["t2"; 10].join(", ")));
    assert!(refused.contains("more than 65536"), "{refused}");
    // Nor does it become so when what it is made of is altered.
    let mut name = "x".repeat(100);
    let refused = loop {
        name.push('x');
        let ddl = format!("ALTER TYPE t0 ADD {name} int");
        let Plan::Ddl(change) = prepared(&database.catalog, &ddl).unwrap().plan else { panic!() };
        match database.catalog.apply(&change, Uuid::nil(), 0) {
            Ok(applied) => database.catalog = applied.catalog.unwrap(),
            Err(refused) => break refused.to_string(),
        }
    };
    assert!(refused.starts_with("Type frozen<t2> takes"), "{refused}");
}

#[test]
fn what_clients_are_told_of_types_counts_and_has_a_limit() {
    let wide = (0..3_000).map(|field| format!("field{field} int")).collect::<Vec<_>>().join(", ");
    let mut database = Database::new(&[&format!("CREATE TYPE wide ({wide})")]);
    let mut before = database.catalog.bytes;
    database.define("CREATE TABLE w (k int PRIMARY KEY, a frozen<wide>, b wide)");
    assert!(database.catalog.bytes > before + 2 * 3_000 * 10);
    before = database.catalog.bytes;
    database.define("ALTER TABLE w ADD c frozen<list<wide>>");
    assert!(database.catalog.bytes > before + 3_000 * 10);
    let often = ["a"; 500].join(", ");
    let refused = prepared(&database.catalog, &format!("SELECT {often} FROM w")).unwrap_err();
    assert!(refused.message.contains("ask for fewer columns"), "{}", refused.message);
    prepared(&database.catalog, "SELECT * FROM w").unwrap();
    let many = ["{field1: 1}"; 500].join(", ");
    let refused = database.refused(&format!("UPDATE w SET c = [{many}] WHERE k = 1"));
    assert!(refused.contains("bind its values"), "{refused}");
    let write = |at| format!("UPDATE w SET a = {{field1: 1}} WHERE k = {at};");
    let batch: String = (0..500).map(write).collect();
    let refused = database.refused(&format!("BEGIN BATCH {batch} APPLY BATCH"));
    assert!(refused.contains("bind them"), "{refused}");
}

#[test]
fn bound_values_have_their_stored_form() {
    let mut database = database();
    let (unsorted, sorted) = (list(&["b", "a", "b"]), list(&["a", "b"]));
    let given = fields(&[None, None, Some(&unsorted)]);
    let wanted = fields(&[None, None, Some(&sorted)]);
    database.write("INSERT INTO t (k, f, u) VALUES (1, ?, ?)", &[Value::Bytes(&given); 2]).unwrap();
    let both = Some(wanted.clone());
    assert_eq!(rows(&database, "SELECT f, u FROM t"), [[both.clone(), both]]);
    // Fewer fields than the type has, and one of a literal.
    let street = fields(&[Some(b"s")]);
    let text = "UPDATE t SET f = ?, u = {street: ?, zip: 1}, z.tags = ? WHERE k = 2";
    let values = [&street[..], b"q", &unsorted].map(Value::Bytes);
    database.write(text, &values).unwrap();
    let u = Some(fields(&[Some(b"q"), Some(&1i32.to_be_bytes()), None]));
    let found = rows(&database, "SELECT f, u, z FROM t WHERE k = 2");
    assert_eq!(found, [[Some(street), u, Some(wanted)]]);
    let names = prepared(&database.catalog, text).unwrap().bind;
    assert_eq!(
        names.iter().map(|spec| &*spec.name).collect::<Vec<_>>(),
        ["f", "u.street", "z.tags"]
    );
    for bytes in [&[0, 0, 0, 9, 1][..], &fields(&[None, None, None, None]), &[0]] {
        let text = "INSERT INTO t (k, u) VALUES (1, ?)";
        assert!(database.write(text, &[Value::Bytes(bytes)]).is_err(), "{bytes:?}");
    }
    let text = "INSERT INTO t (k, f) VALUES (1, {street: ?})";
    let refused = database.write(text, &[Value::Unset]).unwrap_err().message;
    assert_eq!(refused, "Invalid unset value for field 'street' of user defined type address");
}

#[test]
fn columns_are_found_in_whatever_order_they_are_asked_for() {
    let mut database = database();
    database.write("INSERT INTO t (k, u) VALUES (1, {street: 's', zip: 1})", &[]).unwrap();
    let u = Some(fields(&[Some(b"s"), Some(&1i32.to_be_bytes()), None]));
    let found = rows(&database, "SELECT z, u, v, u.street, z.zip, u FROM t");
    assert_eq!(found, [[None, u.clone(), None, Some(b"s".to_vec()), None, u]]);
}
