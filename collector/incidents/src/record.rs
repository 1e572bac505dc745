//! An incident as the book keeps it: what the machine says, its history, and what people say, which the machine never
//! overwrites.

use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Location, Severity};
use serde::{Deserialize, Serialize};

use fabriclens_core::time::format_time;

/// Of each list of an incident; how many there were stays in its explanation.
const LISTED: usize = 256;
/// Bytes of each text of an incident.
const TEXT: usize = 4096;
/// Moments of a history.
const MOMENTS: usize = 100;
/// A begin or end that differs by less than this is the same, nanoseconds.
const EXACT_NS: i64 = 3_000_000_000;

/// What happened to an incident.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was seen first.
    Opened,
    /// It was over, and later data say that it is not.
    Reopened,
    /// Samples that came late were judged, and say other of it, or say that it was.
    Late,
    /// It was a part of another until then.
    Split,
    /// It began earlier than was thought.
    Begin,
    /// It ended at another time than was thought.
    End,
    /// It is of another kind than was thought.
    Kind,
    /// It begins elsewhere than was thought.
    Root,
    /// It is worse, or less bad.
    Severity,
    /// Others cause it.
    Culprits,
    /// Others suffer.
    Victims,
    /// Somebody looks after it.
    Acknowledged,
    /// Nobody is told of it for a while.
    Silenced,
    /// People are told again.
    Unsilenced,
    /// Somebody says what it really is.
    Reclassified,
    /// It is over.
    Ended,
}

/// A line of an incident's history.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// What happened.
    pub state: State,
    /// What it was then, in words; `""` if there is nothing to add.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// That somebody said something.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// Who; `""` if that was not said.
    pub by: String,
    /// `""` if nothing more was said.
    pub note: String,
}

/// What a person says that an incident is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub enum Judged {
    /// Nothing that anybody need look at.
    NotAProblem,
    /// Another kind.
    Kind(IncidentKind),
}

/// How [`Judged::NotAProblem`] is written.
const NOT_A_PROBLEM: &str = "not_a_problem";

impl TryFrom<String> for Judged {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == NOT_A_PROBLEM {
            return Ok(Self::NotAProblem);
        }
        let kind = serde_json::from_value(serde_json::Value::String(text));
        kind.map(Self::Kind).map_err(|e| format!("{e}, or `{NOT_A_PROBLEM}`"))
    }
}

impl From<Judged> for String {
    fn from(judged: Judged) -> Self {
        match judged {
            Judged::NotAProblem => NOT_A_PROBLEM.to_owned(),
            Judged::Kind(kind) => kind_text(kind),
        }
    }
}

/// A kind that a person gave.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Reclassified {
    /// What it is.
    pub kind: Judged,
    /// Who says so.
    #[serde(flatten)]
    pub said: Said,
}

/// See the module.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Record {
    /// What the machine says.
    #[serde(flatten)]
    pub incident: Incident,
    /// The first of a row of incidents of one kind in one place that followed each other closely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurrence_of: Option<String>,
    /// How many there were before it in that row.
    #[serde(default)]
    pub recurrences: u32,
    /// Who looks after it.
    #[serde(default)]
    pub acknowledged: Option<Said>,
    /// What somebody says that it is.
    #[serde(default)]
    pub reclassified: Option<Reclassified>,
    /// It was over when late samples told of it, so nobody was.
    #[serde(default, skip_serializing_if = "is_false")]
    pub found_late: bool,
    /// When it began by late samples, Unix nanoseconds; who watches it now does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<i64>,
    /// What happened to it, in order.
    pub history: Vec<Moment>,
    /// When it was told of last, Unix nanoseconds.
    pub seen_ns: i64,
}

impl Record {
    /// One that is new.
    pub fn new(incident: Incident, now_ns: i64) -> Self {
        let mut record = Self {
            incident: cut(incident),
            recurrence_of: None,
            recurrences: 0,
            acknowledged: None,
            reclassified: None,
            found_late: false,
            began_ns: None,
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

    /// Takes over what the machine says now; returns what that changes in substance.
    pub(super) fn update(&mut self, mut incident: Incident, now_ns: i64) -> Vec<State> {
        incident.start_ns = incident.start_ns.min(self.began_ns.unwrap_or(i64::MAX));
        let (old, new) = (std::mem::replace(&mut self.incident, cut(incident)), &self.incident);
        let mut states = Vec::new();
        let mut changed = |state, differs: bool, detail: String| {
            if differs {
                states.push((state, detail));
            }
        };
        changed(State::Reopened, old.end_ns.is_some() && new.end_ns.is_none(), String::new());
        let verdict = old.kind != new.kind || old.root != new.root;
        let earlier = !verdict && new.start_ns <= old.start_ns - EXACT_NS;
        changed(State::Begin, earlier, moved(new.start_ns, old.start_ns));
        changed(State::Kind, old.kind != new.kind, format!("{}, was {}", kind_text(new.kind), kind_text(old.kind)));
        changed(State::Root, old.root != new.root, format!("{}, was {}", root_text(&new.root), root_text(&old.root)));
        changed(State::Severity, old.severity != new.severity, severity_text(new.severity).to_owned());
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

    /// Takes over what late samples say; returns what that changes in substance.
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

    /// Adds to the history; when it is long, changes of who suffers leave it first.
    pub(super) fn note(&mut self, at_ns: i64, state: State, mut detail: String) {
        shorten(&mut detail);
        if self.history.len() >= MOMENTS {
            let minor = |m: &Moment| matches!(m.state, State::Victims | State::Culprits);
            let at = self.history.iter().position(minor).unwrap_or(1);
            self.history.remove(at);
        }
        self.history.push(Moment { at_ns, state, detail });
    }

    /// The name of the row of incidents that it belongs to.
    pub fn thread(&self) -> &str {
        self.recurrence_of.as_deref().unwrap_or(&self.incident.id)
    }

    /// The kind that counts: a person's word is above the machine's. `None`: no problem.
    pub fn kind(&self) -> Option<IncidentKind> {
        match &self.reclassified {
            None => Some(self.incident.kind),
            Some(Reclassified { kind: Judged::Kind(kind), .. }) => Some(*kind),
            Some(Reclassified { kind: Judged::NotAProblem, .. }) => None,
        }
    }

    /// Whether it goes on.
    pub fn is_open(&self) -> bool {
        self.incident.end_ns.is_none()
    }

    /// `pfc_storm at h3 port 1`
    pub fn words(&self) -> String {
        format!("{} at {}", kind_text(self.kind().unwrap_or(self.incident.kind)), root_text(&self.incident.root))
    }

    /// Whether a node is its root or an end of it, or has a port that it keeps from sending.
    pub fn touches(&self, node: &str) -> bool {
        let of = |place: &Location| match place {
            Location::Port { node: n, .. } | Location::Switch { node: n } | Location::Host { node: n } => n == node,
            Location::Link { a, b, .. } => a == node || b == node,
            Location::Job { .. } | Location::Fabric => false,
        };
        of(&self.incident.root) || self.incident.victim_ports.iter().any(of)
    }

    /// What a job has to do with it.
    pub fn role(&self, job: &str) -> Option<&'static str> {
        let incident = &self.incident;
        let root = matches!(&incident.root, Location::Job { job: j, .. } if j == job);
        if root || incident.culprit_jobs.iter().any(|j| j == job) {
            Some("culprit")
        } else {
            incident.victim_jobs.iter().any(|j| j == job).then_some("victim")
        }
    }
}

/// As the API writes it.
pub fn kind_text(kind: IncidentKind) -> String {
    // A kind without fields always has a name.
    serde_json::to_value(kind).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// As the API writes it.
pub fn severity_text(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// A node and its port, where that is known.
fn end_text(node: &str, port: &str) -> String {
    if port.is_empty() { node.to_owned() } else { format!("{node} port {port}") }
}

/// A place in words: `h3 port 1`, `link leaf1 port 5 - spine2 port 1`.
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

/// A place as labels of a series or an alert: `root_type`, and what names it.
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

/// Within bounds, and only numbers that JSON has: what is none speaks for nothing.
fn cut(mut incident: Incident) -> Incident {
    incident.evidence.retain(|e| e.value.is_finite() && e.threshold.is_finite());
    incident.evidence.truncate(LISTED);
    incident.culprit_jobs.truncate(LISTED);
    incident.victim_jobs.truncate(LISTED);
    incident.victim_ports.truncate(LISTED);
    incident.senders.truncate(LISTED);
    incident.low_before = incident.low_before.into_iter().filter(|low| low.1.is_finite()).take(LISTED).collect();
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
