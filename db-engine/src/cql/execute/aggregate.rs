//! `count`, `min`, `max`, `sum` and `avg`: many rows become one.

use crate::{
    cql::{
        error::CqlError,
        execute::project::Projector,
        prepare::source::{Aggregate, Fold},
    },
    types::{CqlType, collection, comparable},
};

/// What has been summed up so far.
#[derive(Debug)]
pub(super) struct Total {
    aggregate: Aggregate,
    count: i64,
    best: Option<(Vec<u8>, Vec<u8>)>,
    /// Of as many 64-bit integers as there may be rows.
    integer: i128,
    /// Neumaier's compensated sum: the sum and what rounding took from it.
    float: (f64, f64),
    /// The same of values divided by [`SHRINK`]: as in Cassandra, an average does not overflow.
    shrunk: (f64, f64),
}

/// 2^64, more than there are rows.
const SHRINK: f64 = 18_446_744_073_709_551_616.0;

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
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        let aggregate = aggregate.clone();
        Total { aggregate, count: 0, best: None, integer: 0, float: (0.0, 0.0), shrunk: (0.0, 0.0) }
    }

    /// # Errors
    /// If a value is to be compared and cannot be.
    pub(super) fn add(
        &mut self,
        projector: &mut Projector<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), CqlError> {
        if self.aggregate.kind == Fold::CountRows {
            self.count += 1;
            return Ok(());
        }
        scratch.clear();
        if self.aggregate.kind == Fold::First {
            // The first row's, also if that is null.
            if self.count == 0 && projector.value(&self.aggregate.source, scratch).is_some() {
                self.best = Some((Vec::new(), scratch.clone()));
            }
            self.count += 1;
            return Ok(());
        }
        if projector.value(&self.aggregate.source, scratch).is_none() {
            return Ok(());
        }
        match self.aggregate.kind {
            Fold::Sum | Fold::Avg if scratch.is_empty() => return Ok(()),
            Fold::Sum | Fold::Avg if is_float(&self.aggregate.ty) => self.add_float(float(scratch)),
            Fold::Sum | Fold::Avg => {
                self.integer += i128::from(integer(scratch));
            }
            Fold::Min | Fold::Max => {
                let mut code = Vec::new();
                comparable::encode(&self.aggregate.ty, false, scratch, &mut code)
                    .map_err(CqlError::incomparable)?;
                let better = self.best.as_ref().is_none_or(|(best, _)| {
                    if self.aggregate.kind == Fold::Min { code < *best } else { code > *best }
                });
                if better {
                    self.best = Some((code, scratch.clone()));
                }
            }
            _ => {}
        }
        self.count += 1;
        Ok(())
    }

    fn add_float(&mut self, value: f64) {
        for (total, value) in [(&mut self.float, value), (&mut self.shrunk, value / SHRINK)] {
            let (sum, lost) = *total;
            let next = sum + value;
            let small =
                if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
            *total = (next, lost + small);
        }
    }

    /// Appends the result as `[bytes]`.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let item = |out: &mut Vec<u8>, bytes: &[u8]| collection::put_item(out, Some(bytes));
        match self.aggregate.kind {
            Fold::CountRows | Fold::Count => item(out, &self.count.to_be_bytes()),
            Fold::Min | Fold::Max | Fold::First => {
                collection::put_item(out, self.best.as_ref().map(|(_, value)| value.as_slice()));
            }
            Fold::Sum | Fold::Avg => item(out, &self.number()),
        }
    }

    /// The sum or average, in the wire form of the column's type. As in Cassandra, a sum of
    /// integers wraps around, and an average does not and is rounded towards zero.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn number(&self) -> Vec<u8> {
        let average = self.aggregate.kind == Fold::Avg;
        let count = if average { self.count.max(1) } else { 1 };
        let total = |(sum, lost): (f64, f64)| if sum.is_finite() { sum + lost } else { sum };
        let average_or_sum = if average && !self.float.0.is_finite() {
            total(self.shrunk) / count as f64 * SHRINK
        } else {
            total(self.float) / count as f64
        };
        let integer = (self.integer / i128::from(count)).to_be_bytes();
        match self.aggregate.ty {
            CqlType::Double => average_or_sum.to_be_bytes().to_vec(),
            CqlType::Float => (average_or_sum as f32).to_be_bytes().to_vec(),
            CqlType::Tinyint => integer.get(15..).unwrap_or_default().to_vec(),
            CqlType::Smallint => integer.get(14..).unwrap_or_default().to_vec(),
            CqlType::Int => integer.get(12..).unwrap_or_default().to_vec(),
            _ => integer.get(8..).unwrap_or_default().to_vec(),
        }
    }
}
