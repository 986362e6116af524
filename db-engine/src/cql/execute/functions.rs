//! Functions whose value is made when a statement is executed.

use crate::{
    cql::{
        error::CqlError,
        execute::{
            context::BindContext,
            timeuuid::{GREGORIAN_OFFSET, node, timeuuid},
        },
        prepare::input::{Function, Operand},
    },
    io::Random,
    types::{CqlType, Value, validate::validate},
};

/// Clock and node bytes of the smallest and the greatest version 1 UUID of a moment, as Cassandra
/// orders them: byte by byte as signed numbers.
const NODE_MIN: [u8; 8] = [0x80; 8];
const NODE_MAX: [u8; 8] = [0x7F; 8];

/// The value of a function; none is null.
pub(super) fn call(
    function: Function,
    argument: &Operand,
    values: &[Value<'_>],
    context: &BindContext,
) -> Result<Option<Vec<u8>>, CqlError> {
    let bytes = match function {
        Function::Now => {
            let intervals = context.now_us.saturating_mul(10).saturating_add(GREGORIAN_OFFSET);
            timeuuid(intervals, node(context.random))
        }
        Function::Uuid => {
            let mut random = Random(context.random);
            let (a, b) = (random.next_u64(), random.next_u64());
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
            let Some(ms) = timestamp_of(argument, values)? else { return Ok(None) };
            let start = ms.saturating_mul(10_000).saturating_add(GREGORIAN_OFFSET);
            if function == Function::MinTimeuuid {
                timeuuid(start, NODE_MIN)
            } else {
                timeuuid(start.saturating_add(9_999), NODE_MAX)
            }
        }
    };
    Ok(Some(bytes))
}

fn timestamp_of(argument: &Operand, values: &[Value<'_>]) -> Result<Option<i64>, CqlError> {
    let bytes = match argument {
        Operand::Constant(bytes) => bytes.as_slice(),
        Operand::Bound(index) => match values.get(usize::from(*index)) {
            Some(Value::Bytes(bytes)) => bytes,
            Some(Value::Large(large)) => large.checked()?,
            _ => return Ok(None),
        },
        Operand::Null
        | Operand::Call(..)
        | Operand::Token(_)
        | Operand::Fields(_)
        | Operand::Items(_) => return Ok(None),
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
        call(function, argument, &[], &context).unwrap().unwrap()
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
