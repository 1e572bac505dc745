//! Scores the incidents of a back-test.
//!
//! Of the incidents that overlap the fault (5 samples before to 20 after) the one with the highest confidence is the answer.
//! Incidents outside of it are false, and so is any of a run without a fault, except congestion on busy links.

use super::ground_truth::Truth;
use super::unrelated;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Right incident kinds for each kind of fault.
const RIGHT: [(&str, &[&str]); 8] = [
    ("incast", &["incast"]),
    ("slow_receiver", &["slow_receiver"]),
    ("pfc_storm", &["pfc_storm"]),
    ("degraded_uplink", &["degraded_link"]),
    ("lossy_link", &["lossy_link"]),
    ("ecmp_collision", &["ecmp_collision"]),
    ("ecn_misconfig", &["ecn_misconfigured"]),
    ("storage_burst", &["noisy_neighbour", "incast"]),
];
/// Incident kinds that are right for busy links.
const BUSY: [&str; 2] = ["fabric_congestion", "uplink_congestion"];
/// Name of no answer.
pub const NOTHING: &str = "nothing";

/// Answer of a back-test.
#[derive(serde::Deserialize)]
pub struct Answer {
    /// Incidents, in any order.
    pub incidents: Vec<Incident>,
}

/// The scored fields of an incident.
#[derive(serde::Deserialize)]
pub struct Incident {
    kind: String,
    start_ns: i64,
    detected_ns: i64,
    end_ns: Option<i64>,
    confidence: f64,
    root: Value,
    culprit_jobs: Vec<String>,
    victim_jobs: Vec<String>,
    evidence: Vec<Evidence>,
}

#[derive(serde::Deserialize)]
struct Evidence {
    at: String,
}

impl Incident {
    /// Whether it belongs to the unrelated part of the fabric.
    pub fn is_unrelated(&self) -> bool {
        unrelated::contains(&self.root, self.evidence.first().map_or("", |first| &first.at))
    }
}

/// Sums over runs.
#[derive(Default)]
pub struct Tally {
    /// All runs.
    pub runs: usize,
    /// Runs with a fault that had to be detected.
    pub scored: usize,
    /// Harmless faults without an incident.
    pub quiet: usize,
    /// Number of right kinds, locations and culprits.
    pub right: [usize; 3],
    /// Victims: true positives, false positives, false negatives.
    pub victims: [usize; 3],
    /// False incidents.
    pub wrong: usize,
    /// Ports times observed days.
    pub port_days: f64,
    /// Samples from the begin of a fault to its incident.
    pub late: Vec<f64>,
    /// Confusion matrix: count by true and answered kind.
    pub confusion: BTreeMap<(String, String), usize>,
}

fn right(kind: &str) -> &'static [&'static str] {
    RIGHT.iter().find(|(k, _)| *k == kind).map_or(&[], |(_, right)| right)
}

/// Whether an answer is right.
pub fn is_right(kind: &str, answer: &str) -> bool {
    right(kind).contains(&answer)
}

impl Tally {
    /// Adds a run; describes the answer.
    pub fn add(&mut self, truth: &Truth, incidents: &[Incident], every: usize, port_seconds: f64) -> String {
        self.runs += 1;
        self.port_days += port_seconds / 86_400.0;
        let Some(fault) = &truth.fault else {
            let fair = |i: &&Incident| truth.kind == "busy" && BUSY.contains(&i.kind.as_str());
            let wrong: Vec<&str> = incidents.iter().filter(|i| !fair(i)).map(|i| i.kind.as_str()).collect();
            self.wrong += wrong.len();
            self.note(&truth.kind, wrong.first().unwrap_or(&NOTHING));
            return if wrong.is_empty() { NOTHING.to_owned() } else { format!("FALSE {}", wrong.join(", ")) };
        };
        let tick_ns = truth.tick_ns * every as i64;
        let [begin, end] = [fault.time_ns[0] - 5 * tick_ns, fault.time_ns[1] + 20 * tick_ns];
        let over = |i: &&Incident| i.start_ns <= end && i.end_ns.unwrap_or(i64::MAX) >= begin;
        let over: Vec<&Incident> = incidents.iter().filter(over).collect();
        self.wrong += incidents.len() - over.len();
        if over.is_empty() && truth.harmless() {
            self.quiet += 1;
            return format!("{NOTHING}, and nobody suffered");
        }
        let job = |id: &String| id.split('#').next().unwrap_or_default().to_owned();
        let named: BTreeSet<String> = over.iter().flat_map(|i| &i.victim_jobs).map(job).collect();
        let named: BTreeSet<String> =
            named.into_iter().filter(|j| !truth.marginal.contains(j) && j != "background").collect();
        self.scored += 1;
        self.victims[0] += named.intersection(&truth.victims).count();
        self.victims[1] += named.difference(&truth.victims).count();
        self.victims[2] += truth.victims.difference(&named).count();
        // Of equal confidence the first, as the tracker takes it.
        let surest = |a: &'_ &Incident, b: &'_ &Incident| a.confidence.total_cmp(&b.confidence);
        let Some(answer) = over.iter().rev().copied().max_by(surest) else {
            self.note(&truth.kind, NOTHING);
            return "MISSED".to_owned();
        };
        self.note(&truth.kind, &answer.kind);
        let kind = is_right(&truth.kind, &answer.kind);
        let root = truth.is_root(&answer.root);
        let culprit = truth.is_culprit(&answer.culprit_jobs.iter().map(job).collect(), root);
        for (sum, right) in self.right.iter_mut().zip([kind, root, culprit]) {
            *sum += usize::from(right);
        }
        let late = (answer.detected_ns - fault.time_ns[0]) as f64 / tick_ns as f64;
        self.late.push(late);
        let mark = |right: bool| if right { "" } else { "WRONG " };
        format!(
            "{}{}, {}{}, {}by {:?}, victims {named:?} of {:?}, after {late:.0}",
            mark(kind),
            answer.kind,
            mark(root),
            answer.root,
            mark(culprit),
            answer.culprit_jobs,
            truth.victims
        )
    }

    fn note(&mut self, truth: &str, answer: &str) {
        *self.confusion.entry((truth.to_owned(), answer.to_owned())).or_default() += 1;
    }

    /// Harmonic mean of precision and recall of victims.
    pub fn victims_f1(&self) -> f64 {
        let [hit, wrong, missed] = self.victims.map(|n| n as f64);
        if hit > 0.0 { 2.0 * hit / (2.0 * hit + wrong + missed) } else { 0.0 }
    }

    /// Quantile of the samples until detection.
    pub fn late(&self, part: f64) -> f64 {
        let mut late = self.late.clone();
        late.sort_by(f64::total_cmp);
        let at = ((late.len() as f64 - 1.0) * part).round().max(0.0) as usize;
        late.get(at).copied().unwrap_or(f64::NAN)
    }
}
