//! A row of megabytes is read, searched, answered with and flushed bit by bit, and so is one of
//! which thousands of parts are asked for; others are served meanwhile.
#![allow(clippy::unwrap_used)]

mod simulated;
mod whole;
mod wire;

use sandglass_db::{
    budget::Share,
    types::collection::{list, map},
};
use whole::crowd::Crowd;
use wire::client::{Answer, compressed_startup, execute, op};

/// Bytes of a value: half as many as a connection may have of answers that are not taken.
const VALUE_BYTES: usize = 2 << 20;

/// What a turn may send, of all connections and of one.
const SENT_BYTES_MAX: usize = 1 << 20;
const CONNECTION_SENT_BYTES_MAX: usize = 256 << 10;

fn crowd(count: usize, look_us: u64) -> Crowd {
    let mut crowd = Crowd::looking(1, count, look_us);
    crowd.run(
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    crowd.run(
        "CREATE TABLE ks.t (k int, c int, v blob, s set<int>, u set<int> STATIC, \
               m map<int, int>, f frozen<set<int>>, g frozen<map<int, int>>, \
               PRIMARY KEY (k, c))",
    );
    crowd
}

fn prepare(crowd: &mut Crowd, text: &str) -> Vec<u8> {
    let last = crowd.clients.len() - 1;
    crowd.clients[last].ask(op::PREPARE, &wire::client::long_string(text), ());
    crowd.send(last);
    let answer = crowd.wait(last, 1).0.remove(0);
    let length = u16::from_be_bytes([answer.body[4], answer.body[5]]);
    answer.body[6..6 + usize::from(length)].to_vec()
}

fn value(seed: usize) -> Vec<u8> {
    (0..VALUE_BYTES).map(|place| u8::try_from((place * seed / 7) % 251).unwrap()).collect()
}

fn write(crowd: &mut Crowd, value: &[u8]) {
    write_as(crowd, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, ?)", value);
}

fn write_as(crowd: &mut Crowd, text: &str, value: &[u8]) {
    let insert = prepare(crowd, text);
    let last = crowd.clients.len() - 1;
    crowd.clients[last].ask(op::EXECUTE, &execute(&insert, &[value]), ());
    crowd.send(last);
    assert_eq!(crowd.wait(last, 1).0.remove(0).opcode, op::RESULT);
}

#[test]
fn many_large_answers_are_sent_a_piece_each_turn_and_nobody_is_left_out() {
    const READERS: usize = 40;
    let mut crowd = crowd(READERS + 1, 20);
    write(&mut crowd, &value(5));
    for reader in 0..READERS {
        crowd.ask(reader, "SELECT v FROM ks.t WHERE k = 1");
        crowd.send(reader);
    }
    let metrics = |crowd: &Crowd| crowd.engine.metrics(0).sent_bytes.get();
    let (mut answered, mut turns, mut sending) = ([None; READERS], 0_u32, 0_u32);
    while answered.contains(&None) {
        let before = metrics(&crowd);
        crowd.turn();
        turns += 1;
        let sent = usize::try_from(metrics(&crowd) - before).unwrap();
        assert!(sent <= SENT_BYTES_MAX, "{sent} bytes in a turn");
        sending += u32::from(sent > 0);
        let is_awake = crowd.engine.is_awake(0);
        for (reader, answered) in answered.iter_mut().enumerate() {
            if let Some(answer) = crowd.answers(reader).pop() {
                assert!(answer.rows().0 == [[Some(value(5))]], "what was written is read");
                *answered = Some(turns);
            }
        }
        assert!(is_awake || !answered.contains(&None), "it sleeps and has more to send");
    }
    let all_bytes = READERS * VALUE_BYTES;
    assert!(sending as usize >= all_bytes / SENT_BYTES_MAX, "{sending} turns");
    // They are sent to by turns. If the first ones came first each time, half of them would have
    // all of theirs when half of all was sent.
    let middle = answered[READERS / 2].unwrap();
    assert!(middle > turns * 3 / 4, "{answered:?}");
}

/// Reads, while another client asks for little. Gives the row, how many turns it took, and in how
/// many turns at most the other one had no answer.
fn read(crowd: &mut Crowd, text: &str) -> (Vec<Option<Vec<u8>>>, u32, u32) {
    crowd.ask(0, text);
    let (answer, turns, longest) = crowd.answer_beside(0, 1, |_, _| {});
    (answer.rows().0.remove(0), turns, longest)
}

#[test]
fn a_large_row_is_read_in_one_turn_and_answered_with_in_others() {
    let mut crowd = crowd(3, 100);
    let pieces = u32::try_from(VALUE_BYTES / CONNECTION_SENT_BYTES_MAX).unwrap();
    for seed in [5, 9] {
        write(&mut crowd, &value(seed));
        let (row, turns, longest) = read(&mut crowd, "SELECT v FROM ks.t WHERE k = 1");
        assert!(row == [Some(value(seed))], "what was written is read");
        // One in which the row is read, one in which it is taken in, and one for the head of the
        // answer, which is as much more than its pieces.
        assert!(turns >= pieces + 3, "{turns}");
        assert!(longest < 2, "another client waits for {longest} turns");
    }
}

#[test]
fn a_large_page_that_waits_to_be_taken_in_counts_as_memory_of_answers() {
    let mut crowd = crowd(3, 100);
    write(&mut crowd, &value(5));
    let taken = |crowd: &Crowd| {
        let taken = crowd.engine.metrics(0).memory.taken(Share::Answers);
        usize::try_from(taken).unwrap()
    };
    crowd.ask(0, "SELECT v FROM ks.t WHERE k = 1");
    crowd.send(0);
    // It is made in this turn. Without it, a read that has begun takes 2 MiB.
    crowd.turn();
    assert!(taken(&crowd) >= VALUE_BYTES + (2 << 20), "{}", taken(&crowd));
    while crowd.answers(0).is_empty() {
        crowd.turn();
    }
    crowd.turn();
    assert!(taken(&crowd) < 1_000, "{} are left", taken(&crowd));
}

/// The rows of an answer that may be compressed, and whether it is.
fn rows_of(mut answer: Answer) -> (Vec<Vec<Option<Vec<u8>>>>, bool) {
    let is_compressed = answer.flags & 1 != 0;
    if is_compressed {
        let length = u32::from_be_bytes(*answer.body.first_chunk().unwrap());
        let plain = lz4_flex::block::decompress(&answer.body[4..], length.try_into().unwrap());
        answer.body = plain.unwrap();
    }
    (answer.rows().0, is_compressed)
}

#[test]
fn a_large_answer_is_compressed_a_piece_each_turn_and_sent_as_it_is_if_that_is_no_less() {
    const PIECE_BYTES: usize = 128 << 10;
    /// What a connection keeps of the memory for its answers.
    const OUTPUT_BYTES_KEPT: u64 = 128 << 10;
    let mut crowd = crowd(3, 1_000);
    crowd.clients[0].ask(op::STARTUP, &compressed_startup(), ());
    crowd.send(0);
    assert_eq!(crowd.wait(0, 1).0.remove(0).opcode, op::READY);
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let noise: Vec<_> = noise.take(VALUE_BYTES).collect();
    // What is shorter than half a megabyte is taken in at once.
    let shorter = value(5)[..400_000].to_vec();
    let all = [(value(5), true), (noise, false), (shorter, true), (vec![7; 2_000], true)];
    for (value, is_smaller) in all {
        let pieces = value.len().div_ceil(PIECE_BYTES);
        write(&mut crowd, &value);
        for text in ["SELECT v FROM ks.t WHERE k = 1", "SELECT v FROM ks.t"] {
            let mut most_bytes = 0;
            crowd.ask(0, text);
            let (answer, turns, longest) = crowd.answer_beside(0, 1, |crowd, _| {
                most_bytes = most_bytes.max(crowd.engine.metrics(0).memory.taken(Share::Answers));
            });
            let sent_bytes = answer.body.len();
            assert!(rows_of(answer) == (vec![vec![Some(value.clone())]], is_smaller), "{text}");
            assert!(!is_smaller || sent_bytes < value.len() / 2, "{sent_bytes} bytes");
            assert!(turns as usize >= pieces, "{turns} turns");
            assert!(longest < 2, "another client waits for {longest} turns");
            // Without its answer, a read that has begun takes 2 MiB.
            let is_held = most_bytes >= (2 << 20) + value.len() as u64;
            assert!(is_held || pieces == 1, "{most_bytes} bytes of answers");
            crowd.turn();
            let left = crowd.engine.metrics(0).memory.taken(Share::Answers);
            assert!(left <= OUTPUT_BYTES_KEPT, "{left} bytes are left");
        }
    }
}

#[test]
fn a_row_of_which_many_parts_are_asked_for_is_taken_in_a_few_each_turn() {
    let mut crowd = crowd(3, 100);
    let numbers = |first: i32| {
        let all: Vec<_> = (first..first + 500).map(|number| number.to_string()).collect();
        all.join(", ")
    };
    crowd.run(&format!("INSERT INTO ks.t (k, c, s) VALUES (1, 1, {{{}}})", numbers(0)));
    crowd.run(&format!("INSERT INTO ks.t (k, u) VALUES (2, {{{}}})", numbers(7)));
    let times = |what: &str| vec![what; 100].join(", ");
    let parts = [("s[498]", 498_i32, 1), ("u[505]", 505, 2)];
    for (part, expected, key) in parts {
        let text = format!("SELECT {} FROM ks.t WHERE k = {key}", times(part));
        let (row, turns, longest) = read(&mut crowd, &text);
        assert!(row == vec![Some(expected.to_be_bytes().to_vec()); 100], "{row:?}");
        assert!(turns > 10, "{turns} turns");
        assert!(longest < 2, "another client waits for {longest} turns");
    }
    // Of many rows one number comes: each of these functions is one more column.
    let text = format!("SELECT {} FROM ks.t WHERE k = 1", times("count(s)"));
    let (row, turns, longest) = read(&mut crowd, &text);
    assert!(row == vec![Some(1_i64.to_be_bytes().to_vec()); 100], "{row:?}");
    assert!(turns > 10 && longest < 2, "{turns} turns, {longest}");
}

/// Writes as many numbers to each of the collections; in maps, each with its half.
fn write_collections(crowd: &mut Crowd, count: i32) {
    let numbers: Vec<_> = (0..count).map(i32::to_be_bytes).collect();
    let halves: Vec<_> =
        (0..count).map(|number| (number.to_be_bytes(), (number / 2).to_be_bytes())).collect();
    for column in ["s", "f"] {
        let text = format!("INSERT INTO ks.t (k, c, {column}) VALUES (1, 1, ?)");
        write_as(crowd, &text, &list(&numbers));
    }
    for column in ["m", "g"] {
        let text = format!("INSERT INTO ks.t (k, c, {column}) VALUES (1, 1, ?)");
        write_as(crowd, &text, &map(&halves));
    }
    write_as(crowd, "INSERT INTO ks.t (k, u) VALUES (1, ?)", &list(&numbers));
}

/// Every way to ask whether a number is in one of them, and in values of maps its half.
fn searches(number: i32) -> Vec<String> {
    let whole = ["s CONTAINS", "f CONTAINS", "u CONTAINS", "m CONTAINS KEY", "g CONTAINS KEY"];
    let halved = ["m CONTAINS", "g CONTAINS"];
    let whole = whole.iter().map(|what| format!("{what} {number}"));
    whole.chain(halved.iter().map(|what| format!("{what} {}", number / 2))).collect()
}

/// Reads how many rows meet conditions, in more turns than a few and with nobody waiting.
fn count_in_many_turns(crowd: &mut Crowd, conditions: &str, expected: i64) {
    // Static columns that are given alone have no clustering key.
    let text = format!("SELECT count(c) FROM ks.t WHERE k = 1 AND {conditions} ALLOW FILTERING");
    let (row, turns, longest) = read(crowd, &text);
    assert!(row == [Some(expected.to_be_bytes().to_vec())], "{row:?} {conditions}");
    assert!(turns > 10, "{turns} turns: {conditions}");
    assert!(longest < 2, "another client waits for {longest} turns: {conditions}");
}

#[test]
fn a_row_that_thousands_of_conditions_are_on_is_judged_by_a_few_each_turn() {
    let mut crowd = crowd(3, 100);
    write_collections(&mut crowd, 500);
    for (search, missing) in searches(499).into_iter().zip(searches(500)) {
        count_in_many_turns(&mut crowd, &vec![&*search; 100].join(" AND "), 1);
        let last_is_not_met = format!("{} AND {missing}", vec![&*search; 99].join(" AND "));
        count_in_many_turns(&mut crowd, &last_is_not_met, 0);
    }
}

#[test]
fn a_long_collection_is_searched_in_many_turns() {
    let mut crowd = crowd(3, 100);
    write_collections(&mut crowd, 10_000);
    for (number, expected) in [(9_999, 1), (10_001, 0)] {
        for search in searches(number) {
            count_in_many_turns(&mut crowd, &search, expected);
        }
    }
}

#[test]
fn the_elements_of_a_large_collection_become_a_value_in_many_turns() {
    let mut crowd = crowd(3, 100);
    write_collections(&mut crowd, 10_000);
    let numbers: Vec<_> = (0..10_000i32).map(i32::to_be_bytes).collect();
    let halves: Vec<_> =
        (0..10_000i32).map(|number| (number.to_be_bytes(), (number / 2).to_be_bytes())).collect();
    let nulls = [&10_000i32.to_be_bytes()[..], &vec![255; 40_000]].concat();
    for (what, expected) in [
        ("s", list(&numbers)),
        ("u", list(&numbers)),
        ("m", map(&halves)),
        ("m[5000..]", map(&halves[5_000..])),
        ("s[..6000]", list(&numbers[..=6_000])),
        ("ttl(s)", nulls),
    ] {
        let (row, turns, longest) =
            read(&mut crowd, &format!("SELECT {what}, c, {what} FROM ks.t WHERE k = 1"));
        let expected = Some(expected);
        let expected = [expected.clone(), Some(1i32.to_be_bytes().to_vec()), expected];
        assert!(row == expected, "{what}");
        assert!(turns > 10, "{what}: {turns} turns");
        assert!(longest < 2, "{what}: another client waits for {longest} turns");
    }
}

/// What is too much work is so for each row.
#[test]
fn many_rows_that_are_much_work_each_are_read() {
    const ROWS: i32 = 9;
    // A look at the clock takes little time, so that there are few turns.
    let mut crowd = crowd(3, 1);
    let numbers: Vec<_> = (0..10_000i32).map(i32::to_be_bytes).collect();
    for c in 0..ROWS {
        let text = format!("INSERT INTO ks.t (k, c, s) VALUES (1, {c}, ?)");
        write_as(&mut crowd, &text, &list(&numbers));
    }
    // A million looks at elements each, of eight millions that one may take.
    let times = vec!["s[3..4]"; 100].join(", ");
    crowd.ask(0, &format!("SELECT {times} FROM ks.t WHERE k = 1"));
    let rows = crowd.answer_beside(0, 1, |_, _| {}).0.rows().0;
    assert_eq!(rows.len(), usize::try_from(ROWS).unwrap());
    assert!(rows.into_iter().flatten().all(|part| part == Some(list(&numbers[3..=4]))));
}
