//! What a detector says.

use crate::model::fabric::Fabric;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::priority::Priorities;
use serde::{Deserialize, Serialize};

/// A number that speaks for a finding.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Of which metric.
    pub metric: String,
    /// Where.
    pub at: String,
    /// What was measured.
    pub value: f64,
    /// Beyond which it counts.
    pub threshold: f64,
    /// First and last instant of the measurement, Unix nanoseconds.
    pub window_ns: [i64; 2],
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub kind: IncidentKind,
    /// Where.
    pub root: LocationId,
    /// 0 to 1.
    pub confidence: f64,
    /// Jobs that cause it.
    pub culprits: Vec<usize>,
    /// Host ports that get more than they can take, or its marks.
    pub receivers: Vec<usize>,
    /// Priorities in which it holds others back.
    pub priorities: Priorities,
    /// When it began, Unix nanoseconds, where that shows; otherwise with the stretch that was judged.
    pub began_ns: Option<i64>,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// In plain words.
    pub explanation: String,
    /// What to do next.
    pub action: String,
    /// It is not seen at its place, but follows from how traffic goes, which other trouble may bend.
    pub inferred: bool,
    /// A port that it is felt at, where its place has none.
    pub observed_at: Option<usize>,
}

impl Finding {
    /// One that no job causes, and whose begin does not show.
    pub fn new(kind: IncidentKind, root: LocationId, confidence: f64, evidence: Evidence, explanation: String) -> Self {
        let evidence = vec![evidence];
        Self {
            kind,
            root,
            confidence,
            culprits: Vec::new(),
            receivers: Vec::new(),
            priorities: Priorities::UNKNOWN,
            began_ns: None,
            evidence,
            explanation,
            action: kind.spec().action.to_owned(),
            inferred: !kind.is_observed(),
            observed_at: None,
        }
    }

    /// Whether it is of the same kind and place as another.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.kind == other.kind && self.root == other.root
    }

    /// Whether it is of all links of a node, or of many nodes, each of which may go on alone.
    pub fn is_aggregate(&self) -> bool {
        self.kind.spec().may_spread
            && matches!(self.root, LocationId::Switch(_) | LocationId::Host(_) | LocationId::Fabric)
    }

    /// Whether a host, or the link to one, is down: in a large fabric one always reboots, which concerns its own job alone.
    pub fn is_host_down(&self, fabric: &Fabric) -> bool {
        self.kind == IncidentKind::LinkDown
            && matches!(self.root, LocationId::Host(_) | LocationId::Port(_) | LocationId::Link(_))
            && self.root.ports(fabric).into_iter().any(|port| fabric.is_host(port))
    }

    /// The same, with one more number that speaks for it.
    #[must_use]
    pub fn with_evidence(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// The same, caused by jobs.
    #[must_use]
    pub fn with_culprits(self, culprits: Vec<usize>) -> Self {
        Self { culprits, ..self }
    }

    /// The same, where these get what is too much.
    #[must_use]
    pub fn with_receivers(self, receivers: Vec<usize>) -> Self {
        Self { receivers, ..self }
    }

    /// The same, in these priorities.
    #[must_use]
    pub fn in_priorities(self, priorities: Priorities) -> Self {
        Self { priorities, ..self }
    }

    /// The same, where something else than usual for its kind is to be done.
    #[must_use]
    pub fn with_action(self, action: &str) -> Self {
        Self { action: action.to_owned(), ..self }
    }

    /// The same, felt at a port.
    #[must_use]
    pub fn observed_at(self, port: usize) -> Self {
        Self { observed_at: Some(port), ..self }
    }

    /// The ports of its place, or else where it is felt; none: it may be everywhere.
    pub fn ports(&self, fabric: &Fabric) -> Vec<usize> {
        let ports = self.root.ports(fabric);
        if ports.is_empty() { self.observed_at.into_iter().collect() } else { ports }
    }

    /// The same, as one that only follows from how traffic goes.
    #[must_use]
    pub fn as_inferred(self) -> Self {
        Self { inferred: true, ..self }
    }

    /// The same, whose begin shows.
    #[must_use]
    pub fn began_at(self, began_ns: Option<i64>) -> Self {
        Self { began_ns, ..self }
    }
}
