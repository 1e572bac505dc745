//! Binary operators between scalars and vectors, and the operators on two numbers. For operators between two vectors
//! see [`super::matching`].

use super::annotation::StepAnnotations;
use super::{ABSENT, Column, Columns, Context, Grid};
use crate::error::{Evaluated, QueryError};
use crate::plan::{Binary, BinaryOp, Grouping};
use fabriclens_model::is_stale;

impl Context<'_> {
    pub(super) fn binary(&mut self, b: &Binary, grid: Grid, grouping: Option<&Grouping>) -> Evaluated<Columns> {
        let lhs = self.eval(&b.lhs, grid)?;
        let rhs = self.eval(&b.rhs, grid)?;
        Ok(match (lhs, rhs) {
            (Columns::Scalar(_), Columns::Scalar(_)) if b.op.is_trim() => {
                let message = format!("operator {:?} not allowed for Scalar operations", b.op.symbol());
                return Err(QueryError::Execution(message));
            }
            (Columns::Scalar(mut l), Columns::Scalar(r)) => {
                for (l, r) in l.iter_mut().zip(r) {
                    *l = scalars(b.op, *l, r);
                }
                Columns::Scalar(l)
            }
            (Columns::Vector(v), Columns::Scalar(s)) => Columns::Vector(self.with_scalar(b, v, &s, false)?),
            (Columns::Scalar(s), Columns::Vector(v)) => Columns::Vector(self.with_scalar(b, v, &s, true)?),
            (Columns::Vector(l), Columns::Vector(r)) if b.op.is_set() => {
                Columns::Vector(self.set_operation(b, l, r, grid)?)
            }
            (Columns::Vector(l), Columns::Vector(r)) => Columns::Vector(self.vectors(b, &l, &r, grid, grouping)?),
        })
    }

    fn with_scalar(
        &mut self,
        b: &Binary,
        mut columns: Vec<Column>,
        scalar: &[f64],
        scalar_left: bool,
    ) -> Evaluated<Vec<Column>> {
        let mut annotations = StepAnnotations::default();
        for (order, c) in columns.iter_mut().enumerate() {
            if b.op.is_arithmetic() || b.bool_result {
                self.unname(c);
            }
            if b.op.is_trim() || c.histograms.any() {
                self.native_with_scalar(b, c, scalar, scalar_left, (order, &mut annotations))?;
                continue;
            }
            for (v, s) in c.values.iter_mut().zip(scalar).filter(|(v, _)| !is_stale(**v)) {
                let (l, r) = if scalar_left { (*s, *v) } else { (*v, *s) };
                *v = if b.op.is_arithmetic() {
                    arithmetic(b.op, l, r)
                } else {
                    // The vector's value is kept, on whichever side it is.
                    compared(holds(b.op, l, r), *v, b.bool_result)
                };
            }
        }
        annotations.emit(self, b.lhs.offset);
        self.settle(columns)
    }
}

fn scalars(op: BinaryOp, l: f64, r: f64) -> f64 {
    if op.is_comparison() { f64::from(u8::from(holds(op, l, r))) } else { arithmetic(op, l, r) }
}

/// Result of a comparison: 0 or 1, or the value if it passes the filter.
pub(super) fn compared(holds: bool, value: f64, bool_result: bool) -> f64 {
    match (bool_result, holds) {
        (true, _) => f64::from(u8::from(holds)),
        (false, true) => value,
        (false, false) => ABSENT,
    }
}

#[expect(clippy::float_cmp, reason = "PromQL compares exactly")]
pub(super) fn holds(op: BinaryOp, l: f64, r: f64) -> bool {
    match op {
        BinaryOp::Equal => l == r,
        BinaryOp::NotEqual => l != r,
        BinaryOp::Less => l < r,
        BinaryOp::LessEqual => l <= r,
        BinaryOp::Greater => l > r,
        BinaryOp::GreaterEqual => l >= r,
        _ => false,
    }
}

pub(crate) fn arithmetic(op: BinaryOp, l: f64, r: f64) -> f64 {
    match op {
        BinaryOp::Add => l + r,
        BinaryOp::Sub => l - r,
        BinaryOp::Mul => l * r,
        BinaryOp::Div => l / r,
        BinaryOp::Mod => l % r,
        BinaryOp::Pow => l.powf(r),
        BinaryOp::Atan2 => l.atan2(r),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_remainders_are_ieee() {
        let pow = |l: f64, r| arithmetic(BinaryOp::Pow, l, r);
        assert_eq!((pow(1.0, f64::NAN), pow(f64::NAN, 0.0), pow(-1.0, f64::INFINITY)), (1.0, 1.0, 1.0));
        assert_eq!(arithmetic(BinaryOp::Mod, -7.0, 3.0), -1.0);
        assert!(arithmetic(BinaryOp::Mod, 1.0, 0.0).is_nan());
    }
}
