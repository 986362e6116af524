//! Functions whose value is made when a statement is executed.

use super::{
    error::CqlError,
    plan::{BindContext, Found, Function, Operand},
};
use crate::types::{CqlType, Value, validate::validate};
use std::borrow::Cow;

/// 100-nanosecond intervals between the Gregorian reform and the Unix epoch: version 1 UUIDs count
/// from the former.
const GREGORIAN_OFFSET: i64 = 0x01B2_1DD2_1381_4000;
/// Clock and node bytes of the smallest and the greatest version 1 UUID of a moment, as Cassandra
/// orders them: byte by byte as signed numbers.
const NODE_MIN: [u8; 8] = [0x80; 8];
const NODE_MAX: [u8; 8] = [0x7F; 8];

impl Function {
    /// The function of this name and number of arguments; what it gives; what its argument is.
    pub(super) fn find(name: &str, arguments: usize) -> Option<(Function, CqlType)> {
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

/// A sequence of numbers that look random (SplitMix64): the same input gives the same ones.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A UUID of version 1: time in 100-nanosecond intervals since 1582, clock and node.
pub(super) fn timeuuid(intervals: i64, node: [u8; 8]) -> Vec<u8> {
    let t = intervals.to_be_bytes();
    let high = 0x10 | (t[0] & 0x0F);
    let mut out = vec![t[4], t[5], t[6], t[7], t[2], t[3], high, t[1]];
    out.extend_from_slice(&node);
    out
}

pub(super) fn call<'a>(
    function: Function,
    argument: &Operand,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Found<'a>, CqlError> {
    let bytes = match function {
        Function::Now => {
            let mut node = mixed(context.random).to_be_bytes();
            node[0] = 0x80 | (node[0] & 0x3F);
            // The multicast bit says that the node is no hardware address.
            node[2] |= 0x01;
            timeuuid(context.now_us.saturating_mul(10).saturating_add(GREGORIAN_OFFSET), node)
        }
        Function::Uuid => {
            let (a, b) = (mixed(context.random), mixed(!context.random));
            let mut bytes = [a.to_be_bytes(), b.to_be_bytes()].concat();
            let random = bytes.first_chunk::<16>().copied().unwrap_or_default();
            bytes = uuid::Builder::from_random_bytes(random).into_uuid().as_bytes().to_vec();
            bytes
        }
        Function::Timestamp => context.now_us.div_euclid(1_000).to_be_bytes().to_vec(),
        Function::Date => {
            let days = context.now_us.div_euclid(86_400_000_000) + (1 << 31);
            u32::try_from(days).unwrap_or(u32::MAX).to_be_bytes().to_vec()
        }
        Function::Time => {
            (context.now_us.rem_euclid(86_400_000_000) * 1_000).to_be_bytes().to_vec()
        }
        Function::MinTimeuuid | Function::MaxTimeuuid => {
            let Some(ms) = timestamp_of(argument, values)? else { return Ok(Found::Null) };
            let start = ms.saturating_mul(10_000).saturating_add(GREGORIAN_OFFSET);
            if function == Function::MinTimeuuid {
                timeuuid(start, NODE_MIN)
            } else {
                timeuuid(start.saturating_add(9_999), NODE_MAX)
            }
        }
    };
    Ok(Found::Bytes(Cow::Owned(bytes)))
}

fn timestamp_of(argument: &Operand, values: &[Value<'_>]) -> Result<Option<i64>, CqlError> {
    let bytes = match argument {
        Operand::Constant(bytes) => bytes.as_slice(),
        Operand::Bound(index) => match values.get(usize::from(*index)) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => return Ok(None),
        },
        Operand::Null | Operand::Call(..) | Operand::Token(_) => return Ok(None),
    };
    validate(&CqlType::Timestamp, bytes)?;
    Ok(bytes.try_into().ok().map(i64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(function: Function, argument: &Operand) -> Vec<u8> {
        let now_us = 1_700_000_000_123_456;
        let context = BindContext { timestamp_us: now_us, now_us, random: 7 };
        match call(function, argument, &[], &context).unwrap() {
            Found::Bytes(bytes) => bytes.into_owned(),
            _ => panic!("a function of a value has a value"),
        }
    }

    #[test]
    fn a_moment_lies_between_the_smallest_and_the_greatest_uuid_of_it() {
        use crate::types::comparable::encode;
        let at = Operand::Constant(1_700_000_000_123i64.to_be_bytes().to_vec());
        let ordered = |function| {
            let bytes = value(function, &at);
            assert_eq!(uuid::Uuid::from_slice(&bytes).unwrap().get_version_num(), 1);
            let mut out = Vec::new();
            encode(&CqlType::Timeuuid, false, &bytes, &mut out).unwrap();
            out
        };
        let (low, now) = (ordered(Function::MinTimeuuid), ordered(Function::Now));
        assert!(low < now && now < ordered(Function::MaxTimeuuid));
    }

    #[test]
    fn random_uuids_are_of_version_4() {
        let bytes = value(Function::Uuid, &Operand::Null);
        assert_eq!(uuid::Uuid::from_slice(&bytes).unwrap().get_version_num(), 4);
    }
}
