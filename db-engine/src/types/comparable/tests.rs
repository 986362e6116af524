use super::*;
use crate::types::{
    collection, decimal,
    user_type::{UserField, UserType},
    validate::validate,
};
use proptest::prelude::*;
use std::{cmp::Ordering, sync::Arc};

fn coded(ty: &CqlType, descending: bool, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(ty, descending, value, &mut out).unwrap();
    out
}

/// Cassandra's rules, written down a second time without any thought of bytes.
fn compare(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let int = |v: &[u8]| {
        let sign = if v[0] & 0x80 == 0 { 0 } else { 0xFF };
        let mut wide = [sign; 16];
        wide[16 - v.len()..].copy_from_slice(v);
        i128::from_be_bytes(wide)
    };
    match ty {
        CqlType::Text | CqlType::Blob | CqlType::Ascii | CqlType::Inet | CqlType::Date => a.cmp(b),
        CqlType::Boolean => (a[0] != 0).cmp(&(b[0] != 0)),
        CqlType::Double => {
            let double = |v: &[u8]| f64::from_be_bytes(v.try_into().unwrap());
            let (a, b) = (double(a), double(b));
            match (a.is_nan(), b.is_nan()) {
                (false, false) => a.total_cmp(&b),
                (a, b) => a.cmp(&b),
            }
        }
        CqlType::Timeuuid => {
            let time = |v: &[u8]| (v[6], v[7], v[4], v[5], v[0], v[1], v[2], v[3]);
            let node = |v: &[u8]| v[8..].iter().map(|x| x.cast_signed()).collect::<Vec<_>>();
            time(a).cmp(&time(b)).then_with(|| node(a).cmp(&node(b)))
        }
        CqlType::Uuid => {
            let time = |v: &[u8]| (v[6], v[7], v[4], v[5], v[0], v[1], v[2], v[3]);
            let version = |v: &[u8]| v[6] >> 4;
            version(a).cmp(&version(b)).then_with(|| match version(a) {
                1 => time(a).cmp(&time(b)).then_with(|| a[8..].cmp(&b[8..])),
                _ => a.cmp(b),
            })
        }
        CqlType::List(item) => {
            let items = |v| {
                let mut items = collection::Elements(v);
                let count = items.count().unwrap();
                (0..count).map(|_| items.item().unwrap().unwrap()).collect::<Vec<_>>()
            };
            let (a, b) = (items(a), items(b));
            let first = a.iter().zip(&b).map(|(a, b)| compare(item, a, b)).find(|o| o.is_ne());
            first.unwrap_or(a.len().cmp(&b.len()))
        }
        CqlType::Udt(of) => {
            let fields = |v| {
                let mut items = collection::Elements(v);
                of.types().map(move |_| items.item().unwrap_or(None)).collect::<Vec<_>>()
            };
            let pairs = fields(a).into_iter().zip(fields(b)).zip(of.types());
            let mut orders = pairs.map(|((a, b), ty)| match (a, b) {
                (Some(a), Some(b)) => compare(ty, a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            });
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }
        _ => int(a).cmp(&int(b)),
    }
}

/// A type of three fields, and values of it with one to three of them, nulls among these.
fn user_values() -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>)> {
    let field = |(name, ty): (&str, _)| UserField { name: name.into(), ty, frozen: true };
    let types = [("a", CqlType::Int), ("b", CqlType::Text), ("c", CqlType::Text)];
    let ty = CqlType::Udt(Arc::new(UserType::new("ks", "t", types.map(field).into())));
    let text =
        || prop::option::of(prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a']), 0..3));
    let value = move || {
        let fields = (prop::option::of(exactly(4)), text(), text(), 1usize..=3);
        fields.prop_map(|(a, b, c, count)| {
            let mut out = Vec::new();
            for field in [a, b, c].iter().take(count) {
                collection::put_item(&mut out, field.as_deref());
            }
            out
        })
    };
    (Just(ty), value(), value())
}

fn check(ty: &CqlType, a: &[u8], b: &[u8]) {
    for value in [a, b] {
        validate(ty, value).unwrap();
        for descending in [false, true] {
            let code = coded(ty, descending, value);
            let mut key = code.as_slice();
            let mut back = Vec::new();
            decode(ty, descending, &mut key, &mut back).unwrap();
            assert!(key.is_empty());
            assert_eq!(compare(ty, value, &back), Ordering::Equal, "{ty} {value:?} {back:?}");
            assert_eq!(coded(ty, descending, &back), code);
        }
    }
    let order = compare(ty, a, b);
    assert_eq!(coded(ty, false, a).cmp(&coded(ty, false, b)), order, "{ty} {a:?} {b:?}");
    assert_eq!(coded(ty, true, a).cmp(&coded(ty, true, b)), order.reverse(), "{ty} {a:?} {b:?}");
    for descending in [false, true] {
        let (x, y) = (coded(ty, descending, a), coded(ty, descending, b));
        assert!(x == y || !y.starts_with(&x), "no code begins another: {x:?} {y:?}");
    }
}

fn exactly(length: usize) -> BoxedStrategy<Vec<u8>> {
    let any = prop::collection::vec(any::<u8>(), length);
    // Few distinct bytes, so that values share beginnings.
    let near = prop::collection::vec(prop::sample::select(vec![0, 1, 0x7F, 0x80, 0xFF]), length);
    prop_oneof![any, near, Just(vec![])].boxed()
}

fn time_based(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(byte) = bytes.get_mut(6) {
        *byte = 0x10 | (*byte & 0x0F);
    }
    bytes
}

fn values() -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>)> {
    let text = || prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0x7F]), 0..6);
    let varint = || prop::collection::vec(any::<u8>(), 0..12);
    let list = || prop::collection::vec(text(), 0..4).prop_map(|items| collection::list(&items));
    let uuid = || (exactly(16), any::<bool>()).prop_map(|(b, t)| if t { time_based(b) } else { b });
    prop_oneof![
        (Just(CqlType::Bigint), exactly(8), exactly(8)),
        (Just(CqlType::Timestamp), exactly(8), exactly(8)),
        (Just(CqlType::Int), exactly(4), exactly(4)),
        (Just(CqlType::Double), exactly(8), exactly(8)),
        (Just(CqlType::Text), text(), text()),
        (Just(CqlType::Blob), varint(), varint()),
        (Just(CqlType::Varint), varint(), varint()),
        (
            Just(CqlType::Timeuuid),
            exactly(16).prop_map(time_based),
            exactly(16).prop_map(time_based)
        ),
        (Just(CqlType::Uuid), uuid(), uuid()),
        (Just(CqlType::List(Box::new(CqlType::Text))), list(), list()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn codes_compare_as_values_do_and_come_back((ty, a, b) in values()) {
        check(&ty, &a, &b);
    }

    #[test]
    fn user_defined_types_compare_by_fields_and_get_more_of_them((ty, a, b) in user_values()) {
        check(&ty, &a, &b);
        let CqlType::Udt(of) = &ty else { return Ok(()) };
        let more = UserField { name: "d".into(), ty: CqlType::Int, frozen: true };
        let fields = of.fields().iter().cloned().chain([more]).collect();
        let later = CqlType::Udt(Arc::new(UserType::new("ks", "t", fields)));
        prop_assert_eq!(coded(&ty, false, &a), coded(&later, false, &a));
    }

    #[test]
    fn decimals_compare_by_value(
        a in -5_000i64..5_000,
        sa in -4i32..4,
        b in -5_000i64..5_000,
        sb in -4i32..4,
    ) {
        let wire = |n: i64, scale: i32| {
            [&scale.to_be_bytes()[..], decimal::minimal(&n.to_be_bytes())].concat()
        };
        let value = |n: i64, scale: i32| i128::from(n) * 10i128.pow((4 - scale).unsigned_abs());
        let (x, y) = (wire(a, sa), wire(b, sb));
        let code = |v: &[u8]| coded(&CqlType::Decimal, false, v);
        prop_assert_eq!(code(&x).cmp(&code(&y)), value(a, sa).cmp(&value(b, sb)));
        let mut back = Vec::new();
        decode(&CqlType::Decimal, false, &mut code(&x).as_slice(), &mut back).unwrap();
        prop_assert_eq!(code(&back), code(&x));
    }

    #[test]
    fn foreign_bytes_are_refused_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        (ty, ..) in values(),
    ) {
        let mut out = Vec::new();
        let _ = decode(&ty, false, &mut bytes.as_slice(), &mut out);
        let _ = decode(&CqlType::Decimal, true, &mut bytes.as_slice(), &mut out);
    }
}

#[test]
fn every_tinyint_and_smallint_is_in_its_place() {
    let mut previous = coded(&CqlType::Smallint, false, &i16::MIN.to_be_bytes());
    for n in i16::MIN + 1..=i16::MAX {
        let next = coded(&CqlType::Smallint, false, &n.to_be_bytes());
        assert!(previous < next, "{n}");
        previous = next;
    }
    for a in i8::MIN..=i8::MAX {
        for b in i8::MIN..=i8::MAX {
            check(&CqlType::Tinyint, &a.to_be_bytes(), &b.to_be_bytes());
        }
    }
}

#[test]
fn a_field_missing_from_a_tuple_is_null_and_comes_first() {
    let ty = CqlType::Tuple(vec![CqlType::Int, CqlType::Text]);
    let mut short = Vec::new();
    collection::put_item(&mut short, Some(&1i32.to_be_bytes()));
    let mut null = short.clone();
    collection::put_item(&mut null, None);
    let mut full = short.clone();
    collection::put_item(&mut full, Some(b""));
    assert_eq!(coded(&ty, false, &short), coded(&ty, false, &null));
    assert!(coded(&ty, false, &short) < coded(&ty, false, &full));
    let mut back = Vec::new();
    decode(&ty, false, &mut coded(&ty, false, &short).as_slice(), &mut back).unwrap();
    assert_eq!(back, null);
}

#[test]
fn a_zero_is_escaped_wherever_it_is_in_a_long_value() {
    for length in 0..200 {
        for zero in 0..length {
            let mut value = vec![7; length];
            value[zero] = 0;
            let mut expected = vec![PRESENT];
            expected.extend_from_slice(&value[..=zero]);
            expected.push(0xFF);
            expected.extend_from_slice(&value[zero + 1..]);
            expected.extend_from_slice(&[END, END]);
            assert_eq!(coded(&CqlType::Blob, false, &value), expected, "{zero} of {length}");
        }
        let zeros = coded(&CqlType::Blob, false, &vec![0; length]);
        let expected = if length == 0 {
            vec![EMPTY]
        } else {
            [vec![PRESENT], [0, 0xFF].repeat(length), vec![END, END]].concat()
        };
        assert_eq!(zeros, expected, "{length} zeros");
    }
}

#[test]
fn what_begins_with_a_prefix_lies_below_the_prefix_and_above() {
    for descending in [false, true] {
        let prefix = coded(&CqlType::Text, descending, b"a");
        let mut key = prefix.clone();
        encode(&CqlType::Blob, descending, &[0xFF; 4], &mut key).unwrap();
        let mut above = prefix.clone();
        above.push(ABOVE);
        assert!(prefix < key && key < above);
    }
}

#[test]
fn a_decimal_of_the_smallest_scale_comes_back() {
    for digits in ["10", "-1200", &format!("1{}", "0".repeat(1_200))] {
        let (negative, digits) = (digits.starts_with('-'), digits.trim_start_matches('-'));
        let unscaled = decimal::from_digits(negative, digits);
        let value = [&i32::MIN.to_be_bytes()[..], &unscaled].concat();
        for descending in [false, true] {
            let key = coded(&CqlType::Decimal, descending, &value);
            let mut decoded = Vec::new();
            let read = decode(&CqlType::Decimal, descending, &mut key.as_slice(), &mut decoded);
            assert_eq!((read, decoded), (Some(()), value.clone()), "{digits}");
        }
    }
}

#[test]
fn a_decimal_as_long_as_a_key_may_have_comes_back_as_short() {
    let nines = "9".repeat(1_232);
    for (scale, digits) in [(-1_i32, &nines[..]), (-64, &nines), (-64, "1"), (-63, &nines[..1_170])]
    {
        let unscaled = decimal::from_digits(false, digits);
        let value = [&scale.to_be_bytes()[..], &unscaled].concat();
        let key = coded(&CqlType::Decimal, false, &value);
        let mut decoded = Vec::new();
        decode(&CqlType::Decimal, false, &mut key.as_slice(), &mut decoded).expect("a decimal");
        assert_eq!(coded(&CqlType::Decimal, false, &decoded), key, "{} digits", digits.len());
    }
}
