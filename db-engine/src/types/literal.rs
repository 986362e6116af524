//! Literals of CQL text, and the wire bytes they stand for once their type is known.

use super::{
    CqlType, TypeError, canonical, collection, decimal, duration,
    fields::{check_count, encode_named, not_of_component, unfit},
    hex,
    time::{self, put_vint},
};
use std::{borrow::Cow, net::IpAddr};

/// Most bytes of the value of a literal.
pub const BYTES_MAX: usize = 4 << 20;

/// A constant as a statement spells it. What it means depends on the column it is for: `1` may be
/// an integer, a double or a date.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `'…'` or `$$…$$`, without the quotes.
    Text(String),
    /// Digits, perhaps with a minus before them.
    Integer(String),
    /// A number with a point or an exponent, `NaN` or `Infinity`.
    Float(String),
    /// `true` or `false`.
    Boolean(bool),
    /// A UUID.
    Uuid(String),
    /// `0x…`, without the prefix.
    Hex(String),
    /// `1h30m`, `P1D`.
    Duration(String),
    /// `[a, b]`.
    List(Vec<Literal>),
    /// `{a, b}`; `{}` may be a map as well.
    Set(Vec<Literal>),
    /// `{a: b}`.
    Map(Vec<(Literal, Literal)>),
    /// `{name: a}`: fields of a user-defined type.
    Fields(Vec<(String, Literal)>),
    /// `(a, b)`.
    Tuple(Vec<Literal>),
}

impl Literal {
    /// Cassandra's name for the kind of constant, and its text, for error messages.
    fn described(&self) -> (&'static str, String) {
        match self {
            Literal::Null => ("NULL", "null".into()),
            Literal::Text(text) => ("STRING", text.clone()),
            Literal::Integer(text) => ("INTEGER", text.clone()),
            Literal::Float(text) => ("FLOAT", text.clone()),
            Literal::Boolean(value) => ("BOOLEAN", value.to_string()),
            Literal::Uuid(text) => ("UUID", text.clone()),
            Literal::Hex(text) => ("HEX", format!("0x{text}")),
            Literal::Duration(text) => ("DURATION", text.clone()),
            Literal::List(_) => ("LIST", "[...]".into()),
            Literal::Set(_) => ("SET", "{...}".into()),
            Literal::Map(_) => ("MAP", "{...}".into()),
            Literal::Fields(_) => ("USER TYPE", "{...}".into()),
            Literal::Tuple(_) => ("TUPLE", "(...)".into()),
        }
    }
}

fn refuse<T>(text: String) -> Result<T, TypeError> {
    Err(TypeError(text))
}

/// The wire bytes of a literal for this type; none for `null`. `column` is named in refusals.
///
/// # Errors
/// Worded as Cassandra's, if a literal of this kind cannot be of the type or is out of range.
pub fn encode(ty: &CqlType, literal: &Literal, column: &str) -> Result<Option<Vec<u8>>, TypeError> {
    let bytes = match (ty, literal) {
        (_, Literal::Null) => return Ok(None),
        (CqlType::List(item), Literal::List(items)) => encode_items(item, items, column, "list")?,
        (CqlType::Set(_), Literal::Map(pairs)) if pairs.is_empty() => {
            collection::list::<&[u8]>(&[])
        }
        (CqlType::Map(..), Literal::Set(items)) if items.is_empty() => {
            collection::list::<&[u8]>(&[])
        }
        (CqlType::Set(item), Literal::Set(items)) => encode_items(item, items, column, "set")?,
        (CqlType::Map(key, value), Literal::Map(pairs)) => encode_pairs(key, value, pairs, column)?,
        (CqlType::Tuple(fields), Literal::Tuple(items)) => encode_fields(fields, items, column)?,
        (CqlType::Udt(ty), Literal::Fields(values)) => encode_named(ty, values, column)?,
        // `(a)` is an expression in parentheses.
        (ty, Literal::Tuple(items)) if items.len() == 1 => {
            return items.first().map_or(Ok(None), |item| encode(ty, item, column));
        }
        (ty, Literal::List(_)) => {
            return refuse(format!(
                "Unexpected receiver type '{ty}'; only list and vector are expected"
            ));
        }
        (_, Literal::Set(_) | Literal::Map(_) | Literal::Fields(_) | Literal::Tuple(_)) => {
            let kind = match literal {
                Literal::Tuple(_) => "tuple type".to_string(),
                _ => literal.described().0.to_lowercase(),
            };
            return refuse(format!("Invalid {kind} literal for {column} of type {ty}"));
        }
        (
            CqlType::List(_)
            | CqlType::Set(_)
            | CqlType::Map(..)
            | CqlType::Tuple(_)
            | CqlType::Udt(_),
            _,
        ) => {
            let (kind, text) = literal.described();
            return refuse(format!(
                "Invalid {kind} constant ({text}) for \"{column}\" of type {ty}"
            ));
        }
        _ => encode_scalar(ty, literal, column)?,
    };
    Ok(Some(match canonical::canonical(ty, &bytes)? {
        Cow::Borrowed(_) => bytes,
        Cow::Owned(stored) => stored,
    }))
}

/// `part` is what the item is to the collection: "value" or "key".
fn encode_item(
    ty: &CqlType,
    item: &Literal,
    column: &str,
    (kind, part): (&str, &str),
) -> Result<Vec<u8>, TypeError> {
    if matches!(item, Literal::Null) {
        return refuse("null is not supported inside collections".into());
    }
    let unfit =
        || format!("Invalid {kind} literal for {column}: {part} {item} is not of type {ty}");
    // Of numbers there may be thousands: whether one suits is seen when it is encoded.
    let number = match item {
        Literal::Integer(text) => encode_integer(ty, text),
        Literal::Float(text) => encode_float(ty, text),
        _ if suits(ty, item) => return Ok(encode(ty, item, column)?.unwrap_or_default()),
        _ => return refuse(unfit()),
    };
    number.ok().flatten().ok_or_else(|| TypeError(unfit()))
}

/// Whether a literal of this kind, and all in it, may be of the type at all.
#[must_use]
pub fn suits(ty: &CqlType, literal: &Literal) -> bool {
    let all = |ty: &CqlType, items: &[Literal]| items.iter().all(|item| suits(ty, item));
    match literal {
        Literal::List(items) => matches!(ty, CqlType::List(of) if all(of, items)),
        Literal::Set(items) => match ty {
            CqlType::Set(of) => all(of, items),
            ty => items.is_empty() && matches!(ty, CqlType::Map(..)),
        },
        Literal::Map(pairs) => match ty {
            CqlType::Map(key, value) => pairs.iter().all(|(k, v)| suits(key, k) && suits(value, v)),
            _ => false,
        },
        Literal::Tuple(items) => match (ty, items.as_slice()) {
            (CqlType::Tuple(of), _) => of.iter().zip(items).all(|(ty, item)| suits(ty, item)),
            (ty, [item]) => suits(ty, item),
            _ => false,
        },
        Literal::Fields(values) => matches!(ty, CqlType::Udt(of) if unfit(of, values).is_none()),
        Literal::Text(_) => matches!(
            ty,
            CqlType::Text
                | CqlType::Ascii
                | CqlType::Inet
                | CqlType::Date
                | CqlType::Time
                | CqlType::Timestamp
        ),
        Literal::Integer(text) => encode_integer(ty, text).is_ok_and(|bytes| bytes.is_some()),
        Literal::Float(text) => encode_float(ty, text).is_ok_and(|bytes| bytes.is_some()),
        Literal::Boolean(_) => *ty == CqlType::Boolean,
        Literal::Uuid(_) => matches!(ty, CqlType::Uuid | CqlType::Timeuuid),
        Literal::Hex(_) => *ty == CqlType::Blob,
        Literal::Duration(_) => *ty == CqlType::Duration,
        Literal::Null => true,
    }
}

/// Checks that the parts of a literal are not too long together: a few words can stand for all
/// fields of a type.
pub(super) fn bounded(part: Vec<u8>, bytes: &mut usize) -> Result<Vec<u8>, TypeError> {
    *bytes += part.len();
    if *bytes > BYTES_MAX {
        return refuse(format!("A literal has more than {BYTES_MAX} bytes: bind its values"));
    }
    Ok(part)
}

fn encode_items(
    ty: &CqlType,
    items: &[Literal],
    column: &str,
    kind: &str,
) -> Result<Vec<u8>, TypeError> {
    let (mut out, mut bytes) = (Vec::new(), 0);
    collection::put_count(&mut out, items.len());
    for item in items {
        let item = bounded(encode_item(ty, item, column, (kind, "value"))?, &mut bytes)?;
        collection::put_item(&mut out, Some(&item));
    }
    Ok(out)
}

fn encode_pairs(
    key: &CqlType,
    value: &CqlType,
    pairs: &[(Literal, Literal)],
    column: &str,
) -> Result<Vec<u8>, TypeError> {
    let (mut out, mut bytes) = (Vec::new(), 0);
    collection::put_count(&mut out, pairs.len());
    for (k, v) in pairs {
        for (ty, item, part) in [(key, k, "key"), (value, v, "value")] {
            let item = bounded(encode_item(ty, item, column, ("map", part))?, &mut bytes)?;
            collection::put_item(&mut out, Some(&item));
        }
    }
    Ok(out)
}

fn encode_fields(
    fields: &[CqlType],
    items: &[Literal],
    column: &str,
) -> Result<Vec<u8>, TypeError> {
    let unfit = fields.iter().zip(items).position(|(ty, item)| !suits(ty, item));
    if let Some((number, ty)) = unfit.and_then(|number| Some((number, fields.get(number)?))) {
        return Err(not_of_component(column, number, ty));
    }
    check_count(fields, items.len(), column)?;
    let (mut out, mut bytes) = (Vec::new(), 0);
    for (field, item) in fields.iter().zip(items) {
        let item =
            encode(field, item, column)?.map(|item| bounded(item, &mut bytes)).transpose()?;
        collection::put_item(&mut out, item.as_deref());
    }
    Ok(out)
}

fn encode_scalar(ty: &CqlType, literal: &Literal, column: &str) -> Result<Vec<u8>, TypeError> {
    let bytes = match literal {
        Literal::Text(text) => return encode_text(ty, text, column),
        Literal::Integer(text) => encode_integer(ty, text)?,
        Literal::Float(text) => encode_float(ty, text)?,
        Literal::Boolean(value) if *ty == CqlType::Boolean => Some(vec![u8::from(*value)]),
        Literal::Uuid(text) if matches!(ty, CqlType::Uuid | CqlType::Timeuuid) => {
            Some(uuid_bytes(ty, text)?)
        }
        Literal::Hex(digits) if *ty == CqlType::Blob => Some(hex(digits)?),
        Literal::Duration(text) if *ty == CqlType::Duration => Some(duration_bytes(text)?),
        _ => None,
    };
    match bytes {
        Some(bytes) => Ok(bytes),
        None => mismatch(ty, literal, column),
    }
}

fn mismatch<T>(ty: &CqlType, literal: &Literal, column: &str) -> Result<T, TypeError> {
    let (kind, text) = literal.described();
    refuse(format!("Invalid {kind} constant ({text}) for \"{column}\" of type {ty}"))
}

fn encode_text(ty: &CqlType, text: &str, column: &str) -> Result<Vec<u8>, TypeError> {
    let unable = || TypeError(format!("Unable to coerce '{text}' to a formatted date (long)"));
    match ty {
        CqlType::Text => Ok(text.as_bytes().to_vec()),
        CqlType::Ascii if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        CqlType::Ascii => refuse(format!("Invalid ASCII character in string literal for {column}")),
        CqlType::Inet => match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => Ok(address.octets().to_vec()),
            // As in Cassandra, ::ffff:1.2.3.4 is 1.2.3.4.
            Ok(IpAddr::V6(address)) => Ok(match address.to_ipv4_mapped() {
                Some(address) => address.octets().to_vec(),
                None => address.octets().to_vec(),
            }),
            Err(_) => refuse(format!("Unable to make inet address from '{text}'")),
        },
        CqlType::Timestamp => {
            let number = text.parse::<i64>().ok().filter(|_| !text.starts_with('+'));
            let ms = number.or_else(|| time::timestamp_ms(text));
            let unable = || TypeError(format!("Unable to parse a date/time from '{text}'"));
            Ok(ms.ok_or_else(unable)?.to_be_bytes().to_vec())
        }
        CqlType::Date => {
            let days = time::date(text).and_then(|days| u32::try_from(days + (1 << 31)).ok());
            let days = days.or_else(|| text.parse().ok());
            Ok(days.ok_or_else(unable)?.to_be_bytes().to_vec())
        }
        CqlType::Time => {
            let ns = time::clock_ns(text, false).or_else(|| text.parse().ok());
            let ns = ns.filter(|ns| (0..86_400_000_000_000).contains(ns));
            let unable = || {
                TypeError(format!(
                    "(TimeType) Unable to coerce '{text}' to a formatted time (long)"
                ))
            };
            Ok(ns.ok_or_else(unable)?.to_be_bytes().to_vec())
        }
        _ => mismatch(ty, &Literal::Text(text.into()), column),
    }
}

fn encode_integer(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, TypeError> {
    let unable = |name: &str| TypeError(format!("Unable to make {name} from '{text}'"));
    Ok(Some(match ty {
        CqlType::Bigint | CqlType::Timestamp | CqlType::Counter => {
            text.parse::<i64>().map_err(|_| unable("long"))?.to_be_bytes().to_vec()
        }
        CqlType::Int => text.parse::<i32>().map_err(|_| unable("int"))?.to_be_bytes().to_vec(),
        CqlType::Smallint => {
            text.parse::<i16>().map_err(|_| unable("short"))?.to_be_bytes().to_vec()
        }
        CqlType::Tinyint => text.parse::<i8>().map_err(|_| unable("byte"))?.to_be_bytes().to_vec(),
        CqlType::Date => {
            let unable =
                |_| TypeError(format!("Unable to coerce '{text}' to a formatted date (long)"));
            text.parse::<u32>().map_err(unable)?.to_be_bytes().to_vec()
        }
        CqlType::Time => {
            let ns = text.parse::<i64>().ok().filter(|ns| (0..86_400_000_000_000).contains(ns));
            ns.ok_or_else(|| unable("time"))?.to_be_bytes().to_vec()
        }
        CqlType::Varint => {
            let digits = text.trim_start_matches('-');
            check_digits(digits)?;
            decimal::from_digits(text.starts_with('-'), digits)
        }
        CqlType::Duration => return refuse(format!("Unable to convert '{text}' to a duration")),
        CqlType::Decimal | CqlType::Double | CqlType::Float => return encode_float(ty, text),
        _ => return Ok(None),
    }))
}

fn encode_float(ty: &CqlType, text: &str) -> Result<Option<Vec<u8>>, TypeError> {
    Ok(Some(match ty {
        CqlType::Double => {
            let unable = |_| TypeError(format!("Unable to make double from '{text}'"));
            text.parse::<f64>().map_err(unable)?.to_be_bytes().to_vec()
        }
        CqlType::Float => {
            let unable = |_| TypeError(format!("Unable to make float from '{text}'"));
            text.parse::<f32>().map_err(unable)?.to_be_bytes().to_vec()
        }
        CqlType::Decimal => {
            check_digits(text)?;
            let bytes = decimal_bytes(text);
            bytes.ok_or_else(|| TypeError(format!("unable to make BigDecimal from '{text}'")))?
        }
        _ => return Ok(None),
    }))
}

/// Refuses a number that would take long to read.
fn check_digits(digits: &str) -> Result<(), TypeError> {
    const MAX: usize = decimal::LITERAL_DIGITS_MAX;
    if digits.len() > MAX {
        return refuse(format!(
            "A number of more than {MAX} digits in a statement is not supported by Sandglass: \
             bind it as a value"
        ));
    }
    Ok(())
}

fn decimal_bytes(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&decimal::from_digits(negative, &digits));
    Some(out)
}

fn uuid_bytes(ty: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let bytes = hex(&digits)?;
    if bytes.len() != 16 {
        return refuse(format!("Unable to make UUID from '{text}'"));
    }
    if *ty == CqlType::Timeuuid && super::validate::validate(ty, &bytes).is_err() {
        return refuse("TimeUUID supports only version 1 UUIDs".into());
    }
    Ok(bytes)
}

fn hex(digits: &str) -> Result<Vec<u8>, TypeError> {
    hex::bytes_of(digits).ok_or_else(|| {
        TypeError(format!("An hex string representing bytes must have an even length: {digits}"))
    })
}

fn duration_bytes(text: &str) -> Result<Vec<u8>, TypeError> {
    let (months, days, nanos) = duration::duration(text).map_err(TypeError)?;
    let mut out = Vec::new();
    put_vint(&mut out, months.into());
    put_vint(&mut out, days.into());
    put_vint(&mut out, nanos);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ty: &CqlType, literal: &Literal) -> Result<Option<Vec<u8>>, String> {
        encode(ty, literal, "v").map_err(|error| error.0)
    }

    fn integer(text: &str) -> Literal {
        Literal::Integer(text.into())
    }

    fn text(text: &str) -> Literal {
        Literal::Text(text.into())
    }

    #[test]
    fn one_literal_means_what_its_column_wants() {
        let one = |ty| of(&ty, &integer("1")).unwrap().unwrap();
        assert_eq!(one(CqlType::Int), [0, 0, 0, 1]);
        assert_eq!(one(CqlType::Double), 1f64.to_be_bytes());
        assert_eq!(one(CqlType::Varint), [1]);
        assert_eq!(one(CqlType::Decimal), [0, 0, 0, 0, 1]);
        assert_eq!(one(CqlType::Tinyint), [1]);
        assert_eq!(of(&CqlType::Int, &Literal::Null), Ok(None));
    }

    #[test]
    fn a_number_that_would_take_long_to_read_is_refused() {
        let digits = |count| "7".repeat(count);
        for ty in [CqlType::Varint, CqlType::Decimal] {
            assert!(of(&ty, &integer(&digits(4_000))).is_ok());
            let refused = of(&ty, &integer(&digits(1_000_000))).unwrap_err();
            assert!(refused.contains("more than 4096 digits"), "{refused}");
        }
        let fraction = Literal::Float(format!("0.{}", digits(1_000_000)));
        assert!(of(&CqlType::Decimal, &fraction).is_err());
    }

    #[test]
    fn a_literal_of_the_wrong_kind_is_refused_in_cassandras_words() {
        let refused = of(&CqlType::Int, &text("abc")).unwrap_err();
        assert_eq!(refused, "Invalid STRING constant (abc) for \"v\" of type int");
        let refused = of(&CqlType::Int, &integer("99999999999")).unwrap_err();
        assert_eq!(refused, "Unable to make int from '99999999999'");
        assert!(of(&CqlType::Text, &integer("1")).is_err());
        assert!(of(&CqlType::Boolean, &text("true")).is_err());
    }

    #[test]
    fn decimals_keep_their_scale() {
        let wire = of(&CqlType::Decimal, &Literal::Float("-1.50".into())).unwrap().unwrap();
        assert_eq!(wire, [0, 0, 0, 2, 0xFF, 0x6A]);
        let wire = of(&CqlType::Decimal, &Literal::Float("1e3".into())).unwrap().unwrap();
        assert_eq!(wire, [0xFF, 0xFF, 0xFF, 0xFD, 1]);
    }

    #[test]
    fn collections_are_put_in_order() {
        let ty = CqlType::Set(Box::new(CqlType::Int));
        let wire = of(&ty, &Literal::Set(vec![integer("2"), integer("-1"), integer("2")]));
        let sorted = collection::list(&[(-1i32).to_be_bytes(), 2i32.to_be_bytes()]);
        assert_eq!(wire.unwrap().unwrap(), sorted);
        assert!(of(&ty, &Literal::Set(vec![Literal::Null])).is_err());
        assert!(of(&ty, &Literal::List(vec![])).is_err());
    }

    #[test]
    fn times_and_addresses_have_text_forms() {
        let date = of(&CqlType::Date, &text("1970-01-02")).unwrap().unwrap();
        assert_eq!(date, ((1u32 << 31) + 1).to_be_bytes());
        let time = of(&CqlType::Time, &text("00:00:01.5")).unwrap().unwrap();
        assert_eq!(time, 1_500_000_000i64.to_be_bytes());
        assert_eq!(of(&CqlType::Inet, &text("127.0.0.1")).unwrap().unwrap(), [127, 0, 0, 1]);
        assert!(of(&CqlType::Time, &text("24:00:00")).is_err());
        assert!(of(&CqlType::Inet, &text("localhost")).is_err());
    }
}
