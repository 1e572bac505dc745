//! Labels of the results of vector matching.

use super::group_keys::same_text;
use super::{Column, drop_name, names_metric, relabel};
use crate::limits::Version;
use crate::plan::{Binary, Cardinality, Grouping};
use fabriclens_model::{Labels, Pair};

/// Makes the labels of the results of an operator.
#[derive(Clone, Copy)]
pub(super) struct ResultLabels<'a> {
    b: &'a Binary,
    version: Version,
    /// If there is one, only its labels are looked at, so others need not be made.
    grouping: Option<&'a Grouping>,
}

impl<'a> ResultLabels<'a> {
    pub fn new(b: &'a Binary, version: Version) -> Self {
        Self { b, version, grouping: None }
    }

    /// Makes only the labels by which an aggregation groups.
    #[must_use]
    pub fn only(self, grouping: Option<&'a Grouping>) -> Self {
        Self { grouping, ..self }
    }

    /// Whether the name of a result is dropped at the end of the query.
    pub fn nameless(self, many: &Column) -> bool {
        self.version == Version::V3 && (many.nameless || self.b.bool_result)
    }

    /// Labels of the result of one series of each side.
    pub fn of(self, many: &Labels, one: &Labels) -> Labels {
        let Self { b, version, grouping } = self;
        let wanted = |n: &str| grouping.is_none_or(|grouping| grouping.counts(n));
        let named = |n: &str| b.grouping.labels.iter().any(|l| l == n);
        let nameless = b.op.is_arithmetic() || b.bool_result && version == Version::V2;
        let one_to_one = b.cardinality == Cardinality::OneToOne;
        let kept = relabel(many, |n| {
            let grouped = !one_to_one || if b.grouping.keep { named(n) } else { !named(n) };
            wanted(n) && grouped && !(nameless && names_metric(n))
        });
        if b.include.is_empty() {
            return kept;
        }
        let included = |n: &str| b.include.iter().any(|i| i == n);
        let from_one = one.to_pairs().filter(|(n, _)| included(n) && wanted(n));
        let mut pairs: Vec<Pair> = kept.to_pairs().filter(|(n, _)| !included(n)).chain(from_one).collect();
        pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let labels = Labels::from_sorted(pairs);
        if b.bool_result && version == Version::V2 { drop_name(&labels) } else { labels }
    }

    /// Whether the results of different series of the "many" side certainly differ in labels: these are of one metric and
    /// have the same label names, none of which is replaced or dropped.
    pub fn differ(self, many: &[Column]) -> bool {
        let Some(first) = many.first() else { return true };
        let (metric, others) = first.labels.parts();
        let replaced = |n: &str| names_metric(n) || self.b.include.iter().any(|i| i == n);
        let alike = |c: &Column| {
            let (of, names) = c.labels.parts();
            let same = |(a, b): (&Pair, &Pair)| same_text(&a.0, &b.0);
            of == metric && names.len() == others.len() && names.iter().zip(&**others).all(same)
        };
        self.b.cardinality != Cardinality::OneToOne
            && !others.iter().any(|(n, _)| replaced(n))
            && many.iter().all(alike)
    }
}
