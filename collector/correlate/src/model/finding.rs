//! The result of a detector.

use crate::model::fabric::Fabric;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use crate::model::routes::path::Path;
use serde::{Deserialize, Serialize};

/// A measured value that supports a finding.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Metric name.
    pub metric: String,
    /// Port or job that was measured.
    pub at: String,
    /// Measured value.
    pub value: f64,
    /// The value that it exceeded or fell short of.
    pub threshold: f64,
    /// First and last instant of the measurement, Unix nanoseconds.
    pub window_ns: [i64; 2],
}

/// What a detector found, by indices of the fabric.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Kind of incident.
    pub kind: IncidentKind,
    /// Location of the cause.
    pub root: LocationId,
    /// Probability that the finding is right, 0 to 1.
    pub confidence: f64,
    /// Jobs that cause it.
    pub culprits: Vec<usize>,
    /// Jobs that suffer by themselves, for kinds that are about a job; otherwise empty, and throughput decides.
    pub victims: Vec<usize>,
    /// Host ports that receive more than they can take, or whose packets are marked.
    pub receivers: Vec<usize>,
    /// Priorities in which it holds senders back.
    pub priorities: Priorities,
    /// Start, Unix nanoseconds, if the samples show it; otherwise the start of the evaluated window.
    pub began_ns: Option<i64>,
    /// Values that support it.
    pub evidence: Vec<Evidence>,
    /// Explanation for an operator.
    pub explanation: String,
    /// What the operator should do next.
    pub action: String,
    /// Inferred from traffic elsewhere instead of counters at the location. Other incidents may distort such traffic.
    pub inferred: bool,
    /// A port where the effect shows, if the location itself has none.
    pub observed_at: Option<usize>,
    /// It costs no job anything that is not the job's own doing: it is an observation, however certain, and has no victims.
    /// `None` if the samples do not show it; an open incident then keeps the value of its last finding.
    pub harmless: Option<bool>,
    /// Path of the flows that show it, if known.
    pub path: Option<Path>,
}

impl Finding {
    /// A finding without culprits and with an unknown start.
    pub fn new(kind: IncidentKind, root: LocationId, confidence: f64, evidence: Evidence, explanation: String) -> Self {
        let evidence = vec![evidence];
        Self {
            kind,
            root,
            confidence,
            culprits: Vec::new(),
            victims: Vec::new(),
            receivers: Vec::new(),
            priorities: Priorities::UNKNOWN,
            began_ns: None,
            evidence,
            explanation,
            action: kind.spec().action.to_owned(),
            inferred: !kind.is_observed(),
            observed_at: None,
            harmless: Some(false),
            path: None,
        }
    }

    /// Whether kind and location are the same.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.kind == other.kind && self.root == other.root
    }

    /// Aggregate finding over several links; members may be split off later.
    pub fn is_aggregate(&self) -> bool {
        self.kind.spec().may_spread
            && matches!(self.root, LocationId::Switch(_) | LocationId::Host(_) | LocationId::Fabric)
    }

    /// Whether a host, or the link to one, is down. In a large fleet one host always reboots, which affects its own job
    /// alone.
    pub fn is_host_down(&self, fabric: &Fabric) -> bool {
        self.kind == IncidentKind::LinkDown
            && matches!(self.root, LocationId::Host(_) | LocationId::Port(_) | LocationId::Link(_))
            && self.root.ports(fabric).into_iter().any(|port| fabric.is_host(port))
    }

    /// Adds one value that supports it.
    #[must_use]
    pub fn with_evidence(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// Sets the jobs that cause it.
    #[must_use]
    pub fn with_culprits(self, culprits: Vec<usize>) -> Self {
        Self { culprits, ..self }
    }

    /// Sets the jobs that suffer by themselves.
    #[must_use]
    pub fn with_victims(self, victims: Vec<usize>) -> Self {
        Self { victims, ..self }
    }

    /// Sets the ports that receive too much.
    #[must_use]
    pub fn with_receivers(self, receivers: Vec<usize>) -> Self {
        Self { receivers, ..self }
    }

    /// Sets the priorities.
    #[must_use]
    pub fn in_priorities(self, priorities: Priorities) -> Self {
        Self { priorities, ..self }
    }

    /// Replaces the action of its kind.
    #[must_use]
    pub fn with_action(self, action: &str) -> Self {
        Self { action: action.to_owned(), ..self }
    }

    /// Sets whether it is harmless.
    #[must_use]
    pub fn harmless_if(self, harmless: bool) -> Self {
        self.harmless_if_known(Some(harmless))
    }

    /// The same if the samples tell.
    #[must_use]
    pub fn harmless_if_known(self, harmless: Option<bool>) -> Self {
        Self { harmless, ..self }
    }

    /// Whether it is known to be harmless.
    pub fn is_harmless(&self) -> bool {
        self.harmless == Some(true)
    }

    /// Sets a port where the effect shows.
    #[must_use]
    pub fn observed_at(self, port: usize) -> Self {
        Self { observed_at: Some(port), ..self }
    }

    /// Ports of its location, or else the port where it shows; empty if it may be anywhere.
    pub fn ports(&self, fabric: &Fabric) -> Vec<usize> {
        let ports = self.root.ports(fabric);
        if ports.is_empty() { self.observed_at.into_iter().collect() } else { ports }
    }

    /// Marks it as inferred.
    #[must_use]
    pub fn as_inferred(self) -> Self {
        Self { inferred: true, ..self }
    }

    /// Sets the path of the flows that show it.
    #[must_use]
    pub fn along(self, path: &Path) -> Self {
        Self { path: Some(path.clone()), ..self }
    }

    /// Sets the start, if the samples show it.
    #[must_use]
    pub fn began_at(self, began_ns: Option<i64>) -> Self {
        Self { began_ns, ..self }
    }
}
