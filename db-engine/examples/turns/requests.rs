//! The requests: of each kind the one of four megabytes or less that costs most.

use crate::same_token::key;
use crate::wire::client::{
    Client, batch, compressed_startup, execute, long_string, op, text_batch,
};

/// Bytes of a literal: with its statement it is under the limit of a text.
const TEXT_BYTES: usize = 1_000_000;

/// Makes a request: its opcode and its body.
type Make = fn(&mut Client) -> (u8, Vec<u8>);

/// Bytes of a value: with its frame it is under the limit of a write.
const BYTES: usize = 4_000_000;

pub const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (p int PRIMARY KEY, b blob, a ascii, t text, \
     fl frozen<list<int>>, ft frozen<list<text>>, fs frozen<set<int>>, \
     fm frozen<map<int, int>>, fd frozen<list<frozen<set<int>>>>, ff frozen<set<text>>, \
     l list<int>, s set<int>, m map<int, int>)",
    "CREATE TABLE k.one (p blob PRIMARY KEY, v int)",
];

pub const ALL: [(&str, Make); 40] = [
    ("a blob", |client| bound(client, "b", &[7; BYTES])),
    ("an ascii text", |client| bound(client, "a", &[b'a'; BYTES])),
    ("a text in ASCII", |client| bound(client, "t", &[b'a'; BYTES])),
    ("a text of two bytes a letter", |client| bound(client, "t", "é".repeat(BYTES / 2).as_bytes())),
    ("a frozen list of 500,000 numbers", |client| bound(client, "fl", &items(500_000, ascending))),
    ("a frozen list of 1,000,000 empty texts", |client| {
        let count = 1_000_000i32.to_be_bytes();
        bound(client, "ft", &[&count[..], &vec![0; 4_000_000]].concat())
    }),
    ("a frozen set of 500,000 numbers in order", |client| {
        bound(client, "fs", &items(500_000, ascending))
    }),
    ("a frozen set of 500,000 numbers in disorder", |client| {
        bound(client, "fs", &items(500_000, shuffled))
    }),
    ("a frozen map of 250,000 pairs in disorder", |client| {
        bound(client, "fm", &pairs(250_000, shuffled))
    }),
    ("a frozen list of a set in disorder", |client| {
        let set = items(490_000, shuffled);
        let mut list = 1i32.to_be_bytes().to_vec();
        list.extend(i32::try_from(set.len()).expect("it is small").to_be_bytes());
        list.extend(set);
        bound(client, "fd", &list)
    }),
    ("a list of 60,000 elements", |client| bound(client, "l", &items(60_000, ascending))),
    ("a set of 60,000 elements in disorder", |client| bound(client, "s", &items(60_000, shuffled))),
    ("a map of 60,000 elements in disorder", |client| bound(client, "m", &pairs(60_000, shuffled))),
    ("a list of 110,000 elements", |client| bound(client, "l", &items(110_000, ascending))),
    ("a set of 250,000 elements in disorder", |client| {
        bound(client, "s", &items(250_000, shuffled))
    }),
    ("a map of 180,000 elements in disorder", |client| {
        bound(client, "m", &pairs(180_000, shuffled))
    }),
    ("60,000 elements in disorder added to as many", |client| {
        added(client, &items(60_000, shuffled), "UPDATE k.t SET s = s + ? WHERE p = ?")
    }),
    ("one element added to a set of 250,000", |client| {
        let set = items(250_000, shuffled);
        let (opcode, body) = bound(client, "s", &set);
        assert_eq!(client.ask(opcode, &body).expect("it serves").opcode, op::RESULT);
        added(client, &items(1, ascending), "UPDATE k.t SET s = s + ? WHERE p = ?")
    }),
    ("a read of a set of 250,000 elements", |client| read(client, "s", &items(250_000, shuffled))),
    ("a read of such a set that has grown by one", |client| {
        let read = read(client, "s", &items(250_000, shuffled));
        client.run("UPDATE k.t SET s = s + {-1} WHERE p = 1");
        read
    }),
    ("a read of times in a set of 4,000, 1,000 times", |client| {
        let (opcode, body) = bound(client, "s", &items(4_000, shuffled));
        assert_eq!(client.ask(opcode, &body).expect("it serves").opcode, op::RESULT);
        let times = vec!["maxwritetime(s)"; 1_000].join(", ");
        let id = client.prepare(&format!("SELECT {times} FROM k.t WHERE p = ?"));
        (op::EXECUTE, execute(&id, &[&1i32.to_be_bytes()]))
    }),
    ("a read by 1,000 conditions on a set of 4,000", |client| {
        found(client, ("s", &items(4_000, ascending)), &vec!["s CONTAINS 3999"; 1_000])
    }),
    ("a read by 1,000 conditions on such a frozen one", |client| {
        found(client, ("fs", &items(4_000, ascending)), &vec!["fs CONTAINS 3999"; 1_000])
    }),
    ("a read by a condition on a set of 250,000", |client| {
        found(client, ("s", &items(250_000, ascending)), &["s CONTAINS 249999"])
    }),
    ("a read by a condition on such a frozen one", |client| {
        found(client, ("fs", &items(250_000, ascending)), &["fs CONTAINS 249999"])
    }),
    ("a read of a blob", |client| read(client, "b", &[7; BYTES])),
    ("a frozen set of two texts of 2 MB", |client| {
        let mut set = 2u32.to_be_bytes().to_vec();
        for letter in [b'b', b'a'] {
            set.extend(u32::try_from(BYTES / 2 - 8).expect("it is small").to_be_bytes());
            set.extend(vec![letter; BYTES / 2 - 8]);
        }
        bound(client, "ff", &set)
    }),
    ("a conditional write of a blob of 2 MB", |client| {
        client.run("INSERT INTO k.t (p) VALUES (7)");
        let id = client.prepare("UPDATE k.t SET b = ? WHERE p = ? IF EXISTS");
        (op::EXECUTE, execute(&id, &[&[7; BYTES / 2], &7i32.to_be_bytes()]))
    }),
    ("a conditional batch of 4 frozen sets", |client| {
        client.run("INSERT INTO k.t (p) VALUES (7)");
        let id = client.prepare("UPDATE k.t SET fs = ? WHERE p = ? IF EXISTS");
        let row = || vec![items(60_000, shuffled), 7i32.to_be_bytes().to_vec()];
        (op::BATCH, batch(1, &id, &(0..4).map(|_| row()).collect::<Vec<_>>()))
    }),
    ("a conditional batch of 1,000 rows", |client| {
        client.run("INSERT INTO k.t (p) VALUES (7)");
        let id = client.prepare("UPDATE k.t SET t = ? WHERE p = ? IF EXISTS");
        let row = |_| vec![b"measurement".to_vec(), 7i32.to_be_bytes().to_vec()];
        (op::BATCH, batch(1, &id, &(0..1_000).map(row).collect::<Vec<_>>()))
    }),
    ("a batch of 1,000 of 60,000 keys of one token", |client| {
        let id = client.prepare("INSERT INTO k.one (p, v) VALUES (?, ?)");
        let rows = |first: u64| {
            let row = |number| vec![key(number).to_vec(), 7i32.to_be_bytes().to_vec()];
            batch(1, &id, &(first..first + 1_000).map(row).collect::<Vec<_>>())
        };
        for thousand in 0..60 {
            assert_eq!(
                client.ask(op::BATCH, &rows(thousand * 1_000)).expect("it serves").opcode,
                op::RESULT
            );
        }
        (op::BATCH, rows(59_000))
    }),
    ("a query with a text", |_| query(&format!("'{}'", "a".repeat(TEXT_BYTES)), "t")),
    ("a statement of 1 MB that is prepared", |_| {
        let text = format!("INSERT INTO k.t (p, t) VALUES (1, '{}')", "a".repeat(TEXT_BYTES));
        (op::PREPARE, long_string(&text))
    }),
    ("a batch of 4 texts of 1 MB", |_| {
        let text = |p| format!("INSERT INTO k.t (p, t) VALUES ({p}, '{}')", "a".repeat(TEXT_BYTES));
        let texts: Vec<_> = (1..5).map(text).collect();
        (op::BATCH, text_batch(&texts))
    }),
    ("a batch of 9,000 numbers in a text each, 4 times", |_| {
        let text = |p| format!("INSERT INTO k.t (p, fl) VALUES ({p}, {})", listed('[', ']'));
        let texts: Vec<_> = (1..5).map(text).collect();
        (op::BATCH, text_batch(&texts))
    }),
    ("a query with a text of two bytes a letter", |_| {
        query(&format!("'{}'", "é".repeat(TEXT_BYTES / 2)), "t")
    }),
    ("a query with a frozen list", |_| query(&listed('[', ']'), "fl")),
    ("a query with a frozen set in disorder", |_| query(&listed('{', '}'), "fs")),
    ("a query with a blob", |_| query(&format!("0x{}", "07".repeat(TEXT_BYTES / 2)), "b")),
    ("a read of 2 lists of 4 MB, compressed", |client| {
        for p in 1..=2i32 {
            let id = client.prepare("INSERT INTO k.t (p, fl) VALUES (?, ?)");
            let body = execute(&id, &[&p.to_be_bytes(), &items(500_000, shuffled)]);
            assert_eq!(client.ask(op::EXECUTE, &body).expect("it serves").opcode, op::RESULT);
        }
        // Those behind it would be compressed, too.
        client.ask(op::STARTUP, &compressed_startup()).expect("it serves");
        let id = client.prepare("SELECT fl FROM k.t");
        (op::EXECUTE, execute(&id, &[]))
    }),
];

fn ascending(number: u32) -> u32 {
    number
}

/// Each number once, and nearly none behind a smaller one.
fn shuffled(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1)
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend(4i32.to_be_bytes());
    out.extend(number.to_be_bytes());
}

fn items(count: u32, item: fn(u32) -> u32) -> Vec<u8> {
    let mut out = count.to_be_bytes().to_vec();
    (0..count).for_each(|number| put(&mut out, item(number)));
    out
}

fn pairs(count: u32, item: fn(u32) -> u32) -> Vec<u8> {
    let mut out = count.to_be_bytes().to_vec();
    for number in 0..count {
        put(&mut out, item(number));
        put(&mut out, number);
    }
    out
}

/// Numbers as a literal.
fn listed(open: char, close: char) -> String {
    let numbers: Vec<_> = (0..9_000u32).map(|number| (number * 7919 % 9_001).to_string()).collect();
    format!("{open}{}{close}", numbers.join(", "))
}

fn bound(client: &mut Client, column: &str, value: &[u8]) -> (u8, Vec<u8>) {
    let id = client.prepare(&format!("INSERT INTO k.t (p, {column}) VALUES (?, ?)"));
    (op::EXECUTE, execute(&id, &[&1i32.to_be_bytes(), value]))
}

fn added(client: &mut Client, value: &[u8], update: &str) -> (u8, Vec<u8>) {
    let id = client.prepare(update);
    (op::EXECUTE, execute(&id, &[value, &1i32.to_be_bytes()]))
}

/// Reads what was written.
fn read(client: &mut Client, column: &str, value: &[u8]) -> (u8, Vec<u8>) {
    let (opcode, body) = bound(client, column, value);
    assert_eq!(client.ask(opcode, &body).expect("it serves").opcode, op::RESULT);
    let id = client.prepare(&format!("SELECT {column} FROM k.t WHERE p = ?"));
    (op::EXECUTE, execute(&id, &[&1i32.to_be_bytes()]))
}

/// Finds the row that was written by conditions, all of which it meets.
fn found(
    client: &mut Client,
    (column, value): (&str, &[u8]),
    conditions: &[&str],
) -> (u8, Vec<u8>) {
    let (opcode, body) = bound(client, column, value);
    assert_eq!(client.ask(opcode, &body).expect("it serves").opcode, op::RESULT);
    let conditions = conditions.join(" AND ");
    let id =
        client.prepare(&format!("SELECT p FROM k.t WHERE p = ? AND {conditions} ALLOW FILTERING"));
    (op::EXECUTE, execute(&id, &[&1i32.to_be_bytes()]))
}

fn query(value: &str, column: &str) -> (u8, Vec<u8>) {
    let mut body = long_string(&format!("INSERT INTO k.t (p, {column}) VALUES (1, {value})"));
    body.extend([0, 1, 0]);
    (op::QUERY, body)
}
