//! A stored incident: the verdict of the detectors, its history, and the actions of operators, which the detectors
//! never overwrite.

use fabriclens_base::host_name::is_same;
use fabriclens_correlate::{Incident, Location};
use fabriclens_correlate::{IncidentKind, Scope};
use serde::{Deserialize, Serialize};

use crate::kernel_event::KernelEvent;
use crate::setting::WrongSetting;
use fabriclens_core::time::format_time;

/// Longest list of an incident; the explanation states the full number.
const LISTED: usize = 256;
/// Most causes besides the accused one.
const CONSIDERED: usize = 8;
/// Longest text of an incident, bytes.
const TEXT: usize = 4096;
/// Most entries of a history.
const MAX_ENTRIES: usize = 100;
/// Begins and ends closer than this are equal, ns.
const EXACT_NS: i64 = 3_000_000_000;

/// An event in the history of an incident.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// First seen.
    Opened,
    /// Ended before, but later samples show that it continues.
    Reopened,
    /// Late samples corrected it, or revealed it.
    Late,
    /// Split off from another incident.
    Split,
    /// The begin moved to an earlier time.
    Begin,
    /// The end moved.
    End,
    /// The kind changed.
    Kind,
    /// The location of the cause changed.
    Root,
    /// The severity changed.
    Severity,
    /// The culprits changed.
    Culprits,
    /// The victims changed.
    Victims,
    /// A setting of its place is not as expected.
    Setting,
    /// The kernel log of its host names a fault at the same time.
    KernelLog,
    /// Acknowledged by an operator.
    Acknowledged,
    /// An operator added a note.
    Noted,
    /// Silenced by an operator.
    Silenced,
    /// The silence ended.
    Unsilenced,
    /// Reclassified by an operator.
    Reclassified,
    /// Ended.
    Ended,
}

/// An entry of an incident's history.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Unix ns.
    pub at_ns: i64,
    /// Event.
    pub state: State,
    /// Details in words; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Author, time and note of an operator's action.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct OperatorNote {
    /// Unix ns.
    pub at_ns: i64,
    /// Author; may be empty.
    pub by: String,
    /// Note; may be empty.
    pub note: String,
}

/// An operator's classification of an incident.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub enum Classification {
    /// Not a problem.
    NotAProblem,
    /// Another kind.
    Kind(IncidentKind),
}

/// Text of [`Classification::NotAProblem`].
const NOT_A_PROBLEM: &str = "not_a_problem";

impl TryFrom<String> for Classification {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == NOT_A_PROBLEM {
            return Ok(Self::NotAProblem);
        }
        let kind = serde_json::from_value(serde_json::Value::String(text));
        kind.map(Self::Kind).map_err(|e| format!("{e}, or `{NOT_A_PROBLEM}`"))
    }
}

impl From<Classification> for String {
    fn from(judged: Classification) -> Self {
        match judged {
            Classification::NotAProblem => NOT_A_PROBLEM.to_owned(),
            Classification::Kind(kind) => kind_text(kind),
        }
    }
}

/// A classification with its author.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Reclassified {
    /// Classification.
    pub kind: Classification,
    /// Author, time and note.
    #[serde(flatten)]
    pub note: OperatorNote,
}

/// A stored incident.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Record {
    /// Verdict of the detectors.
    #[serde(flatten)]
    pub incident: Incident,
    /// ID of the first incident in a series of incidents of one kind at one location in close succession.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurrence_of: Option<String>,
    /// Number of earlier incidents in that series.
    #[serde(default)]
    pub recurrences: u32,
    /// Acknowledgement by an operator.
    #[serde(default)]
    pub acknowledged: Option<OperatorNote>,
    /// Reclassification by an operator.
    #[serde(default)]
    pub reclassified: Option<Reclassified>,
    /// It had already ended when late samples revealed it, so no notification was sent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub found_late: bool,
    /// Begin according to late samples, Unix ns; the live evaluation does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<i64>,
    /// Settings of its place that were wrong while it was open, the latest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<WrongSetting>,
    /// Faults that the kernel log of its place named shortly before it or while it was open, those that may be the reason first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_log: Vec<KernelEvent>,
    /// History in order.
    pub history: Vec<HistoryEntry>,
    /// Time of the last update, Unix ns.
    pub seen_ns: i64,
}

impl Record {
    /// Creates a record of a new incident.
    pub fn new(incident: Incident, now_ns: i64) -> Self {
        let mut record = Self {
            incident: within_limits(incident),
            recurrence_of: None,
            recurrences: 0,
            acknowledged: None,
            reclassified: None,
            found_late: false,
            began_ns: None,
            settings: Vec::new(),
            kernel_log: Vec::new(),
            history: Vec::new(),
            seen_ns: now_ns,
        };
        record.note(now_ns, State::Opened, record.words());
        if let Some(id) = &record.incident.split_from {
            record.note(now_ns, State::Split, format!("from {id}"));
        }
        if record.incident.end_ns.is_some() {
            record.note(now_ns, State::Ended, String::new());
        }
        record
    }

    /// Updates the verdict; returns the changes in substance.
    pub(super) fn update(&mut self, mut incident: Incident, now_ns: i64) -> Vec<State> {
        incident.start_ns = incident.start_ns.min(self.began_ns.unwrap_or(i64::MAX));
        let (old, new) = (std::mem::replace(&mut self.incident, within_limits(incident)), &self.incident);
        let mut states = Vec::new();
        let mut changed = |state, differs: bool, detail: String| {
            if differs {
                states.push((state, detail));
            }
        };
        changed(State::Reopened, old.end_ns.is_some() && new.end_ns.is_none(), String::new());
        let changed_verdict = old.kind != new.kind || old.root != new.root;
        let earlier = !changed_verdict && new.start_ns <= old.start_ns - EXACT_NS;
        changed(State::Begin, earlier, moved(new.start_ns, old.start_ns));
        changed(State::Kind, old.kind != new.kind, format!("{}, was {}", kind_text(new.kind), kind_text(old.kind)));
        changed(State::Root, old.root != new.root, format!("{}, was {}", root_text(&new.root), root_text(&old.root)));
        changed(State::Severity, old.severity != new.severity, new.severity.name().to_owned());
        changed(State::Culprits, !same(&old.culprit_jobs, &new.culprit_jobs), new.culprit_jobs.join(", "));
        changed(State::Victims, !same(&old.victim_jobs, &new.victim_jobs), new.victim_jobs.join(", "));
        let part_of = new.merged_into.as_ref().map_or_else(String::new, |id| format!("part of {id}"));
        changed(State::Ended, old.end_ns.is_none() && new.end_ns.is_some(), part_of);
        if let (Some(was), Some(is)) = (old.end_ns, new.end_ns) {
            changed(State::End, (was - is).abs() >= EXACT_NS, moved(is, was));
        }
        self.seen_ns = now_ns;
        for (state, detail) in &mut states {
            self.note(now_ns, *state, std::mem::take(detail));
        }
        states.into_iter().map(|(state, _)| state).collect()
    }

    /// Applies a correction from late samples; returns the changes in substance.
    pub(super) fn correct(&mut self, incident: Incident, now_ns: i64, why: &str) -> Vec<State> {
        let mut states = self.clone().update(incident.clone(), now_ns);
        if !states.is_empty() {
            if incident.start_ns < self.incident.start_ns {
                self.began_ns = Some(incident.start_ns);
            }
            self.note(now_ns, State::Late, why.to_owned());
            states = self.update(incident, now_ns);
            states.insert(0, State::Late);
        }
        states
    }

    /// Adds an entry to the history. In a long history, changes of victims and culprits are removed first.
    pub(super) fn note(&mut self, at_ns: i64, state: State, mut detail: String) {
        shorten(&mut detail);
        if self.history.len() >= MAX_ENTRIES {
            let minor = |m: &HistoryEntry| matches!(m.state, State::Victims | State::Culprits);
            let at = self.history.iter().position(minor).unwrap_or(1);
            self.history.remove(at);
        }
        self.history.push(HistoryEntry { at_ns, state, detail });
    }

    /// ID of the series of recurring incidents that it belongs to.
    pub fn thread(&self) -> &str {
        self.recurrence_of.as_deref().unwrap_or(&self.incident.id)
    }

    /// Effective kind: an operator's classification outranks the detectors. `None` for not a problem.
    pub fn kind(&self) -> Option<IncidentKind> {
        match &self.reclassified {
            None => Some(self.incident.kind),
            Some(Reclassified { kind: Classification::Kind(kind), .. }) => Some(*kind),
            Some(Reclassified { kind: Classification::NotAProblem, .. }) => None,
        }
    }

    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.incident.end_ns.is_none()
    }

    /// Kind and location in words: `pfc_storm at h3 port 1`.
    pub fn words(&self) -> String {
        format!("{} at {}", kind_text(self.kind().unwrap_or(self.incident.kind)), root_text(&self.incident.root))
    }

    /// Whether a node is its cause, an end of it, or has a port among the victims.
    pub fn touches(&self, node: &str) -> bool {
        let of = |place: &Location| match place {
            Location::Port { node: n, .. } | Location::Switch { node: n } | Location::Host { node: n } => {
                is_same(n, node)
            }
            Location::Link { a, b, .. } => is_same(a, node) || is_same(b, node),
            Location::Job { .. } | Location::Fabric => false,
        };
        of(&self.incident.root) || self.incident.victim_ports.iter().any(of)
    }

    /// Role of a job in the incident: `culprit` or `victim`.
    pub fn role(&self, job: &str) -> Option<&'static str> {
        let incident = &self.incident;
        // A job that waits for its own ranks accuses nobody.
        let accuses = incident.kind.spec().scope == Scope::Network;
        let root = accuses && matches!(&incident.root, Location::Job { job: j, .. } if j == job);
        if root || incident.culprit_jobs.iter().any(|j| j == job) {
            Some("culprit")
        } else {
            incident.victim_jobs.iter().any(|j| j == job).then_some("victim")
        }
    }
}

/// Kind as written by the API.
pub fn kind_text(kind: IncidentKind) -> String {
    // Variants without fields always serialize to a string.
    serde_json::to_value(kind).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Node with its port, if known.
fn end_text(node: &str, port: &str) -> String {
    if port.is_empty() { node.to_owned() } else { format!("{node} port {port}") }
}

/// Location in words: `h3 port 1`, `link leaf1 port 5 - spine2 port 1`.
pub fn root_text(place: &Location) -> String {
    match place {
        Location::Port { node, port, .. } => format!("{node} port {port}"),
        Location::Link { a, a_port, b, b_port } => format!("link {} - {}", end_text(a, a_port), end_text(b, b_port)),
        Location::Switch { node } => format!("switch {node}"),
        Location::Host { node } => format!("host {node}"),
        Location::Job { job, .. } => format!("job {job}"),
        Location::Fabric => "fabric".to_owned(),
    }
}

/// Location as labels of a series or alert: `root_type` and the names.
pub fn root_labels(place: &Location) -> Vec<(&'static str, String)> {
    let of = |kind: &str, rest: &[(&'static str, &String)]| {
        let rest = rest.iter().map(|(name, value)| (*name, (*value).clone()));
        std::iter::once(("root_type", kind.to_owned())).chain(rest).collect()
    };
    match place {
        Location::Port { node, port, .. } => of("port", &[("node", node), ("port", port)]),
        Location::Link { a, a_port, b, b_port } => {
            of("link", &[("node", a), ("port", a_port), ("peer", b), ("peer_port", b_port)])
        }
        Location::Switch { node } => of("switch", &[("node", node)]),
        Location::Host { node } => of("host", &[("node", node)]),
        Location::Job { job, .. } => of("job", &[("job_id", job)]),
        Location::Fabric => of("fabric", &[]),
    }
}

fn moved(is_ns: i64, was_ns: i64) -> String {
    let [is, was] = [is_ns, was_ns].map(|ns| format_time(ns / 1_000_000));
    format!("{is}, was {was}")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn same(some: &[String], others: &[String]) -> bool {
    some.len() == others.len() && some.iter().all(|job| others.contains(job))
}

/// Enforces the limits, and drops numbers that JSON cannot express.
fn within_limits(mut incident: Incident) -> Incident {
    incident.evidence.retain(|e| e.value.is_finite() && e.threshold.is_finite());
    incident.evidence.truncate(LISTED);
    incident.culprit_jobs.truncate(LISTED);
    incident.victim_jobs.truncate(LISTED);
    incident.victim_ports.truncate(LISTED);
    incident.senders.truncate(LISTED);
    // A path of nine switches has eleven ports.
    incident.path = incident.path.filter(|path| path.ports.len() <= LISTED);
    incident.low_before = incident.low_before.into_iter().filter(|low| low.1.is_finite()).take(LISTED).collect();
    incident.considered.retain(|cause| cause.confidence.is_finite() && cause.found_in.is_finite());
    incident.considered.truncate(CONSIDERED);
    incident.considered.iter_mut().for_each(|cause| shorten(&mut cause.explanation));
    shorten(&mut incident.explanation);
    shorten(&mut incident.action);
    if !incident.confidence.is_finite() {
        incident.confidence = 0.0;
    }
    incident
}

fn shorten(text: &mut String) {
    if text.len() > TEXT {
        let end = (0..=TEXT).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}
