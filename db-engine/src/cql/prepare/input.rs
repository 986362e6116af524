//! Where the values of a statement come from when it is executed.

use crate::types::CqlType;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cql) enum Operand {
    /// The value bound to this marker.
    Bound(u16),
    /// A constant, valid and in its stored form.
    Constant(Vec<u8>),
    /// `null`.
    Null,
    /// The value of a function.
    Call(Function, Box<Operand>),
    /// The token of a partition key with these values.
    Token(Vec<BoundValue>),
    /// A value of a user-defined type: fields by their places, which ascend. Others are null.
    Fields(Vec<(usize, BoundValue)>),
    /// A tuple of these.
    Items(Vec<BoundValue>),
}

/// A function that is evaluated when a statement is executed. All but the last two have no
/// argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Function {
    /// A UUID of version 1 of this moment.
    Now,
    /// A random UUID.
    Uuid,
    /// This moment in milliseconds.
    Timestamp,
    /// Today.
    Date,
    /// The time of day.
    Time,
    /// The smallest UUID of version 1 of a timestamp.
    MinTimeuuid,
    /// The greatest UUID of version 1 of a timestamp.
    MaxTimeuuid,
}

/// A value with the name and type of what it is for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cql) struct BoundValue {
    /// The column, for messages.
    pub name: String,
    /// Its type.
    pub ty: CqlType,
    /// Whether it is a descending clustering column.
    pub descending: bool,
    /// Where the value comes from.
    pub operand: Operand,
}

/// What a write does to the elements of a column.
#[derive(Debug)]
pub(in crate::cql) enum ElementsWrite {
    /// Those that are there go, and these take their place; there may be none.
    Replace(BoundValue),
    /// All go.
    Clear,
    /// These are added, to a list behind the others.
    Add(BoundValue),
    /// These are added to a list before the others.
    Prepend(BoundValue),
    /// These of a set go, or those of a map with these keys.
    Subtract(BoundValue),
    /// The key of a map has this value.
    Put(BoundValue, BoundValue),
    /// The key of a map goes.
    RemoveKey(BoundValue),
    /// This of a set goes.
    RemoveItem(BoundValue),
    /// The field at this place of a user-defined type has this value.
    PutField(u16, BoundValue),
    /// The field at this place goes.
    RemoveField(u16),
    /// The element of a list at this index has this value.
    PutAt(BoundValue, BoundValue),
    /// The element of a list at this index goes.
    RemoveAt(BoundValue),
    /// All elements of a list that are like one of these go.
    Discard(BoundValue),
}

impl ElementsWrite {
    /// Whether the elements that are there must be known before.
    pub(in crate::cql) fn reads(&self) -> bool {
        matches!(self, Self::PutAt(..) | Self::RemoveAt(_) | Self::Discard(_))
    }
}

/// What the key of an element is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum KeyPurpose {
    /// `SELECT m[key]`
    Element,
    /// `SELECT m[key..key]`
    Slice,
    /// `WHERE m[key] = value`
    Condition,
}

/// The key of an element that is asked for.
#[derive(Debug)]
pub(in crate::cql) struct PartKey {
    pub slot: BoundValue,
    pub purpose: KeyPurpose,
}

impl BoundValue {
    /// The column, if this is a part of it: `m` of `key(m)`.
    pub(in crate::cql) fn column(&self) -> &str {
        let inner = self.name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(&self.name)
    }
}

impl Function {
    /// What the function of this name makes of `now()`, and its type: `toTimestamp(now())`.
    pub(in crate::cql) fn of_now(name: &str) -> Option<(Function, CqlType)> {
        Some(match name {
            "totimestamp" | "to_timestamp" | "dateof" => (Function::Timestamp, CqlType::Timestamp),
            "tounixtimestamp" | "to_unix_timestamp" | "unixtimestampof" => {
                (Function::Timestamp, CqlType::Bigint)
            }
            "todate" | "to_date" => (Function::Date, CqlType::Date),
            _ => return None,
        })
    }

    /// The function of this name and number of arguments; what it gives; what its argument is.
    pub(in crate::cql) fn find(name: &str, arguments: usize) -> Option<(Function, CqlType)> {
        Some(match (name, arguments) {
            ("now" | "current_timeuuid" | "currenttimeuuid", 0) => {
                (Function::Now, CqlType::Timeuuid)
            }
            ("uuid", 0) => (Function::Uuid, CqlType::Uuid),
            ("currenttimestamp" | "current_timestamp", 0) => {
                (Function::Timestamp, CqlType::Timestamp)
            }
            ("currentdate" | "current_date", 0) => (Function::Date, CqlType::Date),
            ("currenttime" | "current_time", 0) => (Function::Time, CqlType::Time),
            ("mintimeuuid" | "min_timeuuid", 1) => (Function::MinTimeuuid, CqlType::Timeuuid),
            ("maxtimeuuid" | "max_timeuuid", 1) => (Function::MaxTimeuuid, CqlType::Timeuuid),
            _ => return None,
        })
    }
}
