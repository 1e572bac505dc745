//! Annotations about histograms, in Prometheus' words.

use super::Context;
use crate::plan::BinaryOp;
use fabriclens_model::Reconciled;

/// What was done with two or more histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combination {
    Addition,
    Subtraction,
    Aggregation,
}

impl Combination {
    fn text(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        }
    }
}

/// What annotations say a window belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Metric name; empty if it has none.
    pub metric: &'a str,
    /// Byte offset of the argument in the query.
    pub offset: usize,
}

/// An annotation. Those of series have the metric name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Annotation<'a> {
    MixedRange(&'a str),
    MixedAggregation,
    MixedSchemas(&'a str),
    ClassicAndNative(&'a str),
    NotCounter(&'a str),
    NotGauge(&'a str),
    IncompatibleLayout(BinaryOp),
    HintsCollide(Combination),
    BoundsReconciled(Combination),
    IncompatibleTypes { op: BinaryOp, left: &'static str, right: &'static str },
    IgnoredInAggregation(&'static str),
    IgnoredInRange(&'a str),
    QuantileIsNan(&'a str),
    QuantileIsSkewed(&'a str),
    FractionWithoutNan(&'a str),
}

impl Annotation<'_> {
    fn is_warning(&self) -> bool {
        use Annotation::{
            ClassicAndNative, HintsCollide, IncompatibleLayout, MixedAggregation, MixedRange, MixedSchemas, NotCounter,
            NotGauge,
        };
        matches!(
            self,
            MixedRange(_)
                | MixedAggregation
                | MixedSchemas(_)
                | ClassicAndNative(_)
                | NotCounter(_)
                | NotGauge(_)
                | IncompatibleLayout(_)
                | HintsCollide(_)
        )
    }

    fn text(&self) -> String {
        match self {
            Self::MixedRange(name) => format!("encountered a mix of histograms and floats for metric name {name:?}"),
            Self::MixedAggregation => "encountered a mix of histograms and floats for aggregation".to_owned(),
            Self::MixedSchemas(name) => format!(
                "vector contains a mix of histograms with exponential and custom buckets schemas for metric name {name:?}"
            ),
            Self::ClassicAndNative(name) => of_metric("vector contains a mix of classic and native histograms", name),
            Self::NotCounter(name) => format!("this native histogram metric is not a counter: {name:?}"),
            Self::NotGauge(name) => format!("this native histogram metric is not a gauge: {name:?}"),
            Self::IncompatibleLayout(op) => {
                format!("incompatible bucket layout encountered for binary operator {}", op.symbol())
            }
            Self::HintsCollide(by) => format!("conflicting counter resets during histogram {}", by.text()),
            Self::BoundsReconciled(by) => format!("mismatched custom buckets were reconciled during {}", by.text()),
            Self::IncompatibleTypes { op, left, right } => {
                let op = op.symbol();
                format!("incompatible sample types encountered for binary operator {op:?}: {left} {op} {right}")
            }
            Self::IgnoredInAggregation(name) => format!("ignored histogram in {name} aggregation"),
            Self::IgnoredInRange(name) => {
                format!("ignored histograms in a range containing both floats and histograms for metric name {name:?}")
            }
            Self::QuantileIsNan(name) => {
                of_metric("input to histogram_quantile has NaN observations, result is NaN", name)
            }
            Self::QuantileIsSkewed(name) => {
                of_metric("input to histogram_quantile has NaN observations, result is skewed higher", name)
            }
            Self::FractionWithoutNan(name) => of_metric(
                "input to histogram_fraction has NaN observations, which are excluded from all fractions",
                name,
            ),
        }
    }
}

fn of_metric(text: &str, name: &str) -> String {
    if name.is_empty() { text.to_owned() } else { format!("{text} for metric name {name:?}") }
}

impl Context<'_> {
    /// Adds an annotation about the expression at `offset` of the query text.
    pub(crate) fn annotate(&mut self, annotation: &Annotation<'_>, offset: usize) {
        if annotation.is_warning() {
            self.warn(&annotation.text(), offset);
        } else {
            self.inform(&annotation.text(), offset);
        }
    }

    /// Adds what had to be reconciled to combine histograms.
    pub(crate) fn annotate_reconciled(&mut self, reconciled: Reconciled, by: Combination, offset: usize) {
        if reconciled.hints_collide {
            self.annotate(&Annotation::HintsCollide(by), offset);
        }
        if reconciled.bounds_differ {
            self.annotate(&Annotation::BoundsReconciled(by), offset);
        }
    }
}

/// The annotation of each step. Of several pairs the last one counts, as in Prometheus.
#[derive(Default)]
pub(super) struct StepAnnotations(Vec<Option<(usize, Annotation<'static>)>>);

impl StepAnnotations {
    /// Notes the annotation of a pair; `order` ascends along the pairs as Prometheus visits them.
    pub fn note(&mut self, step: usize, order: usize, annotation: Option<Annotation<'static>>) {
        let Some(annotation) = annotation else { return };
        if self.0.len() <= step {
            self.0.resize(step + 1, None);
        }
        if self.0[step].as_ref().is_none_or(|(at, _)| *at <= order) {
            self.0[step] = Some((order, annotation));
        }
    }

    pub fn emit(self, cx: &mut Context<'_>, offset: usize) {
        let mut emitted: Vec<Annotation<'static>> = vec![];
        for (_, annotation) in self.0.into_iter().flatten() {
            if !emitted.contains(&annotation) {
                cx.annotate(&annotation, offset);
                emitted.push(annotation);
            }
        }
    }
}
