//! Binary operators on pairs of samples of which at least one is a native histogram.

use super::binary::{arithmetic, holds};
use super::{Combination, Context, Point, Remark};
use crate::plan::BinaryOp;
use fabriclens_model::{Histogram, IncompatibleHistograms, Keep, Reconciled, ResetHint};
use std::sync::Arc;

/// Result of an operator on two samples.
pub(super) struct Element {
    /// The result of arithmetic, or the left sample of a comparison; `None` if the operator is not defined for these kinds.
    pub point: Option<Point>,
    /// Whether a comparison holds.
    pub holds: bool,
    pub remark: Option<Remark<'static>>,
}

impl Element {
    fn computed(histogram: Histogram) -> Self {
        Self { point: Some(histogram.into()), holds: true, remark: None }
    }
}

pub(super) fn element(op: BinaryOp, left: &Point, right: &Point) -> Element {
    match (left, right) {
        (Point::Float(l), Point::Float(r)) if op.is_trim() => Element { ..refused(op, &[*l, *r].map(Point::Float)) },
        (Point::Float(l), Point::Float(r)) if op.is_comparison() => {
            Element { point: Some(left.clone()), holds: holds(op, *l, *r), remark: None }
        }
        (Point::Float(l), Point::Float(r)) => {
            Element { point: Some(Point::Float(arithmetic(op, *l, *r))), holds: true, remark: None }
        }
        (Point::Histogram(h), Point::Float(f)) => scaled(op, h, *f).unwrap_or_else(|| refused_pair(op, left, right)),
        (Point::Float(f), Point::Histogram(h)) if op == BinaryOp::Mul => {
            scaled(op, h, *f).unwrap_or_else(|| refused_pair(op, left, right))
        }
        (Point::Histogram(l), Point::Histogram(r)) => match op {
            BinaryOp::Equal => Element { point: Some(left.clone()), holds: l.same_observations(r), remark: None },
            BinaryOp::NotEqual => Element { point: Some(left.clone()), holds: !l.same_observations(r), remark: None },
            BinaryOp::Add | BinaryOp::Sub => combined(op, l, r),
            _ => refused_pair(op, left, right),
        },
        _ => refused_pair(op, left, right),
    }
}

fn refused_pair(op: BinaryOp, left: &Point, right: &Point) -> Element {
    refused(op, &[left.clone(), right.clone()])
}

/// The operator is not defined for these kinds of samples.
fn refused(op: BinaryOp, sides: &[Point; 2]) -> Element {
    let kind = |p: &Point| if matches!(p, Point::Float(_)) { "float" } else { "histogram" };
    let [left, right] = [kind(&sides[0]), kind(&sides[1])];
    Element { point: None, holds: false, remark: Some(Remark::IncompatibleTypes { op, left, right }) }
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
            return Element { point: None, holds: false, remark: Some(Remark::IncompatibleLayout(op)) };
        }
    };
    h.compact();
    if op == BinaryOp::Sub {
        h = h.with_hint(ResetHint::Gauge);
    }
    let remark = match (hints_collide, bounds_differ) {
        (true, _) => Some(Remark::HintsCollide(by)),
        (false, true) => Some(Remark::BoundsReconciled(by)),
        (false, false) => None,
    };
    Element { remark, ..Element::computed(h) }
}

/// The annotation of each step. Of several pairs the last one counts, as in Prometheus.
#[derive(Default)]
pub(super) struct StepRemarks(Vec<Option<(usize, Remark<'static>)>>);

impl StepRemarks {
    /// Notes the annotation of a pair; `order` ascends along the pairs as Prometheus visits them.
    pub fn note(&mut self, step: usize, order: usize, remark: Option<Remark<'static>>) {
        let Some(remark) = remark else { return };
        if self.0.len() <= step {
            self.0.resize(step + 1, None);
        }
        if self.0[step].as_ref().is_none_or(|(at, _)| *at <= order) {
            self.0[step] = Some((order, remark));
        }
    }

    pub fn tell(self, cx: &mut Context<'_>, offset: usize) {
        let mut told: Vec<Remark<'static>> = vec![];
        for (_, remark) in self.0.into_iter().flatten() {
            if !told.contains(&remark) {
                cx.remark(&remark, offset);
                told.push(remark);
            }
        }
    }
}
