//! Writes to several rows, and to several partitions.

use super::{
    BindScratch, CONTEXT, CqlError, Database, Plan, ReadOptions, Value, int, mutations, prepared,
};
use crate::mutation::Item;

const ALL: ReadOptions<'_> = ReadOptions { page_size: None, paging_state: None };

/// The mutations of a write: partition, and what each item does to how many cells.
fn written(
    database: &Database,
    text: &str,
    values: &[Value<'_>],
) -> Result<Vec<(i32, Vec<String>)>, CqlError> {
    let Plan::Write(plan) = prepared(&database.catalog, text)?.plan else { panic!("{text}") };
    let mut out = b"before".to_vec();
    let bound = plan.bind(values, &CONTEXT, &mut BindScratch::default(), &mut out);
    if let Err(error) = bound {
        assert_eq!(out, b"before", "nothing is appended of what is refused");
        return Err(error);
    }
    let item = |item: Item<'_>| match item {
        Item::Row { ck, row } => {
            let row = crate::mutation::RowView::parse(row).unwrap();
            let deletion = if row.deletion().is_some() { "deleted " } else { "" };
            let marker = if row.marker().is_some() { "inserted " } else { "" };
            format!("{deletion}{marker}row {} of {} cells", hex(ck), row.cells().count())
        }
        Item::PartitionDeletion(_) => "deleted partition".into(),
        Item::RangeDeletion(range) => {
            format!("deleted from {} before {}", hex(range.from), hex(range.to))
        }
    };
    let all = mutations(&out[6..]).map(|mutation| {
        let mutation = mutation.unwrap();
        mutation.check().unwrap();
        (int(mutation.key()), mutation.items().map(item).collect())
    });
    Ok(all.collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn wide() -> Database {
    Database::new(&[
        "CREATE TABLE t (p int, c tinyint, d tinyint, v int, w int, PRIMARY KEY (p, c, d)) \
         WITH CLUSTERING ORDER BY (c ASC, d DESC)",
    ])
}

#[test]
fn in_makes_a_mutation_for_each_partition_with_a_row_for_each_key() {
    let database = wide();
    let written = |text: &str| written(&database, text, &[]).unwrap();
    let rows = ["row 0281027e", "row 0283027e"].map(|row| row.replace("027e", "fd7e"));
    let cells = |prefix: &str, cells: usize| -> Vec<String> {
        rows.iter().map(|row| format!("{prefix}{row} of {cells} cells")).collect()
    };
    let update = "UPDATE t SET v = 1, w = null WHERE p IN (3, 1, 3) AND c IN (3, 1) AND d = 1";
    assert_eq!(written(update), [(1, cells("", 2)), (3, cells("", 2))]);
    let delete = "DELETE FROM t WHERE p IN (1) AND (c, d) IN ((3, 1), (1, 1), (3, 1))";
    assert_eq!(written(delete), [(1, cells("deleted ", 0))]);
    let delete = "DELETE w FROM t WHERE p = 2 AND (c, d) IN ((3, 1), (1, 1))";
    assert_eq!(written(delete), [(2, cells("", 1))]);
    let delete = "DELETE FROM t WHERE p IN (2, 1)";
    let whole = vec!["deleted partition".to_string()];
    assert_eq!(written(delete), [(1, whole.clone()), (2, whole)]);
    for text in [
        "UPDATE t SET v = 1 WHERE p IN () AND c = 1 AND d = 1",
        "UPDATE t SET v = 1 WHERE p = 1 AND c IN () AND d = 1",
        "DELETE FROM t WHERE p IN ()",
    ] {
        assert_eq!(written(text), [], "{text}");
    }
}

#[test]
fn a_bound_list_of_keys_is_as_good_as_one_that_is_written() {
    let database = wide();
    let list = |items: &[&[u8]]| crate::types::collection::list(items);
    let (keys, rows) = (list(&[&[0, 0, 0, 2], &[0, 0, 0, 1]]), list(&[&[1], &[3]]));
    let text = "UPDATE t SET v = 1 WHERE p IN ? AND c IN ? AND d = ?";
    let values = [Value::Bytes(&keys), Value::Bytes(&rows), Value::Bytes(&[1])];
    let written = |values: &[Value<'_>]| written(&database, text, values);
    let found = written(&values).unwrap();
    assert_eq!(
        found.iter().map(|(p, items)| (*p, items.len())).collect::<Vec<_>>(),
        [(1, 2), (2, 2)]
    );
    for (at, column, value, what) in [
        (0, "p", Value::Null, "null"),
        (0, "p", Value::Unset, "unset"),
        (1, "c", Value::Null, "null"),
        (1, "c", Value::Unset, "unset"),
    ] {
        let mut values = values;
        values[at] = value;
        let refused = written(&values).unwrap_err().message;
        assert_eq!(refused, format!("Invalid {what} value for column {column}"));
    }
    let many: Vec<[u8; 4]> = (0..1_001_i32).map(i32::to_be_bytes).collect();
    let many: Vec<&[u8]> = many.iter().map(<[u8; 4]>::as_slice).collect();
    let keys = |count: usize| list(&many[..count]);
    let (most, more) = (keys(500), keys(501));
    let ask = |keys| written(&[Value::Bytes(keys), Value::Bytes(&rows), Value::Bytes(&[1])]);
    assert_eq!(ask(&most).unwrap().len(), 500);
    let refused = "The IN restrictions make more than 1000 combinations of values";
    assert_eq!(ask(&more).unwrap_err().message, refused);
}

#[test]
fn combinations_of_long_keys_and_values_are_limited_by_their_bytes() {
    let database = Database::new(&["CREATE TABLE l (p int, c text, v text, PRIMARY KEY (p, c))"]);
    let numbers: Vec<String> = (0..500).map(|p| p.to_string()).collect();
    let update = |keys: usize, bytes: usize, value: usize| {
        let keys = numbers[..keys].join(", ");
        let (a, b) = ("a".repeat(bytes), "b".repeat(bytes));
        let value = "v".repeat(value);
        let text =
            format!("UPDATE l SET v = '{value}' WHERE p IN ({keys}) AND c IN ('{a}', '{b}')");
        written(&database, &text, &[]).map(|written| written.len()).map_err(|error| error.message)
    };
    assert_eq!(update(500, 1_000, 1), Ok(500));
    let refused = "The combinations of the IN restrictions' values have more than 1048576 bytes: \
                   ask for fewer at a time";
    assert_eq!(update(500, 1_100, 1), Err(refused.to_string()));
    assert_eq!(update(500, 1, 4_000), Ok(500));
    let refused = update(500, 1, 5_000).unwrap_err();
    assert!(refused.starts_with("Mutation is larger than the maximum size"), "{refused}");
    assert_eq!(update(1, 65_535, 1), Ok(1));
    let refused = "Key length of 65536 is longer than maximum of 65535";
    assert_eq!(update(1, 65_536, 1), Err(refused.to_string()));
}

#[test]
fn one_statement_of_a_batch_may_be_of_many_partitions() {
    let mut database = wide();
    let text = "BEGIN BATCH INSERT INTO t (p, c, d, v) VALUES (1, 1, 1, 1); \
                UPDATE t SET v = 2 WHERE p IN (1, 2) AND c = 1 AND d = 2; \
                INSERT INTO t (p, c, d, v) VALUES (2, 1, 3, 3); APPLY BATCH";
    database.write(text, &[]).unwrap();
    let (rows, _) = database.read("SELECT p, c, d, v FROM t WHERE p IN (1, 2)", &ALL);
    let found: Vec<_> = rows
        .iter()
        .map(|row| (int(row[0].as_ref().unwrap()), int(row[3].as_ref().unwrap())))
        .collect();
    assert_eq!(found, [(1, 2), (1, 1), (2, 3), (2, 2)]);
    let broken = "BEGIN BATCH INSERT INTO t (p, c, d) VALUES (1, 1, 1); \
                  UPDATE t SET v = ? WHERE p IN (1, 2) AND c = 1 AND d = 2; APPLY BATCH";
    let refused = database.write(broken, &[Value::Bytes(&[1])]).unwrap_err();
    assert!(refused.message.contains("Expected 4"), "{}", refused.message);
}
