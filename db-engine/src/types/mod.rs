//! The CQL types: their names, their numbers on the wire, their values and the order of those.
//!
//! A value is kept everywhere as the bytes that travel on the wire (CQL v4 §6); nothing here
//! decodes one for the sake of it. What must be known of a value is whether its bytes are legal
//! ([`validate`]), what a literal of CQL text stands for ([`literal`]) and how two values compare
//! ([`comparable`]).

pub mod canonical;
pub mod collection;
pub mod comparable;
mod decimal;
pub mod duration;
pub mod fields;
mod hex;
pub mod large;
pub mod literal;
pub mod name;
pub mod parse;
pub mod spelling;
pub mod time;
pub mod user_type;
pub mod validate;

use large::LargeValue;
use std::{fmt, sync::Arc};
use user_type::{UserField, UserType};

/// A value that does not suit its type. The statement is refused with this sentence, which is
/// worded as Cassandra words it; trying again is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeError(pub String);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeError {}

/// A value as a request brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// No value: written as a tombstone.
    Null,
    /// Nothing said: what is stored stays as it is.
    Unset,
    /// A value, in the wire form of its type. May be empty.
    Bytes(&'a [u8]),
    /// A large one, which was checked before.
    Large(&'a Arc<LargeValue>),
}

/// The type of a column, of a bind marker or of a result.
///
/// Collections, tuples and user-defined types are always frozen here, that is, written and compared
/// as one value; whether one is *declared* so is the schema's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// 7-bit text.
    Ascii,
    /// 64-bit signed integer.
    Bigint,
    /// Any bytes.
    Blob,
    /// One byte: 0 or not.
    Boolean,
    /// 64-bit counter, which is never set but by a sum.
    Counter,
    /// Days, as an unsigned 32-bit integer with 1970-01-01 at 2^31.
    Date,
    /// Scale (32 bits) and unscaled two's complement.
    Decimal,
    /// IEEE 754, 64 bits.
    Double,
    /// Months, days and nanoseconds. Has no order.
    Duration,
    /// IEEE 754, 32 bits.
    Float,
    /// 4 or 16 bytes of an Internet address.
    Inet,
    /// 32-bit signed integer.
    Int,
    /// 16-bit signed integer.
    Smallint,
    /// UTF-8.
    Text,
    /// Nanoseconds since midnight, 64 bits.
    Time,
    /// Milliseconds since the Unix epoch, 64 bits, signed.
    Timestamp,
    /// A UUID of version 1, ordered by time.
    Timeuuid,
    /// 8-bit signed integer.
    Tinyint,
    /// A UUID of any version.
    Uuid,
    /// Two's complement of any length.
    Varint,
    /// Values in the order given.
    List(Box<CqlType>),
    /// Distinct values, in their own order.
    Set(Box<CqlType>),
    /// Pairs in the order of their keys.
    Map(Box<CqlType>, Box<CqlType>),
    /// A fixed number of values, each of its type.
    Tuple(Vec<CqlType>),
    /// A value for each field of a user-defined type, as a tuple.
    Udt(Arc<UserType>),
}

/// Java class that protocol v4 sends for `duration`, which has no number of its own there.
const DURATION_CLASS: &str = "org.apache.cassandra.db.marshal.DurationType";

impl CqlType {
    /// The scalar type of this name (lower case), or none.
    #[must_use]
    pub fn scalar(name: &str) -> Option<CqlType> {
        Some(match name {
            "ascii" => CqlType::Ascii,
            "bigint" => CqlType::Bigint,
            "blob" => CqlType::Blob,
            "boolean" => CqlType::Boolean,
            "counter" => CqlType::Counter,
            "date" => CqlType::Date,
            "decimal" => CqlType::Decimal,
            "double" => CqlType::Double,
            "duration" => CqlType::Duration,
            "float" => CqlType::Float,
            "inet" => CqlType::Inet,
            "int" => CqlType::Int,
            "smallint" => CqlType::Smallint,
            "text" | "varchar" => CqlType::Text,
            "time" => CqlType::Time,
            "timestamp" => CqlType::Timestamp,
            "timeuuid" => CqlType::Timeuuid,
            "tinyint" => CqlType::Tinyint,
            "uuid" => CqlType::Uuid,
            "varint" => CqlType::Varint,
            _ => return None,
        })
    }

    /// Whether it is a list, set or map: what may be non-frozen.
    #[must_use]
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..))
    }

    /// Whether a set or a map occurs in it: its values have a
    /// [canonical form](canonical::canonical).
    #[must_use]
    #[inline]
    pub fn needs_sorting(&self) -> bool {
        match self {
            CqlType::Set(_) | CqlType::Map(..) => true,
            CqlType::List(item) => item.needs_sorting(),
            CqlType::Tuple(fields) => fields.iter().any(CqlType::needs_sorting),
            CqlType::Udt(ty) => ty.needs_sorting(),
            _ => false,
        }
    }

    /// Whether a value of the type may be part of a primary key.
    #[must_use]
    pub fn has_order(&self) -> bool {
        match self {
            CqlType::Duration => false,
            CqlType::List(item) | CqlType::Set(item) => item.has_order(),
            CqlType::Map(key, value) => key.has_order() && value.has_order(),
            CqlType::Tuple(fields) => fields.iter().all(CqlType::has_order),
            CqlType::Udt(ty) => !ty.mentions_duration(),
            _ => true,
        }
    }

    /// The same with blobs for durations, which have no order: by it, values that are equal have
    /// one code.
    #[must_use]
    pub fn with_codes(&self) -> CqlType {
        let boxed = |ty: &CqlType| Box::new(ty.with_codes());
        match self {
            CqlType::Duration => CqlType::Blob,
            CqlType::List(item) => CqlType::List(boxed(item)),
            CqlType::Set(item) => CqlType::Set(boxed(item)),
            CqlType::Map(key, value) => CqlType::Map(boxed(key), boxed(value)),
            CqlType::Tuple(fields) => {
                CqlType::Tuple(fields.iter().map(CqlType::with_codes).collect())
            }
            CqlType::Udt(of) if of.mentions_duration() => {
                let coded =
                    |field: &UserField| UserField { ty: field.ty.with_codes(), ..field.clone() };
                let fields = of.fields().iter().map(coded).collect();
                CqlType::Udt(Arc::new(UserType::new(of.keyspace(), of.name(), fields)))
            }
            ty => ty.clone(),
        }
    }

    /// Whether `duration` occurs in it.
    #[must_use]
    pub fn mentions_duration(&self) -> bool {
        match self {
            CqlType::Duration => true,
            CqlType::List(item) | CqlType::Set(item) => item.mentions_duration(),
            CqlType::Map(key, value) => key.mentions_duration() || value.mentions_duration(),
            CqlType::Tuple(fields) => fields.iter().any(CqlType::mentions_duration),
            CqlType::Udt(ty) => ty.mentions_duration(),
            _ => false,
        }
    }

    /// Appends the `[option]` that names the type on the wire (CQL v4 §4.2.5.2).
    ///
    /// # Panics
    /// If a tuple or type has more than 65,535 fields, which no statement short enough to be taken
    /// has.
    pub fn put_option(&self, out: &mut Vec<u8>) {
        let number = self.option_number();
        out.extend_from_slice(&number.to_be_bytes());
        match self {
            CqlType::Duration => {
                let length = u16::try_from(DURATION_CLASS.len()).expect("the name is short");
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(DURATION_CLASS.as_bytes());
            }
            CqlType::List(item) | CqlType::Set(item) => item.put_option(out),
            CqlType::Map(key, value) => {
                key.put_option(out);
                value.put_option(out);
            }
            CqlType::Tuple(fields) => {
                let count = u16::try_from(fields.len()).expect("a tuple has few fields");
                out.extend_from_slice(&count.to_be_bytes());
                for field in fields {
                    field.put_option(out);
                }
            }
            CqlType::Udt(ty) => ty.put_option(out),
            _ => {}
        }
    }

    fn option_number(&self) -> u16 {
        match self {
            CqlType::Duration => 0x00,
            CqlType::Ascii => 0x01,
            CqlType::Bigint => 0x02,
            CqlType::Blob => 0x03,
            CqlType::Boolean => 0x04,
            CqlType::Counter => 0x05,
            CqlType::Decimal => 0x06,
            CqlType::Double => 0x07,
            CqlType::Float => 0x08,
            CqlType::Int => 0x09,
            CqlType::Timestamp => 0x0B,
            CqlType::Uuid => 0x0C,
            CqlType::Text => 0x0D,
            CqlType::Varint => 0x0E,
            CqlType::Timeuuid => 0x0F,
            CqlType::Inet => 0x10,
            CqlType::Date => 0x11,
            CqlType::Time => 0x12,
            CqlType::Smallint => 0x13,
            CqlType::Tinyint => 0x14,
            CqlType::List(_) => 0x20,
            CqlType::Map(..) => 0x21,
            CqlType::Set(_) => 0x22,
            CqlType::Udt(_) => 0x30,
            CqlType::Tuple(_) => 0x31,
        }
    }

    /// Its name in CQL text, a collection without the `frozen<>` around it.
    fn bare_name(&self) -> &'static str {
        match self {
            CqlType::Ascii => "ascii",
            CqlType::Bigint => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Date => "date",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Duration => "duration",
            CqlType::Float => "float",
            CqlType::Inet => "inet",
            CqlType::Int => "int",
            CqlType::Smallint => "smallint",
            CqlType::Text => "text",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::Timeuuid => "timeuuid",
            CqlType::Tinyint => "tinyint",
            CqlType::Uuid => "uuid",
            CqlType::Varint => "varint",
            CqlType::List(_) => "list",
            CqlType::Set(_) => "set",
            CqlType::Map(..) => "map",
            CqlType::Tuple(_) => "tuple",
            CqlType::Udt(_) => "type",
        }
    }

    /// Its name as a column that is not frozen has it: `set<text>`, not `frozen<set<text>>`.
    #[must_use]
    pub fn unfrozen_name(&self) -> String {
        let frozen = self.to_string();
        match frozen.strip_prefix("frozen<").and_then(|name| name.strip_suffix('>')) {
            Some(bare) => bare.to_string(),
            None => frozen,
        }
    }
}

impl fmt::Display for CqlType {
    /// The name by which CQL text declares a frozen column of the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List(item) | CqlType::Set(item) => {
                write!(f, "frozen<{}<{item}>>", self.bare_name())
            }
            CqlType::Map(key, value) => write!(f, "frozen<map<{key}, {value}>>"),
            CqlType::Tuple(fields) => {
                f.write_str("frozen<tuple<")?;
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{field}")?;
                }
                f.write_str(">>")
            }
            CqlType::Udt(ty) => write!(f, "frozen<{}>", parse::type_quoted(ty.name())),
            _ => f.write_str(self.bare_name()),
        }
    }
}
