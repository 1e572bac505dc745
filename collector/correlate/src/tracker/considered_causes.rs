//! Causes that detectors found for an open incident, of which it accuses one; the others are kept for whoever asks what else was
//! considered.

use crate::model::fabric::Fabric;
use crate::model::finding::Finding;
use crate::model::incident::Considered;
use crate::model::kind::IncidentKind;
use crate::model::location::Location;
use std::cmp::Ordering;

/// Causes that an incident lists besides its own.
const MOST: usize = 8;

/// Causes that were found, each with the evaluations that found it.
#[derive(Default)]
pub(super) struct ConsideredCauses {
    /// Evaluations that found something.
    evaluations: f64,
    /// At most [`MOST`] and the accused one.
    causes: Vec<Counted>,
}

struct Counted {
    /// Its share is computed when it is listed.
    cause: Considered,
    /// Evaluations that found it.
    times: f64,
}

impl ConsideredCauses {
    /// Those of an incident from before a restart, which count as one evaluation.
    pub fn resume(listed: &[Considered]) -> Self {
        let counted = |cause: &Considered| Counted { cause: cause.clone(), times: cause.found_in };
        Self { evaluations: 1.0, causes: listed.iter().take(MOST).map(counted).collect() }
    }

    /// Counts what one evaluation found.
    pub fn record<'a>(&mut self, findings: impl Iterator<Item = &'a Finding>, fabric: &Fabric) {
        let mut found: Vec<&Finding> = findings.collect();
        if found.is_empty() {
            return;
        }
        self.evaluations += 1.0;
        found.sort_by(|a, b| falling(a.confidence, b.confidence));
        let mut distinct: Vec<&Finding> = Vec::new();
        for finding in found {
            if distinct.len() <= MOST && !distinct.iter().any(|other| other.is_same_as(finding)) {
                distinct.push(finding);
            }
        }
        distinct.into_iter().for_each(|finding| self.count(finding, fabric));
        if self.causes.len() > MOST + 1 {
            self.causes.sort_by(|a, b| falling(a.cause.confidence, b.cause.confidence));
            self.causes.truncate(MOST + 1);
        }
    }

    fn count(&mut self, finding: &Finding, fabric: &Fabric) {
        let root = Location::of(fabric, &finding.root);
        let known = self.causes.iter_mut().find(|one| one.cause.kind == finding.kind && one.cause.root == root);
        match known {
            Some(known) => {
                known.times += 1.0;
                if finding.confidence > known.cause.confidence {
                    known.cause.confidence = finding.confidence;
                    known.cause.explanation.clone_from(&finding.explanation);
                }
            }
            None => self.causes.push(Counted {
                cause: Considered {
                    kind: finding.kind,
                    root,
                    confidence: finding.confidence,
                    found_in: 0.0,
                    explanation: finding.explanation.clone(),
                },
                times: 1.0,
            }),
        }
    }

    /// All but the accused one, the most certain first.
    pub fn besides(&self, kind: IncidentKind, root: &Location) -> Vec<Considered> {
        let others = self.causes.iter().filter(|one| one.cause.kind != kind || one.cause.root != *root);
        let share = |one: &Counted| (one.times / self.evaluations.max(1.0)).min(1.0);
        let mut listed: Vec<Considered> =
            others.map(|one| Considered { found_in: share(one), ..one.cause.clone() }).collect();
        listed.sort_by(|a, b| falling(a.confidence, b.confidence));
        listed.truncate(MOST);
        listed
    }
}

fn falling(a: f64, b: f64) -> Ordering {
    b.total_cmp(&a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::finding::Evidence;
    use crate::model::location::LocationId;
    use crate::model::ports::Ports;
    use crate::model::topology::Topology;

    fn finding(kind: IncidentKind, confidence: f64) -> Finding {
        let evidence =
            Evidence { metric: String::new(), at: String::new(), value: 1.0, threshold: 0.0, window_ns: [0, 1] };
        Finding::new(kind, LocationId::Fabric, confidence, evidence, format!("{confidence} certain"))
    }

    #[test]
    fn what_is_not_accused_is_listed_with_how_often_it_was_found() {
        use IncidentKind::{FabricCongestion, Incast, PfcStorm};
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let mut causes = ConsideredCauses::default();
        causes.record([].iter(), &fabric);
        causes.record([finding(PfcStorm, 0.9), finding(Incast, 0.4), finding(Incast, 0.3)].iter(), &fabric);
        causes.record([finding(PfcStorm, 0.8), finding(Incast, 0.6)].iter(), &fabric);
        causes.record([finding(PfcStorm, 0.9), finding(FabricCongestion, 0.2)].iter(), &fabric);
        causes.record([finding(PfcStorm, 0.9)].iter(), &fabric);
        let besides = |causes: &ConsideredCauses| -> Vec<(IncidentKind, f64, f64, String)> {
            let listed = causes.besides(PfcStorm, &Location::Fabric).into_iter();
            listed.map(|one| (one.kind, one.confidence, one.found_in, one.explanation)).collect()
        };
        let wanted =
            [(Incast, 0.6, 0.5, "0.6 certain".to_owned()), (FabricCongestion, 0.2, 0.25, "0.2 certain".to_owned())];
        assert_eq!(besides(&causes), wanted, "evaluations without a finding do not count");
        let resumed = ConsideredCauses::resume(&causes.besides(PfcStorm, &Location::Fabric));
        assert_eq!(besides(&resumed), wanted, "after a restart");
    }

    #[test]
    fn the_least_certain_causes_make_way() {
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let mut causes = ConsideredCauses::default();
        for (n, kind) in IncidentKind::ALL.into_iter().enumerate() {
            causes.record([finding(kind, 0.1 + n as f64 / 100.0)].iter(), &fabric);
        }
        let last = IncidentKind::ALL[IncidentKind::ALL.len() - 1];
        let listed = causes.besides(last, &Location::Fabric);
        assert_eq!((causes.causes.len(), listed.len()), (MOST + 1, MOST));
        assert!(listed.iter().all(|one| one.confidence > 0.17), "{listed:?}");
        let many: Vec<Finding> = IncidentKind::ALL.into_iter().map(|kind| finding(kind, 0.5)).collect();
        causes.record(many.iter(), &fabric);
        assert_eq!(causes.causes.len(), MOST + 1);
    }
}
