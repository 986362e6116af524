use super::*;
use crate::protocol::notation::{put_bytes, put_int, put_short, put_short_bytes, put_string};

/// All that QUERY and EXECUTE may say, with every flag set but that for names.
fn parameters() -> Vec<u8> {
    let mut body = Vec::new();
    put_short(&mut body, 0x0A);
    body.push(0x3F);
    put_short(&mut body, 2);
    put_bytes(&mut body, Some(b"k"));
    put_int(&mut body, -2);
    put_int(&mut body, 5000);
    put_bytes(&mut body, Some(b"where"));
    put_short(&mut body, 0x08);
    body.extend_from_slice(&77i64.to_be_bytes());
    body
}

#[test]
fn parameters_are_read_in_the_order_of_the_specification() {
    let body = parameters();
    let mut reader = BodyReader::new(&body);
    let mut values = Values::default();
    let read = Parameters::read(&mut reader, &mut values).expect("well formed");
    assert!(matches!(values.as_slice(), [Value::Bytes(b"k"), Value::Unset]));
    assert!(read.skip_metadata);
    assert_eq!(read.page_rows, Some(5000));
    assert_eq!(read.paging_state, Some(&b"where"[..]));
    assert_eq!(read.timestamp_us, Some(77));
    assert!(reader.rest().is_empty());
}

#[test]
fn parameters_cut_anywhere_are_malformed() {
    let body = parameters();
    for length in 0..body.len() {
        let mut values = Values::default();
        let cut = Parameters::read(&mut BodyReader::new(&body[..length]), &mut values);
        assert!(cut.is_err(), "{length} bytes");
    }
}

#[test]
fn a_page_size_of_zero_or_below_means_all_rows() {
    for (rows, expected) in [(0, None), (-1, None), (i32::MIN, None), (1, Some(1))] {
        let mut body = vec![0, 1, 0x04];
        put_int(&mut body, rows);
        let mut values = Values::default();
        let read = Parameters::read(&mut BodyReader::new(&body), &mut values).expect("well formed");
        assert_eq!(read.page_rows, expected);
    }
}

#[test]
fn the_smallest_timestamp_is_refused() {
    let mut body = vec![0, 1, 0x20];
    body.extend_from_slice(&i64::MIN.to_be_bytes());
    assert!(Parameters::read(&mut BodyReader::new(&body), &mut Values::default()).is_err());
}

#[test]
fn more_values_than_lie_on_the_stack_are_read_as_well() {
    let mut body = vec![0, 1, 0x01];
    put_short(&mut body, 300);
    for n in 0..300 {
        put_bytes(&mut body, Some(&i32::to_be_bytes(n)));
    }
    let mut values = Values::default();
    Parameters::read(&mut BodyReader::new(&body), &mut values).expect("well formed");
    assert_eq!(values.as_slice().len(), 300);
    assert!(matches!(values.as_slice()[299], Value::Bytes([0, 0, 1, 43])));
}

#[test]
fn named_values_keep_their_names() {
    let mut body = vec![0, 1, 0x41];
    put_short(&mut body, 1);
    put_string(&mut body, "sensor");
    put_bytes(&mut body, Some(b"s1"));
    let mut values = Values::default();
    let read = Parameters::read(&mut BodyReader::new(&body), &mut values).expect("well formed");
    assert_eq!(read.names, Some(vec!["sensor"]));
    assert!(matches!(values.as_slice(), [Value::Bytes(b"s1")]));
}

fn batch() -> Vec<u8> {
    let mut body = vec![1];
    put_short(&mut body, 2);
    body.push(1);
    put_short_bytes(&mut body, b"id");
    put_short(&mut body, 1);
    put_bytes(&mut body, Some(b"v"));
    body.push(0);
    put_int(&mut body, 6);
    body.extend_from_slice(b"INSERT");
    put_short(&mut body, 0);
    put_short(&mut body, 0x01);
    body.push(0x20);
    body.extend_from_slice(&9i64.to_be_bytes());
    body
}

#[test]
fn a_batch_knows_its_write_time_before_its_first_statement() {
    let body = batch();
    let mut read = Batch::read(&body).expect("well formed");
    assert_eq!((read.head.kind, read.head.timestamp_us), (BatchKind::Unlogged, Some(9)));
    let mut values = Values::default();
    let first = read.next(&mut values).expect("well formed");
    assert_eq!(first, Some(StatementRef::Prepared(b"id")));
    assert!(matches!(values.as_slice(), [Value::Bytes(b"v")]));
    let second = read.next(&mut values).expect("well formed");
    assert_eq!(second, Some(StatementRef::Text("INSERT")));
    assert!(values.as_slice().is_empty());
    assert_eq!(read.next(&mut values), Ok(None));
}

#[test]
fn a_batch_cut_anywhere_is_malformed() {
    let body = batch();
    for length in 0..body.len() {
        assert!(Batch::read(&body[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn a_batch_with_names_or_of_no_known_kind_is_malformed() {
    assert!(Batch::read(&[1, 0, 0, 0, 1, 0]).is_ok(), "an empty batch is legal");
    assert!(Batch::read(&[1, 0, 0, 0, 1, 0x40]).is_err(), "names");
    assert!(Batch::read(&[3, 0, 0, 0, 1, 0]).is_err(), "kind");
    assert!(Batch::read(&[1, 0, 0, 0, 0x0B, 0]).is_err(), "consistency");
}

#[test]
fn startup_passes_over_what_it_does_not_know() {
    let mut body = Vec::new();
    put_short(&mut body, 3);
    for text in ["DRIVER_NAME", "x", "CQL_VERSION", "3.0.0", "CLIENT_ID", "7"] {
        put_string(&mut body, text);
    }
    let read = Startup::read(&body).expect("well formed");
    assert_eq!((read.cql_version, read.driver_name), (Some("3.0.0"), Some("x")));
    for length in 0..body.len() {
        assert!(Startup::read(&body[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn register_tells_whether_schema_changes_are_wanted() {
    let register = |names: &[&str]| {
        let mut body = Vec::new();
        put_short(&mut body, u16::try_from(names.len()).expect("few"));
        for name in names {
            put_string(&mut body, name);
        }
        read_register(&body)
    };
    assert_eq!(register(&["STATUS_CHANGE", "SCHEMA_CHANGE"]), Ok(true));
    assert_eq!(register(&["TOPOLOGY_CHANGE"]), Ok(false));
    assert!(register(&["WEATHER_CHANGE"]).is_err());
}
