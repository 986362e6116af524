//! `count`, `min`, `max`, `sum` and `avg`: many rows become one.

use super::project::{Projector, Source};
use crate::types::{CqlType, collection, comparable};

/// How rows are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    /// A column without a function: its value in the first row.
    First,
}

/// One column of a result that has one row.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    pub kind: Kind,
    pub source: Source,
    pub ty: CqlType,
}

/// What has been summed up so far.
#[derive(Debug)]
pub(super) struct Total {
    aggregate: Aggregate,
    count: i64,
    best: Option<(Vec<u8>, Vec<u8>)>,
    integer: i64,
    /// Neumaier's compensated sum: the sum and what rounding took from it.
    float: (f64, f64),
}

impl Aggregate {
    pub(super) fn begin(&self) -> Total {
        let aggregate = self.clone();
        Total { aggregate, count: 0, best: None, integer: 0, float: (0.0, 0.0) }
    }

    /// Whether `sum` and `avg` of the type are known.
    pub(super) fn can_add(ty: &CqlType) -> bool {
        matches!(
            ty,
            CqlType::Tinyint
                | CqlType::Smallint
                | CqlType::Int
                | CqlType::Bigint
                | CqlType::Float
                | CqlType::Double
        )
    }
}

fn is_float(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Float | CqlType::Double)
}

fn integer(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(start, |value, byte| (value << 8) | i64::from(*byte))
}

fn float(bytes: &[u8]) -> f64 {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        (Ok(four), _) => f32::from_be_bytes(four).into(),
        (_, Ok(eight)) => f64::from_be_bytes(eight),
        _ => 0.0,
    }
}

impl Total {
    pub(super) fn add(&mut self, projector: &mut Projector<'_>, scratch: &mut Vec<u8>) {
        if self.aggregate.kind == Kind::CountRows {
            self.count += 1;
            return;
        }
        scratch.clear();
        if projector.value(&self.aggregate.source, scratch).is_none() {
            return;
        }
        match self.aggregate.kind {
            Kind::Sum | Kind::Avg if scratch.is_empty() => return,
            Kind::Sum | Kind::Avg if is_float(&self.aggregate.ty) => self.add_float(float(scratch)),
            Kind::Sum | Kind::Avg => {
                self.integer = self.integer.wrapping_add(integer(scratch));
            }
            Kind::First if self.best.is_none() => self.best = Some((Vec::new(), scratch.clone())),
            Kind::Min | Kind::Max => {
                let mut code = Vec::new();
                if comparable::encode(&self.aggregate.ty, false, scratch, &mut code).is_ok() {
                    let better = self.best.as_ref().is_none_or(|(best, _)| {
                        if self.aggregate.kind == Kind::Min { code < *best } else { code > *best }
                    });
                    if better {
                        self.best = Some((code, scratch.clone()));
                    }
                }
            }
            _ => {}
        }
        self.count += 1;
    }

    fn add_float(&mut self, value: f64) {
        let (sum, lost) = self.float;
        let next = sum + value;
        let small =
            if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        self.float = (next, lost + small);
    }

    /// Appends the result as `[bytes]`.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let item = |out: &mut Vec<u8>, bytes: &[u8]| collection::put_item(out, Some(bytes));
        match self.aggregate.kind {
            Kind::CountRows | Kind::Count => item(out, &self.count.to_be_bytes()),
            Kind::Min | Kind::Max | Kind::First => {
                collection::put_item(out, self.best.as_ref().map(|(_, value)| value.as_slice()));
            }
            Kind::Sum | Kind::Avg => item(out, &self.number()),
        }
    }

    /// The sum or average, in the wire form of the column's type. Integers wrap around and are
    /// rounded towards zero, as Cassandra's do.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn number(&self) -> Vec<u8> {
        let average = self.aggregate.kind == Kind::Avg;
        let count = if average { self.count.max(1) } else { 1 };
        let total =
            if self.float.0.is_finite() { self.float.0 + self.float.1 } else { self.float.0 };
        let integer = (self.integer / count).to_be_bytes();
        match self.aggregate.ty {
            CqlType::Double => (total / count as f64).to_be_bytes().to_vec(),
            CqlType::Float => ((total / count as f64) as f32).to_be_bytes().to_vec(),
            CqlType::Tinyint => integer.get(7..).unwrap_or_default().to_vec(),
            CqlType::Smallint => integer.get(6..).unwrap_or_default().to_vec(),
            CqlType::Int => integer.get(4..).unwrap_or_default().to_vec(),
            _ => integer.to_vec(),
        }
    }
}
