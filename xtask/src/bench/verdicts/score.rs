//! Scores the incidents of a back-test.
//!
//! Of the incidents that overlap a fault (5 samples before to 20 after) and do not name another fault's place, the one with
//! the highest confidence is the answer. Incidents outside of all faults are false, and so is any of a run without a fault,
//! except congestion on busy links.

use super::ground_truth::{Fault, Truth};
use super::unrelated;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Right incident kinds for each kind of fault.
const RIGHT: [(&str, &[&str]); 17] = [
    ("incast", &["incast"]),
    ("slow_receiver", &["slow_receiver"]),
    ("pfc_storm", &["pfc_storm"]),
    ("degraded_uplink", &["degraded_link"]),
    ("lossy_link", &["lossy_link"]),
    ("ecmp_collision", &["ecmp_collision"]),
    ("ecn_misconfig", &["ecn_misconfigured"]),
    ("storage_burst", &["noisy_neighbour", "incast"]),
    ("host_slow", &["slow_receiver"]),
    ("link_flap", &["link_flap", "link_down"]),
    ("rail_switch_down", &["link_down"]),
    ("routing_imbalance", &["routing_imbalance", "ecmp_collision"]),
    ("stuck_receiver", &["slow_receiver", "pfc_storm", "credit_stall"]),
    ("link_down", &["link_down"]),
    ("straggler_rail", &["straggler_rail", "slow_receiver", "pcie_bottleneck"]),
    ("degraded_link", &["degraded_link"]),
    ("flapping_link", &["link_flap", "link_down"]),
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
    /// Thresholds that were read, if the program tells.
    #[serde(default)]
    pub thresholds_read: Option<Vec<String>>,
}

/// The scored fields of an incident.
#[derive(serde::Deserialize)]
pub struct Incident {
    /// Kind.
    pub kind: String,
    /// Begin, nanoseconds.
    pub start_ns: i64,
    detected_ns: i64,
    end_ns: Option<i64>,
    /// Probability that it is right.
    pub confidence: f64,
    /// Location.
    pub root: Value,
    /// Jobs that cause it.
    pub culprit_jobs: Vec<String>,
    /// Jobs that suffer.
    pub victim_jobs: Vec<String>,
    /// Ports that are kept from sending.
    #[serde(default)]
    pub victim_ports: Vec<Value>,
    evidence: Vec<Evidence>,
}

#[derive(serde::Deserialize)]
struct Evidence {
    at: String,
}

impl Incident {
    /// Whether it lasted at some time between two instants.
    pub fn overlaps(&self, [begin_ns, end_ns]: [i64; 2]) -> bool {
        self.start_ns <= end_ns && self.end_ns.unwrap_or(i64::MAX) >= begin_ns
    }

    /// Whether it belongs to the unrelated part of the fabric.
    pub fn is_unrelated(&self) -> bool {
        unrelated::contains(&self.root, self.evidence.first().map_or("", |first| &first.at))
    }
}

/// Sums over runs.
#[derive(Clone, Default)]
pub struct Tally {
    /// All runs.
    pub runs: usize,
    /// Faults that had to be detected.
    pub scored: usize,
    /// Runs with harmless faults, without an incident.
    pub quiet: usize,
    /// Number of right kinds, locations and culprits.
    pub right: [usize; 3],
    /// Victims: true positives, false positives, false negatives.
    pub victims: [usize; 3],
    /// False incidents.
    pub wrong: usize,
    /// Ports times observed days.
    pub port_days: f64,
    /// Hosts times observed weeks.
    pub host_weeks: f64,
    /// Confidence of each incident, and whether it was right.
    pub confidence: Vec<(f64, bool)>,
    /// False incidents by kind.
    pub false_kinds: BTreeMap<String, usize>,
    /// Incidents that are true of an ordinary event.
    pub fair: usize,
    /// Samples from the begin of a fault to its incident.
    pub late: Vec<f64>,
    /// Confusion matrix: count by true and answered kind.
    pub confusion: BTreeMap<(String, String), usize>,
}

impl<'a> FromIterator<&'a Tally> for Tally {
    /// The sum.
    fn from_iter<I: IntoIterator<Item = &'a Self>>(all: I) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.runs += one.runs;
            sum.scored += one.scored;
            sum.quiet += one.quiet;
            sum.right.iter_mut().zip(one.right).for_each(|(sum, one)| *sum += one);
            sum.victims.iter_mut().zip(one.victims).for_each(|(sum, one)| *sum += one);
            sum.wrong += one.wrong;
            sum.port_days += one.port_days;
            sum.host_weeks += one.host_weeks;
            sum.confidence.extend(&one.confidence);
            one.false_kinds.iter().for_each(|(kind, n)| *sum.false_kinds.entry(kind.clone()).or_default() += n);
            sum.fair += one.fair;
            sum.late.extend(&one.late);
            one.confusion.iter().for_each(|(pair, n)| *sum.confusion.entry(pair.clone()).or_default() += n);
        }
        sum
    }
}

fn right(kind: &str) -> &'static [&'static str] {
    RIGHT.iter().find(|(k, _)| *k == kind).map_or(&[], |(_, right)| right)
}

/// Whether an answer is right.
pub fn is_right(kind: &str, answer: &str) -> bool {
    right(kind).contains(&answer)
}

/// Id of a job without its activity.
fn job(id: &str) -> String {
    id.split('#').next().unwrap_or_default().to_owned()
}

impl Tally {
    /// Whether the same kinds, locations, culprits and victims are named, and as many false incidents.
    pub fn names_the_same(&self, other: &Self) -> bool {
        let named = |tally: &Self| (tally.scored, tally.quiet, tally.right, tally.victims, tally.wrong);
        named(self) == named(other) && self.confusion == other.confusion
    }

    /// Adds a run; describes the answers.
    pub fn add(&mut self, truth: &Truth, incidents: &[Incident], every: usize, port_seconds: f64) -> String {
        self.count(truth, port_seconds);
        if truth.faults.is_empty() {
            let fair = |i: &&Incident| truth.kind == "busy" && BUSY.contains(&i.kind.as_str());
            let wrong: Vec<&Incident> = incidents.iter().filter(|i| !fair(i)).collect();
            wrong.iter().for_each(|i| self.add_false(i));
            self.note(&truth.kind, wrong.first().map_or(NOTHING, |i| &i.kind));
            let kinds: Vec<&str> = wrong.iter().map(|i| i.kind.as_str()).collect();
            return if wrong.is_empty() { NOTHING.to_owned() } else { format!("FALSE {}", kinds.join(", ")) };
        }
        let tick_ns = truth.tick_ns * every as i64;
        let near = |fault: &Fault| [fault.time_ns[0] - 5 * tick_ns, fault.time_ns[1] + 20 * tick_ns];
        let (over, outside): (Vec<&Incident>, Vec<&Incident>) =
            incidents.iter().partition(|i| truth.faults.iter().any(|fault| i.overlaps(near(fault))));
        outside.into_iter().for_each(|i| self.add_false(i));
        if over.is_empty() && truth.harmless() {
            self.quiet += 1;
            return format!("{NOTHING}, and nobody suffered");
        }
        let named: BTreeSet<String> = over.iter().flat_map(|i| &i.victim_jobs).map(|id| job(id)).collect();
        let named: BTreeSet<String> =
            named.into_iter().filter(|j| !truth.marginal.contains(j) && j != "background").collect();
        self.victims[0] += named.intersection(&truth.victims).count();
        self.victims[1] += named.difference(&truth.victims).count();
        self.victims[2] += truth.victims.difference(&named).count();
        let answers: Vec<String> = truth
            .faults
            .iter()
            .map(|fault| {
                let elsewhere = |i: &Incident| truth.faults.iter().any(|other| truth.is_root(other, &i.root));
                let own = |i: &&&Incident| truth.is_root(fault, &i.root) || !elsewhere(i);
                let own: Vec<&Incident> =
                    over.iter().filter(|i| i.overlaps(near(fault))).filter(own).copied().collect();
                self.add_answer(truth, fault, &own, tick_ns)
            })
            .collect();
        format!("{}; victims {named:?} of {:?}", answers.join("; "), truth.victims)
    }

    /// Scores the incidents that may be the answer to a fault.
    fn add_answer(&mut self, truth: &Truth, fault: &Fault, over: &[&Incident], tick_ns: i64) -> String {
        self.scored += 1;
        for incident in over {
            let right = is_right(&fault.kind, &incident.kind) && truth.is_root(fault, &incident.root);
            self.confidence.push((incident.confidence, right));
        }
        // Of equal confidence the first, as the tracker takes it.
        let surest = |a: &'_ &Incident, b: &'_ &Incident| a.confidence.total_cmp(&b.confidence);
        let Some(answer) = over.iter().rev().copied().max_by(surest) else {
            self.note(&fault.kind, NOTHING);
            return "MISSED".to_owned();
        };
        self.note(&fault.kind, &answer.kind);
        let kind = is_right(&fault.kind, &answer.kind);
        let root = truth.is_root(fault, &answer.root);
        let culprit = Truth::is_culprit(fault, &answer.culprit_jobs.iter().map(|id| job(id)).collect(), root);
        for (sum, right) in self.right.iter_mut().zip([kind, root, culprit]) {
            *sum += usize::from(right);
        }
        let late = (answer.detected_ns - fault.time_ns[0]) as f64 / tick_ns as f64;
        self.late.push(late);
        let mark = |right: bool| if right { "" } else { "WRONG " };
        format!(
            "{}{}, {}{}, {}by {:?}, after {late:.0}",
            mark(kind),
            answer.kind,
            mark(root),
            answer.root,
            mark(culprit),
            answer.culprit_jobs,
        )
    }

    /// Counts a run and how much of a fleet it stands for.
    pub fn count(&mut self, truth: &Truth, port_seconds: f64) {
        self.runs += 1;
        self.port_days += port_seconds / 86_400.0;
        let ports = truth.peers.keys().filter(|(node, _)| truth.hosts.contains(node)).count();
        let share = truth.hosts.len() as f64 / truth.peers.len().max(ports).max(1) as f64;
        self.host_weeks += port_seconds * share / (7.0 * 86_400.0);
    }

    /// Counts a false incident.
    pub fn add_false(&mut self, incident: &Incident) {
        self.wrong += 1;
        self.confidence.push((incident.confidence, false));
        *self.false_kinds.entry(incident.kind.clone()).or_default() += 1;
    }

    /// Counts an answer in the confusion matrix.
    pub fn note(&mut self, truth: &str, answer: &str) {
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
