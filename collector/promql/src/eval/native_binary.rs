//! Binary operators on pairs of samples of which at least one is a native histogram.

use super::annotation::StepAnnotations;
use super::binary::{arithmetic, holds};
use super::result_labels::ResultLabels;
use super::{ABSENT, Annotation, Column, Combination, Context, Point};
use crate::error::Evaluated;
use crate::plan::{Binary, BinaryOp};
use fabriclens_model::{Histogram, IncompatibleHistograms, Keep, Labels, Reconciled, ResetHint};
use std::sync::Arc;

/// Result of an operator on two samples.
struct Element {
    /// The result of arithmetic, or the left sample of a comparison; `None` if the operator is not defined for these kinds.
    point: Option<Point>,
    /// Whether a comparison holds.
    holds: bool,
    annotation: Option<Annotation<'static>>,
}

impl Element {
    fn computed(histogram: Histogram) -> Self {
        Self { point: Some(histogram.into()), holds: true, annotation: None }
    }

    /// 0 or 1 with `bool`, else the sample of a comparison that holds.
    fn result(self, bool_result: bool) -> Option<Point> {
        let point = self.point?;
        if bool_result {
            return Some(Point::Float(f64::from(u8::from(self.holds))));
        }
        Some(point).filter(|_| self.holds)
    }
}

fn element(op: BinaryOp, left: &Point, right: &Point) -> Element {
    match (left, right) {
        (Point::Float(_), Point::Float(_)) if op.is_trim() => refused(op, left, right),
        (Point::Float(l), Point::Float(r)) if op.is_comparison() => {
            Element { point: Some(left.clone()), holds: holds(op, *l, *r), annotation: None }
        }
        (Point::Float(l), Point::Float(r)) => {
            Element { point: Some(Point::Float(arithmetic(op, *l, *r))), holds: true, annotation: None }
        }
        (Point::Histogram(h), Point::Float(f)) => scaled(op, h, *f).unwrap_or_else(|| refused(op, left, right)),
        (Point::Float(f), Point::Histogram(h)) if op == BinaryOp::Mul => {
            scaled(op, h, *f).unwrap_or_else(|| refused(op, left, right))
        }
        (Point::Histogram(l), Point::Histogram(r)) => match op {
            BinaryOp::Equal => Element { point: Some(left.clone()), holds: l.same_observations(r), annotation: None },
            BinaryOp::NotEqual => {
                Element { point: Some(left.clone()), holds: !l.same_observations(r), annotation: None }
            }
            BinaryOp::Add | BinaryOp::Sub => combined(op, l, r),
            _ => refused(op, left, right),
        },
        _ => refused(op, left, right),
    }
}

/// The operator is not defined for these kinds of samples.
fn refused(op: BinaryOp, left: &Point, right: &Point) -> Element {
    let kind = |p: &Point| if matches!(p, Point::Float(_)) { "float" } else { "histogram" };
    let [left, right] = [left, right].map(kind);
    Element { point: None, holds: false, annotation: Some(Annotation::IncompatibleTypes { op, left, right }) }
}

fn scaled(op: BinaryOp, histogram: &Arc<Histogram>, float: f64) -> Option<Element> {
    let mut h = Histogram::clone(histogram);
    match op {
        BinaryOp::Mul => h.scale(float),
        BinaryOp::Div => h.divide(float),
        BinaryOp::TrimUpper => h.trim(float, Keep::Below),
        BinaryOp::TrimLower => h.trim(float, Keep::Above),
        _ => return None,
    }
    if !op.is_trim() {
        h.compact();
    }
    Some(Element::computed(h))
}

fn combined(op: BinaryOp, left: &Arc<Histogram>, right: &Arc<Histogram>) -> Element {
    let mut h = Histogram::clone(left);
    let (result, by) = if op == BinaryOp::Add {
        (h.add(right), Combination::Addition)
    } else {
        (h.subtract(right), Combination::Subtraction)
    };
    let Reconciled { hints_collide, bounds_differ } = match result {
        Ok(reconciled) => reconciled,
        Err(IncompatibleHistograms) => {
            return Element { point: None, holds: false, annotation: Some(Annotation::IncompatibleLayout(op)) };
        }
    };
    h.compact();
    if op == BinaryOp::Sub {
        h = h.with_hint(ResetHint::Gauge);
    }
    let annotation = match (hints_collide, bounds_differ) {
        (true, _) => Some(Annotation::HintsCollide(by)),
        (false, true) => Some(Annotation::BoundsReconciled(by)),
        (false, false) => None,
    };
    Element { annotation, ..Element::computed(h) }
}

impl Context<'_> {
    /// An operator between a column with histograms and a scalar.
    pub(super) fn native_with_scalar(
        &mut self,
        b: &Binary,
        column: &mut Column,
        scalar: &[f64],
        scalar_left: bool,
        (order, annotations): (usize, &mut StepAnnotations),
    ) -> Evaluated<()> {
        self.check()?;
        for (i, s) in scalar.iter().enumerate() {
            let Some(point) = column.point(i) else { continue };
            let scalar = Point::Float(*s);
            let found = if scalar_left { element(b.op, &scalar, &point) } else { element(b.op, &point, &scalar) };
            annotations.note(i, order, found.annotation.clone());
            let kept = found.result(b.bool_result);
            // A filter keeps the vector's sample, on whichever side it is.
            let result = if b.op.is_comparison() && !b.bool_result { kept.map(|_| point) } else { kept };
            if let Some(Point::Histogram(h)) = &result {
                self.charge_histogram(h)?;
            }
            column.put(i, result);
        }
        Ok(())
    }

    /// Combines one series of each side, either of which may have histograms.
    pub(super) fn native_pair(
        &mut self,
        b: &Binary,
        (many, one): (&Column, &Column),
        swapped: bool,
        (order, annotations): (usize, &mut StepAnnotations),
    ) -> Evaluated<Option<Column>> {
        let labels = ResultLabels::new(b, self.limits.version);
        let nameless = labels.nameless(many);
        let mut column = Column { nameless, ..Column::new(Labels::default(), vec![ABSENT; many.values.len()]) };
        for i in 0..many.values.len() {
            let (Some(m), Some(o)) = (many.point(i), one.point(i)) else { continue };
            let (left, right) = if swapped { (o, m) } else { (m, o) };
            let found = element(b.op, &left, &right);
            annotations.note(i, order, found.annotation.clone());
            let result = found.result(b.bool_result);
            if let Some(Point::Histogram(h)) = &result {
                self.charge_histogram(h)?;
            }
            column.put(i, result);
        }
        if !column.any() {
            return Ok(None);
        }
        column.labels = labels.of(&many.labels, &one.labels);
        Ok(Some(column))
    }
}
